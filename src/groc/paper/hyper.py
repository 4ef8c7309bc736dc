"""The settings behind a cell: the columns of the table of hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groc.building import USES_CHARACTERS
from groc.paper import published as printed
from groc.paper.courses import course
from groc.paper.records import Results
from groc.paper.runs import Run
from groc.paper.searches import searched, searches_of, untried
from groc.paper.table import Cell, Row, figures_of

DROPOUT_SITES = ("word", "input", "hidden", "weight", "output")
SETTINGS = (
    "prefix", "surface", "output", "start", "dropout", "rate", "encoder rate", "clip", "schedule", "average", "batch",
    "streams", "epochs",
)  # fmt: skip
"""The columns of the table of hyper-parameters."""


def hyper_parameters(results: Results, cell: Cell) -> Row:
    """The settings of a cell's runs, and how they were searched."""
    assert cell.job is not None
    runs = results.of(cell.job)
    return {
        **(_settings(runs[0]) if runs else dict.fromkeys(SETTINGS)),
        "trials": sum(len(search["trials"]) for search in searches_of(results, cell.job)),
        "searched": searched(results, cell.job),
        "untried": untried(results, cell.job),
        **figures_of(runs),
    }


def _settings(run: Run) -> Row:
    """Those that recipes and variants differ in, by the names of the columns."""
    output, prefix, training = (
        {key.removeprefix(part): value for key, value in run.settings.items() if key.startswith(part)}
        for part in ("output.", "prefix.", "training.")
    )
    own = {name for one in printed.HYPER.values() for name in one[run.settings["output.kind"]]}
    if output["mixtures"] > 1:
        own |= {"mixtures", "mixture_dropout"}
    return {
        "prefix": _prefix(run.settings),
        "surface": _surface(run.settings),
        "output": listed({name: value for name, value in output.items() if name in own}),
        "start": run.settings["model.start"],
        "dropout": "/".join(f"{prefix[f'{site}_dropout']:g}" for site in DROPOUT_SITES),
        "rate": training["rate"],
        "encoder rate": training["encoder_rate"],
        "clip": training["clip"],
        **course(run),
    }


def _prefix(settings: Mapping[str, Any]) -> str:
    """The sizes from words to words."""
    dim, hidden = settings["model.dim"], settings["prefix.hidden"]
    sizes = [dim, *[hidden] * (settings["prefix.layers"] - 1), dim]
    gates = f", {settings['prefix.gate_rounds']} rounds of gates" if settings["prefix.gate_rounds"] else ""
    return "-".join(map(str, sizes)) + gates


def _surface(settings: Mapping[str, Any]) -> str:
    """What words are composed of; nothing where they have vectors of their own."""
    if settings["output.kind"] not in USES_CHARACTERS:
        return ""
    if settings["surface.kind"] == "cnn":
        return f"filters {'/'.join(map(str, settings['surface.filters']))}"
    shortest, longest, rows, rank = (
        settings[f"surface.{name}"] for name in ("shortest_ngram", "longest_ngram", "buckets", "rank")
    )
    return f"{shortest}- to {longest}-grams, {rows:,} x {rank}"


def listed(values: Row) -> str:
    """Names and values in one column; of a list all its values."""
    return ", ".join(f"{k} {'/'.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in values.items())
