"""Strings as codes of their characters, as they come and in bands of like length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from groc.forms import WordForms
from groc.nn.letters import Letters, kernels_take
from groc.nn.segments import Picks

PAD, BEGIN, END, FIRST_BYTE = 0, 1, 2, 3
CODES = FIRST_BYTE + 256
BANDS = (0.25, 0.5, 0.75, 0.9, 0.98, 1.0)
"""Where the bands of strings of like length end, as shares of all strings."""
FEW = 16
"""So many strings are one band, as those of a word that is added: launches cost more than padding does."""


class Characters(nn.Module):
    """Strings as padded rows of codes: begin mark, bytes, end mark."""

    codes: Tensor
    lengths: Tensor

    def __init__(self, codes: Tensor, lengths: Tensor, widest: int) -> None:
        """`widest` is the width of the widest windows through which they will be looked at."""
        super().__init__()
        self.widest = widest
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        self._by_length: ByLength | None = None
        self._letters: Letters | None = None
        self._lettered_on: torch.device | None = None

    @classmethod
    def of(cls, forms: WordForms, longest: int, widest: int) -> Characters:
        sizes = np.minimum(np.diff(forms.boundaries), longest)
        codes = np.zeros((len(forms), int(sizes.max()) + 2), np.int16)
        codes[:, 0] = BEGIN
        columns = np.arange(codes.shape[1] - 2)
        inside = columns < sizes[:, None]  # [S, L]
        at = forms.boundaries[:-1, None] + columns
        codes[:, 1:-1][inside] = forms.characters[at[inside]].astype(np.int16) + FIRST_BYTE
        codes[np.arange(len(forms)), sizes + 1] = END
        return cls(torch.from_numpy(codes), torch.from_numpy((sizes + 2).astype(np.int32)), widest)

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, which: Tensor) -> Characters:
        taken = Characters(self.codes[which], self.lengths[which], self.widest)
        if torch.is_autocast_enabled(which.device.type):  # else nobody will ask for them
            letters = self.letters()
            taken._letters = None if letters is None else letters.take(which)
            taken._lettered_on = self._lettered_on
        return taken

    def by_length(self) -> ByLength:
        """The same strings in another order, made when it is first asked for."""
        if self._by_length is None:
            with torch.inference_mode(False):  # else gradients could not use what is made here
                self._by_length = ByLength(self.codes, self.lengths)
        return self._by_length

    def letters(self) -> Letters | None:
        """The same strings as numbers of the characters that occur, where the kernels of a GPU take them; made when
        they are first asked for."""
        if self._lettered_on != self.codes.device:  # strings may move to a device that has no kernels
            with torch.inference_mode(False):
                takes = kernels_take(self.lengths, self.widest)
                self._letters = Letters.of(self.codes, self.lengths, CODES) if takes else None
            self._lettered_on = self.codes.device
        return self._letters

    def make_ready(self) -> None:
        """Make now what is else made when the first gradient is asked for, with or without autocast as here."""
        letters = self.letters() if torch.is_autocast_enabled(self.codes.device.type) else None
        (self.by_length().characters if letters is None else letters.alphabet).transposed()


class ByLength(nn.Module):
    """Strings from the shortest to the longest in a few bands, each padded to its own longest.

    Words are short and a few are very long: padded alike, two thirds of what is computed would be padding.
    """

    lengths: Tensor
    order: Tensor
    inverse: Tensor

    def __init__(self, codes: Tensor, lengths: Tensor) -> None:
        super().__init__()
        order = lengths.argsort(stable=True)
        ends = _ends_of_bands(lengths[order])
        self.shapes: list[tuple[int, int]] = []
        """Strings and padded length of each band."""
        bands = []
        for begin, end in pairwise([0, *ends]):
            longest = int(lengths[order[end - 1]])
            self.shapes.append((end - begin, longest))
            bands.append(codes[order[begin:end], :longest].flatten())
        self.characters = Picks(torch.cat(bands).int(), CODES)
        """Of all bands, one behind the other."""
        self.register_buffer("lengths", lengths[order], persistent=False)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("inverse", order.argsort(), persistent=False)

    def bands(self, characters: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each band the characters' vectors and the strings' lengths. Shape: [P, c] -> [S, L, c], [S]"""
        at = string = 0
        for strings, longest in self.shapes:
            vectors = characters[at : at + strings * longest].view(strings, longest, -1)
            yield vectors, self.lengths[string : string + strings]
            at, string = at + strings * longest, string + strings

    def reordered(self, rows: Tensor) -> Tensor:
        """Rows of these strings in the order they came in."""
        back: Tensor = _Reordered.apply(rows, self.inverse, self.order)  # type: ignore[no-untyped-call]
        return back


class _Reordered(torch.autograd.Function):
    """Rows in another order; the gradient is gathered back by the inverse order, where indexing would scatter it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return rows[order]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.saved_tensors[0]], None, None


def _ends_of_bands(lengths: Tensor) -> list[int]:
    """Where bands of strings in rising order of length end."""
    if len(lengths) <= FEW:
        return [len(lengths)] if len(lengths) else []
    ends = [math.ceil(share * len(lengths)) for share in BANDS]
    return sorted({*ends, len(lengths)} - {0})
