"""The files WordNet keeps for one part of speech: data.noun, index.noun, noun.exc, and their like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from groc.errors import GrocError
from groc.lexicon.morphology import base_forms

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
"""The letter and the file name of each part of speech, in WordNet's order."""

_QUOTED = re.compile('"([^"]*)"')
_MARKER = re.compile(r"\([a-z]+\)$")


class Synset(NamedTuple):
    """One line of a data file, cut up; what its fields mean is worked out when asked for, so reading is cheap.

    The fields are: offset, lexicographer file, kind (n, v, a, s or r), number of words (hexadecimal), for each word
    the word and its id, number of pointers, for each pointer its symbol, offset, part of speech and source/target.
    """

    fields: list[str]
    words_end: int
    pointers_end: int
    gloss: str

    @classmethod
    def parse(cls, line: str) -> Synset:
        """Raises ValueError or IndexError where the line is not whole."""
        columns, bar, gloss = line.partition("|")
        fields = columns.split()
        words_end = 4 + 2 * int(fields[3], 16)
        pointers_end = words_end + 1 + 4 * int(fields[words_end])
        if not bar or len(fields) < pointers_end:
            raise ValueError("truncated")
        return cls(fields, words_end, pointers_end, gloss)

    @property
    def kind(self) -> str:
        """As part of speech, but `s` for the adjectives that WordNet places around another as its satellites."""
        return self.fields[2]

    @property
    def words(self) -> tuple[str, ...]:
        """In file order and case, without markers of an adjective's position such as `(p)`."""
        words = self.fields[4 : self.words_end : 2]
        return tuple([_MARKER.sub("", word) if word[-1] == ")" else word for word in words])

    @property
    def word_ids(self) -> list[str]:
        """For each word the hexadecimal number that tells its senses within one lexicographer file apart."""
        return self.fields[5 : self.words_end : 2]

    def targets(self, *symbols: str) -> list[tuple[str, str]]:
        """The letter and the offset of each synset to which a pointer with one of these symbols leads."""
        fields = self.fields
        return [
            (fields[at + 2].replace("s", "a"), fields[at + 1])
            for at in range(self.words_end + 1, self.pointers_end, 4)
            if fields[at] in symbols
        ]

    @property
    def definition(self) -> str:
        """The gloss without its quoted usage examples."""
        return _QUOTED.sub("", self.gloss).strip().strip("; ")


class PartOfSpeech:
    """One part of speech of WordNet. The files' bytes are kept, and a line is parsed when it is asked for."""

    def __init__(self, folder: Path, letter: str) -> None:
        name = PARTS_OF_SPEECH[letter]
        self.letter = letter
        self.data_path = folder / f"data.{name}"
        self._index_path = folder / f"index.{name}"
        exceptions_path = folder / f"{name}.exc"
        self._data = read_bytes(self.data_path)
        index = read_bytes(self._index_path)
        # Some copies of the database come without the list of irregular forms.
        exceptions = read_bytes(exceptions_path) if exceptions_path.exists() else b""
        self.content = (self._data, index, exceptions)

        lines = (line.partition(" ") for line in lines_of(index, self._index_path) if not line.startswith(" "))
        self._index = {lemma: rest for lemma, _, rest in lines}
        split = (line.split() for line in lines_of(exceptions, exceptions_path))
        self._exceptions = {forms[0]: forms[1:] for forms in split if forms}
        self._words: dict[str, tuple[str, ...]] = {}
        self._check()

    def _check(self) -> None:
        """Notices at once a file that is something else, is empty, or breaks off."""
        if not self._index:
            raise damaged(self._index_path)
        if not self._data.endswith(b"\n"):
            raise damaged(self.data_path)
        for lemma in (next(iter(self._index)), next(reversed(self._index))):
            for offset in self.offsets(lemma):
                self.synset(offset)

    @property
    def lemmas(self) -> Iterator[str]:
        return iter(self._index)

    def base_forms(self, word: str) -> list[str]:
        """The forms of the word that WordNet lists, the word itself first."""
        return [form for form in base_forms(word, self.letter, self._exceptions) if form in self._index]

    def offsets(self, lemma: str) -> list[str]:
        """Where the lemma's synsets are in the data file, in the order of its senses."""
        fields = self._index[lemma].split()
        try:
            synsets, pointers = int(fields[1]), int(fields[2])
        except (ValueError, IndexError):
            raise damaged(self._index_path, f"at {lemma!r}") from None
        offsets = fields[5 + pointers :]
        if not 0 < synsets == len(offsets):
            raise damaged(self._index_path, f"at {lemma!r}")
        return offsets

    def synset(self, offset: str) -> Synset:
        try:
            start = int(offset)
            line = self._data[start : self._data.index(b"\n", start)].decode()
            synset = Synset.parse(line)
        except (ValueError, IndexError):
            raise damaged(self.data_path, f"at byte {offset}") from None
        if synset.fields[0] != offset:
            raise damaged(self.data_path, f"at byte {offset}")
        return synset

    def words(self, offset: str) -> tuple[str, ...]:
        """The words of a synset; kept, because a synset's words are asked for again with each broader synset."""
        words = self._words.get(offset)
        if words is None:
            words = self._words[offset] = self.synset(offset).words
        return words

    def examples(self) -> Iterator[str]:
        """The quoted usage examples of all glosses, in file order."""
        for line in lines_of(self._data, self.data_path):
            if '"' in line and not line.startswith(" "):
                yield from _QUOTED.findall(line.partition("|")[2])


def read_bytes(path: Path) -> bytes:
    """The file as its makers wrote it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GrocError(
            f"Cannot read the WordNet file {path} ({error.strerror}): give a folder with WordNet's database files."
        ) from None
    # Offsets count bytes of the original files; a copy with Windows line ends is turned back into them.
    return content.replace(b"\r\n", b"\n") if b"\r\n" in content[:1000] else content


def lines_of(content: bytes, path: Path) -> list[str]:
    """The lines of a file that was read from the path."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise damaged(path) from None
    if lines.pop():  # what follows the last line end: something only if the file breaks off
        raise damaged(path, "at its end")
    return lines


def damaged(path: Path, where: str = "") -> GrocError:
    """The error to raise for a file that is not as it should be."""
    return GrocError(
        f"{path} is not a whole WordNet file{where and ', ' + where}: replace {path.parent} by a whole copy "
        f"(if it is GroC's own, delete it and run 'groc lexicon install') or set GROC_WORDNET to another."
    )
