"""Which caches are good is tuned on a text of its own: the model reads it once, and a grid is tried on what it said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from groc.adaptation.caches import NewWords, Weights
from groc.adaptation.caches.correction import ANGLE, SHARES
from groc.adaptation.dynamic import Dynamic, Sizes
from groc.adaptation.online import LEARNED, USUAL_SHARPNESS, CacheSettings, Online, Share, spreading
from groc.compute import full_float32
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.progress import Progress
from groc.report import perplexity
from groc.scoring import Correction, Segment, spread, word_bands

NEW = "new words"
"""What tables call the choice of what new words get."""
ROUNDS = 10
"""Through all places, at most."""


@dataclass(frozen=True)
class Grids:
    """The values that are tried where none is given."""

    shares: tuple[float, ...] = SHARES
    angle_thetas: tuple[float, ...] = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0)
    local_thetas: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    """Of the published local cache. The states of some models are small: they need a large one."""
    kernel_thetas: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0)
    """Of the published unbounded cache."""
    log_odds: tuple[float, ...] = (-6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0)
    """Of a cache that joins the softmax against the model's words, in the mean: what alpha is then depends on both."""
    novelty: tuple[float, ...] = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
    sharpness: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
    uniform: tuple[float, ...] = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3)
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    measured_rates: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    """Of dynamic evaluation where the sizes of gradients were measured."""
    decays: tuple[float, ...] = (0.0, 0.001, 0.003, 0.01)


Row = dict[str, Any]
"""Settings, and the loss and perplexity that they gave."""


@dataclass(frozen=True)
class Tuned:
    """The best settings, and what all others gave."""

    online: Online
    tables: dict[str, list[Row]]
    """For dynamic, new words, and each cache by its place and kind (`1 local`): a row for each setting tried,
    all else at its best."""


@dataclass(frozen=True)
class _Choice:
    """One setting that may be taken at one place."""

    values: Row
    settings: Any
    apply: Callable[[Tensor], Tensor]
    """From log-probabilities to log-probabilities. Shape: [N] -> [N]"""


def tune(
    model: LanguageModel,
    ids: npt.ArrayLike,
    online: Online,
    *,
    sizes: Sizes | None = None,
    grids: Grids | None = None,
    quiet: bool = False,
) -> Tuned:
    """Find good values for all that is None in `online`, on a text with the ids of the model's vocabulary.

    Dynamic evaluation is tuned first, a pass over the text for each setting. Then one pass keeps the states of all
    words (4 d bytes each, on the model's device), and all else is tuned on them together.
    """
    if not len(np.asarray(ids)):
        raise GrocError("A text without words is nothing to tune on: give one that has some.")
    grids = grids or Grids()
    if model.vocabulary.counts[np.asarray(ids)].all():  # no word is new: nothing tells what such words should get
        grids = replace(grids, novelty=(), sharpness=(USUAL_SHARPNESS,), uniform=(1 - model.uniform,))
    tables: dict[str, list[Row]] = {}
    if online.dynamic is not None and None in (online.dynamic.rate, online.dynamic.decay):
        best, tables["dynamic"] = _tune_dynamic(model, ids, online, sizes, grids, quiet)
        online = replace(online, dynamic=best)
    segments = _recorded(model, ids, online, sizes, grids, quiet)
    with torch.inference_mode(), full_float32():
        whole = _whole(segments)
        stages = _stages(model, online, grids, segments, whole, quiet)
        taken, rows = _best(whole.log_prob, list(stages.values()), quiet)
    tables |= dict(zip(stages, rows, strict=True))
    base = taken[0].settings if NEW in stages else {}
    caches = tuple(choice.settings for choice in taken if isinstance(choice.settings, CacheSettings))
    return Tuned(replace(online, **base, caches=caches), {name: rows for name, rows in tables.items() if len(rows) > 1})


def at_edges(tables: Mapping[str, Sequence[Row]]) -> list[str]:
    """Which of the best values are the smallest or largest of those that were tried, though others are possible."""
    found = []
    for name, rows in tables.items():
        best = min(rows, key=lambda row: float(row["loss"]))
        for key in best.keys() - {"loss", "perplexity"}:
            tried = {row[key] for row in rows if isinstance(row.get(key), float)}
            last = len(tried) > 1 and best[key] in (min(tried), max(tried))
            if last and best[key] != 0 and (key, best[key]) != ("sharpness", 1.0):
                called = {"novelty": "weight"}.get(key, key)  # by the command line
                found.append(f"{called} of {name.lstrip('0123456789 ')} ({best[key]:g})")
    return sorted(found)


def _tune_dynamic(
    model: LanguageModel, ids: npt.ArrayLike, online: Online, sizes: Sizes | None, grids: Grids, quiet: bool
) -> tuple[Dynamic, list[Row]]:
    given = online.dynamic
    assert given is not None
    rates = grids.rates if sizes is None else grids.measured_rates
    tried = [
        replace(given, rate=rate, decay=decay)
        for rate, decay in product(_open(given.rate, rates), _open(given.decay, grids.decays))
    ]
    rows: list[Row] = []
    progress = Progress("tuning dynamic evaluation", len(tried), shown=not quiet)
    for number, dynamic in enumerate(tried):
        try:
            loss = -float(replace(online, dynamic=dynamic).read(model, ids, online.weighing(), sizes).log_prob.mean())
        except GrocError:  # it went astray
            loss = float("inf")
        rows.append({"rate": dynamic.rate, "decay": dynamic.decay, "loss": loss, "perplexity": perplexity(loss)})
        progress(number + 1)
    progress.close()
    best = min(zip(tried, rows, strict=True), key=lambda pair: float(pair[1]["loss"]))[0]
    return best, rows


@dataclass(frozen=True)
class _TriedAmongNew:
    """Words among all new words, at each sharpness that is tried: the scores of all new words would not fit."""

    log_probs: dict[float, Tensor]

    def log_prob(self, sharpness: float) -> Tensor:
        return self.log_probs[sharpness]


def _recorded(
    model: LanguageModel, ids: npt.ArrayLike, online: Online, sizes: Sizes | None, grids: Grids, quiet: bool
) -> list[Segment]:
    """What the model says of the text, in the pieces in which it was read."""
    segments: list[Segment] = []

    degrees = _degrees(model, online, grids)

    def keep(segment: Segment) -> Tensor:
        among_new = _TriedAmongNew({degree: segment.among_new.log_prob(degree) for degree in degrees})
        segments.append(replace(segment, among_new=among_new))
        return segment.log_prob

    ids = np.asarray(ids)
    progress = Progress("reading the text to tune on", len(ids), shown=not quiet)
    with spreading(model, 0.0):  # what new words get is applied later; until then a closed model gives them nothing
        replace(online, uniform=None, novelty=None).read(model, ids, keep, sizes, progress)
    progress.close()
    return segments


def _chooses_for_new_words(model: LanguageModel, online: Online) -> bool:
    """Whether there are new words for which there is a choice. An open model has no even odds to give them."""
    return bool(len(word_bands(model).new)) and (model.mixes_uniform or (model.is_open and online.uniform is None))


def _whole(segments: Sequence[Segment]) -> Segment:
    """All segments as one, without the states."""
    names = ("targets", "log_prob", "log_normaliser", "log_seen", "log_rarest", "is_new")
    columns: dict[str, Any] = {name: torch.cat([getattr(segment, name) for segment in segments]) for name in names}
    first = segments[0].among_new
    assert isinstance(first, _TriedAmongNew)
    among_new = _TriedAmongNew(
        {degree: torch.cat([segment.among_new.log_prob(degree) for segment in segments]) for degree in first.log_probs}
    )
    return replace(segments[0], prefixes=segments[0].prefixes[:0], among_new=among_new, **columns)


def _stages(
    model: LanguageModel, online: Online, grids: Grids, segments: Sequence[Segment], whole: Segment, quiet: bool
) -> dict[str, list[_Choice]]:
    """The choices at each place, in the order in which they are applied."""
    stages: dict[str, list[_Choice]] = {}
    if _chooses_for_new_words(model, online):
        stages[NEW] = list(_new_word_choices(model, online, grids, whole))
    for number, cache in enumerate(online.caches, 1):
        stages[f"{number} {cache.kind}"] = list(_cache_choices(cache, grids, segments, whole, quiet))
    return stages


def _new_word_choices(model: LanguageModel, online: Online, grids: Grids, whole: Segment) -> Iterator[_Choice]:
    """What new words get: what an open model gives them, a weight, or of a closed model a share of even odds."""
    if model.is_open and online.novelty is None:
        nothing = {"novelty": None, "sharpness": None}
        yield _Choice(dict(nothing), nothing, lambda log_prob: log_prob)
    if online.uniform is None:
        for novelty, sharpness in product(_open(online.novelty, grids.novelty), _degrees(model, online, grids)):
            settings = {"novelty": novelty, "sharpness": sharpness}
            values = settings if model.is_open else {"novelty": novelty}
            yield _Choice(values, settings, _on(whole, NewWords(novelty, sharpness)))
    if model.mixes_uniform and online.novelty is None:
        for share in _open(online.uniform, grids.uniform):
            yield _Choice({"uniform": share}, {"uniform": share}, _on(whole, partial(_evenly, share=share)))


def _degrees(model: LanguageModel, online: Online, grids: Grids) -> Sequence[float]:
    """The sharpnesses that are tried. What a closed model says of new words is the same of all: nothing to sharpen."""
    return [0.0] if model.mixes_uniform else _open(online.sharpness, grids.sharpness)


def _evenly(segment: Segment, share: float) -> Tensor:
    return spread(segment, share).log_prob


def _cache_choices(
    given: CacheSettings, grids: Grids, segments: Sequence[Segment], whole: Segment, quiet: bool
) -> Iterator[_Choice]:
    filled = replace(given, alpha=0.0).filled()
    published = {"unigram": (0.0,), "local": grids.local_thetas, "unbounded": grids.kernel_thetas}[given.kind]
    thetas = _open(given.theta, grids.angle_thetas if filled.likeness == ANGLE else published)
    cache = filled.build().cache
    read: list[list[Weights]] = []  # for each segment, for each theta
    progress = Progress(f"tuning the {given.kind} cache", len(segments), shown=not quiet)
    for segment in segments:
        read.append(cache.read_with(segment, thetas))
        progress(len(read))
    progress.close()
    for theta, pieces in zip(thetas, zip(*read, strict=True), strict=True):
        weights = Weights(*(torch.cat(column) for column in zip(*pieces, strict=True)))
        tried = {} if given.kind == "unigram" else {"theta": theta}
        for settings in _strengths(replace(given, theta=tried.get("theta")), grids, whole, weights):
            name, value = ("alpha", settings.alpha) if settings.joined else ("lambda", settings.share)
            apply = _on(whole, partial(_mixed, settings=settings, weights=weights))
            yield _Choice({name: value} | tried, settings, apply)


def _mixed(segment: Segment, settings: CacheSettings, weights: Weights) -> Tensor:
    """By a fresh one each time: a share that is learned begins anew with the text."""
    return settings.build().mix(segment, weights)


def _strengths(given: CacheSettings, grids: Grids, whole: Segment, weights: Weights) -> list[CacheSettings]:
    """The cache with each of the shares, or alphas, that are tried."""
    if not given.joined:
        shares: list[Share] = [*grids.shares, LEARNED] if given.share is None else [given.share]
        return [replace(given, share=share) for share in shares]
    odds = whole.log_normaliser - weights.total
    even = float(odds[odds.isfinite()].mean()) if len(odds) > 1 else 0.0
    return [
        replace(given, alpha=alpha) for alpha in _open(given.alpha, [round(even + some, 2) for some in grids.log_odds])
    ]


def _on(whole: Segment, correct: Correction) -> Callable[[Tensor], Tensor]:
    return lambda log_prob: correct(replace(whole, log_prob=log_prob))


def _best(
    log_prob: Tensor, stages: Sequence[Sequence[_Choice]], quiet: bool
) -> tuple[Sequence[_Choice], list[list[Row]]]:
    """The best choice at each place, and what all others gave.

    From each choice at the first place on, go from place to place until no choice changes. So with one place or two
    nothing better is left untried.
    """
    if not stages:
        return [], []
    progress = Progress("tuning", len(stages[0]), shown=not quiet)
    losses = _Losses(log_prob, stages)
    ends = []
    for first in range(len(stages[0])):
        ends.append(_descended(losses, first))
        progress(len(ends))
    progress.close()
    taken = min(ends, key=lambda end: min(losses(end, 0)))
    rows = [
        [
            choice.values | {"loss": loss, "perplexity": perplexity(loss)}
            for choice, loss in zip(stage, losses(taken, place), strict=True)
        ]
        for place, stage in enumerate(stages)
    ]
    return [stage[number] for stage, number in zip(stages, taken, strict=True)], rows


class _Losses:
    """Of all choices at a place, with what is taken at the others; tried once each."""

    def __init__(self, log_prob: Tensor, stages: Sequence[Sequence[_Choice]]) -> None:
        self.log_prob, self.stages = log_prob, stages
        self.tried: dict[tuple[int, ...], list[float]] = {}

    def __call__(self, taken: tuple[int, ...], place: int) -> list[float]:
        key = (*taken[:place], -1, *taken[place + 1 :])
        if key not in self.tried:
            chosen = [stage[number] for stage, number in zip(self.stages, taken, strict=True)]
            start = _applied(self.log_prob, chosen[:place])
            self.tried[key] = [
                -float(_applied(choice.apply(start), chosen[place + 1 :]).double().mean())
                for choice in self.stages[place]
            ]
        return self.tried[key]


def _descended(losses: _Losses, first: int) -> tuple[int, ...]:
    """Which choice is taken at each place in the end, from this one at the first on."""
    taken = (first, *[0] * (len(losses.stages) - 1))
    for _ in range(ROUNDS):
        before = taken
        for place in reversed(range(len(taken))):
            found = losses(taken, place)
            taken = (*taken[:place], found.index(min(found)), *taken[place + 1 :])
        if taken == before:
            break
    return taken


def _applied(log_prob: Tensor, choices: Sequence[_Choice]) -> Tensor:
    for choice in choices:
        log_prob = choice.apply(log_prob)
    return log_prob


def _open(given: float | None, grid: Sequence[float]) -> Sequence[float]:
    """What is given, or else all that may be tried."""
    return grid if given is None else [given]
