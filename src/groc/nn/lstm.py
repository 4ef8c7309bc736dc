"""An LSTM layer with dropout of its recurrent weights, in one call for all words of a window."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groc.nn.aligned import as_computed

LayerState = tuple[Tensor, Tensor]
"""Hidden and cell state of a layer, each [1, B, size]."""


class LSTM(nn.LSTM):
    """A layer of PyTorch's, in training with some of its hidden-to-hidden weights left out, the same ones at all
    positions (Merity et al. 2018).

    Under autocast it computes in the type of that, with inputs and outputs in their own.
    """

    def forward(  # type: ignore[override]
        self, x: Tensor, state: LayerState, weight_dropout: nn.Dropout
    ) -> tuple[Tensor, LayerState]:
        """Shape: [T, B, n] -> [T, B, m], and the state behind them"""
        device = x.device.type
        # Not `self.training`: dynamic evaluation sets that for the sake of gradients, and wants no dropout.
        drops = weight_dropout.training and weight_dropout.p
        if not drops and not torch.is_autocast_enabled(device):
            return super().forward(x, state)
        weights: list[Tensor] = list(self.parameters())  # input, recurrent, and the biases of both
        if drops:
            weights[1] = weight_dropout(weights[1])
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
