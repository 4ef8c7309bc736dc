"""The largest product of each filter with the windows of a string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def one_matrix(kernels: Sequence[Tensor]) -> Tensor:
    """Kernels of rising depth side by side, with zeros where one is less deep than the last.

    Shape: [w * c, f] of rising w -> [the last w * c, all f]
    """
    depth = len(kernels[-1])
    return torch.cat([F.pad(kernel, (0, 0, 0, depth - len(kernel))) for kernel in kernels], 1)


def window_maxima(vectors: Tensor, matrices: Sequence[Tensor], lengths: Tensor) -> Tensor:
    """Of strings of up to L characters, behind whose ends the windows see zeros. A matrix is as deep as its windows.

    Shape: [S, L, c], [w * c, f] of rising depth, [S] -> [S, all f]
    """
    positions, channels = vectors.shape[1:]
    widest = len(matrices[-1]) // channels
    x = F.pad(vectors, (0, 0, 0, widest - 1))
    windows = torch.cat([x[:, shift : shift + positions] for shift in range(widest)], -1)
    return torch.cat(
        [
            MaximumOverPositions.apply(windows[..., : len(matrix)] @ matrix, lengths)  # type: ignore[no-untyped-call]
            for matrix in matrices
        ],
        1,
    )


class MaximumOverPositions(torch.autograd.Function):
    """The maximum over the first `lengths` positions; keeps where it was, not all that it was taken from.

    Shape: [S, L, f], [S] -> [S, f]
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        outside = torch.arange(scores.shape[1], device=scores.device) >= lengths[:, None]
        maxima, where = scores.masked_fill(outside[:, :, None], float("-inf")).max(1)
        ctx.save_for_backward(where.to(torch.int16))
        ctx.positions = scores.shape[1]
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (where,) = ctx.saved_tensors
        positions = torch.arange(ctx.positions, dtype=where.dtype, device=where.device)
        return torch.where(positions[:, None] == where[:, None], gradients[0][:, None], 0.0), None
