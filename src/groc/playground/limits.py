"""How much one request may ask for, and how much the service takes on at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from groc.lexicon.terms import Term
from groc.text import token_lines

# What every request has to keep to; these stand in the OpenAPI document.
TEXT = 100_000
"""Characters of a text."""
TEXTS = 1_000
WORD = 200
"""Characters of a word."""
CANDIDATES = 10_000
"""Words among which to choose the next one."""
SUGGESTIONS = 1_000
LENGTH = 1_000
"""Words to generate."""
TERMS = 1_000
"""Terms of a glossary."""
DEFINITION = 2_000
"""Characters of a definition."""
RELATED = 100
"""Related words of a term."""
GLOSSARY = 500_000
"""Characters of all words, definitions and related words of a glossary together: it stays in memory."""


@dataclass(frozen=True)
class Limits:
    """What the service takes on."""

    body: int = 2_000_000
    """Bytes of a request."""
    words: int = 10_000
    """Words of all texts of a request."""
    seconds: float = 30.0
    """For a request from its first byte to the last of its answer."""
    threads: int = 2
    """How many requests are worked on at a time."""
    waiting: int = 100
    """How many more may wait for that; the next is sent away."""
    glossaries: int = 100
    """How many are kept; the one that was not used for the longest time goes first."""
    idle: float = 3600.0
    """Seconds after which a glossary that nobody uses goes."""


DEFAULT = Limits()


def check_words(texts: Sequence[str], limit: int, tokenised: bool = False) -> None:
    """Refuse texts that have too many words, before a model reads them."""
    if sum(map(len, texts)) <= limit:  # no need to look: a word has a character at least
        return
    number = sum(len(line) for text in texts for line in token_lines(text, tokenised=tokenised, lower=False))
    if number > limit:
        raise HTTPException(413, f"There are {number:,} words where at most {limit:,} may be: send less at a time.")


def check_glossary(terms: Collection[Term]) -> None:
    """Refuse a glossary that has no room here, before a model is taught it."""
    if len(terms) > TERMS:
        raise HTTPException(413, f"A glossary has room for {TERMS:,} terms: remove some, or make another.")
    characters = sum(len(text) for term in terms for text in (term.word, term.definition, *term.related))
    if characters > GLOSSARY:
        raise HTTPException(
            413,
            f"A glossary has room for {GLOSSARY:,} characters, and all terms of this one would have {characters:,}: "
            "shorten some, remove some, or make another.",
        )
