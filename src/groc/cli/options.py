"""Options that several commands take."""

from __future__ import annotations

import argparse
from typing import Any


def add_glossary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--glossary",
        action=_Once,
        metavar="FILE",
        help="words with definitions and related words (.tsv, .csv, .jsonl) to add",
    )


class _Once(argparse.Action):
    """An option that would forget what it was given first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option} was given twice: put all terms into one file")
        setattr(namespace, self.dest, values)
