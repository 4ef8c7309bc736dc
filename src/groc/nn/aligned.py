"""Numbers as a GPU computes with them fastest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MULTIPLE = 8
"""Of numbers of 2 bytes: what the fast kernels load at once."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`; on a GPU with zeros added until both sizes are multiples of eight, else it takes twice as long."""
    outputs, inputs = weight.shape
    more_outputs, more_inputs = -outputs % MULTIPLE, -inputs % MULTIPLE
    if not (x.is_cuda and (more_outputs or more_inputs)):
        return F.linear(x, weight, bias)
    weight = F.pad(weight, (0, more_inputs, 0, more_outputs))
    bias = None if bias is None else F.pad(bias, (0, more_outputs))
    return F.linear(F.pad(x, (0, more_inputs)), weight, bias)[..., :outputs]


def as_computed(x: Tensor) -> Tensor:
    """In the type of autocast, where that is on: for what PyTorch does not cast by itself."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
