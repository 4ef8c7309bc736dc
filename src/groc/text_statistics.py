"""What texts hold, and how much of one is new to another: the statistics of prepared sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groc.corpus import SPLITS, Corpus, Text
from groc.report import table
from groc.vocabulary import END


def find_sets(folder: Path) -> dict[str, dict[str, Text]]:
    """The texts of every corpus below a folder, by the names of corpus and text."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    sets = {path.name: texts_of(Corpus(path)) for path in inside}
    return {name: texts for name, texts in sets.items() if texts}


def texts_of(corpus: Corpus, splits: Sequence[str] = SPLITS) -> dict[str, Text]:
    """Those of its texts that a corpus has."""
    return {split: corpus.text(split) for split in splits if Corpus.find(corpus.folder, split)}


def statistics(sets: Mapping[str, Mapping[str, Text]]) -> dict[str, Any]:
    """Sizes of texts, and how much of each test text is new to each training text. Tokens and words count `<eos>`."""
    return {
        "texts": [
            {"set": name, "text": split, "lines": int(text.type_counts[END]), "tokens": len(text),
             "words": len(text.types)}
            for name, texts in sets.items()
            for split, text in texts.items()
        ],
        "unseen": [
            {"train": source, "test": target, **_unseen(texts["train"], sets[target]["test"])}
            for source, texts in sets.items()
            for target in sets
            if "train" in texts and "test" in sets[target]
        ],
    }  # fmt: skip


def _unseen(train: Text, test: Text) -> dict[str, float]:
    known = set(train.types)
    return {
        "of_tokens": test.outside(known) / len(test),
        "of_words": sum(word not in known for word in test.types) / len(test.types),
    }


def describe(figures: dict[str, Any]) -> str:
    """The same for a person."""
    sizes = [
        [f"{row['set']}/{row['text']}", *(f"{row[name]:,}" for name in ("lines", "tokens", "words"))]
        for row in figures["texts"]
    ]
    cells = {
        (row["test"], row["train"]): f"{row['of_tokens']:.1%} ({row['of_words']:.0%})" for row in figures["unseen"]
    }
    tests, trains = ([*dict.fromkeys(row[part] for row in figures["unseen"])] for part in ("test", "train"))
    parts = [table(["text", "lines", "tokens", "words"], sizes)]
    if cells:
        rows = [[f"{test}/test", *(cells[test, train] for train in trains)] for test in tests]
        parts += [
            "Tokens (and words) of each test text that are not in the training text of",
            table(["", *trains], rows),
        ]
    return "\n\n".join(parts)
