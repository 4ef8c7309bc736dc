"""The loss of a softmax over all words with scores in bfloat16 and their sums in float32: half the memory.

The scores of all words behind all prefixes are by far the largest tensor of a step. Here they are written once by the
product that makes them, read once for their sums, and once more for their gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from groc.nn.fused import fused

COLUMNS, ROWS = 8, 64
"""Sizes are made multiples of these: the fast kernels for products load so much at once."""
NEVER = -3e38
"""The lowest bias, and that of what fills up the last rows: finite, so that 0 times it is 0."""


def cross_entropy(prefixes: Tensor, output: Tensor, bias: Tensor, targets: Tensor, compiled: bool = False) -> Tensor:
    """-log p(target | prefix) of each. Shape: [N, d], [V, d], [V], [N] -> [N]"""
    losses: Tensor = _CrossEntropy.apply(prefixes, output, bias, targets, compiled)  # type: ignore[no-untyped-call]
    return losses


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, prefixes: Tensor, output: Tensor, bias: Tensor, targets: Tensor, compiled: bool) -> Tensor:
        left, right = _with_ones(prefixes), _with_bias(output, bias)
        scores = left @ right.T
        log_sums = fused(_log_sums, compiled)(scores)
        ctx.save_for_backward(left, right, scores, log_sums, targets)
        ctx.sizes, ctx.types, ctx.compiled = output.shape, (prefixes.dtype, output.dtype, bias.dtype), compiled
        return log_sums - scores.gather(1, targets[:, None])[:, 0].float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        left, right, scores, log_sums, targets = ctx.saved_tensors
        (words, dim), types = ctx.sizes, ctx.types
        slopes = fused(_slopes, ctx.compiled)(scores, log_sums, targets, gradients[0])
        of_prefixes = of_output = of_bias = None
        if ctx.needs_input_grad[0]:
            of_prefixes = (slopes @ right)[:, :dim].to(types[0])
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:  # not of a frozen embedding
            of_words = (slopes.T @ left)[:words]
            of_output, of_bias = of_words[:, :dim].to(types[1]), of_words[:, dim].to(types[2])
        return of_prefixes, of_output, of_bias, None, None


def _with_ones(prefixes: Tensor) -> Tensor:
    """Prefixes and two columns of ones, which the biases are multiplied by."""
    rows, dim = prefixes.shape
    wide = prefixes.new_zeros(rows, _up_to(dim + 2, COLUMNS), dtype=torch.bfloat16)
    wide[:, :dim] = prefixes
    wide[:, dim : dim + 2] = 1
    return wide


def _with_bias(output: Tensor, bias: Tensor) -> Tensor:
    """Output embeddings and biases in one matrix, so that one product makes the scores, and one the gradients of both.

    A bias has two columns, itself and what rounding took from it: it counts in every score of its word."""
    words, dim = output.shape
    wide = output.new_zeros(_up_to(words, ROWS), _up_to(dim + 2, COLUMNS), dtype=torch.bfloat16)
    wide[:words, :dim] = output
    bias = bias.clamp(min=NEVER)
    wide[:words, dim] = bias
    wide[:words, dim + 1] = bias - wide[:words, dim]
    wide[words:, dim] = NEVER
    return wide


def _up_to(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _log_sums(scores: Tensor) -> Tensor:
    return scores.float().logsumexp(1)


def _slopes(scores: Tensor, log_sums: Tensor, targets: Tensor, gradients: Tensor) -> Tensor:
    """The gradient of the losses by the scores: p, less 1 for the target."""
    is_target = torch.arange(scores.shape[1], device=scores.device) == targets[:, None]
    slopes = ((scores.float() - log_sums[:, None]).exp() - is_target.float()) * gradients[:, None]
    return slopes.to(scores.dtype)
