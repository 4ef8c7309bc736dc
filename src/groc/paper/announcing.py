"""Saying which runs are about to be trained, before that takes hours."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from groc.compute import choose
from groc.config import Config
from groc.corpus import Corpus
from groc.results import RESULT

HOUR = 7_000_000
"""Tokens on which two CPU cores train a model of Penn's size in about an hour (results/bench-cpu-penn.json)."""


def announce(planned: Mapping[str, Config], runs: Path) -> None:
    """Name what is still to be trained, by the names of run folders. A `*` stands for what is not known yet."""
    missing = {name: config for name, config in planned.items() if not any(runs.glob(f"{name}/{RESULT}"))}
    if not missing:
        return
    print(f"To be trained in {runs} (Ctrl-C loses nothing: the same command goes on):", file=sys.stderr)
    for name, config in missing.items():
        epochs = config.training.epochs
        print(f"  {name}: {Path(config.corpus).name}, {epochs} epoch{'s' * (epochs != 1)}", file=sys.stderr)
    on_cpu = [config for config in missing.values() if choose(config.compute).device.type == "cpu"]
    lengths = {corpus: len(Corpus(corpus).text("train")) for corpus in {config.corpus for config in on_cpu}}
    tokens = sum(config.training.epochs * lengths[config.corpus] for config in on_cpu)
    if tokens > HOUR:
        print(
            f"There is no GPU in use, and training reads {tokens:,} tokens in all: this takes hours, if not days.",
            file=sys.stderr,
        )
