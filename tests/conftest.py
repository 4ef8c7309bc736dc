"""What all tests share: a cache of their own, one thread, a small glossary, a small corpus, models of a few numbers."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before torch is imported, and for every process that a test starts.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import pytest
import torch
from hypothesis import HealthCheck, settings

from groc.building import build
from groc.config import CHOICES, Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.lexicon import Glossary, Lexicon
from groc.lexicon.locate import find_folder
from groc.model import LanguageModel
from groc.nn.input import UsualEntries
from groc.scoring import Scores
from groc.training import Trainer
from groc.vocabulary import Vocabulary

settings.register_profile(
    "groc",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("groc"), derandomize=False, max_examples=200)
settings.load_profile(os.environ.get("GROC_HYPOTHESIS", "groc"))
torch.set_num_threads(1)

KINDS = CHOICES["output.kind"]
CLOSED_KINDS = tuple(kind for kind in KINDS if kind != "groc")
SURFACES = CHOICES["surface.kind"]
STANDSTILL = 1e-30
"""A learning rate that moves no weight."""

TERMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dog": ("a domestic animal that barks", ("hound", "puppy", "canine", "pooch")),
    "cat": ("a small animal that purrs at home", ("kitten", "feline")),
    "animal": ("what moves and eats", ("beast", "dog", "cat")),
    "ship": ("a large boat for the sea", ("vessel", "boat")),
    "boat": ("a small ship", ("dinghy",)),
    "sea": ("much salt water", ("ocean",)),
    "run": ("move fast with the legs", ("sprint", "jog")),
    "sleep": ("rest with closed eyes at night and sometimes by day when nobody looks", ("nap", "doze")),
    "red": ("of the colour of blood", ()),
    "old": ("", ("aged", "ancient")),
    # Not in the corpus.
    "hound": ("a dog for hunting", ("dog",)),
    "ocean": ("the large sea", ("sea",)),
    "zebra": ("a striped animal", ("horse", "animal")),
}
TRAIN_WORDS = (
    "the a dog cat animal ship boat sea run runs sleep sleeps red old stop pots on in and was not it small <unk> day"
).split()
NEW_WORDS = "zebra hound ocean naïve 東京 e-mail U.S.".split()


def sentences(number: int, words: list[str], seed: int) -> str:
    draw = random.Random(seed)
    return "".join(" ".join(draw.choices(words, k=draw.randint(2, 8))) + "\n" for _ in range(number))


def tiny_settings(kind: str = "groc", surface: str = "ngrams") -> dict[str, Any]:
    """Settings, by dotted key, of a model that a CPU trains in a blink."""
    return {
        "name": "test",
        "forms.lexicon": "none",
        "surface.kind": surface,
        "surface.characters": 4,
        "surface.filters": (4, 6, 8),
        "surface.longest": 20,
        "surface.buckets": 300,
        "surface.rank": 6,
        "surface.longest_ngram": 4,
        "model.dim": 8,
        "output.kind": kind,
        "output.depth": 1,
        "output.correction": 5,
        "output.cutoffs": (6, 15),
        "output.factor": 2,
        "output.dropout": 0.1,
        "prefix.hidden": 12,
        "prefix.input_dropout": 0.1,
        "prefix.hidden_dropout": 0.2,
        "prefix.output_dropout": 0.1,
        "training.batch": 4,
        "training.unroll": 12,
        "training.epochs": 2,
        "training.rate": 0.01,
        "training.valid_streams": 3,
        "compute.device": "cpu",
    }


def as_pairs(changes: Mapping[str, Any]) -> list[str]:
    """Settings as one writes them on the command line."""

    def text(value: Any) -> str:
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()

    return [f"{key}={value if isinstance(value, str) else text(value)}" for key, value in changes.items()]


def tiny_config(kind: str = "groc", surface: str = "ngrams", changes: Mapping[str, Any] | None = None) -> Config:
    return Config().replace({**tiny_settings(kind, surface), **(changes or {})})


def shake(model: LanguageModel, seed: int = 1) -> None:
    """Move all parameters and means off their start values, where much is zero or the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        for part in model.modules():
            if isinstance(part, UsualEntries):
                part.sums.add_(torch.randn(part.sums.shape, generator=generator) * 0.1)
                part.counts.fill_(1.0)


def tiny_model(
    kind: str,
    surface: str,
    vocabulary: Vocabulary,
    lexicon: Lexicon,
    changes: Mapping[str, Any] | None = None,
) -> LanguageModel:
    """A model as if trained: in no respect at its start values."""
    torch.manual_seed(1)
    model = build(tiny_config(kind, surface, changes), vocabulary, lexicon)
    shake(model)
    return model.eval()


def snapshot(folder: Path) -> dict[str, str]:
    """A hash of every file below the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def signal_while_the_last_valid_text_is_read(patch: pytest.MonkeyPatch, number: int) -> None:
    """In this process, in whatever it trains."""
    score_valid = Trainer.score_valid

    def signalled(trainer: Trainer, *arguments: Any, **more: Any) -> Scores:
        if trainer.position.epoch == trainer.options.epochs - 1:
            signal.raise_signal(number)
        return score_valid(trainer, *arguments, **more)

    patch.setattr(Trainer, "score_valid", signalled)


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """A limit on the size of files makes real writes fail, as a full disk does."""
    import resource  # not on Windows

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writes_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep what is cut off
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        sys.dont_write_bytecode = writes_no_bytecode


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh cache; but a WordNet that `groc lexicon install` put into the user's stays in reach."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            wordnet = find_folder()
        except GrocError:
            wordnet = None
        if wordnet is not None:
            patch.setenv("GROC_WORDNET", str(wordnet))
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("GROC_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def glossary() -> Glossary:
    return Glossary(TERMS)


@pytest.fixture(scope="session")
def glossary_file(glossary: Glossary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("glossary") / "terms.jsonl"
    glossary.write(path)
    return path


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 500 training tokens; valid and test hold words that training does not."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "train.txt").write_text(" ".join(TRAIN_WORDS) + "\n" + sentences(80, TRAIN_WORDS, 1), encoding="utf-8")
    for seed, split in enumerate(("valid", "test"), 2):
        words = [*TRAIN_WORDS, *NEW_WORDS]
        (folder / f"{split}.txt").write_text(" ".join(NEW_WORDS) + "\n" + sentences(20, words, seed), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def vocabulary(corpus_folder: Path, own_cache: Path) -> Vocabulary:  # noqa: ARG001
    return Corpus(corpus_folder).vocabulary()


@pytest.fixture
def no_wordnet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without WordNet: nothing named, and nothing in the usual places."""
    monkeypatch.delenv("GROC_WORDNET", raising=False)
    monkeypatch.delenv("NLTK_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GROC_CACHE", str(tmp_path / "cache"))
    if (found := find_folder()) is not None:
        pytest.skip(f"this system has a WordNet for all users, in {found}")
