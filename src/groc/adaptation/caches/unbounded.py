"""All words read so far, of which those count whose states are nearest to the present one, and the last ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from groc.adaptation.caches.correction import (
    ANGLE,
    LARGEST_SIZE,
    PUBLISHED,
    Weights,
    check,
    compared,
    fading,
    summed,
)
from groc.adaptation.caches.neighbours import ExactNeighbours, Neighbours, smallest, squared_distances
from groc.errors import GrocError
from groc.scoring import Segment


class UnboundedCache:
    """The unbounded cache of Grave, Cisse and Joulin (2017): the `size` words whose states are nearest, each with the
    weight exp(-theta (distance / bandwidth)^2 / 2), where the bandwidth is the distance of the farthest of them.

    theta = 1 is the published kernel; a larger one looks more at the very nearest. Memory grows by one state and one
    number a word: 4 d + 8 bytes, so that a million words take 1.2 GB at d = 300.

    The published one has no `recency`, the number of words after which a word counts half as much, and no `last`, the
    number of words that are weighed however far their states: what was just read comes again in any context. With the
    likeness `angle` the weights are those of a local cache, exp(theta cos).
    """

    def __init__(
        self,
        theta: float = 1.0,
        size: int = 1024,
        neighbours: Neighbours | None = None,
        recency: float = 0.0,
        likeness: str = PUBLISHED,
        last: int = 0,
    ) -> None:
        check(theta, size, recency, likeness)
        if not isinstance(last, int) or not 0 <= last <= LARGEST_SIZE:
            raise GrocError(
                f"How many of the last words a cache weighs besides the nearest is 0 to {LARGEST_SIZE:,}, not {last}."
            )
        self.theta, self.size, self.recency, self.likeness, self.last = theta, size, recency, likeness, last
        self.neighbours: Neighbours = ExactNeighbours() if neighbours is None else neighbours
        """The states of all words but the last."""
        self.states: Tensor | None = None
        """Of the last words. Shape: [n, d], n at most `last`"""
        self.words: Tensor | None = None
        """All words. Shape: [n]"""

    def read(self, segment: Segment) -> Weights:
        return self.read_with(segment, [self.theta])[0]

    def read_with(self, segment: Segment, thetas: Sequence[float]) -> list[Weights]:
        present = compared(segment.prefixes, self.likeness)
        states, words = present, segment.targets
        if self.states is not None and self.words is not None:
            states, words = torch.cat([self.states, states]), torch.cat([self.words, words])
        places = torch.arange(len(words), device=words.device)
        now = places[-len(segment) :, None]
        squares, rows = self.neighbours.nearest(present, self.size)  # of what was read before `states`
        squares = torch.cat([squares, squared_distances(present, states)], 1)
        rows = torch.cat([rows, places[-len(states) :].expand(len(segment), -1)], 1)
        ago = now - rows
        squares.masked_fill_(ago < 1, torch.inf)
        near, columns = smallest(squares, self.size)
        left_out = (ago > self.last).scatter_(1, columns, value=False) | squares.isinf()
        if self.likeness == ANGLE:
            likeness = 1 - squares / 2  # the cosine
        else:
            limits = torch.finfo(squares.dtype)  # where all are at distance 0, all weigh the same
            bandwidth = near.masked_fill(near.isinf(), 0.0).amax(1, keepdim=True).clamp(min=limits.tiny)
            likeness = -(squares / bandwidth).clamp(max=limits.max) / 2
        others = words[rows] != segment.targets[:, None]
        faded = fading(ago.to(squares.dtype), self.recency)
        self._remember(states, words)
        return [summed((theta * likeness - faded).masked_fill_(left_out, -torch.inf), others) for theta in thetas]

    def _remember(self, states: Tensor, words: Tensor) -> None:
        """The states in the order in which they were read; the neighbours get those that are not of the last words."""
        older = max(len(states) - self.last, 0)
        if older:
            self.neighbours.add(states[:older])
        self.states, self.words = states[older:].clone(), words
