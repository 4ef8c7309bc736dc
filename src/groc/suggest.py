"""Which words may come next, how probable each is, and which trained words it resembles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from groc.compute import full_float32
from groc.context import as_read, check_unknown, read_context
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.scoring import in_bits
from groc.vocabulary import END, UNKNOWN


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word that may come next."""

    word: str
    probability: float
    surprisal: float
    """In bits."""
    seen: bool
    """Whether training had the word."""
    nearest: tuple[str, ...]
    """The trained words most like it, the best first; none for a word that a closed model knows nothing of."""


def next_words(
    model: LanguageModel,
    text: str = "",
    limit: int = 10,
    *,
    words: Sequence[str] | None = None,
    tokenised: bool = False,
    unknown: bool = False,
    reasons: int = 3,
) -> list[Suggestion]:
    """The most probable next words behind a text (behind no text: the first words of one), the best first.

    They come from the model's list, which the text's own words join, and have the model's probabilities; `<unk>` is
    among them only if `unknown` is true, which a model without one refuses. Given `words`, the model chooses among just
    these, known or new, and their probabilities sum to one. `reasons` is how many of the nearest trained words each
    comes with.
    """
    if limit < 1:
        raise GrocError(f"The limit is the number of words to suggest, not {limit}: give 1 or more.")
    check_unknown(model, unknown)
    if words is not None:
        words = _listed(model, words)
    context = read_context(model, text, tokenised=tokenised, words=words or ())
    model, log_probs = context.model, context.log_probs()
    index = model.vocabulary.index
    if words is not None:
        ids = torch.tensor([index[word] for word in words], device=log_probs.device)
        log_probs = log_probs[ids].double().log_softmax(0)
    else:
        ids = torch.arange(len(log_probs), device=log_probs.device)
        if UNKNOWN in index and not unknown:
            ids = ids[ids != index[UNKNOWN]]
        log_probs = log_probs[ids]
    best = log_probs.topk(min(limit, len(ids)))
    chosen = [model.vocabulary.words[i] for i in ids[best.indices].tolist()]
    rows = zip(chosen, best.values.tolist(), nearest_known(model, chosen, reasons), strict=True)
    seen = model.trained.seen
    return [
        Suggestion(word, math.exp(value), in_bits(value), word in seen, tuple(near for near, _ in row))
        for word, value, row in rows
    ]


def _listed(model: LanguageModel, words: Sequence[str]) -> list[str]:
    if isinstance(words, str):
        raise GrocError(f"{words!r} is one word where a list of words belongs: write [{words!r}].")
    if not words:
        raise GrocError("The list of words to choose from is empty: give at least one, or no list for all words.")
    return list(dict.fromkeys(as_read(model, words)))


@torch.inference_mode()
@full_float32()
def nearest(model: LanguageModel, words: Sequence[str], limit: int) -> list[list[tuple[str, float]]]:
    """For each word of the model's list the trained words in it whose output embeddings have the smallest angle with
    its own, and the cosines. Never the word itself, `<eos>` or `<unk>`."""
    if limit < 0:
        raise GrocError(f"The limit is the number of nearest words, not {limit}: give 0 or more.")
    index, trained, embeddings = model.vocabulary.index, model.trained, model.embeddings
    places = np.array([index.get(word, -1) for word in trained.words])
    allowed = (places >= 0) & (trained.counts > 0)
    allowed[[trained.index[word] for word in (END, UNKNOWN) if word in trained]] = False
    others = torch.from_numpy(places[allowed]).to(model.device)
    ids = torch.tensor([index[word] for word in words], dtype=torch.long, device=model.device)
    vectors = F.normalize(embeddings.output_rows(ids), dim=-1)
    cosines = vectors @ F.normalize(embeddings.output_rows(others), dim=-1).T  # [words, others]
    cosines.masked_fill_(ids[:, None] == others, -math.inf)
    best = cosines.topk(min(limit, len(others)))
    names = [[model.vocabulary.words[i] for i in row] for row in others[best.indices].tolist()]
    return [
        [(name, cosine) for name, cosine in zip(row, values, strict=True) if cosine > -math.inf]
        for row, values in zip(names, best.values.tolist(), strict=True)
    ]


def nearest_known(model: LanguageModel, words: Sequence[str], limit: int) -> list[list[tuple[str, float]]]:
    """The same, but none for a word that a closed model has no row for: it has one and the same vector for them all."""
    rows = nearest(model, words, limit)
    return [row if model.is_open or word in model.trained else [] for word, row in zip(words, rows, strict=True)]
