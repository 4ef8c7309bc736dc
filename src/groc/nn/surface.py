"""Surface encoders c_x: from the characters of a string to a vector. No parameter depends on the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from groc.forms import WordForms
from groc.nn.characters import Characters
from groc.nn.segments import Segments

TINY = 1e-12
"""Keeps a division finite where all strings look alike."""
CHUNK = 4096
"""Strings or words worked on at once where no gradient is needed."""
Features = Characters | Segments
"""The strings of a vocabulary as the tensors that a surface encoder takes; `take` gives those of some of them."""


@runtime_checkable
class Surface(Protocol):
    """A surface encoder: `features` turns strings into tensors once for a vocabulary, calling it encodes them."""

    def features(self, forms: WordForms) -> Features:
        """Integer tensors of all strings, as the buffers of a module so that they move with the model."""
        ...

    def remember(self, forms: WordForms) -> None:
        """Note which strings training has, if that makes a difference to others later."""
        ...

    def calibrate(self, features: Any, scale: float) -> None:
        """Set start values so that the vectors of these strings have zero mean and this standard deviation."""
        ...

    def __call__(self, features: Any) -> Tensor:
        """Shape: strings -> [strings, d]"""
        ...

    def reduced(self, features: Any) -> Tensor:
        """The same with fewer numbers, if `basis` is there: its product with these is the vector itself. What is linear
        in the vectors is cheaper in these. Shape: strings -> [strings, k]"""
        ...

    @property
    def basis(self) -> Tensor | None:
        """Shape: [d, k]"""
        ...


def needs_chunks(rows: int) -> bool:
    """Whether so many rows are too many to be worked on at once."""
    return not torch.is_grad_enabled() and rows > CHUNK


def in_chunks(work: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """What some work makes of rows, each on its own, so many at a time.

    Without gradients nothing on the way needs to be kept, so that memory is bounded whatever the vocabulary: besides
    the result, it is that of one chunk.
    """
    first, *others = torch.split(rows, CHUNK)
    made = work(first)
    if not others:
        return made
    whole = made.new_empty(len(rows), *made.shape[1:])
    whole[:CHUNK] = made
    for begin, some in zip(range(CHUNK, len(rows), CHUNK), others, strict=True):
        whole[begin : begin + CHUNK] = work(some)
    return whole
