"""The fast surface encoder: sums of vectors of hashed character n-grams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from groc.forms import WordForms
from groc.nn.aligned import as_computed
from groc.nn.characters import BEGIN, END, FIRST_BYTE
from groc.nn.segments import Segments
from groc.nn.surface import TINY, in_chunks, needs_chunks

KNOWN_BITS = 128
"""Of the set of known n-grams, for each bucket. With eight n-grams a bucket, one unknown in 16 is taken for known."""


class HashedNgrams(nn.Module):
    """The sum of learned vectors of a string's character n-grams (with begin and end marks), hashed into buckets.

    A rank-wide table and one projection: as many parameters as wanted, none of them a word's. Each n-gram adds up the
    rows of `hashes` hash functions, so that two n-grams that collide in one row are still told apart.

    An n-gram that no string of training had would add rows that others have formed, which say nothing of it. With
    `familiar` such n-grams are left out of a word.
    """

    known: Tensor | None
    """Which n-grams strings of training had: a bit for each value of a hash function. All zero: not noted yet."""

    def __init__(
        self, dim: int, buckets: int, rank: int, shortest: int, longest: int, hashes: int, familiar: bool = False
    ) -> None:
        super().__init__()
        self.buckets = buckets
        self.hashes = hashes
        self.lengths = range(shortest, longest + 1)
        self.table = nn.Parameter(torch.randn(buckets, rank))
        self.projection = nn.Linear(rank, dim, bias=False)
        nn.init.orthogonal_(self.projection.weight)
        bits = torch.zeros(buckets * KNOWN_BITS // 8, dtype=torch.uint8) if familiar else None
        self.register_buffer("known", bits)

    def remember(self, forms: WordForms) -> None:
        """Note the n-grams of strings of training, besides those that are known."""
        if self.known is None:
            return
        bits = np.unpackbits(self.known.cpu().numpy())
        for values, _ in _ngrams(forms, self.lengths):
            bits[_bit(values, len(bits))] = 1
        self.known.copy_(torch.from_numpy(np.packbits(bits)))

    def features(self, forms: WordForms) -> Segments:
        known = self.known.cpu().numpy() if self.known is not None and self.known.any() else None
        index, offsets = hash_ngrams(forms, self.lengths, self.buckets, self.hashes, known)
        scale = 1 / np.sqrt(np.maximum(np.diff(offsets), 1))
        return Segments.of(index, offsets, scale.astype(np.float32), self.buckets)

    def forward(self, features: Segments) -> Tensor:
        out: Tensor = self.projection(self.reduced(features))
        return out

    def reduced(self, features: Segments) -> Tensor:
        table, strings = as_computed(self.table), len(features.scale)
        if not needs_chunks(strings):
            out: Tensor = features(table)
            return out
        return in_chunks(lambda some: features.take(some)(table), torch.arange(strings, device=table.device))

    @property
    def basis(self) -> Tensor:
        return self.projection.weight

    @torch.no_grad()
    def calibrate(self, features: Segments, scale: float) -> None:
        self.table.mul_(scale / self(features).std(correction=0).clamp(min=TINY))


def _ngrams(forms: WordForms, lengths: range) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]]:
    """Of all n-grams a hash value and the string that has it, one length after the other."""
    sizes = np.diff(forms.boundaries) + 2
    starts = np.concatenate([[0], np.cumsum(sizes)])
    string = np.repeat(np.arange(len(sizes)), sizes)  # which string each position belongs to
    codes = np.zeros(starts[-1], np.uint64)
    inside = np.ones(len(codes), bool)
    codes[starts[:-1]], codes[starts[1:] - 1] = BEGIN, END
    inside[starts[:-1]] = inside[starts[1:] - 1] = False
    codes[inside] = forms.characters.astype(np.uint64) + FIRST_BYTE
    after = starts[1:][string] - np.arange(len(codes))  # positions left in the string, this one included
    value = np.zeros(len(codes), np.uint64)
    for n in range(1, lengths.stop):
        # FNV-style: unsigned arithmetic wraps on purpose.
        shifted = np.concatenate([codes[n - 1 :], np.zeros(min(n - 1, len(codes)), np.uint64)])
        value = (value ^ shifted) * np.uint64(0x100000001B3) + np.uint64(n)
        if n in lengths:
            whole = after >= n
            mixed = value[whole] ^ (value[whole] >> np.uint64(29))
            yield mixed * np.uint64(0xBF58476D1CE4E5B9), string[whole]


def hash_ngrams(
    forms: WordForms, lengths: range, buckets: int, hashes: int, known: npt.NDArray[np.uint8] | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The buckets of each n-gram of each string, and where each string's list begins (as in `Lists`)."""
    found, owners = [], []
    for mixed, owner in _ngrams(forms, lengths):
        if known is not None:
            old = _among(mixed, known)
            mixed, owner = mixed[old], owner[old]
        for _ in range(hashes):
            found.append(((mixed ^ (mixed >> np.uint64(32))) % np.uint64(buckets)).astype(np.int32))
            owners.append(owner)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(forms)))])
    return np.concatenate(found)[order], offsets.astype(np.int32)


def _bit(values: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    """The place of n-grams in a set of so many bits: a hash that has nothing to do with their buckets."""
    return ((values * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(17)) % np.uint64(bits)


def _among(values: npt.NDArray[np.uint64], known: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which n-grams are in a set."""
    place = _bit(values, 8 * len(known))
    within = np.uint64(7) - (place & np.uint64(7))  # the first bit of a byte is its highest
    found: npt.NDArray[np.bool_] = (known[place >> np.uint64(3)] >> within.astype(np.uint8)) & 1 == 1
    return found
