"""What a model makes of words that were held out of its training, by what it is told of them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from groc.adaptation.heldout import HeldOut
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.progress import Progress
from groc.report import table
from groc.scoring import score

Entries = dict[str, tuple[str, tuple[str, ...]]]
Array = npt.NDArray[np.float64]

RESAMPLES = 2000


def conditions(words: Entries, seed: int) -> dict[str, Entries]:
    """What can be told of the words: each form of their own, and those of another held-out word."""
    names = sorted(words)
    random.Random(seed).shuffle(names)
    other = dict(zip(names, [*names[1:], *names[:1]], strict=True))  # one cycle: no word keeps its own
    strange = {word: words[other[word]] for word in words}

    def told(entries: Entries, *, definition: bool = False, related: bool = False) -> Entries:
        return {word: (own[0] if definition else "", own[1] if related else ()) for word, own in entries.items()}

    return {
        "surface only": told(words),
        "relations": told(words, related=True),
        "definition": told(words, definition=True),
        "relations and definition": told(words, definition=True, related=True),
        "another word's relations": told(strange, related=True),
        "another word's definition": told(strange, definition=True),
        "another word's relations and definition": told(strange, definition=True, related=True),
    }


def score_held_out(model: LanguageModel, held_out: HeldOut, seed: int = 1) -> dict[str, Any]:
    """The loss on held-out words, in nats, under each condition: strict, among the words of training and of the lines.

    A closed model, which can be told nothing, gives them all the same share."""
    if trained := sorted(held_out.words.keys() & model.trained.seen):
        raise GrocError(
            f"The model was trained on held-out words ({trained[0]!r} and {len(trained) - 1:,} others): "
            "score a run whose corpus is the folder that 'groc heldout prepare' wrote."
        )
    text = held_out.text
    model = model.copy()
    model.set_vocabulary(model.trained.union(text.types))
    ids = text.ids(model.vocabulary)
    _ = model.embeddings  # composed once; the conditions change the held-out words alone
    told = conditions(held_out.words, seed) if model.is_open else {"nothing: a closed model": {}}
    losses: dict[str, Array] = {}
    for condition, entries in told.items():
        twin = model.copy()
        twin.add_words(Glossary(entries))
        progress = Progress(f"scoring with {condition}", len(ids))
        losses[condition] = -score(twin, ids, progress=progress).log_prob
        progress.close()
    index, first = model.vocabulary.index, next(iter(losses.values()))
    held = Tokens(ids, [index[word] for word in held_out.words], seed)
    seen = Tokens(ids, [index[word] for word in held_out.controls], seed)
    rows = [
        {"condition": condition, "loss": held.mean(loss), "gain": held.mean(first - loss), "seen_loss": seen.mean(loss)}
        for condition, loss in losses.items()
    ]
    even = math.log(len(model.vocabulary))
    return {
        "words": len(held_out.words),
        "tokens": len(held),
        "seen_words": len(held_out.controls),
        "seen_tokens": len(seen),
        "vocabulary": len(model.vocabulary),
        "rows": rows,
        "even_odds": even,
        "closed_share": even - math.log1p(-model.uniform) if model.uniform < 1 else math.inf,
        "protocol": "strict: one stream of the lines, state carried; intervals: 95%, words resampled",
    }


class Tokens:
    """Where some words stand in a text, and means over them with what chance would make of other such words."""

    def __init__(self, ids: npt.NDArray[np.int32], words: list[int], seed: int) -> None:
        self.places = np.flatnonzero(np.isin(ids, words))
        _, self.word = np.unique(ids[self.places], return_inverse=True)
        self.seed = seed

    def __len__(self) -> int:
        return len(self.places)

    def mean(self, values: Array) -> dict[str, float | None]:
        """The mean over the tokens; its interval comes from drawing the words, with all their tokens, again and again,
        since tokens of the same word are alike."""
        if not len(self):
            return {"mean": None, "low": None, "high": None}
        sums, sizes = np.bincount(self.word, values[self.places]), np.bincount(self.word)
        draws = np.random.default_rng(self.seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), RESAMPLES)
        low, high = np.quantile(draws @ sums / (draws @ sizes), [0.025, 0.975])
        return {"mean": float(sums.sum() / sizes.sum()), "low": float(low), "high": float(high)}


def describe(figures: Mapping[str, Any]) -> str:
    """The same for a person."""

    def cell(value: Mapping[str, float | None], sign: str = "") -> str:
        if value["mean"] is None:
            return "-"
        return f"{value['mean']:{sign}.3f} ({value['low']:{sign}.3f} to {value['high']:{sign}.3f})"

    rows = [
        [row["condition"], cell(row["loss"]), cell(row["gain"], "+"), cell(row["seen_loss"])] for row in figures["rows"]
    ]
    return "\n".join(
        [
            f"{figures['words']:,} held-out words, {figures['tokens']:,} tokens; {figures['seen_words']:,} words that "
            f"training saw as often, {figures['seen_tokens']:,} tokens of the same lines; among "
            f"{figures['vocabulary']:,} words; loss in nats.",
            "",
            table(["told of the held-out words", "loss (95%)", "gain over the first row", "loss on seen words"], rows),
            "",
            f"Even odds among all words would lose {figures['even_odds']:.3f}, a closed model's share of even odds "
            f"{figures['closed_share']:.3f}.",
        ]
    )
