"""Text from a model, word by word."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from groc.context import Context, check_unknown, read_context
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.vocabulary import END, UNKNOWN


@dataclass(frozen=True, slots=True)
class Generated:
    """A word that was drawn, and the model's own probability of it: before temperature, top-k and top-p changed it."""

    word: str
    probability: float


def generate(
    model: LanguageModel,
    text: str = "",
    *,
    length: int = 50,
    seed: int | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    unknown: bool = False,
    tokenised: bool = False,
) -> Iterator[Generated]:
    """Go on with a text for `length` words. `<eos>` is one of them: it ends a line, and the next line follows.

    The same `seed` gives the same words; without one they differ each time. The probabilities are raised to the power
    1 / `temperature` (0: always the most probable word); then the `top_k` most probable words are kept (0: all), and of
    these as few as hold the share `top_p` of what is left. `<unk>` is drawn only if `unknown` is
    true, which a model without one refuses.
    """
    if length < 0:
        raise GrocError(f"The length is the number of words to generate, not {length}: give 0 or more.")
    if not 0 <= temperature < math.inf:
        raise GrocError(f"The temperature cannot be {temperature}: give 0 (the most probable word always) or more.")
    if top_k < 0:
        raise GrocError(f"top-k is the number of words to draw from, not {top_k}: give 1 or more, or 0 for all words.")
    if not 0 < top_p <= 1:
        raise GrocError(f"top-p is a share of the probability, not {top_p}: give more than 0 and at most 1.")
    check_unknown(model, unknown)
    context = read_context(model, text, tokenised=tokenised)
    return _words(context, length, random.Random(seed), temperature, top_k, top_p, unknown)


def _words(
    context: Context,
    length: int,
    draw: random.Random,
    temperature: float,
    top_k: int,
    top_p: float,
    unknown: bool,
) -> Iterator[Generated]:
    vocabulary = context.model.vocabulary
    barred = [vocabulary.index[UNKNOWN]] if UNKNOWN in vocabulary and not unknown else []
    for _ in range(length):
        log_probs = context.log_probs()
        allowed = log_probs.clone()
        allowed[barred] = -math.inf
        ids, weights = choices(allowed, temperature, top_k, top_p)
        [chosen] = draw.choices(ids.tolist(), weights.tolist())
        yield Generated(vocabulary.words[chosen], float(log_probs[chosen].exp()))
        context = context.then([chosen])


def choices(log_probs: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """The ids to draw from, the most probable first, and their weights. Shape: [V] -> [n], [n]"""
    ordered, ids = log_probs.double().sort(descending=True, stable=True)
    size = 1 if temperature == 0 else top_k or len(ids)
    # The difference comes first: divided by a temperature however small, it is not what is not a number.
    weights = ((ordered[:size] - ordered[0]) / (temperature or 1.0)).softmax(0)
    size = int((weights.cumsum(0) - weights < top_p).sum())  # what stands before a word leaves room for it
    return ids[:size], weights[:size]


def detokenise(words: Iterable[str]) -> str:
    """Words as a person writes them, by Moses's rules: no space before a full stop. `<eos>` becomes a line break."""
    from sacremoses import MosesDetokenizer  # here, because training must not need it

    moses = MosesDetokenizer(lang="en")
    return "\n".join(moses.detokenize(line, unescape=False) for line in lines(words))


def lines(words: Iterable[str]) -> list[list[str]]:
    """The words of each line: `<eos>` ends one, and behind it another begins."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == END:
            found.append([])
        else:
            found[-1].append(word)
    return found
