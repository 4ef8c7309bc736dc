"""groc search: try settings one after another, and show which did best on the valid text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.paper.published import BANDS, RANGES
from groc.proposals import Range, Space, idle, parse_space
from groc.recipe import load_recipe
from groc.report import table, to_json
from groc.search import Search, Trial
from groc.signals import repeatable


def show_search(
    recipe: str,
    variant: str | None,
    assignments: Sequence[str],
    corpus: str,
    out: str,
    trials: int,
    method: str | None,
    paper_ranges: bool,
    prunes: bool,
    seed: int,
    as_json: bool,
) -> None:
    fixed, space = parse_space(assignments)
    config = load_recipe(recipe, variant, fixed).replace({"corpus": corpus})
    if paper_ranges:
        given = [assignment.partition("=")[0] for assignment in assignments]
        lists = published(config.output.kind, len(Corpus(corpus).vocabulary()))
        papers = parse_space([one for one in lists if one.partition("=")[0] not in given])[1]
        space = {**with_own_values(config, papers), **space}
        space = {key: values for key, values in space.items() if key in given or key not in idle(config, space)}
    if method is None:
        method = "tpe" if any(isinstance(values, Range) for values in space.values()) else "grid"
    search = Search(config, space, Path(out), trials, method, prunes, seed)
    with repeatable(f"the trials are in {out}"):
        search.run()
    best = search.best
    if as_json:
        print(to_json({**search.to_dict(), "best": best and best.number}))
    else:
        print(_table(search))
    if best is None:
        raise GrocError(f"No trial came to its end: give lower rates, or look at the trials' folders in {out}.")
    if as_json:
        return
    command = ["groc", "train", recipe, *(["--variant", variant] if variant else []), "--corpus", corpus, *fixed]
    command += [f"{key}={value}" for key, value in best.changes.items()]
    where = str(search.path(best)) if search.path(best).is_dir() else "whose folder is gone; to train it again:"
    print(f"\nBest on the valid text: trial {best.number}, {where}\n{shlex.join(command)}")


def published(kind: str, words: int) -> list[str]:
    """The lists that the paper searched for a kind of model with so many words."""
    bands = (",".join(str(words * part // 10) for part in list(accumulate(band))[:-1]) for band in BANDS)
    return [*RANGES[kind], *([f"output.cutoffs={':'.join(bands)}"] if kind == "adaptive" else [])]


def with_own_values(config: Config, space: Space) -> Space:
    """Lists with the recipe's value added where it is missing, so that the recipe itself can be among the trials."""
    settings, added = config.flat(), dict(space)
    for key, values in space.items():
        if isinstance(values, list) and all(config.replace({key: value}) != config for value in values):
            own = settings[key]
            added[key] = [*values, ",".join(map(str, own)) if isinstance(own, tuple) else str(own)]
    return added


def _table(search: Search) -> str:
    def line(trial: Trial) -> list[str]:
        valid = f"{trial.valid_perplexity:.2f}" if trial.valid_perplexity is not None else ""
        changes = [str(trial.changes[key]) for key in search.space]
        return [str(trial.number), *changes, valid, trial.state, str(trial.epochs), f"{trial.seconds:.0f}"]

    ranked = sorted(search.trials, key=lambda trial: (trial.state != "done", trial.valid_perplexity or float("inf")))
    return table(["trial", *search.space, "valid", "state", "epochs", "seconds"], [line(trial) for trial in ranked])
