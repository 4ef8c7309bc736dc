"""Vectors of a word list that were composed once. A change of the list composes only what is new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from groc.nn.embeddings import Assembled, Embeddings, join
from groc.vocabulary import Vocabulary

Compose = Callable[[Sequence[str]], Embeddings]


@dataclass(frozen=True)
class KeptVectors:
    """The vectors of a vocabulary. Immutable: what changes is a new object, which shares the large table."""

    stamp: object
    """Of the weights that composed them: with other weights they are worth nothing."""
    vocabulary: Vocabulary
    vectors: Assembled

    @classmethod
    def of(cls, stamp: object, vocabulary: Vocabulary, table: Embeddings) -> KeptVectors:
        return cls(stamp, vocabulary, Assembled(table, table.select(torch.arange(0, device=table.bias.device))))

    def to(self, device: torch.device) -> KeptVectors:
        if self.vectors.base.bias.device == device:
            return self
        return KeptVectors(self.stamp, self.vocabulary, self.vectors.to(device))

    def change(self, vocabulary: Vocabulary, compose: Compose, redefined: Collection[str] = ()) -> KeptVectors:
        """The vectors of another vocabulary; `redefined` words are composed again though they were there."""
        before, vectors = self.vocabulary, self.vectors
        if not redefined and vocabulary.words[: len(before)] == before.words:  # words were added behind, none moved
            fresh: Sequence[str] = vocabulary.words[len(before) :]
            if not fresh:
                return KeptVectors(self.stamp, vocabulary, vectors)
            added = join(vectors.added, compose(fresh))
            order = vectors.order
            if order is not None:
                first = len(vectors.base) + len(vectors.added)
                order = torch.cat([order, torch.arange(first, first + len(fresh), device=order.device)])
            return KeptVectors(self.stamp, vocabulary, Assembled(vectors.base, added, order))
        return self._rearranged(vocabulary, compose, set(redefined))

    def _rearranged(self, vocabulary: Vocabulary, compose: Compose, redefined: set[str]) -> KeptVectors:
        vectors, index = self.vectors, self.vocabulary.index
        place = np.fromiter(
            (-1 if word in redefined else index.get(word, -1) for word in vocabulary), np.int64, len(vocabulary)
        )
        old = _numpy(vectors.order)[place] if vectors.order is not None else place.copy()
        fresh = [word for word, at in zip(vocabulary, place.tolist(), strict=True) if at < 0]
        # Rows of `added` that no word needs any more are let go.
        behind = (place >= 0) & (old >= len(vectors.base))
        used, renumbered = np.unique(old[behind] - len(vectors.base), return_inverse=True)
        device = vectors.base.bias.device
        added = vectors.added.select(torch.from_numpy(used).to(device))
        if fresh:
            added = join(added, compose(fresh))
        order = old
        order[behind] = len(vectors.base) + renumbered
        order[place < 0] = len(vectors.base) + len(used) + np.arange(len(fresh))
        return KeptVectors(self.stamp, vocabulary, Assembled(vectors.base, added, torch.from_numpy(order).to(device)))


def _numpy(tensor: torch.Tensor) -> npt.NDArray[np.int64]:
    array: npt.NDArray[np.int64] = tensor.cpu().numpy()
    return array
