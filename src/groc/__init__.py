"""GroC: a word-level language model whose vocabulary is data, not parameters."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from groc.errors import GrocError
    from groc.lexicon import Glossary, Lexicon, WordNet
    from groc.model import LanguageModel
    from groc.scoring import Scores, score
    from groc.vocabulary import Vocabulary

__version__ = "0.1.0"
__all__ = ["Glossary", "GrocError", "LanguageModel", "Scores", "Vocabulary", "WordNet", "load", "score"]

_HOMES = {
    "Glossary": "groc.lexicon",
    "GrocError": "groc.errors",
    "LanguageModel": "groc.model",
    "Scores": "groc.scoring",
    "Vocabulary": "groc.vocabulary",
    "WordNet": "groc.lexicon",
    "score": "groc.scoring",
}


def load(run: Path | str | None = None, device: str = "cpu", lexicon: Lexicon | None = None) -> LanguageModel:
    """A trained model from its folder, ready to use; without one, the bundled small model.

    New words are looked up in `lexicon`, or else where the model's own settings say, if that is there.
    """
    from groc import checkpoint

    loaded = checkpoint.load(run, device, lexicon)
    if loaded.warning:
        warnings.warn(loaded.warning, stacklevel=2)
    return loaded.model


def __getattr__(name: str) -> Any:
    # Public names are imported when first used, so that `groc --help` does not wait for PyTorch.
    if name not in _HOMES:
        raise AttributeError(f"module 'groc' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
