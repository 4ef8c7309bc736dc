"""Linear maps that a loop applies again and again, and whose weights learn from all of it at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class DeferredLinear:
    """y = W x + b at several positions, one after the other.

    A loop over positions finds a gradient as large as W at each of them, and adds them up, which is most of its work.
    Here they are one product over all positions, when the gradients of all outputs are there. (These gradients cannot
    be differentiated again.)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, positions: int, batch: int) -> None:
        """Shape: [m, n], [m]"""
        self.inputs: list[Tensor] = []
        added: Tensor = _Deferred.apply(weight, positions, batch, self.inputs)  # type: ignore[no-untyped-call]
        self.added = (added if bias is None else added + bias).unbind()
        self.transposed = weight.detach().t()

    def __call__(self, x: Tensor) -> Tensor:
        """At the next position. Shape: [B, n] -> [B, m]"""
        added = self.added[len(self.inputs)]
        self.inputs.append(x.detach())
        return torch.addmm(added, x, self.transposed)


class _Deferred(torch.autograd.Function):
    """Zeros, [T, B, m], that are added to W x: so they are given its gradient, and W has its own from them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, positions: int, batch: int, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs
        return weight.new_zeros(positions, batch, len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return gradients[0].flatten(0, 1).t() @ torch.cat(ctx.inputs), None, None, None
