"""Put a corpus and what a lexicon says of its words into one folder, for a machine that has no WordNet.

    python tools/pack_corpus.py RECIPE CORPUS --out FOLDER

On that machine: groc train RECIPE --corpus FOLDER/NAME forms.lexicon=FOLDER/NAME/wordnet.jsonl

Records take a file of that name for WordNet.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from groc.building import build
from groc.checkpoint import used_entries
from groc.corpus import SPLITS, Corpus
from groc.recipe import load_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    corpus, name = Corpus(str(options.corpus)), options.corpus.resolve().name
    words = corpus.vocabulary()
    for split in SPLITS:  # words of valid and test texts are scored too
        words = words.union(corpus.text(split).types)
    model = build(load_recipe(options.recipe, None, []), words, calibrate=False)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / name).mkdir(exist_ok=True)
    for path in options.corpus.glob("*.txt*"):
        shutil.copyfile(path, options.out / name / path.name)
    lexicon = options.out / name / "wordnet.jsonl"
    entries = used_entries(model)
    assert entries is not None, "GroC composes its words"
    entries.write(lexicon)
    print(f"{options.out / name} with {lexicon.name}: {len(words):,} words")


if __name__ == "__main__":
    main()
