"""Makes the bundled small model: text, training, packing. `make pocket` runs it (half an hour on a CPU).

The text is WordNet's usage examples and the docstrings of the standard library of the Python that runs this. Training
has all their words; the packed model's list is the most frequent of them, and the repository keeps that model alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from groc import checkpoint
from groc.commands.train import run
from groc.compute import Group
from groc.corpus import Corpus
from groc.demo.corpora import library_prose, usage_examples, write_common
from groc.lexicon import WordNet
from groc.recipe import load_recipe
from groc.report import summarise
from groc.results import RESULT, add_evaluation
from groc.scoring import score

SEED = 1
WORDS = 9000
"""In the packed model's list: their vectors are a third of its size."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("runs/pocket"), help="where text and training go")
    parser.add_argument("--out", type=Path, default=checkpoint.POCKET, help="where the packed model goes")
    parser.add_argument("--resume", action="store_true", help="go on with a training that was stopped")
    options = parser.parse_args()
    text, trained = options.work / "text", options.work / "run"
    if not text.is_dir():
        write_common([*usage_examples(WordNet.find()), *library_prose(SEED)], text, SEED, at_least=1)
    config = load_recipe("pocket", None, []).replace({"corpus": str(text)})
    figures = run(config, trained, options.resume, Group())
    loaded = checkpoint.load(trained)
    facts = {name: figures[name] for name in ("valid_perplexity", "epochs", "training_seconds")}
    corpus = "WordNet's usage examples and the docstrings of Python's standard library"
    checkpoint.save_packed(options.out, loaded.model, loaded.config.replace({"corpus": corpus}), facts, WORDS)
    packed = checkpoint.load(options.out).model
    test = Corpus(text).text("test")
    packed.set_vocabulary(packed.trained.union(test.types))
    summary = summarise(score(packed, test.ids(packed.vocabulary)))
    add_evaluation(trained / RESULT, {**summary, "text": str(test.name), "run": "packed", "vocabulary_kind": "union"})
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(json.dumps({"bytes": size, "test_perplexity": summary["perplexity"], **figures}, indent=1))


if __name__ == "__main__":
    main()
