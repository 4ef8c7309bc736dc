"""All words read so far, of which those count whose states are nearest to the present one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from groc.adaptation.caches.correction import Weights, check, fading, summed
from groc.adaptation.caches.neighbours import ExactNeighbours, Neighbours, smallest, squared_distances
from groc.scoring import Segment


class UnboundedCache:
    """The unbounded cache of Grave, Cisse and Joulin (2017): the `size` words whose states are nearest, each with the
    weight exp(-theta (distance / bandwidth)^2 / 2), where the bandwidth is the distance of the farthest of them.

    theta = 1 is the published kernel; a larger one looks more at the very nearest. Memory grows by one state and one
    number a word: 4 d + 8 bytes, so that a million words take 1.2 GB at d = 300. The published one has no
    `recency`, the number of words after which a word counts half as much.
    """

    def __init__(
        self, theta: float = 1.0, size: int = 1024, neighbours: Neighbours | None = None, recency: float = 0.0
    ) -> None:
        check(theta, size, recency)
        self.theta, self.size, self.recency = theta, size, recency
        self.neighbours: Neighbours = ExactNeighbours() if neighbours is None else neighbours
        self.words: Tensor | None = None
        """Shape: [n]"""

    def read(self, segment: Segment) -> Weights:
        return self.read_with(segment, [self.theta])[0]

    def read_with(self, segment: Segment, thetas: Sequence[float]) -> list[Weights]:
        states, targets = segment.prefixes, segment.targets
        past = targets[:0] if self.words is None else self.words
        squares, rows = self.neighbours.nearest(states, self.size)
        to_come = torch.ones_like(targets, dtype=torch.bool).expand(len(targets), -1).triu()
        own = squared_distances(states, states).masked_fill_(to_come, torch.inf)
        squares = torch.cat([squares, own], 1)
        words = torch.cat([past[rows], targets.expand(len(targets), -1)], 1)
        now = len(past) + torch.arange(len(targets), device=targets.device)
        ago = now[:, None] - torch.cat([rows, now.expand(len(targets), -1)], 1)
        squares, places = smallest(squares, self.size)
        others = words.gather(1, places) != targets[:, None]
        faded = fading(ago.gather(1, places).to(squares.dtype), self.recency)
        missing = squares.isinf()
        bandwidth = squares.masked_fill(missing, 0.0).amax(1, keepdim=True)
        scaled = squares / bandwidth.clamp(min=torch.finfo(squares.dtype).tiny)  # all at distance 0: all weigh the same
        self.neighbours.add(states)
        self.words = torch.cat([past, targets])
        return [summed((-theta / 2 * scaled - faded).masked_fill_(missing, -torch.inf), others) for theta in thetas]
