"""The seven output embeddings. Each turns a vocabulary and its input embedding into (E^out, b):

output(forms, e_in) -> ([V, d], [V])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.nn.dropout import SharedDropout
from groc.nn.input import PreparedForms, WordTable
from groc.nn.surface import Surface, in_chunks, needs_chunks

Activation = Callable[[Tensor], Tensor]


def identity(x: Tensor) -> Tensor:
    """No activation; a function with a name, which can be pickled."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "selu": F.selu,
    "tanh": torch.tanh,
    "none": identity,
}


class BiasTable(WordTable):
    """A bias a word, starting at zero unless it is calibrated. A word without a row gets the mean bias."""

    def __init__(self, words: int) -> None:
        super().__init__(words, 1, 0.0)

    def forward(self, forms: PreparedForms) -> Tensor:
        return super().forward(forms)[:, 0]

    @torch.no_grad()
    def calibrate(self, counts: npt.NDArray[np.int64]) -> None:
        """Start at log((count + 1) / total), so that prediction starts from the words' frequencies in training.

        With the mean taken off, which changes no probability: rows that are grown later start at 0, near the mean.
        """
        logs = torch.from_numpy(counts + 1).double().log()
        self.weight.copy_((logs - logs.mean())[:, None])


class Lookup(nn.Module):
    """A table of its own."""

    def __init__(self, words: int, dim: int, scale: float, dropout: SharedDropout) -> None:
        super().__init__()
        self.table = WordTable(words, dim, scale)
        self.bias = BiasTable(words)
        self.dropout = dropout

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return self.dropout(self.table(forms)), self.bias(forms)


class Convolutional(nn.Module):
    """The characters of the word, plus a low-rank correction of its own (Jozefowicz et al. 2016)."""

    def __init__(self, surface: Surface, words: int, dim: int, correction: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.surface = surface
        self.correction = WordTable(words, correction, 0.05)
        self.projection = nn.Linear(correction, dim, bias=False)
        self.bias = BiasTable(words)
        self.dropout = dropout

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        assert forms.strings is not None
        composed = self.surface(forms.strings)
        return self.dropout(composed + self.projection(self.correction(forms))), self.bias(forms)


class Tied(nn.Module):
    """The input embedding itself (Press and Wolf 2017); also adaptive embeddings, which differ in their input alone."""

    def __init__(self, words: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.bias = BiasTable(words)
        self.dropout = dropout

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:
        return self.dropout(e_in), self.bias(forms)


class Bilinear(nn.Module):
    """One linear map of the input embedding (Gulordava et al. 2018)."""

    def __init__(self, words: int, dim: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.map = nn.Linear(dim, dim)
        nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)
        self.bias = BiasTable(words)
        self.dropout = dropout

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:
        return self.map(self.dropout(e_in)), self.bias(forms)


class ResidualNetwork(nn.Module):
    """g: k layers, E^(j) = g_j(E^(j-1)) + E^in, with one dropout mask for all words before each layer."""

    def __init__(self, dim: int, depth: int, activation: str, dropout: SharedDropout) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.normal_(layer.weight, 0.0, 0.1 * dim**-0.5)  # starts near the identity: the residual carries it
            nn.init.zeros_(layer.bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout

    def forward(self, e_in: Tensor) -> Tensor:
        if self.training or not self.layers or not needs_chunks(len(e_in)):
            return self._passed(e_in)
        return in_chunks(self._passed, e_in)

    def _passed(self, e_in: Tensor) -> Tensor:
        e_out = e_in
        for layer in self.layers:
            e_out = self.activation(layer(self.dropout(e_out))) + e_in
        return e_out


class DeepResidual(nn.Module):
    """The residual network over a lookup table (Pappas and Henderson 2019)."""

    def __init__(self, words: int, network: ResidualNetwork) -> None:
        super().__init__()
        self.network = network
        self.bias = BiasTable(words)

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:
        return self.network(e_in), self.bias(forms)


class PredictedBias(nn.Module):
    """b_v = activation(w e_v + a): a bias for any word."""

    def __init__(self, dim: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.map = nn.Linear(dim, 1)
        nn.init.zeros_(self.map.weight)
        nn.init.zeros_(self.map.bias)
        self.dropout = nn.Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, e_out: Tensor) -> Tensor:
        if self.training or not needs_chunks(len(e_out)):
            return self._predicted(e_out)
        return in_chunks(self._predicted, e_out)

    def _predicted(self, e_out: Tensor) -> Tensor:
        # Not a matrix product: with one column that takes longer, and this is compiled into what made `e_out`.
        return self.activation((self.dropout(e_out) * self.map.weight).sum(-1) + self.map.bias)


class Grounded(nn.Module):
    """GroC: the residual network (of depth 0: none) over the composed input embedding, and a predicted bias.

    `counts` adds to the bias how frequent the word was in training, times a learned weight. A word's count is data, as
    its spelling is; what the encoder would have to learn by heart of every single word it need not learn.
    """

    def __init__(self, network: ResidualNetwork, bias: PredictedBias, counts: bool) -> None:
        super().__init__()
        self.network = network
        self.bias = bias
        self.frequency = nn.Parameter(torch.ones(())) if counts else None

    def forward(self, forms: PreparedForms, e_in: Tensor) -> tuple[Tensor, Tensor]:
        e_out = self.network(e_in)
        bias: Tensor = self.bias(e_out)
        if self.frequency is not None:
            assert forms.log_shares is not None
            bias = bias + self.frequency * forms.log_shares
        return e_out, bias
