"""The worked example of docs/surprisal.md holds for any model: its analysis finds what its made readers do."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from conftest import TERMS, TRAIN_WORDS, tiny_config, tiny_model

from groc import checkpoint
from groc.lexicon import Glossary
from groc.surprisal import WordScore
from groc.vocabulary import END, Vocabulary

PAGE = (Path(__file__).parents[1] / "docs" / "surprisal.md").read_text(encoding="utf-8")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All that the Python of the page defines, run with a tiny model in place of the one that comes along."""
    vocabulary = Vocabulary([*TRAIN_WORDS, END], [*range(1, len(TRAIN_WORDS) + 2)])
    changes = {"forms.lower": True, "model.start": 10.0}  # large vectors: words differ in surprisal by several bits
    model = tiny_model("groc", "ngrams", vocabulary, Glossary(TERMS), changes)
    checkpoint.save(tmp_path / "run", model, tiny_config("groc", changes=changes))
    monkeypatch.setattr(checkpoint, "POCKET", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        Path(name).write_text(content, encoding="utf-8")
    names: dict[str, Any] = {}
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    with pytest.warns(UserWarning, match="lexicon"):
        exec(code, names)
    return names


def test_the_regression_finds_what_the_made_readers_do(names: dict[str, Any]) -> None:
    assert names["surprisal"].std() > 2
    truth = {"surprisal": 4, "spilled_over": 3, "length": 6, "frequency": 0}
    for name, slope in truth.items():
        weight, deviation = names["full"][name]
        assert abs(weight - slope) < 3 * deviation
    assert names["with_surprisal"] > names["without"]


def test_regions_hold_all_the_surprisal_of_a_sentence(names: dict[str, Any]) -> None:
    assert len(names["sentences"]) == 16
    for sentence, rows in zip(names["sentences"], names["scored"], strict=True):
        found = list(names["regions"](sentence, rows))
        assert [region for region, _, _ in found] == sentence.split()
        assert sum(bits for _, _, bits in found) == pytest.approx(sum(row.surprisal for row in rows))


def test_each_pair_differs_by_a_comma_and_has_its_verb_once(names: dict[str, Any]) -> None:
    pairs = list(zip(names["verbs"], names["sentences"][::2], names["sentences"][1::2], strict=True))
    assert len(names["costs"]) == len(pairs) == 8
    for verb, clear, ambiguous in pairs:
        assert clear.replace(",", "") == ambiguous
        assert clear.split().count(verb) == 1


def test_the_table_names_all_columns() -> None:
    table = PAGE[PAGE.index("| column |") : PAGE.index("The first word is scored")]
    named = re.findall(
        r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    )
    assert named == [field.name for field in fields(WordScore)]
