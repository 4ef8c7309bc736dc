"""Vectors of a word list that were composed once. A change of the list composes only what is new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from groc.nn.embeddings import Assembled, Embeddings, join
from groc.vocabulary import Vocabulary

Compose = Callable[[Sequence[str]], Embeddings]


@cache
def _watch_fused_optimisers() -> None:
    """PyTorch counts the writes to every tensor, which is how kept vectors know of new weights, but not those of fused
    optimisers: from now on these are counted too."""

    def count(optimiser: Optimizer, args: object, kwargs: object) -> None:  # noqa: ARG001
        fused = [group["params"] for group in optimiser.param_groups if group.get("fused")]
        torch.autograd.graph.increment_version([weight for params in fused for weight in params])

    register_optimizer_step_post_hook(count)


@dataclass(frozen=True)
class Stamp:
    """Which weights they were. Differs whenever a weight does: PyTorch counts the writes to every tensor, but for those
    into its `.data`."""

    marks: tuple[tuple[int, int], ...]
    """Where each weight lies, and how often it was written to."""
    held: tuple[Tensor, ...] = field(compare=False, repr=False)
    """The weights' memory: while it is held, no other weights can come to lie in the same place. (So weights that were
    replaced go when the vectors do that they composed.)"""

    def __reduce__(self) -> tuple[type[Stamp], tuple[tuple[()], tuple[()]]]:
        """Weights that are deeply copied or pickled lie elsewhere: a copied stamp is that of none, and holds none."""
        return Stamp, ((), ())

    @classmethod
    def of(cls, weights: Collection[Tensor]) -> Stamp:
        marks = tuple((weight.data_ptr(), weight._version) for weight in weights)
        return cls(marks, tuple(weight.detach() for weight in weights))


class Noted:
    """What a surface encoder kept beside its weights when forms were made."""

    def __init__(self, buffers: Sequence[Tensor]) -> None:
        self.stamp, self.values = Stamp.of(buffers), [buffer.clone() for buffer in buffers]

    def holds(self, buffers: Sequence[Tensor]) -> bool:
        """Whether it is still so: the values are looked at only where something was written."""
        stamp = Stamp.of(buffers)
        if stamp != self.stamp:
            pairs = zip(self.values, buffers, strict=True)
            if not all(torch.equal(value.to(buffer.device), buffer) for value, buffer in pairs):
                return False
            self.stamp = stamp
        return True


@dataclass(frozen=True)
class KeptVectors:
    """The vectors of a vocabulary. Immutable: what changes is a new object, which shares the large table."""

    stamp: Stamp
    """Of the weights that composed them: with other weights they are worth nothing."""
    vocabulary: Vocabulary
    vectors: Assembled
    first: Vocabulary
    """Whose words are the rows of the large table."""
    outdated: frozenset[str] = frozenset()
    """Words whose rows of the large table are not as the lexicon has them: they were taught something else when it was
    composed, or the lexicon is another since."""

    @classmethod
    def of(cls, stamp: Stamp, vocabulary: Vocabulary, table: Embeddings, taught: Iterable[str] = ()) -> KeptVectors:
        _watch_fused_optimisers()
        nothing = table.select(torch.arange(0, device=table.bias.device))
        return cls(stamp, vocabulary, Assembled(table, nothing), vocabulary, frozenset(taught))

    def mapped(self, function: Callable[[Tensor], Tensor], stamp: Stamp) -> KeptVectors:
        """The same on another device or in another precision."""
        return replace(self, stamp=stamp, vectors=self.vectors.mapped(function))

    def with_another_lexicon(self) -> KeptVectors:
        """The same, where what is said of the words that are there stays, and that of all others may change."""
        return replace(self, outdated=self.outdated | (self.first.index.keys() - self.vocabulary.index.keys()))

    def change(
        self,
        vocabulary: Vocabulary,
        compose: Compose,
        redefined: Collection[str] = (),
        taught: Container[str] = (),
    ) -> KeptVectors:
        """The vectors of another vocabulary. `redefined` words are composed again though they were there; a word that
        comes back is what it was at first, unless that is `outdated` or it is `taught` now."""
        before, vectors = self.vocabulary, self.vectors
        fresh: Sequence[str] = vocabulary.words[len(before) :]
        grown = vocabulary.words[: len(before)] == before.words  # words were added behind, none moved
        if grown and not redefined and not any(word in self.first for word in fresh):
            if not fresh:
                return replace(self, vocabulary=vocabulary)
            added = join(vectors.added, compose(fresh))
            order = vectors.order
            if order is not None:
                first = len(vectors.base) + len(vectors.added)
                order = torch.cat([order, torch.arange(first, first + len(fresh), device=order.device)])
            return replace(self, vocabulary=vocabulary, vectors=Assembled(vectors.base, added, order))
        return self._rearranged(vocabulary, compose, set(redefined), taught)

    def _rearranged(
        self, vocabulary: Vocabulary, compose: Compose, redefined: set[str], taught: Container[str]
    ) -> KeptVectors:
        vectors, index = self.vectors, self.vocabulary.index
        rows = range(len(self.vocabulary)) if vectors.order is None else vectors.order.tolist()

        def row(word: str) -> int:
            """Where the word's vector is: a row of `base`, then of `added`; -1 if it has none."""
            if word in redefined:
                return -1
            if word in index:
                return rows[index[word]]
            return -1 if word in taught or word in self.outdated else self.first.index.get(word, -1)

        order = np.fromiter((row(word) for word in vocabulary), np.int64, len(vocabulary))
        missing, base = order < 0, len(vectors.base)
        fresh = [word for word, gone in zip(vocabulary, missing.tolist(), strict=True) if gone]
        # Rows of `added` that no word needs any more are let go.
        behind = order >= base
        used, renumbered = np.unique(order[behind] - base, return_inverse=True)
        device = vectors.base.bias.device
        added = vectors.added.select(torch.from_numpy(used).to(device))
        if fresh:
            added = join(added, compose(fresh))
        order[behind] = base + renumbered
        order[missing] = base + len(used) + np.arange(len(fresh))
        assembled = Assembled(vectors.base, added, torch.from_numpy(order).to(device))
        return replace(self, vocabulary=vocabulary, vectors=assembled)
