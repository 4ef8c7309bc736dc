"""The forms of a vocabulary's words: characters, relations and definitions, as compact integer arrays.

Every distinct string (a word, a related word, a word of a definition) is kept once; relations and definitions are lists
of string numbers. The first strings are the vocabulary's own words, in its order.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from groc.cache import cache_folder
from groc.errors import GrocError
from groc.files import write_atomically
from groc.lexicon.base import Entry, Lexicon
from groc.progress import Progress
from groc.rules import Selected, rules_named
from groc.vocabulary import Vocabulary

FORMAT = 1
"""Part of the cache key: raise it when the arrays below change their meaning."""


@dataclass(frozen=True)
class Lists:
    """A list of string numbers for each word: list i is `index[offsets[i]:offsets[i+1]]`, to be summed * scale[i]."""

    index: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
    scale: npt.NDArray[np.float32]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Which words have anything in their list."""
        return np.diff(self.offsets) > 0


@dataclass(frozen=True)
class WordForms:
    """What the model is told about each word of a vocabulary."""

    words: int
    characters: npt.NDArray[np.uint8]
    """The UTF-8 bytes of all strings, one after the other."""
    boundaries: npt.NDArray[np.int64]
    """String i is `characters[boundaries[i]:boundaries[i+1]]`; strings 0 to words-1 are the words."""
    relations: Lists
    definition: Lists

    def string(self, i: int) -> str:
        return self.characters[self.boundaries[i] : self.boundaries[i + 1]].tobytes().decode()

    def __len__(self) -> int:
        """The number of distinct strings."""
        return len(self.boundaries) - 1


@dataclass(frozen=True)
class FormsCompiler:
    """Makes the forms of any word list, always by the same rules and from the same lexicon."""

    lexicon: Lexicon
    rules: str = "default"
    max_relations: int = 3
    max_definition: int = 10
    lower: bool = False
    """Lower-case the words of relations and definitions (for models of lower-cased text)."""

    def compile(self, vocabulary: Vocabulary) -> WordForms:
        """The forms of a vocabulary, from the cache on disk if they were made before."""
        cached = cache_folder() / "forms" / f"{self._key(vocabulary)}.npz"
        if (forms := _read(cached)) is None:
            forms = self.compile_words(vocabulary)
            with suppress(GrocError):  # a cache that cannot be written is only slower
                _write(cached, forms)
        return forms

    def compile_words(self, words: Collection[str]) -> WordForms:
        """The forms of words that are a vocabulary of their own, or a part of one by rules that do not look at it."""
        rules = rules_named(self.rules)
        progress = Progress("forms of words", len(words))
        selected = []
        for number, word in enumerate(words, 1):
            selected.append(self.select(word))
            progress(number)
        progress.close()
        strings = {word: i for i, word in enumerate(words)}

        def lists(forms: Iterable[tuple[str, ...]], limit: int) -> Lists:
            index: list[int] = []
            sizes: list[int] = []
            for form in forms:
                allowed = [word for word in form if rules.allows(word, words)][:limit]
                index += [strings.setdefault(word, len(strings)) for word in allowed]
                sizes.append(len(allowed))
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
            divisor = np.full(len(sizes), max(limit, 1)) if rules.mean_over_limit else np.maximum(sizes, 1)
            return Lists(np.array(index, np.int32), offsets, (1 / divisor).astype(np.float32))

        relations = lists((forms.relations for forms in selected), self.max_relations)
        definition = lists((forms.definition for forms in selected), self.max_definition)
        encoded = [string.encode() for string in strings]
        boundaries = np.concatenate([[0], np.cumsum([len(string) for string in encoded])]).astype(np.int64)
        characters = np.frombuffer(b"".join(encoded), np.uint8)
        return WordForms(len(words), characters, boundaries, relations, definition)

    @property
    def needs_vocabulary(self) -> bool:
        """Whether a word's forms depend on which other words there are."""
        return rules_named(self.rules).needs_vocabulary

    def select(self, word: str) -> Selected:
        """The words that ground `word`, before they are cut to their maximal number (and, by `paper`, filtered)."""
        entry = self.lexicon.entry(word)
        return rules_named(self.rules).select(word, _lowered(entry) if entry and self.lower else entry)

    def _key(self, vocabulary: Vocabulary) -> str:
        parts = (
            FORMAT,
            vocabulary.digest,
            self.lexicon.fingerprint,
            self.rules,
            self.max_relations,
            self.max_definition,
            self.lower,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _lowered(entry: Entry) -> Entry:
    return Entry(
        tuple(
            replace(
                sense,
                definition=sense.definition.lower(),
                synonyms=tuple(word.lower() for word in sense.synonyms),
                hyponyms=tuple(word.lower() for word in sense.hyponyms),
            )
            for sense in entry.senses
        )
    )


def coverage(forms: WordForms) -> tuple[float, float]:
    """Percent of the words that have relations, and that have a definition."""
    return 100 * float(forms.relations.present.mean()), 100 * float(forms.definition.present.mean())


def _write(path: Path, forms: WordForms) -> None:
    arrays = {
        "characters": forms.characters,
        "boundaries": forms.boundaries,
        "words": np.array(forms.words),
        **{
            f"{name}.{field}": getattr(lists, field)
            for name, lists in (("relations", forms.relations), ("definition", forms.definition))
            for field in ("index", "offsets", "scale")
        },
    }

    def save(temporary: Path) -> None:
        with open(temporary, "wb") as handle:
            np.savez(handle, **arrays)

    write_atomically(path, save)


def _read(path: Path) -> WordForms | None:
    try:
        arrays = np.load(path)
        relations, definition = (
            Lists(*(arrays[f"{name}.{field}"] for field in ("index", "offsets", "scale")))
            for name in ("relations", "definition")
        )
        return WordForms(int(arrays["words"]), arrays["characters"], arrays["boundaries"], relations, definition)
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None  # not there, or damaged: it is only a cache
