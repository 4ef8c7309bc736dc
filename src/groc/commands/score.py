"""groc score: one row a word, or the text itself shaded by surprisal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
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
    """`paths` are files, behind a run folder or not; `layout` is tsv, jsonl or text; `documents` file, line or all."""
    run, files = (paths[0], paths[1:]) if paths and Path(paths[0]).is_dir() else (None, paths)
    texts = split([read_file(Path(file)) for file in files] or [read_standard_input()], documents)
    model = open_model(run, glossary, device)
    read = [Document(model, text, tokenised=tokenised, unknown=unknown) for text in texts]
    words = sum(map(len, read))
    if not words:
        raise GrocError("There is nothing to score: give a text with a word in it.")
    progress = Progress("scoring", words)
    score_documents(model, read, progress)
    progress.close()
    numbered = documents == "line" or (documents == "file" and len(files) > 1)
    if layout == "text":
        print_text(texts, read, ends)
    else:
        print_rows(read, ends, numbered, layout)


def print_rows(documents: Iterable[Document], ends: bool, numbered: bool, layout: str) -> None:
    """A row a word, with the number of its document in front where there may be several."""
    names = ["document", *COLUMNS] if numbered else COLUMNS
    if layout == "tsv":
        print("\t".join(names))
    for number, document in enumerate(documents, 1):
        for row in document.rows(ends):
            values = (number, *VALUES(row)) if numbered else VALUES(row)
            print("\t".join(map(cell, values)) if layout == "tsv" else to_json(dict(zip(names, values, strict=True))))


def cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def print_text(texts: Iterable[str], documents: Iterable[Document], ends: bool) -> None:
    shading = Shading.of_terminal()
    print(shading.legend())
    for text, document in zip(texts, documents, strict=True):
        print(*shading.shaded(text, document.rows(ends)), sep="")


def split(texts: Sequence[str], documents: str) -> list[str]:
    """The texts of the files as documents: each its own, each of their lines, or all as one."""
    lines = [line for text in texts for line in text.removesuffix("\n").split("\n")]
    return {"file": list(texts), "line": lines, "all": ["\n".join(lines)]}[documents]


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
