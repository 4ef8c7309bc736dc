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


class Segments(nn.Module):
    """For each list of row numbers the scaled sum of those rows of a matrix. An empty list gives zeros.

    Shape: [rows, d] -> [lists, d]
    """

    index: Tensor
    offsets: Tensor
    scale: Tensor
    transposed_index: Tensor | None
    transposed_offsets: Tensor | None

    def __init__(self, index: Tensor, offsets: Tensor, scale: Tensor, rows: int) -> None:
        """List i is `index[offsets[i]:offsets[i+1]]`, row numbers below `rows`; its sum is multiplied by scale[i]."""
        super().__init__()
        self.rows = rows
        for name, tensor in (
            ("index", index),
            ("offsets", offsets),
            ("scale", scale),
            ("transposed_index", None),
            ("transposed_offsets", None),
        ):
            self.register_buffer(name, tensor, persistent=False)

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

    def transpose(self) -> None:
        """Make the transposed lists, for each row the lists that it is in, unless they are there."""
        if self.transposed_index is not None:
            return
        lists = torch.arange(len(self.offsets) - 1, dtype=self.index.dtype, device=self.index.device)
        lists = lists.repeat_interleave(self.offsets.diff(), output_size=len(self.index))
        ends = F.pad(torch.bincount(self.index, minlength=self.rows).cumsum(0), (1, 0))
        self.transposed_index = lists[self.index.argsort(stable=True)]
        self.transposed_offsets = ends.to(self.offsets.dtype)

    def forward(self, rows: Tensor) -> Tensor:
        sums: Tensor  # [lists, d]
        if torch.is_grad_enabled() and rows.requires_grad:
            self.transpose()
            lists = self.index, self.offsets, self.transposed_index, self.transposed_offsets
            sums = _SegmentSum.apply(rows, *lists)  # type: ignore[no-untyped-call]
        else:
            sums = _sums(rows, self.index, self.offsets)
        return sums * self.scale.to(sums.dtype)[:, None]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, index: Tensor, offsets: Tensor, transposed_index: Tensor, transposed_offsets: Tensor
    ) -> Tensor:
        ctx.save_for_backward(transposed_index, transposed_offsets)
        return _sums(rows, index, offsets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        return _sums(gradients[0].contiguous(), *ctx.saved_tensors), None, None, None, None


def _sums(rows: Tensor, index: Tensor, offsets: Tensor) -> Tensor:
    return F.embedding_bag(index, rows, offsets, mode="sum", include_last_offset=True)
