"""Several runs at the same time: all are trained and evaluated, and what time cuts off goes on."""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
from conftest import as_pairs, tiny_settings

from groc.checkpoint import METRICS
from groc.compute import Group
from groc.errors import GrocError
from groc.files import alone
from groc.results import RESULT
from groc.running import LOCK, START, may_resume

TOOLS = Path(__file__).parents[1] / "tools"


def jobs_file(tmp_path: Path, corpus: Path, glossary: Path, epochs: int) -> Path:
    jobs = {
        kind: ["tiny", "groc", str(corpus), *as_pairs({**tiny_settings(kind), "forms.lexicon": str(glossary)}),
               f"training.epochs={epochs}"]
        for kind in ("groc", "tied")
    }  # fmt: skip
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(jobs))
    return path


def side_by_side(jobs: Path, out: Path, *options: str) -> tuple[int, str]:
    """The exit status and the table. The tool is called in this process; what it starts are real ones."""
    table = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.dict(os.environ),  # into which it writes what its processes need to share a GPU
        redirect_stdout(table),
    ):
        patch.syspath_prepend(TOOLS)
        tool = importlib.import_module("side_by_side")
        patch.setattr(sys, "argv", ["side_by_side.py", str(jobs), "--out", str(out), *options])
        with pytest.raises(SystemExit) as ended:
            tool.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, table.getvalue()


@pytest.fixture(scope="module")
def done_once(tmp_path_factory: pytest.TempPathFactory, corpus_folder: Path, glossary_file: Path) -> Path:
    """Two runs of one epoch, one after the other, and the table that was printed."""
    folder = tmp_path_factory.mktemp("side_by_side")
    jobs = jobs_file(folder, corpus_folder, glossary_file, 1)
    status, table = side_by_side(jobs, folder / "runs", "--at-once", "1")
    assert status == 0
    (folder / "table").write_text(table)
    return folder


@pytest.fixture
def done(done_once: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return shutil.copytree(done_once, tmp_path / "done")


def epochs_of(table: str) -> list[str]:
    return [line.split("|")[2].strip() for line in table.splitlines()[2:]]


def test_every_run_is_trained_and_evaluated_and_goes_on_where_it_was(
    done: Path, corpus_folder: Path, glossary_file: Path
) -> None:
    table = (done / "table").read_text()
    for epochs in (1, 2):
        if epochs == 2:
            status, table = side_by_side(jobs_file(done, corpus_folder, glossary_file, epochs), done / "runs")
            assert status == 0
        for kind in ("groc", "tied"):
            record = json.loads((done / "runs" / kind / RESULT).read_text())
            (evaluation,) = record["evaluations"].values()
            assert f"{evaluation['perplexity']:.2f}" in table
            assert record["figures"]["epochs"] == epochs


def test_what_has_no_time_is_stopped(tmp_path: Path, corpus_folder: Path, glossary_file: Path) -> None:
    jobs = jobs_file(tmp_path, corpus_folder, glossary_file, 10_000)
    status, table = side_by_side(jobs, tmp_path / "runs", "--seconds", "1")
    assert status == 0
    assert table.count("stopped") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_runs_with_their_state_and_begins_none(
    number: signal.Signals, tmp_path: Path, corpus_folder: Path, glossary_file: Path
) -> None:
    jobs, runs = jobs_file(tmp_path, corpus_folder, glossary_file, 10_000), tmp_path / "runs"
    command = [sys.executable, str(TOOLS / "side_by_side.py"), str(jobs), "--out", str(runs), "--at-once", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while not (runs / "groc" / METRICS).exists():
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        table = process.communicate(timeout=300)[0]
    assert process.returncode == 128 + number
    assert table.count("stopped") == 2
    assert not (runs / "tied").exists()
    with alone(runs / "groc" / LOCK, GrocError("somebody still trains")):
        assert may_resume(runs / "groc", Group())


def test_a_run_without_a_state_yet_begins_anew(done: Path) -> None:
    for path in (done / "runs" / "groc").iterdir():
        if path.name not in START:
            path.unlink()
    status, table = side_by_side(done / "jobs.json", done / "runs")
    assert status == 0
    assert table.count("done") == 2
    assert epochs_of(table) == ["1", "1"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("{", []),
        ("{}", []),
        ('{"a": []}', []),
        ('{"a": ["tiny"]}', []),
        ('{"a/b": ["groc", "info", "tiny"]}', []),
        ('{"a": ["groc", "info", "tiny"]}', ["--at-once", "0"]),
    ],
)
def test_bad_jobs_are_refused_before_any_is_run(
    tmp_path: Path, content: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text(content)
    assert side_by_side(jobs, tmp_path / "runs", *options)[0] == 2
    assert "usage: side_by_side.py" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_figures_of_another_run_are_not_those_of_a_job_that_failed(done: Path) -> None:
    jobs = done / "jobs.json"
    jobs.write_text(jobs.read_text().replace('"training.epochs=1"', '"training.epochs=1", "training.rate=0.3"'))
    status, table = side_by_side(jobs, done / "runs")
    assert status == 1
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert [(row[0], row[5], row[-1]) for row in rows] == [(k, "", "failed: see its log") for k in ("groc", "tied")]


def test_options_behind_the_settings_are_those_of_a_second_evaluation(done: Path) -> None:
    jobs = json.loads((done / "jobs.json").read_text())
    (done / "jobs.json").write_text(json.dumps({"tied": [*jobs["tied"], "--dynamic"]}))
    status, table = side_by_side(done / "jobs.json", done / "runs")
    assert (status, epochs_of(table)) == (0, ["1"])
    record = json.loads((done / "runs" / "tied" / RESULT).read_text())
    assert [figures["dynamic"] is None for figures in record["evaluations"].values()] == [True, False]


def test_a_job_may_be_any_command(tmp_path: Path, corpus_folder: Path, glossary_file: Path) -> None:
    lexicon = ["lexicon", "coverage", str(corpus_folder), "--lexicon", str(glossary_file)]
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"covered": ["groc", *lexicon]}))
    assert side_by_side(jobs, tmp_path / "runs")[0] == 0
    assert "definition" in (tmp_path / "runs" / "covered.log").read_text()


def test_runs_that_wait_are_done_too_and_those_that_are_done_are_left_alone(done: Path) -> None:
    written = [(done / "runs" / kind / RESULT).stat().st_mtime_ns for kind in ("groc", "tied")]
    assert side_by_side(done / "jobs.json", done / "runs", "--at-once", "1") == (0, (done / "table").read_text())
    assert [(done / "runs" / kind / RESULT).stat().st_mtime_ns for kind in ("groc", "tied")] == written
    for kind, damaged in (("groc", '{"epo'), ("tied", "{\n")):  # as a kill leaves it, and as nothing of ours does
        (done / "runs" / kind / METRICS).write_text(damaged)
    status, table = side_by_side(done / "jobs.json", done / "runs")
    assert status == 0
    assert epochs_of(table) == ["0", "0"]


@pytest.mark.parametrize(
    ("file", "content", "cells"),
    [
        (RESULT, "{", {"test"}),
        (RESULT, "[]", {"test"}),
        (RESULT, '{"evaluations": {"a": {"perplexity": null}}}', {"test"}),
        (METRICS, '{"epoch": 2, "valid_perplexity": null}\n', {"train", "valid", "best", "s an epoch"}),
        (METRICS, '{"epoch": null, "valid_perplexity": 9}\n', {"epochs", "train", "s an epoch"}),
    ],
)
def test_a_damaged_file_costs_its_cells_alone(file: str, content: str, cells: set[str], done: Path) -> None:
    (done / "runs" / "groc" / file).write_text(content)
    status, table = side_by_side(done / "jobs.json", done / "runs")
    assert status == 0
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert {name for name, cell in found["groc"].items() if not cell} == cells
    assert all(found["tied"].values())


def test_what_does_not_save_is_stopped_last(tmp_path: Path) -> None:
    """On a GPU that processes share, the end of one amid its work can break those that are still saving."""
    saved, after = tmp_path / "saved", tmp_path / "after"
    begins = "import pathlib, signal, sys, time\ndef stop(*_): {}\n"
    begins += "signal.signal(signal.SIGTERM, stop)\nprint(flush=True)\ntime.sleep(60)"
    saves = f"time.sleep(0.5); pathlib.Path({str(saved)!r}).touch(); sys.exit()"
    looks = f"pathlib.Path({str(saved)!r}).exists() and pathlib.Path({str(after)!r}).touch(); sys.exit()"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        tool = importlib.import_module("side_by_side")
    time_left = tool.TimeLeft(float("inf"))
    processes = {
        name: subprocess.Popen([sys.executable, "-c", begins.format(does)], stdout=subprocess.PIPE)
        for name, does in (("eval", looks), ("train", saves))
    }
    for process in processes.values():
        assert process.stdout
        process.stdout.readline()  # it heeds signals from here on
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(time_left.wait_for, process, name == "train") for name, process in processes.items()]
        time.sleep(0.5)  # both are waited for
        time_left.signal = signal.SIGTERM
        assert [wait.result() for wait in waits] == [None, None]
    assert after.exists()
