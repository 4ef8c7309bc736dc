"""The terms of a glossary file: JSON lines, or a table with tabs or commas."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from groc.errors import GrocError

WHITE_SPACE = " \t\n\r\v\f"
"""Of ASCII alone, as in texts: a no-break space can be a word."""
QUOTED = r'"(?:[^"]|"")*"'
"""A cell in quotation marks."""
WHOLE_CELLS = re.compile(rf'(?:(?:{QUOTED}|[^",][^,]*|),)*')
"""The cells of a row that a comma ends."""
SEMICOLONS = (
    "a semicolon stands where columns should be separated by commas (.csv) or tabs (.tsv); a term that holds one goes "
    "into a .jsonl file"
)
TABS = "a tab stands where columns should be separated by commas: name a file with tabs .tsv"
EXAMPLES = {
    ".jsonl": '{"word": "stent", "definition": "a small tube", "related": ["tube", "pipe"]}',
    ".tsv": "stent<TAB>a small tube<TAB>tube;pipe",
    ".csv": "stent,a small tube,tube;pipe",
}
"""A line of each kind of file."""


class Term(NamedTuple):
    """One term. The names of its fields are the keys and columns of the files."""

    word: str
    definition: str = ""
    related: tuple[str, ...] = ()

    def problem(self) -> str:
        """Why the term cannot be used; empty if it can."""
        if not self.word.strip(WHITE_SPACE):
            return "its word is empty"
        if not all(word.strip(WHITE_SPACE) for word in self.related):
            return "one of its related words is empty"
        try:
            "".join((self.word, self.definition, *self.related)).encode()
        except UnicodeEncodeError:
            return "it holds half a character (a lone surrogate)"
        return ""


def read_terms(path: Path) -> Iterator[Term]:
    """All terms of the file; the first thing wrong with it is an error that names the line."""
    if path.suffix == ".jsonl":
        numbered_terms = _json_terms(path)
    elif path.suffix in (".tsv", ".csv"):
        numbered_terms = _table_terms(path)
    else:
        raise GrocError(f"{path} is not a glossary by its name: use a .jsonl, .tsv or .csv file.")
    first_lines: dict[str, int] = {}
    for number, term in numbered_terms:
        with _naming_line(path, number):
            if problem := term.problem():
                raise ValueError(problem)
            if term.word in first_lines:
                raise ValueError(f"the term {term.word!r} was there before, in line {first_lines[term.word]}")
        first_lines[term.word] = number
        yield term
    if not first_lines:
        raise GrocError(
            f"The glossary {path} holds no term: give each a line with its word, definition and related words, such as "
            f"{EXAMPLES[path.suffix]}"
        )


def _json_terms(path: Path) -> Iterator[tuple[int, Term]]:
    for number, line in _numbered_lines(path):
        if line.strip():
            with _naming_line(path, number):
                term = _term_of_json(line)
            yield number, term


def _term_of_json(line: str) -> Term:
    try:
        record = json.loads(line, object_pairs_hook=_with_each_key_once)
    except (json.JSONDecodeError, RecursionError):  # or it is nested thousands deep
        raise ValueError("this is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("this is not a JSON object")
    if "term" in record and "word" not in record:  # as in the header of a table, either name will do
        record["word"] = record.pop("term")
    if unknown := sorted(record.keys() - set(Term._fields)):
        raise ValueError(f"{unknown[0]!r} is not a key of a glossary: the keys are {', '.join(Term._fields)}")
    told = {key: value for key, value in record.items() if value is not None}  # programs write null for nothing
    if "word" not in told:
        raise ValueError("it has no word")
    word, definition, related = told["word"], told.get("definition", ""), told.get("related", [])
    for key, value in (("word", word), ("definition", definition)):
        if not isinstance(value, str):
            raise ValueError(f"its {key} must be a string, as in {EXAMPLES['.jsonl']}")
    if not isinstance(related, list) or not all(isinstance(item, str) for item in related):
        raise ValueError(f"its related words must be a list of strings, as in {EXAMPLES['.jsonl']}")
    return Term(word, definition, tuple(related))


def _with_each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if (key := first_repeated(key for key, _ in pairs)) is not None:
        raise ValueError(f"the key {key!r} stands there twice")
    return dict(pairs)


def first_repeated(keys: Iterable[str]) -> str | None:
    """The first key that was there before."""
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _table_terms(path: Path) -> Iterator[tuple[int, Term]]:
    columns: Sequence[str] = Term._fields
    for position, (number, cells) in enumerate(_numbered_rows(path)):
        with _naming_line(path, number):
            if ";" in cells[0].strip(";"):
                raise ValueError(SEMICOLONS)
            if path.suffix == ".csv" and "\t" in cells[0]:
                raise ValueError(TABS)
            if position == 0 and _is_header(cells):
                _check_header(cells)
                columns = columns[: len(cells)]
                continue
            term = _term_of_cells(cells, columns)
        yield number, term


def _numbered_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its first line."""
    lines: list[str] = []
    """Those of the row that is being read."""

    def remembered() -> Iterator[str]:
        for _, line in _numbered_lines(path):
            lines.append(line + "\n")
            yield lines[-1]

    if path.suffix == ".tsv":  # quotation marks mean nothing there
        rows = csv.reader(remembered(), delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(remembered(), strict=True)
    first = 1
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield first, cells
            first += len(lines)
            lines.clear()
    except csv.Error as problem:
        raise _broken_cell(path, first, "".join(lines), str(problem)) from None


def _broken_cell(path: Path, first: int, row: str, problem: str) -> GrocError:
    """What the reader of tables stumbled over, perhaps many lines behind the quotation mark that is at fault."""
    whole = WHOLE_CELLS.match(row)
    begin = whole.end() if whole else 0
    if re.match(f"{QUOTED};", row):
        problem = SEMICOLONS
    elif "\r" in row:
        problem = "a carriage return stands alone in it: save the file with the line ends of Unix or Windows"
    elif row.startswith('"', begin):
        problem = (
            "a quotation mark opens a cell here, and none closes it before a comma or the end of a line "
            '(within a cell write "" for one)'
        )
    elif "field limit" in problem:
        problem = f"a cell has more than {csv.field_size_limit():,} characters: a .jsonl file takes longer ones"
    return _broken(path, first + row.count("\n", 0, begin), problem)


def _is_header(cells: list[str]) -> bool:
    """Whether a row names columns, if perhaps in a wrong order: a table of nothing but its first column is a list."""
    first, *others = (cell.lower() for cell in cells)
    return first in ("word", "term") or any(name in (*Term._fields, "term") for name in others)


def _check_header(cells: list[str]) -> None:
    word, *others = (cell.lower() for cell in cells)
    if word not in ("word", "term") or tuple(others) != Term._fields[1 : len(cells)]:
        raise ValueError(f"the columns must be {', '.join(Term._fields)}, in this order")


def _term_of_cells(cells: list[str], columns: Sequence[str]) -> Term:
    if len(cells) > len(Term._fields):
        raise ValueError(f"there are {len(cells)} columns, but only {', '.join(Term._fields)} have a meaning")
    if any(cells[len(columns) :]):
        raise ValueError(f"there are {len(cells)} columns, but the line of column names has only {', '.join(columns)}")
    word, definition, related = (*cells, "", "")[:3]
    return Term(word, definition, tuple(item.strip() for item in related.split(";") if item.strip()))


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GrocError(f"Cannot read the glossary {path}: {error.strerror}.") from None
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise _broken(path, number, "this is not UTF-8") from None
        yield number, text.removesuffix("\r")


@contextmanager
def _naming_line(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as problem:
        raise _broken(path, number, str(problem)) from None


def _broken(path: Path, number: int, problem: str) -> GrocError:
    return GrocError(f"Line {number} of the glossary {path} cannot be used: {problem}.")
