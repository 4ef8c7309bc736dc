"""The demo's figures: what was measured, before a word is said about it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from groc.demo.newcomers import Guess, NewWord
from groc.report import summarise
from groc.scoring import Scores


@dataclass(frozen=True)
class Domain:
    """How one model fares on one text, with every token scored."""

    tokens: int
    vocabulary: int
    """The words among which the model chooses."""
    unseen_share: float
    perplexity: float
    seen_perplexity: float
    """Over the tokens whose word training had."""
    unseen_loss: float | None
    """Nats a word over the other tokens; None if there are none."""
    bins: list[dict[str, Any]]
    """By how often training had the word, as `groc eval` gives them."""

    @classmethod
    def of(cls, scores: Scores) -> Domain:
        summary = summarise(scores)
        return cls(
            tokens=summary["tokens"],
            vocabulary=summary["vocabulary"],
            unseen_share=summary["oov_share"],
            perplexity=summary["perplexity"],
            seen_perplexity=math.exp(-scores.log_prob[scores.counts > 0].mean()),
            unseen_loss=summary["unseen"]["loss"],
            bins=summary["bins"],
        )


@dataclass(frozen=True)
class Contestant:
    """One model: its size, its training, and how it fares at home and away."""

    parameters: int
    per_word: int
    epochs: int
    training_seconds: float
    valid_perplexity: float
    home: Domain
    away: Domain
    away_at_best: float
    """The perplexity away, had what new words weigh been chosen to suit that very text."""


@dataclass(frozen=True)
class Newcomer:
    """A new word with what both models make of it."""

    new: NewWord
    nearest: list[str]
    groc: Guess
    tied: Guess


@dataclass(frozen=True)
class Figures:
    training_tokens: int
    training_words: int
    groc: Contestant
    tied: Contestant
    newcomers: list[Newcomer]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
