"""Columns and bars for people at a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from unicodedata import combining, east_asian_width

EIGHTHS = " ▏▎▍▌▋▊▉█"


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Cells in columns, two spaces apart; those named in `right` end where their column ends."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]

    def cell(text: str, number: int) -> str:
        space = " " * (widths[number] - width(text))
        return space + text if number in right else text + space

    return "\n".join("  ".join(cell(text, number) for number, text in enumerate(row)).rstrip() for row in rows)


def width(text: str) -> int:
    """How many places a terminal gives to the text: two to each wide character, none to what is set above another."""
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def bar(share: float, longest: int = 20) -> str:
    """A share between 0 and 1 as a bar, in eighths of a place."""
    eighths = round(share * longest * 8)
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def percentage(share: float) -> str:
    """A share between 0 and 1 in per cent: two decimals, or two digits that are not zero if it is small."""
    return f"{share:.2%}" if share >= 0.001 else f"{100 * share:#.2g}%"
