"""A user's own words: terms with their definitions and related words, kept in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from groc.errors import GrocError
from groc.files import write_text
from groc.lexicon.base import Entry, Sense
from groc.lexicon.fingerprint import fingerprint
from groc.lexicon.terms import Term, read_terms


class Glossary:
    """Terms, in the order in which they were given."""

    def __init__(self, terms: Mapping[str, tuple[str, Sequence[str]]], exact: bool = False) -> None:
        """From each term to its definition (may be empty) and its related words (may be none).

        `exact` answers for terms as they are spelt alone; otherwise a word is also looked up in lower case.
        """
        self.exact = exact
        self._terms = {word: Term(word, definition, tuple(related)) for word, (definition, related) in terms.items()}
        for term in self._terms.values():
            if problem := term.problem():
                raise GrocError(f"The glossary cannot take the term {term.word!r}: {problem}.")

    @classmethod
    def read(cls, path: str | Path, exact: bool = False) -> Glossary:
        """From a .jsonl file with the keys word, definition, related, or a .tsv or .csv file with these columns.

        Definition and related words may be missing. A table may start with a line of column names, and separates
        related words by semicolons.
        """
        return cls({term.word: (term.definition, term.related) for term in read_terms(Path(path))}, exact)

    def write(self, path: str | Path) -> None:
        """As a .jsonl file, from which `read` makes an equal glossary."""
        path = Path(path)
        if path.suffix != ".jsonl":
            raise GrocError(f"A glossary is written as JSON lines: name the file {path.with_suffix('.jsonl')}.")
        write_text(path, self.to_text())

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint("Glossary", str(self.exact), self.to_text())

    def entry(self, word: str) -> Entry | None:
        """The one sense of the term, spelt as given or else, unless `exact`, in lower case."""
        term = self._terms.get(word) or (None if self.exact else self._terms.get(word.lower()))
        return Entry((Sense(term.definition, synonyms=term.related),)) if term else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)

    def to_text(self) -> str:
        """The JSON lines that `read` takes."""
        return "".join(json.dumps(term._asdict(), ensure_ascii=False) + "\n" for term in self._terms.values())
