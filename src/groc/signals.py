"""Ctrl-C and a polite kill, asked for in place of being thrown at whatever is going on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals(asked: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """For a while both signals call this function."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows signal handlers in the main thread alone
        return
    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
