"""The encoding of words shared out over processes: each encodes its part of the vocabulary, and all get the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from groc.compute import Group, seed_apart
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings
from groc.nn.input import PreparedForms
from groc.nn.surface import Surface


class _GatherRows(torch.autograd.Function):
    """Every process uses the rows of all, so the gradient of its own rows is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: Group) -> Tensor:
        ctx.group, ctx.rows = group, len(rows)
        return torch.cat(group.gather(rows))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = ctx.group.total(gradients[0].contiguous())
        return total[ctx.group.rank * ctx.rows : (ctx.group.rank + 1) * ctx.rows], None


_gathered = torch.compiler.disable(_GatherRows.apply)  # type: ignore[no-untyped-call]
"""Messages between processes are no part of what is compiled."""


def gather_rows(rows: Tensor, group: Group, total: int) -> Tensor:
    """The rows of all processes, one behind the other, cut to `total`. Gradients find their way back."""
    gathered: Tensor = _gathered(rows, group)
    return gathered[:total]


class SharedEncoder:
    """This process's part of the work."""

    def __init__(self, model: LanguageModel, group: Group, seed: int) -> None:
        self.seed = seed
        self.group, self.device, self.words = group, model.device, len(model.vocabulary)
        which = group.share(self.words).to(model.device)
        forms = model.forms
        self.forms = forms.take(which) if forms.relations is None else PartOfForms(forms, which, group)

    def whole(self, embed: Callable[[], Embeddings], step: int) -> Embeddings:
        """All words' embeddings from those of each process; with gradients."""
        # A dropout mask that is meant for all words must be the same in all processes. (What is dropped word by word is
        # then the same for the first word of each part, for the second, and so on.)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed_apart(step, self.seed))
            part = embed()
        rows = torch.cat([part.input, part.output, part.bias[:, None]], -1)
        rows = gather_rows(rows, self.group, self.words)
        dim = part.input.shape[1]
        return Embeddings(rows[:, :dim], rows[:, dim:-1], rows[:, -1])


class PartOfForms(PreparedForms):
    """The forms of some of the words, whose strings all processes encode together.

    Definitions of different words have words in common: if each process encoded what its own words need, many strings
    would be encoded by several.
    """

    which: Tensor
    """The words of this process."""
    counted: Tensor
    """Whether a word is this process's own, and not the last one once more (see `Group.share`). Shape: [V, 1]"""

    def __init__(self, whole: PreparedForms, which: Tensor, group: Group) -> None:
        entries = whole.entries_of(which)
        assert whole.strings is not None
        assert entries.relations is not None
        strings = entries.relations.rows
        super().__init__(
            len(which),
            whole.strings.take(group.share(strings).to(which.device)),
            entries.relations,
            entries.definition,
            log_shares=None if whole.log_shares is None else whole.log_shares[which],
        )
        self.group, self.all_strings = group, strings
        places = group.rank * len(which) + torch.arange(len(which), device=which.device)
        self.register_buffer("which", which, persistent=False)
        self.register_buffer("counted", (places < whole.words)[:, None], persistent=False)

    @property
    def entries_there(self) -> tuple[Tensor, Tensor]:
        relations, definition = super().entries_there
        return relations & self.counted, definition & self.counted

    def encoded(self, surface: Surface) -> Tensor:
        return gather_rows(super().encoded(surface).float(), self.group, self.all_strings)

    def own(self, strings: Tensor) -> Tensor:
        return strings[self.which]
