"""From raw text to tokens: Moses rules, as in the paper's data, and optional lower-casing."""

from __future__ import annotations

from collections.abc import Callable


def tokeniser(language: str = "en", lower: bool = False) -> Callable[[str], list[str]]:
    """A function that splits one line of raw text by Moses's rules (without escaping of special characters)."""
    from sacremoses import MosesTokenizer  # here, because training on tokenised text must not need it

    moses = MosesTokenizer(lang=language)

    def tokenise(line: str) -> list[str]:
        tokens: list[str] = moses.tokenize(line, escape=False)
        return [token.lower() for token in tokens] if lower else tokens  # the rules look at capitals: lower-case last

    return tokenise
