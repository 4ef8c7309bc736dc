"""From a model's log-probabilities and what a cache says to better log-probabilities. All of it in log space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.errors import GrocError
from groc.scoring import Correction, Segment

ANGLE, PUBLISHED = LIKENESSES = ("angle", "published")
"""What of two states is compared: their directions alone, or all of them as the papers do."""
LARGEST_THETA = 1e6
"""The likeness of states is a sum of thousands of numbers at most, so that nothing overflows."""
LARGEST_SIZE = 10**9
LARGEST_ALPHA = 10**9
"""It makes up for weights of exp(theta times a likeness), whose logarithms are as large."""

SHARES = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.933, 0.95, 0.966, 0.98, 0.99, 0.999)
"""Of the model: those that are tried, and of which a learned one is a mean."""
MEMORY = 0.99
"""How much of what speaks for a share is kept from word to word."""
PRIOR = 20
"""A text begins as if so many words had been read of which the cache had none: the share is .97 then."""
PIECE = 256
"""Words whose evidence is added up at once."""


class Weights(NamedTuple):
    """What speaks for each word of a segment: logarithms of sums of weights, each [T]."""

    target: Tensor
    """Of what is remembered with this very word; -inf if the word was not read before."""
    total: Tensor
    """Of all that is remembered; -inf before the first word."""

    def log_prob(self) -> Tensor:
        """The cache's own log-probability of the word: -inf where it is empty or does not have the word."""
        log_prob = (self.target - self.total).clamp(max=0.0)
        return log_prob.masked_fill(self.total.isneginf(), -torch.inf)


class Cache(Protocol):
    """Remembers a text, and weighs what it remembers."""

    def read(self, segment: Segment) -> Weights:
        """Weigh what stands before each word of the segment, words of the segment itself included; then remember it."""
        ...

    def read_with(self, segment: Segment, thetas: Sequence[float]) -> list[Weights]:
        """The same for several values of theta at once, in place of the cache's own."""
        ...


def summed(weights: Tensor, others: Tensor) -> Weights:
    """From logarithms of weights, which are overwritten, and which of them stand for other words than the target.
    Shape: [T, n], [T, n]"""
    total = weights.logsumexp(1)
    return Weights(weights.masked_fill_(others, -torch.inf).logsumexp(1), total)


def fading(ago: Tensor, recency: float) -> Tensor | float:
    """What is taken off the logarithms of weights of words that were read so many words ago: one counts half as much
    after `recency` words, a third as much after twice as many, and so on; 0: none fades. Shape: [T, n] -> [T, n]"""
    return (ago.clamp(min=0) / recency).log1p() if recency else 0.0


def compared(states: Tensor, likeness: str) -> Tensor:
    """What of states is compared: by the angle, all have length 1. Shape: [T, d] -> [T, d]"""
    return F.normalize(states, dim=1) if likeness == ANGLE else states


def check(theta: float, size: int, recency: float, likeness: str) -> None:
    """Refuse what no cache of states can work with."""
    if likeness not in LIKENESSES:
        raise GrocError(f"The likeness of states is {' or '.join(LIKENESSES)}, not {likeness!r}.")
    if not 0 <= theta <= LARGEST_THETA:
        raise GrocError(
            f"theta, how much the likeness of states counts, lies between 0 and 1,000,000, not at {theta:g}."
        )
    if not isinstance(size, int) or not 1 <= size <= LARGEST_SIZE:
        raise GrocError(f"The size of a cache is a whole number of words between 1 and {LARGEST_SIZE:,}, not {size}.")
    if not (recency == 0 or 1 <= recency <= LARGEST_SIZE):
        raise GrocError(
            "recency, after how many words a word counts half as much, is 0 (none fades) or lies between 1 and "
            f"{LARGEST_SIZE:,}, not at {recency:g}."
        )


class Interpolated:
    """Linear interpolation: p = share * p_model + (1 - share) * p_cache; the model alone while the cache is empty.

    The share is the paper's lambda, and one minus that of Grave et al. (2017).
    """

    def __init__(self, cache: Cache, share: float) -> None:
        if not 0 < share < 1:
            raise GrocError(f"The model's share (lambda) lies between 0 and 1, both excluded: {share:g} does not.")
        self.cache = cache
        self.log_share, self.log_rest = math.log(share), math.log1p(-share)

    def __call__(self, segment: Segment) -> Tensor:
        return self.mix(segment, self.cache.read(segment))

    def mix(self, segment: Segment, weights: Weights) -> Tensor:
        return _interpolated(segment, weights, self.log_share, self.log_rest)


def _interpolated(segment: Segment, weights: Weights, log_share: Tensor | float, log_rest: Tensor | float) -> Tensor:
    mixed = torch.logaddexp(segment.log_prob + log_share, weights.log_prob() + log_rest)
    return torch.where(weights.total.isneginf(), segment.log_prob, mixed.to(segment.log_prob.dtype))


class Learned:
    """Linear interpolation with a share that the text itself teaches: at each word it is a mean over `SHARES`, each
    weighed by how well it would have predicted the words before, the last ones most.

    So a cache counts for much in a text that repeats itself and for little in one of shuffled lines, and nothing has to
    be tuned. It is a Bayesian mixture of the shares, whose evidence is discounted from word to word.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.evidence = PRIOR * torch.tensor(SHARES, dtype=torch.float64).log()
        """For each share the log-probability of the words so far, those of long ago forgotten."""

    def __call__(self, segment: Segment) -> Tensor:
        return self.mix(segment, self.cache.read(segment))

    def mix(self, segment: Segment, weights: Weights) -> Tensor:
        model, cached = segment.log_prob.double(), weights.log_prob().double()
        shares = torch.tensor(SHARES, dtype=torch.float64, device=model.device)
        tried = torch.logaddexp(model[:, None] + shares.log(), cached[:, None] + (-shares).log1p())  # [T, shares]
        # While the cache is empty, and of a word that is impossible with every share, there is nothing to learn.
        tried = tried.masked_fill((weights.total.isneginf() | (model.isneginf() & cached.isneginf()))[:, None], 0.0)
        share = (self._evidence_before(tried).softmax(1) * shares).sum(1)
        return _interpolated(segment, weights, share.log(), (-share).log1p())

    def _evidence_before(self, tried: Tensor) -> Tensor:
        """The evidence when each word is to come, and then of all of them. Shape: [T, shares] -> [T, shares]"""
        self.evidence = self.evidence.to(tried.device)
        steps = torch.arange(min(PIECE, len(tried)) + 1, device=tried.device)
        ages = (steps[:, None] - 1 - steps[:-1]).double()  # of each word of a piece when another is to come
        kept = torch.where(ages >= 0, MEMORY ** ages.clamp(min=0), 0.0)
        left = MEMORY ** steps.double()[:, None]  # of what was known before the piece
        found = []
        for piece in torch.split(tried, PIECE):
            size = len(piece)
            evidence = kept[: size + 1, :size] @ piece + left[: size + 1] * self.evidence
            self.evidence = evidence[-1]
            found.append(evidence[:-1])
        return torch.cat(found)


class Joined:
    """Global normalisation: what is remembered joins the softmax with its weights times exp(alpha).

    p(w) is proportional to exp(logit of w) + exp(alpha) * (the weights remembered with w). So the cache's share is not
    fixed: it is larger where states like the present one are remembered.
    """

    def __init__(self, cache: Cache, alpha: float) -> None:
        if not -LARGEST_ALPHA <= alpha <= LARGEST_ALPHA:
            raise GrocError(
                "alpha, the logarithm of how much a cache weighs in the softmax, lies between "
                f"-{LARGEST_ALPHA:,} and {LARGEST_ALPHA:,}, not at {alpha:g}."
            )
        self.cache = cache
        self.alpha = alpha

    def __call__(self, segment: Segment) -> Tensor:
        return self.mix(segment, self.cache.read(segment))

    def mix(self, segment: Segment, weights: Weights) -> Tensor:
        cached = weights.total + self.alpha
        normaliser = torch.logaddexp(segment.log_normaliser, cached)
        return torch.logaddexp(
            segment.log_prob + segment.log_normaliser - normaliser, weights.log_prob() + cached - normaliser
        )


class NewWords:
    """Gives all words never seen in training `weight` times the probability of the rarest ones that were seen, and
    shares it out among them by the model's scores times `sharpness`.

    So new words are expected where the model expects rare ones, as Good (1953) and Turing estimate them. What a model
    makes of the words' forms tells them apart, but less than its scores say, which were never held to account for a new
    word. In a chain it comes first: it is about the model's own probabilities.
    """

    def __init__(self, weight: float, sharpness: float) -> None:
        if not 0 < weight < math.inf:
            raise GrocError(f"The weight of new words is a number above 0 (1: as the rarest words), not {weight:g}.")
        if not 0 <= sharpness <= 1:
            raise GrocError(
                "The sharpness of new words lies between 0 (even odds) and 1 (as the model scores them), not at "
                f"{sharpness:g}."
            )
        self.log_weight = math.log(weight)
        self.sharpness = sharpness

    def __call__(self, segment: Segment) -> Tensor:
        if segment.new in (0, segment.words):  # nothing to weigh against each other
            return segment.log_prob
        log_odds = self.log_weight + segment.log_rarest - segment.log_seen
        log_seen = -F.softplus(log_odds)
        new = log_odds + log_seen + segment.among_new.log_prob(self.sharpness)
        return torch.where(segment.is_new, new, segment.log_prob - segment.log_seen + log_seen)


class Chain:
    """Several corrections, each of what the one before it made of the model's probabilities."""

    def __init__(self, *corrections: Correction) -> None:
        caches = [id(some.cache) for some in corrections if isinstance(some, Interpolated | Learned | Joined)]
        if len({*caches}) < len(caches):
            raise GrocError("A cache would read the text twice in this chain: give each correction one of its own.")
        self.corrections = corrections

    def __call__(self, segment: Segment) -> Tensor:
        for correct in self.corrections:
            segment = replace(segment, log_prob=correct(segment))
        return segment.log_prob
