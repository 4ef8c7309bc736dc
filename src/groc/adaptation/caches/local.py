"""The last words read, weighed by how like the present state is to the states that they followed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from groc.adaptation.caches.correction import PUBLISHED, Weights, check, compared, fading, summed
from groc.scoring import Segment


class LocalCache:
    """The neural cache of Grave, Joulin and Usunier (2017): the last `size` words, each with the weight
    exp(theta h_t . h_i), where h_i is the state that preceded it.

    With theta = 0 it is the relative frequency among the last words. Memory: `size` states. Theirs has no
    `recency`, the number of words after which a word counts half as much; and with the likeness `angle` the product is
    one of directions, the cosine, so that a theta means the same for any model.
    """

    def __init__(self, theta: float, size: int, recency: float = 0.0, likeness: str = PUBLISHED) -> None:
        check(theta, size, recency, likeness)
        self.theta, self.size, self.recency, self.likeness = theta, size, recency, likeness
        self.states: Tensor | None = None
        """Shape: [n, d], n at most `size`"""
        self.words: Tensor | None = None
        """Shape: [n]"""

    def read(self, segment: Segment) -> Weights:
        return self.read_with(segment, [self.theta])[0]

    def read_with(self, segment: Segment, thetas: Sequence[float]) -> list[Weights]:
        present = compared(segment.prefixes, self.likeness)
        states, words = present, segment.targets
        if self.states is not None and self.words is not None:
            states, words = torch.cat([self.states, states]), torch.cat([self.words, words])
        places = torch.arange(len(words), device=words.device)
        ago = places[-len(segment) :, None] - places  # [T, n + T]
        outside = (ago < 1) | (ago > self.size)
        others = words != segment.targets[:, None]
        products = present @ states.T
        self.states, self.words = states[-self.size :], words[-self.size :]
        faded = fading(ago.to(products.dtype), self.recency)
        return [summed((theta * products - faded).masked_fill_(outside, -torch.inf), others) for theta in thetas]
