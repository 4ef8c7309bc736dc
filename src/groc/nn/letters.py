"""The features of strings by tables of what each filter gives each character: how a GPU does it.

See `letters.cuh` for the idea.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.nn.segments import Picks
from groc.nn.windows import one_matrix

FEWEST_KEPT, MOST_KEPT = 32, 64
"""How many characters have their entries kept in fast memory; strings with others are read more slowly. The
fewer, the more blocks of threads find room there."""
RARE = 0.02
"""The fewest are kept where no more strings than this have others."""
BLOCK = 128
"""Filters that one block of threads has."""
WIDEST, LONGEST = 8, 254
"""The widest windows and the longest strings that the kernels take."""
BEHIND = 12
"""Zeros behind a string, for the widest windows and for words that are read as a whole."""


class Letters(nn.Module):
    """Strings as numbers of the characters that occur, the most frequent first. 0 is no character."""

    codes: Tensor
    lengths: Tensor
    rare: Tensor

    def __init__(self, codes: Tensor, lengths: Tensor, limit: int, rare: Tensor, alphabet: Picks) -> None:
        """`alphabet` picks the characters 1, 2, ... from a table of all; `rare` strings have any from the limit on."""
        super().__init__()
        self.limit = limit
        self.alphabet = alphabet
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        self.register_buffer("rare", rare, persistent=False)

    @classmethod
    def of(cls, codes: Tensor, lengths: Tensor, characters: int) -> Letters:
        """From codes of `characters` characters, the first of which is none. No more than 245 occur: the bytes of UTF-8
        and two marks. Shape: [S, L], [S]"""
        counts = torch.bincount(codes.flatten().long(), minlength=characters)
        counts[0] = 0
        occurring = counts.argsort(descending=True, stable=True)[: int(counts.count_nonzero())]
        numbers = torch.zeros_like(counts, dtype=torch.uint8)
        numbers[occurring] = torch.arange(1, len(occurring) + 1, device=codes.device, dtype=torch.uint8)
        longest = int(lengths.max())
        numbered = numbers[codes[:, :longest].long()]
        words = F.pad(numbered, (0, BEHIND + -longest % 4))
        few = float((words >= FEWEST_KEPT).any(1).float().mean()) <= RARE
        limit = FEWEST_KEPT if few else MOST_KEPT
        return cls(words, lengths, limit, (words >= limit).any(1), Picks((occurring - 1).int(), characters - 1))

    def take(self, which: Tensor) -> Letters:
        return Letters(self.codes[which], self.lengths[which], self.limit, self.rare[which], self.alphabet)


def kernels_take(lengths: Tensor, offsets: int) -> bool:
    """Whether the strings are on a GPU whose kernels take such lengths and windows of so many offsets."""
    if not lengths.is_cuda or offsets > WIDEST or int(lengths.max()) > LONGEST:
        return False
    from groc.nn.cuda_letters import works

    return works(lengths.device, offsets)


def block_widths(filters: Sequence[int]) -> Tensor:
    """The widest filter in each block of them, of so many of width 1, 2, ..."""
    widths = torch.arange(1, len(filters) + 1).repeat_interleave(torch.tensor(filters))
    return F.pad(widths, (0, -len(widths) % BLOCK)).view(-1, BLOCK).amax(1).int()


def letter_features(
    letters: Letters, characters: Tensor, kernels: Sequence[Tensor], shifts: Tensor, widths: Tensor
) -> Tensor:
    """relu of the largest product of each filter with the windows of a string, plus the filter's shift, in bfloat16.

    Shape: strings, [all characters, c], [w * c, f] for widths w of 1, 2, ..., [all f], blocks -> [S, all f]
    """
    filters = len(shifts)
    more = -filters % BLOCK
    with torch.autocast(shifts.device.type, enabled=False):
        table = letter_table(letters.alphabet(characters), kernels)
        features: Tensor = _LetterFeatures.apply(  # type: ignore[no-untyped-call]
            F.pad(table, (0, more)),
            F.pad(shifts, (0, more)),
            letters.codes,
            letters.lengths,
            letters.rare,
            widths,
            letters.limit,
        )
    return features[:, :filters]


def letter_table(characters: Tensor, kernels: Sequence[Tensor]) -> Tensor:
    """What each filter gives each character at each offset of its window; nothing to no character, number 0.

    Shape: [characters, c], [w * c, f] for widths w of 1, 2, ... -> [characters + 1, widest, all f]
    """
    by_channel = one_matrix(kernels).view(len(kernels), characters.shape[1], -1).transpose(0, 1)  # [c, widest, all f]
    return (F.pad(characters, (0, 0, 1, 0)) @ by_channel.flatten(1)).view(-1, *by_channel.shape[1:])


class _LetterFeatures(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        shifts: Tensor,
        codes: Tensor,
        lengths: Tensor,
        rare: Tensor,
        widths: Tensor,
        limit: int,
    ) -> Tensor:
        from groc.nn.cuda_letters import letter_maxima

        features: Tensor
        features, where = letter_maxima(table.half(), shifts, codes, lengths, rare, widths, limit)
        ctx.save_for_backward(where, codes, widths)
        ctx.sizes = *table.shape[:2], limit
        return features

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        from groc.nn.cuda_letters import letter_histograms

        tables, rares, shifts = letter_histograms(gradients[0].contiguous(), *ctx.saved_tensors, *ctx.sizes)
        table = tables.sum(0)
        if rares.shape[1]:
            table = torch.cat([table, rares.sum(0)])
        return table, shifts.sum(0), None, None, None, None, None
