"""An LSTM layer whose input and state gate each other before each word (Mogrifier; Melis et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groc.nn.aligned import as_computed
from groc.nn.lstm import LayerState
from groc.nn.mogrifier_loop import read_gated


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
        self.from_input, self.from_hidden, *biases = nn.LSTM(size, hidden).parameters()
        self.bias = nn.Parameter((biases[0] + biases[1]).detach())
        rank = min(rank, size, hidden)  # more would be parameters without freedom
        turns = [(size, hidden) if turn % 2 else (hidden, size) for turn in range(rounds)]
        self.narrow = nn.ParameterList(torch.randn(rank, source) / source**0.5 for source, _ in turns)
        self.wide = nn.ParameterList(torch.zeros(target, rank) for _, target in turns)

    def forward(self, x: Tensor, state: LayerState, weight_dropout: nn.Dropout) -> tuple[Tensor, LayerState]:
        """Shape: [T, B, n] -> [T, B, m], and the state behind them"""
        dense = x.is_cuda if self.dense is None else self.dense
        pairs = zip(self.narrow, self.wide, strict=True)
        gates = [
            [as_computed(wide @ narrow)] if dense else [as_computed(narrow), as_computed(wide)]
            for narrow, wide in pairs
        ]
        to_cell = as_computed(torch.cat([self.from_input, weight_dropout(self.from_hidden)], 1))
        outputs, hidden, cell = read_gated(
            as_computed(x), as_computed(state[0][0]), state[1][0], to_cell, as_computed(self.bias), gates, self.compiled
        )
        return outputs.to(x.dtype), (hidden[None].to(x.dtype), cell[None])
