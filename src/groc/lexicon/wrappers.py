"""Lexicons made of other lexicons: one after another, less of one, a share of one."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from groc.errors import GrocError
from groc.lexicon.base import Entry, Lexicon
from groc.lexicon.fingerprint import fingerprint


class Empty:
    """Knows no word."""

    fingerprint = fingerprint("Empty")

    def entry(self, word: str) -> Entry | None:  # noqa: ARG002
        return None


class Chain:
    """Asks several lexicons in their order; the first that has the word answers."""

    def __init__(self, *lexicons: Lexicon) -> None:
        self.lexicons = lexicons

    @property
    def fingerprint(self) -> str:
        return fingerprint("Chain", *(lexicon.fingerprint for lexicon in self.lexicons))

    def entry(self, word: str) -> Entry | None:
        answers = (lexicon.entry(word) for lexicon in self.lexicons)
        return next((answer for answer in answers if answer is not None), None)


class Without:
    """A lexicon that keeps its words but not what it says of their relations, their definitions, or both."""

    def __init__(self, lexicon: Lexicon, *, relations: bool = False, definitions: bool = False) -> None:
        """True leaves that part out."""
        self.lexicon = lexicon
        self.relations = relations
        self.definitions = definitions

    @property
    def fingerprint(self) -> str:
        return fingerprint("Without", self.lexicon.fingerprint, f"{self.relations} {self.definitions}")

    def entry(self, word: str) -> Entry | None:
        entry = self.lexicon.entry(word)
        if entry is None:
            return None
        senses = entry.senses
        if self.relations:
            senses = tuple(replace(sense, synonyms=(), hyponyms=()) for sense in senses)
        if self.definitions:
            senses = tuple(replace(sense, definition="") for sense in senses)
        return Entry(senses)


class Coverage:
    """A lexicon that forgets all but a share of its words.

    Whether a word is kept depends on the word and the seed alone, so it is the same in every run, and the words kept
    at a smaller share are among those kept at a larger one.
    """

    def __init__(self, lexicon: Lexicon, share: float, seed: int = 0) -> None:
        if not 0 <= share <= 1:
            raise GrocError(f"The share of words that a lexicon covers must lie between 0 and 1, not be {share}.")
        self.lexicon = lexicon
        self.share = share
        self.seed = seed

    @property
    def fingerprint(self) -> str:
        return fingerprint("Coverage", self.lexicon.fingerprint, f"{float(self.share)} {self.seed}")

    def keeps(self, word: str) -> bool:
        key = f"{self.seed} {word}".encode("utf-8", "surrogatepass")
        place = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        return place < self.share * 2**64

    def entry(self, word: str) -> Entry | None:
        return self.lexicon.entry(word) if self.keeps(word) else None
