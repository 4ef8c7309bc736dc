"""Words and their ids. A vocabulary is data: it can be read, joined and replaced at run time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from groc.errors import GrocError

END = "<eos>"
"""Stands at the end of every line, and before the first word of a stream."""
SEPARATOR = re.compile(r"[ \t\n\r\v\f]")
"""What ends a word in a text: ASCII white space alone. A no-break space may be part of a word."""
UNKNOWN = "<unk>"
"""An ordinary word. Corpora that were made with it use it for their rare words."""


class Vocabulary:
    """An ordered list of distinct words, each with the number of times it was seen in training (0: never).

    Immutable. Ids are positions. `<eos>` is always there, because every line ends with it.
    """

    def __init__(self, words: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self.words: tuple[str, ...] = tuple(words)
        self.index: dict[str, int] = {word: i for i, word in enumerate(self.words)}
        self.counts: npt.NDArray[np.int64] = (
            np.zeros(len(self.words), np.int64) if counts is None else np.array(list(counts), np.int64)
        )
        if len(self.counts) != len(self.words):
            raise GrocError(f"A vocabulary of {len(self.words)} words needs as many counts, not {len(self.counts)}.")
        if len(self.index) != len(self.words):
            twice = next(word for i, word in enumerate(self.words) if self.index[word] != i)
            raise GrocError(f"The word {twice!r} stands twice in the vocabulary: remove the duplicate.")
        for word in self.words:
            _check(word)
        if END not in self.index:
            raise GrocError(f"The vocabulary has no {END}: add it, since every line ends with it.")

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> Vocabulary:
        """The most frequent word first; equal counts in alphabetical order."""
        ordered = sorted({END: 0, **counts}.items(), key=lambda item: (-item[1], item[0]))
        return cls((word for word, _ in ordered), (count for _, count in ordered))

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """One word a line, optionally with a tab and its training count; `<eos>` is added if it is missing."""
        words, counts = [], []
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise GrocError(f"The vocabulary {path} cannot be read ({error.strerror}): check the path.") from None
        except UnicodeDecodeError as error:
            raise GrocError(
                f"{path} is not UTF-8 text (byte {error.start}): convert it, for example with iconv."
            ) from None
        if not text.strip("\r\n"):
            raise GrocError(f"{path} holds no word: write a list with one word a line.")
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            word, tab, count = line.removesuffix("\r").partition("\t")
            if not word:
                raise GrocError(f"{path}, line {number} is empty where a word belongs: remove the line.")
            if tab and not count.strip().isdecimal():
                raise GrocError(f"{path}, line {number}: {count!r} is not a count; write the word, a tab and a number.")
            words.append(word)
            counts.append(int(count) if tab else 0)
        if END not in words:
            words.append(END)
            counts.append(0)
        try:
            return cls(words, counts)
        except GrocError as error:
            raise GrocError(f"{path}: {error}") from None

    def to_text(self) -> str:
        """The format that `read` takes."""
        return "".join(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts.tolist(), strict=True))

    def union(self, words: Iterable[str]) -> Vocabulary:
        """This vocabulary with more words behind it, each once, with no training count. Old ids stay as they are."""
        if isinstance(words, str):
            raise GrocError(f"{words!r} is one word where a list of words belongs: write [{words!r}].")
        new = [word for word in dict.fromkeys(words) if word not in self.index]
        if not new:
            return self
        for word in new:
            _check(word)
        index = self.index.copy()
        index.update((word, i) for i, word in enumerate(new, len(self)))
        return self._unchecked((*self.words, *new), index, np.concatenate([self.counts, np.zeros(len(new), np.int64)]))

    def without(self, words: Iterable[str]) -> Vocabulary:
        """This vocabulary less some of its words."""
        gone = set(words)
        if missing := sorted(gone - self.index.keys()):
            raise GrocError(f"{missing[0]!r} is not in the vocabulary, so it cannot be removed.")
        if END in gone:
            raise GrocError(f"{END} cannot be removed, since every line ends with it.")
        kept = [i for i, word in enumerate(self.words) if word not in gone]
        words = tuple(self.words[i] for i in kept)
        return self._unchecked(words, {word: i for i, word in enumerate(words)}, self.counts[kept])

    @classmethod
    def _unchecked(cls, words: tuple[str, ...], index: dict[str, int], counts: npt.NDArray[np.int64]) -> Vocabulary:
        """From words known to be good: a word more must not cost a look at all the others."""
        vocabulary = cls.__new__(cls)
        vocabulary.words, vocabulary.index, vocabulary.counts = words, index, counts
        return vocabulary

    @cached_property
    def seen(self) -> frozenset[str]:
        """The words that training had."""
        return frozenset(word for word, count in zip(self.words, self.counts.tolist(), strict=True) if count)

    def counts_of(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """How often training had each of these words, in this vocabulary or not."""
        if words is self.words:
            return self.counts
        places = np.fromiter((self.index.get(word, -1) for word in words), np.int64, len(words))
        counts: npt.NDArray[np.int64] = np.where(places < 0, 0, self.counts[places])
        return counts

    @property
    def end(self) -> int:
        """The id of `<eos>`."""
        return self.index[END]

    @cached_property
    def digest(self) -> str:
        """A hash of the words in order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words, {int((self.counts > 0).sum()):,} seen in training)"


def _check(word: str) -> None:
    if not word or SEPARATOR.search(word):
        raise GrocError(f"{word!r} cannot be a word of a vocabulary: words are not empty and hold no white space.")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise GrocError(f"{word!r} holds half a character (a lone surrogate): decode the text properly.") from None
