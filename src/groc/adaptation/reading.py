"""Several texts read side by side, and each scored in several ways at once, for little more than one text read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from groc.adaptation.online import Online, spreading
from groc.compute import full_float32
from groc.corpus import Text
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.nn.dropout import evaluating
from groc.scoring import UNROLL, Scores, checked_ids, scored_segment, spread, word_bands
from groc.vocabulary import Vocabulary

Ways = Mapping[str, Online]
"""What helps the model while it reads, by a name of its own."""


def score_texts(
    model: LanguageModel,
    texts: Sequence[Text],
    ways: Sequence[Ways],
    words: Vocabulary | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[tuple[LanguageModel, dict[str, Scores]]]:
    """For each text a copy of the model with its words, and the scores in each of its ways. Strict: one stream, the
    state carried from the first word to the last. The words are `words` (those of training) and the text's; new are
    those that the model was not trained on."""
    words = model.trained if words is None else counted(words, model.trained)
    model = model.copy()
    model.set_vocabulary(words)
    _ = model.embeddings  # composed once; each text adds its own words alone
    reader = model.copy()
    reader.set_vocabulary(words.union(word for text in texts for word in text.types))
    states = read_texts(reader, [text.ids(reader.vocabulary) for text in texts], progress)
    for text, some in zip(texts, ways, strict=True):
        scorer = model.copy()
        scorer.set_vocabulary(counted(words.union(text.types), model.trained))
        yield scorer, score_ways(scorer, text.ids(scorer.vocabulary), states.pop(0), some)


def counted(words: Vocabulary, trained: Vocabulary) -> Vocabulary:
    """These words, each as often seen as in the training of another vocabulary."""
    return Vocabulary(words.words, trained.counts_of(words.words))


@torch.inference_mode()
@full_float32()
def read_texts(
    model: LanguageModel, texts: Sequence[npt.ArrayLike], progress: Callable[[int], None] = lambda done: None
) -> list[Tensor]:
    """The states that predict the words of each text, of which each begins after an `<eos>`.

    A prefix network takes hardly longer for a word of every text than for one word. Memory: d numbers a word.
    `progress` is told how far the longest text is. Shape: [T] each -> [T, d] each
    """
    checked = [checked_ids(model, ids) for ids in texts]
    order = sorted(range(len(texts)), key=lambda number: -len(checked[number]))  # the first columns read longest
    lengths = [len(checked[number]) for number in order]
    longest = max(lengths, default=0)
    columns = np.full((longest, len(order)), model.vocabulary.end, np.int32)
    for column, number in enumerate(order):
        columns[1 : lengths[column], column] = checked[number][:-1]
    inputs = torch.from_numpy(columns).to(model.device)
    state, embeddings = model.prefix.start(len(order)), model.embeddings
    pieces: list[list[Tensor]] = [[] for _ in texts]
    with evaluating(model):
        for start in range(0, longest, UNROLL):
            going = sum(length > start for length in lengths)
            state = tuple((hidden[:, :going].contiguous(), cell[:, :going].contiguous()) for hidden, cell in state)
            prefixes, state = model.read(embeddings, inputs[start : start + UNROLL, :going].long(), state)
            for column in range(going):
                pieces[order[column]].append(prefixes.dropped[: lengths[column] - start, column])
            progress(min(start + UNROLL, longest))
    nothing = embeddings.rows(inputs.new_zeros(0, dtype=torch.int64))
    return [torch.cat([nothing, *some]) for some in pieces]


@torch.inference_mode()
@full_float32()
def score_ways(model: LanguageModel, ids: npt.ArrayLike, states: Tensor, ways: Ways) -> dict[str, Scores]:
    """What `Online.score` gives for each of the ways, from the states of the text. Shape: [T], [T, d]"""
    if any(way.dynamic is not None for way in ways.values()):
        raise GrocError("Dynamic evaluation changes a model's states: it cannot share them with other ways.")
    ids = checked_ids(model, ids)
    targets = torch.from_numpy(ids.astype(np.int64)).to(model.device)
    bands, embeddings = word_bands(model), model.embeddings
    readers = {name: way.reader(model) for name, way in ways.items()}
    shares = {name: way.spread_by(model) for name, way in ways.items()}
    found: dict[str, list[Tensor]] = {name: [states.new_zeros(0)] for name in ways}
    with evaluating(model), spreading(model, 0.0):
        places = min(UNROLL, bands.places)
        for start in range(0, len(ids), places):
            window = slice(start, start + places)
            segment = scored_segment(model, embeddings, states[window], targets[window], bands)
            for name, reader in readers.items():
                own = spread(segment, shares[name]) if model.mixes_uniform else segment
                found[name].append(own.log_prob if reader is None else reader(own))
    return {
        name: Scores(model.vocabulary, ids, torch.cat(pieces).double().cpu().numpy()) for name, pieces in found.items()
    }
