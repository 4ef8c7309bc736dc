"""The recorded searches: what each model was given, and what they found that no long run has tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import isclose
from typing import Any

from groc.config import convert, known_keys
from groc.errors import GrocError
from groc.paper.courses import COURSE, course
from groc.paper.published import DATASETS, MODELS
from groc.paper.records import Results, largest_of
from groc.paper.runs import BEST, NOT_SETTINGS, VARIED, Job, Run, unused
from groc.paper.table import Row

EPOCHS = "training.epochs"
TUNED = {
    "training.rate": "rate",
    "prefix.input_dropout": "dropout of prefixes",
    "output.dropout": "dropout of outputs",
}
"""What was varied for all models, by name. All dropouts of a prefix network were varied together with this one."""
ROUNDED = 0.1
"""Values that differ by no more than this share are taken as the same."""


def in_a_list(model: str) -> str:
    """What a model is called where commas part one from the next."""
    return f"{model.removesuffix(BEST)} (best recipe)" if model.endswith(BEST) else model


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


def _given(search: Row) -> str:
    epochs = search.get("budget", {}).get("epochs")
    if isinstance(epochs, dict):  # a range
        epochs = f"{epochs.get('low')} to {epochs.get('high')}"
    elif isinstance(epochs, list):
        epochs = " or ".join(map(str, epochs))
    number = len(search["trials"])
    return f"{number} trial{'' if number == 1 else 's'}" + (f" of {epochs} epochs" if epochs else "")


def searched(results: Results, job: Job) -> list[tuple[str, dict[str, Any]]]:
    """Of each recorded search for a model what it was given, and the settings that it tried values of, with the list or
    range that these were of (None where an older record has none)."""
    found = []
    for search in searches_of(results, job):
        keys = dict.fromkeys(key for trial in search["trials"] for key in trial["changes"])
        found.append((_given(search), {key: search.get("space", {}).get(key) for key in keys}))
    return sorted(found, key=lambda one: (one[0], sorted(one[1])))


def different_budgets(results: Results) -> list[str]:
    """For each dataset whose models were searched with different budgets, a line that says so."""
    lines = []
    for dataset in DATASETS:
        searches = {name: searched(results, Job(dataset, name)) for name in MODELS}
        given = {name: " and ".join(budget for budget, _ in some) or "none" for name, some in searches.items()}
        if len(set(given.values())) > 1:
            listed = ", ".join(f"{name} {one}" for name, one in given.items())
            lines.append(f"{dataset}: budgets differ: {listed}")
    return lines


def as_long(results: Results, job: Job) -> list[Run]:
    """The runs of a model that were trained for as many epochs as its row in the tables, or more, and learned to the
    end."""
    shown = results.of(job)[:1]
    runs = (run for run in (*results.counted, *results.bundled) if job.wants(run) and not run.ended_worse)
    return [run for run in runs if shown and run.settings[EPOCHS] >= shown[0].settings[EPOCHS]]


def settings_as_long(results: Results, job: Job) -> int:
    """How many different settings these have, seeds not counted."""
    return len({run.repeated[0] for run in as_long(results, job)})


def _in_its_course(results: Results, job: Job) -> list[Run]:
    """Those of them that had the course of training of the row."""
    courses = [course(run) for run in results.of(job)[:1]]
    return [run for run in as_long(results, job) if course(run) in courses]


def values_tried(results: Results, job: Job) -> dict[str, str]:
    """By name of what was varied for all models the values that were trained as long as the row, in its course; that of
    the row is in bold."""
    shown, runs = results.of(job)[:1], _in_its_course(results, job)
    return {
        name: ", ".join(
            f"**{value:g}**" if value == row.settings[key] else f"{value:g}"
            for value in sorted({run.settings[key] for run in runs})
        )
        for key, name in TUNED.items()
        for row in shown
    }


def untried(results: Results, job: Job) -> str:
    """Of each search the best trial that is not too large for the row, where no run as long as that, and in its course
    of training, has all of its values: those that the row has otherwise.

    Settings of the course and those that tables vary are left out, since such a run would belong to another row.
    """
    shown, long, found = results.of(job)[:1], _in_its_course(results, job), []
    for search in searches_of(results, job) if long else ():
        done = [
            trial
            for trial in search["trials"]
            if trial.get("state") == "done"
            and trial.get("valid_perplexity")  # what diverged has none
            and (trial.get("parameters") or 0) <= largest_of(job)
        ]
        best: Row = min(done, key=lambda trial: trial["valid_perplexity"], default={"changes": {}})
        values = {key: value for key, value in best["changes"].items() if _is_of_a_row(key, shown[0])}
        if not any(_has(run, values) for run in long):
            others = [f"{key}={value}" for key, value in values.items() if not _has(shown[0], {key: value})]
            found.append(f"{' with '.join(others)} ({_given(search)})")
    return "; ".join(found)


def _is_of_a_row(key: str, run: Run) -> bool:
    left_out = {*COURSE, *VARIED, *unused(run.settings)}
    return key in known_keys() and key not in left_out and not key.startswith(NOT_SETTINGS)


def _has(run: Run, values: Row) -> bool:
    return all(_is_about(run.settings[key], key, value) for key, value in values.items())


def _is_about(had: Any, key: str, typed: Any) -> bool:
    """Whether a run has the value of a search, which keeps it as it was typed. Who tries what was drawn from a range
    rounds it."""
    try:
        value = convert(key, typed, known_keys()[key])
    except GrocError:
        return False
    return isclose(had, value, rel_tol=ROUNDED) if isinstance(value, float) else bool(had == value)


def _alike(rows: Sequence[Row], dataset: str) -> list[tuple[str, dict[str, Any]]]:
    """What each search gave all models of the main comparison, by the rows of hyper-parameters, and over which values
    of which settings it was; none if any model had another search, or one more. Settings that not all models have tried
    values of, such as depths, are left out."""
    each = [row["searched"] for row in rows if row["dataset"] == dataset and row["model"] in MODELS]
    common = set.intersection(*({key for _, space in searches for key in space} for searches in each)) if each else ()
    shared = [
        [(given, {key: space[key] for key in sorted({*common} & {*space})}) for given, space in searches]
        for searches in each
    ]
    is_alike = all(searches == shared[0] for searches in shared) and all(space for one in shared for _, space in one)
    return shared[0] if shared and is_alike else []


def _for_some(rows: Sequence[Row], dataset: str) -> dict[str, list[str]]:
    """Settings that were searched for some models of the main comparison and not for all, and for which."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    each = {row["model"]: row["searched"] for row in rows if row["dataset"] == dataset and row["model"] in MODELS}
    for model, searches in each.items():
        for key in dict.fromkeys(key for _, space in searches for key in space):
            found[key].append(model)
    return {key: models for key, models in sorted(found.items()) if len(models) < len(each)}


def not_searched_alike(rows: Sequence[Row]) -> list[str]:
    """On which corpora not all models of the main comparison were searched alike."""
    return [dataset for dataset in DATASETS if not _alike(rows, dataset)]


def not_tuned_alike(rows: Sequence[Row]) -> list[str]:
    """Those, and the corpora where what a search found best for a model was not run for as long as its row."""
    unheeded = {row["dataset"] for row in rows if row["model"] in MODELS and row["untried"]}
    unequal = not_searched_alike(rows)
    return [dataset for dataset in DATASETS if dataset in unheeded or dataset in unequal]


def said_of_searches(rows: Sequence[Row]) -> str:
    """What searches gave all models alike, and what they leave open."""
    lines = []
    searches = {
        dataset: [f"{given} ({', '.join(keys)})" for given, keys in _alike(rows, dataset)] for dataset in DATASETS
    }
    if alike := "; ".join(f"{dataset} with {' and '.join(some)}" for dataset, some in searches.items() if some):
        lines.append(f"Searched alike for the seven models, but for what is named next: {alike}.")
    for dataset in DATASETS:
        if some := _for_some(rows, dataset):
            told = "; ".join(f"{key} for {', '.join(models)}" for key, models in some.items())
            lines.append(f"On {dataset} these were searched along with others, for some models alone: {told}.")
    if unequal := not_searched_alike(rows):
        lines.append(f"Not searched alike for the seven models: {' and '.join(unequal)}.")
    tried = {dataset: {key for _, keys in _alike(rows, dataset) for key in keys} for dataset in DATASETS}
    for dataset, keys in tried.items():
        if keys and (others := sorted(set.union(*tried.values()) - keys)):
            lines.append(f"Searched on another corpus alone, not on {dataset}: {', '.join(others)}.")
    best = [row for row in rows if row["model"].endswith(BEST) and row["runs"] and not row["trials"]]
    if best:
        told = "; ".join(
            f"on {dataset} {' and '.join(in_a_list(row['model']) for row in best if row['dataset'] == dataset)}"
            for dataset in dict.fromkeys(row["dataset"] for row in best)
        )
        lines.append(f"Without any search, by settings that were tried by hand: {told}.")
    for dataset in DATASETS:
        models: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row["dataset"] == dataset and row["untried"]:
                models[row["untried"]].append(row["model"])
        if models:
            told = "; ".join(f"{found} for {', '.join(names)}" for found, names in models.items())
            lines.append(f"Found best on {dataset} by searches, and not run for as long as the row: {told}.")
    return " ".join(lines)
