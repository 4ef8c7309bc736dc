"""groc paper: the paper's tables with its numbers and ours."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from groc.config import nearest_hint
from groc.errors import GrocError
from groc.files import check_folder
from groc.paper import TABLES, Results
from groc.paper.claims import HOW_NEAR, TITLE, all_claims
from groc.paper.figures import FIGURES, check_figure, draw
from groc.paper.judging import markdown as table_of_claims
from groc.paper.searches import different_budgets
from groc.paper.table import NONE, Row, Table
from groc.report import table as markdown
from groc.report import to_json
from groc.signals import repeatable

if TYPE_CHECKING:  # what trains is loaded where it is needed
    from groc.paper.place import Place

MOST_SEEDS = 100
"""More tell nothing that these do not."""
OPEN = ("cross-domain", "domains", "held-out")
"""Tables with an open vocabulary that can be run."""
CLAIMS = "claims"
"""No table of the paper, but what follows from them."""
ALL_OF = "+*"
"""Behind the name of a model: all of its rows."""
USELESS = {"data": ("model", "seeds", "settings"), "domains": ("dataset", "model", "seeds"), "held-out": ("dataset",)}
"""What makes no difference to how some tables are run."""


def paper(
    name: str | None,
    results: str,
    figure: str | None,
    run: bool,
    corpora: str | None,
    runs: str | None,
    seeds: int | None,
    only: Mapping[str, Sequence[str]],
    settings: Sequence[str],
    as_json: bool,
) -> None:
    if Path(results).is_file():
        raise GrocError(f"{results} is a file: name the folder of results with --results DIR.")
    is_plain = not (figure or run or settings or corpora or runs or seeds is not None or any(only.values()))
    if name is None:
        if not is_plain:
            raise GrocError(f"Say which table: {', '.join(FIGURES if figure else TABLES)}.")
        _list(Results(Path(results)), as_json)
        return
    if name == CLAIMS:
        if not is_plain:
            raise GrocError(
                "groc paper claims judges what is recorded, and takes --results and --json alone: to add to the "
                f"records, say groc paper TABLE --run, where TABLE is one of {', '.join(TABLES)}."
            )
        _show_claims(Results(Path(results)), as_json)
        return
    if name not in TABLES:
        if mine := _with(name):
            raise GrocError(f"{name} of the paper is in groc paper {' and in groc paper '.join(mine)}.")
        raise GrocError(
            f"There is no table {name!r}.{nearest_hint(name.lower(), [*TABLES, CLAIMS])} "
            f"Choose from {', '.join(TABLES)}, or {CLAIMS}."
        )
    if seeds is not None and seeds < 1:
        raise GrocError(f"--seeds is how many seeds are trained, 1 or more, not {seeds}.")
    if seeds is not None and seeds > MOST_SEEDS:
        raise GrocError(f"--seeds {seeds} is more than anybody needs: at most {MOST_SEEDS}.")
    table = TABLES[name]
    diverged: list[str] = []
    if figure:
        if not run and any(only.values()):
            raise GrocError("A figure shows all rows: leave out --dataset and --model.")
        check_figure(name, figure)
    if run:
        if not corpora:
            raise GrocError("--run needs --corpus-root DIR, the folder that holds the corpora (docs/data.md).")
        _check_use(name, {**only, "seeds": seeds, "settings": settings})
        if damaged := Results(Path(results), quiet=True).damaged:
            raise GrocError(f"{damaged[0]}, and what it holds might be run again: mend it or take it away.")
        runs = runs or "runs"
        for folder in (results, runs):
            check_folder(Path(folder))
        # Evaluations print reports, but here the table alone is the output.
        where = f"runs are kept in {runs}, records in {results}"
        with redirect_stdout(sys.stderr), repeatable(where):
            from groc.paper.place import Place

            place = Place(Path(results), Path(corpora), Path(runs))
            if name in OPEN:
                from groc.paper.opening import run_open

                run_open(name, place, only["dataset"], only["model"], seeds or 1, settings)
            else:
                diverged = _run_cells(table, place, seeds or 1, only, settings)
    elif corpora or runs or seeds is not None:
        raise GrocError("--seeds, --runs and --corpus-root are for what is run: give --run with them.")
    elif settings:
        raise GrocError(f"{settings[0]} is for training: give it together with --run.")
    found = Results(Path(results))
    if figure:
        print(f"Picture: {draw(name, found, Path(figure))}", file=sys.stderr)
    every = table.rows(found)
    rows = every if run else _picked(table, every, only)
    if name == "hyper-parameters":
        for line in different_budgets(found):
            print(line, file=sys.stderr)
    if as_json:
        about = {"table": name, "title": table.title, "paper": table.place, "note": table.said(rows, every)}
        print(to_json({**about, "rows": rows}))
    else:
        printed = rows if only["model"] and not run else table.usual(rows)
        print(f"{table.title} ({table.place or 'Not'} of the paper)\n\n{table.markdown(printed, every)}")
        if name in FIGURES and not figure and any(row["runs"] for row in rows):
            command = ["groc", "paper", name, "--results", results, "--figure", f"{name}.png"]
            print(f"\nAs a figure: {shlex.join(command)}")
    if diverged:
        raise GrocError(f"These diverged, and fill no cell: {', '.join(diverged)}.")


def _picked(table: Table, rows: Sequence[Row], only: Mapping[str, Sequence[str]]) -> list[Row]:
    """Those of the datasets (or domains, whatever part of them was read) and models that are named (`groc+*`: all rows
    of a model)."""
    picked = list(rows)
    for option, names in only.items() if rows else ():  # else nothing is recorded, which is what is said
        key = "domain" if option == "dataset" and "domain" in table.keys else option
        _check_names(table, option, names, [_called(row, key) for row in rows])
        picked = [row for row in picked if not names or {*names} & {*_called(row, key)}]
    if rows and not picked:
        raise GrocError(f"groc paper {table.name} has no row of such a --dataset and --model: leave one out.")
    return picked


def _called(row: Row, key: str) -> list[str]:
    """By what names a row can be picked."""
    if key not in row:
        return []
    name = str(row[key])
    return [name.partition(", ")[0]] if key == "domain" else [name, f"{re.split('[+,]', name)[0]}{ALL_OF}"]


def _check_names(
    table: Table, option: str, names: Sequence[str], called: Sequence[Sequence[str]], wanted: str = ""
) -> None:
    """Refuse names that none of its rows is called by; names with spaces are shown as they must be typed."""
    known = dict.fromkeys(name for mine in called for name in mine)
    if wrong := [name for name in names if name not in known]:
        plain = [shlex.quote(name) for name in known if not name.endswith(ALL_OF)]
        choices = f"choose from {', '.join(plain)}" if plain else f"leave out --{option}"
        raise GrocError(f"groc paper {table.name} has no {option} {' or '.join(wrong)}{wanted}: {choices}.")


def _show_claims(results: Results, as_json: bool) -> None:
    claims = all_claims(results)
    if as_json:
        rows = [{"claim": claim.text, "verdict": claim.verdict or None, "why": claim.why} for claim in claims]
        print(to_json({"table": CLAIMS, "title": TITLE, "paper": "", "note": HOW_NEAR, "rows": rows}))
    else:
        print(f"{TITLE}\n\n{table_of_claims(claims)}\n\n{HOW_NEAR}")


def _check_use(name: str, given: Mapping[str, object]) -> None:
    """What is given and makes no difference to a table would be taken for heeded."""
    for option in USELESS.get(name, ()):
        if given[option]:
            what = "key=value" if option == "settings" else f"--{option}"
            raise GrocError(f"{what} makes no difference to groc paper {name} --run: leave out {what}.")


def _with(place: str) -> list[str]:
    """Our names of what the paper calls Table 2, or the list of tables Tables 2 and 9."""

    def numbered(text: str) -> set[tuple[str, str]]:
        kind = text.strip().lower()[:5]
        return {(kind, number) for number in re.findall(r"\d+", text) if kind in ("table", "figur")}

    return [table.name for table in TABLES.values() if numbered(place) & numbered(table.place)]


def _run_cells(
    table: Table, place: Place, seeds: int, only: Mapping[str, Sequence[str]], settings: Sequence[str]
) -> list[str]:
    """Train what is missing; the names of runs that diverged."""
    from groc.paper.running import run_missing

    ours = [cell for cell in table.cells if cell.job]
    if not ours:
        raise GrocError(
            f"groc paper {table.name} is filled by what other tables run: say groc paper cross-domain --run."
        )
    for key, names in only.items():
        _check_names(table, key, names, [_called(cell.keys, key) for cell in ours], " to run")
    cells = [
        cell for cell in ours if all(not names or {*names} & {*_called(cell.keys, key)} for key, names in only.items())
    ]
    if not cells:
        raise GrocError(f"groc paper {table.name} has no cell with such a --dataset and --model: leave one out.")
    return run_missing(table, cells, place, seeds, settings)


def _list(results: Results, as_json: bool) -> None:
    tables = [
        {
            "table": table.name,
            "title": table.title,
            "paper": table.place,
            "figure": table.name in FIGURES,
            **count(table, results),
        }
        for table in TABLES.values()
    ]
    if as_json:
        print(to_json({"tables": tables}))
        return
    lines = [
        [
            str(row["table"]),
            str(row["title"]),
            f"{row['paper'] or 'not in it'}{', figure' if row['figure'] else ''}",
            f"{row['run']} of {row['cells']}" if TABLES[str(row["table"])].cells else str(row["run"]),
        ]
        for row in tables
    ]
    lines.append([CLAIMS, TITLE, "not in it", NONE])
    print(markdown(["groc paper", "what it shows", "in the paper", "cells with runs"], lines, names=3))
    print("\nA number alone is of a table that has no fixed cells: it shows whatever was run. Of frequency, rows count")
    print("whose models were compared word by word.")


def count(table: Table, results: Results) -> dict[str, int]:
    """How many cells there are for us to fill, and how many have runs; of comparisons, those word by word."""
    rows = [row for row in table.rows(results) if row["runs"] is not None]
    return {"cells": len(rows), "run": sum(row["runs"] > 0 and row.get("of", "paired") == "paired" for row in rows)}
