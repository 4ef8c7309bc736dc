"""What tables and figures read of each kind of record; one that lacks some of it is named, and not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import isclose, log
from typing import Any

from groc.adaptation.memory import OCCURRENCES
from groc.adaptation.online import CacheSettings
from groc.config import known_keys
from groc.errors import GrocError
from groc.paper.shapes import (
    COUNT,
    FILLED,
    NUMBER,
    NUMBER_OR_TEXT,
    PERPLEXITY,
    POSITIVE,
    SHARE,
    TEXT,
    UNKNOWN_OR_NUMBER,
    UNKNOWN_OR_PERPLEXITY,
    WHOLE,
    YES_OR_NO,
    Each,
    Kind,
    Shape,
    is_log,
    misfits,
)
from groc.report import BINS
from groc.results import HELD_OUT, PAIRED, PRUNED, extras

Row = dict[str, Any]
MOST_NAMED = 3
"""Of the places where a record is damaged."""


def damage(record: Row, kind: str) -> str:
    """What a record of some kind lacks, or has otherwise than tables need it; empty if nothing."""
    found = list(islice(misfits(record, SHAPES[kind], ""), MOST_NAMED + 1))
    return "; ".join([*found[:MOST_NAMED], *(["and more"] if len(found) > MOST_NAMED else [])])


def kind_of(record: Row) -> str:
    """What was recorded; empty for all that tables make no use of, such as demos and runs that were given up."""
    if record.get("kind") in ("data", "search"):
        return "corpus" if record["kind"] == "data" else "search"
    if "kind" in record and "runs" in record:
        return "set of runs"
    figures, sizes = record.get("figures"), record.get("sizes")
    if isinstance(figures, dict):
        is_run = "valid_perplexity" in figures or (
            {"date", "config", "curve"} <= record.keys() and PRUNED not in figures
        )
    else:
        is_run = {"date", "config"} <= record.keys()
    if is_run:
        return "run"
    return "bench" if "sizes" in record and sizes != {} else ""


def is_read(figures: Row) -> bool:
    """Whether an evaluation is a score of a text that has a place in tables."""
    return figures.get("vocabulary_kind", "union") in ("union", "train") and not figures.get("glossary")


# --- evaluations ----------------------------------------------------------------------------------------------------

CACHE = {
    "kind": TEXT,
    "lambda?": NUMBER_OR_TEXT,
    "likeness?": TEXT,
    **dict.fromkeys(("theta?", "size?", "recency?", "last?", "alpha?"), UNKNOWN_OR_NUMBER),
}
BIN = {
    "from": Kind(f"one of {', '.join(map(str, BINS))}", lambda value: value in BINS),
    "loss?": NUMBER,
    "median_loss?": NUMBER,
}
OCCURRENCE = (
    {"from": COUNT, "to": UNKNOWN_OR_NUMBER, "tokens": COUNT},
    lambda row: {"loss": NUMBER} if row["tokens"] else {},
)
ALL_OCCURRENCES = Kind(
    f"rows from {', '.join(map(str, OCCURRENCES))}", lambda rows: [row["from"] for row in rows] == [*OCCURRENCES]
)


def _is_cache(facts: Row) -> bool:
    try:
        CacheSettings.of(facts).facts()
    except GrocError:
        return False
    return True


def _is_grid(rows: Sequence[Row]) -> bool:
    tried = {(row["lambda"], row["theta"]) for row in rows}
    return len(tried) == len({share for share, _ in tried}) * len({theta for _, theta in tried})


GRID = (
    [{"lambda": NUMBER_OR_TEXT, **dict.fromkeys(("theta", "loss", "perplexity"), NUMBER)}],
    FILLED,
    Kind("rows of each lambda with each theta", _is_grid),
)


def _tunes_states(rows: Sequence[Row]) -> bool:
    """Whether it is a cache of states that was tuned, of which there is a table, or something else."""
    return all("lambda" in row and "theta" in row for row in rows)


SCORED = {
    "perplexity": UNKNOWN_OR_PERPLEXITY,
    "unseen": {"loss": UNKNOWN_OR_NUMBER},
    "oov_share": SHARE,
    "vocabulary": POSITIVE,
    "tokens?": COUNT,
    "protocol?": Kind("text that begins with strict", lambda value: str(value).startswith("strict")),
    "device?": TEXT,
    "bins?": [BIN],
    "new_by_occurrence?": ([OCCURRENCE], ALL_OCCURRENCES),
    "tuning?": Each(([{}], lambda rows: GRID if _tunes_states(rows) else ())),
    # What the model was helped or hindered with
    "caches?": [CACHE],
    "without?": [TEXT],
    "coverage?": NUMBER,
    "dynamic?": Kind("an object or null", lambda value: value is None or isinstance(value, dict)),
    **dict.fromkeys(("novelty?", "sharpness?", "new_words_as?", "first?"), UNKNOWN_OR_NUMBER),
}


def _needs_of_score(figures: Row) -> Shape:
    """What else an evaluation must have for what it has."""
    needs: dict[str, Shape] = {}
    if not extras(figures):  # all others may do without
        needs["bins"] = [{}]
    if figures["unseen"]["loss"] is not None:
        needs["oov_share"] = Kind("above 0, as there is a loss of unseen words", lambda share: share > 0)
    if (perplexity := figures["perplexity"]) is not None:
        logarithm = f"{log(perplexity):.4f}, the logarithm of its perplexity of {perplexity:g}"
        needs["loss?"] = Kind(logarithm, lambda loss: is_log(loss, perplexity))
    tuned = {place.partition(" ")[0] for place, rows in figures.get("tuning", {}).items() if _tunes_states(rows)}
    if tuned:
        numbers = {str(number) for number, _ in enumerate(figures.get("caches", ()), 1)}
        needs["tuned_on"] = TEXT
        needs["tuning"] = Kind("by the numbers and names of its caches, as in 1 local", lambda _: tuned <= numbers)
        needs["caches"] = [Kind("the settings of a cache", _is_cache)]
    return needs


MEAN, INTERVAL = (dict.fromkeys(keys, UNKNOWN_OR_NUMBER) for keys in (("mean",), ("mean", "low", "high")))
OF_HELD_OUT_WORDS = {
    "rows": [{"condition": TEXT, "loss": MEAN, "gain": INTERVAL, "seen_loss": MEAN}],
    **dict.fromkeys(("even_odds", "closed_share", "words", "tokens"), UNKNOWN_OR_NUMBER),
}


COMPARED = {
    "against": TEXT,
    "seed": WHOLE,
    "valid_perplexity": UNKNOWN_OR_NUMBER,
    "tokens": COUNT,
    **INTERVAL,
    "bins": [{"from": BIN["from"], "median": NUMBER}],
}
"""With another model, word by word."""


def _evaluation(figures: Row) -> Shape:
    if figures.get("vocabulary_kind") == HELD_OUT:
        return OF_HELD_OUT_WORDS
    return (SCORED, _needs_of_score) if is_read(figures) else ()


# --- records --------------------------------------------------------------------------------------------------------


ALWAYS = {
    "forms": "rules relations definition lower lexicon without coverage coverage_seed",
    "surface": "kind characters filters highway longest buckets rank shortest_ngram longest_ngram",
    "model": "dim start uniform",
    "output": "kind dropout depth activation bias bias_dropout correction cutoffs factor",
    "prefix": "hidden layers input_dropout hidden_dropout output_dropout",
    "training": "batch unroll random_unroll epochs rate encoder_rate weight_decay clip schedule warmup patience decay "
    "final_rate stop_after activation temporal average full_updates valid_streams save_minutes seed",
    "compute": "device bf16 compile",
}
"""The settings that every record names, by section. All others are newer than some records, which had what is their
default."""


def config_shape() -> Shape:
    kinds: dict[Any, Shape] = {str: TEXT, bool: YES_OR_NO, int: WHOLE, float: NUMBER}
    kinds |= {tuple[int, ...]: [WHOLE], tuple[str, ...]: [TEXT]}
    shape: dict[str, Shape] = {"corpus": TEXT}
    for key, kind in known_keys().items():
        section, _, name = key.rpartition(".")
        if section:
            is_named = name in ALWAYS.get(section, "").split()
            shape.setdefault(section, {})[name if is_named else f"{name}?"] = kinds[kind]
    return shape


def _same_seed(own: int) -> Kind:
    return Kind(f"{own}, as config.training.seed says", lambda seed: seed == own)


def _at_most(epochs: int) -> Kind:
    words = f"at most {epochs}, as config.training.epochs says"
    return Kind(words, lambda number: number is None or number <= epochs)


READ = {"perplexity": UNKNOWN_OR_PERPLEXITY}
TEXTS = {
    "target test": {"new_share": SHARE, "after": {**READ, "new_words_loss": UNKNOWN_OR_NUMBER}},
    "source valid": {"before": READ, "after": READ},
}
"""What fine-tuning itself measures."""
CURVE_NEAR = 0.1
"""Part by which the perplexity of a curve, which is read in several streams, differs from the strict one at most."""


def _as_the_curve_says(record: Row) -> Shape:
    by_epoch = {row["epoch"]: row["valid_perplexity"] for row in record.get("curve", ())}
    if record["figures"].get("best_epoch", next(iter(by_epoch), None)) not in by_epoch:
        return ()  # there is none, or its best epoch was lost, which training allows
    best = min(by_epoch.values())
    near = Kind(f"near {best:g}, the best of its curve", lambda dev: isclose(dev, best, rel_tol=CURVE_NEAR))
    return {"figures": {"valid_perplexity": near}}


FINE_TUNED = {"figures": {"texts": [{}]}, "curve": ([{"step": NUMBER, "valid_loss": NUMBER}], FILLED)}
RUN = (
    {
        **dict.fromkeys(("name", "date", "device"), TEXT),
        "config": config_shape(),
        "figures": {
            "parameters": POSITIVE,
            "valid_perplexity": PERPLEXITY,
            **dict.fromkeys(("steps?", "epochs?", "best_epoch?", "valid_tokens?"), UNKNOWN_OR_NUMBER),
            "replanned?": [dict.fromkeys(("after_step", "epochs_before", "epochs"), COUNT)],
            "texts?": [({"text": TEXT}, lambda row: TEXTS.get(row["text"], {}))],
        },
        "curve?": [{"epoch": NUMBER, "valid_perplexity": NUMBER}],
        "evaluations?": Each(({"vocabulary_kind?": TEXT}, _evaluation)),
        f"{PAIRED}?": Each(COMPARED),
    },
    lambda record: FINE_TUNED if "adapted_from" in record["figures"] else {},
    _as_the_curve_says,
    lambda record: {"seed?": _same_seed(record["config"]["training"]["seed"])},
    lambda record: {"figures": {"epochs?": _at_most(record["config"]["training"]["epochs"])}},
)


def _with_sizes(figures: Row) -> Shape:
    """Of each text that is compared with the source there must be the size."""
    known = {row["set"] for row in figures["texts"] if row["text"] == "test"}
    return {"unseen": [{"test": Kind("a set that has a test text", known.__contains__)}]}


CROSS_DOMAIN = (
    {
        "texts": [{"set": TEXT, "text": TEXT, "tokens": COUNT, "words": COUNT}],
        "unseen": [{"test": TEXT, **dict.fromkeys(("of_tokens", "of_words", "with_entry"), NUMBER)}],
    },
    _with_sizes,
)
CORPUS = {"tokens": POSITIVE, **dict.fromkeys(("vocabulary?", "relations?", "definitions?"), NUMBER)}
SHAPES: Mapping[str, Shape] = {
    "run": RUN,
    "set of runs": {"runs": Each(RUN)},
    "corpus": (
        {"name": TEXT},
        lambda record: {"figures": CROSS_DOMAIN if record["name"] == "data/cross-domain" else CORPUS},
    ),
    "search": {
        "name": TEXT,
        "trials": [
            {
                "state": TEXT,
                "changes": ({}, FILLED),
                **dict.fromkeys(("valid_perplexity?", "parameters?"), UNKNOWN_OR_NUMBER),
            }
        ],
        "space?": {},
        "fixed?": {},
        "corpus?": {"name": TEXT},
        "budget?": {},
    },
    "bench": {
        "date": TEXT,
        "device": TEXT,
        "sizes": Each({"models?": [{"model": TEXT, "step": POSITIVE, "device?": TEXT}]}),
    },
}
"""Of each kind of record."""
