"""Write docs/api.md from the signatures and docstrings of the public names: python docs/api.py"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import groc

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API

Everything that is public: names of `groc` first, then what the methods of a model call and return. Examples are in the
[tutorial](tutorial.md). `docs/api.py` makes this page from the code.
"""
BEHIND = {
    "groc.surprisal": ("score_texts", "WordScore"),
    "groc.suggest": ("next_words", "nearest", "Suggestion"),
    "groc.generate": ("generate", "detokenise", "Generated"),
    "groc.explain": ("explain", "Explanation", "Part"),
    "groc.adaptation.caches": (
        "Unigram",
        "LocalCache",
        "UnboundedCache",
        "Interpolated",
        "Learned",
        "Joined",
        "NewWords",
        "Chain",
    ),
    "groc.text": ("tokeniser", "read_tokens", "Token"),
}
"""What stands behind the methods of a model."""
NAMED = {*groc.__all__, *itertools.chain.from_iterable(BEHIND.values())}


def page() -> str:
    public = sorted(groc.__all__, key=str.swapcase)  # functions first
    names = [("groc", name) for name in public]
    names += [(home, name) for home, inner in BEHIND.items() for name in inner if name not in public]
    links = {f"`{home}.{name}`": f"[`{home}.{name}`](#{home}{name})".replace("#groc.", "#groc") for home, name in names}
    body = "".join(part(home, name) for home, name in names)
    return HEAD + re.sub(r"`groc[\w.]+`", lambda found: links.get(found[0], found[0]), body)


def part(home: str, name: str) -> str:
    """The section of one function or class."""
    made = getattr(import_module(home), name)
    node = definition(made)
    title = f"\n## {home}.{name}\n\n"
    if isinstance(node, ast.FunctionDef):
        return f"{title}`{signature(node)}`\n\n{text(node)}"
    start = beginning(node)
    head = f"`{name}({arguments(start)})`\n\n" if start else ""
    more = f"\n{text(start)}" if start and ast.get_docstring(start) else ""
    whole = [node, *inherited(made)]
    # Something between, lest the docstring of one be taken for that of the last field of another.
    lines = [line for one in whole for line in (ast.Pass(), *one.body, *getattr(beginning(one), "body", ()))]
    return title + head + text(node) + more + fields(lines) + "".join(line for one in whole for line in members(one))


def definition(made: Any) -> ast.ClassDef | ast.FunctionDef:
    """Where a function or class stands in the code."""
    return next(
        node
        for node in ast.parse(inspect.getsource(inspect.getmodule(made) or made)).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == made.__name__
    )


def inherited(made: type) -> Iterator[ast.ClassDef]:
    """The classes that are a part of this one and have no section of their own."""
    for base in made.__mro__[1:]:
        if (
            base.__module__.startswith("groc.")
            and base.__name__ not in NAMED
            and not getattr(base, "_is_protocol", False)
        ):
            found = definition(base)
            assert isinstance(found, ast.ClassDef)
            yield found


def beginning(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((method for method in methods(node) if method.name == "__init__"), None)


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]


def members(node: ast.ClassDef) -> Iterator[str]:
    """The public methods and properties of a class, in their order."""
    for inner in methods(node):
        if not inner.name.startswith("_") and not {"overload", "setter"} & {*marks(inner)}:
            if "property" in marks(inner) or "cached_property" in marks(inner):
                head = f"{inner.name}: {ast.unparse(inner.returns)}" if inner.returns else inner.name
            else:
                head = ("classmethod " if "classmethod" in marks(inner) else "") + signature(inner)
            yield f"\n### `{head}`\n" + (f"\n{text(inner)}" if ast.get_docstring(inner) else "")


def marks(node: ast.FunctionDef) -> list[str]:
    """The names of a function's decorators."""
    return [ast.unparse(decorator).partition("(")[0].split(".")[-1] for decorator in node.decorator_list]


def fields(body: list[ast.stmt]) -> str:
    """A table of a class's fields, with the strings behind them; of attributes, those that have such a string."""
    rows = []
    for statement, after in itertools.pairwise([*body, ast.Pass()]):
        meaning = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            meaning = " ".join(str(after.value.value).split())
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            kind = ast.unparse(statement.annotation).replace("|", "\\|")
            rows.append(f"| `{statement.target.id}` | `{kind}` | {meaning} |\n")
        elif isinstance(statement, ast.Assign) and meaning:
            rows.append(f"| `{ast.unparse(statement.targets[0]).removeprefix('self.')}` | | {meaning} |\n")
    return "\n| field | type | |\n| --- | --- | --- |\n" + "".join(rows) if rows else ""


def signature(node: ast.FunctionDef) -> str:
    return f"{node.name}({arguments(node)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def arguments(node: ast.FunctionDef) -> str:
    text = ast.unparse(node.args).removeprefix("self").removeprefix("cls").removeprefix(", ")
    return text.replace("=", " = ")


def text(node: ast.FunctionDef | ast.ClassDef) -> str:
    return f"{ast.get_docstring(node) or ''}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
