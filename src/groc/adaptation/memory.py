"""Word memory: a new word's composed output vector is blended with what the contexts say in which it stood before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from groc.errors import GrocError
from groc.model import LanguageModel
from groc.nn.softmax import Mixture
from groc.report import table
from groc.scoring import LOGITS, Correction, ScoredAmongNew, Scores, Segment, word_bands

OCCURRENCES = (0, 1, 2, 5, 10)
"""Numbers of earlier occurrences where a row of the report begins."""


class WordMemory:
    """For one text: corrects the scores of its new words, those never seen in training, after they were read.

    What is remembered of an occurrence is the direction of the prefix state that preceded it, off the mean of all
    states so far. Behind n occurrences, the word's output vector e becomes

        (1 - w) e + w * scale * |e| * (mean of the n directions),    w = n / (n + patience)

    Nothing but earlier words of the text goes in, nothing is trained, and no other word's vector changes. Memory: a
    state for each new word of the vocabulary. It is a correction for `score`; another one may follow (`then`), which is
    shown the probabilities that the memory makes.
    """

    def __init__(
        self, model: LanguageModel, scale: float = 0.5, patience: float = 1.0, then: Correction | None = None
    ) -> None:
        if not model.is_open:
            raise GrocError("A closed model has no vectors of new words to blend: use a cache.")
        if isinstance(model.prefix.softmax, Mixture):
            raise GrocError("A word of a mixture of softmaxes has no one vector to blend: use a cache.")
        if not 0 <= scale < math.inf or not patience > 0:
            raise GrocError(
                f"The memory's scale is 0 or more and its patience above 0, not {scale:g} and {patience:g}."
            )
        self.scale, self.patience, self.then = scale, patience, then
        new, embeddings = word_bands(model).new, model.embeddings
        self.new, self.embeddings = new, embeddings
        self.vectors = embeddings.output_rows(new)  # [A, d] for the A new words
        self.bias = embeddings.logits(torch.zeros_like(self.vectors[:1]))[0, new] if len(new) else self.vectors[:, 0]
        self.slot = new.new_full((len(model.vocabulary),), len(new)).index_copy_(0, new, torch.arange(len(new)).to(new))
        """Each word's row among the new ones; behind the last for all others."""
        self.directions = torch.zeros_like(self.vectors)
        """The sum of each word's directions."""
        self.counts = torch.zeros_like(self.bias)
        self.states = torch.zeros_like(self.vectors.sum(0))
        """The sum of all states."""
        self.read_so_far = 0

    def __call__(self, segment: Segment) -> Tensor:
        segment = self.read(segment)
        return segment.log_prob if self.then is None else self.then(segment)

    def read(self, segment: Segment) -> Segment:
        """The segment with the probabilities that the memory makes; then it is remembered."""
        rows = max(LOGITS // (len(self.vectors) + 1), 1)
        columns = [
            self._read(*piece)
            for piece in zip(
                *(torch.split(part, rows) for part in (segment.targets, segment.prefixes, segment.log_normaliser)),
                strict=True,
            )
        ]
        change, growth, changed = (torch.cat(column).to(segment.log_prob) for column in zip(*columns, strict=True))
        slots = self.slot[segment.targets].clamp(max=max(len(self.vectors) - 1, 0))
        return replace(
            segment,
            log_prob=segment.log_prob + (change - growth),
            log_normaliser=segment.log_normaliser + growth,
            log_seen=segment.log_seen - growth,
            log_rarest=segment.log_rarest - growth,
            among_new=ScoredAmongNew(changed, slots),
        )

    def _read(self, targets: Tensor, states: Tensor, log_normaliser: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is added to each target's logit and to the log of the normaliser, and scores of all new words.

        Shape: [T], [T, d], [T] -> [T], [T], [T, A], in double precision: the sums are over changes of either sign.
        """
        length, words = len(targets), len(self.vectors)
        slots = self.slot[targets][:, None]
        places = torch.arange(1, length + 1, device=states.device) + self.read_so_far
        directions = F.normalize(states - (self.states + states.cumsum(0)) / places[:, None], dim=-1)
        which = states.new_zeros(length, words + 1).scatter_(1, slots, 1.0)[:, :words]  # [T, A]
        # What stands before each word in this very piece counts, too.
        before = states.new_ones(length, length).tril(-1)
        counts = self.counts + before @ which
        likeness = states @ self.directions.T + (before * (states @ directions.T)) @ which
        weight = counts / (counts + self.patience)
        own = states @ self.vectors.T
        remembered = self.scale * self.vectors.norm(dim=1) * likeness / counts.clamp(min=1)
        change = (weight * (remembered - own)).double()  # [T, A]
        log_probs = (own + self.bias).double() - log_normaliser[:, None]
        changed = log_probs + change
        growth = torch.logaddexp(self._log_others(states, log_probs, log_normaliser), changed.logsumexp(1))
        self.directions += which.T @ directions
        self.counts += which.sum(0)
        self.states += states.sum(0)
        self.read_so_far += length
        return F.pad(change, (0, 1)).gather(1, slots)[:, 0], growth, changed

    def _log_others(self, states: Tensor, log_probs: Tensor, log_normaliser: Tensor) -> Tensor:
        """log p of all words that are not new together. Shape: [T, d], [T, A], [T] -> [T]"""
        others = 1 - log_probs.exp().sum(1)
        few = others < 0.5  # where so much is taken from one, rounding would be too large a part of what is left
        log_others = others.clamp(min=0.5).log()
        if few.any():
            rows = max(LOGITS // len(self.slot), 1)
            sums = [
                self.embeddings.logits(some).double().index_fill_(1, self.new, -math.inf).logsumexp(1)
                for some in torch.split(states[few], rows)
            ]
            log_others[few] = torch.cat(sums) - log_normaliser[few].double()
        return log_others


def by_occurrence(scores: Scores, begins: Sequence[int] = OCCURRENCES) -> list[dict[str, Any]]:
    """The loss on new words by how often the text had them before: 0 times, once, ... (`to` is None: or more often)."""
    new = scores.counts == 0
    before = occurrences_before(scores.ids)
    rows = []
    for start, after in zip(begins, [*begins[1:], None], strict=True):
        inside = new & (before >= start) & (before < (np.inf if after is None else after))
        rows.append(
            {
                "from": start,
                "to": None if after is None else after - 1,
                "tokens": int(inside.sum()),
                "loss": -float(scores.log_prob[inside].mean()) if inside.any() else None,
            }
        )
    return rows


def occurrences_before(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """How often each word of a text stands in it before."""
    order = np.argsort(ids, kind="stable")  # word by word, each word's places in their order
    ordered = ids[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    before = np.empty(len(ids), np.int64)
    before[order] = np.arange(len(ids)) - np.repeat(starts, np.diff(starts, append=len(ids)))
    return before


def describe(rows: Sequence[dict[str, Any]]) -> str:
    """The same for a person."""

    def name(row: dict[str, Any]) -> str:
        if row["to"] is None:
            return f"{row['from']} or more"
        return str(row["from"]) if row["to"] == row["from"] else f"{row['from']}-{row['to']}"

    cells = [[name(row), f"{row['tokens']:,}", "-" if row["loss"] is None else f"{row['loss']:.2f}"] for row in rows]
    return table(["new words, read before", "tokens", "loss (nats)"], cells)
