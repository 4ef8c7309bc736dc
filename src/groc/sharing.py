"""The encoding of words shared out over processes: each encodes its part of the vocabulary, and all get the whole."""

from __future__ import annotations

from collections.abc import Callable

import torch

from groc.compute import Group, seed_apart
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings


class SharedEncoder:
    """This process's part of the work."""

    def __init__(self, model: LanguageModel, group: Group, seed: int) -> None:
        self.seed = seed
        self.group, self.device, self.words = group, model.device, len(model.vocabulary)
        self.forms = model.forms.take(group.share(self.words).to(model.device))

    def whole(self, embed: Callable[[], Embeddings], step: int) -> Embeddings:
        """All words' embeddings from those of each process; with gradients."""
        # A dropout mask that is meant for all words must be the same in all processes. (What is dropped word by word is
        # then the same for the first word of each part, for the second, and so on.)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed_apart(step, self.seed))
            part = embed()
        rows = torch.cat([part.input, part.output, part.bias[:, None]], -1)
        rows = self.group.gather_rows(rows, self.words)
        dim = part.input.shape[1]
        return Embeddings(rows[:, :dim], rows[:, dim:-1], rows[:, -1])
