"""groc score: one row a word, or the text itself shaded by surprisal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

from groc.commands.opening import open_model
from groc.commands.shading import Shading
from groc.corpus import raw_lines
from groc.errors import GrocError
from groc.progress import Progress
from groc.report import to_json
from groc.surprisal import Document, WordScore, score_documents

COLUMNS = [field.name for field in fields(WordScore)]
VALUES = attrgetter(*COLUMNS)
STANDARD_INPUT = "-"
UNPRINTED = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
"""What would end a cell of a table; no word holds it, but the name of a file may."""


@dataclass(frozen=True)
class Source:
    """Where a document comes from: the file as the user named it, and its number."""

    file: str
    document: int
    """Of a line in its file; of a file, or of all as one, among those that were named."""
    text: str


def show_scores(
    paths: Sequence[str],
    layout: str,
    documents: str,
    glossary: str | None,
    tokenised: bool,
    ends: bool,
    unknown: bool,
    device: str,
) -> None:
    """`paths` are files, after a run folder or not; `layout` is tsv, jsonl or text; `documents` file, line or all."""
    if "" in paths:  # a variable of a script that is not set; as a path it would be this folder
        raise GrocError("The name of a file is empty: leave it out, or name one.")
    run, files = (paths[0], paths[1:]) if paths and Path(paths[0]).is_dir() else (None, paths)
    sources = split(read_files(files or [STANDARD_INPUT]), documents)
    model = open_model(run, glossary, device)
    read = [Document(model, source.text, tokenised=tokenised, unknown=unknown) for source in sources]
    words = sum(map(len, read))
    if not words:
        raise GrocError("There is nothing to score: give a text with a word in it.")
    progress = Progress("scoring", words)
    score_documents(model, read, progress)
    progress.close()
    if layout == "text":
        print_text(sources, read, ends)
    else:
        several = len(files) > 1 and documents != "all"
        print_rows(sources, read, ends, ["file"] * several + ["document"] * (several or documents == "line"), layout)


def print_rows(
    sources: Sequence[Source], documents: Sequence[Document], ends: bool, origin: Sequence[str], layout: str
) -> None:
    """A row a word, with its `origin` in front: the fields of its source that tell it from others."""
    names = [*origin, *COLUMNS]
    if layout == "tsv":
        print("\t".join(names))
    for source, document in zip(sources, documents, strict=True):
        place = [getattr(source, name) for name in origin]
        for row in document.rows(ends):
            values = (*place, *VALUES(row))
            print("\t".join(map(cell, values)) if layout == "tsv" else to_json(dict(zip(names, values, strict=True))))


def cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).translate(UNPRINTED)


def print_text(sources: Iterable[Source], documents: Iterable[Document], ends: bool) -> None:
    shading = Shading.of_terminal()
    print(shading.legend())
    for source, document in zip(sources, documents, strict=True):
        print(*shading.shaded(source.text, document.rows(ends)), sep="")


def split(texts: Sequence[tuple[str, str]], documents: str) -> list[Source]:
    """Files, each with its name, as documents: each its own, each of their lines, or all as one."""
    if documents == "file":
        return [Source(file, number, text) for number, (file, text) in enumerate(texts, 1)]
    lines = [
        Source(file, number, line)
        for file, text in texts
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1)
    ]
    return lines if documents == "line" else [Source(texts[0][0], 1, "\n".join(line.text for line in lines))]


def read_files(names: Sequence[str]) -> list[tuple[str, str]]:
    """The files with their names, of which one may stand for the standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise GrocError(f"The standard input ({STANDARD_INPUT}) can be read once: name it once.")
    return [(name, read_standard_input() if name == STANDARD_INPUT else read_file(Path(name))) for name in names]


def read_file(path: Path) -> str:
    if not path.exists():
        raise GrocError(f"There is no file or run folder {path}: check the path.")
    try:
        return decoded(str(path), raw_lines(path))
    except OSError as error:
        raise GrocError(f"{path} cannot be read ({error.strerror}): check the path.") from None


def read_standard_input() -> str:
    if sys.stdin.isatty():
        print("Write a text; Ctrl-D on a line of its own ends it.", file=sys.stderr)
    return decoded("The standard input", sys.stdin.buffer)


def decoded(name: str, lines: Iterable[bytes]) -> str:
    text = []
    for number, line in enumerate(lines, 1):
        try:
            text.append(line.decode())
        except UnicodeDecodeError as error:
            raise GrocError(
                f"{name}, line {number} is not UTF-8 (byte {error.start + 1} of the line): convert it, for example "
                "with iconv -t UTF-8."
            ) from None
    return "".join(text).removeprefix("\ufeff")  # a byte order mark is no word
