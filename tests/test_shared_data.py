"""The published sizes and coverage, on the real corpora. Skipped where the shared data or WordNet is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groc.cli import main
from groc.errors import GrocError
from groc.lexicon.locate import find_folder

DATA = Path(__file__).parents[2] / "shared" / "data"

SIZES = {  # millions of parameters, penn with its 10,000 words: (least, most)
    "groc": (9.7, 9.8),
    "lookup": (13.03, 13.03),
    "convolutional": (13.8, 13.8),
    "tied": (10.03, 10.03),
    "bilinear": (10.12, 10.12),
    "deep-residual": (10.12, 10.39),  # published with a depth of 4; a depth of 1 learns better here
    "adaptive": (8.18, 8.18),
}


def corpus(name: str) -> str:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    return str(folder)


@pytest.mark.parametrize("variant", SIZES)
def test_sizes_are_the_published_ones(variant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "penn", "--variant", variant, "--corpus", corpus("penn"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    least, most = SIZES[variant]
    assert least * 0.99 <= summary["parameters"] / 1e6 <= most * 1.01
    assert (summary["vocabulary_parameters"] == 0) == (variant == "groc")
    assert summary["vocabulary"] == 10_000


@pytest.mark.parametrize(("name", "relations", "definitions"), [("penn", 78.0, 85.8), ("wikitext-2", 73.4, 76.3)])
def test_coverage_is_the_published_one(
    name: str, relations: float, definitions: float, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = corpus(name)
    try:
        found = find_folder()
    except GrocError as problem:
        pytest.skip(str(problem))
    if found is None:
        pytest.skip("there is no WordNet on this machine")
    assert main(["lexicon", "coverage", folder, "--rules", "paper", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["relations"] == pytest.approx(relations, abs=0.1)
    assert summary["definitions"] == pytest.approx(definitions, abs=0.1)
