"""Dynamic evaluation (Krause et al., 2018): a model that goes on learning from what it has just scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from groc.compute import full_float32
from groc.errors import GrocError
from groc.graphs import launcher
from groc.model import LanguageModel
from groc.nn.dropout import evaluating
from groc.nn.prefix import State, detach, overwrite
from groc.report import perplexity
from groc.scoring import Bands, Correction, Scores, Segment, checked_ids, scored_segment, spread, word_bands

STREAMS = 20
STEPS = 500
"""The size of gradients is measured on at most so many pieces of a training text, of so many streams each."""
RECENT = 50
"""How long gradients usually are is the mean over so many pieces."""
SMALLEST = 0.1
"""Added to the sizes of gradients, relative to their mean: what hardly ever has a gradient makes no huge step."""

Sizes = dict[str, Tensor]
"""For each parameter by name how large its gradients are, relative to the mean over all parameters."""


@dataclass(frozen=True)
class Dynamic:
    """How a model learns while it reads."""

    rate: float | None = None
    """How far a step goes along the gradient of the mean loss of the words just scored. None: a usual one."""
    decay: float | None = None
    """Which part of the way back to the trained weights each step goes. None: a usual one."""
    every: int = 20
    """Words between two steps."""
    prefix_only: bool = False
    """Whether words keep their vectors: much faster where they are composed."""

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 <= self.rate < math.inf:
            raise GrocError(f"The rate of dynamic evaluation is a number from 0 up, not {self.rate:g}.")
        if self.decay is not None and not 0 <= self.decay <= 1:
            raise GrocError(f"The decay towards the trained weights lies between 0 and 1, not at {self.decay:g}.")
        if self.every < 1:
            raise GrocError(f"Dynamic evaluation makes a step every 1 or more words, not every {self.every}.")

    def filled(self, measured: bool) -> Dynamic:
        """With usual values for what is not set; rates mean something else where gradients were measured."""
        rate = (1.0 if measured else 0.03) if self.rate is None else self.rate
        return replace(self, rate=rate, decay=0.003 if self.decay is None else self.decay)


@full_float32()
def score_dynamically(
    model: LanguageModel,
    ids: npt.ArrayLike,
    dynamic: Dynamic,
    *,
    sizes: Sizes | None = None,
    correction: Correction | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Score every word of a text in one stream; the words scored so far have changed the weights.

    With `sizes` (see `gradient_sizes`) parameters of small gradients take larger steps, and those of large gradients
    are drawn back faster. No step is longer than usual: where the text is strange, gradients are large, and long steps
    make the next ones larger still. It is a copy of the model that learns: the model itself is not touched.
    """
    ids = checked_ids(model, ids)
    if not len(ids):
        return Scores(model.vocabulary, ids, np.zeros(0))
    reader = _Reader(model, dynamic.filled(sizes is not None), sizes)
    text = torch.from_numpy(np.concatenate([[model.vocabulary.end], ids]).astype(np.int64)).to(model.device)
    log_probs, own = [], []
    for start in range(0, len(ids), dynamic.every):
        segment = reader.read(text[start : start + dynamic.every + 1])
        own.append(segment.log_prob)
        if model.mixes_uniform:
            segment = spread(segment, 1 - model.uniform)
        log_probs.append(correction(segment) if correction is not None else segment.log_prob)
        progress(min(start + dynamic.every, len(ids)))
    log_prob, plain = (torch.cat(some).double().cpu().numpy() for some in (log_probs, own))
    scored = plain[~np.isneginf(plain)]  # what a closed model cannot score is no fault of learning
    if len(scored) and not math.isfinite(perplexity(-scored.mean())):
        raise GrocError(f"Dynamic evaluation went astray at rate {reader.dynamic.rate:g}: choose a smaller one.")
    return Scores(model.vocabulary, ids, log_prob)


class _Reader:
    """Scores a text piece by piece and learns from each. What it works on lies at the same place for all of them, so
    that a GPU can record the work."""

    def __init__(self, model: LanguageModel, dynamic: Dynamic, sizes: Sizes | None) -> None:
        self.dynamic, self.sizes = dynamic, sizes
        self.learner = Learner(model, dynamic.prefix_only)
        self.trained, self.bands = dict(model.named_parameters()), word_bands(model)
        self.window = torch.zeros(dynamic.every + 1, 1, dtype=torch.int64, device=model.device)
        self.state = model.prefix.start(1)
        self.segments: dict[int, Segment] = {}
        """The last one of each length."""
        self.launch = launcher(recorded=True, device=model.device)

    def read(self, piece: Tensor) -> Segment:
        """Of the last word before a piece and its own words. Shape: [T + 1]"""
        words = len(piece) - 1
        self.window[: words + 1].copy_(piece[:, None])
        self.launch(words, lambda: self._work(words))
        segment = self.segments[words]
        copies: dict[str, Any] = {name: v.clone() for name, v in vars(segment).items() if isinstance(v, Tensor)}
        return replace(segment, **copies)

    def _work(self, words: int) -> None:
        inputs, targets = self.window[:words], self.window[1 : words + 1]
        self.segments[words], state = self.learner.learn(inputs, targets, self.state, self.bands)
        self.learner.step(self.dynamic, self.trained, self.sizes)
        overwrite(self.state, state)


@full_float32()
def gradient_sizes(
    model: LanguageModel,
    ids: npt.ArrayLike,
    dynamic: Dynamic,
    progress: Callable[[int], None] = lambda done: None,
) -> Sizes:
    """The root mean square of each parameter's gradients on a text of the kind that the model was trained on."""
    ids = checked_ids(model, ids)[: STREAMS * dynamic.every * STEPS + 1].astype(np.int64)
    streams = min(STREAMS, len(ids) - 1)
    if streams < 1:
        raise GrocError("To measure gradients a text of two words or more is needed.")
    length = (len(ids) - 1) // streams
    steps = -(-length // dynamic.every)
    text = torch.from_numpy(ids).to(model.device)
    inputs, targets = (text[first : first + streams * length].view(streams, length).T for first in (0, 1))
    learner = Learner(model, dynamic.prefix_only)
    squares = {name: torch.zeros_like(parameter) for name, parameter in learner.parameters.items()}
    state, bands = model.prefix.start(streams), word_bands(model)
    for number in range(steps):
        window = slice(number * dynamic.every, (number + 1) * dynamic.every)
        _, state = learner.learn(inputs[window], targets[window], state, bands)
        for name, gradient in learner.gradients():
            squares[name] += gradient.square()
        progress(min((number + 1) * dynamic.every * streams, len(ids)))
    roots = {name: square.div_(steps).sqrt_() for name, square in squares.items()}
    mean = torch.cat([root.flatten() for root in roots.values()]).mean()
    return {name: root / mean for name, root in roots.items()}


class Learner:
    """A copy of a model that learns in place of it."""

    def __init__(self, model: LanguageModel, prefix_only: bool) -> None:
        self.model = model.copy()
        self.model.uniform = 1.0  # even odds are the same whatever is learned: they are mixed in afterwards
        seen: dict[int, object] = {}  # modules that share a part go on sharing it
        for name in ("input", "prefix", "output"):
            setattr(self.model, name, deepcopy(getattr(model, name), seen))
        for module in _recurrent(self.model):
            module.flatten_parameters()  # a copy's weights lie scattered, which costs time on a GPU
        self.fixed = model.embeddings if prefix_only else None
        self.parameters: dict[str, nn.Parameter] = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if not prefix_only or name.startswith("prefix.")
        }
        self.usual = _UsualLength(model.device)

    def learn(self, inputs: Tensor, targets: Tensor, state: State, bands: Bands) -> tuple[Segment, State]:
        """Read and score a piece of a text, and take its gradients. Shape: [T, B], [T, B]"""
        model = self.model
        for parameter in self.parameters.values():
            parameter.grad = None
        with torch.enable_grad(), _differentiable(model):
            embeddings = model.embed() if self.fixed is None else self.fixed
            prefixes, state = model.read(embeddings, inputs, state)
            segment = scored_segment(model, embeddings, prefixes.dropped.flatten(0, 1), targets.flatten(), bands)
            # A word that a closed model has no row for teaches it nothing.
            losses = torch.where(segment.log_prob.isinf(), 0.0, -segment.log_prob)
            losses.mean().backward()  # type: ignore[no-untyped-call]
        detached: dict[str, Any] = {
            name: value.detach() for name, value in vars(segment).items() if isinstance(value, Tensor)
        }
        return replace(segment, **detached), detach(state)

    def gradients(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                yield name, parameter.grad

    @torch.no_grad()
    def step(self, dynamic: Dynamic, trained: dict[str, nn.Parameter], sizes: Sizes | None) -> None:
        """Move along the gradients, and some way back to the trained weights."""
        assert dynamic.rate is not None
        assert dynamic.decay is not None
        gradients = dict(self.gradients())
        if sizes is not None:
            gradients = {name: gradient / (sizes[name] + SMALLEST) for name, gradient in gradients.items()}
        rate = dynamic.rate * self.usual.shortened(list(gradients.values()))
        for name, gradient in gradients.items():
            parameter = self.parameters[name]
            back = dynamic.decay if sizes is None else (dynamic.decay * sizes[name]).clamp(max=1.0)
            parameter.add_(back * (trained[name] - parameter) - rate * gradient)


class _UsualLength:
    """How long gradients are: the geometric mean over the last pieces, at its largest so far.

    Where a text is strange gradients are large, and long steps make the next ones larger still; one huge gradient moves
    a geometric mean little. The largest, since an easy passage must not keep the model from learning of the next one.
    """

    def __init__(self, device: torch.device) -> None:
        self.pieces, self.log_mean = torch.zeros((), device=device), torch.zeros((), device=device)
        self.log_usual = torch.full((), -math.inf, device=device)

    def shortened(self, gradients: list[Tensor]) -> Tensor:
        """What these are to be multiplied with, so that they are no longer than usual."""
        length = nn.utils.get_total_norm(gradients)
        some = length > 0  # words without rows teach nothing, and say nothing of what is usual
        self.pieces += some
        change = (length.log() - self.log_mean) / self.pieces.clamp(1, RECENT)
        self.log_mean += torch.where(some, change, 0.0)
        self.log_usual.copy_(torch.where(some, torch.maximum(self.log_usual, self.log_mean), self.log_usual))
        return torch.where(some, (self.log_usual.exp() / length).clamp(max=1.0), 1.0)


@contextmanager
def _differentiable(model: LanguageModel) -> Iterator[None]:
    """Without dropout, but with the LSTMs in training mode, in which alone a GPU gives their gradients."""
    with evaluating(model):
        for module in _recurrent(model):
            module.train()
        try:
            yield
        finally:
            for module in _recurrent(model):
                module.eval()


def _recurrent(model: LanguageModel) -> list[nn.LSTM]:
    return [module for module in model.modules() if isinstance(module, nn.LSTM)]
