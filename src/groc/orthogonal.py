"""Steps that move a matrix in all directions alike (Muon: Jordan et al. 2024), beside Adam for all other weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from groc.nn.surface import TINY

MOMENTUM = 0.95
ROUNDS = 5
FACTORS = (3.4445, -4.7750, 2.0315)
"""Of Newton's iteration: five rounds of it bring all but the smallest singular values near 1."""


class AdamAndOrthogonal(torch.optim.Adam):
    """Adam, but for the matrices of groups that are marked `orthogonal`: a step moves these by the rate times their own
    size, along their gradient with all its singular values made equal.

    Words that are composed go through matrices, and much of what these see of words is the same for all: with Adam what
    tells one word from another seems to be learned slowly there (EXPERIMENTS.md). Here every direction moves as far.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["orthogonal"]]
        try:
            super().step()
        finally:  # whoever goes on after an error must not go on without the matrices
            self.param_groups = groups
        for group in (group for group in groups if group["orthogonal"]):
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._move(matrix, matrix.grad.add(matrix, alpha=group["weight_decay"]), group["lr"])

    def _move(self, matrix: Tensor, gradient: Tensor, rate: float | Tensor) -> None:
        state = self.state[matrix]
        if not state:
            state["step"] = torch.zeros((), device=matrix.device)  # Adam asks for it where a state is loaded
            state["momentum"] = torch.zeros_like(matrix)
        state["momentum"].mul_(MOMENTUM).add_(gradient)
        along = orthogonalised(gradient + MOMENTUM * state["momentum"])
        matrix.sub_(along * (rate * matrix.norm() / along.norm().clamp(min=TINY)))


def orthogonalised(matrix: Tensor) -> Tensor:
    """The same with singular values near 1, and no matrix decomposed: products alone, which a GPU is made for."""
    x = matrix.to(torch.bfloat16 if matrix.is_cuda else matrix.dtype)
    x = x / x.norm().clamp(min=TINY)
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    a, b, c = FACTORS
    for _ in range(ROUNDS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    upright: Tensor = x.T if is_tall else x
    return upright.to(matrix.dtype)
