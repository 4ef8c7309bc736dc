"""A search for settings: every trial is a run, chosen on the valid text alone, and a search that was killed goes on.

Its folder holds the truth: `search.json` (what is searched, and every trial) and one run folder a trial. One process
at a time searches in it.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from groc import checkpoint
from groc.commands.train import run as train
from groc.compute import Group, choose
from groc.config import Config, of_this_version
from groc.corpus import Corpus
from groc.divergence import Diverged
from groc.errors import GrocError
from groc.files import alone, write_text
from groc.metrics import read_metrics
from groc.nn.sampling import check_sample
from groc.proposals import (
    Changes,
    Essence,
    Outcome,
    Range,
    Space,
    ask_optuna,
    check_optuna,
    check_searched,
    distinct,
    ends_of,
    essence,
    has,
    spelt_out,
)
from groc.report import to_json
from groc.results import PRUNED, RESULT, circumstances, write_result
from groc.running import Begun, Busy, alone_in, may_resume
from groc.signals import Interrupted

RECORD, LOCK = "search.json", "search.lock"
FEWEST = 4
"""Trials that must have come to their end before one is given up."""
SPARED = 0.25
"""The share of its epochs in which a trial is not given up."""
MARGIN = 1.01
"""A trial is given up where it is worse by more than 1%: what is nearer may be chance, most of all after few epochs."""
DRAWS = 20
"""How often Optuna is asked for settings that were not tried yet, and then, where they are not listed, chance."""
NAMES = {
    "name": "of another recipe or variant",
    "corpus": "with another training or valid text",
    "method": "by another method",
    "prunes": "with another choice of pruning",
    "seed": "with another seed",
    "space": "over other lists or ranges",
    "fixed": "with other settings beside those that are searched",
}
"""How a search differs from the one that its folder holds, by the part of its record."""

STATES = ("running", "done", "pruned", "failed")
Curve = dict[int, float]
"""A valid perplexity by its epoch, from 1 on."""


@dataclass
class Trial:
    """One choice of settings, and what became of it."""

    number: int
    changes: Changes
    state: str = "running"
    """running, done, pruned (given up by its valid curve) or failed (training diverged, or memory was full)."""
    valid_perplexity: float | None = None
    """Strict where the trial is done; that of its best epoch, in streams, where it was pruned."""
    epochs: int = 0
    seconds: float = 0.0
    parameters: int | None = None
    device: str = ""
    """Where it came to its end, since a search may go on elsewhere."""

    def __post_init__(self) -> None:
        """Whether it can be one: records are read that a hand may have changed."""
        known = [value for value in (self.valid_perplexity, self.parameters) if value is not None]
        numbers = (self.number, self.epochs, self.seconds, *known)
        if self.state not in STATES or not isinstance(self.changes, dict) or not all(map(math.isfinite, numbers)):
            raise ValueError
        if not isinstance(self.device, str):
            raise ValueError
        if self.state == "done" and not (self.valid_perplexity and self.valid_perplexity >= 1):
            raise ValueError


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
        if self.budget < 1:
            raise GrocError(f"--trials is how many settings are tried, 1 or more, not {self.budget}.")
        if not self.space:
            raise GrocError("There is nothing to search: give lists or ranges, training.rate=1e-3,2e-3 or 1e-4..1e-2.")
        corpus = Corpus(self.config.corpus)
        words = len(corpus.vocabulary())
        for key, values in self.space.items():  # what is not possible is better known now than at night
            ends = ends_of(values)
            configs = {self.config.replace({key: value}) for value in ends}
            if len(configs) < len(ends):
                raise GrocError(f"{key} has the same value twice: a trial of it would be wasted, so give each once.")
            for config in configs:
                check_sample(config.training.sample, words)
        check_searched(self.config, self.space)
        if self.method == "tpe":
            check_optuna()
        if self.method == "grid" and (size := len(self.combinations or ())) > self.budget:
            raise GrocError(
                f"The grid has {size} combinations and the budget is {self.budget} trials: "
                f"give --trials {size}, shorter lists, or --method tpe."
            )
        texts = {split: corpus.text(split) for split in ("train", "valid")}
        self.tokens = len(texts["train"])
        self.digests = {split: text.digest for split, text in texts.items()}
        """Of the texts that perplexities depend on: two corpora may have the same name, and one may be changed."""
        self._restore()

    def run(self) -> None:
        """Go on until the budget is spent."""
        if self.is_over:
            return
        busy = f"{self.folder} is being searched by another process: wait for that one, or choose another --out."
        with alone(self.folder / LOCK, GrocError(busy)):
            self._restore()  # another process may have gone on in the meantime
            while not self.is_over:
                if not self.trials or self.trials[-1].state != "running":
                    if (changes := self._propose()) is None:
                        self._end()
                        return
                    self.trials.append(Trial(len(self.trials), changes))
                    self.save()
                trial = self.trials[-1]
                chosen = " ".join(f"{key}={value}" for key, value in trial.changes.items())
                print(f"{self.path(trial)}, {trial.number + 1} of {self.size}: {chosen}", file=sys.stderr)
                told = self._try(trial)
                self.save()
                (self.path(trial) / checkpoint.STATE).unlink(missing_ok=True)  # large, and of no more use
                if told:
                    raise Interrupted(told)

    @cached_property
    def combinations(self) -> dict[Essence, Changes] | None:
        """All that differ; None where ranges have too many."""
        listed = self.space if self.method == "grid" else spelt_out(self.space)
        return None if listed is None else distinct(self.config, listed)

    @property
    def tried(self) -> set[Essence]:
        return {essence(self.config, trial.changes) for trial in self.trials}

    @property
    def untried(self) -> list[Changes] | None:
        """The rest of the combinations; None where they are not listed."""
        if self.combinations is None:
            return None
        tried = self.tried
        return [changes for what, changes in self.combinations.items() if what not in tried]

    @property
    def size(self) -> int:
        """How many trials there will have been at the end."""
        left = self.untried
        return self.budget if left is None else min(self.budget, len(self.trials) + len(left))

    @property
    def is_over(self) -> bool:
        return len(self.trials) >= self.size and all(trial.state != "running" for trial in self.trials)

    @property
    def best(self) -> Trial | None:
        done = [trial for trial in self.trials if trial.state == "done"]
        return min(done, key=lambda trial: trial.valid_perplexity or 0.0, default=None)

    def path(self, trial: Trial) -> Path:
        return self.folder / f"trial-{trial.number:03}"

    def _propose(self) -> Changes | None:
        """What to try next, which no trial had yet; None if there is nothing more."""
        left = self.untried
        if self.method == "grid":
            assert left
            return left[0]
        if not self.trials and (own := self._own()):
            return own
        outcomes = [
            Outcome(
                trial.changes,
                trial.valid_perplexity if trial.state == "done" else None,
                read_curve(self.path(trial)) if trial.state != "failed" else {},
            )
            for trial in self.trials
        ]
        tried, seed = self.tried, 1000 * self.seed + len(self.trials)
        # Optuna would try again what it likes, and a trial of it would be wasted.
        for draw in range(DRAWS if left else 2 * DRAWS):
            changes = ask_optuna(self.space, outcomes, seed + 1_000_000 * draw, by_chance=draw >= DRAWS)
            if essence(self.config, changes) not in tried:
                return changes
        return left[0] if left else None

    def _end(self) -> None:
        """Before the budget is spent, since the ranges hold too little."""
        self.budget = len(self.trials)
        self.save()
        print(f"After {self.budget} trials nothing is left to try: give wider ranges for more.", file=sys.stderr)

    def _own(self) -> Changes | None:
        """The settings as they stand, where the space has them: what the other trials are to beat."""
        settings = self.config.flat()
        own: Changes = {}
        for key, values in self.space.items():
            if isinstance(values, Range):
                same = [settings[key]] if values.low <= settings[key] <= values.high else []
            else:
                same = [value for value in values if self.config.replace({key: value}) == self.config]
            if not same:
                return None
            own[key] = same[0]
        return own

    def _try(self, trial: Trial) -> int:
        """Train it to its end, or give it up. A signal that came as it was given up comes back: the search is to stop,
        but the trial is not to be tried again."""
        folder, config, told = self.path(trial), self.config.replace(trial.changes), 0
        watch = Watch(folder, self.is_hopeless)
        started = may_resume(folder, watch)
        torch.compiler.reset()  # else PyTorch stops compiling after some models
        try:
            figures = train(config, folder, resume=started, group=watch)
            trial.state, trial.valid_perplexity = "done", figures["valid_perplexity"]
            trial.parameters = figures["parameters"]
        except Interrupted as stop:
            if not watch.stops:
                raise
            told = stop.number
            curve = read_curve(folder)
            trial.state, trial.valid_perplexity = "pruned", min(curve.values())
            # Without the key of a strict figure, so that nobody takes it for a finished run.
            facts = {PRUNED: max(curve), "valid_perplexity_in_streams": trial.valid_perplexity}
            write_result(folder / RESULT, config, choose(config.compute), facts, read_metrics(folder))
        except (Diverged, torch.OutOfMemoryError) as error:
            trial.state = "failed"
            trial.valid_perplexity = min(read_curve(folder).values(), default=None)  # what it had reached before
            print(f"{folder} failed: {error}", file=sys.stderr)
        except (Busy, Begun):
            raise  # the folder is another process's, and not to be removed
        except GrocError:  # no fault of this trial: the settings, the corpus or the device are wrong, or a disk is full
            if trial.number == 0 and not (folder / checkpoint.STATE).is_file():
                self._forget()
            raise
        trial.device = choose(config.compute).describe()
        if rows := read_metrics(folder):
            trial.epochs, trial.seconds = rows[-1]["epoch"], rows[-1]["seconds"]
        return told

    def is_hopeless(self, curve: Curve) -> bool:
        """Whether the best epoch so far is clearly worse than that of half the finished trials after as many epochs.
        Where the number of epochs is searched, rates fall otherwise in each, and curves cannot be compared."""
        if not self.prunes or "training.epochs" in self.space:
            return False
        epochs = max(curve, default=0)
        curves = [read_curve(self.path(trial)) for trial in self.trials if trial.state == "done"]
        until_then = [[value for epoch, value in other.items() if epoch <= epochs] for other in curves]
        bests = [min(values) for values in until_then if values]  # a record may be here without the trials' folders
        if len(bests) < FEWEST or epochs < SPARED * self.config.training.epochs:
            return False
        return min(curve.values()) > MARGIN * statistics.median(bests)

    # --- on disk --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        settings = self.config.flat()
        for key in ("corpus", "forms.lexicon", "forms.glossary"):  # names, not where files lay on one machine
            settings[key] = Path(settings[key]).name
        space = {key: asdict(values) if isinstance(values, Range) else values for key, values in self.space.items()}
        return {
            "kind": "search",
            "name": self.config.name,
            "corpus": {"name": settings["corpus"], "tokens": self.tokens, "digests": self.digests},
            "budget": {"trials": self.size, "epochs": space.get("training.epochs", self.config.training.epochs)},
            "method": self.method,
            "prunes": self.prunes,
            "seed": self.seed,
            "space": space,
            "fixed": {key: value for key, value in settings.items() if not key.startswith("compute.")},
            "trials": [asdict(trial) for trial in self.trials],
        }

    def save(self) -> None:
        record = {**self.to_dict(), **circumstances(choose(self.config.compute))}
        write_text(self.folder / RECORD, to_json(record, indent=1) + "\n")

    def _restore(self) -> None:
        path = self.folder / RECORD
        damaged = f"{path} is damaged: restore it from a copy, or choose another --out."
        if not path.exists():
            if self.folder.is_dir() and any(path.name != LOCK for path in self.folder.iterdir()):
                raise GrocError(f"{self.folder} is not empty and holds no search: choose another --out.")
            return
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            older = {"device": record.get("device", "")}  # one for all trials
            trials = [Trial(**(older if trial["state"] != "running" else {}) | trial) for trial in record.pop("trials")]
            if any(trial.number != n or {*trial.changes} != {*record["space"]} for n, trial in enumerate(trials)):
                raise ValueError
            if any(trial.state == "running" for trial in trials[:-1]):  # they come one after the other
                raise ValueError
            if changed := self._changed(record):
                raise GrocError(
                    f"{self.folder} holds a search {NAMES.get(changed[0], 'of another kind')}: go on with the same "
                    "command (only --trials may differ), or choose another --out."
                )
            if not all(has(self.space[key], value) for trial in trials for key, value in trial.changes.items()):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise GrocError(damaged) from None
        self.trials = trials

    def _changed(self, record: dict[str, Any]) -> list[str]:
        """In which parts the record of a search is not that of this one."""
        mine = json.loads(to_json(self.to_dict()))
        if "digests" not in (record.get("corpus") or ()):  # as in older records
            del mine["corpus"]["digests"]
        known, gone = of_this_version(record.get("fixed") or {})
        usual = json.loads(to_json(Config().flat()))  # settings that are newer than the record were at their defaults
        mine["fixed"], record["fixed"] = {**usual, **mine["fixed"]}, {**usual, **known, **gone}
        return [key for key in mine if key not in ("trials", "budget") and record.get(key) != mine[key]]

    def _forget(self) -> None:
        """Leave nothing of a search that could not begin, so that a better command can have its folder. Where another
        process trains in the folder of the trial, all of it stays."""
        folder = self.path(self.trials[0])
        if folder.is_dir():
            try:
                with alone_in(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            except Busy:
                return
        (self.folder / RECORD).unlink(missing_ok=True)
        self.trials.clear()


class Watch(Group):
    """Trains alone, and stops where the valid curve says that it is not worth going on."""

    def __init__(self, folder: Path, is_hopeless: Callable[[Curve], bool]) -> None:
        super().__init__()
        self.folder, self.is_hopeless = folder, is_hopeless
        self.seen, self.stops = 0, False

    def must_stop(self, told: bool) -> bool:
        """The curve grows by a line an epoch. Who is told to stop from outside gives nothing up."""
        if super().must_stop(told):
            return True
        metrics = self.folder / checkpoint.METRICS
        size = metrics.stat().st_size if metrics.exists() else 0
        if size != self.seen:
            self.seen, self.stops = size, self.is_hopeless(read_curve(self.folder))
        return self.stops


def read_curve(folder: Path) -> Curve:
    """The valid perplexity after each epoch of a run, as far as its curve was not lost."""
    return {row["epoch"]: row["valid_perplexity"] for row in read_metrics(folder)}
