"""Sums over lists of rows, written so that the backward pass is a sum over lists of rows too.

The gradient of a plain gather is a scatter with atomic additions: slow, and not repeatable on a GPU. Here transposed
lists are made when a gradient is first asked for, once for a vocabulary, and both directions only read and add.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LONGEST = 128
"""Rows that are added up one after the other. A row that is in thousands of lists would else hold up a GPU."""


class Transposed(nn.Module):
    """For each row the places where it is picked, as lists that may be cut into pieces."""

    index: Tensor
    offsets: Tensor
    pieces: Tensor | None

    def __init__(self, index: Tensor, places: Tensor, rows: int) -> None:
        """Row `index[i]` is picked at `places[i]`."""
        super().__init__()
        counts = torch.bincount(index, minlength=rows)
        offsets, pieces = _cut(counts)
        self.register_buffer("index", places[index.argsort(stable=True)], persistent=False)
        self.register_buffer("offsets", offsets.to(index.dtype), persistent=False)
        self.register_buffer("pieces", None if pieces is None else pieces.to(index.dtype), persistent=False)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.index, self.offsets, self.pieces


def _cut(counts: Tensor) -> tuple[Tensor, Tensor | None]:
    """Lists of these lengths, one behind the other, cut into pieces: where each piece begins, and which piece is the
    first of each list (None where every list is one piece)."""
    ends = counts.cumsum(0)
    if int(counts.max()) <= LONGEST:
        return F.pad(ends, (1, 0)), None
    pieces = (counts + LONGEST - 1) // LONGEST
    first = F.pad(pieces.cumsum(0), (1, 0))
    total = int(first[-1])
    lists = torch.arange(len(counts), device=counts.device).repeat_interleave(pieces, output_size=total)
    begins = (ends - counts)[lists] + LONGEST * (torch.arange(total, device=counts.device) - first[lists])
    return torch.cat([begins, ends[-1:]]), first


class Segments(nn.Module):
    """For each list of row numbers the scaled sum of those rows of a matrix. An empty list gives zeros.

    Shape: [rows, d] -> [lists, d]
    """

    index: Tensor
    offsets: Tensor
    scale: Tensor

    def __init__(self, index: Tensor, offsets: Tensor, scale: Tensor, rows: int) -> None:
        """List i is `index[offsets[i]:offsets[i+1]]`, row numbers below `rows`; its sum is multiplied by scale[i]."""
        super().__init__()
        self.rows = rows
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("offsets", offsets, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self._transposed: Transposed | None = None

    @classmethod
    def of(
        cls, index: npt.NDArray[np.int32], offsets: npt.NDArray[np.int32], scale: npt.NDArray[np.float32], rows: int
    ) -> Segments:
        """From arrays, which are copied."""
        return cls(torch.tensor(index), torch.tensor(offsets), torch.tensor(scale), rows)

    @property
    def filled(self) -> Tensor:
        """Which lists hold anything. Shape: [lists, 1]"""
        return (self.offsets.diff() > 0)[:, None]

    def lists(self, which: Tensor) -> tuple[Tensor, Tensor]:
        """Some of the lists, one behind the other, and where each begins."""
        begins = self.offsets[which]
        sizes = self.offsets[which + 1] - begins
        offsets = F.pad(sizes.cumsum(0), (1, 0))
        places = torch.arange(int(offsets[-1]), device=which.device)
        places += (begins - offsets[:-1]).repeat_interleave(sizes, output_size=len(places))
        return self.index[places], offsets.to(self.offsets.dtype)

    def take(self, which: Tensor) -> Segments:
        """Some of the lists over the same rows."""
        return Segments(*self.lists(which), self.scale[which], self.rows)

    def followed_by(self, other: Segments) -> Segments:
        """These lists and then others over the same rows."""
        offsets = torch.cat([self.offsets[:-1], self.offsets[-1] + other.offsets])
        return Segments(torch.cat([self.index, other.index]), offsets, torch.cat([self.scale, other.scale]), self.rows)

    def transposed(self) -> Transposed:
        """The transposed lists, made when they are first asked for."""
        if self._transposed is None:
            with torch.inference_mode(False):  # else gradients could not use what is made here
                lists = torch.arange(len(self.offsets) - 1, dtype=self.index.dtype, device=self.index.device)
                lists = lists.repeat_interleave(self.offsets.diff(), output_size=len(self.index))
                self._transposed = Transposed(self.index, lists, self.rows)
        return self._transposed

    def make_ready(self) -> None:
        """Make now what is else made when the first gradient is asked for."""
        self.transposed()

    def forward(self, rows: Tensor) -> Tensor:
        sums: Tensor  # [lists, d]
        if torch.is_grad_enabled() and rows.requires_grad:
            transposed = self.transposed().tensors
            sums = _SegmentSum.apply(rows, self.index, self.offsets, *transposed)  # type: ignore[no-untyped-call]
        else:
            sums = _sums(rows, self.index, self.offsets)
        return sums * self.scale.to(sums.dtype)[:, None]


class Picks(nn.Module):
    """Rows of a matrix by their numbers, as indexing gives them. Shape: [rows, d] -> [places, d]"""

    index: Tensor

    def __init__(self, index: Tensor, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.register_buffer("index", index, persistent=False)
        self._transposed: Transposed | None = None

    def transposed(self) -> Transposed:
        if self._transposed is None:
            with torch.inference_mode(False):
                places = torch.arange(len(self.index), dtype=self.index.dtype, device=self.index.device)
                self._transposed = Transposed(self.index, places, self.rows)
        return self._transposed

    def forward(self, rows: Tensor) -> Tensor:
        if torch.is_grad_enabled() and rows.requires_grad:
            transposed = self.transposed().tensors
            picked: Tensor = _SegmentSum.apply(rows, self.index, None, *transposed)  # type: ignore[no-untyped-call]
            return picked
        return _sums(rows, self.index, None)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        index: Tensor,
        offsets: Tensor | None,
        transposed_index: Tensor,
        transposed_offsets: Tensor,
        pieces: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(transposed_index, transposed_offsets, pieces)
        return _sums(rows, index, offsets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        index, offsets, pieces = ctx.saved_tensors
        sums = _sums(gradients[0].contiguous(), index, offsets)
        if pieces is not None:
            sums = _sums(sums, torch.arange(len(sums), dtype=index.dtype, device=index.device), pieces)
        return sums, None, None, None, None, None


def _sums(rows: Tensor, index: Tensor, offsets: Tensor | None) -> Tensor:
    """The sum of each list; of lists that have one row each, where there are no offsets."""
    if offsets is None:
        return F.embedding(index, rows)
    if rows.is_cuda and len(offsets) > 1 and rows.dtype is not torch.float64:  # the kernel adds in float32
        from groc.nn.triton_sums import list_sums

        sums: Tensor = list_sums(rows, index, offsets)
        return sums
    return F.embedding_bag(index, rows, offsets, mode="sum", include_last_offset=True)
