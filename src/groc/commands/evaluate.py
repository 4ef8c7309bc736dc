"""groc eval: perplexity of a text, and where it comes from."""

from __future__ import annotations

from pathlib import Path

from groc import checkpoint
from groc.compute import choose
from groc.config import Compute
from groc.corpus import Corpus, Text, read_text
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.progress import Progress
from groc.report import describe, summarise, to_json
from groc.results import RESULT, add_evaluation
from groc.scoring import score
from groc.vocabulary import Vocabulary


def evaluate(
    run: str,
    corpus: str,
    split: str,
    vocabulary: str,
    glossary: str | None,
    device: str,
    record: bool,
    as_json: bool,
) -> None:
    loaded = checkpoint.load(run)
    policy = choose(Compute(device=device))
    text = read_text(Path(corpus)) if Path(corpus).is_file() else Corpus(corpus).text(split)
    model = loaded.model
    words = choose_vocabulary(model.trained, text, vocabulary)
    model.to(policy.device)
    if glossary is not None:
        model.add_words(Glossary.read(glossary))
        words = words.union(model.taught)
    if words is not model.trained:
        model.set_vocabulary(words)
    progress = Progress(f"scoring {text.name}", len(text))
    summary = summarise(score(model, text.ids(words), progress=progress))
    progress.close()
    summary |= {
        "run": run,
        "text": text.name,
        "vocabulary_kind": vocabulary,
        "glossary": glossary or "",
        # By the words of the text, whatever they were read as.
        "oov_share": text.outside(model.trained.seen) / len(text),
        "read_as_unk": text.outside(words),
        "lexicon_warning": loaded.warning if words is not model.trained else "",
        "uniform_mixed_in": 1 - model.uniform if model.mixes_uniform else 0.0,
        "protocol": "strict: one stream, state carried, every token",
    }
    if record:
        add_evaluation(Path(run) / RESULT, summary)
    if as_json:
        print(to_json(summary))
        return
    print(f"{run} on {text.name}")
    print(describe(summary))
    if summary["lexicon_warning"]:
        print(f"\n{summary['lexicon_warning']}")
    if summary["read_as_unk"]:
        share = summary["read_as_unk"] / len(text)
        print(
            f"\n{summary['read_as_unk']:,} tokens ({share:.1%}) are not in the vocabulary: they "
            "were read and scored as <unk>, so this perplexity is no match for one over more words."
        )
    if summary["uniform_mixed_in"]:
        print(
            f"\nThe model has no parameters for the words it never saw: {summary['uniform_mixed_in']:.0%} of the "
            "probability is spread evenly over the vocabulary."
        )


def choose_vocabulary(trained: Vocabulary, text: Text, wanted: str) -> Vocabulary:
    """train: the training words; union: those and the text's; else a file with one word a line."""
    if wanted == "train":
        return trained
    if wanted == "union":
        return trained.union(text.types)
    if not Path(wanted).is_file():
        raise GrocError(f"--vocabulary is train, union or a file with one word a line, not {wanted!r}.")
    given = Vocabulary.read(Path(wanted))
    counts = dict(zip(trained.words, trained.counts.tolist(), strict=True))
    return Vocabulary(given.words, [counts.get(word, 0) for word in given])
