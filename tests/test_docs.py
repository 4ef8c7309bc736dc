"""What the pages of the documentation show is what happens, and the page of the API is that of the code."""

import re
import runpy
from pathlib import Path
from typing import Any

import mini_wordnet
import pytest

from groc.lexicon.locate import find_folder

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES: dict[str, Any] = runpy.run_path(str(DOCS / "examples.py"))


@pytest.mark.parametrize("path", EXAMPLES["pages"](), ids=lambda path: path.stem)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    path: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    has_wordnet = find_folder() is not None
    if not has_wordnet:  # training asks one
        monkeypatch.setenv("GROC_WORDNET", str(mini_wordnet.build(tmp_path_factory.mktemp("wordnet"))))
    shown = path.read_text(encoding="utf-8")
    printed = EXAMPLES["run"](shown)
    if has_wordnet:  # another lexicon says other things of new words
        assert EXAMPLES["alike"](shown, printed), f"run python docs/examples.py; it would write:\n{printed}"


def test_the_page_of_the_api_is_that_of_the_code() -> None:
    page = runpy.run_path(str(DOCS / "api.py"))["page"]
    assert (DOCS / "api.md").read_text(encoding="utf-8") == page(), "run python docs/api.py"


@pytest.mark.parametrize("path", [*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_nobody_is_told_to_install_what_no_index_has() -> None:
    root = DOCS.parent
    told = [*DOCS.glob("*.md"), *root.glob("*.md"), *(root / "src").rglob("*.py")]
    assert [path.name for path in told if "groc-lm" in path.read_text(encoding="utf-8")] == [], "give '.[extra]'"


# --- how examples are run ---------------------------------------------------------------------------------------------

PAGE = """# A page

<!-- file: words.txt -->
```text
one two
```

```python
words = open("words.txt").read().split()
```

```python
print(words, 0.5)
```

```text
['one', 'two'] 0.5
```

```console
$ groc lexicon show --lexicon words.txt x
groc: words.txt is not a WordNet
...
```

<!-- not run -->
```console
$ make coffee
```
"""


def test_examples_share_names_and_files_and_are_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = EXAMPLES["run"](PAGE.replace("['one', 'two'] 0.5", "stale"))
    assert "['one', 'two'] 0.5\n```" in printed
    assert "stale" not in printed
    assert "make coffee" in printed
    error = next(line for line in printed.splitlines() if line.startswith("groc: "))
    assert "words.txt" in error
    assert EXAMPLES["run"](printed) == printed


def test_an_example_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for body, error in (("```python\n1 / 0\n```\n", ZeroDivisionError), ("```console\n$ make tea\n```\n", ValueError)):
        with pytest.raises(error):
            EXAMPLES["run"](body)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("tea 3.14 bits", "tea 3.15 bits", True),  # the last digit
        ("tea 3.14 bits", "tea 3.34 bits", False),
        ("tea 3.14 bits", "pea 3.14 bits", False),
        ("1,765 words", "1,765 words", True),
        ("rank 3", "rank 4", False),  # whole numbers count things
        ("-0.0 bits", "+0.0 bits", True),
        ("1.5e-05", "1.5e-04", False),
        ("7.25 3", "7.25", False),
    ],
)
def test_pages_are_alike_but_for_last_digits(one: str, other: str, same: bool) -> None:
    assert EXAMPLES["alike"](one, other) is same
