"""How often each sense of each lemma was met in the texts that WordNet's makers tagged with senses."""

from __future__ import annotations

import re
from pathlib import Path

from groc.lexicon.database import damaged, lines_of

_MARKER = re.compile(r"\([a-z]+\)")


def parse_counts(content: bytes, path: Path) -> dict[str, dict[str, int]]:
    """For each lemma its counts above zero, by what follows it in the sense key: `1:05:00::` of `dog%1:05:00::`.

    Takes both files that WordNet has for this: each line of `index.sense` and of `cntlist.rev` starts with a sense key
    and ends with the count. What is between, such as the sense's number, can be out of date in `cntlist.rev`.
    """
    counts: dict[str, dict[str, int]] = {}
    for line in lines_of(content, path):
        if line.endswith(" 0"):
            continue
        try:
            key, *_, count = line.split(" ")
            lemma, rest = key.split("%")
            # A head adjective's marker of position, as in afraid(p), is written in some files only.
            counts.setdefault(lemma, {})[_MARKER.sub("", rest)] = int(count)
        except ValueError:
            raise damaged(path, f"at {line!r}") from None
    return counts
