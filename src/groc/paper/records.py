"""All that is recorded in a folder, and which of it counts."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from groc.paper.checking import damage, kind_of
from groc.paper.published import MAIN, MODELS
from groc.paper.runs import RECIPES, VARIED, Job, Run, best, model_of, other_model
from groc.recipe import variant_names

TIMED = frozenset((*MODELS, "groc, characters", "groc, frozen"))
"""What the table of speed takes from `groc bench`."""
LARGEST_BEST = 24_000_000
"""Parameters of a `-best` recipe at most."""
LARGE = f"at most {LARGEST_BEST / 1e6:g} million parameters"
"""What such models are called."""


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    """The files below a folder; a folder that may not be read is an error, where `rglob` passes over it."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry, suffix)
        elif entry.suffix == suffix:
            yield entry


class Results:
    """All records of a folder: runs, measured corpora, searches, benches. What else lies there is passed over."""

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        """`quiet` says nothing of records that do not count."""
        found: defaultdict[str, dict[Path, dict[str, Any]]] = defaultdict(dict)
        self.damaged: list[str] = []
        """Of each record that lacks what tables read of it, its path and what that is. It counts nowhere."""
        for path in sorted(_files(folder, ".json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError):
                self.damaged.append(f"{path} is no readable JSON")
                continue
            if not record:
                self.damaged.append(f"{path} is empty")
                continue
            if not isinstance(record, dict):
                self.damaged.append(f"{path} is no record: a record is an object, with names and values")
                continue
            kind = kind_of(record)
            if kind and (why := damage(record, kind)):
                self.damaged.append(f"{path} is the record of a {kind}, but {why}")
            else:
                found[kind][path] = record
        self.runs = sorted(
            (Run(record, path) for path, record in found["run"].items()), key=lambda run: run.record["date"]
        )
        self.data = {record["name"]: record["figures"] for record in found["corpus"].values()}
        self.searches, self.benches = list(found["search"].values()), list(found["bench"].values())
        bundled = [Run(one) for record in found["set of runs"].values() for one in record["runs"].values()]
        self.bundled = [run for run in bundled if not self._why_not(run)]
        """Runs whose records stand together in one file: they fill no cell."""
        if not (quiet or self.damaged or self.runs or self.data or self.searches or self.benches):
            lacks = f"{folder} holds no record" if folder.is_dir() else f"There is no folder {folder}"
            print(
                f"{lacks}, so no runs are known: name the folder of results with --results DIR (in a clone of GroC: "
                "results).",
                file=sys.stderr,
            )
        left_out = {run: why for run in self.runs if (why := self._why_not(run))}
        left_out |= _unlike_most(run for run in self.runs if run not in left_out)
        self.counted = [run for run in self.runs if run not in left_out]
        """Those that may fill cells."""
        if not quiet:
            for what in self.damaged:
                print(f"{what}: it is not counted; mend it or take it away.", file=sys.stderr)
            for run, why in left_out.items():
                print(f"{run.path} {why}: it is not counted.", file=sys.stderr)
            _say_which_is_taken(self.counted)

    def of(self, job: Job) -> list[Run]:
        """The runs of a cell; none that is larger than the models there, or of another corpus with the same name."""
        return best(run for run in self.counted if job.wants(run))

    def _why_not(self, run: Run) -> str:
        """Why a run does not belong into tables or into the cells of its recipe; empty if it does. Corpora are compared
        where one was measured, by how much an epoch reads: the last step reads less, and random unrolls make for some
        steps more."""
        if changes := run.figures.get("replanned"):
            first, last = changes[0], changes[-1]
            then = f", and last {last['epochs']}, from step {last['after_step']:,} on" if len(changes) > 1 else ""
            return (
                f"was to have {first['epochs']} epochs, not {first['epochs_before']}, from step "
                f"{first['after_step']:,} on{then}, and its learning rate followed"
            )
        base = RECIPES.get(run.dataset)
        if run.adapted or base is None:
            return ""
        if run.recipe not in (base, f"{base}-best"):
            others = [corpus for corpus, recipe in RECIPES.items() if run.recipe in (recipe, f"{recipe}-best")]
            return (
                f"is called {run.record['name']}, which is for {others[0]}, but was trained on {run.dataset}"
                if others
                else ""
            )
        if run.variant not in _variants(run.recipe):
            return f"is called {run.recipe}/{run.variant}, and the recipe has no such variant"
        if why := other_model(run.variant, run.settings):
            return f"is called {run.variant}, but {why}"
        parameters, largest = run.figures["parameters"], largest_of(run)
        if parameters > largest:
            return f"has {parameters / 1e6:.2f}M parameters, more than {largest / 1e6:.2f}M"
        steps, epochs = run.figures.get("steps"), run.figures.get("epochs")
        if steps and epochs:
            step = run.settings["training.batch"] * run.settings["training.unroll"]
            return self.another_corpus(run.dataset, step * steps / epochs, step)
        return ""

    def another_corpus(self, dataset: str, tokens: float, leeway: int = 0) -> str:
        """What tells a corpus from the one that was measured under that name, by the size of its training text; empty
        if nothing does."""
        measured = self.data.get(f"data/{dataset}", {}).get("tokens")
        if measured and abs(tokens - measured) > 0.1 * measured + leeway:
            return f"has some {tokens:,.0f} tokens of training, but the {dataset} of these results {measured:,}"
        return ""

    def timings(self, dataset: str) -> tuple[dict[str, float], str]:
        """Milliseconds a step by model, and the device: of the benches of a corpus's size, with no settings of their
        own, one on a GPU before others, then that with most models of the tables, then the last."""
        found: list[tuple[tuple[bool, int, str], dict[str, float], str]] = []
        for bench in (bench for bench in self.benches if not bench.get("settings")):
            models = {one["model"]: one for one in bench["sizes"].get(RECIPES[dataset], {}).get("models", ())}
            if "tied" in models:
                timed = {name: one["step"] for name, one in models.items()}
                device = models["tied"].get("device", bench["device"])
                found.append(((not device.startswith("CPU"), len(TIMED & set(timed)), bench["date"]), timed, device))
        return max(found, key=lambda one: one[0])[1:] if found else ({}, "")


_variants = cache(variant_names)
"""Of GroC's own recipes, which are asked for each record."""


def _unlike_most(runs: Iterable[Run]) -> dict[Run, str]:
    """Runs of the tables' corpora whose texts are not as long as those of most, or whose model is not as large as that
    of most with these settings, and what tells them."""
    texts: defaultdict[tuple[str, str], dict[Run, int]] = defaultdict(dict)
    sizes: defaultdict[tuple[str, str], dict[Run, int]] = defaultdict(dict)
    found = {}
    for run in (run for run in runs if run.dataset in RECIPES and not run.adapted):
        sizes[run.dataset, run.repeated[0]][run] = run.figures["parameters"]
        test = run.test() or {}
        for told, number in (
            ("was tested on {:,} tokens", test.get("tokens")),
            ("was tested among {:,} words", test.get("vocabulary")),
            ("has {:,} valid tokens", run.figures.get("valid_tokens")),
        ):
            if number:
                texts[run.dataset, told][run] = number
    for by_run in sizes.values():
        for run, size, others in _odd_ones(by_run, "runs with its settings"):
            found[run] = f"has {size:,} parameters, {others}"
    for (dataset, told), by_run in texts.items():
        for run, number, others in _odd_ones(by_run, f"runs of {dataset}"):
            found[run] = f"{told.format(number)}, {others}"
    return found


def _odd_ones(by_run: Mapping[Run, int], runs: str) -> Iterator[tuple[Run, int, str]]:
    """Those that have another number than most, theirs, and what the others have. If none is that of most, which are
    right is not known, and all are odd."""
    last = {run.repeated: run for run in by_run}  # a later record of a run replaces an earlier one
    (usual, number_of_usual), *_ = Counter(by_run[run] for run in last.values()).most_common()
    is_most = 2 * number_of_usual > len(last)
    for run, number in by_run.items():
        if not is_most:
            others = " and ".join(f"{other:,}" for other in sorted({*by_run.values()} - {number}))
            yield run, number, f"other {runs} {others}, and which is right is not known"
        elif number != usual:
            yield run, number, f"most {runs} {usual:,}"


def largest_of(one: Run | Job) -> float:
    """Parameters of a run with a recipe of the tables at most. Those of the paper are rounded to millions, so that with
    a recipe of published size 10% or a million more counts as the same."""
    model = model_of(one.variant)
    if one.recipe.endswith("-best"):
        return LARGEST_BEST
    if model is None:
        return math.inf  # no table has it
    published = 1e6 * MAIN[one.dataset][model][0]
    return max(1.1 * published, published + 1e6)


def _say_which_is_taken(runs: Sequence[Run]) -> None:
    """A later record replaces an earlier one of the same run. Of two of one day that differ the names of their files
    decide, which is said, unless neither could stand in a table."""
    rivals: defaultdict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        varied = [*(run.settings[key] for key in VARIED), run.has_network]
        rivals[run.dataset, run.recipe, run.variant, run.adapted, run.repeatable, *varied].append(run)
    for group in rivals.values():
        chosen = best(group)
        to_beat = statistics.mean(run.dev for run in chosen)
        last = {run.repeated: run for run in group}
        for run in group:
            taken = last[run.repeated]
            matters = taken in chosen or run.dev < to_beat
            if matters and run.record["date"] == taken.record["date"] and not run.agrees(taken):
                print(
                    f"{run.path} and {taken.path} have the same settings, seed and date: {taken.path} is taken.",
                    file=sys.stderr,
                )
