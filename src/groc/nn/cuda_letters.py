"""The kernels of `letter_maxima.cu` and `letter_histograms.cu` as operations of PyTorch."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from groc.nn.letters import BLOCK, MOST_KEPT

LANES = 32
THREADS = 256
"""Of a block that looks for maxima."""
STRINGS = 128
"""That such a block reads."""
SHARES = 32
"""Parts into which strings are shared out for the gradient of the table, then added up."""
ROOM = 100_000
"""Bytes for such a sum in a block of more than one warp: a multiprocessor has room for two of them."""


def works(device: torch.device, offsets: int) -> bool:
    """Whether the kernels can be compiled here, and a block finds room for windows of so many offsets."""
    try:
        for name in ("letter_maxima", "letter_histograms"):
            _compiled(name, device.index)
        why = (
            ""
            if _memory_of_maxima(MOST_KEPT, offsets) <= _shared_memory(device.index)
            else "a block has too little memory"
        )
    except (OSError, RuntimeError, AttributeError, ImportError) as error:  # older versions of PyTorch, other GPUs
        why = f"its kernels cannot be compiled: {error}"
    if why:
        warnings.warn(f"Characters are encoded slowly on this GPU, since {why}", stacklevel=2)
    return not why


def _shared_memory(device: int) -> int:
    """Bytes that a block may have."""
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)  # type: ignore[attr-defined]


@cache
def _compiled(name: str, device: int) -> Any:
    """A kernel for one of the GPUs, which may use all shared memory of a block."""
    from torch.utils import cpp_extension

    source = "\n".join(files("groc.nn").joinpath(part).read_text("utf-8") for part in ("letters.cuh", f"{name}.cu"))
    # PyTorch looks for the headers of a CUDA toolkit, which the kernels do not need and a machine may not have.
    before = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = before or "."
    try:
        with torch.cuda.device(device):
            kernel = torch.cuda._compile_kernel(source, name)
            kernel.set_shared_memory_config(_shared_memory(device))
            return kernel
    finally:
        cpp_extension.CUDA_HOME = before


def _launch(name: str, grid: tuple[int, int], threads: int, memory: int, arguments: list[Any]) -> None:
    """Run a kernel with so many bytes of shared memory, on the GPU where its first argument is."""
    device = arguments[0].device.index
    with torch.cuda.device(device):
        _compiled(name, device)((*grid, 1), (threads, 1, 1), arguments, memory)


@torch.library.custom_op(
    "groc::letter_maxima",
    mutates_args=(),
    schema="(Tensor table, Tensor shifts, Tensor codes, Tensor lengths, Tensor rare, Tensor widths, int limit)"
    " -> (Tensor, Tensor)",
)
def letter_maxima(
    table: Tensor, shifts: Tensor, codes: Tensor, lengths: Tensor, rare: Tensor, widths: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    """relu(maximum + shift) of each string and filter, and the position of the maximum. Strings that have characters
    from the limit on are rare.

    Shape: [characters, offsets, f] half, [f], [S, L] byte, [S] int, [S] bool, [blocks] int -> [S, f] twice
    """
    (characters, offsets, filters), (strings, stride) = table.shape, codes.shape
    kept = min(characters, limit)
    features = codes.new_empty(strings, filters, dtype=torch.bfloat16)
    where = codes.new_empty(strings, filters, dtype=torch.uint8)
    tensors = [table.contiguous(), codes, lengths, rare, shifts.contiguous(), widths, features, where]
    sizes = [strings, STRINGS, stride, offsets, kept, filters]
    grid = -(-strings // STRINGS), filters // BLOCK
    _launch("letter_maxima", grid, THREADS, _memory_of_maxima(kept, offsets), [*tensors, *sizes])
    return features, where


@letter_maxima.register_fake
def _(
    table: Tensor,
    shifts: Tensor,  # noqa: ARG001
    codes: Tensor,
    lengths: Tensor,  # noqa: ARG001
    rare: Tensor,  # noqa: ARG001
    widths: Tensor,  # noqa: ARG001
    limit: int,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    shape = len(codes), table.shape[2]
    return codes.new_empty(shape, dtype=torch.bfloat16), codes.new_empty(shape, dtype=torch.uint8)


@torch.library.custom_op(
    "groc::letter_histograms",
    mutates_args=(),
    schema="(Tensor gradient, Tensor where, Tensor codes, Tensor widths, int characters, int offsets, int limit)"
    " -> (Tensor, Tensor, Tensor)",
)
def letter_histograms(
    gradient: Tensor, where: Tensor, codes: Tensor, widths: Tensor, characters: int, offsets: int, limit: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the table, of characters below the limit and of the others, and of the shifts, all in parts to
    be added up.

    Shape: [S, f] bfloat16, [S, f], [S, L], [blocks] -> [parts, kept, offsets, f], [shares, others, offsets, f],
    [shares, f]
    """
    (strings, stride), filters = codes.shape, gradient.shape[1]
    tables, rares, shifts = _empty_histograms(gradient, characters, offsets, limit)
    parts, kept = tables.shape[:2]
    warps = SHARES // parts
    tensors = [gradient, where, codes, widths, tables, rares, shifts]
    sizes = [strings, -(-strings // SHARES), stride, offsets, characters, limit, filters]
    memory = warps * _memory_of_histogram(kept, offsets)
    _launch("letter_histograms", (filters // LANES, parts), warps * LANES, memory, [*tensors, *sizes])
    return tables, rares, shifts


@letter_histograms.register_fake
def _(
    gradient: Tensor,
    where: Tensor,  # noqa: ARG001
    codes: Tensor,  # noqa: ARG001
    widths: Tensor,  # noqa: ARG001
    characters: int,
    offsets: int,
    limit: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_histograms(gradient, characters, offsets, limit)


def _empty_histograms(gradient: Tensor, characters: int, offsets: int, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    filters, kept = gradient.shape[1], min(characters, limit)
    parts = SHARES // _warps_of_histograms(kept, offsets)

    def empty(*shape: int) -> Tensor:
        return gradient.new_empty(*shape, filters, dtype=torch.float32)

    return empty(parts, kept, offsets), empty(SHARES, characters - kept, offsets), empty(SHARES)


def _warps_of_histograms(kept: int, offsets: int) -> int:
    """How many shares a block adds up before it writes."""
    return max(warps for warps in (1, 2, 4) if warps == 1 or warps * _memory_of_histogram(kept, offsets) <= ROOM)


def _memory_of_maxima(kept: int, offsets: int) -> int:
    return kept * offsets * BLOCK * 2


def _memory_of_histogram(kept: int, offsets: int) -> int:
    return kept * offsets * LANES * 4
