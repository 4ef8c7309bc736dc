"""Time how long it takes until new words with definitions can be predicted, or others are gone, in a model with many
words.

    python bench/adding_words.py [--words 100000] [--device cpu] [--out FILE] [--json]

From the call to vectors that a prefix can be scored with: forms are looked up, and what is new is composed. Models
are of the `penn` recipe, with start values, since their time does not depend on these. On a busy machine set
OMP_WAIT_POLICY=PASSIVE, as the command line does: else threads that wait keep a core from those that work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groc.benchmark import made_forms
from groc.building import build
from groc.compute import choose
from groc.config import Compute
from groc.errors import GrocError
from groc.files import check_file, write_text
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.recipe import load_recipe
from groc.report import table, to_json
from groc.results import circumstances
from groc.vocabulary import END, Vocabulary

VARIANTS = {"characters": "groc-characters", "n-grams": "groc"}
TIMES = 50
MANY = 1000
TIMES_MANY = 5
DEFINING = 2000
"""Words that all definitions are made of."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=100_000, help=f"words of the model (at least {DEFINING:,})")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    parser.add_argument("--out", type=Path, help="a file for the record")
    parser.add_argument("--json", action="store_true", help="print the record for a program")
    options = parser.parse_args()
    if options.words < DEFINING:
        parser.error(f"--words is at least {DEFINING}: of so many words the definitions are made")
    try:
        run(options)
    except GrocError as error:
        parser.error(str(error))


def run(options: argparse.Namespace) -> None:
    if options.out:
        check_file(options.out)
    policy = choose(Compute(device=options.device))
    waits = {"omp_wait_policy": os.environ.get("OMP_WAIT_POLICY")}
    record: dict[str, Any] = {**circumstances(policy), **waits, "words": options.words, "many": MANY, "models": {}}
    forms = made_forms(options.words, options.words, np.random.default_rng(1))
    words = (END, *(forms.string(i) for i in range(1, options.words)))
    for name, variant in VARIANTS.items():
        config = load_recipe("penn", variant, [])
        glossary = Glossary({words[1]: ("a thing", ())})
        model = build(config, Vocabulary(words, [1] * len(words)), glossary, calibrate=False).to(policy.device).eval()
        model.embeddings  # noqa: B018 (what a loaded model has composed already)
        record["models"][name] = times(model, words)
    if options.out:
        write_text(options.out, to_json(record, indent=1) + "\n")
    if options.json:
        print(to_json(record))
        return
    rows = [[name, *(f"{value:.1f}" for value in row.values())] for name, row in record["models"].items()]
    head = ["one word, ms", f"{MANY:,} words, ms", "one redefined, ms", "one removed, ms"]
    print(table([f"{options.words:,} words, {policy.describe()}", *head], rows))


def times(model: LanguageModel, words: tuple[str, ...]) -> dict[str, float]:
    """Medians, each change on top of the last. New words are others each time: one that is there would be redefined."""
    one = [terms(words, f"neologism{i}", 1) for i in range(TIMES)]
    many = [terms(words, f"{i}coinage", MANY) for i in range(TIMES_MANY)]
    changes: dict[str, list[Callable[[], None]]] = {
        "one_ms": [partial(model.add_words, glossary) for glossary in one],
        "many_ms": [partial(model.add_words, glossary) for glossary in many],
        "redefined_ms": [partial(model.add_words, glossary) for glossary in one[:TIMES_MANY]],
        "removed_ms": [partial(model.remove_words, list(glossary)) for glossary in one[:TIMES_MANY]],
    }
    return {name: statistics.median(milliseconds(model, change) for change in some) for name, some in changes.items()}


def terms(words: tuple[str, ...], name: str, count: int) -> Glossary:
    """Made-up words with definitions of eight words each."""
    pick = np.random.default_rng(count).integers(1, DEFINING, (count, 8))
    return Glossary({f"{name}{i}": (" ".join(words[at] for at in row), ()) for i, row in enumerate(pick)})


@torch.no_grad()
def milliseconds(model: LanguageModel, change: Callable[[], None]) -> float:
    """Milliseconds until the vectors are there."""
    start = time.perf_counter()
    change()
    model.embeddings  # noqa: B018
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    main()
