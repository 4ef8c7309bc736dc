"""What a command prints: in UTF-8 wherever it runs, and one sentence where it cannot be written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from groc.files import FULL

READER_WENT_AWAY = 141
"""The exit status that shells give to a program whose output nobody reads any more (head, less)."""


def printing(work: Callable[[], int]) -> int:
    """Do what prints something; its exit status comes back."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a program that calls this one may have put something else there
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:  # the user may have closed it
                sys.stdout.flush()  # now, while what is wrong can still be said
    except BrokenPipeError:
        _drop_the_rest()
        return READER_WENT_AWAY
    except OSError as error:
        if error.errno not in FULL:
            raise
        _drop_the_rest()
        what = error.filename or "The output"
        print(f"groc: {what} cannot be written ({error.strerror}): free some space and run again.", file=sys.stderr)
        return 1


def _drop_the_rest() -> None:
    """Python would try to write what is left of the output when it ends, and complain."""
    with suppress(AttributeError, io.UnsupportedOperation):  # where the output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
