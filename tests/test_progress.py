"""How far a long job is, and how long it still takes."""

from __future__ import annotations

import io
import time

import pytest

from groc.progress import Progress


@pytest.mark.parametrize("first", [0, 40])
def test_the_time_left_is_that_of_what_is_left(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes a minute, what was done before it was resumed took none of it, and all steps count."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    progress = Progress("job", 50, stream, first=first)
    for done in range(first + 1, 51):
        now += 60
        progress(done)
    left = [line.rpartition("  ")[2] for line in stream.getvalue().splitlines()]
    assert left[-3:] == ["2:00 left", "1:00 left", "0:00 left"]
    assert len(left) == 50 - first
    assert left[0] == ("49:00 left" if first == 0 else "9:00 left")
