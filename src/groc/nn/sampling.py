"""Training on a sample of a large vocabulary: the words a step needs, and a softmax estimated from a few others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from groc.nn.embeddings import Embeddings

SMOOTHING = 0.75
"""Words are drawn by their count to this power: rare words more often than they occur."""


class Sample(NamedTuple):
    """Some words of a vocabulary, by their ids."""

    ids: Tensor
    """All words that a step needs, each once, in rising order."""
    negatives: Tensor
    """Where the distinct drawn words stand in `ids`."""
    log_weights: Tensor
    """The logarithm of what each of them counts for: how often it was drawn, over how often that was to be expected."""

    def places(self, words: Tensor) -> Tensor:
        """Where words stand in `ids`."""
        return torch.searchsorted(self.ids, words)


class Sampler:
    """Draws words with replacement, by their smoothed frequency."""

    def __init__(self, counts: npt.NDArray[np.int64], draws: int, device: torch.device) -> None:
        weights = np.maximum(counts, 1).astype(np.float64) ** SMOOTHING
        shares = weights / weights.sum()
        self.draws = draws
        self.ends = torch.from_numpy(np.cumsum(shares)).to(device)
        self.log_shares = torch.from_numpy(np.log(shares)).to(device, torch.float32)

    def draw(self, needed: Tensor) -> Sample:
        """The needed words and a fresh draw."""
        points = torch.rand(self.draws, dtype=torch.float64, device=needed.device)
        drawn = torch.searchsorted(self.ends, points).clamp(max=len(self.ends) - 1)
        drawn, times = torch.unique(drawn, return_counts=True)
        ids = torch.unique(torch.cat([needed.flatten(), drawn]))
        log_weights = times.log() - self.log_shares[drawn] - np.log(self.draws)
        return Sample(ids, torch.searchsorted(ids, drawn), log_weights)


def sampled_loss(prefixes: Tensor, embeddings: Embeddings, targets: Tensor, sample: Sample) -> Tensor:
    """An estimate of -log p(target | prefix) of each; `targets` are places in the sample. Shape: [N, d], [N] -> [N]

    The sum over the vocabulary is the target's own term and, for all other words, the weighted sum over those that were
    drawn. On average over draws that sum is exact: a word that is drawn half as often counts twice.
    """
    own = (prefixes * embeddings.output[targets]).sum(-1) + embeddings.bias[targets]
    negatives = sample.negatives
    others = torch.addmm(embeddings.bias[negatives] + sample.log_weights, prefixes, embeddings.output[negatives].T)
    others = others.masked_fill(negatives == targets[:, None], float("-inf"))
    return torch.cat([own[:, None], others], -1).logsumexp(-1) - own
