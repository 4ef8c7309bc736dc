"""What a model has read so far, and what it expects next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from groc.compute import full_float32
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.nn.dropout import evaluating
from groc.nn.prefix import State
from groc.scoring import UNROLL
from groc.text import check_text, straightened, token_lines
from groc.vocabulary import END, UNKNOWN


@dataclass(frozen=True)
class Context:
    """A model behind some words. Immutable: to read on gives another context."""

    model: LanguageModel
    """With all words of the text in its list."""
    prefix: Tensor
    """What predicts the next word, [1, d]."""
    state: State

    @classmethod
    def behind(cls, model: LanguageModel, ids: Sequence[int]) -> Context:
        """Behind the first words of a text, which begins after an `<eos>`."""
        state = model.prefix.start(1)
        return cls(model, state[-1][0][0], state).then([model.vocabulary.end, *ids])

    @torch.inference_mode()
    @full_float32()
    def then(self, ids: Sequence[int]) -> Context:
        """Behind these words too. A long text is read in pieces, so memory is bounded."""
        prefix, state, embeddings = self.prefix, self.state, self.model.embeddings
        for start in range(0, len(ids), UNROLL):
            piece = torch.tensor(ids[start : start + UNROLL], device=self.model.device)[:, None]  # [T, 1]
            with evaluating(self.model):
                prefixes, state = self.model.read(embeddings, piece, state)
            prefix = prefixes.dropped[-1]
        return Context(self.model, prefix, state)

    @torch.inference_mode()
    @full_float32()
    def log_probs(self) -> Tensor:
        """log p of every word of the model's list as the next word. Shape: [V]"""
        return self.model.log_probs(self.model.embeddings, self.prefix)[0]


def read_context(model: LanguageModel, text: str, *, tokenised: bool = False, words: Iterable[str] = ()) -> Context:
    """Read a text that begins after an `<eos>`. A last line that does not end with a line break is to be continued.

    Words of the text that are not in the model's list, and more `words`, join it for the occasion: the context's model
    is a copy then, and the one given stays as it is.
    """
    read = words_of(model, text, tokenised)
    model = with_words(model, (*read, *words))
    return Context.behind(model, [model.vocabulary.index[word] for word in read])


def words_of(model: LanguageModel, text: str, tokenised: bool) -> list[str]:
    """The words of a text with `<eos>` between its lines, and behind the last if it ends with a line break."""
    check_text(text)
    taught = model.taught
    if not tokenised:
        text = straightened(text, model.trained.seen)
    words: list[str] = []
    behind = 0
    for line in token_lines(text, tokenised=tokenised, lower=model.compiler.lower, terms=taught.spellings):
        words += [*(token.word for token in line), END]
        behind = line[-1].end
    if words and "\n" not in text[behind:]:
        words.pop()  # the last line goes on
    return words


def check_unknown(model: LanguageModel, unknown: bool) -> None:
    if unknown and UNKNOWN not in model.vocabulary:
        raise GrocError(
            f"The model has no {UNKNOWN} that could be among the words: leave out --unknown (unknown=True)."
        )


def with_words(model: LanguageModel, words: Iterable[str]) -> LanguageModel:
    """A copy of the model that has all these words, so that what is read with it does not change with the model."""
    new = [word for word in dict.fromkeys(words) if word not in model.vocabulary]
    _ = model.embeddings  # composed before it is copied, so that copies to come share them
    model = model.copy()
    model.add_words(new)
    return model


def as_read(model: LanguageModel, words: Iterable[str]) -> list[str]:
    """Words as the model meets them in a text: in lower case if it lower-cases texts."""
    return [word.lower() if model.compiler.lower else word for word in words]
