"""Held-out words: nothing that is trained on has them, and they are scored by what the model is told of them."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TERMS, as_pairs, no_room_beyond, sentences, snapshot, tiny_model, tiny_settings
from hypothesis import given
from hypothesis import strategies as st

from groc.adaptation.conditions import Entries, Tokens, conditions, score_held_out
from groc.adaptation.heldout import Choice, HeldOut, hold_out, nearest, sample_lines
from groc.cli import main
from groc.corpus import SPLITS, Corpus, read_text
from groc.errors import GrocError
from groc.forms import FormsCompiler
from groc.lexicon import Chain, Glossary
from groc.scoring import score

KNOWN = [word for word, (definition, related) in TERMS.items() if definition and related][:8]
WORDS = [*KNOWN, "Dog", "SEA", "Cat", *"the a an of old red was it they then who not some more".split()]
CHOICE = Choice(words=2, least=5, most=60, lines=4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for seed, (split, lines) in enumerate(zip(SPLITS, (100, 30, 30), strict=True)):
        (folder / f"{split}.txt").write_text(sentences(lines, WORDS, seed), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def compiler(glossary: Glossary) -> FormsCompiler:
    return FormsCompiler(glossary)


@pytest.fixture(scope="module")
def prepared(corpus: Path, compiler: FormsCompiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    hold_out(Corpus(corpus), folder, compiler, CHOICE)
    return folder


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


class TestPreparation:
    @pytest.mark.parametrize("seed", range(5))
    def test_no_text_has_a_held_out_word_and_no_other_line_is_lost(
        self, corpus: Path, compiler: FormsCompiler, tmp_path: Path, seed: int
    ) -> None:
        choice = Choice(words=3, least=5, most=60, lines=4, seed=seed)
        record = hold_out(Corpus(corpus), tmp_path, compiler, choice)
        words = {row["word"] for row in record["words"]}
        assert len(words) == 3
        assert words <= set(KNOWN)
        dropped: list[str] = []
        for split in SPLITS:
            lines = lines_of(corpus / f"{split}.txt")
            have = [bool(words & set(line.lower().split())) for line in lines]
            pairs = list(zip(lines, have, strict=True))
            assert lines_of(tmp_path / f"{split}.txt") == [line for line, has in pairs if not has]
            dropped += [line for line, has in pairs if has]
        scored = lines_of(tmp_path / "heldout.txt")
        assert set(scored) <= set(dropped)
        assert len(scored) <= 3 * choice.lines
        assert all(any(word in line.split() for line in scored) for word in words)
        counts = Counter(" ".join(lines_of(corpus / "train.txt")).split())
        left = Counter(" ".join(lines_of(tmp_path / "train.txt")).split())
        assert all(row["count"] == counts[row["word"]] for row in record["words"])
        assert all(0 < row["count"] == left[row["word"]] for row in record["controls"])
        controls = {row["word"] for row in record["controls"]}
        assert controls
        assert controls <= set(KNOWN) - words
        assert record["lines"]["training_before"] == 100

    def test_what_is_written_is_read(self, prepared: Path, compiler: FormsCompiler) -> None:
        held_out = HeldOut.read(prepared)
        assert len(held_out.words) == CHOICE.words
        for word, (definition, related) in held_out.words.items():
            selected = compiler.select(word)
            assert (tuple(definition.split()), related) == (selected.definition, selected.relations)
        assert held_out.text.codes.tolist() == read_text(prepared / "heldout.txt").codes.tolist()

    @pytest.mark.parametrize("kind", ["words", "controls"])
    def test_lines_of_other_words_are_refused(self, prepared: Path, tmp_path: Path, kind: str) -> None:
        folder = shutil.copytree(prepared, tmp_path / "mixed")
        record = json.loads((folder / "heldout.json").read_text())
        record[kind][0]["word"] = "elsewhere"
        (folder / "heldout.json").write_text(json.dumps(record))
        with pytest.raises(GrocError, match=r"heldout\.txt has no 'elsewhere'.*groc heldout prepare"):
            HeldOut.read(folder)

    def test_the_seed_decides(self, corpus: Path, compiler: FormsCompiler, tmp_path: Path) -> None:
        folders = [tmp_path / name for name in ("one", "again", "other")]
        for folder, seed in zip(folders, (1, 1, 2), strict=True):
            hold_out(Corpus(corpus), folder, compiler, Choice(3, 5, 60, 4, seed))
        one, again, other = map(snapshot, folders)
        assert one == again
        assert one["heldout.json"] != other["heldout.json"]

    @given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8))
    def test_nearest_counts(self, wanted: list[int], offered: list[int]) -> None:
        """As many as there are, each once; and no word that was left would have been nearer to all of them."""
        counts = {chr(97 + i): count for i, count in enumerate(offered)}
        taken = nearest(wanted, counts)
        assert len(set(taken)) == len(taken) == min(len(wanted), len(offered))
        if len(wanted) == 1 and offered:
            assert abs(counts[taken[0]] - wanted[0]) == min(abs(count - wanted[0]) for count in offered)
        for count in set(wanted):  # an exact match is never passed over
            exact = [word for word in counts if counts[word] == count]
            assert len(set(exact) & set(taken)) >= min(len(exact), wanted.count(count)) or len(taken) == len(offered)

    @given(st.integers(1, 4), st.integers(0, 99))
    def test_sampled_lines(self, most: int, seed: int) -> None:
        lines = sentences(60, ["dog", "cat", "sea", *"abcdefgh"], seed).splitlines()
        sampled = sample_lines(lines, {"dog", "cat"}, most, random.Random(seed))
        remaining = iter(lines)
        assert all(line in remaining for line in sampled)  # in their order
        assert len(sampled) <= 2 * most
        for word in ("dog", "cat"):
            there, all_ = (sum(word in line.split() for line in some) for some in (sampled, lines))
            assert there >= min(most, all_)


class TestConditions:
    @given(st.integers(2, 12), st.integers(0, 99))
    def test_each_form_alone_and_those_of_another_word(self, number: int, seed: int) -> None:
        words: Entries = {f"w{i}": (f"definition {i}", (f"related{i}",)) for i in range(number)}
        told = conditions(words, seed)
        assert told["surface only"] == dict.fromkeys(words, ("", ()))
        assert told["relations and definition"] == words
        for word, (definition, related) in words.items():
            assert told["relations"][word] == ("", related)
            assert told["definition"][word] == (definition, ())
            strange = told["another word's relations and definition"][word]
            assert strange in words.values()
            assert strange != words[word]
            assert told["another word's relations"][word] == ("", strange[1])
            assert told["another word's definition"][word] == (strange[0], ())
        assert sorted(told["another word's relations and definition"].values()) == sorted(words.values())

    def test_scores_are_those_of_a_model_with_just_that_lexicon(self, prepared: Path, glossary: Glossary) -> None:
        held_out, vocabulary = HeldOut.read(prepared), Corpus(prepared).vocabulary()
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        figures = score_held_out(model, held_out)
        assert model.vocabulary is vocabulary
        text = held_out.text
        places = [i for i, code in enumerate(text.codes) if text.types[code] in held_out.words]
        seen = [i for i, code in enumerate(text.codes) if text.types[code] in held_out.controls]
        assert (figures["tokens"], figures["seen_tokens"]) == (len(places), len(seen))
        told = conditions(held_out.words, 1)
        assert [row["condition"] for row in figures["rows"]] == list(told)
        first = figures["rows"][0]["loss"]["mean"]
        for row in figures["rows"]:
            entries = Glossary(told[row["condition"]], exact=True)
            twin = tiny_model("groc", "ngrams", vocabulary, Chain(entries, glossary))
            twin.load_state_dict(model.state_dict())
            union = vocabulary.union(text.types)
            twin.set_vocabulary(union)
            loss = -score(twin, text.ids(union)).log_prob
            assert row["loss"]["mean"] == pytest.approx(loss[places].mean(), abs=1e-5)
            assert row["seen_loss"]["mean"] == pytest.approx(loss[seen].mean(), abs=1e-5)
            assert row["gain"]["mean"] == pytest.approx(first - loss[places].mean(), abs=1e-5)
        assert len({round(row["loss"]["mean"], 6) for row in figures["rows"]}) == len(told)
        assert figures["even_odds"] == pytest.approx(np.log(figures["vocabulary"]))

    def test_a_closed_model_gives_its_share_of_even_odds(self, prepared: Path, glossary: Glossary) -> None:
        model = tiny_model("tied", "ngrams", Corpus(prepared).vocabulary(), glossary)
        figures = score_held_out(model, HeldOut.read(prepared))
        (row,) = figures["rows"]
        assert row["loss"]["mean"] == pytest.approx(figures["closed_share"], abs=1e-5)
        assert row["loss"]["high"] - row["loss"]["low"] < 1e-5
        assert row["seen_loss"]["mean"] < row["loss"]["mean"]

    def test_a_model_that_was_trained_on_them_is_refused(
        self, prepared: Path, corpus: Path, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", "ngrams", Corpus(corpus).vocabulary(), glossary)
        with pytest.raises(GrocError, match="was trained on held-out words"):
            score_held_out(model, HeldOut.read(prepared))


class TestInterval:
    def test_words_are_drawn_not_tokens(self) -> None:
        """All tokens of a word alike: the interval is as wide as that of a mean over the words, not over the tokens."""
        ids = np.repeat(np.arange(40, dtype=np.int32), 50)
        values = np.random.default_rng(3).normal(size=40)[ids]
        held = Tokens(ids, list(range(40)), seed=1)
        mean = held.mean(values)
        assert mean == held.mean(values)
        assert mean["mean"] == pytest.approx(values.mean())
        assert mean["low"] is not None
        assert mean["high"] is not None
        width = 2 * 1.96 * values[::50].std() / 40**0.5
        assert mean["high"] - mean["low"] == pytest.approx(width, rel=0.2)

    def test_no_tokens_no_mean(self) -> None:
        assert Tokens(np.arange(3, dtype=np.int32), [], 1).mean(np.ones(3)) == {"mean": None, "low": None, "high": None}


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["heldout", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


class TestCommand:
    CHOICE = ("--words", 2, "--least", 5, "--most", 60, "--lines", 4)

    def test_all_at_once_equals_the_steps(self, call: Call, corpus: Path, glossary_file: Path, tmp_path: Path) -> None:
        settings = as_pairs({**tiny_settings(), "forms.lexicon": str(glossary_file)})
        whole, steps = tmp_path / "whole", tmp_path / "steps"
        status, printed, said = call("run", corpus, "tiny", *settings, "--out", whole, *self.CHOICE, "--json")
        assert status == 0, said
        figures = json.loads(printed)
        status, printed, _ = call("prepare", corpus, "--out", steps, "--lexicon", glossary_file, *self.CHOICE)
        assert status == 0
        assert "2 words are held out" in printed
        assert snapshot(steps) == snapshot(whole / "text")
        assert main(["train", "tiny", *settings, "--corpus", str(steps), "--out", str(tmp_path / "run")]) == 0
        status, printed, _ = call("score", tmp_path / "run", steps, "--json")
        assert status == 0
        assert json.loads(printed)["rows"] == figures["rows"]
        status, printed, _ = call("score", tmp_path / "run", steps, "--record")
        assert status == 0
        for folder in (whole / "run", tmp_path / "run"):
            (recorded,) = json.loads((folder / "result.json").read_text())["evaluations"].values()
            assert recorded["rows"] == figures["rows"]
        for row in figures["rows"]:
            assert f"| {row['condition']} " in printed
            assert f"{row['loss']['mean']:.3f}" in printed

    def test_goes_on_wherever_it_was_stopped_and_with_the_same_choice_alone(
        self, call: Call, corpus: Path, glossary_file: Path, tmp_path: Path
    ) -> None:
        settings = as_pairs({**tiny_settings(), "forms.lexicon": str(glossary_file)})
        out = tmp_path / "out"
        command = ["run", corpus, "tiny", *settings, "--out", out, *self.CHOICE]
        assert call("prepare", corpus, "--out", out / "text", "--lexicon", glossary_file, *self.CHOICE)[0] == 0
        status, printed, said = call(*command, "--resume")  # stopped before training began
        assert status == 0, said
        command.remove("training.epochs=2")
        assert call(*command, "--resume")[1] == printed  # not for the recipe's three epochs
        status, _, said = call(*command, "--resume", "--words", 3)
        assert status == 1
        assert "with words 2, least 5" in said

    def test_after_a_full_disk_it_goes_on_as_it_says(
        self, call: Call, corpus: Path, glossary_file: Path, tmp_path: Path
    ) -> None:
        """There is room for the texts and the start of the run, but not for its state."""
        settings = as_pairs({**tiny_settings(), "forms.lexicon": str(glossary_file)})
        command = ["run", corpus, "tiny", *settings, "--out", tmp_path / "out", *self.CHOICE]
        with no_room_beyond(10_000):
            status, _, said = call(*command)
        assert status == 1
        assert "state.safetensors: free some space and go on with the same command and --resume" in said
        assert str(tmp_path / "out") in said
        status, _, said = call(*command, "--resume")
        assert status == 0, said

    def test_what_is_wrong_is_said(self, call: Call, corpus: Path, glossary_file: Path, tmp_path: Path) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").touch()
        common = ["prepare", corpus, "--lexicon", glossary_file]
        for arguments, reason in (
            ([*common, "--out", tmp_path / "out", "--words", 5, "--least", 5], "ask for fewer --words, or widen"),
            ([*common, "--out", tmp_path / "full", *self.CHOICE], "is not empty"),
            ([*common, "--out", tmp_path / "out", "--words", 1], "2 words or more"),
            ([*common, "--out", tmp_path / "out", "--least", 9, "--most", 8], "--least <= --most"),
            (["score", corpus, tmp_path], "is not a GroC checkpoint"),
        ):
            status, printed, said = call(*arguments)
            assert (status, printed) == (1, "")
            assert reason in said
        assert not (tmp_path / "out").exists()
        with pytest.raises(GrocError, match="groc heldout prepare"):
            HeldOut.read(corpus)
