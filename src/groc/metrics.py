"""The learning curve of a run on disk (metrics.jsonl), a line an epoch: read, and mended where it was cut."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from groc.checkpoint import METRICS
from groc.errors import GrocError
from groc.files import cut


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All rows; none where there is no file. A last line without an end is being written, or was cut by a kill: it is
    left out."""
    rows = []
    for number, line in enumerate(_content(folder).split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not (isinstance(row, dict) and {"epoch", "valid_perplexity"} <= row.keys()):
            raise GrocError(
                f"{folder / METRICS}, line {number} is damaged: restore the file from a copy, or delete it and do "
                "without the learning curve."
            )
        rows.append(row)
    return rows


def cut_metrics(folder: Path, saved: int) -> int:
    """Forget what was written after the last save of a run, and half a line. How many bytes are left comes back: fewer
    than were there at the save if some were lost, which costs a run its curve, but not what it has learned."""
    path = folder / METRICS
    left = _content(folder)[:saved].rfind(b"\n") + 1
    cut(path, left)
    read_metrics(folder)  # damage is better known now than when all epochs are done
    if left < saved:
        print(f"{path} has lost epochs that were done: the learning curve goes on without them.", file=sys.stderr)
    return left


def _content(folder: Path) -> bytes:
    path = folder / METRICS
    try:
        return path.read_bytes() if path.is_file() else b""  # a device or a pipe may have no end
    except OSError as error:
        raise GrocError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
