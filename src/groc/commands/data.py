"""groc data prepare: from raw text to corpus folders, and what they have in common."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from groc.errors import GrocError
from groc.files import Writer, explained, in_turn, text_writer, write_together
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
    if seed is not None and len(str(seed)) > hashlib.blake2b.MAX_KEY_SIZE:
        raise GrocError(f"--seed is too long a number: give one of at most {hashlib.blake2b.MAX_KEY_SIZE} characters.")
    found = find_sources([Path(source) for source in sources])
    if name is not None:
        if len(found) > 1:
            raise GrocError(f"--name is for one file, and there are {len(found)}: give them one at a time.")
        found = dict(zip([name], found.values(), strict=True))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise GrocError(f"{folder} is a file, so no corpus can be kept there: choose another --out.")
    for chosen in found:
        check_target(folder, chosen)
    # Nothing stands in --out before all files are prepared: if one fails, the next try finds what this one found.
    with explained(folder):
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        staging = TemporaryDirectory(prefix=".groc-", dir=nearest)
    with staging:
        staged = Path(staging.name)
        for chosen, path in found.items():
            tokenise = line_tokeniser(path, lower=lower, tokenised=tokenised, language=language)
            prepare(path, staged / chosen, budgets, tokenise, seed)
        with in_turn(folder):
            for chosen in found:
                check_target(folder, chosen)  # another process may have been first
            sets = {**find_sets(folder), **find_sets(staged)}
            figures = statistics(dict(sorted(sets.items())))
            writers = {folder / path.relative_to(staged): mover(path) for path in staged.glob("*/*")}
            write_together({folder / STATISTICS: text_writer(to_json(figures, indent=1) + "\n"), **writers})
    print(to_json({"folder": out, **figures}) if as_json else describe(figures))


def check_target(folder: Path, name: str) -> None:
    """A set is a folder directly in --out that can be seen: any other would be written, but not found again."""
    if not name.isprintable() or name != Path(name).name or name.startswith(".") or name in ("", STATISTICS):
        raise GrocError(
            f"{name!r} cannot be the name of a corpus folder in {folder}: give another with --name, without slashes "
            "and with no dot in front."
        )
    target = folder / name
    with explained(target):
        vacant = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not vacant:
        raise GrocError(f"{target} is there already: remove it, or choose another --out or --name.")


def mover(source: Path) -> Writer:
    def write(temporary: Path) -> None:
        shutil.move(source, temporary)

    return write
