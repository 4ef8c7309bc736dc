"""How often each word was read so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from groc.adaptation.caches.correction import Weights
from groc.scoring import Segment


class Unigram:
    """The relative frequency of the words read so far. Memory: one number for each word of the vocabulary."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None
        self.read_so_far = 0

    def read(self, segment: Segment) -> Weights:
        targets = segment.targets
        counts = targets.new_zeros(segment.words) if self.counts is None else self.counts
        inside = (targets[:, None] == targets).tril(-1).sum(1)  # of the segment's own words those before each
        before = self.read_so_far + torch.arange(len(targets), device=targets.device)
        self.counts = counts.index_add(0, targets, torch.ones_like(targets))
        self.read_so_far += len(targets)
        dtype = segment.log_prob.dtype
        return Weights((counts[targets] + inside).to(dtype).log(), before.to(dtype).log())

    def read_with(self, segment: Segment, thetas: Sequence[float]) -> list[Weights]:
        """States count for nothing here, and so does theta."""
        return [self.read(segment)] * len(thetas)
