"""Training on a sample of a large vocabulary: the words a step needs, and a softmax estimated from a few others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from groc.errors import GrocError
from groc.nn.embeddings import Embeddings

SMOOTHING = 0.75
"""Words are drawn by their count to this power: rare words more often than they occur."""


class Sample(NamedTuple):
    """Some words of a vocabulary, by their ids."""

    ids: Tensor
    """All words that a step needs, each once, in rising order."""
    log_weights: Tensor
    """The logarithm of what each of them counts for in the softmax: a word of the step's own text for 1, any other for
    how often it was drawn, over how often that was to be expected."""

    def places(self, words: Tensor) -> Tensor:
        """Where words stand in `ids`."""
        return torch.searchsorted(self.ids, words)

    def weighted(self, embeddings: Embeddings) -> Embeddings:
        """The sample's embeddings with a bias that makes each word count for all that it stands for.

        Words of the text stand for themselves, so a softmax over these embeddings is the one over the whole vocabulary
        but for the sum over all other words, and on average over draws that sum is exact too: a word that is drawn half
        as often counts twice.
        """
        return Embeddings(embeddings.input, embeddings.output, embeddings.bias + self.log_weights)


def check_sample(draws: int, words: int) -> None:
    """Whether so many draws are a sample of so many words."""
    if draws >= words:
        raise GrocError(
            f"training.sample={draws} is no sample of {words:,} words: leave it out, and each step takes all."
        )


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
        log_weights = torch.zeros(len(ids), device=needed.device)
        log_weights[torch.searchsorted(ids, drawn)] = times.log() - self.log_shares[drawn] - math.log(self.draws)
        log_weights[torch.searchsorted(ids, needed.flatten().contiguous())] = 0.0
        return Sample(ids, log_weights)
