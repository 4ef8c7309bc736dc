"""Writes the texts of the cross-domain comparison, and what WordNet says of their words, into one folder.

    python tools/cross_domain_data.py SETS --out carry/news

SETS is a folder with sets of tokenised text, `news-bbc-2004-2005/train.txt.xz` and so on: docs/data.md says which, and
what is made of them. The folder is all that `groc paper cross-domain --run` needs.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from groc.commands.data import STATISTICS
from groc.corpus import ENDINGS, raw_lines
from groc.errors import GrocError
from groc.files import Writer, write_text, write_together
from groc.forms import FormsCompiler
from groc.lexicon import Glossary, WordNet
from groc.paper.domains import EARLIER_YEARS, FAR, LATER_YEARS, LM1B, SOURCE, YEAR, YEARS
from groc.preparing import deal, in_order, line_tokeniser, size
from groc.report import to_json
from groc.text_statistics import describe, find_sets, statistics

TRAIN, VALID, TEST = 500_000, 50_000, 100_000
"""Tokens, with `<eos>`, to which the texts of far domains are cut, and the source's valid and test text."""
VALID_LINES = 10
"""Of the earlier years, one line in so many is valid text."""
LEXICON = "lexicon.jsonl"

Texts = dict[str, list[str]]
"""The lines of each split."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, metavar="SETS", help="a folder with one folder a set")
    parser.add_argument("--out", type=Path, required=True, help="where the corpora go, one folder each")
    options = parser.parse_args()
    try:
        write(options.sets, options.out)
    except GrocError as error:
        sys.exit(f"error: {error}")


def write(sets: Path, out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        raise GrocError(f"{out} is there already: remove it, or choose another --out.")
    lexicon = WordNet.find()
    for name, texts in corpora(sets):
        write_together({out / name / f"{split}.txt.xz": packed(lines) for split, lines in texts.items()})
    found = find_sets(out)
    words = sorted({word for texts in found.values() for text in texts.values() for word in text.types})
    entries(FormsCompiler(lexicon, lower=True), words).write(out / LEXICON)
    figures = statistics(found)
    figures["unseen"] = [row for row in figures["unseen"] if row["train"] == SOURCE]
    write_text(out / STATISTICS, to_json(figures, indent=1) + "\n")
    print(describe(figures))


def corpora(sets: Path) -> Iterator[tuple[str, Texts]]:
    """Every corpus by its name, lower-cased."""
    lines = partial(read, sets)
    bbc, abc = "news-bbc-2004-2005", "news-abc-2006"
    yield (
        SOURCE,
        {
            "train": [*lines(f"{bbc}/train"), *lines(f"{abc}/train"), *lines(f"{LM1B}/valid")],
            "valid": [*lines(f"{bbc}/valid", VALID), *lines(f"{abc}/valid", VALID)],
            "test": [*lines(f"{bbc}/test", VALID), *lines(f"{abc}/test", VALID)],
        },
    )
    yield LM1B, {"test": lines(f"{LM1B}/test")}
    years = {year: lines(f"news-wmt-by-year/{year.removeprefix(YEAR)}") for year in YEARS}
    for year, text in years.items():
        yield year, halves(text) if year == YEARS[0] else {"test": text}
    earlier = [line for year in YEARS if year not in LATER_YEARS for line in years[year]]
    yield (
        EARLIER_YEARS,
        {
            "train": [line for number, line in enumerate(earlier, 1) if number % VALID_LINES],
            "valid": earlier[VALID_LINES - 1 :: VALID_LINES],
        },
    )
    for name in FAR:
        budgets = {"train": TRAIN, "valid": VALID, "test": TEST}
        yield name, {split: lines(f"{name}/{split}", tokens) for split, tokens in budgets.items()}


def read(sets: Path, name: str, tokens: int = sys.maxsize) -> list[str]:
    """The lines of a text up to so many tokens, with `<eos>`; empty lines are left out."""
    path = next((path for ending in ENDINGS if (path := sets / (name + ending)).is_file()), None)
    if path is None:
        raise GrocError(
            f"There is no {name}{ENDINGS[0]} (.gz, .xz) in {sets}: docs/data.md says which sets are needed."
        )
    return list(in_order(raw_lines(path), tokens, line_tokeniser(path, lower=True, tokenised=True)))


def halves(lines: list[str]) -> Texts:
    """The first half of a text to tune on, the second to test on."""
    texts: Texts = {"valid": [], "test": []}
    budgets = {"train": 0, "valid": sum(map(size, lines)) // 2, "test": sys.maxsize}
    for split, line in deal(lines, budgets):
        texts[split].append(line)
    return texts


def entries(compiler: FormsCompiler, words: list[str]) -> Glossary:
    """What the lexicon says of those words of which it says anything."""
    selected = {word: compiler.select(word) for word in words}
    return Glossary(
        {
            word: (" ".join(forms.definition), forms.relations)
            for word, forms in selected.items()
            if forms.definition or forms.relations
        }
    )


def packed(lines: list[str]) -> Writer:
    def write(temporary: Path) -> None:
        with lzma.open(temporary, "wb", preset=9) as handle:
            handle.writelines(line.encode() + b"\n" for line in lines)

    return write


if __name__ == "__main__":
    main()
