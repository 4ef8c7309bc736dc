"""One short string for the content of a lexicon."""

from __future__ import annotations

import hashlib


def fingerprint(*parts: str | bytes) -> str:
    """A hash of the parts in their order; no other list of parts has the same."""
    hasher = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        # The length comes first, so that ("ab", "c") and ("a", "bc") differ.
        hasher.update(b"%d:" % len(content))
        hasher.update(content)
    return hasher.hexdigest()
