"""Show what the kernels of a training step take on a GPU, one by one.

    python bench/step_kernels.py [--size "penn, words alone"] [--model "groc, characters"] [--out FILE] [--json]

`groc bench` says how long a step takes and how that splits into encoder, prefix network, softmax and optimiser. This
says what bounds them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from groc.benchmark import MODELS, OTHERS, SIZES, WARM_UP, made_trainer, rewind, timed
from groc.errors import GrocError
from groc.files import check_file, write_text
from groc.report import table, to_json
from groc.results import circumstances

STEPS, PROFILED = 40, 5
NAME = 90
"""Characters of a kernel's name that are shown."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="penn, words alone", choices=SIZES)
    parser.add_argument("--model", default="groc, characters", choices=[*MODELS, *OTHERS])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("kernels are those of a GPU, and there is none here")
    try:
        show(options)
    except GrocError as error:
        parser.error(str(error))


def show(options: argparse.Namespace) -> None:
    if options.out:
        check_file(options.out)
    with (
        tempfile.TemporaryDirectory() as folder,
        made_trainer(SIZES[options.size], options.model, "cuda", [], Path(folder)) as trainer,
    ):

        def step() -> float:
            rewind(trainer)
            return timed(trainer.step, trainer.policy)

        times = [step() for _ in range(WARM_UP["cuda"] + STEPS)][WARM_UP["cuda"] :]
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            for _ in range(PROFILED):
                step()
        events = sorted(profiled.key_averages(), key=lambda event: -event.self_device_time_total)
        kernels = [
            {
                "name": event.key[:NAME],
                "microseconds": event.self_device_time_total / PROFILED,
                "launches": event.count / PROFILED,
            }
            for event in events
        ]
        record = {
            **circumstances(trainer.policy),
            "size": options.size,
            "model": options.model,
            "step_ms": statistics.median(times),
            "kernels_ms": sum(kernel["microseconds"] for kernel in kernels) / 1000,
            "kernels": kernels,
        }
    if options.out:
        write_text(options.out, to_json(record, indent=1) + "\n")
    if options.json:
        print(to_json(record))
        return
    rows = [[kernel["name"], f"{kernel['microseconds']:.1f}", f"{kernel['launches']:g}"] for kernel in kernels]
    print(f"{options.size}, {options.model}: a step {record['step_ms']:.3f} ms, kernels {record['kernels_ms']:.3f} ms")
    print(table(["kernel", "µs a step", "launches"], rows))


if __name__ == "__main__":
    main()
