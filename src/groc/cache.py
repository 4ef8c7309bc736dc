"""Where GroC keeps what it can fetch or compute again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """GROC_CACHE, or `groc` in the user's cache folder. It may not exist yet."""
    if chosen := os.environ.get("GROC_CACHE"):
        return Path(chosen).expanduser()
    if user_caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(user_caches) / "groc"
    return Path.home() / ".cache" / "groc"
