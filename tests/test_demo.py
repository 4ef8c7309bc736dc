"""The demo: its corpora, the words it shows, what it says, and the whole of it on very little text."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mini_wordnet import build as build_wordnet

from groc import checkpoint
from groc.building import build
from groc.commands import demo as command
from groc.corpus import Corpus, read_text
from groc.demo import corpora, newcomers
from groc.demo.figures import Contestant, Domain, Figures, Newcomer
from groc.demo.newcomers import Guess, NewWord
from groc.demo.story import WIDTH, comparison, conclusion, introduction, setting, verdict
from groc.errors import GrocError
from groc.lexicon import Glossary, WordNet
from groc.model import LanguageModel
from groc.recipe import load_recipe
from groc.scoring import score
from groc.vocabulary import Vocabulary

MODULE = '''"""A module that does a few things. It does them well!

>>> f(1)
never seen

    +----+----+
    | ab | cd |
    +----+----+
"""

class Reader:
    """Reads the cat and the dog
    from two lines."""

    def undocumented(self): ...

    async def read(self):
        """Return one puppy at a time; see the rules:

        - the first point is a long one
        - the second point is here
        """
'''


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A small standard library, with what must be left out of it."""
    folder = tmp_path / "library"
    for name in ("tool.py", "package/tool.py", "test/test_tool.py", "site-packages/other.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "tool.py").write_text(MODULE)
    (folder / "package" / "tool.py").write_text('"""Another mouse lives in this package."""\n')
    (folder / "package" / "broken.py").write_text('"""This cannot be parsed."""\ndef (:\n')
    (folder / "test" / "test_tool.py").write_text('"""Tests are not for reading."""\n')
    (folder / "site-packages" / "other.py").write_text('"""Somebody else wrote this one."""\n')
    return folder


# --- corpora ----------------------------------------------------------------------------------------------------------


def test_home_holds_every_example_once(tmp_path: Path) -> None:
    wordnet = WordNet(build_wordnet(tmp_path / "wordnet"))
    corpora.write_home(wordnet, tmp_path / "home", seed=1, at_least=1)
    lines = {split: _lines(tmp_path / "home", split) for split in ("train", "valid", "test")}
    everything = [line for split in lines.values() for line in split]
    assert sorted(everything) == sorted({" ".join(example.split()) for example in wordnet.examples()})
    assert len(lines["valid"]) == len(lines["test"]) == 1


def test_home_leaves_out_examples_with_rare_words(tmp_path: Path) -> None:
    wordnet = WordNet(build_wordnet(tmp_path / "wordnet"))
    corpora.write_home(wordnet, tmp_path / "home", seed=1, at_least=1)
    everything = [line for split in ("train", "valid", "test") for line in _lines(tmp_path / "home", split)]
    assert "well done" in everything
    with pytest.raises(GrocError, match="usage examples of common words"):
        corpora.write_home(wordnet, tmp_path / "strict", seed=1, at_least=3)


def test_home_depends_on_the_seed_alone(tmp_path: Path) -> None:
    wordnet = WordNet(build_wordnet(tmp_path / "wordnet"))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        corpora.write_home(wordnet, tmp_path / name, seed, at_least=1)
    texts = {
        name: "".join((tmp_path / name / f"{split}.txt").read_text() for split in ("train", "test")) for name in "abc"
    }
    assert texts["a"] == texts["b"] != texts["c"]


def test_away_holds_the_prose_of_docstrings(tmp_path: Path, library: Path) -> None:
    corpora.write_away(tmp_path / "away", seed=1, library=library)
    assert sorted(_lines(tmp_path / "away", "test")) == [
        "- the first point is a long one",
        "- the second point is here",
        "a module that does a few things .",
        "another mouse lives in this package .",
        "it does them well !",
        "reads the cat and the dog from two lines .",
        "return one puppy at a time ; see the rules :",
    ]


def test_away_stops_when_it_has_enough(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "AWAY_TOKENS", 15)
    corpora.write_away(tmp_path / "away", seed=1, library=library)
    assert 15 <= len(read_text(tmp_path / "away" / "test.txt")) < 30


def test_away_needs_docstrings(tmp_path: Path) -> None:
    with pytest.raises(GrocError, match="no docstrings"):
        corpora.write_away(tmp_path / "away", seed=1, library=tmp_path)


def _lines(folder: Path, split: str) -> list[str]:
    return (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()


# --- new words --------------------------------------------------------------------------------------------------------

GLOSSARY = Glossary({"mouse": ("a small grey animal", ()), "mice": ("more than one mouse", ()), "in": ("inch", ())})


@pytest.fixture(params=["groc", "tied"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    """An untrained model of five words that has been given four more."""
    torch.manual_seed(1)
    config = load_recipe(
        "tiny", request.param, ["model.dim=8", "prefix.hidden=8", "surface.buckets=50", "surface.familiar=false"]
    )
    model = build(config, Vocabulary(["<eos>", "the", "cat", "dog", "barked"], [9, 5, 2, 2, 1]), GLOSSARY).eval()
    model.set_vocabulary(model.trained.union(["mouse", "mice", "in", "x86"]))
    return model


@pytest.fixture
def text(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "text.txt"
    path.write_text(
        "the mouse barked\nmice barked in x86\nthe dog and the cat mouse mice\nthe cat the cat the cat the dog mice\n"
    )
    return path


def test_new_words_are_frequent_defined_and_never_seen(text: Path, model: LanguageModel) -> None:
    compiler = dataclasses.replace(model.compiler, lexicon=GLOSSARY, max_definition=3)
    chosen = newcomers.choose(read_text(text), model.trained, compiler, limit=10)
    assert [(new.word, new.count, new.definition) for new in chosen] == [
        ("mice", 3, ("more", "than", "one")),
        ("mouse", 2, ("a", "small", "grey")),
    ]
    assert newcomers.choose(read_text(text), model.trained, compiler, limit=1) == chosen[:1]


def test_context_is_the_shortest_line_that_leads_up_to_the_word(text: Path) -> None:
    assert newcomers.context(read_text(text), "mouse") == tuple("the dog and the cat".split())
    assert newcomers.context(read_text(text), "mice") == tuple("the dog and the cat mouse".split())
    assert newcomers.context(read_text(text), "in") == ("mice", "barked")


def test_nearest_words_are_trained_and_in_order_of_their_angle(model: LanguageModel) -> None:
    [(first, *rest)] = newcomers.nearest(model, ["mouse"], limit=3)
    with torch.inference_mode():
        vectors = model.embed().output
    index = model.vocabulary.index

    def cosine(word: str) -> float:
        return float(torch.cosine_similarity(vectors[index["mouse"]], vectors[index[word]], dim=0))

    words = ["the", "cat", "dog", "barked"]
    assert [first, *rest] == sorted(words, key=cosine, reverse=True)[:3]


def test_guesses_agree_with_the_scores(model: LanguageModel) -> None:
    """A new word at a line's start is scored as the text's first word is."""
    new = NewWord("mouse", 1, (), ("the", "cat"))
    everything = len(model.vocabulary)
    [guess] = newcomers.guess(model, [new], limit=everything)
    index = model.vocabulary.index
    ids = np.array([index[word] for word in ("the", "cat", "mouse")], np.int32)
    assert guess.probability == pytest.approx(np.exp(score(model, ids).log_prob[-1]), rel=1e-4)
    assert sorted(guess.best) == sorted(model.vocabulary)
    others = [dataclasses.replace(new, word=word) for word in model.vocabulary]
    guesses = newcomers.guess(model, others, limit=1)
    assert sum(other.probability for other in guesses) == pytest.approx(1, abs=1e-4)
    by_rank = sorted(guesses, key=lambda other: other.rank)
    assert [other.probability for other in by_rank] == sorted((other.probability for other in guesses), reverse=True)
    assert by_rank[0].rank == 1


# --- figures and their story ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("groc", "tied"), [(100.0, 200.0), (200.0, 100.0)])
def test_verdict_says_who_is_better_and_by_how_much(groc: float, tied: float) -> None:
    winner, loser = ("GroC's", "the tied model's") if groc < tied else ("the tied model's", "GroC's")
    assert verdict(groc, tied) == f"{winner} perplexity is 50% lower than {loser}"


def test_verdict_of_equals() -> None:
    assert verdict(100.0, 100.4) == verdict(100.4, 100.0) == "the two are equal within 1%"


def test_conclusion_is_true_in_both_directions() -> None:
    groc, tied = _contestant(100, 300, unseen=8.0), _contestant(110, 500, unseen=14.0)
    good, bad = (_flat(conclusion(_figures(*pair))) for pair in ((groc, tied), (tied, groc)))
    assert "At home GroC's perplexity is 9% lower" in good
    assert "At home the tied model's perplexity is 9% lower" in bad
    assert "no training, GroC's perplexity is 40% lower" in good
    assert "no training, the tied model's perplexity is 40% lower" in bad
    assert "GroC loses 8.00 nats on each and the tied model 14.00" in good
    assert "GroC does better than even odds" in good
    assert "GroC does worse than even odds" in bad
    assert "to suit the docstrings, GroC's perplexity is 40% lower" in good
    assert "to suit the docstrings, the tied model's perplexity is 40% lower" in bad
    assert "Of the 1 new words above, 1 are more probable under GroC than under the tied model, by what each" in good


def test_it_is_said_which_figures_weigh_new_words() -> None:
    figures = _figures(_contestant(100, 300, unseen=8.0), _contestant(110, 500, unseen=14.0))
    said = "In the table all new words together are as probable as the rarest"
    assert said in _flat(setting(figures))
    assert said not in _flat(setting(dataclasses.replace(figures, newcomers=[])))


def test_conclusion_says_nothing_of_new_words_where_there_are_none() -> None:
    seen = _contestant(100, 300, unseen=None)
    story = conclusion(dataclasses.replace(_figures(seen, seen), newcomers=[]))
    assert "never seen" not in story
    assert "new words" not in story
    assert "-" in comparison(_figures(seen, seen))


def test_lines_fit_a_terminal() -> None:
    figures = _figures(_contestant(100, 300, 8.0), _contestant(110, 500, 14.0))
    for text in (setting(figures), comparison(figures), conclusion(figures), introduction(figures.newcomers[0])):
        assert max(map(len, text.splitlines())) <= WIDTH


def _contestant(home: float, away: float, unseen: float | None) -> Contestant:
    share = 0.0 if unseen is None else 0.2
    domains = (Domain(1000, 5000, share, perplexity, perplexity / 2, unseen, []) for perplexity in (home, away))
    return Contestant(1_000_000, 0, 5, 80.0, 120.0, *domains, away_at_best=away * 0.8)


def _figures(groc: Contestant, tied: Contestant) -> Figures:
    newcomer = Newcomer(
        NewWord("mouse", 3, ("is", "small"), ("word",) * 100),
        ["cat", "dog"],
        Guess(("the", "a"), 12, 1e-3),
        Guess(("the", "of"), 4000, 1e-6),
    )
    return Figures(100_000, 4000, groc, tied, newcomers=[newcomer], seconds=1.0)


def _flat(text: str) -> str:
    return " ".join(text.split())


# --- the whole --------------------------------------------------------------------------------------------------------


def test_foreign_folders_are_refused_and_untouched(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "letter.txt").write_text("dear")
    with pytest.raises(GrocError, match="no demo made it"):
        command.demo(str(folder), None, 1, False)
    assert [path.name for path in folder.rglob("*")] == ["home", "letter.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(GrocError, match="is a file"):
        command.demo(str(tmp_path / "file"), None, 1, False)


def test_demo_tells_the_whole_story_twice(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GROC_WORDNET", str(build_wordnet(tmp_path / "wordnet")))
    monkeypatch.setattr(WordNet, "examples", lambda self: _examples())
    monkeypatch.setattr(corpora.sysconfig, "get_paths", lambda: {"stdlib": str(library)})
    out = tmp_path / "out"

    command.demo(str(out), epochs=1, seed=1, as_json=False)
    told = capsys.readouterr().out
    figures = json.loads((out / "demo.json").read_text())
    assert f"{figures['groc']['home']['perplexity']:,.1f}" in told
    assert f"{figures['tied']['away']['perplexity']:,.1f}" in told
    assert all(figures[name]["away_at_best"] <= figures[name]["away"]["perplexity"] for name in ("groc", "tied"))
    assert {newcomer["new"]["word"] for newcomer in figures["newcomers"]} == {"mouse", "puppy", "well"}
    assert "GroC has" in told
    assert figures["groc"]["per_word"] == 0 < figures["tied"]["per_word"]
    assert figures["groc"]["epochs"] == figures["tied"]["epochs"] == 1
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert checkpoint.load(out / "groc").model.trained == Corpus(out / "home").vocabulary()

    (out / "note.txt").write_text("mine")
    command.demo(str(out), epochs=1, seed=1, as_json=True)
    again = json.loads(capsys.readouterr().out)
    assert again["groc"]["home"] == figures["groc"]["home"]  # the same seed, the same figures
    assert again["newcomers"] == figures["newcomers"]
    assert (out / "note.txt").read_text() == "mine"


def test_demo_goes_on_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    figures = _figures(_contestant(100, 300, 8.0), _contestant(110, 500, 14.0))
    assert command._draw(figures, tmp_path / "demo.png") is None
    assert not (tmp_path / "demo.png").exists()


def _examples() -> Iterator[str]:
    """Enough sentences for the recipe's batch, all of common words."""
    draw = random.Random(1)
    return (
        " ".join(draw.choice(("the cat", "a dog", "and", "barked", "is here", "lives", "first")) for _ in range(5))
        for _ in range(400)
    )
