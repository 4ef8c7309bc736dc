"""From an inflected word to the base forms under which WordNet may list it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ENDINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
"""For each part of speech, endings of inflected words and what takes their place in the base form."""


def base_forms(word: str, part_of_speech: str, exceptions: Mapping[str, Sequence[str]]) -> list[str]:
    """The word itself, then its possible base forms; whether they exist is for the caller to see.

    Irregular forms come from `exceptions` and then stand alone. Otherwise each rule is applied once, as NLTK does
    today: applied again and again, as older versions did, they make "weiss" a form of "wei".
    """
    irregular = exceptions.get(word)
    if irregular is not None:
        forms = irregular
    else:
        forms = [word.removesuffix(old) + new for old, new in ENDINGS[part_of_speech] if word.endswith(old)]
    return list(dict.fromkeys([word, *forms]))
