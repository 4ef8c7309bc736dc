"""Shapes: what a value of a record must be, and the places where one is not.

A shape is one of these:

- a `Kind`: a number, a text, ...
- `{"key": shape, "other?": shape}`: an object; a key with `?` may be missing, and keys that are not named may be there
- `[shape]`: a list of such values
- `Each(shape)`: an object with such values, whatever their keys are
- `(shape, ...)`: all of these; a function among them makes a shape of a value that has all shapes before it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isclose, log
from typing import Any

Shape = Any
LONGEST = 40
"""Characters that are shown of a value."""
MISSING = object()
"""In place of a value that is not there: it has no shape, not even that of null."""


@dataclass(frozen=True)
class Kind:
    """What a value must be, in words that go behind "must be", and a test of it."""

    words: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    shape: Shape


def misfits(value: Any, shape: Shape, where: str) -> Iterator[str]:
    """Each place where a value does not have a shape, with what should be there."""
    if isinstance(shape, Kind):
        if not shape.fits(value):
            yield _misfit(value, shape.words, where)
    elif isinstance(shape, tuple):
        for part in shape:
            found = list(misfits(value, part(value) if callable(part) else part, where))
            yield from found
            if found:
                return
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield _misfit(value, "a list", where)
            return
        for number, item in enumerate(value):
            yield from misfits(item, shape[0], f"{where}[{number}]")
    elif not isinstance(value, dict):
        yield _misfit(value, "an object", where)
    elif isinstance(shape, Each):
        for key, item in value.items():
            yield from misfits(item, shape.shape, f"{where}[{key!r}]")
    else:
        for key, part in shape.items():
            name = key.removesuffix("?")
            if name in value or name == key:
                yield from misfits(value.get(name, MISSING), part, f"{where}.{name}" if where else name)


def _misfit(value: Any, words: str, where: str) -> str:
    """What is wrong with a value that is not what it must be."""
    if value is MISSING:
        return f"lacks {where} ({words})"
    if isinstance(value, list | dict):  # too long to be shown
        return f"{where} must be {words}"
    text = json.dumps(value)
    return f"{where} must be {words}, not {text if len(text) <= LONGEST else text[:LONGEST] + '...'}"


def _is_number(value: Any) -> bool:
    """Neither infinite nor too large for a float, as a whole number can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_log(loss: Any, perplexity: float) -> bool:
    """Whether a loss is that of a perplexity, as far as records are rounded."""
    return _is_number(loss) and isclose(loss, log(perplexity), abs_tol=1e-3)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


TEXT = Kind("text", lambda value: isinstance(value, str))
YES_OR_NO = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a finite number", _is_number)
POSITIVE = Kind("a finite number above 0", lambda value: _is_number(value) and value > 0)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number from 0", lambda value: _is_whole(value) and value >= 0)
PERPLEXITY = Kind("a finite number from 1", lambda value: _is_number(value) and value >= 1)
UNKNOWN_OR_PERPLEXITY = Kind("a finite number from 1 or null", lambda value: value is None or PERPLEXITY.fits(value))
UNKNOWN_OR_NUMBER = Kind("a finite number or null", lambda value: value is None or _is_number(value))
"""Records have null for what is infinite or cannot be."""
NUMBER_OR_TEXT = Kind("a finite number or text", lambda value: isinstance(value, str) or _is_number(value))
FILLED = Kind("filled", bool)
