"""Element-wise work as one kernel in place of several, each of which would read and write all of its numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., object])


def fused(function: Function, compiled: bool) -> Function:
    """The function, compiled if that is wanted."""
    return _compiled(function) if compiled else function


@cache
def _compiled(function: Function) -> Function:
    return cast(Function, torch.compile(function))
