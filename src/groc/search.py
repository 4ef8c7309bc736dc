"""A search for settings: every trial is a run, chosen on the valid text alone, and a search that was killed goes on.

Its folder holds the truth: `search.json` (what is searched, and every trial) and one run folder a trial.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from groc import checkpoint
from groc.commands.train import run as train
from groc.compute import Group, choose
from groc.config import Config
from groc.errors import GrocError
from groc.files import write_text
from groc.proposals import Changes, Outcome, Range, Space, ask_optuna, grid
from groc.report import to_json
from groc.results import RESULT, write_result
from groc.training import Interrupted

RECORD = "search.json"
FEWEST = 4
"""Trials that must have come to their end before one is given up."""
SPARED = 0.25
"""The share of its epochs in which a trial is not given up."""


@dataclass
class Trial:
    """One choice of settings, and what became of it."""

    number: int
    changes: Changes
    state: str = "running"
    """running, done, pruned (given up by its valid curve) or failed (training diverged)."""
    valid_perplexity: float | None = None
    """Strict where the trial is done; that of its best epoch, in streams, where it was pruned."""
    epochs: int = 0
    seconds: float = 0.0
    parameters: int | None = None


@dataclass
class Search:
    """What is searched, and the trials so far."""

    config: Config
    """With everything that is fixed."""
    space: Space
    folder: Path
    budget: int
    """Trials; those that are pruned or fail count."""
    method: str = "grid"
    prunes: bool = True
    seed: int = 1
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.space:
            raise GrocError("There is nothing to search: give lists or ranges, training.rate=1e-3,2e-3 or 1e-4..1e-2.")
        if self.method == "grid" and (size := len(grid(self.space))) > self.budget:
            raise GrocError(
                f"The grid has {size} combinations and the budget is {self.budget} trials: "
                f"give --trials {size}, shorter lists, or --method tpe."
            )
        for key, values in self.space.items():  # what is not possible is better known now than at night
            for value in (values.low, values.high) if isinstance(values, Range) else values:
                self.config.replace({key: value})
        self._restore()

    def run(self) -> None:
        """Go on until the budget is spent."""
        while True:
            if not self.trials or self.trials[-1].state != "running":
                if len(self.trials) >= (len(grid(self.space)) if self.method == "grid" else self.budget):
                    return
                self.trials.append(Trial(len(self.trials), self._propose()))
                self.save()
            self._try(self.trials[-1])
            self.save()

    @property
    def best(self) -> Trial | None:
        done = [trial for trial in self.trials if trial.state == "done"]
        return min(done, key=lambda trial: trial.valid_perplexity or 0.0, default=None)

    def path(self, trial: Trial) -> Path:
        return self.folder / f"trial-{trial.number:03}"

    def _propose(self) -> Changes:
        if self.method == "grid":
            return grid(self.space)[len(self.trials)]
        outcomes = [
            Outcome(
                trial.changes,
                trial.valid_perplexity if trial.state == "done" else None,
                dict(enumerate(read_curve(self.path(trial)), 1)) if trial.state != "failed" else {},
            )
            for trial in self.trials
        ]
        return ask_optuna(self.space, outcomes, 1000 * self.seed + len(self.trials))

    def _try(self, trial: Trial) -> None:
        folder, config = self.path(trial), self.config.replace(trial.changes)
        started = (folder / checkpoint.STATE).is_file()
        if not started:
            shutil.rmtree(folder, ignore_errors=True)  # killed before there was anything to go on from
        watch = Watch(folder, lambda curve: self.prunes and self.is_hopeless(curve))
        torch.compiler.reset()  # else PyTorch stops compiling after some models
        try:
            figures = train(config, folder, resume=started, group=watch)
            trial.state, trial.valid_perplexity = "done", figures["valid_perplexity"]
            trial.parameters = figures["parameters"]
        except Interrupted:
            if not watch.stops:
                raise
            trial.state, trial.valid_perplexity = "pruned", min(read_curve(folder))
            # Without the key of a strict figure, so that nobody takes it for a finished run.
            facts = {
                "pruned_after_epochs": len(_metrics(folder)),
                "valid_perplexity_in_streams": trial.valid_perplexity,
            }
            write_result(folder / RESULT, config, choose(config.compute), facts, _metrics(folder))
        except GrocError:
            if not (folder / checkpoint.STATE).is_file():
                raise  # nothing was trained: the settings or the corpus are wrong
            trial.state = "failed"
        rows = _metrics(folder)
        trial.epochs, trial.seconds = len(rows), rows[-1]["seconds"] if rows else 0.0
        (folder / checkpoint.STATE).unlink(missing_ok=True)  # large, and of no more use

    def is_hopeless(self, curve: list[float]) -> bool:
        """Whether the best epoch so far is worse than that of half the finished trials after as many epochs."""
        epochs = len(curve)
        curves = [read_curve(self.path(trial)) for trial in self.trials if trial.state == "done"]
        if len(curves) < FEWEST or epochs < SPARED * self.config.training.epochs:
            return False
        return min(curve) > statistics.median(min(other[:epochs]) for other in curves)

    # --- on disk --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        settings = self.config.flat()
        for key in ("corpus", "forms.lexicon"):  # names, not where files lay on one machine
            settings[key] = Path(settings[key]).name
        return {
            "kind": "search",
            "name": self.config.name,
            "method": self.method,
            "prunes": self.prunes,
            "seed": self.seed,
            "space": {key: asdict(v) if isinstance(v, Range) else v for key, v in self.space.items()},
            "fixed": {key: value for key, value in settings.items() if not key.startswith("compute.")},
            "trials": [asdict(trial) for trial in self.trials],
        }

    def save(self) -> None:
        write_text(self.folder / RECORD, to_json(self.to_dict(), indent=1) + "\n")

    def _restore(self) -> None:
        path = self.folder / RECORD
        if not path.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise GrocError(f"{self.folder} is not empty and holds no search: choose another --out.")
            return
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            trials = [Trial(**trial) for trial in record.pop("trials")]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise GrocError(f"{path} is damaged: restore it from a copy, or choose another --out.") from None
        mine = json.loads(to_json(self.to_dict()))
        if changed := [key for key, value in mine.items() if key != "trials" and record.get(key) != value]:
            raise GrocError(
                f"{self.folder} holds a search with another {changed[0]}: go on with the same command "
                "(only --trials may differ), or choose another --out."
            )
        self.trials = trials


class Watch(Group):
    """Trains alone, and stops where the valid curve says that it is not worth going on."""

    def __init__(self, folder: Path, is_hopeless: Callable[[list[float]], bool]) -> None:
        super().__init__()
        self.folder, self.is_hopeless = folder, is_hopeless
        self.seen, self.stops = 0, False

    def any(self, flag: bool) -> bool:
        """Asked in each step whether to stop. The curve grows by a line an epoch."""
        metrics = self.folder / checkpoint.METRICS
        size = metrics.stat().st_size if metrics.exists() else 0
        if size != self.seen:
            self.seen, self.stops = size, self.is_hopeless(read_curve(self.folder))
        return super().any(flag) or self.stops


def read_curve(folder: Path) -> list[float]:
    """The valid perplexity after each epoch of a run."""
    return [row["valid_perplexity"] for row in _metrics(folder)]


def _metrics(folder: Path) -> list[dict[str, Any]]:
    path = folder / checkpoint.METRICS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
