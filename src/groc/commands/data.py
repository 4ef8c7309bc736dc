"""groc data prepare: from raw text to corpus folders, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from groc.errors import GrocError
from groc.files import write_text
from groc.preparing import find_sources, line_tokeniser, prepare
from groc.report import to_json
from groc.text_statistics import describe, find_sets, statistics

STATISTICS = "statistics.json"


def prepare_data(
    sources: Sequence[str],
    out: str,
    name: str | None,
    budgets: Mapping[str, int],
    lower: bool,
    tokenised: bool,
    language: str,
    seed: int | None,
    as_json: bool,
) -> None:
    if min(budgets.values()) < 0 or not any(budgets.values()):
        raise GrocError("--train, --valid and --test are numbers of tokens, 0 or more, and not all of them 0.")
    found = find_sources([Path(source) for source in sources])
    if name is not None:
        if len(found) > 1:
            raise GrocError(f"--name is for one file, and there are {len(found)}: give them one at a time.")
        found = dict(zip([name], found.values(), strict=True))
    folder = Path(out)
    for chosen, path in found.items():
        tokenise = line_tokeniser(path, lower=lower, tokenised=tokenised, language=language)
        prepare(path, folder / chosen, budgets, tokenise, seed)
    figures = statistics(find_sets(folder))
    write_text(folder / STATISTICS, to_json(figures, indent=1) + "\n")
    print(to_json({"folder": out, **figures}) if as_json else describe(figures))
