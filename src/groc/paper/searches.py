"""The recorded searches: what each model was given, and what they found that no long run has tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from groc.config import Config
from groc.errors import GrocError
from groc.paper.published import DATASETS, MODELS
from groc.paper.runs import Job, Results, Run
from groc.paper.table import Row

EPOCHS = "training.epochs"


def searches_of(results: Results, job: Job) -> list[Row]:
    """The recorded searches for a model's settings on a corpus. Another corpus may have the same name, so the sizes
    must agree where they are known."""
    size = results.data.get(f"data/{job.dataset}", {}).get("tokens")
    found = []
    for search in results.searches:
        fixed = search.get("fixed", {})
        recipe, _, variant = search["name"].partition("/")
        corpus = search.get("corpus", {"name": fixed.get("corpus", job.dataset)})
        named = recipe, variant or fixed.get("output.kind"), corpus["name"]
        tokens = corpus.get("tokens", size)
        if named == (job.recipe, job.variant, job.dataset) and size in (None, tokens):
            found.append(search)
    return found


def budget(results: Results, job: Job) -> str:
    """What the recorded searches for a model were given; empty if there are none."""
    given = []
    for search in searches_of(results, job):
        epochs = search.get("budget", {}).get("epochs")
        if isinstance(epochs, dict):  # a range
            epochs = f"{epochs.get('low')} to {epochs.get('high')}"
        elif isinstance(epochs, list):
            epochs = " or ".join(map(str, epochs))
        given.append(f"{len(search['trials'])} trials" + (f" of {epochs} epochs" if epochs else ""))
    return " and ".join(given)


def different_budgets(results: Results) -> list[str]:
    """For each dataset whose models were searched with different budgets, a line that says so."""
    lines = []
    for dataset in DATASETS:
        budgets = {name: budget(results, Job(dataset, name)) or "none" for name in MODELS}
        if len(set(budgets.values())) > 1:
            listed = ", ".join(f"{name} {one}" for name, one in budgets.items())
            lines.append(f"{dataset}: budgets differ: {listed}")
    return lines


def as_long(results: Results, job: Job) -> list[Run]:
    """The runs of a model that were trained for as many epochs as its row in the tables, or more."""
    shown = results.of(job)[:1]
    runs = (run for run in (*results.counted, *results.bundled) if job.wants(run))
    return [run for run in runs if shown and run.settings[EPOCHS] >= shown[0].settings[EPOCHS]]


def untried(results: Results, job: Job) -> str:
    """The values that a search found best and that no run as long as the model's row has had: what it would take to
    say that the search was heeded."""
    long = as_long(results, job)
    found: Row = {}
    for search in searches_of(results, job):
        done = [trial for trial in search["trials"] if trial.get("valid_perplexity") and trial.get("state") == "done"]
        best: Row = min(done, key=lambda trial: float(trial["valid_perplexity"]), default={})
        found |= {
            key: value
            for key, value in best.get("changes", {}).items()
            if long and key != EPOCHS and not any(run.settings.get(key) == _read(key, value) for run in long)
        }
    return ", ".join(f"{key}={value}" for key, value in found.items())


def _read(key: str, value: Any) -> Any:
    """A setting as runs have it: searches keep what was typed."""
    try:
        return Config().replace({key: value}).flat()[key]
    except GrocError:  # a setting that is no more
        return value


def not_searched_alike(rows: Sequence[Row]) -> list[str]:
    """On which corpora no search gave all models of the main comparison as much, by the rows of hyper-parameters."""
    unequal = []
    for dataset in DATASETS:
        budgets = {row["budget"] for row in rows if row["dataset"] == dataset and row["model"] in MODELS}
        if len(budgets) > 1 or "" in budgets:
            unequal.append(dataset)
    return unequal


def not_tuned_alike(rows: Sequence[Row]) -> list[str]:
    """Those, and the corpora where what a search found best for a model was not run for as long as its row."""
    unheeded = {row["dataset"] for row in rows if row["model"] in MODELS and row["untried"]}
    unequal = not_searched_alike(rows)
    return [dataset for dataset in DATASETS if dataset in unheeded or dataset in unequal]


def said_of_searches(rows: Sequence[Row]) -> str:
    """What searches leave open; nothing where all models were given as much and each has what was found for it."""
    lines = []
    if unequal := not_searched_alike(rows):
        lines.append(f"No search with equal budgets for the seven models is recorded on {' or '.join(unequal)}.")
    for dataset in DATASETS:
        models: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row["dataset"] == dataset and row["untried"]:
                models[f"{row['untried']} ({row['budget']})"].append(row["model"])
        if models:
            told = "; ".join(f"{found} for {', '.join(names)}" for found, names in models.items())
            lines.append(f"Found best on {dataset} by searches, and not run for as long as the row: {told}.")
    return " ".join(lines)
