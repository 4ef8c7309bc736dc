"""The convolutions of a character CNN and their maximum over positions as one pass on a GPU.

The scores of all kernels at all positions of all strings would fill half a gigabyte, written once and read thrice in a
step. Here a block of them lives in registers until its maximum is known; the gradient, which is zero everywhere but at
the maxima, is made block by block where it is needed.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, FILTERS = 128, 128
"""Positions and filters of a block."""
LEAST = tl.constexpr(-1e30)
"""Below every score; not infinite, since a place is written into its last bits."""
SHARES = 64
"""Parts into which strings are shared out for the gradient of the kernels, then added up."""


@triton.jit
def _windows(
    x, block, strings, length, padded, depth, channels, SPAN: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr
):
    # A window begins `channels` numbers behind the last one and is `depth` long: no copy is made of it.
    row = tl.arange(0, ROWS)
    string, position = (block * (ROWS // SPAN) + row // SPAN).to(tl.int64), row % SPAN
    k = tl.arange(0, DEPTH)
    inside = ((string < strings) & (position < length))[:, None] & (k < depth)[None, :]
    return tl.load(x + (string * padded + position)[:, None] * channels + k[None, :], mask=inside, other=0.0)


@triton.jit
def _gradients(
    gradient, where, block, columns, strings, filters, SPAN: tl.constexpr, ROWS: tl.constexpr, FILTERS: tl.constexpr
):
    string = (block * (ROWS // SPAN) + tl.arange(0, ROWS // SPAN)).to(tl.int64)
    inside = (string < strings)[:, None] & (columns < filters)[None, :]
    at = string[:, None] * filters + columns[None, :]
    values = tl.load(gradient + at, mask=inside, other=0.0)
    places = tl.load(where + at, mask=inside, other=0)
    hit = places[:, None, :] == tl.arange(0, SPAN)[None, :, None]
    return tl.reshape(tl.where(hit, values[:, None, :], 0.0).to(values.dtype), (ROWS, FILTERS))


@triton.jit
def _forward(
    x,
    matrix,
    lengths,
    maxima,
    where,
    strings,
    length,
    padded,
    depth,
    channels,
    filters,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    block = tl.program_id(0)
    windows = _windows(x, block, strings, length, padded, depth, channels, SPAN, ROWS, DEPTH)
    columns = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    k = tl.arange(0, DEPTH)
    inside = (columns < filters)[:, None] & (k < depth)[None, :]
    kernels = tl.load(matrix + columns[:, None] * depth + k[None, :], mask=inside, other=0.0)
    # Filters down, positions across: so a thread holds most positions of a string itself.
    scores = tl.dot(kernels, tl.trans(windows))
    row = tl.arange(0, ROWS)
    string, position = (block * (ROWS // SPAN) + row // SPAN).to(tl.int64), row % SPAN
    ends = tl.load(lengths + string, mask=string < strings, other=SPAN)
    scores = tl.where((position < ends)[None, :], scores, LEAST)
    # The place rides in the last bits of the score, far below the rounding of the result: one maximum finds both.
    packed = (scores.to(tl.int32, bitcast=True) & -SPAN) | position[None, :]
    packed = tl.reshape(packed.to(tl.float32, bitcast=True), (FILTERS, ROWS // SPAN, SPAN))
    best = tl.max(packed, 2).to(tl.int32, bitcast=True)
    string = (block * (ROWS // SPAN) + tl.arange(0, ROWS // SPAN)).to(tl.int64)
    at = string[None, :] * filters + columns[:, None]
    inside = (string < strings)[None, :] & (columns < filters)[:, None]
    tl.store(maxima + at, (best & -SPAN).to(tl.float32, bitcast=True), mask=inside)
    tl.store(where + at, best & (SPAN - 1), mask=inside)


@triton.jit
def _backward_windows(
    gradient,
    where,
    matrix,
    result,
    strings,
    length,
    depth,
    filters,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    block = tl.program_id(0)
    k = tl.arange(0, DEPTH)
    total = tl.zeros([ROWS, DEPTH], tl.float32)
    for start in range(0, filters, FILTERS):
        columns = start + tl.arange(0, FILTERS)
        values = _gradients(gradient, where, block, columns, strings, filters, SPAN, ROWS, FILTERS)
        inside = (columns < filters)[:, None] & (k < depth)[None, :]
        kernels = tl.load(matrix + columns[:, None] * depth + k[None, :], mask=inside, other=0.0)
        total = tl.dot(values, kernels, total)
    row = tl.arange(0, ROWS)
    string, position = (block * (ROWS // SPAN) + row // SPAN).to(tl.int64), row % SPAN
    inside = ((string < strings) & (position < length))[:, None] & (k < depth)[None, :]
    tl.store(result + (string * length + position)[:, None] * depth + k[None, :], total, mask=inside)


@triton.jit
def _backward_kernels(
    x,
    gradient,
    where,
    result,
    strings,
    length,
    padded,
    depth,
    channels,
    filters,
    blocks,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    share = tl.program_id(1)
    columns = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    total = tl.zeros([DEPTH, FILTERS], tl.float32)
    for number in range(blocks):
        block = share * blocks + number
        windows = _windows(x, block, strings, length, padded, depth, channels, SPAN, ROWS, DEPTH)
        values = _gradients(gradient, where, block, columns, strings, filters, SPAN, ROWS, FILTERS)
        total = tl.dot(tl.trans(windows), values, total)
    k = tl.arange(0, DEPTH)
    inside = (k < depth)[:, None] & (columns < filters)[None, :]
    tl.store(result + (share * depth + k)[:, None] * filters + columns[None, :], total, mask=inside)


def _sizes(length: int, depth: int) -> dict[str, int]:
    span = max(triton.next_power_of_2(length), 2)
    return {"SPAN": span, "ROWS": max(ROWS, span), "DEPTH": max(triton.next_power_of_2(depth), 16)}


@torch.library.custom_op(
    "groc::window_maxima",
    mutates_args=(),
    schema="(Tensor x, Tensor matrix, Tensor lengths, int length) -> (Tensor, Tensor)",
)
def window_maxima(x: Tensor, matrix: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The largest product of each filter with a string's windows, and the position of that window.

    `x` holds the characters of strings of up to `length` and at least as many zeros behind them as a window needs.
    Shape: [S, L + width - 1 or more, c], [width * c, filters], [S] -> [S, filters] twice
    """
    strings, padded, channels = x.shape
    depth, filters = matrix.shape
    sizes = _sizes(length, depth)
    maxima = x.new_empty(strings, filters)
    where = x.new_empty(strings, filters, dtype=torch.int16)
    # Blocks first: the other dimensions of a grid end at 65,535.
    grid = (triton.cdiv(strings * sizes["SPAN"], sizes["ROWS"]), triton.cdiv(filters, FILTERS))
    shape = (strings, length, padded, depth, channels, filters)
    kernels = matrix.T.contiguous()
    _forward[grid](x, kernels, lengths, maxima, where, *shape, FILTERS=FILTERS, num_warps=4, num_stages=2, **sizes)
    return maxima, where


@window_maxima.register_fake
def _(x: Tensor, matrix: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = len(x), matrix.shape[1]
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int16)


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
    sizes = _sizes(length, depth)
    blocks = triton.cdiv(strings * sizes["SPAN"], sizes["ROWS"])
    windows = x.new_empty(strings, length, depth)
    shape = (strings, length, depth, filters)
    _backward_windows[(blocks,)](
        gradient, where, matrix.T.contiguous(), windows, *shape, FILTERS=FILTERS, num_warps=4, num_stages=3, **sizes
    )
    parts = x.new_empty(SHARES, depth, filters, dtype=torch.float32)
    whole = (strings, length, padded, depth, channels, filters, triton.cdiv(blocks, SHARES))
    grid = (triton.cdiv(filters, FILTERS), SHARES)
    _backward_kernels[grid](x, gradient, where, parts, *whole, FILTERS=FILTERS, num_warps=8, num_stages=2, **sizes)
    return windows, parts.sum(0).to(matrix.dtype)


@window_maxima_backward.register_fake
def _(gradient: Tensor, where: Tensor, x: Tensor, matrix: Tensor, length: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return x.new_empty(len(x), length, len(matrix)), torch.empty_like(matrix)
