"""What a command prints, as a shell sees it: in UTF-8 wherever it runs; no traceback where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TERMS, TRAIN_WORDS, tiny_config, tiny_model

from groc import checkpoint
from groc.lexicon import Glossary
from groc.vocabulary import END, Vocabulary

GROC = [sys.executable, "-m", "groc"]
BUFFERED = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_", "LANG"))}
ENCODINGS = {
    "a locale without é": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},  # Python is not to help out
    "a stream without é": {"PYTHONIOENCODING": "ascii"},
}
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and texts beside it."""
    folder = tmp_path_factory.mktemp("run")
    vocabulary = Vocabulary([*TRAIN_WORDS, END], [1] * (len(TRAIN_WORDS) + 1))
    checkpoint.save(folder / "run", tiny_model("groc", "ngrams", vocabulary, Glossary(TERMS)), tiny_config("groc"))
    (folder / "short.txt").write_text("the café\n", encoding="utf-8")
    (folder / "long.txt").write_text("the old dog runs\n" * 500, encoding="utf-8")
    return folder


def said(stderr: str) -> list[str]:
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr
    return [line for line in stderr.splitlines() if line.startswith("groc: ")]


@needs_full
@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["score", "run", "short.txt"], {}),  # it fails at the end
        (["score", "run", "long.txt"], {}),  # on the way
        (["score", "run", "short.txt"], {"PYTHONUNBUFFERED": "1"}),  # at once
        (["next", "run", "the"], {}),
        (["--help"], {}),
    ],
)
def test_a_full_disk_is_one_sentence(folder: Path, arguments: list[str], more: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [*GROC, *arguments], cwd=folder, env=BUFFERED | more, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert run.returncode == 1
    [sentence] = said(run.stderr)
    assert "cannot be written (No space left on device): free some space" in sentence


@pytest.mark.parametrize("text", ["short.txt", "long.txt"])
@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_reader_may_go_away(folder: Path, text: str, more: dict[str, str]) -> None:
    arguments = [*GROC, "score", "run", text]
    with subprocess.Popen(
        arguments, cwd=folder, env=BUFFERED | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert said(run.stderr.read().decode()) == []
    assert run.returncode == 141


def test_a_reader_may_want_no_more_than_the_first_line(folder: Path) -> None:
    (folder / "longest.txt").write_text("the old dog runs\n" * 5000, encoding="utf-8")  # more than a pipe holds
    with subprocess.Popen(
        [*GROC, "score", "run", "longest.txt"], cwd=folder, env=BUFFERED, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline().startswith(b"word\tsurprisal\t")
        run.stdout.close()
        assert said(run.stderr.read().decode()) == []
    assert run.returncode == 141


@pytest.mark.parametrize("more", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("arguments", [["score", "run", "short.txt"], ["next", "run", "the"]])
def test_output_is_utf8_wherever_it_is_written(folder: Path, arguments: list[str], more: dict[str, str]) -> None:
    run = subprocess.run([*GROC, *arguments], cwd=folder, env=BUFFERED | more, capture_output=True)
    assert said(run.stderr.decode()) == []
    assert run.returncode == 0
    printed = run.stdout.decode("utf-8")
    assert ("café" if "score" in arguments else "█") in printed


@pytest.mark.parametrize("more", ENCODINGS.values(), ids=ENCODINGS)
def test_errors_are_utf8_too(folder: Path, more: dict[str, str]) -> None:
    (folder / "twice.csv").write_text("café\ncafé\n", encoding="utf-8")
    run = subprocess.run(
        [*GROC, "next", "run", "the", "--glossary", "twice.csv"], cwd=folder, env=BUFFERED | more, capture_output=True
    )
    assert run.returncode == 1
    [sentence] = said(run.stderr.decode("utf-8"))
    assert "the term 'café' was there before" in sentence
