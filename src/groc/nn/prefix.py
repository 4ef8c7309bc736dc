"""The prefix network f: from the words so far to a state that predicts the next one."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from groc.nn.dropout import SharedDropout, WordDropout, checked_rate
from groc.nn.lstm import LSTM, LayerState
from groc.nn.mogrifier import MogrifierLSTM
from groc.nn.softmax import Softmax

State = tuple[LayerState, ...]
"""Of each layer."""


class Prefixes(NamedTuple):
    """The last layer's outputs, [T, B, d]: with dropout (what predicts) and without (what is regularised)."""

    dropped: Tensor
    raw: Tensor


class PrefixNetwork(nn.Module):
    """LSTM layers d -> hidden -> ... -> d with variational dropout before, between and after them.

    Two more kinds of dropout are those of AWD-LSTM (Merity et al. 2018): of the weights from a hidden state to the next
    one, and of whole words, which belongs to whoever picks the words' vectors (`word_dropout`). With `gate_rounds`
    input and state of a layer gate each other before each word.
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
        gate_rounds: int = 0,
        gate_rank: int = 80,
    ) -> None:
        super().__init__()
        self.sizes = [dim, *[hidden] * (layers - 1), dim]
        """Of its input, and of what each layer gives."""
        self.layers = nn.ModuleList(
            MogrifierLSTM(size, after, gate_rounds, gate_rank) if gate_rounds else LSTM(size, after)
            for size, after in pairwise(self.sizes)
        )
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
            raw, layer_state = layer(x, before, self.weight_dropout)
            after.append(layer_state)
            x = dropout(raw)
        return Prefixes(x, raw), tuple(after)

    def fuse(self, compiled: bool) -> None:
        """Compile what is element by element in layers and softmax, or leave it as it is."""
        for part in self.modules():
            if isinstance(part, MogrifierLSTM | Softmax):
                part.compiled = compiled

    def start(self, batch: int) -> State:
        """The state before any word: zeros."""
        like = next(self.parameters())
        return tuple((like.new_zeros(1, batch, size), like.new_zeros(1, batch, size)) for size in self.sizes[1:])


def detach(state: State) -> State:
    """The same state with no history: gradients stop here."""
    return tuple((hidden.detach(), cell.detach()) for hidden, cell in state)


@torch.no_grad()
def overwrite(state: State, by: State) -> None:
    """Put another state where this one lies: recorded work finds it there."""
    for old, new in zip(state, by, strict=True):
        for place, tensor in zip(old, new, strict=True):
            place.copy_(tensor)
