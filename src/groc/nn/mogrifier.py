"""An LSTM layer whose input and state gate each other before each word (Mogrifier; Melis et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from groc.nn.aligned import as_computed
from groc.nn.deferred import DeferredLinear
from groc.nn.fused import fused
from groc.nn.lstm import LayerState


class MogrifierLSTM(nn.Module):
    """Before each word its input x and the hidden state h gate each other in turns: x <- (1 + tanh(Q_1 h)) x, then
    h <- (1 + tanh(Q_2 x)) h, and so on for some rounds. Each Q is a product of two matrices of low rank.

    (With sigmoids, as published, it is the same: 2 sigmoid(2 z) = 1 + tanh z.) The gates start open, so that it starts
    as an LSTM. As in that, some hidden-to-hidden weights are left out in training; under autocast it computes in the
    type of that, but for the cells.
    """

    compiled = False
    """Whether gates and cells are compiled."""
    dense: bool | None = None
    """Whether the factors of each gate are one matrix before the first word; None: on a GPU, where it is the number of
    products that counts, which come one after the other."""

    def __init__(self, size: int, hidden: int, rounds: int, rank: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = size, hidden
        self.from_input, self.from_hidden, *biases = nn.LSTM(size, hidden).parameters()
        self.bias = nn.Parameter((biases[0] + biases[1]).detach())
        rank = min(rank, size, hidden)  # more would be parameters without freedom
        turns = [(size, hidden) if turn % 2 else (hidden, size) for turn in range(rounds)]
        self.narrow = nn.ParameterList(torch.randn(rank, source) / source**0.5 for source, _ in turns)
        self.wide = nn.ParameterList(torch.zeros(target, rank) for _, target in turns)

    def forward(self, x: Tensor, state: LayerState, weight_dropout: nn.Dropout) -> tuple[Tensor, LayerState]:
        """Shape: [T, B, n] -> [T, B, m], and the state behind them"""

        def linear(weight: Tensor, bias: Tensor | None = None) -> DeferredLinear:
            return DeferredLinear(as_computed(weight), None if bias is None else as_computed(bias), *x.shape[:2])

        dense = x.is_cuda if self.dense is None else self.dense
        pairs = zip(self.narrow, self.wide, strict=True)
        gates = [[linear(wide @ narrow)] if dense else [linear(narrow), linear(wide)] for narrow, wide in pairs]
        to_cell = linear(torch.cat([self.from_input, weight_dropout(self.from_hidden)], 1), self.bias)
        gated, after = fused(_gated, self.compiled), fused(_after, self.compiled)
        words, hidden, cell = as_computed(x), as_computed(state[0][0]), state[1][0]
        outputs = []
        with torch.autocast(x.device.type, enabled=False):  # everything has its type
            for word in words:
                for turn, gate in enumerate(gates):
                    if turn % 2:
                        hidden = gated(hidden, _through(gate, word))
                    else:
                        word = gated(word, _through(gate, hidden))
                hidden, cell = after(to_cell(torch.cat([word, hidden], 1)), cell)
                outputs.append(hidden)
        return torch.stack(outputs).to(x.dtype), (hidden[None].to(x.dtype), cell[None])


def _through(maps: Sequence[DeferredLinear], x: Tensor) -> Tensor:
    for each in maps:
        x = each(x)
    return x


def _gated(x: Tensor, gate: Tensor) -> Tensor:
    return torch.addcmul(x, x, gate.tanh())


def _after(gates: Tensor, cell: Tensor) -> LayerState:
    """Hidden and cell state after a word. Shape: [B, 4m], [B, m] -> [B, m] each"""
    enter, forget, candidate, leave = gates.to(cell.dtype).chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    return (leave.sigmoid() * cell.tanh()).to(gates.dtype), cell
