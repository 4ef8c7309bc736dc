"""groc info: what a recipe would build, or what a run holds, before a step is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from groc import checkpoint
from groc.building import build
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.lexicon import Empty
from groc.model import LanguageModel
from groc.recipe import load_recipe, variant_names
from groc.report import table, to_json


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
        config = load_recipe(target, variant, assignments)
        if corpus := corpus or config.corpus:
            # Sizes do not depend on what the lexicon says, so none is needed.
            sizes = _sizes(build(config, Corpus(corpus).vocabulary(), Empty(), calibrate=False))
        else:
            sizes = {}
        summary = {**sizes, "variants": variant_names(target), "config": config.to_dict()}
    summary["name"] = summary["config"]["name"]
    print(to_json(summary) if as_json else _for_a_person(summary))


def _sizes(model: LanguageModel) -> dict[str, Any]:
    return {
        "parameters": model.parameter_count(),
        "vocabulary_parameters": model.vocabulary_parameter_count(),
        "parts": _parts(model),
        "vocabulary": len(model.trained),
        "open": model.is_open,
    }


def _for_a_person(summary: dict[str, Any]) -> str:
    blocks = []
    if "parameters" in summary:
        kind = "open" if summary["open"] else "closed"
        own = summary["vocabulary_parameters"]
        blocks += [
            f"{summary['name']}: {summary['parameters']:,} parameters, {own:,} of them belong to single words "
            f"({kind} vocabulary); {summary['vocabulary']:,} words",
            table(["part", "parameters"], [[part, f"{size:,}"] for part, size in summary["parts"].items()]),
        ]
    else:
        blocks.append(
            f"{summary['name']}: give --corpus DIR to see its size, which depends on the words for some models."
        )
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


def _parts(model: LanguageModel) -> dict[str, int]:
    def size(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    return {
        "input embedding": size(model.input),
        "prefix network": size(model.prefix),
        "output embedding": size(model.output),
    }
