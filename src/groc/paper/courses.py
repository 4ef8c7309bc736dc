"""The course of training: what rows must have in common to be compared, and where they have not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groc.paper.records import Results
from groc.paper.runs import VARIED, Job, Run, in_use

MADE_OF = ("prefix.gate_rounds", "output.mixtures")
"""What may be built around any output embedding, and makes perplexity lower whichever it is."""
Alike = Callable[[Run], dict[str, Any]]
"""Of a run, by name, all that must be the same in rows that are compared."""
COURSE = {
    f"training.{name}"
    for name in (
        "epochs", "batch", "unroll", "random_unroll", "rotate_streams", "schedule", "final_rate", "patience", "decay",
        "average",
    )
}  # fmt: skip
"""The settings behind `course`."""
DEFINITION = (
    "The course of training is how long and in which steps a model is trained: its epochs, its batch (streams x "
    "words), whether streams are rotated (begin at another place in every epoch), the schedule by which the rate falls "
    "(to a share of it) and the decay of the average of weights (0: none). Dropout and rates are each model's own."
)
OF_COURSE, OTHERS = "These had another course of training", "These were trained with other settings"


def course(run: Run) -> dict[str, Any]:
    """How long and in which steps a model was trained, by the names of the columns of `groc paper hyper-parameters`.
    Rates and dropout are no part of it: they are tuned for each model."""
    training = {key.removeprefix("training."): run.settings[key] for key in COURSE}
    plateau = f"plateau, x{training['decay']:g} after {training['patience']} epochs without gain"
    return {
        "schedule": f"cosine to {100 * training['final_rate']:.4g}%" if training["schedule"] == "cosine" else plateau,
        "average": training["average"],
        "batch": f"{training['batch']} x {'about ' if training['random_unroll'] else ''}{training['unroll']}",
        "streams": "rotated" if training["rotate_streams"] else "fixed",
        "epochs": training["epochs"],
    }


def comparable(run: Run) -> dict[str, Any]:
    """What output embeddings must have in common to be compared: the course of training, and what is around them."""
    return {**course(run), **{key: run.settings[key] for key in MADE_OF}}


def all_but(*apart: str) -> Alike:
    """For ablations: the course of training and all other settings, but for what tables vary and those named here."""
    left_out = {*VARIED, *apart, *COURSE}

    def alike(run: Run) -> dict[str, Any]:
        others = {key: value for key, value in in_use(run.settings).items() if key not in left_out}
        return {**course(run), **others}

    return alike


def differences(results: Results, job: Job, jobs: Sequence[Job], alike: Alike) -> dict[str, str]:
    """What a row has otherwise than GroC of the same corpus and size (in the table's own row, if it has one) or, where
    that was not run, than the first of a table's rows that was."""
    same_place = [one for one in jobs if (one.dataset, one.set) == (job.dataset, job.set)]
    groc = next((one for one in same_place if one.variant == "groc"), Job(job.dataset, "groc", set=job.set))
    found = (results.of(one) for one in (groc, *same_place))
    run, other = results.of(job)[0], next(filter(None, found))[0]
    mine, theirs = alike(run), alike(other)
    return {
        key: f"{_told(mine.get(key))} ({other.variant}: {_told(theirs.get(key))})"
        for key in {**mine, **theirs}
        if mine.get(key) != theirs.get(key)
    }


def made_otherwise(mine: Mapping[str, str] | None, others: Mapping[str, str] | None = None) -> bool:
    """Whether one of two rows has more around its embeddings, by what they have otherwise than GroC."""
    return any((mine or {}).get(part) != (others or {}).get(part) for part in MADE_OF)


def said_of_differences(rows: Sequence[dict[str, Any]], name: Callable[[dict[str, Any]], str]) -> str:
    """Which rows cannot be compared with the others, and why; nothing where all can."""
    groups: defaultdict[str, defaultdict[tuple[str, str], dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for row in (row for row in rows if row["differs"]):
        kind = OF_COURSE if any("." not in key for key in row["differs"]) else OTHERS  # these have a dotted name
        what = ", ".join(f"{key} {value}" for key, value in row["differs"].items())
        groups[kind][row["dataset"], what][name(row)] = None
    if not groups:
        return ""
    said = "Rows marked `*` are not to be compared with the others."
    for kind in (kind for kind in (OF_COURSE, OTHERS) if kind in groups):
        some = (f"on {dataset} {', '.join(names)}, with {what}" for (dataset, what), names in groups[kind].items())
        said += f" {kind}: {'; '.join(some)}."
    return f"{said} {DEFINITION}" if OF_COURSE in groups else said


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "/".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
