"""The one primitive: the log-probability of each word in its context. All that is reported is a reduction of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from groc.compute import full_float32
from groc.errors import GrocError
from groc.model import LanguageModel, evaluating
from groc.nn.prefix import State
from groc.vocabulary import Vocabulary

UNROLL = 256
"""Words read at once. It changes nothing but speed and memory."""
LOGITS = 2**24
"""At most so many numbers (prefixes times words) are held at once, however large the vocabulary is."""


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


@torch.inference_mode()
@full_float32()
def score(
    model: LanguageModel,
    ids: npt.ArrayLike,
    *,
    streams: int = 1,
    unroll: int = UNROLL,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Score every word of a text that begins after an `<eos>`.

    With one stream this is strict: the words are read in order and the state is carried from the first to the last.
    With more, the text is cut into that many pieces that are read side by side, each from a fresh state: faster, and
    slightly worse for the words at the seams. No word is dropped in either case.
    """
    ids = np.asarray(ids, np.int32)
    if not len(ids):
        return Scores(model.vocabulary, ids, np.zeros(0))
    if ids.min() < 0 or ids.max() >= len(model.vocabulary):
        raise GrocError("A word's id lies outside the vocabulary: take ids from model.vocabulary.index.")
    with evaluating(model):
        embeddings = model.embeddings
        length = -(-len(ids) // streams)  # rounded up: the last piece may be shorter
        padded = np.full(streams * length, model.vocabulary.end, np.int64)
        padded[: len(ids)] = ids
        targets = torch.from_numpy(padded).view(streams, length).T.contiguous().to(model.device)  # [length, streams]
        first = torch.cat([targets.new_tensor([model.vocabulary.end]), targets[-1, :-1]])
        inputs = torch.cat([first[None], targets[:-1]])
        state: State = model.prefix.start(streams)
        rows = max(LOGITS // len(model.vocabulary), 1)
        log_probs = []
        for start in range(0, length, unroll):
            window = slice(start, start + unroll)
            prefixes, state = model.read(embeddings, inputs[window], state)
            flat = prefixes.dropped.flatten(0, 1)
            wanted = targets[window].flatten()
            pieces = zip(torch.split(flat, rows), torch.split(wanted, rows), strict=True)
            log_probs.append(torch.cat([model.log_prob(embeddings, *piece) for piece in pieces]).view(-1, streams))
            progress(min((start + unroll) * streams, len(ids)))
        scored = torch.cat(log_probs).T.flatten()[: len(ids)]
        return Scores(model.vocabulary, ids, scored.double().cpu().numpy())
