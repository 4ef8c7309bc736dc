"""The prefix network f: from the words so far to a state that predicts the next one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor, nn

from groc.nn.dropout import SharedDropout

State = tuple[tuple[Tensor, Tensor], ...]
"""Hidden and cell state of each layer, each [1, B, size]."""


class Prefixes(NamedTuple):
    """The last layer's outputs, [T, B, d]: with dropout (what predicts) and without (what is regularised)."""

    dropped: Tensor
    raw: Tensor


class PrefixNetwork(nn.Module):
    """LSTM layers d -> hidden -> ... -> d with variational dropout before, between and behind them."""

    def __init__(
        self, dim: int, hidden: int, layers: int, input_dropout: float, hidden_dropout: float, output_dropout: float
    ) -> None:
        super().__init__()
        sizes = [dim, *[hidden] * (layers - 1), dim]
        self.layers = nn.ModuleList(nn.LSTM(size, after) for size, after in pairwise(sizes))
        rates = [input_dropout, *[hidden_dropout] * (layers - 1), output_dropout]
        self.dropouts = nn.ModuleList(SharedDropout(rate) for rate in rates)

    def forward(self, embedded: Tensor, state: State) -> tuple[Prefixes, State]:
        """Shape: [T, B, d] -> [T, B, d]"""
        x = self.dropouts[0](embedded)
        raw = x
        after = []
        for layer, dropout, (hidden, cell) in zip(self.layers, self.dropouts[1:], state, strict=True):
            raw, layer_state = layer(x, (hidden, cell))
            after.append(layer_state)
            x = dropout(raw)
        return Prefixes(x, raw), tuple(after)

    def start(self, batch: int) -> State:
        """The state before any word: zeros."""
        layers: Sequence[nn.LSTM] = list(self.layers)  # type: ignore[arg-type]
        return tuple(
            (weight.new_zeros(1, batch, layer.hidden_size), weight.new_zeros(1, batch, layer.hidden_size))
            for layer, weight in ((layer, next(layer.parameters())) for layer in layers)
        )


def detach(state: State) -> State:
    """The same state with no history: gradients stop here."""
    return tuple((hidden.detach(), cell.detach()) for hidden, cell in state)
