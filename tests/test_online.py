"""What helps a model while it reads: put together, tuned on a text of its own, and asked for on the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config, tiny_model

from groc import checkpoint
from groc.adaptation.caches import Chain, Interpolated, Joined, LocalCache, NewWords, UnboundedCache, Unigram
from groc.adaptation.dynamic import Dynamic, score_dynamically
from groc.adaptation.online import USUAL_SHARPNESS, CacheSettings, Online, describe
from groc.adaptation.tuning import NEW, Grids, Tuned, _best, _Choice, at_edges, tune
from groc.building import build
from groc.cli import main
from groc.corpus import Corpus, Text
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import score
from groc.vocabulary import Vocabulary

open_and_closed = pytest.mark.parametrize("kind", ["groc", "tied"])
GRIDS = Grids(
    shares=(0.5, 0.8, 0.95),
    angle_thetas=(0.0, 0.5, 2.0),
    local_thetas=(0.0, 0.25, 0.5, 2.0),
    kernel_thetas=(1.0, 8.0),
    log_odds=(-3.0, -1.0),
    novelty=(0.3, 1.0, 3.0),
    sharpness=(0.0, 0.3),
    uniform=(0.003, 0.03, 0.3),
    rates=(0.03, 0.3),
    measured_rates=(0.1, 0.5),
    decays=(0.0, 0.01),
)


@pytest.fixture
def valid(corpus_folder: Path) -> Text:
    return Corpus(corpus_folder).text("valid")


@pytest.fixture
def make(vocabulary: Vocabulary, glossary: Glossary, valid: Text) -> Callable[[str], LanguageModel]:
    """A model whose vocabulary holds the words of the valid text."""

    def model(kind: str) -> LanguageModel:
        model = tiny_model(kind, "ngrams", vocabulary, glossary)
        model.set_vocabulary(vocabulary.union(valid.types))
        return model

    return model


def loss(model: LanguageModel, text: Text, online: Online, **more: Any) -> float:
    return -float(online.score(model, text.ids(model.vocabulary), **more).log_prob.mean())


class TestOnline:
    @open_and_closed
    def test_applies_all_in_order(self, kind: str, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make(kind)
        ids = valid.ids(model.vocabulary)
        online = Online(
            novelty=3.5,
            sharpness=0.3,
            caches=(
                CacheSettings("unigram", share=0.8),
                CacheSettings("local", theta=0.3, size=20, recency=7.0, likeness="published", joined=True, alpha=-2.0),
                CacheSettings("unbounded", share=0.9, theta=3.0, size=500),
            ),
        )
        found = online.score(model, ids).log_prob
        assert model.uniform == pytest.approx(0.99)
        model.uniform = 1.0
        by_hand = Chain(
            NewWords(3.5, 0.3),
            Interpolated(Unigram(), 0.8),
            Joined(LocalCache(0.3, 20, recency=7), -2.0),
            Interpolated(UnboundedCache(3.0, 500, None, 100, "angle", last=10_000), 0.9),
        )
        np.testing.assert_array_equal(found, score(model, ids, correction=by_hand).log_prob)

    def test_does_nothing_where_nothing_is_asked(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make("groc")
        ids = valid.ids(model.vocabulary)
        np.testing.assert_array_equal(Online().score(model, ids).log_prob, score(model, ids).log_prob)
        assert describe(Online().facts()) == ""

    def test_scores_twice_alike(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model, online = make("groc"), Online(caches=(CacheSettings("unigram"), CacheSettings("unbounded")))
        assert loss(model, valid, online) == loss(model, valid, online)

    def test_learns_with_caches_on_top(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model, dynamic = make("tied"), Dynamic(0.1, 0.01, 10)
        ids = valid.ids(model.vocabulary)
        found = Online(dynamic=dynamic, caches=(CacheSettings("local", share=0.7),)).score(model, ids).log_prob
        by_hand = score_dynamically(
            model, ids, dynamic, correction=Interpolated(LocalCache(10.0, 10_000, 100, "angle"), 0.7)
        )
        np.testing.assert_array_equal(found, by_hand.log_prob)

    def test_says_what_was_used(self) -> None:
        online = Online(novelty=0.8, dynamic=Dynamic(rate=0.2), caches=(CacheSettings("local", theta=0.25),))
        facts = online.facts()
        used = {
            "kind": "local",
            "lambda": "learned",
            "theta": 0.25,
            "size": 10_000,
            "recency": 100.0,
            "likeness": "angle",
        }
        assert facts["caches"] == [used]
        assert Online.of(facts).facts() == facts
        old = {key: used[key] for key in used if key not in ("recency", "likeness")}
        of_old = Online.of({**facts, "caches": [old]})
        assert of_old.facts()["caches"] == [{**old, "recency": 0.0, "likeness": "published"}]
        fading = {"kind": "unbounded", "lambda": "learned", "theta": 24.0, "size": 4096, "recency": 100.0}
        of_old = Online.of({**facts, "caches": [{**fading, "neighbours": "exact"}]})
        since = {"likeness": "published", "last": 0, "neighbours": "exact"}
        assert of_old.facts()["caches"] == [{**fading, **since}]
        assert (facts["novelty"], facts["sharpness"]) == (0.8, 0.2)
        assert facts["dynamic"]["rate"] == 0.2
        text = describe(facts)
        assert all(
            part in text
            for part in (
                "local cache",
                "lambda learned",
                "theta 0.25",
                "new words (weight 0.8, sharpness 0.2)",
                "rate 0.2",
            )
        )
        assert "new words (weight 0.8), local" in describe({**facts, "sharpness": None})
        assert "False" not in text  # what is off is not told
        learning = describe({**facts, "dynamic": {**facts["dynamic"], "prefix_only": True}})
        assert learning.endswith("prefix only)")

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            (lambda: CacheSettings("huge"), "unigram, local, unbounded"),
            (lambda: CacheSettings("local", joined=True).build(), "alpha"),
            (lambda: CacheSettings("unigram", theta=0.5), "unigram cache .* leave out theta"),
            (lambda: CacheSettings("unigram", size=100), "unigram cache .* size"),
            (lambda: CacheSettings("unigram", recency=9.0), "unigram cache .* recency"),
            (lambda: CacheSettings("unigram", likeness="angle"), "unigram cache .* likeness"),
            (lambda: CacheSettings("local", likeness="cosine"), "angle or published"),
            (lambda: CacheSettings("local", last=9), "local cache .*--last"),
            (lambda: CacheSettings("local", faiss=True), "local cache .* leave out FAISS"),
            (lambda: CacheSettings("local", share=0.9, joined=True, alpha=1.0), "not both"),
            (lambda: Online(uniform=0.0), "evenly"),
            (lambda: Online(uniform=1.0), "evenly"),
            (lambda: Online(novelty=math.nan), "above 0"),
            (lambda: Online(novelty=1.0, uniform=0.1), "leave out"),
            (lambda: Online(novelty=1.0, sharpness=-1.0), "sharpness"),
            (lambda: Online.of({"new_words_as": 16.0, "caches": [], "dynamic": None}), "earlier version"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong: Callable[[], object], reason: str) -> None:
        with pytest.raises(GrocError, match=reason):
            wrong()


@pytest.mark.parametrize(
    ("losses", "edges"),
    [
        ((3, 1, 2), []),
        ((3, 2, 1), ["theta of local (2)"]),
        ((1, 2, 3), []),  # there is nothing below 0
    ],
)
def test_a_best_value_at_an_edge_is_told(losses: tuple[float, ...], edges: list[str]) -> None:
    rows = [
        {"lambda": "learned", "theta": theta, "loss": loss, "perplexity": math.exp(loss)}
        for theta, loss in zip((0.0, 0.5, 2.0), losses, strict=True)
    ]
    assert at_edges({"1 local": rows}) == edges
    assert at_edges({"1 local": rows[:1]}) == []


def tuned(model: LanguageModel, text: Text, online: Online, **more: Any) -> Tuned:
    return tune(model, text.ids(model.vocabulary), online, grids=GRIDS, quiet=True, **more)


class TestTuning:
    @open_and_closed
    @pytest.mark.parametrize(
        ("cache", "thetas"),
        [
            (CacheSettings("unigram"), 1),
            (CacheSettings("local", size=500), 3),
            (CacheSettings("unbounded", size=5, last=20), 3),
            (CacheSettings("local", size=500, likeness="published"), 4),
            (CacheSettings("unbounded", size=500, likeness="published"), 2),
        ],
    )
    @pytest.mark.parametrize("joined", [False, True])
    def test_every_row_is_what_scoring_gives_and_the_best_is_taken(
        self, kind: str, cache: CacheSettings, thetas: int, joined: bool, make: Callable[[str], LanguageModel],
        valid: Text,
    ) -> None:  # fmt: skip
        model = make(kind)
        found = tuned(model, valid, Online(caches=(replace(cache, joined=joined),)))
        rows = found.tables[f"1 {cache.kind}"]
        assert len(rows) == (2 if joined else 4) * thetas
        assert len(found.tables[NEW]) == (6 if kind == "tied" else 7)  # three weights, and shares or sharpnesses
        best = loss(model, valid, found.online)
        for table in (rows, found.tables[NEW]):
            assert min(row["loss"] for row in table) == pytest.approx(best, abs=1e-5)
            assert all(row["perplexity"] == pytest.approx(math.exp(row["loss"])) for row in table)
        names = {"lambda": "share"}
        for row in rows:
            values = {names.get(key, key): value for key, value in row.items() if key not in ("loss", "perplexity")}
            settings = replace(found.online.caches[0], **values)
            assert loss(model, valid, replace(found.online, caches=(settings,))) == pytest.approx(row["loss"], abs=1e-5)
        for row in found.tables[NEW]:
            values = {key: value for key, value in row.items() if key not in ("loss", "perplexity")}
            other = replace(found.online, **{"uniform": None, "novelty": None, **values})
            assert loss(model, valid, other) == pytest.approx(row["loss"], abs=1e-5)
            assert ("sharpness" in values) == (kind == "groc")  # in a closed model new words share evenly

    @open_and_closed
    @pytest.mark.parametrize("weight", [None, 2.0])
    def test_a_text_without_new_words_does_not_tell_what_they_should_get(
        self, kind: str, weight: float | None, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        """Though it is likeliest where they get nothing."""
        model = make(kind)
        old = Text("old", ("the", "dog", "<eos>"), np.array([0, 1, 2] * 20, np.int32))
        found = tuned(model, old, Online(novelty=weight))
        assert NEW not in found.tables
        assert found.online.sharpness in (None, 0.0 if kind == "tied" else USUAL_SHARPNESS)
        usual = loss(model, valid, Online(novelty=weight))
        assert loss(model, valid, found.online) == pytest.approx(usual, abs=1e-6)

    @open_and_closed
    def test_with_one_cache_nothing_of_the_grid_is_better(
        self, kind: str, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        model = make(kind)
        found = tuned(model, valid, Online(caches=(CacheSettings("local", size=40),)))
        best = loss(model, valid, found.online)
        bases: list[dict[str, Any]] = [
            {"novelty": novelty, "sharpness": how} for novelty, how in product(GRIDS.novelty, GRIDS.sharpness)
        ]
        bases += [{"uniform": share} for share in GRIDS.uniform] if kind == "tied" else [{}]
        for base, share, theta in product(bases, GRIDS.shares, GRIDS.angle_thetas):
            other = Online(**base, caches=(CacheSettings("local", share=share, theta=theta, size=40),))
            assert loss(model, valid, other) >= best - 1e-6

    @open_and_closed
    def test_several_caches_end_where_no_single_change_helps(
        self, kind: str, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        model = make(kind)
        found = tuned(model, valid, Online(caches=(CacheSettings("unigram"), CacheSettings("local", size=50))))
        best = loss(model, valid, found.online)
        assert [cache.kind for cache in found.online.caches] == ["unigram", "local"]
        assert len(found.tables) == 3
        for rows in found.tables.values():
            assert min(row["loss"] for row in rows) == pytest.approx(best, abs=1e-5)

    def test_what_is_given_is_kept(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make("groc")
        given = CacheSettings("local", share=0.77, size=30)
        found = tuned(model, valid, Online(novelty=3, sharpness=0.5, caches=(given,)))
        assert (found.online.novelty, found.online.sharpness) == (3, 0.5)
        assert replace(found.online.caches[0], theta=None) == given
        assert list(found.tables) == ["1 local"]
        assert tuned(model, valid, found.online).online == found.online

    def test_a_closed_model_may_keep_its_share(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make("tied")
        for given in (Online(uniform=0.05), Online(novelty=9.0, sharpness=0.0)):
            assert tuned(model, valid, given).online == given
        found = tuned(model, valid, Online())
        assert found.online.uniform in GRIDS.uniform or found.online.novelty in GRIDS.novelty
        assert loss(model, valid, found.online) == pytest.approx(
            min(row["loss"] for row in found.tables[NEW]), abs=1e-5
        )

    @open_and_closed
    def test_dynamic_evaluation_comes_first(self, kind: str, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make(kind)
        short = Text(valid.name, valid.types, valid.codes[:60])
        found = tuned(model, short, Online(0.01, Dynamic(), caches=(CacheSettings("unigram"),)))
        rows = found.tables["dynamic"]
        assert [(row["rate"], row["decay"]) for row in rows] == [(0.03, 0.0), (0.03, 0.01), (0.3, 0.0), (0.3, 0.01)]
        assert found.online.dynamic is not None
        alone = Online(0.01, found.online.dynamic)
        assert loss(model, short, alone) == pytest.approx(min(row["loss"] for row in rows), abs=1e-6)
        assert loss(model, short, found.online) == pytest.approx(
            min(row["loss"] for row in found.tables["1 unigram"]), abs=1e-5
        )

    @open_and_closed
    def test_dynamic_evaluation_is_tuned_with_the_weight_of_new_words(
        self, kind: str, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        """A closed model gives them nothing else."""
        model = make(kind)
        short = Text(valid.name, valid.types, valid.codes[:60])
        given = Online(novelty=2.0, sharpness=0.0, dynamic=Dynamic())
        rows = tuned(model, short, given).tables["dynamic"]
        for row in rows:
            dynamic = Dynamic(rate=row["rate"], decay=row["decay"])
            assert row["loss"] == pytest.approx(loss(model, short, replace(given, dynamic=dynamic)), abs=1e-6)

    def test_measured_gradients_have_rates_of_their_own(
        self, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        model = make("tied")
        sizes = {name: torch.ones_like(some) for name, some in model.named_parameters()}
        short = Text(valid.name, valid.types, valid.codes[:30])
        found = tuned(model, short, Online(dynamic=Dynamic(decay=0.0)), sizes=sizes)
        assert [row["rate"] for row in found.tables["dynamic"]] == [0.1, 0.5]

    def test_a_rate_that_leads_astray_is_never_the_best(
        self, make: Callable[[str], LanguageModel], valid: Text
    ) -> None:
        model = make("groc")
        ids = valid.ids(model.vocabulary)[:60]
        found = tune(model, ids, Online(dynamic=Dynamic(decay=0.0)), grids=Grids(rates=(1e30, 0.1)), quiet=True)
        assert found.tables["dynamic"][0]["loss"] == math.inf
        assert found.online.dynamic == Dynamic(0.1, 0.0)

    def test_the_model_stays_as_it_was(self, make: Callable[[str], LanguageModel], valid: Text) -> None:
        model = make("tied")
        before = score(model, valid.ids(model.vocabulary)).log_prob
        tuned(model, valid, Online(caches=(CacheSettings("local"),)))
        np.testing.assert_array_equal(score(model, valid.ids(model.vocabulary)).log_prob, before)

    def test_a_text_without_words_is_refused(self, make: Callable[[str], LanguageModel]) -> None:
        with pytest.raises(GrocError, match="nothing to tune on"):
            tune(make("groc"), [], Online())


def test_tuning_is_not_caught_where_no_single_change_helps() -> None:
    losses = [[1.0, 3.0], [3.0, 0.0]]  # from the first choices on, a change of either alone is a loss

    def first(number: int) -> _Choice:
        return _Choice({"first": number}, None, lambda x: torch.full_like(x, number))

    def second(number: int) -> _Choice:
        return _Choice({"second": number}, None, lambda x: -torch.tensor(losses[number])[x.long()])

    taken, rows = _best(torch.zeros(5), [[first(0), first(1)], [second(0), second(1)]], quiet=True)
    assert [choice.values for choice in taken] == [{"first": 1}, {"second": 1}]
    assert [[row["loss"] for row in table] for table in rows] == [[3.0, 0.0], [3.0, 0.0]]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path, vocabulary: Vocabulary, glossary_file: Path, glossary: Glossary) -> dict[str, str]:
    folders = {}
    for kind in ("groc", "tied"):
        changes = {"forms.lexicon": str(glossary_file)}
        checkpoint.save(
            tmp_path / kind,
            tiny_model(kind, "ngrams", vocabulary, glossary, changes),
            tiny_config(kind, changes=changes),
        )
        folders[kind] = str(tmp_path / kind)
    return folders


Evaluate = Callable[..., Any]


@pytest.fixture
def evaluate(runs: dict[str, str], corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> Evaluate:
    """`groc eval --json` of a model on the test text."""

    def call(kind: str, *options: str, status: int = 0) -> Any:
        capsys.readouterr()
        try:
            returned = main(["eval", runs[kind], str(corpus_folder), "--device", "cpu", "--json", *options])
        except SystemExit as exit_:  # argparse
            returned = int(exit_.code or 0)
        assert returned == status
        captured = capsys.readouterr()
        return json.loads(captured.out) if status == 0 else captured.err

    return call


class TestCommand:
    def test_without_options_nothing_is_added(self, evaluate: Evaluate) -> None:
        summary = evaluate("groc")
        assert (summary["caches"], summary["novelty"], summary["dynamic"]) == ([], None, None)
        assert (summary["tuned_on"], summary["tuning"]) == ("", {})

    @open_and_closed
    def test_values_belong_to_the_cache_before_them(
        self, evaluate: Evaluate, runs: dict[str, str], corpus_folder: Path, kind: str
    ) -> None:
        options = "--cache unigram --lambda 0.8 --cache local --lambda 0.7 --theta 0.2 --cache-size 30 --recency 5"
        sharpness = ["--sharpness", "0.5"] if kind == "groc" else []  # new words of a closed model share evenly
        summary = evaluate(kind, *options.split(), "--new-words", "3.5", *sharpness)
        assert summary["caches"] == [
            {"kind": "unigram", "lambda": 0.8},
            {"kind": "local", "lambda": 0.7, "theta": 0.2, "size": 30, "recency": 5.0, "likeness": "angle"},
        ]
        assert (summary["novelty"], summary["uniform_mixed_in"]) == (3.5, 0)
        assert summary["sharpness"] == (0.5 if kind == "groc" else None)
        model, text = checkpoint.load(runs[kind]).model, Corpus(corpus_folder).text("test")
        model.set_vocabulary(model.trained.union(text.types))
        caches = (CacheSettings("unigram", share=0.8), CacheSettings("local", 0.7, 0.2, 30, 5.0))
        expected = loss(model, text, Online(novelty=3.5, sharpness=0.5, caches=caches))
        assert summary["loss"] == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize(("kind", "theta", "size"), [("local", 0.5, 10_000), ("unbounded", 1.0, 1024)])
    def test_published_caches_have_published_values(
        self, evaluate: Evaluate, kind: str, theta: float, size: int
    ) -> None:
        (used,) = evaluate("groc", "--cache", kind, "--likeness", "published")["caches"]
        found = (used["theta"], used["size"], used["recency"], used["likeness"], used.get("last", 0))
        assert found == (theta, size, 0.0, "published", 0)

    def test_a_cache_may_join_the_softmax(self, evaluate: Evaluate, corpus_folder: Path) -> None:
        summary = evaluate("groc", "--cache", "unbounded", "--alpha", "-3", "--cache-size", "9", "--recency", "0")
        cache = {"kind": "unbounded", "alpha": -3.0, "theta": 10.0, "size": 9, "recency": 0.0}
        assert summary["caches"] == [{**cache, "likeness": "angle", "last": 10_000, "neighbours": "exact"}]
        assert "--tune" in evaluate("groc", "--cache", "local", "--alpha", "tune", status=1)
        summary = evaluate("groc", "--cache", "local", "--alpha", "tune", "--tune", str(corpus_folder))
        assert summary["caches"][0]["alpha"] in {row["alpha"] for row in summary["tuning"]["1 local"]}

    def test_what_is_not_given_is_tuned(self, evaluate: Evaluate, corpus_folder: Path) -> None:
        summary = evaluate("tied", "--cache", "local", "--lambda", "0.9", "--tune", str(corpus_folder))
        assert summary["caches"][0]["lambda"] == 0.9
        assert {row["theta"] for row in summary["tuning"]["1 local"]} == set(Grids().angle_thetas)
        assert summary["tuned_on"].endswith("valid.txt")
        share, novelty = summary["uniform_mixed_in"], summary["novelty"]
        assert share in Grids().uniform or novelty in Grids().novelty
        of_new = ("--uniform", str(share)) if share else ("--new-words", str(novelty))
        theta = str(summary["caches"][0]["theta"])
        again = evaluate("tied", *of_new, "--cache", "local", "--lambda", "0.9", "--theta", theta)
        assert again["loss"] == pytest.approx(summary["loss"], abs=1e-6)

    @open_and_closed
    def test_dynamic_evaluation(self, evaluate: Evaluate, corpus_folder: Path, kind: str) -> None:
        static, plain = evaluate(kind), evaluate(kind, "--dynamic", "--rate", "0.1", "--decay", "0", "--every", "5")
        assert plain["dynamic"] == {"rate": 0.1, "decay": 0.0, "every": 5, "prefix_only": False, "measured": False}
        assert plain["loss"] != static["loss"]
        measured = evaluate(kind, "--dynamic", "--prefix-only", "--gradients", str(corpus_folder))
        assert measured["dynamic"]["measured"]
        assert measured["dynamic"]["prefix_only"]
        assert measured["loss"] not in (static["loss"], plain["loss"])
        assert evaluate(kind)["loss"] == static["loss"]

    def test_a_person_is_told_too(
        self, runs: dict[str, str], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--cache", "local", "--tune", str(corpus_folder), "--device", "cpu"]
        assert main(["eval", runs["groc"], str(corpus_folder), *options]) == 0
        second = capsys.readouterr().out.splitlines()[1]
        assert second.startswith("with new words (weight ")
        assert "), local cache (lambda " in second
        assert second.endswith("valid.txt")

    def test_a_huge_perplexity_is_short(
        self, runs: dict[str, str], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["eval", runs["groc"], str(corpus_folder), "--cache", "local", "--alpha", "500"]) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("perplexity"))
        assert "e+" in line.split()[1]

    def test_a_person_is_told_of_a_sharpness_only_where_there_is_one(
        self, runs: dict[str, str], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for kind, told in (("groc", "weight 1.5, sharpness 0.2"), ("tied", "weight 1.5")):
            assert main(["eval", runs[kind], str(corpus_folder), "--new-words", "1.5", "--device", "cpu"]) == 0
            assert capsys.readouterr().out.splitlines()[1] == f"with new words ({told})"
        assert main(["eval", runs["tied"], str(corpus_folder), "--new-words", "1.5", "--sharpness", "0.5"]) == 1
        assert "leave out --sharpness" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("kind", "options", "usual"),
        [
            ("groc", "", "each is as probable as the model says"),
            ("tied", "", "1% of the probability is spread evenly"),
            ("groc", "--new-words 2", "sharpness is 0.2"),
            ("groc", "--new-words 2 --sharpness 0.5", None),
            ("tied", "--new-words 2", None),
            ("tied", "--uniform 0.1", None),
            ("groc", "--vocabulary train", None),  # no word is new where the model reads either
        ],
    )
    def test_where_nothing_can_be_tuned_for_new_words_it_is_said(
        self,
        runs: dict[str, str],
        corpus_folder: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        kind: str,
        options: str,
        usual: str | None,
    ) -> None:
        (tmp_path / "old.txt").write_text("the dog runs\n")
        capsys.readouterr()
        for text, expected in ((tmp_path / "old.txt", usual), (corpus_folder, None)):
            command = ["eval", runs[kind], str(corpus_folder), "--device", "cpu", "--tune", str(text)]
            assert main([*command, *options.split()]) == 0
            said = [line for line in capsys.readouterr().err.splitlines() if "cannot be tuned" in line]
            assert len(said) == (expected is not None)
            assert all("old.txt" in line and str(expected) in line for line in said)

    @pytest.mark.parametrize(
        ("options", "status", "reason"),
        [
            ("--cache local --lambda 2", 1, "lambda"),
            ("--cache local --lambda much", 2, "between 0 and 1, or learned"),
            ("--cache local --theta -1", 1, "theta"),
            ("--cache local --cache-size 0", 1, "size"),
            ("--cache unigram --theta 0.5", 1, "leave out theta (--theta)"),
            ("--cache unigram --cache-size 100 --cache local", 1, "(--cache-size)"),
            ("--cache local --faiss", 1, "leave out FAISS"),
            ("--cache local --lambda 0.9 --alpha 1", 1, "not both"),
            ("--new-words 0", 1, "weight of new words"),
            ("--uniform 1", 1, "evenly"),
            ("--uniform 0.1 --new-words 1", 1, "leave out"),
            ("--sharpness 0.5", 2, "belongs to --new-words"),
            ("--new-words 1 --sharpness 1e30", 1, "between 0"),
            ("--uniform 0.1", 1, "leave out --uniform"),
            ("--dynamic --rate -1", 1, "rate"),
            ("--dynamic --every 0", 1, "every 1 or more words"),
            ("--cache local --tune nowhere", 1, "nowhere"),
            ("--lambda 0.5", 2, "write --cache before it"),
            ("--rate 0.5", 2, "belong to --dynamic"),
            ("--cache huge", 2, "invalid choice"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, evaluate: Evaluate, options: str, status: int, reason: str) -> None:
        said = evaluate("groc", *options.split(), status=status)
        assert reason in said
        assert "Traceback" not in said


def test_eval_remembers_new_words(
    corpus_folder: Path, glossary_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_config("groc", "ngrams", {"forms.lexicon": str(glossary_file)})
    torch.manual_seed(1)
    checkpoint.save(tmp_path / "run", build(config, Corpus(corpus_folder).vocabulary()).eval(), config)
    figures = []
    for more in ([], ["--memory"]):
        assert main(["eval", str(tmp_path / "run"), str(corpus_folder), "--json", *more]) == 0
        figures.append(json.loads(capsys.readouterr().out))
    plain, remembered = figures
    assert (plain["memory"], remembered["memory"]) == (False, True)
    first, *later = zip(plain["new_by_occurrence"], remembered["new_by_occurrence"], strict=True)
    assert first[0]["tokens"] == first[1]["tokens"] > 0
    assert any(one["loss"] != other["loss"] for one, other in later)
    assert main(["eval", str(tmp_path / "run"), str(corpus_folder), "--memory"]) == 0
    assert "new words, read before" in capsys.readouterr().out
    assert main(["eval", str(tmp_path / "run"), str(corpus_folder), "--memory", "--dynamic"]) == 1
    assert "--memory or --dynamic" in capsys.readouterr().err
