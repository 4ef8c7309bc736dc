"""A recorded run, and which runs belong to a cell of a table."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groc.building import USES_CHARACTERS, USES_LEXICON, USES_NETWORK
from groc.config import Config, flatten, of_this_version
from groc.paper.checking import is_read
from groc.paper.published import MODELS
from groc.results import PAIRED, TRAINING, extras, paired_name

RECIPES = {"penn": "penn", "wikitext-2": "wikitext2"}
"""The recipe of published size for each corpus; its large companion is called the same with `-best` after it."""
BEST = ", best recipe"
"""Behind the name of a model in tables where it is of that companion."""
SAME = {
    "penn/groc-sparse": "groc",
    "wikitext2/groc-sparse": "groc",
    "penn/groc-ngrams": "groc",  # what older records call it
}
"""Variants that are another one, or another one with a setting that tables vary."""
VARIED: Mapping[str, Any] = {"forms.coverage": 1.0, "forms.without": (), "training.full_updates": 1.0}
"""Settings that tables vary, and what they are in all other cells."""
NOT_SETTINGS = ("name", "corpus", "compute.", "training.seed", "training.save_minutes")
"""What may differ between runs that repeat each other."""
PACKED = ("penn.jsonl", "wikitext2.jsonl", "wordnet.jsonl")
"""What records call WordNet where a run had it from a file that `tools/pack_corpus.py` made."""
AS_GOOD = 1.01
"""Dev perplexities within 1% are alike: of such settings, those with more seeds are taken."""


class Run:
    """The record of one training run."""

    def __init__(self, record: dict[str, Any], path: Path | None = None) -> None:
        self.path = path
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in flatten(record["config"]).items()}
        current, gone = of_this_version(given)
        self.settings = {**Config().flat(), **current, **gone}
        """By dotted key; what an older record does not name is at its default, and a setting that has since been taken
        out is there only where it was used."""
        # It means the same in any order: here it has that of the recipes.
        self.settings["forms.without"] = tuple(sorted({*self.settings["forms.without"]}, reverse=True))
        self.repeatable = not gone
        """Whether it uses no setting that has since been taken out."""
        self.record, self.figures, self.curve = record, record["figures"], record.get("curve", [])
        self.dataset, self.seed = Path(self.settings["corpus"]).name, self.settings["training.seed"]
        self.dev: float = self.figures["valid_perplexity"]
        self.has_network = self.settings["output.kind"] in USES_NETWORK and self.settings["output.depth"] > 0
        self.adapted = "adapted_from" in self.figures
        """Whether the model was fine-tuned on the corpus, after another one."""
        self.recipe, _, variant = record["name"].partition(" on ")[0].partition("/")
        variant = variant or self.settings["output.kind"]
        self.variant = SAME.get(f"{self.recipe}/{variant}", variant)
        valid = [row["valid_perplexity"] for row in self.curve]
        self.ended_worse = bool(valid) and valid[-1] > valid[0]
        """Whether its last epoch was worse than its first."""
        self.repeated = identity(self.settings), self.seed
        """The same for two records of what is, but for the machine, one run."""

    def is_training_of(self, other: Run) -> bool:
        """Whether both are records of one training, not just of the same settings."""
        names = ("dataset", "recipe", "variant", "adapted", "repeated", "dev")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def agrees(self, other: Run) -> bool:
        """Whether tables would show the same of both."""
        return all(self.record.get(part) == other.record.get(part) for part in ("figures", "evaluations", PAIRED))

    def evaluations(self) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
        """Of each evaluation the text, what the model was helped or hindered with, and the figures."""
        for row in self.figures.get("texts", ()):  # what fine-tuning itself measured
            if row["text"] == "target test":
                unseen = {"loss": row["after"]["new_words_loss"]}
                yield f"{self.dataset}/test", (), {**row["after"], "unseen": unseen, "oov_share": row["new_share"]}
        for name, figures in self.record.get("evaluations", {}).items():
            if is_read(figures):
                yield name.partition(", ")[0], extras(figures), figures

    def by_domain(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Of each evaluation of a test text the domain, the name of the model with what it had, and the figures."""
        for text, helped, figures in self.evaluations():
            if not text.endswith(("/valid", "/train")):
                part = [extra for extra in helped if extra.startswith("first ")]
                had = [self.variant, *(["finetuned"] if self.adapted else []), way_of(helped)]
                yield ", ".join([text.removesuffix("/test"), *part]), "+".join(filter(None, had)), figures

    def test(self, helped: tuple[str, ...] = ()) -> dict[str, Any] | None:
        """The figures on the test text of the run's own corpus."""
        wanted = (f"{self.dataset}/test", helped)
        return next((figures for text, found, figures in self.evaluations() if (text, found) == wanted), None)

    def against(self, other: Run) -> dict[str, Any] | None:
        """The comparison with another run, word by word on that text: with this very run, not one of its name."""
        name = paired_name(f"{self.dataset}/test", other.record["name"], other.seed)
        figures: dict[str, Any] | None = self.record.get(PAIRED, {}).get(name)
        is_other = figures and [figures[key] for key in TRAINING] == [other.seed, other.dev]
        return figures if is_other else None


def way_of(helped: tuple[str, ...]) -> str:
    """The name of a way to read: what a model was helped with. The weight of new words, which is tuned with whatever
    else there is, has no name, nor has the part of the text that was read."""
    return "+".join(extra for extra in helped if not extra.startswith(("new words ", "first ")))


@dataclass(frozen=True)
class Job:
    """What the runs of a cell have in common: corpus, recipe, variant, and the settings that the table varies."""

    dataset: str
    variant: str
    changes: tuple[tuple[str, Any], ...] = ()
    set: str = ""
    """Behind the recipe's name: nothing (published size), or -best."""
    network: bool | None = None
    """Whether there must be an output network; None: either will do."""

    @property
    def recipe(self) -> str:
        return RECIPES[self.dataset] + self.set

    def wants(self, run: Run) -> bool:
        mine = (run.dataset, run.recipe, run.variant, run.adapted) == (self.dataset, self.recipe, self.variant, False)
        return (
            mine
            and run.repeatable
            and self.network in (None, run.has_network)
            and all(run.settings[key] == value for key, value in {**VARIED, **dict(self.changes)}.items())
        )


def identity(settings: Mapping[str, Any]) -> str:
    """The same for two runs that differ in seed and machine alone. Settings at their defaults do not count, so that new
    ones change no name, nor do those that this kind of model makes no use of."""
    usual = {**Config().flat(), "forms.lexicon": None}
    kept = {key: value for key, value in in_use(settings).items() if value != usual.get(key)}
    return hashlib.sha256(json.dumps(sorted(kept.items())).encode()).hexdigest()[:8]


def in_use(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without seed, machine and those that this kind of model makes no use of."""
    left_out = unused(settings)
    lexicon = Path(settings["forms.lexicon"]).name
    settings = {**settings, "forms.lexicon": "wordnet" if lexicon in PACKED else lexicon}
    return {k: v for k, v in settings.items() if k not in left_out and not k.startswith(NOT_SETTINGS)}


def unused(settings: Mapping[str, Any]) -> set[str]:
    """The settings that a model makes no use of."""
    kind, sections, names = settings["output.kind"], [], []
    if kind not in USES_CHARACTERS:
        sections.append("surface.")
    elif settings["surface.kind"] == "cnn":
        names += [f"surface.{name}" for name in ("buckets", "rank", "shortest_ngram", "longest_ngram", "hashes")]
        names.append("surface.familiar")
    else:
        names += [f"surface.{name}" for name in ("characters", "filters", "highway", "longest")]
    if kind not in USES_LEXICON:
        sections.append("forms.")
    if kind not in USES_NETWORK:
        names += ["output.depth", "output.activation"]
    if kind != "groc":
        names += ["output.bias", "output.bias_dropout"]
    if kind != "convolutional":
        names.append("output.correction")
    if kind != "adaptive":
        names += ["output.cutoffs", "output.factor"]
    if not settings["prefix.gate_rounds"]:
        names.append("prefix.gate_rank")
    return {key for key in settings if key in names or key.startswith(tuple(sections))}


def best(runs: Iterable[Run]) -> list[Run]:
    """Runs with the same settings, one a seed: those with the lowest mean dev perplexity; of settings that are as good,
    those with most seeds. The test text has no say."""
    groups = by_settings(runs)
    means = [statistics.mean(run.dev for run in group) for group in groups]
    as_good = [place for place, mean in enumerate(means) if mean <= AS_GOOD * min(means)]
    chosen = min(as_good, key=lambda place: (-len(groups[place]), means[place]), default=None)
    return [] if chosen is None else groups[chosen]


def by_settings(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs in groups that differ in their seeds alone, in the order of these."""
    groups: defaultdict[str, dict[int, Run]] = defaultdict(dict)
    for run in runs:
        settings, seed = run.repeated
        groups[settings][seed] = run  # a later run with the same seed replaces an earlier one
    return [[run for _, run in sorted(group.items())] for group in groups.values()]


def other_model(variant: str, settings: Mapping[str, Any]) -> str:
    """What tells a model with these settings from that of a variant's name; empty if nothing does."""
    model, kind, depth = model_of(variant), settings["output.kind"], settings["output.depth"]
    if model and kind != model:
        return f"has the output embedding of {kind}"
    if "no-out" in variant and depth:
        return f"has an output network of depth {depth}"
    if variant.startswith("groc-without") and not depth:
        return "has no output network"
    left_out = settings["forms.without"]
    if variant.partition("-without-")[2] != ("both" if len(left_out) == 2 else "".join(left_out)):
        return f"was trained without {' and '.join(left_out)}" if left_out else "has relations and definitions"
    return ""


def model_of(variant: str) -> str | None:
    """Which of the models of the tables a variant is, or is one without something."""
    return next((model for model in MODELS if variant.startswith(model)), None)
