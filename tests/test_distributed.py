"""Several processes under torchrun do what one does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import as_pairs, tiny_settings

from groc import checkpoint
from groc.cli import main

NO_DROPOUT = {
    "output.dropout": 0.0,
    "output.bias_dropout": 0.0,
    "prefix.input_dropout": 0.0,
    "prefix.hidden_dropout": 0.0,
    "prefix.output_dropout": 0.0,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "groc with sparse updates": (
        "groc",
        {"training.full_updates": 0.5, "training.random_unroll": True, "training.average": 0.9},
    ),
    "tied": ("tied", {"training.activation": 2.0, "training.temporal": 1.0}),
}


@pytest.fixture(params=CASES)
def arguments(request: pytest.FixtureRequest, corpus_folder: Path, glossary_file: Path) -> list[str]:
    kind, changes = CASES[request.param]
    settings = {**tiny_settings(kind), **NO_DROPOUT, "forms.lexicon": str(glossary_file), **changes}
    return ["train", "tiny", *as_pairs(settings), "--corpus", str(corpus_folder)]


def curve(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / checkpoint.METRICS).read_text().splitlines()]


def test_two_processes_give_the_loss_of_one_with_the_same_total_batch(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "--out", str(tmp_path / "one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "groc"]
    done = subprocess.run(
        [*launcher, *arguments, "--out", str(tmp_path / "two"), "--json"], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == len(two) == 2
    for row, other in zip(one, two, strict=True):
        for key in ("epoch", "step", "valid_streams"):
            assert other[key] == row[key]
        for key in ("train_loss", "valid_loss", "train_perplexity", "valid_perplexity", "rate"):
            assert other[key] == pytest.approx(row[key], rel=1e-5), key
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["run"] == str(tmp_path / "two"), "one process speaks for all"
