"""One process at a time writes in a folder, and one that was killed keeps nobody out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import as_pairs, snapshot, tiny_settings

from groc import checkpoint
from groc.cli import main
from groc.commands import data, demo
from groc.compute import Group
from groc.errors import GrocError
from groc.files import alone, in_turn, write_text
from groc.results import RESULT
from groc.running import LOCK, START, may_resume

pytest.importorskip("fcntl", reason="Windows has no such locks")
LOCKING = "import sys; from groc.files import *\nwith alone(Path(sys.argv[1]), GrocError()): print('locked'), input()"


def training(corpus: Path, out: Path, *more: str) -> list[str]:
    return ["train", "tiny", *as_pairs(tiny_settings("tied")), "--corpus", str(corpus), "--out", str(out), *more]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """By another process, which is killed at the end."""
    command = [sys.executable, "-u", "-c", LOCKING, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        other.kill()


def test_a_run_that_is_being_trained_is_not_resumed_beside_that_but_when_it_was_killed(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    endless = training(corpus_folder, out, "training.epochs=1000000", "training.stop_after=0")
    running = subprocess.Popen([sys.executable, "-m", "groc", *endless], stderr=subprocess.DEVNULL)
    try:
        while not (out / checkpoint.METRICS).exists():
            assert running.poll() is None
            time.sleep(0.01)
        assert main([*endless, "--resume", "training.epochs=1"]) == 1
        told = "wait for its end, or stop it and then go on with --resume; for another run choose another --out."
        assert f"Another process is training in {out}: {told}" in said(capsys)
        assert running.poll() is None
    finally:
        running.kill()
        running.wait()
    epochs = len((out / checkpoint.METRICS).read_text().splitlines()) + 1
    assert main([*endless, f"training.epochs={epochs}", "--resume"]) == 0


def test_the_same_command_twice_at_once_trains_once(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one came first, but has not written anything yet."""
    out = tmp_path / "run"
    with locked(out / LOCK):
        assert main(training(corpus_folder, out)) == 1
        assert "Another process is training" in said(capsys)
        assert [path.name for path in out.iterdir()] == [LOCK]
    assert main(training(corpus_folder, out)) == 0


def test_what_another_process_trained_in_the_meantime_is_kept(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from groc.commands import train

    command, build = training(corpus_folder, tmp_path / "run"), train.build
    left: list[dict[str, str]] = []

    def build_slowly(*arguments: Any) -> Any:
        monkeypatch.setattr(train, "build", build)
        assert main(command) == 0
        left.append(snapshot(tmp_path / "run"))
        return build(*arguments)

    monkeypatch.setattr(train, "build", build_slowly)
    assert main(command) == 1
    assert "is not empty: add --resume to go on with that run" in said(capsys)
    assert [snapshot(tmp_path / "run")] == left


def test_what_is_begun_anew_is_the_start_of_a_run_and_nobody_s_but_its_own(tmp_path: Path) -> None:
    run, group = tmp_path / "run", Group()
    run.mkdir()
    for name in (LOCK, *START, f".{checkpoint.STATE}.17.tmp"):
        (run / name).touch()
    with locked(run / LOCK), pytest.raises(GrocError, match="Another process is training"):
        may_resume(run, group)
    for name in (checkpoint.WEIGHTS, "letter.txt", ".letter.txt.17.tmp"):
        (run / name).touch()
        before = snapshot(run)
        with pytest.raises(GrocError, match=r"holds no state to go on from: delete it, or move it elsewhere, and run"):
            may_resume(run, group)
        assert snapshot(run) == before
        (run / name).unlink()
    assert not may_resume(run, group)
    assert [path.name for path in run.iterdir()] == [LOCK]

    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / checkpoint.CARD).touch()
    with pytest.raises(GrocError, match="holds no state"):
        may_resume(tmp_path / "foreign", group)
    assert [*snapshot(tmp_path / "foreign")] == [checkpoint.CARD]


def test_of_two_corpora_of_one_name_the_first_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("".join(f"line {number}\n" for number in range(100)))
    prepare_alone = data.prepare
    left: list[dict[str, str]] = []

    def command(seed: int, *more: str) -> list[str]:
        budgets = ["--train", "60", "--valid", "20", "--test", "20"]
        return ["data", "prepare", str(text), "--out", str(out), "--seed", str(seed), *budgets, *more]

    def prepare_slowly(*arguments: Any) -> None:
        monkeypatch.setattr(data, "prepare", prepare_alone)
        assert main(command(1)) == 0
        left.append(snapshot(out))
        prepare_alone(*arguments)

    monkeypatch.setattr(data, "prepare", prepare_slowly)
    assert main(command(2)) == 1
    assert "is there already" in said(capsys)
    assert [snapshot(out)] == left
    with in_turn(out):  # as another process that is about to write
        second = subprocess.Popen([sys.executable, "-m", "groc", *command(2, "--name", "other")])
        try:
            while not [*out.glob(".groc-*/other/*.txt")]:
                assert second.poll() is None
                time.sleep(0.01)
            time.sleep(0.5)
            assert not (out / "other").exists()
        except AssertionError:
            second.kill()
            raise
    assert second.wait(120) == 0
    assert {row["set"] for row in json.loads((out / data.STATISTICS).read_text())["texts"]} == {"text", "other"}


def test_adapting_too(corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(training(corpus_folder, tmp_path / "run")) == 0
    with locked(tmp_path / "out" / LOCK):
        assert main(["adapt", str(tmp_path / "run"), str(corpus_folder), "--out", str(tmp_path / "out")]) == 1
    assert "Another process is training" in said(capsys)


def filling(corpus: Path, folder: Path) -> list[str]:
    """The command that fills a cell of a table."""
    (folder / "corpora").mkdir()
    (folder / "corpora" / "penn").symlink_to(corpus)
    settings = {key: value for key, value in tiny_settings("tied").items() if key not in ("name", "output.kind")}
    folders = [f"--{name}={folder / name}" for name in ("results", "runs")]
    command = ["paper", "main", "--run", "--dataset", "penn", "--model", "tied", *folders, *as_pairs(settings)]
    return [*command, "--corpus-root", str(folder / "corpora")]


@pytest.mark.parametrize("begun", [False, True])
def test_who_fills_a_table_meanwhile_is_told_what_that_command_can_do(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], begun: bool
) -> None:
    """The other process has saved its first state, or has not come so far."""
    command = filling(corpus_folder, tmp_path)
    assert main(command) == 0
    shutil.rmtree(tmp_path / "results")
    (run,) = (tmp_path / "runs").iterdir()
    for name in {RESULT} if begun else {path.name for path in run.iterdir()} - {LOCK, *START}:
        (run / name).unlink()
    with locked(run / LOCK):
        assert main(command) == 1
    told = "wait for its end, or stop it, and then give the same command again."
    assert said(capsys) == f"groc: Another process is training in {run}: {told}"
    assert main(command) == 0


def test_who_fills_a_table_is_told_to_go_on_where_another_process_has_trained_meanwhile(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from groc.commands import train

    command, build = filling(corpus_folder, tmp_path), train.build

    def build_slowly(*arguments: Any) -> Any:
        monkeypatch.setattr(train, "build", build)
        assert main(command) == 0
        return build(*arguments)

    monkeypatch.setattr(train, "build", build_slowly)
    assert main(command) == 1
    (run,) = (tmp_path / "runs").iterdir()
    told = "another process has trained there: give the same command again."
    assert said(capsys) == f"groc: {run} is not empty: {told}"
    assert main(command) == 0


def test_a_demo_that_is_being_made_is_not_cleared_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.claim(tmp_path)
    (tmp_path / "demo.json").touch()
    with locked(tmp_path / demo.LOCK):
        assert main(["demo", "--out", str(tmp_path)]) == 1
    assert "Another demo is being made" in said(capsys)
    assert (tmp_path / "demo.json").exists()


def test_of_two_demos_that_begin_at_once_one_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes as the first claims the folder, and again as it has done so."""
    command, refused = ["demo", "--out", str(tmp_path / "out")], []

    def another(*_: Any) -> None:
        assert main(command) == 1
        refused.append(said(capsys))

    def write(path: Path, text: str) -> None:
        another()
        write_text(path, text)
        another()

    monkeypatch.setattr(demo, "write_text", write)
    monkeypatch.setattr(demo, "_make", another)
    assert main(command) == 0
    assert len(refused) == 3
    assert all("Another demo is being made" in line for line in refused)


def test_a_folder_may_be_entered_again(tmp_path: Path) -> None:
    for _ in range(2):
        with alone(tmp_path / "made" / "lock", GrocError("busy")):
            pass
