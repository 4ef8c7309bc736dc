"""Where the records, corpora and runs of a comparison are, and what is done once in a run folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from groc.commands.train import run as train
from groc.compute import Group
from groc.config import Config
from groc.corpus import Corpus, Text
from groc.errors import GrocError
from groc.files import in_turn, write_text
from groc.paper.records import Results
from groc.paper.runs import VARIED, Run, identity, other_model
from groc.recipe import load_recipe
from groc.report import to_json
from groc.results import PAIRED, RESULT
from groc.running import may_resume


@dataclass(frozen=True)
class Place:
    """The folders of records, corpora and runs."""

    results: Path
    corpora: Path
    runs: Path

    def corpus(self, name: str) -> Corpus:
        folder = self.corpora / name
        if not folder.is_dir():
            raise GrocError(
                f"There is no folder {folder}: give as --corpus-root the folder above the corpora, one that holds a "
                f"folder {name} (docs/data.md)."
            )
        return Corpus(folder)

    def text(self, corpus: str, split: str) -> Text:
        return self.corpus(corpus).text(split)

    def has(self, corpus: str, *splits: str) -> bool:
        return all(Corpus.find(self.corpora / corpus, split) for split in splits)

    def need(self, corpus: str, split: str, what_for: str) -> None:
        if not self.has(corpus, split):
            raise GrocError(
                f"{self.corpora} has no folder {corpus} with a {split} text, {what_for}: give as --corpus-root the "
                "folder above the corpora; docs/data.md says how to make them."
            )

    def publish(self, folder: Path) -> None:
        """Put the record of a run beside the others. Where that training is recorded, whatever the file is called, it
        gains what was evaluated and compared since: a second record would hide what the first one has alone."""
        with in_turn(self.results):  # another process may add to that very record
            run = recorded(folder)
            path, record = self.results / f"{folder.name}.json", run.record
            for known in Results(self.results, quiet=True).runs:
                if known.path and known.is_training_of(run):
                    path, record = known.path, _joined(known.record, run.record)
            write_text(path, to_json(record, indent=1) + "\n")


def _joined(known: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A record with the evaluations and comparisons of another one of that training, but for those that it has of a
    later day. They come last: of a kind the last one counts."""
    parts = {}
    for part in (part for part in ("evaluations", PAIRED) if part in other):
        had = known.get(part, {})
        gained = {
            name: figures
            for name, figures in other[part].items()
            if name not in had or _day(figures, other) >= _day(had[name], known)
        }
        parts[part] = {**{name: figures for name, figures in had.items() if name not in gained}, **gained}
    return {**known, **parts}


def _day(figures: dict[str, Any], record: dict[str, Any]) -> str:
    """When something was evaluated; older records do not say so of each."""
    return str(figures.get("date", record["date"]))


FIXED = {
    "name": "what tells rows apart",
    "training.seed": "what --seeds says",
    **dict.fromkeys(VARIED, "what tables vary"),
}
"""Settings that are not free where a table is filled: with others a run would be of another row, or of none."""


def chosen(recipe: str, variant: str, settings: Sequence[str]) -> Config:
    """The settings of a row, with those that the user gave."""
    config, plain = load_recipe(recipe, variant, settings), load_recipe(recipe, variant).flat()
    for key, why in FIXED.items():
        if config.flat()[key] != plain[key]:
            raise GrocError(f"{key} is {why}: leave it out.")
    if "no-out" in variant:
        config = config.replace({"output.depth": 0})  # another one is meant for the rows beside it
    if why := other_model(variant, config.flat()):
        raise GrocError(f"With these settings {variant} {why}: leave them out, or choose other rows with --model.")
    return config


def run_name(config: Config) -> str:
    return f"{config.name.replace('/', '-')}-{identity(config.flat())}-seed{config.training.seed}"


def train_once(config: Config, folder: Path) -> None:
    """Train, or go on with it, unless it is done."""
    if not (folder / RESULT).is_file():
        torch.compiler.reset()  # else PyTorch stops compiling after some models
        group = Group()
        train(config, folder, resume=may_resume(folder, group), group=group)


def recorded(folder: Path) -> Run:
    """The record of a run that is done."""
    return Run(json.loads((folder / RESULT).read_text(encoding="utf-8")))


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Says how long it took, unless there was nothing to do."""
    start = time.monotonic()
    yield
    if (seconds := time.monotonic() - start) >= 0.5:
        print(f"{what}: {seconds:.0f} s", file=sys.stderr)
