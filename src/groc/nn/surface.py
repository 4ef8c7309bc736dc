"""Surface encoders c_x: from the characters of a string to a vector. No parameter depends on the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.forms import WordForms
from groc.nn.aligned import as_computed, linear
from groc.nn.segments import Picks, Segments

PAD, BEGIN, END, FIRST_BYTE = 0, 1, 2, 3
CODES = FIRST_BYTE + 256
TINY = 1e-12
"""Keeps a division finite where all strings look alike."""
CHUNK = 4096
"""Strings encoded at once where no gradient is needed."""
FUSED_POSITIONS, FUSED_DEPTH = 128, 256
"""The longest strings and the longest windows (in numbers) that the fused kernel takes."""
BANDS = (0.25, 0.5, 0.75, 0.9, 0.98, 1.0)
"""Where the bands of strings of like length end on a CPU, as shares of all strings."""


@runtime_checkable
class Surface(Protocol):
    """A surface encoder: `features` turns strings into tensors once for a vocabulary, calling it encodes them."""

    def features(self, forms: WordForms) -> Features:
        """Integer tensors of all strings, as the buffers of a module so that they move with the model."""
        ...

    def calibrate(self, features: Any, scale: float) -> None:
        """Set start values so that the vectors of these strings have zero mean and this standard deviation."""
        ...

    def __call__(self, features: Any) -> Tensor:
        """Shape: strings -> [strings, d]"""
        ...

    def reduced(self, features: Any) -> Tensor:
        """The same with fewer numbers, if `basis` is there: its product with these is the vector itself. What is linear
        in the vectors is cheaper in these. Shape: strings -> [strings, k]"""
        ...

    @property
    def basis(self) -> Tensor | None:
        """Shape: [d, k]"""
        ...


class Characters(nn.Module):
    """Strings as padded rows of codes: begin mark, bytes, end mark."""

    codes: Tensor
    lengths: Tensor

    def __init__(self, codes: Tensor, lengths: Tensor) -> None:
        super().__init__()
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        self._by_length: ByLength | None = None

    @classmethod
    def of(cls, forms: WordForms, longest: int) -> Characters:
        sizes = np.minimum(np.diff(forms.boundaries), longest)
        codes = np.zeros((len(forms), int(sizes.max()) + 2), np.int16)
        codes[:, 0] = BEGIN
        columns = np.arange(codes.shape[1] - 2)
        inside = columns < sizes[:, None]  # [S, L]
        at = forms.boundaries[:-1, None] + columns
        codes[:, 1:-1][inside] = forms.characters[at[inside]].astype(np.int16) + FIRST_BYTE
        codes[np.arange(len(forms)), sizes + 1] = END
        return cls(torch.from_numpy(codes), torch.from_numpy((sizes + 2).astype(np.int32)))

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, which: Tensor) -> Characters:
        return Characters(self.codes[which], self.lengths[which])

    def by_length(self) -> ByLength:
        """The same strings in another order, made when it is first asked for."""
        if self._by_length is None:
            with torch.inference_mode(False):  # else gradients could not use what is made here
                self._by_length = ByLength(self.codes, self.lengths)
        return self._by_length


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
    if lengths.is_cuda:  # the fused kernel works on powers of two
        powers = lengths.new_tensor([2**n for n in range(3, int(lengths[-1] - 1).bit_length() + 1)])
        ends = torch.searchsorted(lengths, powers, right=True).tolist()
    else:
        ends = [math.ceil(share * len(lengths)) for share in BANDS]
    return sorted({*ends, len(lengths)} - {0})


class _MaximumOverPositions(torch.autograd.Function):
    """The maximum over the first `lengths` positions; keeps where it was, not all that it was taken from.

    Shape: [S, L, f], [S] -> [S, f]
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor) -> Tensor:
        outside = torch.arange(scores.shape[1], device=scores.device) >= lengths[:, None]
        maxima, where = scores.masked_fill(outside[:, :, None], float("-inf")).max(1)
        ctx.save_for_backward(where.to(torch.int16))
        ctx.positions = scores.shape[1]
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (where,) = ctx.saved_tensors
        positions = torch.arange(ctx.positions, dtype=where.dtype, device=where.device)
        return torch.where(positions[:, None] == where[:, None], gradients[0][:, None], 0.0), None


class _WindowMaxima(torch.autograd.Function):
    """Windows, their products with the kernels and the maximum of these in one kernel on a GPU.

    Shape: [S, L + width - 1 or more, c], [width * c, f], [S] -> [S, f]
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, lengths: Tensor, positions: int) -> Tensor:
        from groc.nn.triton_windows import window_maxima

        maxima: Tensor
        maxima, where = window_maxima(x, matrix, lengths, positions)
        ctx.save_for_backward(where, x, matrix)
        ctx.positions = positions
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from groc.nn.triton_windows import window_maxima_backward

        where, x, matrix = ctx.saved_tensors
        windows, of_matrix = window_maxima_backward(gradients[0].contiguous(), where, x, matrix, ctx.positions)
        behind = x.shape[1] - ctx.positions
        parts = windows.split(x.shape[2], -1)  # a character is in many windows, at another place in each
        shifted = (F.pad(part, (0, 0, at, behind - at)) for at, part in enumerate(parts))
        return reduce(torch.add, shifted), of_matrix, None, None


Features = Characters | Segments
"""The strings of a vocabulary as the tensors that a surface encoder takes; `take` gives those of some of them."""


class CharacterCNN(nn.Module):
    """Convolutions of several widths over character vectors, the maximum over positions, highway layers, a projection.

    A window may begin at each position from the begin mark to the end mark and sees zeros behind the end, so a vector
    does not depend on how long the longest word of the vocabulary is.
    """

    def __init__(self, dim: int, characters: int, filters: Sequence[int], highway: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.widths = range(1, len(filters) + 1)
        self.characters = nn.Parameter(torch.randn(CODES - 1, characters))  # the pad has no vector: it is zero
        self.kernels = nn.ParameterList(
            torch.randn(width * characters, count) * (2 / (width * characters)) ** 0.5
            for width, count in zip(self.widths, filters, strict=True)
        )
        features = sum(filters)
        self.shifts = nn.Parameter(torch.zeros(features))
        self.highways = nn.ModuleList(Highway(features) for _ in range(highway))
        self.projection = ScaledLinear(features, dim)

    def features(self, forms: WordForms) -> Characters:
        return Characters.of(forms, self.longest)

    def forward(self, features: Characters) -> Tensor:
        if torch.is_grad_enabled() or len(features) <= CHUNK:
            return self._encoded(features)
        # Without gradients nothing needs to be kept, so memory can be bounded whatever the vocabulary.
        parts = torch.split(torch.arange(len(features), device=features.codes.device), CHUNK)
        return torch.cat([self._encoded(features.take(part)) for part in parts])

    reduced = forward
    basis = None

    def _encoded(self, features: Characters) -> Tensor:
        strings = features.by_length()
        return strings.reordered(self.projection(self._pooled(strings)))

    def pooled(self, features: Characters) -> Tensor:
        """The features before the projection. Shape: strings -> [S, features]"""
        strings = features.by_length()
        return strings.reordered(self._pooled(strings))

    def _pooled(self, strings: ByLength) -> Tensor:
        table = F.pad(self.characters, (0, 0, 1, 0))  # [codes, c], row 0 the pad
        matrices = self._matrices()
        bands = strings.bands(strings.characters(table))
        hidden = torch.cat([self._maxima(vectors, matrices, lengths) for vectors, lengths in bands])
        hidden = F.relu(hidden + self.shifts.to(hidden.dtype))
        for highway in self.highways:
            hidden = highway(hidden)
        return hidden

    def _maxima(self, vectors: Tensor, matrices: Sequence[Tensor], lengths: Tensor) -> Tensor:
        """The largest product of each filter with a string's windows. Shape: [S, L, c], [w * c, f], [S] -> [S, f]"""
        positions = vectors.shape[1]
        x = F.pad(vectors, (0, 0, 0, len(self.kernels) - 1))
        fits = positions <= FUSED_POSITIONS and len(matrices[-1]) <= FUSED_DEPTH
        if x.is_cuda and torch.is_autocast_enabled("cuda") and fits:
            x = as_computed(x)
            maxima = [
                _WindowMaxima.apply(x, as_computed(matrix), lengths, positions)  # type: ignore[no-untyped-call]
                for matrix in matrices
            ]
        else:
            windows = torch.cat([x[:, shift : shift + positions] for shift in range(len(self.kernels))], -1)
            maxima = [
                _MaximumOverPositions.apply(windows[..., : len(matrix)] @ matrix, lengths)  # type: ignore[no-untyped-call]
                for matrix in matrices
            ]
        return torch.cat(maxima, 1)

    def _matrices(self) -> list[Tensor]:
        """The kernels of all widths as two matrices, the narrow and the wide ones.

        A kernel has zeros where it is narrower than the widest of its matrix. In one matrix a third would be zeros; two
        depths that are powers of two, or little less, suit the fused kernel.
        """
        channels = self.characters.shape[1]
        half = (1 << (len(self.kernels[-1]) - 1).bit_length()) // 2
        narrow = half // channels
        matrices = []
        for kernels in (self.kernels[:narrow], self.kernels[narrow:]):
            if len(kernels):
                depth = len(kernels[-1])
                matrices.append(torch.cat([F.pad(kernel, (0, 0, 0, depth - len(kernel))) for kernel in kernels], 1))
        return matrices

    @torch.no_grad()
    def calibrate(self, features: Characters, scale: float) -> None:
        sample = torch.linspace(0, len(features) - 1, min(len(features), CHUNK)).long()
        self.projection.calibrate(self.pooled(features.take(sample)), scale)


class Highway(nn.Module):
    """x + gate * (relu(transform) - x), starting close to the identity."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.both = nn.Linear(size, 2 * size)
        nn.init.constant_(self.both.bias[size:], -2.0)

    def forward(self, x: Tensor) -> Tensor:
        transform, gate = self.both(x).chunk(2, -1)
        return x + torch.sigmoid(gate) * (F.relu(transform) - x)


class ScaledLinear(nn.Module):
    """A linear map of inputs that are first shifted by their mean and divided by their mean sum of absolute values,
    both taken once at the start.

    Adam moves each weight by about the learning rate. Over a thousand inputs that would move the output a thousand
    times as far as it moves a row of a lookup table, and all words together, since their features have much in common.
    With this shift and scale a step moves a word about as far as it would move its row of a table.
    """

    input_mean: Tensor
    input_scale: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("input_mean", torch.zeros(inputs))
        self.register_buffer("input_scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        centred = (x - self.input_mean.to(x.dtype)) * self.input_scale.to(x.dtype)
        return linear(centred, self.weight, self.bias)

    @torch.no_grad()
    def calibrate(self, x: Tensor, scale: float) -> None:
        """Choose start values from a sample of inputs, [samples, inputs], so that the outputs look like the rows of a
        lookup table: no mean, no correlation between dimensions, and this standard deviation."""
        self.input_mean.copy_(x.mean(0))
        self.input_scale.copy_(1 / (x - self.input_mean).abs().sum(-1).mean().clamp(min=TINY))
        centred = ((x - self.input_mean) * self.input_scale).double()
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(x))
        most = min(self.weight.shape)
        # Directions in which the sample hardly varies would be blown up: they keep a floor.
        whitening = (vectors / values.clamp(min=max(1e-4 * float(values[-1]), TINY)).sqrt()).T[-most:]
        rotation = nn.init.orthogonal_(torch.empty(self.weight.shape[0], most, dtype=torch.float64))
        self.weight.copy_(rotation @ whitening)
        self.weight.mul_(scale / self(x).std(correction=0).clamp(min=TINY))


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
