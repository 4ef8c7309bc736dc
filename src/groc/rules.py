"""Which relations and which definition a word gets from its lexicon entry.

Two rule sets. `paper` is what the authors did. `default` is what a word means: its most frequent sense, without the
abbreviations that WordNet lists under function words ("a" is not the angstrom), and independent of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from groc.errors import GrocError
from groc.lexicon.base import Entry, Sense


@dataclass(frozen=True, slots=True)
class Selected:
    """The words that ground a word, before they are cut to their maximal number."""

    relations: tuple[str, ...] = ()
    definition: tuple[str, ...] = ()


class Rules(Protocol):
    name: str
    mean_over_limit: bool
    """Divide the sum of the word vectors by the maximal number of words, not by the number present."""

    needs_vocabulary: bool
    """Whether `allows` looks at the vocabulary."""

    def select(self, word: str, entry: Entry | None) -> Selected: ...

    def allows(self, form: str, vocabulary: Container[str]) -> bool:
        """Whether a form word may be used, given the vocabulary of the moment."""
        ...


class PaperRules:
    """As published: lemmas of all synsets in alphabetical order, the word itself among them; the first synset's
    definition, split at white space; only words of the vocabulary count."""

    name = "paper"
    mean_over_limit = True
    needs_vocabulary = True

    def select(self, word: str, entry: Entry | None) -> Selected:  # noqa: ARG002
        if entry is None:
            return Selected()
        lemmas = {lemma for sense in entry.senses for lemma in sense.synonyms}
        return Selected(tuple(sorted(lemmas)), tuple(entry.senses[0].definition.split()))

    def allows(self, form: str, vocabulary: Container[str]) -> bool:
        return form in vocabulary


class DefaultRules:
    """The most frequent sense over all parts of speech: its synonyms, then its hyponyms, the word itself excluded;
    the words of its definition without punctuation. Form words need not be in the vocabulary, so adding words to it
    never changes a word's vector."""

    name = "default"
    mean_over_limit = False
    needs_vocabulary = False

    def select(self, word: str, entry: Entry | None) -> Selected:
        senses = [sense for sense in (entry.senses if entry else ()) if _possible(word, sense)]
        if not senses:
            return Selected()
        sense = max(senses, key=lambda sense: sense.count)  # the first of equals: the lexicon's own order
        relations = dict.fromkeys((*sense.synonyms, *sense.hyponyms))
        return Selected(
            tuple(lemma for lemma in relations if lemma.lower() != word.lower() and _is_one_word(lemma)),
            tuple(WORD.findall(sense.definition)),
        )

    def allows(self, form: str, vocabulary: Container[str]) -> bool:  # noqa: ARG002
        return True


WORD = re.compile(r"\w+(?:[-'’.]\w+)*")


def _is_one_word(lemma: str) -> bool:
    return "_" not in lemma and " " not in lemma


# WordNet holds no function words, but it lists abbreviations, symbols and letters that are spelt like them.
NO_SENSE = frozenset(
    "a an the i me my mine we us our ours you your yours he him his she her hers it its they them their theirs "
    "who whom whose which what that this these those and or nor but if than of at from with".split()
)
NO_NOUN = frozenset(
    "as in on by to for up down off out over under about after before into through between against during without "
    "so no not yet then when where why how all any both each few more most other some such only own same too very "
    "am is are was were be been being have has had having do does did doing can could may might must shall should "
    "will would ought need dare".split()
)


def _possible(word: str, sense: Sense) -> bool:
    if sense.part_of_speech == "" or (len(word) > 1 and word.isupper()):  # a glossary means what it says; US is no "us"
        return True
    lower = word.lower()
    if len(lower) == 1:  # letters, and what they stand for: N is nitrogen, but in a text a number or a name
        return False
    return lower not in NO_SENSE and not (lower in NO_NOUN and sense.part_of_speech == "n")


RULES: dict[str, Rules] = {rules.name: rules for rules in (PaperRules(), DefaultRules())}


def rules_named(name: str) -> Rules:
    if name not in RULES:
        raise GrocError(f"There are no rules named {name!r}: choose from {', '.join(RULES)}.")
    return RULES[name]
