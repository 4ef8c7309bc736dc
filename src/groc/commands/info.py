"""groc info: what a recipe would build, or what a run holds, before a step is trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from groc import checkpoint
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.lexicon import Empty
from groc.model import LanguageModel, build
from groc.recipe import load_recipe, recipe_names, variant_names
from groc.report import table


def info(target: str, variant: str | None, assignments: Sequence[str], corpus: str | None, as_json: bool) -> None:
    facts: dict[str, Any]
    if (Path(target) / checkpoint.CONFIG).is_file():
        if variant or assignments or corpus:
            raise GrocError(
                f"{target} is a trained run: its settings are fixed, so give no variant, setting or corpus."
            )
        loaded = checkpoint.load(target, lexicon=Empty())
        model, config, facts = loaded.model, loaded.config, loaded.facts
    else:
        config, facts = load_recipe(target, variant, assignments), {}
        if not (corpus or config.corpus):
            names = ", ".join(recipe_names())
            raise GrocError(f"The size of some models depends on their words: give --corpus DIR. Recipes: {names}.")
        # Sizes do not depend on what the lexicon says, so none is needed.
        model = build(config, Corpus(corpus or config.corpus).vocabulary(), Empty(), calibrate=False)
    summary = {
        "name": config.name,
        "parameters": model.parameter_count(),
        "vocabulary_parameters": model.vocabulary_parameter_count(),
        "parts": _parts(model),
        "vocabulary": len(model.trained),
        "open": model.is_open,
        "facts": facts,
        "config": config.to_dict(),
    }
    if as_json:
        print(json.dumps(summary))
        return
    print(
        f"{config.name}: {summary['parameters']:,} parameters, {summary['vocabulary_parameters']:,} of them belong to "
        f"single words ({'open' if model.is_open else 'closed'} vocabulary); {len(model.trained):,} words"
    )
    print(table(["part", "parameters"], [[name, f"{size:,}"] for name, size in _parts(model).items()]))
    if facts:
        print(table(["fact", "value"], [[name.replace("_", " "), str(value)] for name, value in facts.items()]))
    elif variants := variant_names(target):
        print(f"variants: {', '.join(variants)}")


def _parts(model: LanguageModel) -> dict[str, int]:
    def size(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    return {
        "input embedding": size(model.input),
        "prefix network": size(model.prefix),
        "output embedding": size(model.output),
    }
