"""Where WordNet's database files may be on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from groc.cache import cache_folder
from groc.errors import GrocError
from groc.lexicon.database import PARTS_OF_SPEECH

REQUIRED_FILES = [f"{kind}.{name}" for kind in ("data", "index") for name in PARTS_OF_SPEECH.values()]


def find_folder(path: str | Path | None = None) -> Path | None:
    """The path if given, else GROC_WORDNET if set, else the first of the usual places with WordNet in it.

    A folder that the user named and that is not WordNet's is an error: another one would be a surprise.
    """
    if path is not None:
        return _named(Path(path), "given as WordNet folder (a glossary ends in .tsv, .csv or .jsonl)")
    if chosen := os.environ.get("GROC_WORDNET"):
        return _named(Path(chosen), "set as GROC_WORDNET")
    return next((folder for folder in _usual_places() if not missing_files(folder)), None)


def cached_folder() -> Path:
    """Where `groc lexicon install` puts WordNet."""
    return cache_folder() / "wordnet"


def missing_files(folder: Path) -> list[str]:
    # A pathlib.Path would raise an error where a folder is closed to this user.
    return [name for name in REQUIRED_FILES if not os.path.isfile(folder / name)]


def _named(folder: Path, how: str) -> Path:
    folder = folder.expanduser()
    if missing := missing_files(folder):
        raise GrocError(f"{folder}, {how}, has no file {missing[0]}: give a folder with WordNet's database files.")
    return folder


def _usual_places() -> Iterator[Path]:
    for folder in _nltk_data_folders():
        yield folder / "corpora" / "wordnet"
    yield Path("/usr/share/wordnet")
    yield cached_folder()


def _nltk_data_folders() -> Iterator[Path]:
    for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep):
        if folder:
            yield Path(folder).expanduser()
    yield Path.home() / "nltk_data"
    for prefix in (Path(sys.prefix), Path("/usr"), Path("/usr/local")):
        yield prefix / "nltk_data"
        yield prefix / "share" / "nltk_data"
        yield prefix / "lib" / "nltk_data"
