"""Several processes under torchrun do what one does."""

from __future__ import annotations

import json
import resource
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
        {
            "training.full_updates": 0.5,
            "training.random_unroll": True,
            "training.average": 0.9,
            "training.rotate_streams": True,
        },
    ),
    "groc with characters": ("groc", {"surface.kind": "cnn", "forms.centred": True, "training.seed": 20261116181600}),
    "convolutional": ("convolutional", {}),
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


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1)])
def test_a_run_goes_on_with_another_number_of_processes(
    numbers: tuple[int, int], corpus_folder: Path, tmp_path: Path
) -> None:
    """Without dropout as if there had been one all the time; and it is said that draws differ."""
    settings = as_pairs({**tiny_settings("tied"), **NO_DROPOUT})

    def train(name: str, processes: int, *more: str) -> str:
        launcher = [sys.executable, "-m"]
        if processes > 1:
            launcher += ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "-m"]
        arguments = ["train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(tmp_path / name), *more]
        done = subprocess.run([*launcher, "groc", *arguments], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stderr

    said = ""
    for name, processes in (("one", (1, 1)), ("other", numbers)):
        train(name, processes[0], "training.epochs=1")
        said = train(name, processes[1], "training.epochs=2", "--resume")
    assert f"made by {numbers[0]} process" in said
    assert f"goes on with {numbers[1]} process" in said
    losses = [[row["valid_loss"] for row in curve(tmp_path / name)] for name in ("one", "other")]
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_where_the_first_process_cannot_go_on_each_says_so_in_a_line(corpus_folder: Path, tmp_path: Path) -> None:
    settings = as_pairs(tiny_settings("tied"))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    launcher += ["--log-dir", str(tmp_path / "logs"), "--redirects", "3", "-m", "groc"]
    done = subprocess.run(
        [*launcher, "train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(tmp_path / "run")],
        capture_output=True,
        timeout=180,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)),
    )
    assert done.returncode == 1
    (first,) = (tmp_path / "logs").glob("**/0/stderr.log")
    assert "No room on the disk" in first.read_text().splitlines()[-1]
    assert "Traceback" not in first.read_text()
    (second,) = (tmp_path / "logs").glob("**/1/stderr.log")
    assert "Traceback" not in second.read_text()


def test_one_mask_for_all_words_in_all_processes(corpus_folder: Path, glossary_file: Path, tmp_path: Path) -> None:
    """Dropout of whole dimensions must not differ between the words that different processes encode."""
    settings = {**tiny_settings("groc"), "forms.lexicon": str(glossary_file), "output.dropout": 0.5}
    script = tmp_path / "masks.py"
    script.write_text(MASKS.format(settings=settings, corpus=str(corpus_folder), out=str(tmp_path)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run(launcher, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    (one, mine, strings), (two, others, _) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == two
    assert strings <= mine + others <= strings + 1, "each string is encoded once"
    dropped = [all(row[i] == 0 for row in one) for i in range(len(one[0]))]
    assert 0 < sum(dropped) < len(dropped)
    assert all(row[i] != 0 for row in one for i in range(len(dropped)) if not dropped[i])


MASKS = """
import json, torch
from pathlib import Path
from groc.building import build
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus
from groc.training import Trainer

config, corpus, group = Config().replace({settings}), Corpus({corpus!r}), Group()
torch.manual_seed(1)
model = build(config, corpus.vocabulary())
torch.manual_seed(group.rank)
ids = corpus.text("train").ids(model.vocabulary)
trainer = Trainer(model, config, ids, corpus.text("valid"), Path({out!r}), choose(config.compute), group, True)
model.train()
vectors, strings = trainer.encode().input.tolist(), trainer.shared.forms.strings
numbers = len(strings.scale), len(model.forms.strings.scale)
Path({out!r}, f"{{group.rank}}.json").write_text(json.dumps([vectors, *numbers]))
group.close()
"""
