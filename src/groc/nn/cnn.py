"""The paper's surface encoder: a convolutional network over characters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.forms import WordForms
from groc.nn.aligned import linear
from groc.nn.characters import CODES, Characters
from groc.nn.letters import block_widths, letter_features
from groc.nn.surface import CHUNK, TINY, in_chunks, needs_chunks
from groc.nn.windows import one_matrix, window_maxima


class CharacterCNN(nn.Module):
    """Convolutions of several widths over character vectors, the maximum over positions, highway layers, a projection.

    A window may begin at each position from the begin mark to the end mark and sees zeros behind the end, so a vector
    does not depend on how long the longest word of the vocabulary is.
    """

    block_widths: Tensor

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
        self.register_buffer("block_widths", block_widths(filters), persistent=False)

    def remember(self, forms: WordForms) -> None:
        """Every character is known."""

    def features(self, forms: WordForms) -> Characters:
        return Characters.of(forms, self.longest, len(self.kernels))

    def forward(self, features: Characters) -> Tensor:
        if not needs_chunks(len(features)):
            return self._encoded(features)
        strings = torch.arange(len(features), device=features.codes.device)
        return in_chunks(lambda some: self._encoded(features.take(some)), strings)

    reduced = forward
    basis = None

    def _encoded(self, features: Characters) -> Tensor:
        return self._with(self.projection, features)

    def pooled(self, features: Characters) -> Tensor:
        """The features before the projection. Shape: strings -> [S, features]"""
        return self._with(nn.Identity(), features)

    def _with(self, last: nn.Module, strings: Characters) -> Tensor:
        """What a last layer makes of the features of strings. A GPU has kernels for them (see `letters`)."""
        letters = strings.letters() if torch.is_autocast_enabled(strings.codes.device.type) else None
        if letters is not None:
            features = letter_features(letters, self.characters, list(self.kernels), self.shifts, self.block_widths)
            encoded: Tensor = last(self._passed(features))
            return encoded
        by_length = strings.by_length()
        table = F.pad(self.characters, (0, 0, 1, 0))  # [codes, c], row 0 the pad
        matrices = self.matrices()
        bands = by_length.bands(by_length.characters(table))
        maxima = torch.cat([window_maxima(vectors, matrices, lengths) for vectors, lengths in bands])
        features = F.relu(maxima + self.shifts.to(maxima.dtype))
        return by_length.reordered(last(self._passed(features)))

    def _passed(self, hidden: Tensor) -> Tensor:
        for highway in self.highways:
            hidden = highway(hidden)
        return hidden

    def matrices(self) -> list[Tensor]:
        """The kernels of all widths as two matrices, the narrow and the wide ones.

        A kernel has zeros where it is narrower than the widest of its matrix: in one matrix, a third of it.
        """
        kernels, narrow = list(self.kernels), 2 * len(self.kernels) // 3
        return [one_matrix(some) for some in (kernels[:narrow], kernels[narrow:]) if some]

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
