"""What the commands for daily use share: a model, with the words of a glossary if one is given."""

from __future__ import annotations

import sys
from pathlib import Path

from groc import checkpoint
from groc.compute import choose
from groc.config import Compute
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel


def open_model(run: str | None, glossary: str | None = None, device: str = "cpu") -> LanguageModel:
    """The model of a run folder, or the small one that comes along; what a user must know of it goes to stderr."""
    if run is not None and not Path(run).is_dir():
        raise GrocError(f"There is no run folder {run!r}: give the folder that 'groc train' wrote.")
    loaded = checkpoint.load(run, choose(Compute(device=device)).device)
    if loaded.warning:
        print(loaded.warning, file=sys.stderr)
    if glossary is not None:
        loaded.model.add_words(Glossary.read(glossary))
    return loaded.model
