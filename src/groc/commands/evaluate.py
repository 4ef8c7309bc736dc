"""groc eval: perplexity of a text, and where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from groc import checkpoint
from groc.adaptation.dynamic import Dynamic, Sizes, gradient_sizes
from groc.adaptation.memory import by_occurrence
from groc.adaptation.memory import describe as describe_occurrences
from groc.adaptation.online import USUAL_SHARPNESS, CacheSettings, Online
from groc.adaptation.online import describe as describe_online
from groc.adaptation.telling import telling_less
from groc.adaptation.tuning import NEW, at_edges
from groc.adaptation.tuning import tune as tune_online
from groc.compute import choose, device_name
from groc.config import Compute
from groc.corpus import Corpus, Ids, Text, read_text
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.progress import Progress
from groc.report import describe, summarise, to_json
from groc.results import RESULT, add_evaluation
from groc.text import is_visible
from groc.vocabulary import UNKNOWN, Vocabulary

PROTOCOL = "strict: one stream, state carried, every token"
FEW_TOKENS = 1000
"""What is tuned on fewer says little of another text."""
MANY_CAPITALS = 0.01
"""A share of tokens; cased text has some words that training had in lower case alone, too."""


def evaluate(
    run: str,
    corpus: str,
    split: str | None,
    vocabulary: str,
    glossary: str | None,
    device: str,
    record: bool,
    as_json: bool,
    *,
    caches: Sequence[dict[str, Any]] = (),
    novelty: float | None = None,
    sharpness: float | None = None,
    uniform: float | None = None,
    memory: bool = False,
    dynamic: Dynamic | None = None,
    gradients: str | None = None,
    tune: str | None = None,
    without: Sequence[str] = (),
    first: int | None = None,
) -> None:
    """`caches` are the fields of `CacheSettings`; `gradients` and `tune` are corpora. None is what is not given."""
    without = sorted({*without})
    check_split(corpus, split)
    if first is not None and first < 1:
        raise GrocError(f"--first is a number of tokens, 1 or more, not {first}.")
    settings = tuple(CacheSettings(**cache, joined="alpha" in cache) for cache in caches)
    online = Online(uniform, dynamic, novelty, sharpness, settings, memory)
    loaded = checkpoint.load(run, choose(Compute(device=device)).device)
    model, text = loaded.model, text_of(corpus, split or "test")
    if uniform is not None and model.is_open:
        raise GrocError("An open model scores every word, and has no even odds to give: leave out --uniform.")
    if sharpness is not None and not model.is_open:
        raise GrocError("New words of a closed model share their weight evenly: leave out --sharpness.")
    if glossary is not None:
        model.add_words(Glossary.read(glossary))
    if without:
        model = telling_less(model, without)
    sizes = measure(model, gradients, dynamic) if gradients is not None and dynamic is not None else None
    tables, tuned_on, untuned = {}, "", ""
    if tune is not None:
        valid = text_of(tune, "valid")
        tuned = tune_online(model, valid.ids(set_words(model, valid, vocabulary)), online, sizes=sizes)
        untuned = "" if NEW in tuned.tables else _usual_for_new_words(model, online)
        online, tables, tuned_on = tuned.online, tuned.tables, valid.name if tuned.tables else ""
        if not tables:
            why = "no word of it counts as new" if untuned else "all that can be tuned is given"
            print(f"Nothing was tuned on {valid.name}: {why}.", file=sys.stderr)
        elif valid.name == text.name:
            print(f"Tuned on {text.name} itself: its figures are too good.", file=sys.stderr)
        if tables and len(valid) < FEW_TOKENS:
            print(f"{valid.name} has few tokens ({len(valid):,}): tune on more to rely on it.", file=sys.stderr)
        for what in at_edges(tables):
            print(f"The best {what} is the last that was tried: others beyond it may be better.", file=sys.stderr)
    words = set_words(model, text, vocabulary)
    if untuned and not words.counts.all():
        print(
            f"No word of {valid.name} counts as new to the model, so what new words get cannot be tuned there: "
            f"{untuned}, as usual.",
            file=sys.stderr,
        )
    ids = text.ids(words)[:first]
    progress = Progress(f"scoring {text.name}", len(ids))
    scores = online.score(model, ids, sizes=sizes, progress=progress)
    progress.close()
    codes = text.codes[:first]
    as_unk = _outside(text, words)[codes]
    themselves = replace(scores, ids=scores.ids[~as_unk], log_prob=scores.log_prob[~as_unk])
    summary = summarise(scores, as_unk) | {
        "run": run,
        "text": text.name,
        "vocabulary_kind": vocabulary,
        "glossary": glossary or "",
        # By the words of the text, whatever they were read as.
        "oov_share": float(_outside(text, model.trained.seen)[codes].mean()),
        "read_as_unk": int(as_unk.sum()),
        "new_by_capitals": new_by_capitals(text, codes, model.trained.seen),
        "invisible": int(np.array([not is_visible(word) for word in text.types])[codes].sum()),
        "lexicon_warning": loaded.warning if words is not model.trained else "",
        **circumstances_of(model, online, sizes is not None),
        "without": without,
        "first": first if first is not None and first < len(text) else None,
        "new_by_occurrence": by_occurrence(themselves),
        "tuned_on": tuned_on,
        "tuning": tables,
        "protocol": PROTOCOL,
    }
    if record and (replaced := add_evaluation(Path(run) / RESULT, summary)):
        tell_of_replaced(run, replaced, "with other settings or of another text")
    if as_json:
        print(to_json(summary))
        return
    part = f", first {first:,} tokens" if summary["first"] else ""
    less = f", with new words known without {' and '.join(summary['without'])}" if without else ""
    print(f"{run} on {text.name}{part}{less}")
    if helped := describe_online(summary):
        print(f"with {helped}" + (f"; tuned on {tuned_on}" if tuned_on else ""))
    print(describe(summary))
    if memory:
        print(f"\n{describe_occurrences(summary['new_by_occurrence'])}")
    if summary["lexicon_warning"]:
        print(f"\n{summary['lexicon_warning']}")
    if summary["read_as_unk"]:
        share = summary["read_as_unk"] / len(ids)
        print(
            f"\n{summary['read_as_unk']:,} tokens ({share:.1%}) are not in the vocabulary: they "
            "were read and scored as <unk>, so this perplexity is no match for one over more words "
            "(--vocabulary union has them all)."
        )
    if summary["invisible"]:
        print(
            f"\n{summary['invisible']:,} tokens are nothing but invisible characters, such as zero width spaces: each "
            "counts as a word, since the text is read as it stands. 'groc data prepare' leaves them out of raw text."
        )
    for note in note_of_capitals(summary["new_by_capitals"]):
        print(f"\n{note}")
    if summary["uniform_mixed_in"]:
        print(
            f"\nThe model has no parameters for the words it never saw: {100 * summary['uniform_mixed_in']:g}% of the "
            "probability is spread evenly over the vocabulary."
        )


def circumstances_of(model: LanguageModel, online: Online, measured: bool = False) -> dict[str, Any]:
    """With what and where a model read a text, for its record."""
    evenly = {} if model.is_open else {"sharpness": None}  # so new words of a closed model share
    uniform = online.spread_by(model) if model.mixes_uniform else 0.0
    device = f"{device_name(model.device)}, float32"
    return {"uniform_mixed_in": uniform, "device": device, **online.facts(measured), **evenly}


def _usual_for_new_words(model: LanguageModel, given: Online) -> str:
    """What new words get where it is not all given and cannot be tuned; empty where it is given."""
    if given.novelty is not None:
        return f"their sharpness is {USUAL_SHARPNESS:g}" if model.is_open and given.sharpness is None else ""
    if given.uniform is not None:
        return ""
    if model.is_open:
        return "each is as probable as the model says"
    return f"{100 * given.spread_by(model):g}% of the probability is spread evenly over all words"


def _outside(text: Text, words: Container[str]) -> npt.NDArray[np.bool_]:
    """Which words of a text are not among others."""
    return np.array([word not in words for word in text.types])


def new_by_capitals(text: Text, codes: Ids, seen: Collection[str]) -> float:
    """The share of tokens whose words training had in lower case alone; none if it had words with capitals."""
    cased = sum(word != word.lower() for word in seen) >= MANY_CAPITALS * len(seen)
    lowered = np.array([not cased and word not in seen and word.lower() in seen for word in text.types])
    return float(lowered[codes].mean())


def note_of_capitals(share: float, run: str = "the model") -> Iterator[str]:
    if share >= MANY_CAPITALS:
        yield (
            f"{share:.1%} of the tokens are words of training but for their capital letters, and so count as new: the "
            f"training text of {run} was lower-cased, so lower-case this one."
        )


def tell_of_replaced(run: str, figures: str, how: str) -> None:
    """That a record had other figures under the same name."""
    told = f"The record of {run} had figures for {figures!r} that were taken {how}: these replace them."
    print(told, file=sys.stderr)


def check_split(corpus: str, split: str | None) -> None:
    """One text has no others beside it to choose from."""
    if split and Path(corpus).is_file():
        raise GrocError(f"{corpus} is one text, not a corpus folder: leave out --split.")


def text_of(corpus: str, split: str) -> Text:
    """A text file as it is, or one of the texts of a corpus folder."""
    if not Path(corpus).exists():
        raise GrocError(f"There is no text or corpus folder {corpus}: give a file, or a folder with {split}.txt.")
    return read_text(Path(corpus)) if Path(corpus).is_file() else Corpus(corpus).text(split)


def measure(model: LanguageModel, corpus: str, dynamic: Dynamic) -> Sizes:
    """How large gradients are on a training text."""
    text = text_of(corpus, "train")
    words = set_words(model, text, "union")
    progress = Progress("measuring gradients", len(text))
    sizes = gradient_sizes(model, text.ids(words), dynamic, progress)
    progress.close()
    return sizes


def set_words(model: LanguageModel, text: Text, wanted: str) -> Vocabulary:
    """Let the model choose among the words that are wanted for a text, and those that it was taught."""
    words = choose_vocabulary(model.trained, text, wanted).union(model.taught)
    is_list = wanted not in ("train", "union")
    if is_list and UNKNOWN not in words and (lacking := [word for word in text.types if word not in words]):
        raise GrocError(
            f"{wanted} lacks {len(lacking):,} of the words of {text.name}, such as {lacking[0]!r}, and has no "
            f"{UNKNOWN}: {text.outside(words):,} of {len(text):,} tokens cannot be scored. Add the words to the list, "
            "or choose --vocabulary union, the words of training and of the text."
        )
    if words is not model.vocabulary:
        model.set_vocabulary(words)
    return words


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
