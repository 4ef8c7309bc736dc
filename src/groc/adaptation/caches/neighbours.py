"""Which of many states lie nearest to a state: exactly, on the model's device, or by FAISS."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import torch
from torch import Tensor

from groc.errors import GrocError

BLOCK = 2**16
"""States compared at once, at least. It changes nothing but speed and memory."""


class Neighbours(Protocol):
    """States, numbered in the order in which they were added."""

    def add(self, states: Tensor) -> None:
        """Shape: [T, d]"""
        ...

    def nearest(self, queries: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Squared distances and numbers of the nearest states, fewer where fewer are there, in any order; inf where
        one was not found. Shape: [T, d] -> [T, k], [T, k]"""
        ...


class ExactNeighbours:
    """Every state is looked at. Memory: the states, d numbers each; time: one product with each."""

    def __init__(self) -> None:
        self.blocks: list[Tensor] = []

    def add(self, states: Tensor) -> None:
        if self.blocks and len(self.blocks[-1]) < BLOCK:
            self.blocks[-1] = torch.cat([self.blocks[-1], states])
        else:
            self.blocks.append(states.clone())

    def nearest(self, queries: Tensor, number: int) -> tuple[Tensor, Tensor]:
        squares = queries.new_zeros(len(queries), 0)
        rows = torch.zeros_like(squares, dtype=torch.int64)
        first = 0
        for block in self.blocks:
            near, places = smallest(squared_distances(queries, block), number)
            squares, rows = torch.cat([squares, near], 1), torch.cat([rows, places + first], 1)
            squares, places = smallest(squares, number)
            rows = rows.gather(1, places)
            first += len(block)
        return squares, rows


class FaissNeighbours:
    """An HNSW graph: most of the nearest states, in far less time where there are millions. On the CPU.

    Memory: the states and 64 links each. Needs the extra `faiss`.
    """

    def __init__(self) -> None:
        try:
            self.faiss: Any = import_module("faiss")
        except ImportError:
            raise GrocError(
                "FAISS is not installed: pip install -c constraints.txt '.[faiss]', or do without --faiss."
            ) from None
        self.index: Any = None

    def add(self, states: Tensor) -> None:
        if self.index is None:
            self.index = self.faiss.IndexHNSWFlat(states.shape[1], 32)
        self.index.add(states.float().cpu().numpy())

    def nearest(self, queries: Tensor, number: int) -> tuple[Tensor, Tensor]:
        if self.index is None:
            return queries.new_zeros(len(queries), 0), queries.new_zeros(len(queries), 0, dtype=torch.int64)
        self.index.hnsw.efSearch = 2 * number
        found = self.index.search(queries.float().cpu().numpy(), min(number, self.index.ntotal))
        squares, rows = (torch.from_numpy(array).to(queries.device) for array in found)
        return squares.to(queries.dtype).masked_fill(rows < 0, torch.inf), rows.clamp(min=0)


def smallest(squares: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The smallest of each row and where they stand, in any order. Shape: [T, n] -> [T, k], [T, k]"""
    values, places = squares.topk(min(number, squares.shape[1]), largest=False, sorted=False)
    return values, places


def squared_distances(one: Tensor, other: Tensor) -> Tensor:
    """Shape: [T, d], [n, d] -> [T, n]"""
    products = torch.addmm(other.square().sum(1), one, other.T, alpha=-2)
    return (products + one.square().sum(1, keepdim=True)).clamp(min=0)
