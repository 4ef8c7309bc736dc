"""What a table is: rows with the paper's figures and the runs of ours that belong there; how it is printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, product
from string import ascii_uppercase
from typing import Any

from groc.paper.courses import Alike, differences, said_of_differences
from groc.paper.records import Results
from groc.paper.runs import Job, Run
from groc.report import table

Row = dict[str, Any]
NOT_RUN, NONE = "not run", "-"
"""For a person, in place of a figure: there is none yet, or there can be none. For a program both are null."""
ONE_DIGIT = ("dev", "test", "seconds", "relations", "definitions")
TIMES = ("seconds", "ratio")
"""What `groc bench` measures, not a run."""
AS_GIVEN = ("rate", "encoder rate", "clip", "average", "start")
"""Settings: no digit of them is rounded away."""


@dataclass(frozen=True)
class Cell:
    """A row to be filled: what names it, what the paper prints, and which runs of ours belong there."""

    keys: Row
    paper: Row
    job: Job | None = None
    """None: a model of others, which is not for us to train."""
    extras: tuple[str, ...] = ()
    """What the model is evaluated with, such as "coverage 0.2" or "dynamic"."""


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    place: str
    """Where it stands in the paper."""
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    cells: tuple[Cell, ...] = ()
    measure: Callable[[Results, Cell], Row] = lambda results, cell: {}
    find: Callable[[Results], list[Row]] | None = None
    """Finds the rows of a table that has no fixed cells."""
    note: str = ""
    remark: Callable[[Sequence[Row]], str] | None = None
    """Says behind the note what depends on the rows."""
    shown: tuple[str, ...] = ("runs", "seeds", "device")
    on_demand: Callable[[Row], bool] = lambda row: False
    """Rows that are for another table, and printed in this one where their model is asked for."""
    layout: Callable[[Sequence[Row]], str] | None = None
    """Prints the rows of a table that has too many to stand below each other."""
    alike: Alike | None = None
    """What rows must have in common to be compared; what one has otherwise is in its `differs`."""

    def rows(self, results: Results) -> list[Row]:
        """For a program: keys, our figures (None: not run), number of runs (None: not ours), the paper's figures."""
        if self.find is not None:
            return self.find(results)
        jobs = [cell.job for cell in self.cells if cell.job]
        rows = []
        for cell in self.cells:
            figures = self.measure(results, cell)
            if self.alike:
                found = differences(results, cell.job, jobs, self.alike) if cell.job and figures["runs"] else None
                figures["differs"] = found
            rows.append({**cell.keys, **(figures if cell.job else dict.fromkeys(figures)), "paper": cell.paper})
        return rows

    def usual(self, rows: Sequence[Row]) -> list[Row]:
        """Those to be printed where no model is asked for."""
        return [row for row in rows if not self.on_demand(row)]

    def said(self, rows: Sequence[Row], of: Sequence[Row] | None = None) -> str:
        """What stands below the rows: the note, and what depends on them; where they were picked, on all that they are
        picked of."""
        note = " ".join(filter(None, (self.note, self.remark(of or rows) if self.remark else "")))
        return "\n\n".join(filter(None, (note, self.said_of_differences(rows))))

    def said_of_differences(self, rows: Sequence[Row]) -> str:
        """Which rows cannot be compared with the others, and why."""
        return said_of_differences(rows, self.named) if self.alike else ""

    def named(self, row: Row) -> str:
        """What a row of a dataset is called in a sentence."""
        others = [key for key in self.keys if key != "dataset"]
        if "model" in others:
            return str(row["model"])
        return ", ".join(f"{key} {row[key] or 'nothing'}" for key in others)

    def markdown(self, rows: Sequence[Row], of: Sequence[Row] | None = None) -> str:
        """For a person, the paper's figures beside ours; of what rows they were picked, if they were."""
        if rows and self.layout is not None:
            return f"{self.layout(rows)}\n\n{self.said(rows, of)}".rstrip()
        letters = _letters(rows) if "device" in self.shown else {}
        facts = [name for name in self.shown if name != "device" or len(letters) > 1]
        printed = {name for row in rows for name in row.get("paper", ())}
        head, lines = [*self.keys], [[self._key(row, key) for key in self.keys] for row in rows]
        for name in self.measures:
            head += [f"{name}, paper", f"{name}, ours"] if name in printed else [name]
            for line, row in zip(lines, rows, strict=True):
                line += [shown(row["paper"].get(name), name), ours(row, name)] if name in printed else [ours(row, name)]
        for line, row in zip(lines, rows, strict=True):
            line += [letters.get(row[name], "") if name == "device" else listed(row.get(name)) for name in facts]
        head = [name.replace("_", " ") for name in (*head, *facts)]
        body = table(head, lines, names=len(self.keys)) if rows else "Not run."
        named = "; ".join(f"{letter} {device}" if len(letters) > 1 else device for device, letter in letters.items())
        devices = f"Device: {named}." if named else ""
        return "\n\n".join(filter(None, (body, devices, self.said(rows, of))))

    def _key(self, row: Row, key: str) -> str:
        """What names a row, with a mark where it cannot be compared with the others."""
        is_marked = row.get("differs") and key == ("model" if "model" in self.keys else self.keys[-1])
        value = NONE if row[key] == "" else str(row[key])
        return f"{value} *" if is_marked else value


def _letters(rows: Sequence[Row]) -> dict[str, str]:
    """A letter for each device (behind Z come AA, AB): their names are long, and most rows have the same."""
    devices = dict.fromkeys(row["device"] for row in rows if row["device"])
    letters = ("".join(some) for length in count(1) for some in product(ascii_uppercase, repeat=length))
    return dict(zip(devices, letters, strict=False))  # letters have no end


def measured(results: Results, cell: Cell) -> Row:
    """Dev and test perplexity, size, and of how many runs; not all need have been evaluated on the test text."""
    return figures_of(runs_of(results, cell), cell.extras)


def runs_of(results: Results, cell: Cell) -> list[Run]:
    """The runs of a cell; where the model is evaluated with something, only those that were."""
    runs = results.of(cell.job) if cell.job else []
    return [run for run in runs if run.test(cell.extras)] if cell.extras else runs


def figures_of(runs: Sequence[Run], extras: tuple[str, ...] = ()) -> Row:
    """What a row says of some runs; the dev text was read without extras."""
    tests = [figures for run in runs if (figures := run.test(extras)) and figures.get("perplexity") is not None]
    devs = [] if extras else [run.dev for run in runs]
    row = {**mean("dev", devs), **mean("test", [figures["perplexity"] for figures in tests])}
    row["test_runs"] = len(tests)
    read_on = sorted({figures["device"] for figures in tests if "device" in figures})  # if not where it was trained
    return {**row, **origin(runs), **({"device": f"read on: {' or '.join(read_on)}"} if read_on else {})}


def origin(runs: Sequence[Run]) -> Row:
    return {
        "parameters": runs[0].figures["parameters"] if runs else None,
        "runs": len(runs),
        "seeds": [run.seed for run in runs],
        "device": " or ".join(sorted({run.record["device"] for run in runs})),
    }


def mean(name: str, values: Iterable[float | None]) -> Row:
    """The mean, and the spread: the standard deviation over the seeds; None for one run alone."""
    known = [value for value in values if value is not None]
    spread = statistics.stdev(known) if len(known) > 1 else None
    return {name: statistics.mean(known) if known else None, f"{name}_spread": spread}


def listed(value: Any) -> str:
    """A fact about runs as a person reads it; nothing where there is none."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def ours(row: Row, name: str) -> str:
    """Our figure as a person reads it, with of how many runs it is if not of all, or why there is none."""
    if row["runs"] is None:
        return ""
    if row[name] is None:
        return "not timed" if name in TIMES else "not evaluated" if row["runs"] else NOT_RUN
    known = row.get(f"{name}_runs", row["runs"])
    part = f" ({known} of {row['runs']})" if known < row["runs"] else ""
    return shown(row[name], name, row.get(f"{name}_spread")) + part


def shown(value: Any, name: str, spread: float | None = None) -> str:
    """A value as a person reads it; nothing where there is none, and `NONE` for a number that cannot be."""
    if isinstance(value, float) and math.isnan(value):
        return NONE
    if isinstance(value, int | float) and name == "parameters":
        return f"{value / 1e6:.4g}M"
    if isinstance(value, float) and name in AS_GIVEN:
        return f"{value:g}"
    if isinstance(value, float):
        digits = 1 if name in ONE_DIGIT else 2
        return f"{value:z,.{digits}f}" + (f" ± {spread:.{digits}f}" if spread is not None else "")
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
