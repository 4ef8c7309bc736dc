"""New words: which ones to show, what the open model makes of them, and whether each model expects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groc import suggest
from groc.context import Context
from groc.corpus import Text
from groc.forms import FormsCompiler
from groc.model import LanguageModel
from groc.rules import NO_NOUN, NO_SENSE
from groc.vocabulary import END, Vocabulary

BEFORE = 5
"""A context shown has at least so many words before the new one, if the text has such a line."""


@dataclass(frozen=True)
class NewWord:
    """A word of a text that training did not have, its forms, and a line of the text up to it."""

    word: str
    count: int
    """How often the text has it."""
    definition: tuple[str, ...]
    """As far as the model reads it."""
    context: tuple[str, ...]
    """The words before it in its line."""


@dataclass(frozen=True)
class Guess:
    """What a model expects after a context, and what it thinks of the word that really comes."""

    best: tuple[str, ...]
    rank: int
    """Of the true word: 1 if no word of the vocabulary is more probable."""
    probability: float


def choose(text: Text, trained: Vocabulary, compiler: FormsCompiler, limit: int) -> list[NewWord]:
    """The text's most frequent words that training never had and that the lexicon defines; equals in alphabetical
    order."""
    chosen: list[NewWord] = []
    for word, count in sorted(text.type_counts.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) == limit:
            break
        if word in trained or not word.isalpha() or len(word) < 3 or word in NO_SENSE | NO_NOUN:
            continue
        if definition := compiler.select(word).definition[: compiler.max_definition]:
            chosen.append(NewWord(word, count, definition, context(text, word)))
    return chosen


def context(text: Text, word: str) -> tuple[str, ...]:
    """What stands before a word in the shortest line that leads up to it, or where it first occurs."""
    found = []
    line: list[str] = []
    for code in text.codes.tolist():
        token = text.types[code]
        if token == word:
            found.append(tuple(line))
        line = [] if token == END else [*line, token]
    return min((before for before in found if len(before) >= BEFORE), key=len, default=found[0])


def nearest(model: LanguageModel, words: Sequence[str], limit: int) -> list[list[str]]:
    """For each word the trained words whose output embeddings have the smallest angle with its own."""
    return [[word for word, _ in row] for row in suggest.nearest(model, words, limit)]


def guess(model: LanguageModel, newcomers: Sequence[NewWord], limit: int) -> list[Guess]:
    """What the model expects where each new word stands, after reading its line from the start."""
    index, guesses = model.vocabulary.index, []
    for newcomer in newcomers:
        log_probs = Context.behind(model, [index[word] for word in newcomer.context]).log_probs()
        true = log_probs[index[newcomer.word]]
        guesses.append(
            Guess(
                best=tuple(model.vocabulary.words[i] for i in log_probs.topk(limit).indices.tolist()),
                rank=1 + int((log_probs > true).sum()),
                probability=float(true.exp()),
            )
        )
    return guesses
