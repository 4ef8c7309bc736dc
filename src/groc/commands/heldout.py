"""groc heldout: words taken out of training altogether, then scored by what the model is told of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from groc import checkpoint
from groc.adaptation.conditions import describe, score_held_out
from groc.adaptation.heldout import LINES, RECORD, Choice, HeldOut, check_same, hold_out
from groc.building import build_lexicon
from groc.commands.train import run as train
from groc.compute import Group, choose
from groc.config import Compute, Config
from groc.corpus import Corpus
from groc.forms import FormsCompiler
from groc.recipe import given_settings, load_recipe
from groc.report import to_json
from groc.results import HELD_OUT, RESULT, add_evaluation
from groc.running import may_resume, saying_how_to_go_on, with_own_settings

TEXT, RUN = "text", "run"


def prepare(corpus: str, out: str, choice: Choice, lexicon: str, rules: str, as_json: bool) -> None:
    """Hold words out of a corpus."""
    config = Config().replace({"forms.lexicon": lexicon, "forms.rules": rules})
    record = hold_out(Corpus(corpus), Path(out), _compiler(config), choice)
    if as_json:
        print(to_json({"folder": out, **record}))
        return
    lines = record["lines"]
    print(
        f"{out}: {len(record['words']):,} words are held out. Training keeps {lines['training']:,} of "
        f"{lines['training_before']:,} lines; {lines['scored']:,} lines are there to score. "
        f"Next: groc train RECIPE --corpus {shlex.quote(out)} --out RUN, then groc heldout score RUN {shlex.quote(out)}"
    )


def score(run: str, folder: str, device: str, seed: int, record: bool, as_json: bool) -> None:
    """Score the held-out words with a model that was trained without them."""
    loaded = checkpoint.load(run, choose(Compute(device=device)).device)
    if loaded.warning:
        print(loaded.warning, file=sys.stderr)
    figures = score_held_out(loaded.model, HeldOut.read(Path(folder)), seed)
    if record:
        add_evaluation(Path(run) / RESULT, {"text": str(Path(folder) / LINES), "vocabulary_kind": HELD_OUT, **figures})
    print(to_json({"run": run, "folder": folder, **figures}) if as_json else f"{run}\n{describe(figures)}")


def whole(
    corpus: str,
    recipe: str,
    variant: str | None,
    assignments: Sequence[str],
    out: str,
    choice: Choice,
    resume: bool,
    as_json: bool,
) -> None:
    """Hold words out, train a recipe on the rest, score them."""
    text, folder = Path(out) / TEXT, Path(out) / RUN
    config = load_recipe(recipe, variant, assignments).replace({"corpus": str(text)})
    if resume and (text / RECORD).is_file():
        check_same(text, Corpus(corpus), choice)
    else:
        hold_out(Corpus(corpus), text, _compiler(config), choice)
    group = Group()
    with saying_how_to_go_on(Path(out), group, always=True):
        goes_on = resume and may_resume(folder, group)
        if goes_on:
            config = with_own_settings(config, folder, {*given_settings(assignments), "corpus"}, group)
        train(config, folder, goes_on, group)
        score(str(folder), str(text), config.compute.device, choice.seed, record=True, as_json=as_json)


def _compiler(config: Config) -> FormsCompiler:
    return FormsCompiler(build_lexicon(config), config.forms.rules)
