"""From text to tokens: Moses rules, as in the paper's data, optional lower-casing, and where each token stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import Any
from unicodedata import category, normalize

from groc.errors import GrocError

LONGEST_WORD = 10_000
"""Characters. What is longer is no word but a file that lost its white space, or not text at all."""
SEPARATED = re.compile(r"[^ \t\n\r\v\f]+")
"""A word of a text that is tokenised already: only ASCII white space ends it (as `groc.vocabulary.SEPARATOR`)."""
KEPT = re.compile(r"[^\s\x00-\x1f]")
"""A character that Moses's rules keep: neither white space nor a control character of ASCII."""
ZERO_WIDTH_SPACE = "\u200b"
JOINERS = "\u200c\u200d"
"""Zero width non-joiner and joiner: marks of spelling in some scripts, such as Persian's."""
ACCENTS = "\u0300-\u036f"
"""Combining marks: some systems write é as an e and an accent behind it."""
JOINED_SCRIPTS = ("\u0600", "\u18af")
"""The first and last character of those scripts: Arabic to Mongolian, with all that are written in India."""

CURLY = "\u2019"
"""The apostrophe of word processors."""
CURLY_WITHIN = re.compile(rf"(?<=\w){CURLY}(?=\w)")


@dataclass(frozen=True, slots=True)
class Token:
    """A word and the place where it was read: characters `start` to `end` of the text."""

    word: str
    start: int
    end: int


def read_tokens(
    text: str, *, tokenised: bool, lower: bool, terms: Mapping[str, str] | None = None
) -> list[list[Token]]:
    """The tokens of each line that has any, in order.

    Raw text is split by `tokeniser`, which drops control and format characters; a `tokenised` text at its ASCII white
    space. `terms` are words and how a text spells them, with spaces: where the parts of such a spelling stand next to
    each other they are one token, the longest term first. A full stop behind a term of a raw text is a token of its
    own, unless it belongs to the term.
    """
    return list(token_lines(text, tokenised=tokenised, lower=lower, terms=terms))


def token_lines(
    text: str, *, tokenised: bool, lower: bool, terms: Mapping[str, str] | None = None
) -> Iterator[list[Token]]:
    """The same line by line, for texts whose tokens would fill the memory."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise GrocError(
            f"Character {error.start + 1} of the text is half a character (a lone surrogate): decode the text properly."
        ) from None
    joins = _joins(tuple((terms or {}).items()), tokenised)
    start = 0
    for line in text.split("\n"):
        found = (_separated(line) if tokenised else _aligned(line)) if line else ()
        tokens = [
            Token(_checked(word.lower() if lower else word), start + begin, start + end) for word, begin, end in found
        ]
        if tokens:
            yield _joined(tokens, joins, tokenised) if joins else tokens
        start += len(line) + 1


def check_text(text: Any, name: str = "The text") -> None:
    """For those who call from Python: the empty cells of a table come as None or NaN."""
    if not isinstance(text, str):
        raise GrocError(f"{name} is {text!r}, which is no text: leave out what is empty, and decode bytes.")


def check_texts(texts: Any) -> None:
    if not isinstance(texts, Iterable):
        check_text(texts)
    for number, text in enumerate(texts):
        check_text(text, f"texts[{number}]")


def straightened(text: str, seen: frozenset[str]) -> str:
    """A raw text with straight apostrophes within words, for a model that has seen no curly one: those would make three
    words of "don't", one of them new. As many characters as before."""
    if CURLY not in text or _has_curly(seen):
        return text
    return CURLY_WITHIN.sub("'", text)


@lru_cache(maxsize=2)
def _has_curly(words: frozenset[str]) -> bool:
    """Kept, since every sentence of a text may ask."""
    return any(CURLY in word for word in words)


def is_visible(word: str) -> bool:
    """Whether there is anything to see of a word: a character that is no format character."""
    return word.isascii() or any(category(character) != "Cf" for character in word)


def _checked(word: str) -> str:
    if len(word) > LONGEST_WORD:
        raise GrocError(
            f"The text has a word of {len(word):,} characters (at most {LONGEST_WORD:,}), {word[:20]!r} ...: "
            "separate its words by white space."
        )
    return word


def tokeniser(language: str = "en", lower: bool = False) -> Callable[[str], list[str]]:
    """A function that splits one line of raw text by Moses's rules (without escaping of special characters).

    What cannot be seen is no word, and does not make two of one: format characters, such as soft hyphens, are dropped.
    But a zero width space separates words, and joiners stay within the words of scripts that need them. Letters and
    their accents are one character where there is one (NFC).
    """

    def tokenise(line: str) -> list[str]:
        tokens = (normalize("NFC", token) for token in _split(line, language))
        return [token.lower() for token in tokens] if lower else list(tokens)  # the rules look at capitals

    return tokenise


def _split(line: str, language: str) -> list[str]:
    """Moses's tokens, with the line's own characters."""
    moses = _moses(language)
    tokens: list[str] = moses.tokenize(moses.clean(line), escape=False)
    return tokens


@cache
def _moses(language: str) -> Any:
    from sacremoses import MosesTokenizer  # here, because training on tokenised text must not need it
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # the rules would take it for English
        raise GrocError(f"Moses's rules know no language {language!r}: choose among {', '.join(known)}.")

    class Moses(MosesTokenizer):  # type: ignore[misc]
        """The same rules: ten times faster behind full stops, and no text is taken for one of their inner marks."""

        lower_case, letters = frozenset(MosesTokenizer.IsLower), frozenset(MosesTokenizer.IsAlpha)
        PAD_NOT_ISALNUM: tuple[re.Pattern[str], str]

        def __init__(self, language: str) -> None:
            super().__init__(language)
            pad, padded = self.PAD_NOT_ISALNUM  # the rule by which a character is a word of its own
            self.PAD_NOT_ISALNUM = re.compile(pad.pattern.replace("[^", f"[^{JOINERS}{ACCENTS}", 1)), padded
            first, last = JOINED_SCRIPTS
            joined = "".join(sorted(letter for letter in self.letters if first <= letter <= last))
            self.inner_joiner = re.compile(f"(?<=[{joined}])[{JOINERS}](?=[{joined}])")

        def clean(self, line: str) -> str:
            """As many characters, with a control character, which the rules drop, for each that is not to be read."""
            if line.isascii():
                return line
            needed = {found.start() for found in self.inner_joiner.finditer(line)}
            replacement = {ZERO_WIDTH_SPACE: " "}
            return "".join(
                replacement.get(character, "\0") if category(character) == "Cf" and place not in needed else character
                for place, character in enumerate(line)
            )

        def islower(self, text: str) -> bool:
            return self.lower_case.issuperset(text)

        def isanyalpha(self, text: str) -> bool:
            return not self.letters.isdisjoint(text)

        def replace_multidots(self, text: str) -> str:
            # Control characters are gone by now, so one of them can stand for a dot that is not to be split off.
            return re.sub(r"\.{2,}", lambda dots: " " + "\1" * len(dots[0]) + " ", text)

        def restore_multidots(self, text: str) -> str:
            return text.replace("\1", ".")

    return Moses(language)


def _separated(line: str) -> Iterator[tuple[str, int, int]]:
    return ((found[0], found.start(), found.end()) for found in SEPARATED.finditer(line))


def _aligned(line: str) -> Iterator[tuple[str, int, int]]:
    """Moses's tokens and where they stand: they hold the kept characters of the line, each once and in order."""
    places = (found.start() for found in KEPT.finditer(_moses("en").clean(line)))
    for word in _split(line, "en"):
        own = list(islice(places, len(word)))
        yield normalize("NFC", word), own[0], own[-1] + 1


Joins = dict[str, list[tuple[tuple[str, ...], str]]]
"""From the first part of terms to all their parts and the terms, the longest first."""


@lru_cache(maxsize=64)  # a service reads many short texts with the same terms
def _joins(terms: tuple[tuple[str, str], ...], tokenised: bool) -> Joins:
    split: Callable[[str], list[str]] = SEPARATED.findall if tokenised else tokeniser()
    joins: Joins = {}
    for term, spelt in terms:
        for spelling in dict.fromkeys((term, spelt)):  # Moses splits words such as c++, too
            words = [Token(word, 0, len(word)) for word in split(spelling)]
            if parts := tuple(piece.word for word in words for piece in _pieces(word, tokenised)):
                joins.setdefault(parts[0], []).append((parts, term))
    for same_start in joins.values():
        same_start.sort(key=lambda join: -len(join[0]))
    return joins


def _joined(tokens: Sequence[Token], joins: Joins, tokenised: bool) -> list[Token]:
    owned = [(token, piece) for token in tokens for piece in _pieces(token, tokenised)]
    words, joined, at = [piece.word for _, piece in owned], [], 0
    while at < len(words):
        token, piece = owned[at]
        for parts, term in joins.get(words[at], ()):
            if tuple(words[at : at + len(parts)]) == parts:
                at += len(parts)
                joined.append(Token(term, piece.start, owned[at - 1][1].end))
                break
        else:
            is_whole = piece.start == token.start  # or else a full stop that a term left
            joined.append(token if is_whole else piece)
            at += len(_pieces(token, tokenised)) if is_whole else 1
    return joined


def _pieces(token: Token, tokenised: bool) -> list[Token]:
    """Moses's rules leave the full stop with some words, as in node.js.; here it is apart, so that terms are found."""
    if tokenised or token.word == "." or not token.word.endswith("."):
        return [token]
    before_stop = token.end - 1
    return [Token(token.word[:-1], token.start, before_stop), Token(".", before_stop, token.end)]
