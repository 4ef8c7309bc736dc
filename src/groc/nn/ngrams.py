"""The fast surface encoder: sums of vectors of hashed character n-grams."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from groc.forms import WordForms
from groc.nn.aligned import as_computed
from groc.nn.characters import BEGIN, END, FIRST_BYTE
from groc.nn.segments import Segments
from groc.nn.surface import TINY


class HashedNgrams(nn.Module):
    """The sum of learned vectors of a string's character n-grams (with begin and end marks), hashed into buckets.

    A rank-wide table and one projection: as many parameters as wanted, none of them a word's. Each n-gram adds up the
    rows of `hashes` hash functions, so that two n-grams that collide in one row are still told apart.
    """

    def __init__(self, dim: int, buckets: int, rank: int, shortest: int, longest: int, hashes: int) -> None:
        super().__init__()
        self.buckets = buckets
        self.hashes = hashes
        self.lengths = range(shortest, longest + 1)
        self.table = nn.Parameter(torch.randn(buckets, rank))
        self.projection = nn.Linear(rank, dim, bias=False)
        nn.init.orthogonal_(self.projection.weight)

    def features(self, forms: WordForms) -> Segments:
        index, offsets = hash_ngrams(forms, self.lengths, self.buckets, self.hashes)
        scale = 1 / np.sqrt(np.maximum(np.diff(offsets), 1))
        return Segments.of(index, offsets, scale.astype(np.float32), self.buckets)

    def forward(self, features: Segments) -> Tensor:
        out: Tensor = self.projection(self.reduced(features))
        return out

    def reduced(self, features: Segments) -> Tensor:
        out: Tensor = features(as_computed(self.table))
        return out

    @property
    def basis(self) -> Tensor:
        return self.projection.weight

    @torch.no_grad()
    def calibrate(self, features: Segments, scale: float) -> None:
        self.table.mul_(scale / self(features).std(correction=0).clamp(min=TINY))


def hash_ngrams(
    forms: WordForms, lengths: range, buckets: int, hashes: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The buckets of each n-gram of each string, and where each string's list begins (as in `Lists`)."""
    sizes = np.diff(forms.boundaries) + 2
    starts = np.concatenate([[0], np.cumsum(sizes)])
    string = np.repeat(np.arange(len(sizes)), sizes)  # which string each position belongs to
    codes = np.zeros(starts[-1], np.uint64)
    inside = np.ones(len(codes), bool)
    codes[starts[:-1]], codes[starts[1:] - 1] = BEGIN, END
    inside[starts[:-1]] = inside[starts[1:] - 1] = False
    codes[inside] = forms.characters.astype(np.uint64) + FIRST_BYTE
    after = starts[1:][string] - np.arange(len(codes))  # positions left in the string, this one included
    found, owners = [], []
    value = np.zeros(len(codes), np.uint64)
    for n in range(1, lengths.stop):
        # FNV-style: unsigned arithmetic wraps on purpose.
        shifted = np.concatenate([codes[n - 1 :], np.zeros(min(n - 1, len(codes)), np.uint64)])
        value = (value ^ shifted) * np.uint64(0x100000001B3) + np.uint64(n)
        if n in lengths:
            whole = after >= n
            mixed = value[whole] ^ (value[whole] >> np.uint64(29))
            mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
            for _ in range(hashes):
                found.append(((mixed ^ (mixed >> np.uint64(32))) % np.uint64(buckets)).astype(np.int32))
                owners.append(string[whole])
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(sizes)))])
    return np.concatenate(found)[order], offsets.astype(np.int32)
