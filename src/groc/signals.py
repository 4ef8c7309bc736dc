"""Ctrl-C and a polite kill, asked for in place of being thrown at whatever is going on."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """Ctrl-C, or what is to stop a command like it."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number = number
        """The signal that this process got; 0 if none: it may have given up by itself, or with another process."""


class Interrupted(Stopped):
    """Training was stopped, and its state is saved."""


def signal_of(stop: KeyboardInterrupt) -> int:
    """By which signal a process is to end that was stopped so."""
    return (stop.number if isinstance(stop, Stopped) else 0) or signal.SIGINT


@contextmanager
def repeatable(where: str) -> Iterator[None]:
    """For commands that go on by themselves when they are given again. A polite kill, too, is an exception wherever it
    comes, between two trainings as well, so that `where` can be said: where what is done lies."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise Stopped(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        print(f"Stopped. Go on with the same command; {where}.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


class StopSignals:
    """Remembers that one came while they were heeded, so that whoever is at work can stop where that is possible. A
    second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.number = 0
        """The first that came; 0 if none did."""

    @property
    def told(self) -> bool:
        return self.number != 0

    @contextmanager
    def heeded(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # Python allows signal handlers in the main thread alone
            return
        before = {number: signal.signal(number, self._came) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self.told and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        self.number = self.number or number
