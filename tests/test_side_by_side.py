"""Several runs at the same time: all are trained and evaluated, and what time cuts off goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import as_pairs, tiny_settings

from groc.checkpoint import METRICS
from groc.results import RESULT
from groc.running import START

TOOL = Path(__file__).parents[1] / "tools" / "side_by_side.py"


def jobs_file(tmp_path: Path, corpus: Path, glossary: Path, epochs: int) -> Path:
    jobs = {
        kind: ["tiny", "groc", str(corpus), *as_pairs({**tiny_settings(kind), "forms.lexicon": str(glossary)}),
               f"training.epochs={epochs}"]
        for kind in ("groc", "tied")
    }  # fmt: skip
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(jobs))
    return path


def side_by_side(jobs: Path, out: Path, *options: str) -> str:
    command = [sys.executable, str(TOOL), str(jobs), "--out", str(out), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_run_is_trained_and_evaluated_and_goes_on_where_it_was(
    tmp_path: Path, corpus_folder: Path, glossary_file: Path
) -> None:
    for epochs in (1, 2):
        table = side_by_side(jobs_file(tmp_path, corpus_folder, glossary_file, epochs), tmp_path / "runs")
        for kind in ("groc", "tied"):
            record = json.loads((tmp_path / "runs" / kind / RESULT).read_text())
            (evaluation,) = record["evaluations"].values()
            assert f"{evaluation['perplexity']:.2f}" in table
            assert record["figures"]["epochs"] == epochs


def test_what_has_no_time_is_stopped(tmp_path: Path, corpus_folder: Path, glossary_file: Path) -> None:
    jobs = jobs_file(tmp_path, corpus_folder, glossary_file, 10_000)
    assert "groc" in side_by_side(jobs, tmp_path / "runs", "--seconds", "1")


def test_a_run_without_a_state_yet_begins_anew(tmp_path: Path, corpus_folder: Path, glossary_file: Path) -> None:
    jobs = jobs_file(tmp_path, corpus_folder, glossary_file, 1)
    side_by_side(jobs, tmp_path / "runs")
    for name in ("groc", "tied"):
        for path in (tmp_path / "runs" / name).iterdir():
            if path.name not in START:
                path.unlink()
    table = side_by_side(jobs, tmp_path / "runs")
    assert table.count("done") == 2


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
def test_bad_jobs_are_refused_before_any_is_run(tmp_path: Path, content: str, options: list[str]) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text(content)
    command = [sys.executable, str(TOOL), str(jobs), "--out", str(tmp_path / "runs"), *options]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "runs").exists()


def test_figures_of_another_run_are_not_those_of_a_job_that_failed(
    tmp_path: Path, corpus_folder: Path, glossary_file: Path
) -> None:
    jobs = jobs_file(tmp_path, corpus_folder, glossary_file, 1)
    side_by_side(jobs, tmp_path / "runs")
    jobs.write_text(jobs.read_text().replace('"training.epochs=1"', '"training.epochs=1", "training.rate=0.3"'))
    command = [sys.executable, str(TOOL), str(jobs), "--out", str(tmp_path / "runs")]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 1
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in run.stdout.splitlines()[2:]]
    assert [(row[0], row[5], row[-1]) for row in rows] == [(k, "", "failed: see its log") for k in ("groc", "tied")]


def test_a_job_may_be_any_command(tmp_path: Path, corpus_folder: Path, glossary_file: Path) -> None:
    lexicon = ["lexicon", "coverage", str(corpus_folder), "--lexicon", str(glossary_file)]
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"covered": ["groc", *lexicon]}))
    side_by_side(jobs, tmp_path / "runs")
    assert "definition" in (tmp_path / "runs" / "covered.log").read_text()


def test_runs_that_wait_are_done_too_and_those_that_are_done_are_left_alone(
    tmp_path: Path, corpus_folder: Path, glossary_file: Path
) -> None:
    jobs = jobs_file(tmp_path, corpus_folder, glossary_file, 1)
    first = side_by_side(jobs, tmp_path / "runs", "--at-once", "1")
    written = [(tmp_path / "runs" / kind / RESULT).stat().st_mtime_ns for kind in ("groc", "tied")]
    assert side_by_side(jobs, tmp_path / "runs", "--at-once", "1") == first
    assert [(tmp_path / "runs" / kind / RESULT).stat().st_mtime_ns for kind in ("groc", "tied")] == written
    for kind, damaged in (("groc", '{"epo'), ("tied", "{\n")):  # as a kill leaves it, and as nothing of ours does
        (tmp_path / "runs" / kind / METRICS).write_text(damaged)
    table = side_by_side(jobs, tmp_path / "runs")
    assert [line.split("|")[2].strip() for line in table.splitlines()[2:]] == ["0", "0"]
