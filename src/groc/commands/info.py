"""groc info: what a recipe would build, or what a run holds, before a step is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from groc import checkpoint
from groc.building import build
from groc.config import Config, nearest_hint
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.lexicon import Empty
from groc.model import LanguageModel
from groc.nn.input import has_words
from groc.recipe import load_recipe, recipe_names, variant_names
from groc.report import table, to_json
from groc.vocabulary import END, Vocabulary


def info(target: str, variant: str | None, assignments: Sequence[str], corpus: str | None, as_json: bool) -> None:
    summary: dict[str, Any]
    if (Path(target) / checkpoint.CONFIG).is_file():
        if variant or assignments or corpus:
            raise GrocError(
                f"{target} is a trained run: its settings are fixed, so give no variant, setting or corpus."
            )
        loaded = checkpoint.load(target, lexicon=Empty())
        summary = {**_sizes(loaded.model), "facts": loaded.facts, "config": loaded.config.to_dict()}
    else:
        if not target.endswith(".toml") and target not in (names := recipe_names()):
            raise GrocError(
                f"{target!r} is neither a recipe nor a run.{nearest_hint(target, names)} Recipes are "
                f"{', '.join(names)} and .toml files; a run is a folder that 'groc train' wrote."
            )
        config = load_recipe(target, variant, assignments)
        corpus = corpus or config.corpus
        vocabulary = Corpus(corpus).vocabulary() if corpus else Vocabulary([END])
        # Sizes do not depend on what the lexicon says, so none is needed.
        model = build(config, vocabulary, Empty(), calibrate=False)
        summary = {**_sizes(model, bool(corpus)), "variants": variant_names(target), "config": config.to_dict()}
    summary["name"] = summary["config"]["name"]
    print(to_json(summary) if as_json else _for_a_person(summary))


def _sizes(model: LanguageModel, words_are_known: bool = True) -> dict[str, Any]:
    """How many parameters there are; None for what depends on words that are not known yet."""
    parts = {"input embedding": model.input, "prefix network": model.prefix, "output embedding": model.output}
    all_known = words_are_known or model.is_open
    return {
        "parameters": model.parameter_count() if all_known else None,
        "vocabulary_parameters": model.vocabulary_parameter_count() if all_known else None,
        "parts": {
            name: None if has_words(part) and not words_are_known else _size(part) for name, part in parts.items()
        },
        "vocabulary": len(model.trained) if words_are_known else None,
        "open": model.is_open,
    }


def _size(part: nn.Module) -> int:
    return sum(parameter.numel() for parameter in part.parameters())


def _for_a_person(summary: dict[str, Any]) -> str:
    kind = "open" if summary["open"] else "closed"
    if summary["parameters"] is None:
        head = f"give --corpus DIR to see the sizes that depend on the words ({kind} vocabulary)"
    else:
        own = summary["vocabulary_parameters"]
        head = f"{summary['parameters']:,} parameters, {own:,} of them belong to single words ({kind} vocabulary)"
    if summary["vocabulary"] is not None:
        head += f"; {summary['vocabulary']:,} words"
    parts = [[part, "with --corpus" if size is None else f"{size:,}"] for part, size in summary["parts"].items()]
    blocks = [f"{summary['name']}: {head}", table(["part", "parameters"], parts)]
    settings = Config.from_dict(summary["config"]).flat().items()
    blocks.append(table(["setting", "value"], [[key, _shown(value)] for key, value in settings if key != "name"]))
    if summary.get("facts"):
        facts = [[fact.replace("_", " "), _shown(value)] for fact, value in summary["facts"].items()]
        blocks.append(table(["fact", "value"], facts))
    if summary.get("variants"):
        blocks.append(f"variants: {', '.join(summary['variants'])}")
    return "\n".join(blocks)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
