"""What helps a model while it reads a text, in one place: a floor for new words, caches, dynamic evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy.typing as npt

from groc.adaptation.caches import (
    Cache,
    Chain,
    FaissNeighbours,
    Interpolated,
    Joined,
    Learned,
    LocalCache,
    NewWords,
    UnboundedCache,
    Unigram,
)
from groc.adaptation.caches.correction import ANGLE, LIKENESSES, PUBLISHED
from groc.adaptation.dynamic import Dynamic, Sizes, score_dynamically
from groc.adaptation.memory import WordMemory
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.scoring import Correction, Scores, score

KINDS = ("unigram", "local", "unbounded")
USUAL_THETA = {ANGLE: {"local": 10.0, "unbounded": 10.0}, PUBLISHED: {"local": 0.5, "unbounded": 1.0}}
USUAL_SIZE = {"local": 10_000, "unbounded": 1024}
USUAL_RECENCY = {ANGLE: 100.0, PUBLISHED: 0.0}
USUAL_LAST = {ANGLE: 10_000, PUBLISHED: 0}
USUAL_SHARPNESS = 0.2
LEARNED: Literal["learned"] = "learned"
"""In place of a share: the text teaches it."""
Share = float | Literal["learned"]


@dataclass(frozen=True)
class CacheSettings:
    """One cache. What is None has its usual value; share, theta and alpha can be tuned in place of that."""

    kind: str
    """unigram, local or unbounded."""
    share: Share | None = None
    """The model's share of the probability, lambda, or learned from the text as it is read."""
    theta: float | None = None
    """How much the likeness of states counts."""
    size: int | None = None
    """How many words are weighed: of a local cache the last, of an unbounded one those with the nearest states."""
    recency: float | None = None
    """After how many words a word counts half as much; 0: none fades, as published."""
    likeness: str | None = None
    """What of states is compared: angle or published."""
    last: int | None = None
    """How many of the last words an unbounded cache weighs besides the nearest."""
    joined: bool = False
    """Whether the cache joins the softmax (global normalisation), with the weight exp(alpha), in place of a share."""
    alpha: float | None = None
    faiss: bool = False
    """Whether FAISS finds the neighbours, not all of them exactly."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise GrocError(f"There is no cache {self.kind!r}: choose among {', '.join(KINDS)}.")
        of_states = (self.theta, self.size, self.recency, self.likeness)
        if self.kind == "unigram" and any(value is not None for value in of_states):
            raise GrocError(
                "A unigram cache weighs all words alike, however long ago they were read: leave out theta (--theta), "
                "size (--cache-size), recency (--recency) and likeness (--likeness)."
            )
        if self.likeness is not None and self.likeness not in LIKENESSES:
            raise GrocError(f"The likeness of states (--likeness) is {' or '.join(LIKENESSES)}, not {self.likeness!r}.")
        if isinstance(self.share, str) and self.share != LEARNED:
            raise GrocError(f"The model's share (lambda) is a number between 0 and 1, or learned: not {self.share!r}.")
        if self.last is not None and self.kind != "unbounded":
            raise GrocError(
                f"A {self.kind} cache weighs no nearest words: leave out how many others it weighs besides (--last)."
            )
        if self.faiss and self.kind != "unbounded":
            raise GrocError(f"A {self.kind} cache looks for no neighbours: leave out FAISS (--faiss).")
        if self.joined and self.share is not None:
            raise GrocError(
                "A cache that joins the softmax has a weight and no share: give alpha (--alpha) or lambda (--lambda), "
                "not both."
            )

    def filled(self) -> CacheSettings:
        """With usual values for what is not set."""
        if self.joined and self.alpha is None:
            raise GrocError("What alpha is good depends on the model: give a value, or a text to tune it on (--tune).")
        share = None if self.joined else LEARNED if self.share is None else self.share
        if self.kind == "unigram":
            return replace(self, share=share)
        likeness = ANGLE if self.likeness is None else self.likeness
        theta = USUAL_THETA[likeness][self.kind] if self.theta is None else self.theta
        size = USUAL_SIZE[self.kind] if self.size is None else self.size
        recency = USUAL_RECENCY[likeness] if self.recency is None else self.recency
        filled = replace(self, share=share, theta=theta, size=size, recency=recency, likeness=likeness)
        last = USUAL_LAST[likeness] if self.last is None else self.last
        return replace(filled, last=last) if self.kind == "unbounded" else filled

    def build(self) -> Interpolated | Learned | Joined:
        """A fresh cache and how its word counts."""
        full = self.filled()
        cache = full._cache()
        if full.share == LEARNED:
            return Learned(cache)
        if full.share is not None:
            return Interpolated(cache, full.share)
        assert full.alpha is not None
        return Joined(cache, full.alpha)

    def _cache(self) -> Cache:
        if self.kind == "unigram":
            return Unigram()
        assert self.theta is not None
        assert self.size is not None
        assert self.recency is not None
        assert self.likeness is not None
        if self.kind == "local":
            return LocalCache(self.theta, self.size, self.recency, self.likeness)
        assert self.last is not None
        neighbours = FaissNeighbours() if self.faiss else None
        return UnboundedCache(self.theta, self.size, neighbours, self.recency, self.likeness, self.last)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> CacheSettings:
        """From what a record says of it."""
        # What older records do not say was as published.
        older = {} if facts["kind"] == "unigram" else {"recency": 0.0, "likeness": PUBLISHED}
        facts = {**older, **({"last": 0} if facts["kind"] == "unbounded" else {}), **facts}
        return cls(
            facts["kind"],
            facts.get("lambda"),
            facts.get("theta"),
            facts.get("size"),
            facts.get("recency"),
            facts.get("likeness"),
            facts.get("last"),
            "alpha" in facts,
            facts.get("alpha"),
            facts.get("neighbours") == "faiss",
        )

    def facts(self) -> dict[str, Any]:
        """What a record says of it."""
        full = self.filled()
        facts: dict[str, Any] = {"kind": full.kind}
        facts |= {"alpha": full.alpha} if full.joined else {"lambda": full.share}
        if full.kind != "unigram":
            facts |= {"theta": full.theta, "size": full.size, "recency": full.recency, "likeness": full.likeness}
        if full.kind == "unbounded":
            facts |= {"last": full.last, "neighbours": "faiss" if full.faiss else "exact"}
        return facts


@dataclass(frozen=True)
class Online:
    """All that helps a model while it reads, in the order in which it is applied."""

    uniform: float | None = None
    """The share of the probability that a closed model spreads evenly, if there are words it has no row for."""
    dynamic: Dynamic | None = None
    novelty: float | None = None
    """All words never seen in training are together so many times as probable as the rarest words of training. A text
    has its share of new words however many different ones it has, and has them where rare words stand. None: each as
    probable as the model says."""
    sharpness: float | None = None
    """How much the model's scores tell new words apart: 0 is even odds, 1 as they are. None: a usual value."""
    caches: tuple[CacheSettings, ...] = ()
    memory: bool = False
    """Whether new words are remembered with the contexts in which they were read."""

    def __post_init__(self) -> None:
        if self.uniform is not None and not 0 < self.uniform < 1:
            raise GrocError(
                f"The share that is spread evenly lies between 0 and 1, both excluded, not at {self.uniform:g}."
            )
        if self.novelty is not None and self.uniform is not None:
            raise GrocError("New words get a share of even odds or a weight: leave out --uniform or --new-words.")
        self.weighing()
        if self.memory and self.dynamic is not None:
            raise GrocError("Word memory needs vectors that stay as they are: leave out --memory or --dynamic.")

    def weighing(self) -> NewWords | None:
        """What weighs new words, if they are weighed."""
        if self.novelty is None:
            return None
        return NewWords(self.novelty, USUAL_SHARPNESS if self.sharpness is None else self.sharpness)

    def spread_by(self, model: LanguageModel) -> float:
        """What a closed model spreads evenly: nothing where new words have a weight, unless no count says which are."""
        if self.novelty is not None and model.vocabulary.counts.any():
            return 0.0
        return 1 - model.uniform if self.uniform is None else self.uniform

    def correction(self) -> Correction | None:
        """The weight of new words and fresh caches for a text, one behind the other."""
        corrections: list[Correction] = []
        if (weighing := self.weighing()) is not None:
            corrections.append(weighing)
        corrections += [cache.build() for cache in self.caches]
        return Chain(*corrections) if corrections else None

    def reader(self, model: LanguageModel) -> Correction | None:
        """The same behind the memory of new words, if there is one."""
        correction = self.correction()
        return WordMemory(model, then=correction) if self.memory else correction

    def score(
        self,
        model: LanguageModel,
        ids: npt.ArrayLike,
        *,
        sizes: Sizes | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        """Score a text in one stream. `sizes` of gradients are for dynamic evaluation."""
        return self.read(model, ids, self.correction(), sizes, progress)

    def read(
        self,
        model: LanguageModel,
        ids: npt.ArrayLike,
        correction: Correction | None,
        sizes: Sizes | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        """The same with any correction in place of the caches."""
        with spreading(model, self.spread_by(model)):
            if self.memory:
                correction = WordMemory(model, then=correction)
            if self.dynamic is None:
                return score(model, ids, correction=correction, progress=progress)
            return score_dynamically(model, ids, self.dynamic, sizes=sizes, correction=correction, progress=progress)

    @classmethod
    def of(cls, facts: Mapping[str, Any], uniform: float | None = None) -> Online:
        """From what a record says of it."""
        if "novelty" not in facts:
            raise GrocError(
                "A record is of an earlier version, which weighed new words otherwise: take it out of the folder of "
                "results, and its rows are evaluated again."
            )
        dynamic = facts["dynamic"] and {key: value for key, value in facts["dynamic"].items() if key != "measured"}
        return cls(
            uniform,
            Dynamic(**dynamic) if dynamic else None,
            facts["novelty"],
            facts["sharpness"],
            tuple(CacheSettings.of(cache) for cache in facts["caches"]),
            facts["memory"],
        )

    def facts(self, measured: bool = False) -> dict[str, Any]:
        """What a record says of it; `measured` says whether the sizes of gradients were."""
        dynamic = None if self.dynamic is None else asdict(self.dynamic.filled(measured)) | {"measured": measured}
        return {
            "caches": [cache.facts() for cache in self.caches],
            "novelty": self.novelty,
            "sharpness": weighing.sharpness if (weighing := self.weighing()) else None,
            "dynamic": dynamic,
            "memory": self.memory,
        }


def describe(facts: Mapping[str, Any]) -> str:
    """What a record says of it for a person; empty if nothing helps."""
    parts = []
    if facts["novelty"] is not None:
        sharpness = {} if facts["sharpness"] is None else {"sharpness": facts["sharpness"]}
        parts.append(_described("new words", {"weight": facts["novelty"], **sharpness}))
    parts += [
        _described(f"{cache['kind']} cache", {key: value for key, value in cache.items() if key != "kind"})
        for cache in facts["caches"]
    ]
    if facts["memory"]:
        parts.append("word memory")
    if facts["dynamic"]:
        parts.append(_described("dynamic evaluation", facts["dynamic"]))
    return ", ".join(parts)


@contextmanager
def spreading(model: LanguageModel, share: float) -> Iterator[None]:
    """For a while this share of the probability is spread evenly where a closed model has new words."""
    before = model.uniform
    model.uniform = 1 - share
    try:
        yield
    finally:
        model.uniform = before


def _described(name: str, facts: dict[str, Any]) -> str:
    values = (
        key.replace("_", " ") + ("" if value is True else f" {value:g}" if type(value) in (int, float) else f" {value}")
        for key, value in facts.items()
        if value is not False
    )
    return f"{name} ({', '.join(values)})"
