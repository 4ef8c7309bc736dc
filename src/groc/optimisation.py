"""What moves the weights: parameter groups, the learning rate's course, averaged weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from groc.config import Training
from groc.model import LanguageModel
from groc.nn.cnn import CharacterCNN
from groc.nn.input import WordTable
from groc.nn.ngrams import HashedNgrams
from groc.orthogonal import AdamAndOrthogonal


def make_optimiser(model: LanguageModel, training: Training) -> torch.optim.Adam:
    """Adam with two groups, unless they have the same rate: what composes words, and everything else. Matrices that
    compose words may have a group with steps of their own kind.

    A row of a table moves few words, a matrix that all words go through moves them all: the rate of both need not be
    the same.
    """
    tables = {id(part.weight) for part in model.modules() if isinstance(part, WordTable)}
    tables |= {id(part.table) for part in model.modules() if isinstance(part, HashedNgrams)}
    composing = [
        parameter
        for part in (model.input, model.output)
        for parameter in part.parameters()
        if id(parameter) not in tables
    ]
    composing = list(dict.fromkeys(composing))
    chosen = {id(parameter) for parameter in composing}
    matrices = _matrices(model, composing) if training.matrix_rate else []
    composing = [parameter for parameter in composing if id(parameter) not in {id(matrix) for matrix in matrices}]
    rest = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    on_gpu = model.device.type == "cuda"
    groups: list[dict[str, Any]] = [
        {"params": rest, "share": 1.0},
        {"params": composing, "share": training.encoder_rate},
    ]
    if training.encoder_rate == 1 or not composing:
        groups = [{"params": [*rest, *composing], "share": 1.0}]
    if matrices:
        groups = [{**group, "orthogonal": False} for group in groups]
        groups.append({"params": matrices, "share": training.matrix_rate, "orthogonal": True})
    if on_gpu:  # the rate lies there too, so that a recorded step sees it change
        groups = [{**group, "lr": torch.tensor(training.rate, device=model.device)} for group in groups]
    return (AdamAndOrthogonal if matrices else torch.optim.Adam)(
        groups,
        lr=training.rate,
        weight_decay=training.weight_decay,
        fused=on_gpu,
        capturable=on_gpu,
    )


def _matrices(model: LanguageModel, composing: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Those of what composes words. The vectors of characters are a table, and what starts at nothing has no size that
    a step could be measured by."""
    characters = {id(part.characters) for part in model.modules() if isinstance(part, CharacterCNN)}
    return [
        parameter
        for parameter in composing
        if parameter.ndim == 2 and min(parameter.shape) > 1 and id(parameter) not in characters and parameter.any()
    ]


def set_rate(optimiser: torch.optim.Adam, rate: float) -> None:
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["share"])
        else:
            group["lr"] = rate * group["share"]


class Schedule(Protocol):
    """The course of the learning rate, as a factor of the rate that was set."""

    follows_length: bool
    """Whether it depends on how long the whole training is."""

    def factor(self, done: float) -> float:
        """The factor when this share of the whole training is done."""
        ...

    def observe(self, gained: bool) -> None:
        """Told after each epoch whether the valid loss fell."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Plateau:
    """As published: multiply the rate by `decay` after `patience` epochs in a row without gain."""

    follows_length = False

    def __init__(self, patience: int, decay: float) -> None:
        self.patience, self.decay = patience, decay
        self.waited, self.current = 0, 1.0

    def factor(self, done: float) -> float:  # noqa: ARG002
        return self.current

    def observe(self, gained: bool) -> None:
        self.waited = 0 if gained else self.waited + 1
        if self.waited >= self.patience:
            self.waited = 0
            self.current *= self.decay

    def state(self) -> dict[str, Any]:
        return {"waited": self.waited, "current": self.current}

    def restore(self, state: dict[str, Any]) -> None:
        self.waited, self.current = state["waited"], state["current"]


class Cosine:
    """From the full rate to `final` of it along half a cosine wave."""

    follows_length = True

    def __init__(self, final: float) -> None:
        self.final = final

    def factor(self, done: float) -> float:
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * min(done, 1.0))) / 2

    def observe(self, gained: bool) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


def make_schedule(training: Training) -> Schedule:
    if training.schedule == "cosine":
        return Cosine(training.final_rate)
    return Plateau(training.patience, training.decay)


class AveragedWeights:
    """A running average of the weights, which often predicts better than the last ones."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = model
        self.steps = 0
        self.average = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))  # early weights are soon forgotten
        torch._foreach_lerp_(self.average, list(self.model.parameters()), 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's weights and the averages. Twice gives the first state back."""
        for parameter, average in zip(self.model.parameters(), self.average, strict=True):
            parameter.data, average.data = average.data, parameter.data

    def state(self) -> dict[str, Tensor]:
        return {str(i): tensor for i, tensor in enumerate(self.average)}

    def restore(self, state: dict[str, Tensor], steps: int) -> None:
        self.steps = steps
        for i, tensor in enumerate(self.average):
            tensor.copy_(state[str(i)])
