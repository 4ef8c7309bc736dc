"""Write docs/settings.md from the docstrings in groc.config: python docs/settings.py"""

from __future__ import annotations

import ast
from pathlib import Path

from groc import config

PAGE = Path(__file__).with_name("settings.md")
HEAD = """# Settings

Every setting of a recipe, and what it is unless the recipe says otherwise. Change one on the command line with
`key=value` (`groc train penn training.rate=0.002 output.cutoffs=1000,5000`), or write a recipe of your own: a TOML file
with these sections. `groc info RECIPE` shows the values and variants of a recipe. `docs/settings.py` makes this page.
"""


def page() -> str:
    classes = {
        node.name: node
        for node in ast.parse(Path(config.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    rows = [HEAD]
    defaults = config.Config().flat()
    for section in [key.partition(".")[0] for key in defaults if "." in key]:
        title = f"\n## {section}\n"
        if title in rows:
            continue
        node = classes[section.capitalize()]
        rows += [
            title,
            f"{ast.get_docstring(node)}\n" if ast.get_docstring(node) else "",
            "| key | default | |",
            "| --- | --- | --- |",
        ]
        for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                key = f"{section}.{statement.target.id}"
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                text = after.value.value if is_text else ""
                rows.append(f"| `{key}` | `{_shown(defaults[key])}` | {' '.join(str(text).split())} |")
    return "\n".join(row for row in rows if row) + "\n"


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
