"""The largest product of each filter with the windows of a string."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.nn.aligned import as_computed

FUSED_POSITIONS, FUSED_DEPTH = 128, 256
"""The longest strings and the longest windows (in numbers) that the fused kernel takes."""


def window_maxima(vectors: Tensor, matrices: Sequence[Tensor], lengths: Tensor) -> Tensor:
    """Of strings of up to L characters, behind whose ends the windows see zeros. A matrix is as deep as its windows.

    Shape: [S, L, c], [w * c, f] of rising depth, [S] -> [S, all f]
    """
    positions, channels = vectors.shape[1:]
    widest = len(matrices[-1]) // channels
    x = F.pad(vectors, (0, 0, 0, widest - 1))
    fits = positions <= FUSED_POSITIONS and len(matrices[-1]) <= FUSED_DEPTH
    if x.is_cuda and torch.is_autocast_enabled("cuda") and fits:
        # One launch with all matrices padded to the deepest is faster than one for each.
        whole = torch.cat([F.pad(matrix, (0, 0, 0, len(matrices[-1]) - len(matrix))) for matrix in matrices], 1)
        maxima: Tensor = _Fused.apply(as_computed(x), as_computed(whole), lengths, positions)  # type: ignore[no-untyped-call]
        return maxima
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


class _Fused(torch.autograd.Function):
    """Windows, their products with the kernels and the maximum of these in one kernel on a GPU.

    Shape: [S, L + width - 1 or more, c], [width * c, f], [S] -> [S, f]
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, lengths: Tensor, positions: int) -> Tensor:
        from groc.nn.triton_windows import window_maxima as fused_maxima

        maxima: Tensor
        maxima, where = fused_maxima(x, matrix, lengths, positions)
        ctx.save_for_backward(where, x, matrix)
        ctx.positions = positions
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from groc.nn.triton_windows import window_maxima_backward

        where, x, matrix = ctx.saved_tensors
        windows, of_matrix = window_maxima_backward(gradients[0].contiguous(), where, x, matrix, ctx.positions)
        behind = x.shape[1] - ctx.positions
        parts = windows.split(x.shape[2], -1)  # a character is in many windows, at another place in each
        shifted = (F.pad(part, (0, 0, at, behind - at)) for at, part in enumerate(parts))
        return reduce(torch.add, shifted), of_matrix, None, None
