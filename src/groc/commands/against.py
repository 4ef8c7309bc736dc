"""groc eval --against: two models on the same text, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from groc import checkpoint
from groc.checkpoint import Checkpoint
from groc.commands.evaluate import (
    FEW_TOKENS,
    PROTOCOL,
    check_split,
    new_by_capitals,
    note_of_capitals,
    tell_of_replaced,
    text_of,
)
from groc.compute import choose, device_name
from groc.config import Compute
from groc.corpus import Text
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.paired import compare, describe
from groc.progress import Progress
from groc.report import to_json
from groc.results import RESULT, add_paired
from groc.scoring import Scores, score
from groc.vocabulary import Vocabulary


def evaluate_against(
    run: str, other: str, corpus: str, split: str | None, device: str, record: bool, as_json: bool
) -> None:
    """Both models choose among the same words: those that either was trained on, and the text's."""
    check_split(corpus, split)
    if Path(run).resolve() == Path(other).resolve():
        raise GrocError(f"{run} would be compared with itself: name another run after --against.")
    where = choose(Compute(device=device)).device
    mine, theirs = (checkpoint.load(folder, where) for folder in (run, other))
    text = text_of(corpus, split or "test")
    trained = mine.model.trained, theirs.model.trained  # before either gets the other's words
    scores = [
        _score(loaded.model, text, beside, f"scoring {text.name} with {folder}")
        for loaded, beside, folder in zip((mine, theirs), reversed(trained), (run, other), strict=True)
    ]
    summary = {
        "run": run,
        "other": other,
        "text": text.name,
        "against": theirs.config.name,
        "seed": theirs.config.training.seed,
        "valid_perplexity": theirs.facts.get("valid_perplexity"),  # tells it from others of its name and seed
        "vocabulary": len(mine.model.vocabulary),
        **compare(*scores),
        "device": f"{device_name(where)}, float32",
        "protocol": PROTOCOL,
        "notes": [*_notes(mine, run, text), *_notes(theirs, other, text), *_note_of_length(text)],
    }
    if record and (replaced := add_paired(Path(run) / RESULT, summary)):
        tell_of_replaced(run, replaced, "with another model of that name")
    if as_json:
        print(to_json(summary))
        return
    print(
        f"{run} against {other} on {text.name}: the loss of {other} less that of {run}, word by word, by how often the "
        f"training of {run} had the word"
    )
    print("\n\n".join([describe(summary), *summary["notes"]]))


def _score(model: LanguageModel, text: Text, beside: Vocabulary, title: str) -> Scores:
    """Score a text among a model's own words, those of another model, and the text's."""
    words = model.trained.union(beside).union(text.types)
    if words is not model.vocabulary:
        model.set_vocabulary(words)
    progress = Progress(title, len(text))
    scores = score(model, text.ids(words), progress=progress)
    progress.close()
    return scores


def _notes(loaded: Checkpoint, run: str, text: Text) -> Iterator[str]:
    """What a reader must know of how a model came by words that its training did not have."""
    model = loaded.model
    if loaded.warning and model.vocabulary is not model.trained:
        yield f"{run}: {loaded.warning}"
    if model.mixes_uniform:
        yield (
            f"{run} has no parameters for the words it never saw: {100 * (1 - model.uniform):g}% of the probability is "
            "spread evenly over the vocabulary."
        )
    yield from note_of_capitals(new_by_capitals(text, text.codes, model.trained.seen), run)


def _note_of_length(text: Text) -> Iterator[str]:
    if len(text) < FEW_TOKENS:
        yield f"{text.name} has few tokens ({len(text):,}): the figures say little of other texts."
