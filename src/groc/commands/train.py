"""groc train: from a recipe and a corpus to a run folder."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from groc import checkpoint
from groc.building import build
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.progress import Progress
from groc.recipe import load_recipe
from groc.report import summarise, to_json
from groc.results import RESULT, write_result
from groc.training import Interrupted, Trainer

MAY_CHANGE = ("compute.", "training.epochs", "training.save_minutes", "corpus")
"""What may differ between a run and its resumption."""


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
    if resume and not corpus:
        corpus = checkpoint.load_config(folder).corpus
    if corpus:
        config = config.replace({"corpus": corpus})
    if not config.corpus:
        raise GrocError(
            f"The recipe {recipe} needs a corpus: give --corpus DIR, a folder with train.txt, valid.txt and test.txt."
        )
    group = Group()
    try:
        figures = run(config, folder, resume, group)
    except Interrupted:
        if group.leads:
            print(f"Stopped. Go on with the same command and --resume; the state is in {folder}.", file=sys.stderr)
        raise
    if group.leads:
        if as_json:
            print(to_json({"run": str(folder), **figures}))
        else:
            print(
                f"{folder}: valid perplexity {figures['valid_perplexity']:.2f} (strict: one stream, every token) after "
                f"epoch {figures['best_epoch']}, {figures['parameters']:,} parameters. "
                f"Next: groc eval {shlex.quote(str(folder))} {shlex.quote(config.corpus)}"
            )
    group.close()


def run(config: Config, folder: Path, resume: bool, group: Group, quiet: bool = False) -> dict[str, Any]:
    """Train as the settings say and leave a checkpoint with a record of the run. Returns its figures."""
    if folder.exists() and not folder.is_dir():
        raise GrocError(f"{folder} is a file, so no run can be kept there: choose another --out.")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise GrocError(f"{folder} is not empty: add --resume to go on with that run, or choose another --out.")
    if resume:
        _check_same(config, folder)
    corpus = Corpus(config.corpus)
    text, valid_text = corpus.text("train"), corpus.text("valid")
    vocabulary = corpus.vocabulary()
    policy = choose(config.compute, group)
    torch.manual_seed(config.training.seed)
    model = build(config, vocabulary).to(policy.device)
    torch.manual_seed(config.training.seed + group.rank)  # start values alike everywhere, dropout not
    trainer = Trainer(model, config, text.ids(vocabulary), valid_text, folder, policy, group, quiet)
    if resume:
        trainer.restore()
    elif group.leads:
        checkpoint.save_start(folder, model, config)
    group.wait()
    if not resume:
        trainer.save_state()  # so that there is always something to go on from
    if not trainer.quiet:
        print(
            f"{config.name}: {model.parameter_count():,} parameters, {len(vocabulary):,} words, "
            f"{len(text):,} training tokens, {policy.describe()}",
            file=sys.stderr,
        )
    trainer.run()
    figures: dict[str, Any] = {}
    if group.leads:
        figures = _finish(trainer, folder)
    group.wait()
    return figures


def _finish(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """The strict valid figure of the kept weights, written into the checkpoint and the record of the run."""
    model, config = trainer.model, trainer.config
    model.load_state_dict(checkpoint.read_tensors(folder / checkpoint.WEIGHTS)[0])
    progress = Progress("strict valid perplexity", len(trainer.valid_ids), shown=not trainer.quiet)
    summary = summarise(trainer.score_valid(streams=1, progress=progress))
    progress.close()
    figures = {
        "valid_perplexity": summary["perplexity"],
        "valid_tokens": summary["tokens"],
        "best_epoch": trainer.position.best_epoch,
        "epochs": trainer.position.epoch,
        "steps": trainer.position.step,
        "training_seconds": round(trainer.position.seconds, 1),
        "parameters": model.parameter_count(),
        "vocabulary_parameters": model.vocabulary_parameter_count(),
    }
    checkpoint.save_facts(folder, model, config, figures)
    curve = [json.loads(line) for line in (folder / checkpoint.METRICS).read_text(encoding="utf-8").splitlines()]
    write_result(folder / RESULT, config, trainer.policy, figures, curve)
    return figures


def _check_same(config: Config, folder: Path) -> None:
    flat_before, flat_now = checkpoint.load_config(folder).flat(), config.flat()
    for key, value in flat_now.items():
        if flat_before[key] != value and not key.startswith(MAY_CHANGE):
            raise GrocError(
                f"{folder} was started with {key}={flat_before[key]}, not {value}: resume with the same settings, "
                "or choose another --out."
            )
