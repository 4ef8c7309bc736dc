"""A text for a terminal, each word shaded by its surprisal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from groc.surprisal import WordScore

SHADES = ((0, None), (4, 230), (8, 222), (12, 215), (16, 209))
"""From so many bits on, a background of the 256 colours: none, then from pale yellow to orange red, each darker."""
BLACK, UNDERLINED, PLAIN = 16, "4", "\x1b[0m"
CONTROLS = {code: chr(0x2400 + code) for code in range(32)} | dict.fromkeys(range(127, 160), "\ufffd")
"""What could command the terminal is shown by a sign for it."""
HARMLESS = {ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""}


@dataclass(frozen=True)
class Shading:
    """How words are shown: in colour, or with their bits in brackets after them."""

    coloured: bool

    @classmethod
    def of_terminal(cls) -> Shading:
        """Coloured on a terminal, unless the user does not want any program to use colour (no-color.org)."""
        return cls(sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def legend(self) -> str:
        if not self.coloured:
            return "[surprisal in bits] after each word; * not seen in training"
        ends = [start for start, _ in SHADES[1:]]
        names = [*(f" {start}-{end} " for (start, _), end in zip(SHADES, ends, strict=False)), f" {ends[-1]}+ "]
        shades = [self._word(name, start, True) for name, (start, _) in zip(names, SHADES, strict=True)]
        return f"surprisal in bits:{''.join(shades)}  {self._word('not seen in training', 0, False)}"

    def shaded(self, text: str, rows: Iterable[WordScore]) -> Iterator[str]:
        """The text in pieces, with all that stands between its words."""
        end = 0
        for row in rows:
            yield shown(text[end : row.start])
            is_end_of_line = row.start == row.end
            yield " " * is_end_of_line
            yield self._word(shown(row.word if is_end_of_line else text[row.start : row.end]), row.surprisal, row.seen)
            end = row.end
        yield shown(text[end:]).rstrip("\n")

    def _word(self, word: str, bits: float, seen: bool) -> str:
        if not self.coloured:
            return f"{word}[{bits:.1f}{'' if seen else '*'}]"
        shade = [colour for start, colour in SHADES if bits >= start][-1]
        styles = [f"38;5;{BLACK};48;5;{shade}"] * (shade is not None) + [UNDERLINED] * (not seen)
        return f"\x1b[{';'.join(styles)}m{word}{PLAIN}" if styles else word


def shown(text: str) -> str:
    """The text with signs for what could command the terminal."""
    return text.translate(CONTROLS | HARMLESS)
