"""Dropout with a mask that places share: positions of a sequence, words of a table, occurrences of a word. And none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from groc.errors import GrocError


class SharedDropout(nn.Module):
    """Dropout whose mask is the same for all positions along dimension 0.

    On [T, B, d] it is variational dropout: one mask a sequence. On [V, d] it drops the same dimensions of all words.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = checked_rate(rate)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        mask = torch.empty_like(x[:1]).bernoulli_(1 - self.rate).div_(1 - self.rate)
        return x * mask

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class WordDropout(nn.Module):
    """Dropout of whole words: in a training step a word is left out wherever it stands, or nowhere (Gal and Ghahramani
    2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = checked_rate(rate)

    def forward(self, x: Tensor, ids: Tensor, words: int) -> Tensor:
        """The vectors of words by their ids, all of which are below `words`. Shape: [..., d], [...] -> [..., d]"""
        if not self.training or self.rate == 0:
            return x
        kept = x.new_empty(words).bernoulli_(1 - self.rate).div_(1 - self.rate)
        return x * kept[ids][..., None]

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def checked_rate(rate: float) -> float:
    if not 0 <= rate < 1:
        raise GrocError(f"A dropout rate lies between 0 and 1 (1 excluded), not at {rate}.")
    return rate


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout for a while."""
    were_training = [module for module in model.modules() if module.training]
    if were_training:
        model.eval()
    try:
        yield
    finally:
        for module in were_training:
            module.training = True
