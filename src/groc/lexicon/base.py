"""What a lexicon knows about a word, and the one method every lexicon has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Sense:
    """One meaning of a word, as its lexicon gives it. Nothing is selected or cut here: that is the rules' work."""

    definition: str
    synonyms: tuple[str, ...] = ()
    """All words of the sense, in the lexicon's order and case; the word itself may be among them."""
    hyponyms: tuple[str, ...] = ()
    """Words of the directly narrower senses."""
    part_of_speech: str = ""
    """n, v, a or r as in WordNet; empty where the lexicon does not say."""
    count: int = 0
    """How often the word was seen in this sense in a sense-tagged corpus (0 where unknown)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """All senses of one word, in the lexicon's own order."""

    senses: tuple[Sense, ...]


class Lexicon(Protocol):
    """Anything that can say what it knows about a word."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever any answer of `entry` could change (it keys caches on disk)."""
        ...

    def entry(self, word: str) -> Entry | None:
        """The word's senses, or None if the lexicon does not have it. Safe to call from several threads."""
        ...
