"""groc bench: what a training step costs, as a ratio to the tied model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from groc.benchmark import MODELS, OTHERS, SIZES, WARM_UP, WHOLE, Timing, time_models, to_record, work_of
from groc.compute import choose, device_name, told_by_torchrun
from groc.errors import GrocError
from groc.files import check_file, write_text
from groc.progress import Progress
from groc.recipe import load_recipe
from groc.report import table, to_json
from groc.results import circumstances

GIVEN = {
    "output.kind": "--model",
    "surface.kind": "--model",
    "training.sample": "--size 100k or 1m, which have a sample,",
    "training.full_updates": "--model 'groc, frozen'",
    "training.random_unroll": "training.unroll, one length for all steps that are compared,",
    "compute.device": "--device",
    "corpus": "--size, words and texts that are made up,",
}
"""Settings that are not for a bench to vary, and what to choose in their place."""


def bench(
    sizes: Sequence[str], models: Sequence[str], steps: int, device: str, settings: Sequence[str], out: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    if (processes := told_by_torchrun("WORLD_SIZE", 1)) > 1:
        raise GrocError(
            f"groc bench times one process, and WORLD_SIZE says that {processes} run: start it without torchrun."
        )
    for kind, given, known in (("size", sizes, SIZES), ("model", models, {**MODELS, **OTHERS})):
        if unknown := [name for name in given if name not in known]:
            raise GrocError(f"There is no {kind} {unknown[0]!r} to time: choose from {', '.join(map(repr, known))}.")
    if steps < 1:
        raise GrocError(f"--steps is how many steps are timed, not {steps}: give 1 or more.")
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if key in GIVEN:
            raise GrocError(f"{setting} is not for a bench to vary: choose {GIVEN[key]} in its place.")
        if key.startswith("forms.") and key != "forms.centred" and not key.endswith("_dropout"):
            raise GrocError(f"{setting} changes nothing here: the words of a bench and their forms are made up.")
    first, *others = {**MODELS, **OTHERS}
    chosen = [first, *(name for name in others if name in (models or MODELS))]
    policy = choose(load_recipe("penn", None, [*settings, f"compute.device={device}"]).compute)
    if policy.device.type not in WARM_UP:
        raise GrocError(f"groc bench knows how to time {' and '.join(WARM_UP)}, not {device!r}: give --device cpu.")
    about = circumstances(policy) | {"device": device_name(policy.device)}  # how it was computed is said of each model
    record = {**about, "settings": list(settings), "steps": steps, "sizes": {}}
    if out is not None:
        check_file(Path(out))
    for name in sizes or list(SIZES)[: None if policy.device.type == "cuda" else 1]:  # larger ones take long on a CPU
        without = [model for model in chosen if SIZES[name].sample and model in WHOLE]
        if without:
            print(f"{name} draws words, so it is not timed with {' and '.join(without)}.", file=sys.stderr)
        possible = [model for model in chosen if model not in without]
        progress = Progress(f"timing {name}", work_of(len(possible), steps, policy.device.type))
        timings = time_models(SIZES[name], possible, steps, device, list(settings), progress)
        progress.close()
        record["sizes"][name] = to_record(SIZES[name], timings)
        if not as_json:
            print(_table(name, timings), end="\n\n")
        if out is not None:
            write_text(Path(out), to_json(record, indent=1) + "\n")
    if as_json:
        print(to_json(record))


def _table(name: str, timings: list[Timing]) -> str:
    size = SIZES[name]
    drawn = f", {size.sample:,} drawn a step" if size.sample else ""
    head = f"{size.words:,} words, {size.strings:,} strings{drawn}"
    rows = [
        [
            timing.model, f"{timing.step:.2f}", f"{timing.ratio:.2f}", f"{timing.words_per_second:,.0f}",
            f"{timing.held:,.0f}", f"{timing.memory:,.0f}",
            *(f"{part:.2f}" for part in (timing.encoder, timing.prefix, timing.softmax, timing.optimiser)),
        ]
        for timing in timings
    ]  # fmt: skip
    parts = ["encoder", "prefix", "softmax", "optimiser"]
    return table([head, "ms a step", "ratio to tied", "words/s", "MB held", "MB a step", *parts], rows)
