"""groc train: from a recipe and a corpus to a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from groc.building import build
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.recipe import given_settings, load_recipe
from groc.report import to_json
from groc.running import check_start, evaluation_command, saying_how_to_go_on, train_model, with_own_settings


def train(
    recipe: str,
    variant: str | None,
    assignments: Sequence[str],
    corpus: str | None,
    out: str | None,
    resume: bool,
    as_json: bool,
) -> None:
    config = load_recipe(recipe, variant, assignments)
    folder = Path(out) if out else Path("runs") / config.name.replace("/", "-")
    given = given_settings(assignments) | ({"corpus": corpus} if corpus else {})
    if corpus:
        config = config.replace({"corpus": corpus})
    group = Group()
    if resume:
        config = with_own_settings(config, folder, given, group)
    if not config.corpus:
        raise GrocError(
            f"The recipe {recipe} needs a corpus: give --corpus DIR, a folder with train.txt, valid.txt and test.txt."
        )
    with saying_how_to_go_on(folder, group):
        figures = run(config, folder, resume, group)
        if group.leads:
            if as_json:
                print(to_json({"run": str(folder), **figures}))
            else:
                print(
                    f"{folder}: valid perplexity {figures['valid_perplexity']:.2f} (strict: one stream, every token) "
                    f"after epoch {figures['best_epoch']}, {figures['parameters']:,} parameters. "
                    f"Next: {evaluation_command(str(folder), config.corpus)}"
                )
        group.close()


def run(config: Config, folder: Path, resume: bool, group: Group, quiet: bool = False) -> dict[str, Any]:
    """Train as the settings say and leave a checkpoint with a record of the run. Returns its figures."""
    check_start(config, folder, resume, group)
    vocabulary = Corpus(config.corpus).vocabulary()
    policy = choose(config.compute, group)
    torch.manual_seed(config.training.seed)
    model = build(config, vocabulary).to(policy.device)
    return train_model(model, config, folder, policy, group, resume=resume, quiet=quiet)
