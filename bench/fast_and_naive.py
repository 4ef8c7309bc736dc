"""Train GroC twice from the same start, fast and naively, and show how far the losses come apart.

    python bench/fast_and_naive.py RECIPE --corpus DIR [--variant NAME] [--steps 200] [--out FILE] [--json] [key=value]

Fast is what `groc train` does on this machine: compiled, recorded and in bfloat16 where there is a GPU. Naive is the
encoder as one would first write it (`groc.naive`), in float32, every kernel launched by itself. Without dropout, so
that both see the same.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from groc.benchmark import rewind
from groc.building import build
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.files import check_file, write_text
from groc.naive import embed_naively
from groc.progress import Progress
from groc.recipe import load_recipe
from groc.report import table, to_json
from groc.results import circumstances, settings
from groc.training import Trainer

GROUP = 20
"""Losses are shown in means of so many steps."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("settings", nargs="*", metavar="key=value")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--variant")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, help="a file for the record")
    parser.add_argument("--json", action="store_true", help="print the record for a program")
    options = parser.parse_intermixed_args()
    if options.steps < GROUP or options.steps % GROUP:
        parser.error(f"--steps is a multiple of {GROUP}")
    try:
        compare(options)
    except GrocError as error:
        parser.error(str(error))


def compare(options: argparse.Namespace) -> None:
    if options.out:
        check_file(options.out)
    given = load_recipe(options.recipe, options.variant, options.settings)
    if given.output.kind != "groc" or given.training.sample:
        raise GrocError("The naive encoder is GroC's, for all words in each step: take such a variant, and no sample.")
    still = [key for key, value in given.flat().items() if key.endswith("dropout") and value]
    config = given.replace({**dict.fromkeys(still, 0.0), "training.average": 0.0, "corpus": options.corpus})
    plain = {"compute.bf16": "no", "compute.compile": "no", "compute.graphs": "no"}
    naive = losses(config.replace(plain), options, naive=True)
    fast = losses(config, options, naive=False)
    apart = (fast - naive).abs().max().item()
    record = {
        **circumstances(choose(config.compute)),
        "recipe": config.name,
        "steps": options.steps,
        "settings": settings(config),
        "naive": naive.tolist(),
        "fast": fast.tolist(),
        "apart": apart,
    }
    if options.out:
        write_text(options.out, to_json(record, indent=1) + "\n")
    if options.json:
        print(to_json(record))
        return
    pairs = enumerate(zip(naive.tolist(), fast.tolist(), strict=True))
    rows = [[f"{GROUP * i + 1} to {GROUP * (i + 1)}", f"{a:.4f}", f"{b:.4f}", f"{b - a:+.4f}"] for i, (a, b) in pairs]
    print(table(["steps", "naive", "fast", "apart"], rows))
    print(f"{config.name}, {record['device']}: never more than {apart:.4f} nats apart")


def losses(config: Config, options: argparse.Namespace, naive: bool) -> Tensor:
    """Mean losses of groups of steps."""
    corpus, policy = Corpus(config.corpus), choose(config.compute)
    torch.manual_seed(config.training.seed)
    model = build(config, corpus.vocabulary()).to(policy.device)
    ids = corpus.text("train").ids(model.vocabulary)
    progress, found = Progress("naive" if naive else "fast", options.steps), []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, config, ids, corpus.text("valid"), Path(folder), policy, Group(), quiet=True)
        if naive:
            trainer.embed = partial(embed_naively, model, model.forms)
        model.train()
        for step in range(0, options.steps, GROUP):
            before, words = trainer.losses.mean(), trainer.position.words
            for _ in range(GROUP):
                rewind(trainer)
                trainer.step()
            read = (trainer.position.words - words) / config.training.batch
            found.append((trainer.losses.mean() - before).item() / read)
            progress(step + GROUP)
    progress.close()
    return torch.tensor(found)


if __name__ == "__main__":
    main()
