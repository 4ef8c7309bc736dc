"""The cross-domain comparison: models of news are trained, and read texts of other domains in all ways of its table.

What is worth most comes first, and nothing that is recorded is done again: stop it at any time, and call it again.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from groc import checkpoint
from groc.adaptation import adapting
from groc.adaptation.dynamic import Dynamic, Sizes
from groc.adaptation.memory import by_occurrence
from groc.adaptation.online import CacheSettings, Online
from groc.adaptation.reading import counted, score_texts
from groc.adaptation.telling import telling_less
from groc.adaptation.tuning import tune
from groc.commands.evaluate import PROTOCOL, circumstances_of, measure, set_words
from groc.compute import Group, choose
from groc.config import Config
from groc.model import LanguageModel
from groc.paper.domains import EARLIER_YEARS, FAR, FIRST, LATER_YEARS, SOURCE, TUNING
from groc.paper.place import Place, chosen, recorded, run_name, timed, train_once
from groc.paper.runs import way_of
from groc.progress import Progress
from groc.recipe import load_recipe
from groc.report import summarise
from groc.results import RESULT, add_evaluation
from groc.running import may_resume
from groc.scoring import Scores

CACHES = {kind: Online(caches=(CacheSettings(kind),)) for kind in ("unigram", "local", "unbounded")}
CLOSED_WAYS = {"": Online(), **CACHES}
OPEN_WAYS = {**CLOSED_WAYS, "memory": Online(memory=True)}
"""How models read, by what the table calls it. Whatever is not set is tuned, what new words weigh included."""
LESS = {
    "without both": ("relations", "definitions"),
    "without relations": ("relations",),
    "without definitions": ("definitions",),
}
"""What an open model is not told of new words."""
DYNAMIC, FINE_TUNED = "dynamic", "finetuned"
FIRST_TUNED = 10_000
"""Dynamic evaluation is tuned on so many tokens."""
DECAY = 0.003
RATES = (0.3, 1.0, 0.1)
"""Shares of the rate of training that are tried in fine-tuning, on the earlier years."""


def run_cross_domain(models: Sequence[Moved], domains: Sequence[str]) -> None:
    """Train the models, and fill their rows on these domains."""
    later, far = ([domain for domain in domains if domain in some] for some in (LATER_YEARS, FAR))
    near = [domain for domain in domains if domain not in FAR]
    for step, parts in (
        (Moved.train, [domains]),
        (Moved.read, [domains]),
        (Moved.read_told_less, [domains]),
        (Moved.fine_tune, [later, *([domain] for domain in far)]),
        (Moved.learn, [[domain] for domain in (*far, *reversed(near))]),
    ):
        for part in filter(None, parts):
            for model in models:  # rivals side by side, wherever it is stopped
                with timed(f"{model.folder.name}: {step.__name__.replace('_', ' ')}, {', '.join(part)}"):
                    step(model, part)


def ways_of(variant: str) -> list[str]:
    """All ways in which a variant of the recipe can read."""
    own = [*OPEN_WAYS, *LESS] if is_open(variant) else [*CLOSED_WAYS]
    return [*own, FINE_TUNED, DYNAMIC]


def is_open(variant: str) -> bool:
    return load_recipe(SOURCE, variant).output.kind == "groc"


def possible_rows(rows: Sequence[str], domains: Collection[str], place: Place) -> list[str]:
    """Those of the rows that the corpora at hand are enough for; the others are named."""
    tuned = [row for row in rows if row.endswith(f"+{FINE_TUNED}")]
    if not tuned or not {*domains} & {*LATER_YEARS, *FAR} or place.has(EARLIER_YEARS, "train", "valid"):
        return [*rows]
    print(
        f"{', '.join(tuned)} left out: {place.corpora} has no {EARLIER_YEARS} with train and valid text, on which the "
        "rate of fine-tuning is chosen for all texts: make it (docs/data.md) and run again.",
        file=sys.stderr,
    )
    return [row for row in rows if row not in tuned]


def row_name(variant: str, way: str) -> str:
    return f"{variant}+{way}" if way else variant


class Moved:
    """A model of news that is moved to other domains, and the rows of the table that are wanted."""

    def __init__(self, place: Place, variant: str, seed: int, settings: Sequence[str], rows: Collection[str]) -> None:
        self.place, self.variant, self.rows = place, variant, rows
        config = chosen(SOURCE, variant, settings)
        self.config = config.replace({"training.seed": seed, "corpus": str(place.corpora / SOURCE)})
        self.folder = place.runs / run_name(self.config)
        self.ways = OPEN_WAYS if config.output.kind == "groc" else CLOSED_WAYS
        self.tunes = row_name(variant, FINE_TUNED) in rows

    def planned(self, domains: Collection[str]) -> Iterator[tuple[str, Config]]:
        """The names of all run folders that are to be filled for these domains, each with its corpus and epochs."""
        yield self.folder.name, self.config
        far = [domain for domain in FAR if domain in domains and self.place.has(domain, "train", "valid")]
        if self.tunes and {*domains} & {*LATER_YEARS, *FAR}:
            rates = [(EARLIER_YEARS, f"{rate:g}") for rate in RATES]
            for corpus, rate in (*rates, *((domain, "*") for domain in far)):  # far domains have the best of the rates
                changes = {"corpus": str(self.place.corpora / corpus), "training.epochs": adapting.EPOCHS}
                yield self.tuned_name(corpus, rate), self.config.replace(changes)

    def train(self, domains: Sequence[str]) -> None:  # noqa: ARG002
        train_once(self.config, self.folder)
        self.place.publish(self.folder)

    # --- with no training -------------------------------------------------------------------------------------------

    def read(self, domains: Sequence[str]) -> None:
        """All texts in all ways, each text once."""
        missing = {domain: ways for domain in domains if (ways := self.missing(domain, self.ways))}
        if not missing:
            return
        model = self.load()
        tuned = {way: self.tuned(model, way) for way in self.ways if any(way in some for some in missing.values())}
        for domain, scorer, found in self.scored(model, missing, tuned):
            for way, scores in found.items():
                if len(scores) > FIRST and way in CLOSED_WAYS:
                    self.record(self.summary(domain, scorer, tuned[way], first(scores, FIRST)) | {"first": FIRST})
                self.record(self.summary(domain, scorer, tuned[way], scores))
            self.place.publish(self.folder)

    def read_told_less(self, domains: Sequence[str]) -> None:
        """The same texts by an open model that is told less of new words."""
        for way, without in LESS.items() if self.ways is OPEN_WAYS else ():
            if missing := {domain: [way] for domain in domains if self.missing(domain, [way])}:
                model = self.load()
                online, model = self.tuned(model, ""), telling_less(model, without)
                for domain, scorer, found in self.scored(model, missing, {way: online}):
                    self.record(self.summary(domain, scorer, online, found[way]) | {"without": without})
                self.place.publish(self.folder)

    def learn(self, domains: Sequence[str]) -> None:
        """The first tokens of all texts with dynamic evaluation."""
        for domain in domains:
            if not self.missing(domain, [DYNAMIC]):
                continue
            model, sizes, online = self.learner
            text = self.place.text(domain, "test")
            ids = text.ids(set_words(model, text, "union"))[:FIRST]
            progress = Progress(f"learning from {text.name}", len(ids))
            scores = online.score(model, ids, sizes=sizes, progress=progress)
            progress.close()
            cut = {"first": FIRST} if len(text) > FIRST else {}
            self.record(self.summary(domain, model, online, scores) | cut)
            self.place.publish(self.folder)

    @cached_property
    def learner(self) -> tuple[LanguageModel, Sizes, Online]:
        """The model, how large its gradients are on the source, and how it learns from them."""
        model = self.load()
        sizes = measure(model, self.config.corpus, Dynamic())
        return model, sizes, self.tuned(model, DYNAMIC, sizes)

    def tuned(self, model: LanguageModel, way: str, sizes: Sizes | None = None) -> Online:
        """What a way is at its best on the tuning text: as the record says, or found and recorded now."""
        for name, helped, figures in recorded(self.folder).evaluations():
            if (name, way_of(helped)) == (f"{TUNING}/valid", way) and as_usual(figures):
                return Online.of(figures, figures["uniform_mixed_in"] or None)
        text = self.place.text(TUNING, "valid")
        ids = text.ids(set_words(model, text, "union"))
        wanted = self.ways.get(way, Online(dynamic=Dynamic(decay=DECAY)))
        if way == DYNAMIC:
            ids = ids[:FIRST_TUNED]
        found = tune(model, ids, wanted, sizes=sizes)
        summary = self.summary(TUNING, model, found.online, found.online.score(model, ids, sizes=sizes), "valid")
        cut = {"first": len(ids)} if len(ids) < len(text) else {}
        self.record(summary | {"tuning": found.tables} | cut)
        return found.online

    # --- with a little training -------------------------------------------------------------------------------------

    def fine_tune(self, domains: Sequence[str]) -> None:
        """For later years on the earlier ones, with several rates; for a far domain on its own text, with the best."""
        if not self.tunes:
            return
        tried = {self.adapted(EARLIER_YEARS, rate): rate for rate in RATES}
        best = tried[min(tried)]
        self.adapted(EARLIER_YEARS, best, [domain for domain in domains if domain in LATER_YEARS])
        for domain in (domain for domain in domains if domain in FAR):
            if self.place.has(domain, "train", "valid"):
                self.adapted(domain, best, [domain])
            else:
                print(f"{domain} has no train and valid text: nothing is fine-tuned on it.", file=sys.stderr)

    def adapted(self, corpus: str, rate: float, domains: Sequence[str] = ()) -> float:
        """Fine-tune on a corpus, evaluate on these domains; the valid perplexity comes back."""
        changes = {"training.rate": str(rate * self.config.training.rate), "compute.compile": "no"}
        config = adapting.adapted_settings(self.config, str(self.place.corpora / corpus), adapting.EPOCHS, changes)
        folder = self.place.runs / self.tuned_name(corpus, f"{rate:g}")
        if not (folder / RESULT).is_file():
            group = Group()
            adapting.adapt(self.folder, config, folder, may_resume(folder, group), group, self.config.corpus)
        known = {domain for domain, _, figures in recorded(folder).by_domain() if "vocabulary" in figures}
        if missing := {domain: [FINE_TUNED] for domain in domains if domain not in known}:
            source, model = self.load(), self.load(folder)
            online = self.tuned(source, "")
            for domain, scorer, found in self.scored(model, missing, {FINE_TUNED: online}, source):
                scores = found[FINE_TUNED]  # what is unseen is what the source had not seen, as in all other rows
                scores = replace(scores, vocabulary=counted(scores.vocabulary, source.trained))
                self.record(self.summary(domain, scorer, online, scores), folder)
        self.place.publish(folder)
        return recorded(folder).dev

    def tuned_name(self, corpus: str, rate: str) -> str:
        return f"{self.folder.name}-on-{corpus}-rate{rate}"

    # --- records ----------------------------------------------------------------------------------------------------

    def missing(self, domain: str, ways: Collection[str]) -> list[str]:
        """Which of these ways are wanted and not recorded."""
        known = {(name, row) for name, row, figures in recorded(self.folder).by_domain() if as_usual(figures)}
        if DYNAMIC in ways:  # of which a part of the text is enough
            known = {(name.partition(", ")[0], row) for name, row in known}
        rows = {way: row_name(self.variant, way) for way in ways}
        return [way for way, row in rows.items() if row in self.rows and (domain, row) not in known]

    def load(self, folder: Path | None = None) -> LanguageModel:
        return checkpoint.load(folder or self.folder, choose(self.config.compute).device).model

    def scored(
        self,
        model: LanguageModel,
        ways: Mapping[str, Sequence[str]],
        tuned: Mapping[str, Online],
        source: LanguageModel | None = None,
    ) -> Iterator[tuple[str, LanguageModel, dict[str, Scores]]]:
        """Of each domain the scores in its ways, among the words of the source's training and of the text."""
        texts = [self.place.text(domain, "test") for domain in ways]
        progress = Progress("reading all texts", max(map(len, texts)))
        some = [{way: tuned[way] for way in names} for names in ways.values()]
        found = score_texts(model, texts, some, (source or model).trained, progress)
        for domain, (scorer, scores) in zip(ways, found, strict=True):
            yield domain, scorer, scores
        progress.close()

    def summary(
        self, domain: str, model: LanguageModel, online: Online, scores: Scores, split: str = "test"
    ) -> dict[str, Any]:
        """What is recorded of an evaluation; of the many with caches not by which words are how often seen."""
        figures = summarise(scores) | {"new_by_occurrence": by_occurrence(scores)}
        if online.caches:
            del figures["bins"], figures["new_by_occurrence"]
        return {
            **figures,
            "text": f"{domain}/{split}",
            "vocabulary_kind": "union",
            **circumstances_of(model, online, measured=online.dynamic is not None),
            "tuned_on": f"{TUNING}/valid",
            "protocol": PROTOCOL,
        }

    def record(self, summary: dict[str, Any], folder: Path | None = None) -> None:
        add_evaluation((folder or self.folder) / RESULT, summary)


def as_usual(figures: Mapping[str, Any]) -> bool:
    """Whether caches weighed words as they usually do today, share and theta aside, which are tuned."""

    def fixed(cache: CacheSettings) -> CacheSettings:
        return replace(cache.filled(), share=None, theta=None)

    return all(
        fixed(CacheSettings.of(cache)) == fixed(CacheSettings(cache["kind"])) for cache in figures.get("caches", ())
    )


def first(scores: Scores, tokens: int) -> Scores:
    """Of the first tokens of a text."""
    return Scores(scores.vocabulary, scores.ids[:tokens], scores.log_prob[:tokens])
