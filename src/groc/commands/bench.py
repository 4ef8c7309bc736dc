"""groc bench: what a training step costs, as a ratio to the tied model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from groc.benchmark import MODELS, OTHERS, SIZES, WHOLE, Timing, time_models, to_record
from groc.compute import choose
from groc.config import Compute
from groc.errors import GrocError
from groc.files import check_folder, write_text
from groc.progress import Progress
from groc.report import table, to_json
from groc.results import circumstances

GIVEN = ("output.kind", "surface.kind", "training.sample", "training.full_updates")
"""Settings that sizes and models are made of."""


def bench(
    sizes: Sequence[str], models: Sequence[str], steps: int, device: str, settings: Sequence[str], out: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    for kind, given, known in (("size", sizes, SIZES), ("model", models, {**MODELS, **OTHERS})):
        if unknown := [name for name in given if name not in known]:
            raise GrocError(f"There is no {kind} {unknown[0]!r} to time: choose from {', '.join(map(repr, known))}.")
    if steps < 1:
        raise GrocError(f"--steps is how many steps are timed, not {steps}: give 1 or more.")
    for setting in settings:
        if setting.partition("=")[0] in GIVEN:
            raise GrocError(f"{setting} is for a size or a model to say: choose one with --size and --model.")
    if out:
        check_folder(Path(out).parent)
    first, *others = {**MODELS, **OTHERS}
    chosen = [first, *(name for name in others if name in (models or MODELS))]
    record = {**circumstances(choose(Compute(device=device))), "settings": list(settings), "steps": steps, "sizes": {}}
    on_gpu = choose(Compute(device=device)).device.type == "cuda"
    for name in sizes or list(SIZES)[: None if on_gpu else 1]:  # the larger ones take long on a CPU
        possible = [model for model in chosen if not (SIZES[name].sample and model in WHOLE)]
        progress = Progress(f"timing {name}", steps)
        timings = time_models(SIZES[name], possible, steps, device, list(settings), progress)
        progress.close()
        record["sizes"][name] = to_record(SIZES[name], timings)
        if not as_json:
            print(_table(name, timings), end="\n\n")
        if out:
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
            f"{timing.memory:,.0f}" if timing.memory is not None else "",
            *(f"{part:.2f}" for part in (timing.encoder, timing.prefix, timing.softmax, timing.optimiser)),
        ]
        for timing in timings
    ]  # fmt: skip
    columns = [head, "ms a step", "ratio to tied", "words/s", "MB", "encoder", "prefix", "softmax", "optimiser"]
    return table(columns, rows)
