"""Options that several commands take."""

from __future__ import annotations

import argparse
from typing import Any


def add_glossary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--glossary",
        action=Once,
        instead="put all terms into one file",
        metavar="FILE",
        help="words with definitions and related words (.tsv, .csv, .jsonl) to add",
    )


class Once(argparse.Action):
    """An option that would forget what it was given first."""

    def __init__(self, *args: Any, instead: str = "leave one out", **options: Any) -> None:
        super().__init__(*args, **options)
        self.instead = instead

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option} was given twice: {self.instead}")
        setattr(namespace, self.dest, values)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result for a program")
