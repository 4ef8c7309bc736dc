"""A module that keeps what its weights composed, and takes it along wherever it is copied, pickled or moved."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from groc.kept import KeptVectors, Stamp


class KeepsVectors(nn.Module):
    """Vectors may be kept that these weights cannot compose again: those that a packed model came with."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: KeptVectors | None = None

    def _still_kept(self) -> KeptVectors | None:
        """What is kept, unless weights have changed since."""
        return self._kept if self._kept is not None and self._kept.stamp == self._stamp() else None

    def _stamp(self) -> Stamp:
        return Stamp.of(self._weights())

    def _weights(self) -> list[Tensor]:
        return list(self.state_dict(keep_vars=True).values())

    def __getstate__(self) -> dict[str, Any]:
        """For all kinds of copies."""
        return self.__dict__ | {"_kept": self._still_kept()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if any(weight.is_inference() for weight in self._weights()):
            # Copied in inference mode, whose tensors can neither be trained nor be told from changed ones.
            with torch.inference_mode(False):
                self.__dict__.update(deepcopy(self.__dict__))
        if self._kept is not None:  # composed by the same weights, wherever the copy has them
            self._kept = replace(self._kept, stamp=self._stamp())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `to`, `cuda`, `double` and the like do to every tensor, kept vectors included."""
        kept = self._still_kept()
        with torch.inference_mode(False):  # weights that can be trained, whoever moves them
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
            self._kept = None if kept is None else kept.mapped(fn, self._stamp())
        return self
