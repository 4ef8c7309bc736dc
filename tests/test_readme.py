"""What the README shows must run."""

import ast
import re
import runpy
from pathlib import Path

import pytest

from groc.cli import build_parser

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_lines_of_python_run(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {})
    *rows, guesses, ranks = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == "the boat sailed into the harbour .".split()
    assert all(float(row.split()[1]) > 0 for row in rows)
    assert len(ast.literal_eval(guesses)) == 3
    (shown,) = re.findall(r"# (\d+ \d+), of 9,001 words", code)
    before, after = map(int, ranks.split())
    assert [before, after] == pytest.approx([*map(int, shown.split())], rel=0.02)  # rounding is a machine's own
    assert after < before, "what the definition is for"


def test_the_page_of_settings_is_that_of_the_code() -> None:
    docs = Path(__file__).parents[1] / "docs"
    page = runpy.run_path(str(docs / "settings.py"))["page"]
    assert (docs / "settings.md").read_text(encoding="utf-8") == page(), "run python docs/settings.py"


def test_every_command_of_the_table_exists() -> None:
    commands = set(re.findall(r"^\| `groc (\w+)", README, re.MULTILINE))
    known = set(re.findall(r"^    (\w+) ", build_parser().format_help(), re.MULTILINE))
    assert commands == known
