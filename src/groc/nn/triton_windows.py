"""The convolutions of a character CNN and their maximum over positions as one pass on a GPU.

The scores of all kernels at all positions of all strings would fill half a gigabyte, written once and read thrice in a
step. Here a program goes from position to position of a block of strings and keeps the largest scores in registers; the
gradient, which is zero everywhere but at the maxima, is made block by block where it is needed. A block ends with its
longest string, so strings that come sorted by length cost no padding. Blocks have powers of two as sizes; the depth of
windows seldom is one, so it is taken in two parts (96 = 64 + 32).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

FORWARD = {"STRINGS": 64, "FILTERS": 128, "num_warps": 4, "num_stages": 3}
"""Scores and maxima take 64 registers of a thread each, so three programs share a processor: while one takes maxima,
another multiplies."""
BACKWARD_KERNELS = {"STRINGS": 32, "FILTERS": 128, "num_warps": 4, "num_stages": 3}
"""More filters would need more registers than there are; fewer would read the windows more often."""
BACKWARD_WINDOWS = {"STRINGS": 64, "FILTERS": 64, "num_warps": 8, "num_stages": 3}
"""Rows of `STRINGS` at `POSITIONS` each: fewer would read the kernels more often."""
SHARES = 32
"""Parts into which strings are shared out for the gradient of the kernels, then added up. With 1,024 filters their
programs fill a large card once."""
POSITIONS = tl.constexpr(4)
"""Of a program in the gradient of the windows, where they are written out one by one."""


@triton.jit
def _windows(begins, k, depth):
    # Windows overlap where the strings lie: no copy is made of them.
    return tl.load(begins[:, None] + k[None, :], mask=(k < depth)[None, :], other=0.0)


@triton.jit
def _kernels(matrix, k, column, depth, filters):
    inside = (k < depth)[:, None] & (column < filters)[None, :]
    return tl.load(matrix + k[:, None] * filters + column[None, :], mask=inside, other=0.0)


@triton.jit
def _gradients(gradient, where, start, column, strings, filters, STRINGS: tl.constexpr):
    string = (start + tl.arange(0, STRINGS)).to(tl.int64)
    inside = (column < filters)[:, None] & (string < strings)[None, :]
    at = column[:, None] + string[None, :] * filters
    return tl.load(gradient + at, mask=inside, other=0.0), tl.load(where + at, mask=inside, other=0)


@triton.jit
def _hits(values, places, position):
    # The gradient of the scores at a position. Numbers of two bytes are compared two at a time, single bytes are not.
    return tl.where(places.to(values.dtype) == tl.cast(position, values.dtype), values, 0.0)


@triton.jit
def _forward(
    x,
    matrix,
    lengths,
    maxima,
    where,
    strings,
    span,
    padded,
    depth,
    channels,
    filters,
    STRINGS: tl.constexpr,
    FILTERS: tl.constexpr,
    FIRST: tl.constexpr,
    REST: tl.constexpr,
):
    string = tl.program_id(0) * STRINGS + tl.arange(0, STRINGS)
    column = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    inside = (string < strings)[:, None] & (column < filters)[None, :]
    string = tl.minimum(string, strings - 1).to(tl.int64)
    last = tl.load(lengths + string).to(tl.int32) - 1
    begins = x + string * padded * channels
    k, rest = tl.arange(0, FIRST), FIRST + tl.arange(0, REST or 1)
    kernels = _kernels(matrix, k, column, depth, filters)
    if REST:
        kernels_of_rest = _kernels(matrix, rest, column, depth, filters)
    best = tl.full([STRINGS, FILTERS], float("-inf"), tl.float32)
    for position in range(tl.max(last) + 1):
        # Behind its end a string shows its last window again. That changes no maximum, and nothing need be masked.
        at = tl.minimum(position, last)
        scores = tl.dot(_windows(begins + at * channels, k, depth), kernels)
        if REST:
            scores = tl.dot(_windows(begins + at * channels, rest, depth), kernels_of_rest, scores)
        # The place rides in the last bits of the score, far below the rounding of the result: one maximum finds both.
        packed = (scores.to(tl.int32, bitcast=True) & -span) + at[:, None]
        best = tl.maximum(best, packed.to(tl.float32, bitcast=True), propagate_nan=tl.PropagateNan.ALL)
    best = best.to(tl.int32, bitcast=True)
    to = string[:, None] * filters + column[None, :]
    tl.store(maxima + to, (best & -span).to(tl.float32, bitcast=True), mask=inside)
    # The last bits of what is no number are no place.
    tl.store(where + to, tl.minimum(best & (span - 1), last[:, None]), mask=inside)


@triton.jit
def _backward_kernels(
    x,
    gradient,
    where,
    result,
    lasts,
    strings,
    padded,
    depth,
    channels,
    filters,
    STRINGS: tl.constexpr,
    FILTERS: tl.constexpr,
    FIRST: tl.constexpr,
    REST: tl.constexpr,
):
    column = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    share, shares = tl.program_id(1), tl.num_programs(1)
    k, rest = tl.arange(0, FIRST), FIRST + tl.arange(0, REST or 1)
    total = tl.zeros([FILTERS, FIRST], tl.float32)
    if REST:
        total_of_rest = tl.zeros([FILTERS, REST], tl.float32)
    # Every n-th block, so that all shares have short strings and long ones. While it is multiplied, the next is loaded.
    begin, step = share * STRINGS, shares * STRINGS
    values, places = _gradients(gradient, where, begin, column, strings, filters, STRINGS)
    for start in range(begin, strings, step):
        next_values, next_places = _gradients(gradient, where, start + step, column, strings, filters, STRINGS)
        string = start + tl.arange(0, STRINGS)
        last = tl.max(places, 0)
        tl.store(lasts + tl.program_id(0) * strings + string, last, mask=string < strings)
        begins = x + tl.minimum(string, strings - 1).to(tl.int64) * padded * channels
        for position in range(tl.max(last) + 1):
            hits = _hits(values, places, position)
            total = tl.dot(hits, _windows(begins + position * channels, k, depth), total)
            if REST:
                total_of_rest = tl.dot(hits, _windows(begins + position * channels, rest, depth), total_of_rest)
        values, places = next_values, next_places
    inside = (column < filters)[:, None]
    result += share * depth * filters + column[:, None]
    tl.store(result + k[None, :] * filters, total, mask=inside & (k < depth)[None, :])
    if REST:
        tl.store(result + rest[None, :] * filters, total_of_rest, mask=inside & (rest < depth)[None, :])


@triton.jit
def _backward_windows(
    gradient,
    where,
    matrix,
    lasts,
    result,
    strings,
    length,
    depth,
    filters,
    parts,
    PARTS: tl.constexpr,
    STRINGS: tl.constexpr,
    FILTERS: tl.constexpr,
    FIRST: tl.constexpr,
    REST: tl.constexpr,
):
    rows: tl.constexpr = POSITIONS * STRINGS
    first = tl.program_id(1) * POSITIONS
    string = tl.program_id(0) * STRINGS + tl.arange(0, STRINGS)
    string = tl.minimum(string, strings - 1).to(tl.int64)
    part = tl.arange(0, PARTS)
    last = tl.max(tl.load(lasts + part[:, None] * strings + string[None, :], mask=(part < parts)[:, None], other=0))
    k, rest = tl.arange(0, FIRST), FIRST + tl.arange(0, REST or 1)
    total = tl.zeros([rows, FIRST], tl.float32)
    if REST:
        total_of_rest = tl.zeros([rows, REST], tl.float32)
    # Behind the last maximum of all these strings there are zeros only.
    for start in range(0, tl.where(first <= last, filters, 0), FILTERS):
        column = start + tl.arange(0, FILTERS)
        inside = (column < filters)[None, :]
        at = string[:, None] * filters + column[None, :]
        values = tl.load(gradient + at, mask=inside, other=0.0)
        places = tl.load(where + at, mask=inside, other=0)
        # One position of all strings, then the next: joined, they stay in the thread that made them.
        pair = tl.join(_hits(values, places, first), _hits(values, places, first + 1))
        next_pair = tl.join(_hits(values, places, first + 2), _hits(values, places, first + 3))
        hits = tl.permute(tl.join(pair, next_pair), (3, 2, 0, 1)).reshape(rows, FILTERS)
        total = tl.dot(hits, tl.trans(_kernels(matrix, k, column, depth, filters)), total)
        if REST:
            total_of_rest = tl.dot(hits, tl.trans(_kernels(matrix, rest, column, depth, filters)), total_of_rest)
    row = tl.arange(0, rows)
    string = (tl.program_id(0) * STRINGS + row % STRINGS).to(tl.int64)
    position = first + row // STRINGS
    inside = ((string < strings) & (position < length))[:, None]
    to = result + (string * length + position)[:, None] * depth
    tl.store(to + k[None, :], total, mask=inside & (k < depth)[None, :])
    if REST:
        tl.store(to + rest[None, :], total_of_rest, mask=inside & (rest < depth)[None, :])


def _parts_of_depth(depth: int) -> dict[str, int]:
    """The depth as one or two powers of two, none below what a matrix product takes."""
    first = max(2 ** (depth.bit_length() - 1), 16)
    return {"FIRST": first, "REST": max(triton.next_power_of_2(depth - first), 16) if depth > first else 0}


@torch.library.custom_op(
    "groc::window_maxima",
    mutates_args=(),
    schema="(Tensor x, Tensor matrix, Tensor lengths, int length) -> (Tensor, Tensor)",
)
def window_maxima(x: Tensor, matrix: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The largest product of each filter with a string's windows, and the position of that window.

    `x` holds the characters of strings of 1 to `length` and at least as many zeros behind them as a window needs.
    Shape: [S, L + width - 1 or more, c], [width * c, filters], [S] -> [S, filters] twice
    """
    strings, padded, channels = x.shape
    depth, filters = matrix.shape
    maxima = x.new_empty(strings, filters)
    where = x.new_empty(strings, filters, dtype=torch.int8)  # of up to 128 positions
    # Blocks of strings first: the other dimensions of a grid end at 65,535.
    grid = (triton.cdiv(strings, FORWARD["STRINGS"]), triton.cdiv(filters, FORWARD["FILTERS"]))
    shape = (strings, triton.next_power_of_2(length), padded, depth, channels, filters)
    _forward[grid](x, matrix.contiguous(), lengths, maxima, where, *shape, **FORWARD, **_parts_of_depth(depth))
    return maxima, where


@window_maxima.register_fake
def _(x: Tensor, matrix: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = len(x), matrix.shape[1]
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int8)


@torch.library.custom_op(
    "groc::window_maxima_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor where, Tensor x, Tensor matrix, int length) -> (Tensor, Tensor)",
)
def window_maxima_backward(
    gradient: Tensor, where: Tensor, x: Tensor, matrix: Tensor, length: int
) -> tuple[Tensor, Tensor]:
    """Of the windows, [S, L, width * c], and of the matrix."""
    strings, padded, channels = x.shape
    depth, filters = matrix.shape
    sizes = _parts_of_depth(depth)
    parts = triton.cdiv(filters, BACKWARD_KERNELS["FILTERS"])
    # The last maximum of each string, noted by the first kernel for the second.
    lasts = where.new_empty(parts, strings)
    shares = min(SHARES, triton.cdiv(strings, BACKWARD_KERNELS["STRINGS"]))
    of_matrix = x.new_empty(shares, depth, filters, dtype=torch.float32)
    shape = (strings, padded, depth, channels, filters)
    _backward_kernels[parts, shares](x, gradient, where, of_matrix, lasts, *shape, **BACKWARD_KERNELS, **sizes)
    of_windows = x.new_empty(strings, length, depth)
    grid = (triton.cdiv(strings, BACKWARD_WINDOWS["STRINGS"]), triton.cdiv(length, POSITIONS.value))
    sizes["PARTS"] = triton.next_power_of_2(parts)
    rows = (strings, length, depth, filters, parts)
    _backward_windows[grid](gradient, where, matrix.contiguous(), lasts, of_windows, *rows, **BACKWARD_WINDOWS, **sizes)
    return of_windows, of_matrix.sum(0).to(matrix.dtype)


@window_maxima_backward.register_fake
def _(gradient: Tensor, where: Tensor, x: Tensor, matrix: Tensor, length: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return x.new_empty(len(x), length, len(matrix)), torch.empty_like(matrix)
