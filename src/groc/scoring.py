"""The one primitive: the log-probability of each word in its context. All that is reported is a reduction of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from groc.compute import full_float32
from groc.errors import GrocError
from groc.graphs import launcher
from groc.model import LanguageModel
from groc.nn import softmax
from groc.nn.dropout import evaluating
from groc.nn.embeddings import WordVectors
from groc.nn.prefix import State, overwrite
from groc.vocabulary import Vocabulary

UNROLL = 256
"""Words read at once. It changes nothing but speed and memory."""
LOGITS = 2**24
"""At most so many numbers (prefixes times words) are held at once, however large the vocabulary is."""
RAREST = 0.01
"""The rarest words of training are those that were seen least often: as many levels of counts as make up this part of
its text."""


@dataclass(frozen=True)
class Scores:
    """One row a word of a text: which word, and the natural logarithm of its probability."""

    vocabulary: Vocabulary
    ids: npt.NDArray[np.int32]
    log_prob: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def words(self) -> list[str]:
        return [self.vocabulary.words[i] for i in self.ids]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often each word was seen in training."""
        counts: npt.NDArray[np.int64] = self.vocabulary.counts[self.ids]
        return counts

    @property
    def surprisal(self) -> npt.NDArray[np.float64]:
        """In bits."""
        bits: npt.NDArray[np.float64] = -self.log_prob / np.log(2)
        return bits


class AmongNew(Protocol):
    """Words of a text among all new words, where they are new themselves."""

    def log_prob(self, sharpness: float) -> Tensor:
        """By the model's scores times the sharpness: 0 is even odds, 1 the scores as they are. Shape: [T]"""
        ...


@dataclass(frozen=True)
class ScoredAmongNew:
    """By the scores of all new words."""

    scores: Tensor
    """All the same in a closed model, which knows nothing of new words. Shape: [T, A]"""
    slots: Tensor
    """Which of the new words each word is; anything where it is none of them. Shape: [T]"""

    def log_prob(self, sharpness: float) -> Tensor:
        if not self.scores.shape[1]:
            return self.scores.new_zeros(len(self.scores))
        scores = sharpness * self.scores
        return scores.gather(1, self.slots[:, None])[:, 0] - scores.logsumexp(1)


@dataclass(frozen=True)
class Segment:
    """Words of a text that follow each other, T of them, as a model scored them: what a cache is shown."""

    targets: Tensor
    """Which words they are. Shape: [T]"""
    prefixes: Tensor
    """What predicted them. Shape: [T, d]"""
    log_prob: Tensor
    """Shape: [T]"""
    log_normaliser: Tensor
    """log of the sum over all words of exp(score), before even odds are mixed in. Shape: [T]"""
    log_seen: Tensor
    """log of the probability of all words seen in training, taken together. Shape: [T]"""
    log_rarest: Tensor
    """The same of the rarest of them. Shape: [T]"""
    is_new: Tensor
    """Whether the word was never seen in training. Shape: [T]"""
    among_new: AmongNew
    """How probable the word is among all such words."""
    words: int
    """The size of the vocabulary."""
    new: int
    """How many of them are new."""
    rarest: int
    """How many of them are the rarest."""

    def __len__(self) -> int:
        return len(self.targets)


Correction = Callable[[Segment], Tensor]
"""Is shown the segments of a text one after the other, and gives better log-probabilities (see `adaptation.caches`)."""


@torch.inference_mode()
@full_float32()
def score(
    model: LanguageModel,
    ids: npt.ArrayLike,
    *,
    streams: int = 1,
    unroll: int = UNROLL,
    correction: Correction | None = None,
    progress: Callable[[int], None] = lambda done: None,
    recorded: bool = True,
) -> Scores:
    """Score every word of a text that begins after an `<eos>`.

    With one stream this is strict: the words are read in order and the state is carried from the first to the last.
    With more, the text is cut into that many pieces that are read side by side, each from a fresh state: faster, and
    slightly worse for the words at the seams. No word is dropped in either case.

    A `correction` is shown each piece of the text once, in order, and its scores are taken in place of the model's. A
    cache in it remembers the text: shown the same text again, it would know what comes.

    On a GPU what is done with a window is `recorded` and replayed as one launch, unless that is not wanted.
    """
    if correction is not None and streams > 1:
        raise GrocError("A cache reads a text from its first word to its last: score with one stream.")
    if correction is not None and not callable(correction):
        raise GrocError(
            "A correction says how much a cache counts: wrap the cache, as Learned(cache) or Interpolated(cache, "
            "share) of groc.adaptation.caches."
        )
    ids = checked_ids(model, ids)
    if not len(ids):
        return Scores(model.vocabulary, ids, np.zeros(0))
    bands = word_bands(model)
    if correction is not None:
        unroll = min(unroll, bands.places)
    with evaluating(model):
        embeddings = model.embeddings
        length = -(-len(ids) // streams)  # rounded up: the last piece may be shorter
        padded = np.full(streams * length, model.vocabulary.end, np.int64)
        padded[: len(ids)] = ids
        targets = torch.from_numpy(padded).view(streams, length).T.contiguous().to(model.device)  # [length, streams]
        first = torch.cat([targets.new_tensor([model.vocabulary.end]), targets[-1, :-1]])
        inputs = torch.cat([first[None], targets[:-1]])
        state: State = model.prefix.start(streams)
        rows = max(LOGITS // (len(model.vocabulary) * model.prefix.softmax.at_once), 1)
        # What a window reads and writes stays in its place, so that it can be recorded and replayed (see `graphs`).
        words, wanted = inputs[:unroll].clone(), targets[:unroll].clone()
        scored = torch.empty(wanted.shape, dtype=torch.float64, device=model.device)
        launch = launcher(recorded and correction is None, model.device)

        def score_window(size: int) -> None:
            prefixes, behind = model.read(embeddings, words[:size], state)
            flat, chosen = prefixes.dropped.flatten(0, 1), wanted[:size].flatten()
            if correction is not None:
                found = correction(scored_segment(model, embeddings, flat, chosen.clone(), bands))  # caches keep them
            else:
                pieces = zip(torch.split(flat, rows), torch.split(chosen, rows), strict=True)
                found = torch.cat([model.log_prob(embeddings, *piece) for piece in pieces])
            scored[:size] = found.view(size, streams)
            overwrite(state, behind)

        log_probs = []
        for start in range(0, length, unroll):
            size = min(unroll, length - start)
            words[:size], wanted[:size] = inputs[start : start + size], targets[start : start + size]
            launch(size, partial(score_window, size))
            log_probs.append(scored[:size].clone())
            progress(min((start + unroll) * streams, len(ids)))
        log_prob = torch.cat(log_probs).T.flatten()[: len(ids)]
        return Scores(model.vocabulary, ids, log_prob.cpu().numpy())


def in_bits(log_prob: float) -> float:
    """A surprisal; 0 for a certain word, where minus zero would be printed, and NaN if a broken model gives that."""
    return max(-log_prob / math.log(2), 0.0) + 0.0


def checked_ids(model: LanguageModel, ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """A text as the array that scoring takes, if all its words are in the vocabulary."""
    given = np.asarray(ids)
    if not len(given):
        return np.zeros(0, np.int32)
    if given.dtype.kind not in "iu":
        raise GrocError("The ids of words are whole numbers: take them from model.vocabulary.index.")
    if given.min() < 0 or given.max() >= len(model.vocabulary):
        raise GrocError("A word's id lies outside the vocabulary: take ids from model.vocabulary.index.")
    return given.astype(np.int32, copy=False)


class Bands(NamedTuple):
    """Words whose probability is wanted as a whole, by their ids."""

    new: Tensor
    """Never seen in training."""
    rarest: Tensor
    """Seen least often, but seen."""

    @property
    def places(self) -> int:
        """How many a segment has at most: at each of them it holds the scores of all new words."""
        return max(LOGITS // max(len(self.new), 1), 1)


def word_bands(model: LanguageModel) -> Bands:
    """The new words of the model's vocabulary, and those of its words that are the rarest of training; if none of these
    is there, its own rarest. Where no word is new there is nothing to weigh by the rarest: none."""
    counts = model.vocabulary.counts
    seen = counts > 0
    most = 0
    if seen.any() and not seen.all():
        most = max(_most_of_rarest(model.trained.counts), int(counts[seen].min()))
    bands = (~seen, seen & (counts <= most))
    return Bands(*(torch.from_numpy(np.flatnonzero(band)).to(model.device) for band in bands))


def _most_of_rarest(counts: npt.NDArray[np.int64]) -> int:
    """How often the most frequent of the rarest words was seen; 0 if none was."""
    words = np.bincount(counts[counts > 0])
    enough = np.cumsum(np.arange(len(words)) * words) >= RAREST * counts.sum()
    return int(enough.argmax()) if len(words) else 0


def scored_segment(
    model: LanguageModel, embeddings: WordVectors, prefixes: Tensor, targets: Tensor, bands: Bands
) -> Segment:
    """Targets behind their prefixes, with what else a cache may want to know. Shape: [T, d], [T]"""
    words = len(model.vocabulary)
    rows = max(LOGITS // words, 1)
    columns, of_new = [], []
    for some, wanted in zip(torch.split(prefixes, rows), torch.split(targets, rows), strict=True):
        scores = model.prefix.softmax.scores(some, embeddings)
        normaliser = scores.logsumexp(1)
        chosen = scores.gather(1, wanted[:, None])[:, 0]
        fixed = scores.detach()  # a gradient is wanted of the chosen alone
        seen = fixed.index_fill(1, bands.new, -math.inf).logsumexp(1) if len(bands.new) else normaliser.detach()
        rarest = fixed[:, bands.rarest].logsumexp(1)
        columns.append(torch.stack([chosen - normaliser, normaliser, seen - normaliser, rarest - normaliser]))
        of_new.append(fixed[:, bands.new] if model.is_open else fixed.new_zeros(len(some), len(bands.new)))
    log_prob, log_normaliser, log_seen, log_rarest = torch.cat(columns, 1)
    is_new = targets.new_zeros(words, dtype=torch.bool).index_fill_(0, bands.new, True)[targets]
    slots = torch.searchsorted(bands.new, targets.contiguous()).clamp(max=max(len(bands.new) - 1, 0))
    among_new = ScoredAmongNew(torch.cat(of_new), slots)
    sums = log_normaliser, log_seen, log_rarest
    sizes = words, len(bands.new), len(bands.rarest)
    segment = Segment(targets, prefixes, log_prob, *sums, is_new, among_new, *sizes)
    return spread(segment, 1 - model.uniform) if model.mixes_uniform and model.uniform < 1 else segment


def spread(segment: Segment, share: float) -> Segment:
    """The segment with a share of even odds among all words mixed in."""

    def mixed(log_prob: Tensor, words: int) -> Tensor:
        """Of so many words together."""
        if not words:
            return log_prob
        return softmax.with_uniform(log_prob - math.log(words), 1 - share, segment.words) + math.log(words)

    return replace(
        segment,
        log_prob=mixed(segment.log_prob, 1),
        log_seen=mixed(segment.log_seen, segment.words - segment.new),
        log_rarest=mixed(segment.log_rarest, segment.rarest),
    )
