"""Words held out of a corpus: no line that is trained on has them, so a model can know them by their forms alone.

A folder with such a corpus also has `heldout.txt`, the lines in which the words are scored, and `heldout.json`, which
words they are, what a lexicon says of them, and the control words: as frequent, of the same kind, and kept in training.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from groc.corpus import Corpus, Text, read_text
from groc.errors import GrocError
from groc.files import text_writer, write_together
from groc.forms import FormsCompiler
from groc.preparing import lines_writer
from groc.report import to_json
from groc.rules import NO_NOUN, NO_SENSE
from groc.text_statistics import texts_of
from groc.vocabulary import END

LINES, RECORD = "heldout.txt", "heldout.json"
SHORTEST = 3
"""Letters of a word."""


@dataclass(frozen=True)
class Choice:
    """How words are chosen."""

    words: int = 300
    least: int = 20
    """A word is in the training text at least so often."""
    most: int = 200
    lines: int = 20
    """At most so many lines of each word are scored."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.words < 2 or not 1 <= self.least <= self.most or self.lines < 1:
            raise GrocError("Hold out 2 words or more, with 1 <= --least <= --most and --lines 1 or more.")


@dataclass(frozen=True)
class HeldOut:
    """What was held out."""

    words: dict[str, tuple[str, tuple[str, ...]]]
    """Each with its definition and its related words."""
    controls: tuple[str, ...]
    text: Text

    @classmethod
    def read(cls, folder: Path) -> HeldOut:
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            words = {row["word"]: (row["definition"], tuple(row["related"])) for row in record["words"]}
            controls = tuple(row["word"] for row in record["controls"])
        except (OSError, ValueError, KeyError, TypeError):
            raise GrocError(
                f"{folder} has no readable {RECORD}: give the folder that 'groc heldout prepare' wrote."
            ) from None
        text = read_text(folder / LINES)
        if strange := {*words, *controls}.difference(text.types):
            raise GrocError(
                f"{folder / LINES} has no {min(strange)!r}, which {RECORD} names: both must be as one call of "
                "'groc heldout prepare' wrote them, so prepare the folder again."
            )
        return cls(words, controls, text)


def hold_out(corpus: Corpus, folder: Path, compiler: FormsCompiler, choice: Choice) -> dict[str, Any]:
    """Write a corpus without the lines that have a chosen word, in whatever case, and some of those lines apart.

    The record of it comes back: the content of `heldout.json`.
    """
    if folder.exists() and any(folder.iterdir()):
        raise GrocError(f"{folder} is not empty: choose another --out.")
    train = corpus.text("train")
    possible = candidates(train, compiler, choice)
    if len(possible) < 2 * choice.words:
        raise GrocError(
            f"Only {len(possible):,} words of {train.name} occur {choice.least} to {choice.most} times and have a "
            f"definition and related words, but {2 * choice.words:,} are needed, half of them as a control: "
            "with groc heldout ask for fewer --words, or widen --least and --most; or give a lexicon that has the "
            "words of this text."
        )
    draw = random.Random(choice.seed)
    chosen = set(draw.sample(possible, choice.words))
    kept: dict[str, list[str]] = {}
    apart: list[str] = []
    for split, text in texts_of(corpus).items():
        lines, have = Lines(text), {word for word in text.types if word.lower() in chosen}
        apart += lines.texts(lines.having(have))
        kept[split] = lines.texts(~lines.having(have))
        if not kept[split]:
            raise GrocError(f"Every line of the {split} text has one of the words: ask for fewer --words.")
    scored = sample_lines(apart, chosen, choice.lines, draw)
    trained, there = count_words(kept["train"]), count_words(scored)
    others = {word: trained[word] for word in possible if word not in chosen and trained[word] and there[word]}
    words = {word: train.type_counts[word] for word in sorted(chosen)}
    record = {
        "corpus": corpus.folder.name,
        "choice": asdict(choice),
        "lines": {"scored": len(scored), "training": len(kept["train"]), "training_before": train.type_counts[END]},
        "words": [{"word": word, "count": count, **_entry(compiler, word)} for word, count in words.items()],
        "controls": [{"word": word, "count": others[word]} for word in nearest(words.values(), others)],
    }
    write_together(
        {
            **{folder / f"{split}.txt": lines_writer(lines) for split, lines in kept.items()},
            folder / LINES: lines_writer(scored),
            folder / RECORD: text_writer(to_json(record, indent=1) + "\n"),
        }
    )
    return record


def check_same(folder: Path, corpus: Corpus, choice: Choice) -> None:
    """Whether the words in a folder were held out of this corpus, and chosen so."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if (record["corpus"], record["choice"]) != (corpus.folder.name, asdict(choice)):
        chosen = ", ".join(f"{name} {value}" for name, value in record["choice"].items())
        raise GrocError(
            f"The words in {folder} were held out of {record['corpus']} with {chosen}: go on with the same, or choose "
            "another --out."
        )


def candidates(train: Text, compiler: FormsCompiler, choice: Choice) -> list[str]:
    """The words of a training text that can be held out, or be a control, in alphabetical order."""
    return sorted(
        word
        for word, count in train.type_counts.items()
        if choice.least <= count <= choice.most
        and word.isalpha()
        and word == word.lower()
        and len(word) >= SHORTEST
        and word not in NO_SENSE | NO_NOUN
        and all(_entry(compiler, word).values())
    )


def _entry(compiler: FormsCompiler, word: str) -> dict[str, Any]:
    selected = compiler.select(word)
    return {"definition": " ".join(selected.definition), "related": list(selected.relations)}


class Lines:
    """The lines of a text."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.ends = np.flatnonzero(text.codes == text.types.index(END))
        self.starts = np.concatenate([[0], self.ends[:-1] + 1])

    def having(self, words: Container[str]) -> npt.NDArray[np.bool_]:
        """Which lines have any of these words."""
        hits = np.array([word in words for word in self.text.types])[self.text.codes]
        before = np.concatenate([[0], np.cumsum(hits)])
        having: npt.NDArray[np.bool_] = before[self.ends] > before[self.starts]
        return having

    def texts(self, which: npt.NDArray[np.bool_]) -> list[str]:
        types, codes = self.text.types, self.text.codes
        spans = zip(self.starts[which].tolist(), self.ends[which].tolist(), strict=True)
        return [" ".join(types[code] for code in codes[start:end].tolist()) for start, end in spans]


def sample_lines(lines: Sequence[str], words: Collection[str], most: int, draw: random.Random) -> list[str]:
    """At most so many lines of each word, drawn at random, in their order."""
    places: dict[str, list[int]] = {word: [] for word in sorted(words)}
    for number, line in enumerate(lines):
        for word in places.keys() & line.split():
            places[word].append(number)
    drawn = {number for found in places.values() for number in draw.sample(found, min(most, len(found)))}
    return [lines[number] for number in sorted(drawn)]


def count_words(lines: Iterable[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split(" "))


def nearest(wanted: Iterable[int], counts: Mapping[str, int]) -> list[str]:
    """For each wanted count the word that comes nearest to it and is not taken yet, as long as there are any."""
    left = sorted((count, word) for word, count in counts.items())
    taken = []
    for count in sorted(wanted):
        if not left:
            break
        place = bisect_left(left, (count, ""))
        around = [i for i in (place - 1, place) if 0 <= i < len(left)]
        taken.append(left.pop(min(around, key=lambda i: abs(left[i][0] - count)))[1])
    return sorted(taken)
