"""Less is told of new words: what relations and definitions are worth to words that training did not have."""

from __future__ import annotations

from collections.abc import Collection

from groc.errors import GrocError
from groc.lexicon import Glossary, Lexicon, Without
from groc.lexicon.base import Entry
from groc.lexicon.fingerprint import fingerprint
from groc.model import LanguageModel
from groc.vocabulary import Vocabulary

PARTS = ("relations", "definitions")


class LessOfNewWords:
    """A lexicon that leaves something out, but not of the words of training."""

    def __init__(self, lexicon: Lexicon, less: Lexicon, trained: Vocabulary) -> None:
        self.lexicon, self.less, self.trained = lexicon, less, trained

    @property
    def fingerprint(self) -> str:
        return fingerprint("LessOfNewWords", self.lexicon.fingerprint, self.less.fingerprint, self.trained.digest)

    def entry(self, word: str) -> Entry | None:
        return (self.lexicon if word in self.trained else self.less).entry(word)


def telling_less(model: LanguageModel, without: Collection[str]) -> LanguageModel:
    """A copy of an open model, with the words of its training, that is told nothing of new words' relations,
    definitions, or both, be it from the lexicon or taught. Words of training stay as they are."""
    if not model.is_open:
        raise GrocError("A closed model is told nothing of words: leave out --without.")
    if unknown := sorted(set(without) - set(PARTS)):
        raise GrocError(f"New words can do without {' and '.join(PARTS)}, not {unknown[0]!r}.")
    relations, definitions = (part in without for part in PARTS)
    lexicon = model.compiler.lexicon
    less = Without(lexicon, relations=relations, definitions=definitions)
    taught = Glossary(
        {
            term.word: (term.definition, term.related)
            if term.word in model.trained
            else ("" if definitions else term.definition, () if relations else term.related)
            for term in model.taught.terms
        },
        exact=True,
    )
    taught.spellings = model.taught.spellings
    twin = model.copy()
    twin.set_vocabulary(model.trained)
    twin.tell_of_new_words(LessOfNewWords(lexicon, less, model.trained), taught)
    return twin
