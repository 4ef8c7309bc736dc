"""A user's own words: terms with their definitions and related words, kept in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from unicodedata import category

from groc.errors import GrocError
from groc.files import write_text
from groc.lexicon.base import Entry, Sense
from groc.lexicon.fingerprint import fingerprint
from groc.lexicon.terms import WHITE_SPACE, Term, read_terms
from groc.text import LONGEST_WORD, is_visible
from groc.vocabulary import END, SEPARATOR, UNKNOWN


class Glossary:
    """Terms, in the order in which they were given."""

    def __init__(self, terms: Mapping[str, tuple[str, Sequence[str]]], exact: bool = False, mark: str = "_") -> None:
        """From each term to its definition (may be empty) and its related words (may be none).

        `exact` answers for terms as they are spelt alone; otherwise a word is also looked up in lower case. `mark`
        joins the parts of a term of several words where it is to be one word of a text.
        """
        if not mark or any(space in mark for space in WHITE_SPACE):
            raise GrocError(f"{mark!r} cannot join the words of a term: use a mark such as '_' or '-'.")
        self.exact = exact
        self.mark = mark
        for word, entry in terms.items():
            if not _is_entry(entry):
                raise GrocError(
                    f"The glossary cannot take what it is told of {word!r}: give a definition and a list of related "
                    "words, as in ('a large boat', ['ship'])."
                )
        self._terms = {word: Term(word, definition, tuple(related)) for word, (definition, related) in terms.items()}
        self.spellings = {word: word for word in self._terms}
        """How a text spells each term; after `as_words`, with spaces between the words of a term."""
        for term in self._terms.values():
            if problem := term.problem():
                raise GrocError(f"The glossary cannot take the term {term.word!r}: {problem}.")

    @classmethod
    def read(cls, path: str | Path, exact: bool = False, mark: str = "_") -> Glossary:
        """From a .jsonl file with the keys word, definition, related, or a .tsv or .csv file with these columns.

        Definition and related words may be missing. A table may start with a line of column names, and separates
        related words by semicolons. A file without a term is an error.
        """
        return cls({term.word: (term.definition, term.related) for term in read_terms(Path(path))}, exact, mark)

    def write(self, path: str | Path) -> None:
        """As a .jsonl file, from which `read` makes an equal glossary, if there is a term in it."""
        path = Path(path)
        if path.suffix != ".jsonl":
            raise GrocError(f"A glossary is written as JSON lines: name the file {path.with_suffix('.jsonl')}.")
        write_text(path, self.to_text())

    @cached_property
    def fingerprint(self) -> str:
        """Changes with every term."""
        return fingerprint("Glossary", str(self.exact), self.to_text())

    def entry(self, word: str) -> Entry | None:
        """The one sense of the term, spelt as given or else, unless `exact`, in lower case."""
        term = self._terms.get(word) or (None if self.exact else self._terms.get(word.lower()))
        return Entry((Sense(term.definition, synonyms=term.related),)) if term else None

    def as_words(self, lower: bool = False) -> Glossary:
        """The same terms as words of a vocabulary: a term of several words is joined by `mark`, and lower-cased where
        the text is. A term stands for its own spelling alone."""
        words: dict[str, Term] = {}
        spellings: dict[str, str] = {}
        given: dict[str, str] = {}
        for term in self._terms.values():
            parts = [part for part in SEPARATOR.split(term.word.lower() if lower else term.word) if part]
            word = self.mark.join(parts)
            control = any(category(character) == "Cc" for character in word)
            if control or word in (END, UNKNOWN) or not all(map(is_visible, parts)):
                raise GrocError(
                    f"The term {term.word!r} cannot be taught: {END}, {UNKNOWN}, control characters and format "
                    "characters alone are no words."
                )
            if len(word) > LONGEST_WORD:
                raise GrocError(
                    f"The term {term.word[:20]!r} ... cannot be taught: it has {len(word):,} characters, a word may "
                    f"have {LONGEST_WORD:,}."
                )
            if word in words:
                raise GrocError(
                    f"The terms {given[word]!r} and {term.word!r} are the same word, {word!r}, to this model: "
                    "remove one of them."
                )
            given[word], words[word] = term.word, Term(word, term.definition, term.related)
            # Of a term that was given with the mark in it, the text may have the parts.
            spellings[word] = " ".join(parts) if len(parts) > 1 else word.replace(self.mark, " ")
        return self._with(words, spellings)

    def spelt(self, text: str) -> str:
        """The term that a text spells so, if there is one; else the text itself."""
        return next((word for word, spelling in self.spellings.items() if spelling == text), text)

    def joined(self, other: Glossary) -> Glossary:
        """The terms of both; where both have one, the other's."""
        return self._with({**self._terms, **other._terms}, {**self.spellings, **other.spellings})

    def without(self, words: Iterable[str]) -> Glossary:
        """These terms less some of them."""
        gone = set(words)
        kept = {word: term for word, term in self._terms.items() if word not in gone}
        return self._with(kept, {word: self.spellings[word] for word in kept})

    def _with(self, words: dict[str, Term], spellings: dict[str, str]) -> Glossary:
        glossary = Glossary({}, exact=True, mark=self.mark)
        glossary._terms, glossary.spellings = words, spellings
        return glossary

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms with their definitions and related words."""
        return tuple(self._terms.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __contains__(self, word: object) -> bool:
        return word in self._terms

    def __len__(self) -> int:
        return len(self._terms)

    def to_text(self) -> str:
        """The JSON lines that `read` takes."""
        return "".join(json.dumps(term._asdict(), ensure_ascii=False) + "\n" for term in self._terms.values())


def _is_entry(entry: object) -> bool:
    match entry:
        case (str(), related) if not isinstance(related, str) and isinstance(related, Iterable):
            return all(isinstance(word, str) for word in related)
    return False
