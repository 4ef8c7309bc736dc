"""The prefix network f: from the words so far to a state that predicts the next one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from groc.nn.aligned import as_computed
from groc.nn.dropout import SharedDropout, WordDropout, checked_rate
from groc.nn.softmax import Softmax

LayerState = tuple[Tensor, Tensor]
"""Hidden and cell state of a layer, each [1, B, size]."""
State = tuple[LayerState, ...]
"""Of each layer."""


class Prefixes(NamedTuple):
    """The last layer's outputs, [T, B, d]: with dropout (what predicts) and without (what is regularised)."""

    dropped: Tensor
    raw: Tensor


class PrefixNetwork(nn.Module):
    """LSTM layers d -> hidden -> ... -> d with variational dropout before, between and behind them.

    Two more kinds of dropout are those of AWD-LSTM (Merity et al. 2018): of the weights from a hidden state to the next
    one, and of whole words, which belongs to whoever picks the words' vectors (`word_dropout`).
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        layers: int,
        input_dropout: float,
        hidden_dropout: float,
        output_dropout: float,
        weight_dropout: float = 0.0,
        word_dropout: float = 0.0,
        softmax: Softmax | None = None,
    ) -> None:
        super().__init__()
        sizes = [dim, *[hidden] * (layers - 1), dim]
        self.layers = nn.ModuleList(nn.LSTM(size, after) for size, after in pairwise(sizes))
        rates = [input_dropout, *[hidden_dropout] * (layers - 1), output_dropout]
        self.dropouts = nn.ModuleList(SharedDropout(rate) for rate in rates)
        self.weight_dropout = nn.Dropout(checked_rate(weight_dropout))
        self.word_dropout = WordDropout(word_dropout)
        self.softmax = softmax or Softmax()
        """How its outputs predict words. It is here since it learns as the network does, and belongs to no word."""

    def forward(self, embedded: Tensor, state: State) -> tuple[Prefixes, State]:
        """Shape: [T, B, d] -> [T, B, d]"""
        x = self.dropouts[0](embedded)
        raw = x
        after = []
        for layer, dropout, before in zip(self.layers, self.dropouts[1:], state, strict=True):
            raw, layer_state = self._run(layer, x, before)
            after.append(layer_state)
            x = dropout(raw)
        return Prefixes(x, raw), tuple(after)

    def _run(self, layer: nn.Module, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """One layer, in training with some of its hidden-to-hidden weights left out, the same ones at all positions.

        Under autocast it computes in the type of that, with inputs and outputs in their own.
        """
        assert isinstance(layer, nn.LSTM)
        device = x.device.type
        # Not `layer.training`: dynamic evaluation sets that for the sake of gradients, and wants no dropout.
        drops = self.weight_dropout.training and self.weight_dropout.p
        if not drops and not torch.is_autocast_enabled(device):
            return layer(x, state)  # type: ignore[no-any-return]
        weights: list[Tensor] = list(layer.parameters())  # input, recurrent, and the biases of both
        if drops:
            weights[1] = self.weight_dropout(weights[1])
        # In one piece and in cuDNN's order: else it gathers them itself at every call, and warns.
        flat = as_computed(torch.cat([weight.flatten() for weight in weights]))
        pieces = torch.split(flat, [weight.numel() for weight in weights])
        packed = [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]
        hidden, cell = state
        inputs = as_computed(x), (as_computed(hidden), as_computed(cell)), packed
        with torch.autocast(device, enabled=False):  # autocast of an LSTM is always to float16
            out, hidden, cell = torch.lstm(
                *inputs, has_biases=True, num_layers=1, dropout=0.0, train=True, bidirectional=False, batch_first=False
            )
        return out.to(x.dtype), (hidden.to(x.dtype), cell.to(x.dtype))

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


@torch.no_grad()
def overwrite(state: State, by: State) -> None:
    """Put another state where this one lies: recorded work finds it there."""
    for old, new in zip(state, by, strict=True):
        for place, tensor in zip(old, new, strict=True):
            place.copy_(tensor)
