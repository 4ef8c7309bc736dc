"""Does a definition help? The surprisal of made terms in their contexts, with and without what a glossary says of them.

    python bench/made_terms.py [RUN] [--json] [--out FILE]

bench/made-terms.jsonl holds invented words that no text has, each with a definition, related words and three contexts.
All of them join the words of the model at once, in five ways: by their characters alone, with definition and related
words, with one of the two, and with those of a term of another group (of the same part of speech, so that a wrong
definition is wrong in its meaning alone). What is measured is the surprisal of the term itself, in bits, at its own
place; a term's figure is the mean over its contexts, and intervals are over terms. Without RUN it is the model that
comes along.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import groc
from groc import Glossary, LanguageModel
from groc.report import table
from groc.results import commit
from groc.surprisal import score_texts

TERMS = Path(__file__).with_name("made-terms.jsonl")
PLAIN, FULL, WRONG = "characters only", "definition and related words", "a wrong definition and related words"
SEED, RESAMPLES = 1, 10_000

Entry = tuple[str, Sequence[str]]
Bits = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MadeTerm:
    word: str
    group: str
    part_of_speech: str
    definition: str
    related: list[str]
    contexts: list[str]
    """Words separated by spaces; the term is one of them, once."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", metavar="RUN", help="a folder that groc train wrote")
    parser.add_argument("--json", action="store_true", help="print the record for a program")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the record to this file")
    options = parser.parse_args(arguments)
    terms = read_terms()
    figures = measure(groc.load(options.run), terms)
    record = {
        "name": "made-terms",
        "run": Path(options.run).name if options.run else "the model that comes along",
        "date": datetime.now(UTC).date().isoformat(),
        "version": groc.__version__,
        "commit": commit(),
        "torch": torch.__version__,
        "terms": len(terms),
        "contexts": sum(len(term.contexts) for term in terms),
        "comparisons": compare_all(figures),
        "bits": {
            term.word: {condition: round(float(bits[i]), 3) for condition, bits in figures.items()}
            for i, term in enumerate(terms)
        },
    }
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record) if options.json else describe(record))


def read_terms(path: Path = TERMS) -> list[MadeTerm]:
    return [MadeTerm(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def conditions(terms: Sequence[MadeTerm]) -> dict[str, dict[str, Entry]]:
    """From each condition to what it says of each term."""
    wrong = {term.word: wrong_term(term, terms) for term in terms}
    return {
        PLAIN: {term.word: ("", ()) for term in terms},
        FULL: {term.word: (term.definition, term.related) for term in terms},
        "definition only": {term.word: (term.definition, ()) for term in terms},
        "related words only": {term.word: ("", term.related) for term in terms},
        WRONG: {word: (other.definition, other.related) for word, other in wrong.items()},
    }


def wrong_term(term: MadeTerm, terms: Sequence[MadeTerm]) -> MadeTerm:
    """The term at the same place in the next group of the same part of speech; after the last group comes the first."""
    alike = [other for other in terms if other.part_of_speech == term.part_of_speech]
    groups = list(dict.fromkeys(other.group for other in alike))
    following = groups[(groups.index(term.group) + 1) % len(groups)]
    place = [other.word for other in alike if other.group == term.group].index(term.word)
    others = [other for other in alike if other.group == following]
    return others[place % len(others)]


def measure(model: LanguageModel, terms: Sequence[MadeTerm]) -> dict[str, Bits]:
    """From each condition to the mean surprisal of each term in its contexts."""
    return {name: surprisals(model, terms, entries) for name, entries in conditions(terms).items()}


def surprisals(model: LanguageModel, terms: Sequence[MadeTerm], entries: Mapping[str, Entry]) -> Bits:
    """The mean surprisal of each term in its contexts, while all of them are words of the model. Shape: [terms]"""
    taught = model.copy()
    taught.add_words(Glossary(entries))
    documents = iter(score_texts(taught, [text for term in terms for text in term.contexts], tokenised=True))
    means = []
    for term in terms:
        rows = [row for _ in term.contexts for row in next(documents) if row.word == term.word]
        means.append(np.mean([row.surprisal for row in rows]))
    return np.array(means)


@dataclass(frozen=True)
class Comparison:
    """Two conditions over the same terms, in bits; less is better."""

    condition: str
    against: str
    bits: float
    difference: float
    low: float
    high: float
    """The 95% interval of the mean difference, by resampling terms."""
    improved: float
    """The share of terms with fewer bits."""


def compare_all(figures: Mapping[str, Bits]) -> list[dict[str, Any]]:
    """Each condition against the characters alone, and the right entries against the wrong ones."""
    pairs = [(condition, PLAIN) for condition in figures] + [(FULL, WRONG)]
    return [asdict(compare(figures, condition, against)) for condition, against in pairs]


def compare(figures: Mapping[str, Bits], condition: str, against: str) -> Comparison:
    differences = figures[condition] - figures[against]
    draw = np.random.default_rng(SEED)
    samples = draw.choice(differences, (RESAMPLES, len(differences))).mean(1)
    low, high = np.quantile(samples, (0.025, 0.975))
    return Comparison(
        condition,
        against,
        bits=float(figures[condition].mean()),
        difference=float(differences.mean()),
        low=float(low),
        high=float(high),
        improved=float((differences < 0).mean()),
    )


def describe(record: Mapping[str, Any]) -> str:
    rows = [
        [row["condition"], row["against"], f"{row['bits']:.2f}", f"{row['difference']:+.2f}",
         f"{row['low']:+.2f} to {row['high']:+.2f}", f"{row['improved']:.0%}"]
        for row in record["comparisons"]
        if row["condition"] != row["against"]
    ]  # fmt: skip
    plain = record["comparisons"][0]
    head = f"{record['terms']} made terms, {record['contexts']} contexts: {plain['bits']:.2f} bits by {PLAIN}"
    return f"{head}\n\n" + table(["condition", "against", "bits", "difference", "95% interval", "terms improved"], rows)


if __name__ == "__main__":
    main()
