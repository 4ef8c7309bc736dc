"""E^in, E^out and b of a word list: one table, or rows that were composed at different times put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class WordVectors(Protocol):
    """Everything the model needs of a word list."""

    def __len__(self) -> int: ...

    def rows(self, ids: Tensor) -> Tensor:
        """Input embeddings of words. Shape: [...] -> [..., d]"""
        ...

    def output_rows(self, ids: Tensor) -> Tensor:
        """Output embeddings of words. Shape: [...] -> [..., d]"""
        ...

    def logits(self, prefixes: Tensor) -> Tensor:
        """The score of every word behind each prefix. Shape: [N, d] -> [N, V]"""
        ...


@dataclass(frozen=True)
class Embeddings:
    """One table each."""

    input: Tensor
    output: Tensor
    bias: Tensor

    def __len__(self) -> int:
        return len(self.bias)

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.input)  # not indexing: its gradient is sorted out by slower kernels

    def output_rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.output)

    def logits(self, prefixes: Tensor) -> Tensor:
        return torch.addmm(self.bias, prefixes, self.output.T)

    def select(self, ids: Tensor) -> Embeddings:
        return Embeddings(self.input[ids], self.output[ids], self.bias[ids])

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Embeddings:
        return Embeddings(function(self.input), function(self.output), function(self.bias))


@dataclass(frozen=True)
class Assembled:
    """The rows of a large table and of a small one, in any order.

    A word that is added becomes a row of the small table, so that the large one is neither copied nor composed again;
    several lists share it.
    """

    base: Embeddings
    added: Embeddings
    order: Tensor | None = None
    """For each word its row, rows of `added` counted behind those of `base`. None: all rows as they stand."""

    def __len__(self) -> int:
        return len(self.base) + len(self.added) if self.order is None else len(self.order)

    def rows(self, ids: Tensor) -> Tensor:
        return self._pick(self.base.input, self.added.input, ids)

    def output_rows(self, ids: Tensor) -> Tensor:
        return self._pick(self.base.output, self.added.output, ids)

    def logits(self, prefixes: Tensor) -> Tensor:
        both = torch.cat([self.base.logits(prefixes), self.added.logits(prefixes)], -1)
        return both if self.order is None else both[:, self.order]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Assembled:
        order = None if self.order is None else function(self.order)
        return Assembled(self.base.mapped(function), self.added.mapped(function), order)

    def _pick(self, base: Tensor, added: Tensor, ids: Tensor) -> Tensor:
        row = ids if self.order is None else self.order[ids]
        behind = row - len(base)
        picked = base[row.clamp(max=len(base) - 1)]
        return torch.where((behind >= 0)[..., None], added[behind.clamp(min=0)], picked) if len(added) else picked


def join(one: Embeddings, other: Embeddings) -> Embeddings:
    """The rows of one, then those of the other."""
    pairs = zip((one.input, one.output, one.bias), (other.input, other.output, other.bias), strict=True)
    return Embeddings(*(torch.cat(pair) for pair in pairs))
