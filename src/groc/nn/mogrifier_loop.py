"""The loop of a gated LSTM layer over the words of a window, with its gradients written out.

Each of its steps waits for the one before, so that what it costs is the number of its operations. Left to automatic
differentiation each product would find a gradient as large as its weights at every word, and each sum of gradients
would be an operation of its own. Here a weight learns from all words at once, and a product adds to what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from groc.nn.fused import fused


def read_gated(
    x: Tensor,
    hidden: Tensor,
    cell: Tensor,
    to_cell: Tensor,
    bias: Tensor,
    gates: Sequence[Sequence[Tensor]],
    compiled: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All hidden states, and the last hidden and cell state. Input and state gate each other in turns, input first.

    A gate is one matrix, or several that are applied one after the other; all gates have as many. What is computed has
    the type of the matrices, but for the cells. Gradients cannot be differentiated again.

    Shape: [T, B, n], [B, m] twice, [4m, n + m], [4m] -> [T, B, m], [B, m] twice
    """
    factors = len(gates[0])
    matrices = [matrix for gate in gates for matrix in gate]
    learns = torch.is_grad_enabled() and any(one.requires_grad for one in (x, hidden, cell, to_cell, bias, *matrices))
    read: tuple[Tensor, Tensor, Tensor] = _GatedLoop.apply(  # type: ignore[no-untyped-call]
        compiled, learns, factors, x, hidden, cell, to_cell, bias, *matrices
    )
    return read


class _Turn(NamedTuple):
    """What one gate did at one word."""

    target: Tensor
    """What it gated."""
    tanh: Tensor
    """How far it opened."""
    inputs: Sequence[Tensor]
    """Of each of its matrices."""


class _Word(NamedTuple):
    """What happened at one word."""

    both: Tensor
    """Input and hidden state, gated."""
    gates: Tensor
    """Those of the cell, before their sigmoids and tanh."""
    cell: Tensor
    """As it was."""
    turns: Sequence[_Turn]

    def flat(self) -> list[Tensor]:
        turns = [tensor for turn in self.turns for tensor in (turn.target, turn.tanh, *turn.inputs)]
        return [self.both, self.gates, self.cell, *turns]

    @classmethod
    def of(cls, flat: Sequence[Tensor], factors: int) -> _Word:
        both, gates, cell, *rest = flat
        turns = [rest[start : start + 2 + factors] for start in range(0, len(rest), 2 + factors)]
        return cls(both, gates, cell, [_Turn(target, tanh, inputs) for target, tanh, *inputs in turns])


class _GatedLoop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        compiled: bool,
        keeps: bool,
        factors: int,
        x: Tensor,
        hidden: Tensor,
        cell: Tensor,
        to_cell: Tensor,
        bias: Tensor,
        *matrices: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        chains = _chains(matrices, factors)
        gated, after = fused(_gated, compiled), fused(_after, compiled)
        outputs: list[Tensor] = []
        kept: list[Tensor] = []
        # Copies are of one kind, with what is computed of them: for every other kind all would be compiled again.
        hidden, cell = hidden.clone(), cell.clone()
        with torch.autocast(x.device.type, enabled=False):  # everything has its type
            for word in x.clone().unbind():
                turns = []
                for turn, chain in enumerate(chains):
                    target, opened = (hidden, word) if turn % 2 else (word, hidden)
                    inputs = []
                    for matrix in chain:
                        inputs.append(opened)
                        opened = opened @ matrix.t()
                    after_turn, tanh = gated(target, opened)
                    turns.append(_Turn(target, tanh, inputs))
                    if turn % 2:
                        hidden = after_turn
                    else:
                        word = after_turn
                both = torch.cat([word, hidden], 1)
                gates = torch.addmm(bias, both, to_cell.t())
                if keeps:
                    kept += _Word(both, gates, cell, turns).flat()
                hidden, cell = after(gates, cell)
                outputs.append(hidden)
        ctx.save_for_backward(to_cell, *matrices, *kept)
        ctx.matrices, ctx.words, ctx.factors, ctx.compiled = len(matrices), len(outputs), factors, compiled
        return torch.stack(outputs), hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor, of_hidden: Tensor, of_cell: Tensor) -> tuple[Tensor | None, ...]:
        to_cell, *saved = ctx.saved_tensors
        matrices, kept = saved[: ctx.matrices], saved[ctx.matrices :]
        each = len(kept) // ctx.words
        words = [_Word.of(kept[start : start + each], ctx.factors) for start in range(0, len(kept), each)]
        chains = _chains(matrices, ctx.factors)
        before_gate, before_cell = fused(_before_gate, ctx.compiled), fused(_before_cell, ctx.compiled)
        size = to_cell.shape[1] - of_hidden.shape[1]
        of_words: list[Tensor] = []
        of_gates: list[Tensor] = []
        slopes: list[list[Tensor]] = [[] for _ in matrices]
        """Gradients of what each matrix gave, the last word's first."""
        with torch.autocast(of_outputs.device.type, enabled=False):
            for word, of_output in zip(reversed(words), reversed(of_outputs.unbind()), strict=True):
                of_cell_gates, of_cell = before_cell(word.gates, word.cell, of_output, of_hidden, of_cell)
                of_gates.append(of_cell_gates)
                of_both = of_cell_gates @ to_cell
                of_word, of_hidden = of_both[:, :size], of_both[:, size:]
                for turn in reversed(range(len(chains))):
                    target, tanh, _ = word.turns[turn]
                    if turn % 2:
                        of_hidden, slope = before_gate(target, tanh, of_hidden)
                    else:
                        of_word, slope = before_gate(target, tanh, of_word)
                    for factor in reversed(range(ctx.factors)):
                        slopes[turn * ctx.factors + factor].append(slope)
                        if factor:
                            slope = slope @ chains[turn][factor]
                    (of_word if turn % 2 else of_hidden).addmm_(slope, chains[turn][0])
                of_words.append(of_word)
            read = [
                [word.turns[turn].inputs[factor] for word in words]
                for turn in range(len(chains))
                for factor in range(ctx.factors)
            ]
            of_matrices = [
                torch.cat(some[::-1]).t() @ torch.cat(inputs) for some, inputs in zip(slopes, read, strict=True)
            ]
            of_all_gates = torch.cat(of_gates[::-1])
            of_to_cell = of_all_gates.t() @ torch.cat([word.both for word in words])
        of_x = torch.stack(of_words[::-1])
        return None, None, None, of_x, of_hidden, of_cell, of_to_cell, of_all_gates.sum(0), *of_matrices


def _chains(matrices: Sequence[Tensor], factors: int) -> list[Sequence[Tensor]]:
    return [matrices[start : start + factors] for start in range(0, len(matrices), factors)]


def _gated(x: Tensor, opened: Tensor) -> tuple[Tensor, Tensor]:
    """(1 + tanh(opened)) x, and that tanh. Shape: [B, m] each"""
    tanh = opened.tanh()
    return torch.addcmul(x, x, tanh), tanh


def _before_gate(x: Tensor, tanh: Tensor, of_gated: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of what was gated and of what opened it. Shape: [B, m] each"""
    return torch.addcmul(of_gated, of_gated, tanh), of_gated * x * (1 - tanh * tanh)


def _after(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state after a word. Shape: [B, 4m], [B, m] -> [B, m] each"""
    enter, forget, candidate, leave = gates.to(cell.dtype).chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    return (leave.sigmoid() * cell.tanh()).to(gates.dtype), cell


def _before_cell(
    gates: Tensor, cell: Tensor, of_output: Tensor, of_hidden: Tensor, of_cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `_after`, whose hidden state is an output and read by the next word.

    Shape: [B, 4m], [B, m] four times -> [B, 4m], [B, m]
    """
    enter, forget, candidate, leave = gates.to(cell.dtype).chunk(4, -1)
    enter, forget, candidate, leave = enter.sigmoid(), forget.sigmoid(), candidate.tanh(), leave.sigmoid()
    shown = (forget * cell + enter * candidate).tanh()
    of_shown = of_output.to(cell.dtype) + of_hidden.to(cell.dtype)
    of_cell = of_cell + of_shown * leave * (1 - shown * shown)
    slopes = [
        of_cell * candidate * enter * (1 - enter),
        of_cell * cell * forget * (1 - forget),
        of_cell * enter * (1 - candidate * candidate),
        of_shown * shown * leave * (1 - leave),
    ]
    return torch.cat(slopes, -1).to(gates.dtype), of_cell * forget
