"""Time one training step of tied and GroC models on made-up words, and print the ratio to the tied model.

    python bench/step.py [--words 2000] [--steps 10] [--json]

The models take turns, so that a busy moment of the machine hits all of them; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch

from groc.compute import Group, choose
from groc.corpus import Corpus
from groc.lexicon import Glossary
from groc.building import build
from groc.recipe import load_recipe
from groc.report import table
from groc.training import Trainer

MODELS = {
    "tied": ["output.kind=tied"],
    "groc, n-grams": ["output.kind=groc", "surface.kind=ngrams"],
    "groc, characters": ["output.kind=groc", "surface.kind=cnn", "surface.filters=16,16,32,32"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainers = {name: make_trainer(settings, options.words, Path(folder)) for name, settings in MODELS.items()}
        times: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(options.steps + 2):
            for name, trainer in trainers.items():
                milliseconds = time_step(trainer)
                if turn >= 2:  # the first two warm up
                    times[name].append(milliseconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    rows = {name: {"ms": median, "ratio_to_tied": median / medians["tied"]} for name, median in medians.items()}
    if options.json:
        print(json.dumps(rows))
    else:
        cells = [[name, f"{row['ms']:.1f}", f"{row['ratio_to_tied']:.2f}"] for name, row in rows.items()]
        print(table([f"tiny recipe, {options.words:,} words", "ms a step", "ratio to tied"], cells))


def make_trainer(settings: list[str], words: int, folder: Path) -> Trainer:
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 12))) for _ in range(words)]
    if not (folder / "train.txt").exists():
        lines = [" ".join(draw.choices(vocabulary, k=20)) for _ in range(words)] + vocabulary
        for split in ("train", "valid"):
            (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    glossary = Glossary(
        {word: (" ".join(draw.choices(vocabulary, k=8)), draw.choices(vocabulary, k=3)) for word in set(vocabulary)}
    )
    config = load_recipe("tiny", None, settings)
    corpus, group = Corpus(folder), Group()
    policy = choose(config.compute, group)
    model = build(config, corpus.vocabulary(), glossary).to(policy.device)
    trainer = Trainer(
        model, config, corpus.text("train").ids(model.vocabulary), corpus.text("valid"), folder, policy, group
    )
    model.train()
    return trainer


def time_step(trainer: Trainer) -> float:
    if trainer.position.at + trainer.options.unroll >= len(trainer.streams):
        trainer.position.at = 0  # the text again from its start
    start = time.perf_counter()
    trainer.step()
    if trainer.policy.device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    main()
