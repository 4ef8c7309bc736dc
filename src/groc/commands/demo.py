"""groc demo: two small models of equal size, trained side by side and then moved to a vocabulary they never saw."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from groc import checkpoint
from groc.adaptation.online import Online
from groc.adaptation.tuning import NEW, tune
from groc.commands.evaluate import choose_vocabulary
from groc.commands.train import run
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus, Text
from groc.demo import corpora, newcomers, plot
from groc.demo.figures import Contestant, Domain, Figures, Newcomer
from groc.demo.story import comparison, conclusion, introduction, setting
from groc.errors import GrocError
from groc.files import alone, is_temporary, write_text
from groc.lexicon import WordNet
from groc.lexicon.install import install
from groc.lexicon.locate import find_folder
from groc.model import LanguageModel
from groc.progress import Progress
from groc.recipe import load_recipe
from groc.scoring import Scores

RECIPE = "tiny"
HOME, AWAY, GROC, TIED, FIGURES, PICTURE = "home", "away", "groc", "tied", "demo.json", "demo.png"
MARKER = ".groc-demo"
"""A file in every folder that a demo made. Nothing is ever removed from a folder without it."""
LOCK = "demo.lock"
"""Locked while a demo is made there. It is never replaced: else two could each lock a file of that name."""
NEW_WORDS, NEAREST, GUESSES = 10, 6, 4


def demo(out: str, epochs: int | None, seed: int, as_json: bool) -> None:
    folder = Path(out)
    configs = {variant: _config(variant, folder / HOME, epochs, seed) for variant in (GROC, TIED)}
    if not (folder / LOCK).is_file():
        check(folder)  # before there is a lock in somebody else's
    busy = f"Another demo is being made in {folder}: wait for its end, or choose another --out."
    with alone(folder / LOCK, GrocError(busy)):
        claim(folder)
        clear(folder)
        _make(folder, configs, seed, as_json)


def _make(folder: Path, configs: Mapping[str, Config], seed: int, as_json: bool) -> None:
    started = time.monotonic()
    _say("Corpus one: WordNet's usage examples. Corpus two: the docstrings of Python's standard library.")
    corpora.write_home(_wordnet(), folder / HOME, seed)
    corpora.write_away(folder / AWAY, seed)
    for variant, config in configs.items():
        _say(f"\nTraining {variant} on the usage examples.")
        run(config, folder / variant, resume=False, group=Group())
    _say("\nReading both test texts, the second in a vocabulary that neither model was trained on.")
    figures = compare(folder, started)
    write_text(folder / FIGURES, json.dumps(figures.to_dict(), indent=1) + "\n")
    drawn = _draw(figures, folder / PICTURE)
    if as_json:
        print(json.dumps(figures.to_dict()))
        return
    print(f"\n{setting(figures)}\n\n{comparison(figures)}\n")
    print(
        f"{len(figures.newcomers)} words of the docstrings that training never had, with the trained words nearest to "
        f"them and\nboth models' best guesses, among all {figures.groc.away.vocabulary:,} words, where they stand:\n"
    )
    for newcomer in figures.newcomers:
        print(introduction(newcomer) + "\n")
    print(conclusion(figures))
    print(
        f"\n{figures.seconds:.0f} seconds in all. Figures: {folder / FIGURES}"
        + (f"  Picture: {drawn}" if drawn else "")
    )


def check(folder: Path) -> None:
    """Anybody else's files are a reason to stop."""
    if folder.exists() and not folder.is_dir():
        raise GrocError(f"{folder} is a file: choose another --out.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MARKER not in names and any(name != LOCK and not is_temporary(name, [MARKER]) for name in names):
        raise GrocError(f"{folder} is not empty and no demo made it: choose another --out.")


def claim(folder: Path) -> None:
    """Make the folder one for demos."""
    check(folder)
    write_text(folder / MARKER, "Made by groc demo, which may replace what it left here.\n")


def clear(folder: Path) -> None:
    """Remove what an earlier demo left."""
    for name in (HOME, AWAY, GROC, TIED):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (FIGURES, PICTURE):
        (folder / name).unlink(missing_ok=True)


def compare(folder: Path, started: float) -> Figures:
    """All figures of the two trained models."""
    home, away = Corpus(folder / HOME).text("test"), Corpus(folder / AWAY).text("test")
    contestants, models = {}, {}
    for variant in (GROC, TIED):
        loaded = checkpoint.load(folder / variant)
        model = models[variant] = loaded.model.to(choose(loaded.config.compute).device)
        contestants[variant] = Contestant(
            parameters=model.parameter_count(),
            per_word=model.vocabulary_parameter_count(),
            epochs=loaded.facts["epochs"],
            training_seconds=loaded.facts["training_seconds"],
            valid_perplexity=loaded.facts["valid_perplexity"],
            home=Domain.of(_read(model, home, variant)),
            away=Domain.of(_read(model, away, variant)),
            away_at_best=_perplexity_at_best(model, away),
        )
    # Both models were left in the docstrings' vocabulary.
    chosen = newcomers.choose(away, models[GROC].trained, models[GROC].compiler, NEW_WORDS)
    rows = zip(
        chosen,
        newcomers.nearest(models[GROC], [new.word for new in chosen], NEAREST),
        newcomers.guess(models[GROC], chosen, GUESSES),
        newcomers.guess(models[TIED], chosen, GUESSES),
        strict=True,
    )
    return Figures(
        training_tokens=len(Corpus(folder / HOME).text("train")),
        training_words=len(models[GROC].trained),
        groc=contestants[GROC],
        tied=contestants[TIED],
        newcomers=[Newcomer(*row) for row in rows],
        seconds=time.monotonic() - started,
    )


def _wordnet() -> WordNet:
    if find_folder() is None:
        _say("There is no WordNet on this machine yet.")
        install(_say)
    return WordNet.find()


def _config(variant: str, corpus: Path, epochs: int | None, seed: int) -> Config:
    changes = {"corpus": str(corpus), "training.seed": seed}
    if epochs is not None:
        changes["training.epochs"] = epochs
    return load_recipe(RECIPE, variant).replace(changes)


def _read(model: LanguageModel, text: Text, name: str) -> Scores:
    """Score a text strictly, in the union of the training words and its own; the model stays in that vocabulary. New
    words are as probable together as the rarest words of training."""
    model.set_vocabulary(choose_vocabulary(model.trained, text, "union"))
    progress = Progress(f"{name} reads {text.name}", len(text))
    scores = Online(novelty=1.0).score(model, text.ids(model.vocabulary), progress=progress)
    progress.close()
    return scores


def _perplexity_at_best(model: LanguageModel, text: Text) -> float:
    """Of the text that the model read last, with the best weight of new words for it."""
    tried = tune(model, text.ids(model.vocabulary), Online()).tables[NEW]
    return min(float(row["perplexity"]) for row in tried)


def _draw(figures: Figures, path: Path) -> Path | None:
    try:
        plot.draw(figures, path)
    except ImportError:
        _say("No picture: matplotlib is not installed (pip install -c constraints.txt '.[plot]').")
        return None
    return path


def _say(line: str) -> None:
    print(line, file=sys.stderr)
