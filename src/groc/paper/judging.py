"""A claim, the comparisons that speak for it or against it, and the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from groc.paper.courses import made_otherwise
from groc.paper.table import Row

Verdict = bool | str
"""Whether a comparison speaks for a claim, or why it says nothing."""
NEAR, ONE_SEED, OTHERWISE, UNPAIRED = "too near", "with one seed only", "trained otherwise", "not word by word"
HOLDS, FAILS, OPEN = "holds", "does not hold in these runs", "open"
FEW = 10
"""Comparisons that are named; of more their number is."""
SPREADS = 2
"""Over seeds: what differs by no more times the largest that is known is not told apart."""


@dataclass(frozen=True)
class Claim:
    text: str
    verdict: str
    """Empty where a figure is told, and judged by nobody."""
    why: str


def markdown(claims: Sequence[Claim]) -> str:
    """A table with a line a claim. Cells are not padded: the longest would make all lines as long."""
    lines = [(claim.text, f"**{claim.verdict}**" if claim.verdict else "", claim.why) for claim in claims]
    return "\n".join(["| claim | verdict | why |", "| --- | --- | --- |", *(f"| {' | '.join(one)} |" for one in lines)])


def judge(text: str, found: Mapping[str, Verdict], cells: int, figures: Sequence[str] = ()) -> Claim:
    """It fails with one comparison that speaks against it, and holds when all of so many speak for it. Comparisons are
    named by what they are made with."""
    assert len(found) <= cells, (text, *found)
    told = {name: verdict for name, verdict in found.items() if isinstance(verdict, bool)}
    verdict = FAILS if not all(told.values()) else HOLDS if len(told) == cells else OPEN
    silent: defaultdict[str, list[str]] = defaultdict(list)
    for name, one in found.items():
        if isinstance(one, str):
            silent[one].append(name)
    why = [f"true in {sum(told.values())} of {len(told)} comparisons"] if told and cells > 1 else []
    if cells > 1 and (against := [name for name, speaks in told.items() if not speaks]):
        why.append(f"not: {_named(against)}")
    why += [f"{reason}: {_named(names)}" if cells > 1 else reason for reason, names in silent.items()]
    if missing := cells - len(found):
        why.append(f"{missing} not run" if found else "not run")
    return Claim(text, verdict, "; ".join(filter(None, [*why, *figures])))


def _named(names: Sequence[str]) -> str:
    return ", ".join(name.partition(", ")[0] for name in names) if len(names) <= FEW else f"{len(names)} of them"


def largest_spread(rows: Iterable[Row], figure: str) -> float | None:
    """Over seeds, of any of the rows that are compared: most have too few seeds to know their own."""
    return max((row[f"{figure}_spread"] for row in rows if row[f"{figure}_spread"] is not None), default=None)


def is_lower(one: Row, other: Row, figure: str, spread: float | None) -> Verdict:
    """Whether a perplexity is lower than another, where they differ by more than seeds do. A rival with another course
    of training can speak against a model, but not for it; where one has more around its embeddings they say nothing of
    each other. (`differs` is what a row has otherwise than GroC, so two rows with the same are trained alike.)"""
    lower = bool(one[figure] < other[figure])
    if made_otherwise(one["differs"], other["differs"]) or (
        lower and (one["differs"] or {}) != (other["differs"] or {})
    ):
        return OTHERWISE
    if spread is None:
        return ONE_SEED
    return lower if abs(one[figure] - other[figure]) > SPREADS * spread else NEAR
