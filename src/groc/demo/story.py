"""The demo's figures for a person: every sentence is computed from them, and true whichever way they come out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable

from groc.demo.figures import Contestant, Domain, Figures, Newcomer
from groc.demo.newcomers import Guess
from groc.report import table

WIDTH = 118
EQUAL = 0.01
"""Perplexities closer than this are called equal."""


def setting(figures: Figures) -> str:
    """What was trained and tested on what."""
    home, away = figures.groc.home, figures.groc.away
    of_new = (
        " In the table all new words together are as probable as the rarest words of training, for both models; the "
        "list of new words shows what each model says by itself."
    )
    return textwrap.fill(
        f"Both models were trained on {figures.training_tokens:,} tokens of WordNet's usage examples (only those of "
        f"common words: {figures.training_words:,} words) and read, one stream and every token, {home.tokens:,} tokens "
        f"of other usage examples and {away.tokens:,} tokens of docstrings, with those texts' own words added to the "
        f"vocabulary ({home.vocabulary:,} and {away.vocabulary:,} words).{of_new if figures.newcomers else ''}",
        WIDTH,
    )


def comparison(figures: Figures) -> str:
    """The two models side by side."""

    def row(name: str, cell: Callable[[Contestant], str]) -> list[str]:
        return [name, cell(figures.groc), cell(figures.tied)]

    def rows(title: str, domain: Callable[[Contestant], Domain]) -> list[list[str]]:
        return [
            row(title, lambda model: f"{domain(model).perplexity:,.1f}"),
            row("- of the words seen in training", lambda model: f"{domain(model).seen_perplexity:,.1f}"),
            row("- loss on words never seen (nats)", lambda model: _nats(domain(model).unseen_loss)),
            row("- share of tokens never seen", lambda model: f"{domain(model).unseen_share:.1%}"),
        ]

    return table(
        ["", "GroC", "tied"],
        [
            row("parameters", lambda model: f"{model.parameters:,}"),
            row("- of which belong to single words", lambda model: f"{model.per_word:,}"),
            row("training (seconds)", lambda model: f"{model.training_seconds:.0f}"),
            *rows("perplexity at home (usage examples)", lambda model: model.home),
            *rows("perplexity away (docstrings, no training)", lambda model: model.away),
            row("- had new words the best weight for them", lambda model: f"{model.away_at_best:,.1f}"),
        ],
    )


def _nats(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.2f}"


def introduction(newcomer: Newcomer) -> str:
    """A new word, in a few lines."""
    new = newcomer.new
    lines = {
        "definition": " ".join(new.definition),
        "nearest": " ".join(newcomer.nearest),
        "context": _end(" ".join(new.context), WIDTH - 18) + " ___",
        "GroC": _expectation(newcomer.groc),
        "tied": _expectation(newcomer.tied),
    }
    head = f"{new.word} ({new.count} times in the docstrings)"
    return "\n".join([head, *(f"  {name:<12}{text}" for name, text in lines.items())])


def _expectation(guess: Guess) -> str:
    return f"{', '.join(guess.best):<44}  true word: rank {guess.rank:,}, 1 in {1 / guess.probability:,.0f}"


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]


def conclusion(figures: Figures) -> str:
    """What came out."""
    groc, tied = figures.groc, figures.tied
    sentences = [
        f"GroC has {groc.parameters:,} parameters and the tied model {tied.parameters:,}, "
        f"of which {groc.per_word:,} and {tied.per_word:,} belong to single words.",
        f"At home {verdict(groc.home.perplexity, tied.home.perplexity)}; over the words seen in training "
        f"{verdict(groc.home.seen_perplexity, tied.home.seen_perplexity)}.",
        f"Moved to the docstrings with a vocabulary of {groc.away.vocabulary:,} words and no training, "
        f"{verdict(groc.away.perplexity, tied.away.perplexity)}; over the words seen in training, which pay for "
        f"whatever probability goes to the others, {verdict(groc.away.seen_perplexity, tied.away.seen_perplexity)}.",
    ]
    if groc.away.unseen_loss is not None and tied.away.unseen_loss is not None:
        even = math.log(groc.away.vocabulary)
        sentences += [
            f"Words never seen are {groc.away.unseen_share:.0%} of the docstrings' tokens: GroC loses "
            f"{groc.away.unseen_loss:.2f} nats on each and the tied model {tied.away.unseen_loss:.2f}, where even odds "
            f"among all words would lose {even:.2f}: GroC does {'better' if groc.away.unseen_loss < even else 'worse'} "
            "than even odds on them.",
            "Both expect a new word where they expect one of the rarest, and as often. Which one it is GroC judges by "
            "its forms; the tied model has even odds. Had what new words weigh been chosen to suit the docstrings, "
            f"{verdict(groc.away_at_best, tied.away_at_best)}.",
        ]
    if figures.newcomers:
        ahead = sum(newcomer.groc.probability > newcomer.tied.probability for newcomer in figures.newcomers)
        sentences.append(
            f"Of the {len(figures.newcomers)} new words above, {ahead} are more probable under GroC than under the "
            "tied model, by what each says by itself."
        )
    return textwrap.fill(" ".join(sentences), WIDTH)


def verdict(groc: float, tied: float) -> str:
    """Which of two perplexities is lower, and by how much."""
    gain = 1 - min(groc, tied) / max(groc, tied)
    if gain < EQUAL:
        return f"the two are equal within {EQUAL:.0%}"
    if groc < tied:
        return f"GroC's perplexity is {gain:.0%} lower than the tied model's"
    return f"the tied model's perplexity is {gain:.0%} lower than GroC's"
