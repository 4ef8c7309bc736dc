"""Sums over lists of rows, written so that the backward pass is a sum over lists of rows too.

The gradient of a plain gather is a scatter with atomic additions: slow, and not repeatable on a GPU. Here the
transposed lists are made once for a vocabulary, and both directions only read and add.
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
    transposed_index: Tensor
    transposed_offsets: Tensor
    scale: Tensor

    def __init__(
        self, index: npt.NDArray[np.int32], offsets: npt.NDArray[np.int32], scale: npt.NDArray[np.float32], rows: int
    ) -> None:
        super().__init__()
        lists = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        by_row = np.argsort(index, kind="stable")
        row_ends = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=rows))])
        for name, array in (
            ("index", index),
            ("offsets", offsets),
            ("transposed_index", lists[by_row]),
            ("transposed_offsets", row_ends.astype(np.int32)),
            ("scale", scale[:, None]),
        ):
            self.register_buffer(name, torch.from_numpy(np.array(array)), persistent=False)

    @property
    def filled(self) -> Tensor:
        """Which lists hold anything. Shape: [lists, 1]"""
        return (self.offsets.diff() > 0)[:, None]

    def forward(self, rows: Tensor) -> Tensor:
        sums: Tensor  # [lists, d]
        if torch.is_grad_enabled() and rows.requires_grad:
            lists = self.index, self.offsets, self.transposed_index, self.transposed_offsets
            sums = _SegmentSum.apply(rows, *lists)  # type: ignore[no-untyped-call]
        else:
            sums = _sums(rows, self.index, self.offsets)
        return sums * self.scale.to(sums.dtype)


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
