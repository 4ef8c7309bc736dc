"""A line that says how far a long job is. On a terminal it is rewritten; in a log a new one comes now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


class Progress:
    """Shows `title  42%  details  3:20 left`. Nothing is shown for what takes less than a second."""

    def __init__(
        self, title: str, total: int, stream: TextIO | None = None, shown: bool = True, first: int = 0
    ) -> None:
        """`first` is how much was done before: a resumed job does not start at zero."""
        self.title, self.first = title, first
        self.total = max(total, 1)
        self.stream = stream or sys.stderr
        self.shown = shown
        self.start = self.last = time.monotonic()
        self.width = 0
        self.every = 0.5 if self.stream.isatty() else 30.0

    def __call__(self, done: int, details: Callable[[], str] = lambda: "") -> None:
        """Report that so much is done. `details` is asked now and then; it may raise, also where nothing is shown."""
        now = time.monotonic()
        if now - self.last < self.every:
            return
        self.last = now
        text = details()
        if not self.shown:
            return
        worked = max(done - self.first, 1)
        left = (now - self.start) / worked * (self.total - done)
        self._write(f"{self.title}  {100 * done / self.total:3.0f}%  {text}  {duration(left)} left")

    def close(self, line: str = "") -> None:
        """End with a line that stays (or with nothing)."""
        if self.shown and (line or self.width):
            self._write(line, last=True)

    def _write(self, line: str, last: bool = False) -> None:
        if self.stream.isatty():
            self.stream.write("\r" + line.ljust(self.width) + ("\n" if last and line else "\r" if last else ""))
            self.width = 0 if last else len(line)
        elif line:
            self.stream.write(line + "\n")
        self.stream.flush()


def duration(seconds: float) -> str:
    """h:mm:ss or m:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
