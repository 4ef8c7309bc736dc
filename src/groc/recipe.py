"""Recipes: settings from a TOML file, then one of its variants, then key=value pairs, each over the one before it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from groc.config import Config, flatten, nearest_hint
from groc.errors import GrocError


def recipe_names() -> list[str]:
    folder = resources.files("groc") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_recipe(recipe: str, variant: str | None = None, assignments: Iterable[str] = ()) -> Config:
    """A recipe by its name, or the path of a TOML file; one of its variants; then key=value pairs."""
    text, name = _recipe_text(recipe)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GrocError(f"The recipe {recipe} is not valid TOML: {error}.") from None
    variants = _variants(table, recipe)
    config = Config(name=name).replace(flatten(table))
    if variant is not None:
        if variant not in variants:
            raise GrocError(
                f"The recipe {name} has no variant {variant!r}.{nearest_hint(variant, variants)} "
                f"It has: {', '.join(variants) or 'none'}."
            )
        config = config.replace({"name": f"{name}/{variant}", **flatten(variants[variant])})
    return config.replace(given_settings(assignments))


def given_settings(assignments: Iterable[str]) -> dict[str, str]:
    """What key=value pairs say, by key."""
    return dict(_split(assignment) for assignment in assignments)


def variant_names(recipe: str) -> list[str]:
    return list(_variants(tomllib.loads(_recipe_text(recipe)[0]), recipe))


def _variants(table: dict[str, Any], recipe: str) -> dict[str, dict[str, Any]]:
    variants = table.pop("variants", {})
    if not isinstance(variants, dict) or not all(isinstance(variant, dict) for variant in variants.values()):
        raise GrocError(
            f"The recipe {recipe} has variants that are not tables: write [variants.NAME] and its settings."
        )
    return variants


def _recipe_text(recipe: str) -> tuple[str, str]:
    if recipe.endswith(".toml"):
        try:
            return Path(recipe).read_text(encoding="utf-8"), Path(recipe).stem
        except (OSError, UnicodeDecodeError) as error:
            raise GrocError(f"The recipe {recipe} cannot be read: {error}.") from None
    if recipe not in recipe_names():
        raise GrocError(
            f"There is no recipe {recipe!r}.{nearest_hint(recipe, recipe_names())} "
            f"Choose from {', '.join(recipe_names())}, or give the path of a .toml file."
        )
    return (resources.files("groc") / "recipes" / f"{recipe}.toml").read_text(encoding="utf-8"), recipe


def _split(assignment: str) -> tuple[str, str]:
    key, equals, value = assignment.partition("=")
    if not equals:
        raise GrocError(f"{assignment!r} is not a setting: write key=value, for example training.rate=0.002.")
    if key.strip() == "corpus":  # every command that takes one would have two
        raise GrocError(f"{assignment!r} is no key=value setting: give it with --corpus, or as --help says.")
    return key.strip(), value.strip()
