"""Adaptation: the source stays as it is, new words join, and what is said of before and after is what scoring says."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import KINDS, TRAIN_WORDS, as_pairs, sentences, snapshot, tiny_model, tiny_settings
from safetensors.torch import load_file

import groc
from groc import checkpoint
from groc.adaptation.adapting import POINTS, WARMUP, AdaptingTrainer, adapted_settings, compare, learn_words
from groc.cli import main
from groc.config import Config
from groc.corpus import Corpus
from groc.lexicon import Glossary
from groc.scoring import score
from groc.training import Trainer
from groc.vocabulary import Vocabulary

Call = Callable[..., tuple[int, str, str]]
TARGET_WORDS = [*TRAIN_WORDS[:12], "zebra", "hound", "東京", "stripes", "stripes", "savannah"]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A domain with words that the source does not have; its valid and test text have one more."""
    folder = tmp_path_factory.mktemp("target")
    (folder / "train.txt").write_text(sentences(60, TARGET_WORDS, 4), encoding="utf-8")
    for seed, split in enumerate(("valid", "test"), 5):
        (folder / f"{split}.txt").write_text(sentences(15, [*TARGET_WORDS, "okapi"], seed), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def runs(corpus_folder: Path, glossary_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained model of each kind that grows in its own way."""
    folders = {kind: tmp_path_factory.mktemp("runs") / kind for kind in ("groc", "tied", "adaptive")}
    for kind, folder in folders.items():
        settings = as_pairs({**tiny_settings(kind), "forms.lexicon": str(glossary_file)})
        assert main(["train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(folder)]) == 0
    return folders


class TestWords:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_source_text_is_scored_as_before_until_a_step_is_trained(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary, target: Path
    ) -> None:
        """New words join behind the old, with the counts of both texts; no weight of an old word changes."""
        model = tiny_model(kind, "ngrams", vocabulary, glossary)
        ids = np.array([vocabulary.index[word] for word in "the old dog runs <eos>".split()])
        before = model.log_probs(model.embeddings, torch.ones(1, 8))[0, torch.from_numpy(ids)]
        text = Corpus(target).text("train")
        learn_words(model, text)
        assert model.vocabulary is model.trained
        assert model.trained.words[: len(vocabulary)] == vocabulary.words
        assert set(model.trained.words) == {*vocabulary.words, *text.types}
        counts = dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))
        for word, count in zip(model.trained.words, model.trained.counts.tolist(), strict=True):
            assert count == counts.get(word, 0) + text.type_counts.get(word, 0)
        assert not model.mixes_uniform
        after = model.log_probs(model.embeddings, torch.ones(1, 8))[0, torch.from_numpy(ids)]
        shift = before - after  # the new words' share, the same for all
        assert shift.min() > 0
        torch.testing.assert_close(shift, shift[:1].expand_as(shift), atol=1e-5, rtol=0)

    def test_new_words_are_familiar_and_counted_from_then_on(
        self, vocabulary: Vocabulary, glossary: Glossary, target: Path
    ) -> None:
        changes = {"surface.familiar": True, "output.count_bias": True}
        model = tiny_model("groc", "ngrams", vocabulary, glossary, changes)
        _ = model.embeddings
        text = Corpus(target).text("train")
        learn_words(model, text)
        fresh = tiny_model("groc", "ngrams", model.trained, glossary, changes)
        assert torch.equal(model.forms.strings.index, fresh.forms.strings.index)
        assert torch.equal(model.forms.log_shares, fresh.forms.log_shares)
        fresh.load_state_dict(model.state_dict())
        prefix = torch.ones(1, 8)
        assert torch.equal(model.embeddings.logits(prefix), fresh.embeddings.logits(prefix))


class TestCompare:
    def test_figures_are_those_of_scoring_in_the_union(
        self, vocabulary: Vocabulary, glossary: Glossary, target: Path
    ) -> None:
        original, adapted = (tiny_model("tied", "ngrams", vocabulary, glossary) for _ in range(2))
        learn_words(adapted, Corpus(target).text("train"))
        text = Corpus(target).text("test")
        (row,) = compare(original, adapted, {"a text": text})
        words = [text.types[code] for code in text.codes]
        new = np.array([word not in vocabulary for word in words])
        assert 0 < new.sum() < len(new)
        assert row["new_share"] == pytest.approx(new.mean())
        for when, model in (("before", original), ("after", adapted)):
            union = Vocabulary({*vocabulary.words, *adapted.trained.words, *words})
            model.set_vocabulary(union)
            loss = -score(model, text.ids(union)).log_prob
            assert row[when]["loss"] == pytest.approx(loss.mean(), abs=1e-5)
            assert row[when]["new_words_loss"] == pytest.approx(loss[new].mean(), abs=1e-5)


class TestCommand:
    @pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
    def test_leaves_a_run_like_any_other_and_the_source_as_it_was(
        self, call: Call, runs: dict[str, Path], target: Path, tmp_path: Path, kind: str
    ) -> None:
        before, out = snapshot(runs[kind]), tmp_path / "out"
        status, printed, said = call("adapt", runs[kind], target, "--out", out, "--json", "training.rate=0.02")
        assert status == 0, said
        assert snapshot(runs[kind]) == before
        figures = json.loads(printed)
        texts = {row["text"]: row for row in figures["texts"]}
        assert list(texts) == ["target valid", "target test", "source valid"]
        assert texts["target valid"]["after"]["loss"] < texts["target valid"]["before"]["loss"]
        assert texts["target valid"]["after"]["perplexity"] == pytest.approx(figures["valid_perplexity"], rel=1e-4)
        # The new run is read by eval, which says the same of the test text.
        status, printed, _ = call("eval", out, target, "--json")
        assert status == 0
        assert json.loads(printed)["perplexity"] == pytest.approx(texts["target test"]["after"]["perplexity"], rel=1e-4)
        model = groc.load(out)
        assert {"savannah", "zebra", *TRAIN_WORDS} <= model.trained.seen
        assert "okapi" not in model.trained
        record = json.loads((out / "result.json").read_text())
        assert record["figures"]["adapted_from"] == kind
        assert record["config"]["training"]["epochs"] == 3

    def test_the_curve_has_points_inside_the_epochs(
        self, call: Call, runs: dict[str, Path], target: Path, tmp_path: Path
    ) -> None:
        call("adapt", runs["groc"], target, "--out", tmp_path / "out", "--epochs", 2, "training.unroll=3")
        rows = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
        assert len(rows) == 2 * POINTS
        assert [row["epoch"] for row in rows] == sorted({row["epoch"] for row in rows})
        assert [row["epoch"] for row in rows if row["epoch"] % 1 == 0] == [1, 2]
        assert all({"step", "train_loss", "valid_loss"} <= row.keys() for row in rows)

    def test_the_rate_is_a_share_of_the_source_s(
        self, call: Call, runs: dict[str, Path], target: Path, tmp_path: Path
    ) -> None:
        call("adapt", runs["tied"], target, "--out", tmp_path / "out", "--epochs", 1)
        source, adapted = (checkpoint.load_config(folder).training for folder in (runs["tied"], tmp_path / "out"))
        assert 0 < adapted.rate < source.rate
        assert adapted.epochs == 1

    def test_few_steps_are_not_all_of_them_warm_up(self) -> None:
        for steps, left in ((0, 0), (10, 10), (400, WARMUP)):
            source = Config().replace({"training.warmup": steps})
            assert adapted_settings(source, "corpus", 3, {}).training.warmup == left

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_stopped_and_resumed_it_ends_as_if_never_stopped(
        self,
        call: Call,
        runs: dict[str, Path],
        target: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        arguments = ["adapt", runs[kind], target, "training.unroll=3"]
        call(*arguments, "--out", tmp_path / "whole")
        stepping = Trainer.step

        def interrupted(trainer: AdaptingTrainer) -> None:
            stepping(trainer)
            if trainer.position.step == 11:
                signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "step", interrupted)
            status, _, said = call(*arguments, "--out", tmp_path / "stopped")
        assert status == 130
        assert "--resume" in said
        status, _, said = call(*arguments, "--out", tmp_path / "stopped", "--resume")
        assert status == 0, said
        whole, stopped = (load_file(tmp_path / name / checkpoint.WEIGHTS) for name in ("whole", "stopped"))
        assert all(torch.equal(tensor, stopped[name]) for name, tensor in whole.items())
        curves = [(tmp_path / name / checkpoint.METRICS).read_text().splitlines() for name in ("whole", "stopped")]
        one, other = ([{**json.loads(row), "seconds": 0} for row in curve] for curve in curves)
        assert one == other

    @pytest.mark.parametrize("finished", [True, False])
    def test_a_run_that_was_trained_is_not_gone_on_with(
        self, call: Call, runs: dict[str, Path], corpus_folder: Path, tmp_path: Path, finished: bool
    ) -> None:
        out = shutil.copytree(runs["groc"], tmp_path / "out")
        if not finished:
            (out / "result.json").unlink()
            config = json.loads((out / "config.json").read_text())
            (out / "config.json").write_text(json.dumps({**config, "facts": {}}))
        before, own = snapshot(out), checkpoint.load_config(out)
        settings = [f"name={own.name}", *(f"training.{key}={getattr(own.training, key)}" for key in ("rate", "warmup"))]
        status, _, said = call("adapt", runs["groc"], corpus_folder, "--out", out, "--resume", *settings)
        assert status == 1
        assert "was not adapted from" in said
        assert snapshot(out) == before

    def test_a_finished_run_is_gone_on_with_from_its_own_source_alone(
        self, call: Call, runs: dict[str, Path], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, twin = tmp_path / "out", shutil.copytree(runs["tied"], tmp_path / "twin")
        assert call("adapt", runs["tied"], target, "--out", out, "--epochs", 1, "training.save_minutes=7")[0] == 0
        before = snapshot(out)
        status, _, said = call("adapt", twin, target, "--out", out, "--epochs", 2, "--resume")
        assert status == 1
        assert "was not adapted from" in said
        assert snapshot(out) == before
        monkeypatch.chdir(runs["tied"])
        assert call("adapt", ".", target, "--out", out, "--resume")[0] == 0  # for as many epochs as it was asked for
        assert json.loads((out / "result.json").read_text())["figures"]["epochs"] == 1
        assert checkpoint.load_config(out).training.save_minutes == 7
        assert call("adapt", ".", target, "--out", out, "--epochs", 2, "--resume")[0] == 0
        assert json.loads((out / "result.json").read_text())["figures"]["epochs"] == 2

    def test_an_unfinished_run_is_not_gone_on_with_from_another_training_of_its_source(
        self,
        call: Call,
        runs: dict[str, Path],
        target: Path,
        corpus_folder: Path,
        glossary_file: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The words are the same, and so are the settings: of the weights alone, from which it began, it shows."""
        settings = as_pairs({**tiny_settings("tied"), "forms.lexicon": str(glossary_file), "training.seed": 2})
        assert call("train", "tiny", *settings, "--corpus", corpus_folder, "--out", tmp_path / "seed-2")[0] == 0
        options = [target, "--out", tmp_path / "out", "training.seed=3"]
        with monkeypatch.context() as patch:
            patch.setattr(AdaptingTrainer, "step", lambda trainer: signal.raise_signal(signal.SIGINT))
            assert call("adapt", runs["tied"], *options)[0] == 130
        before = snapshot(tmp_path / "out")
        status, _, said = call("adapt", tmp_path / "seed-2", *options, "--resume")
        assert status == 1
        assert "another model to adapt" in said
        assert snapshot(tmp_path / "out") == before
        status, _, said = call("adapt", runs["tied"], *options, "--resume")
        assert status == 0, said

    def test_for_a_person_there_is_a_table(
        self, call: Call, runs: dict[str, Path], target: Path, corpus_folder: Path, tmp_path: Path
    ) -> None:
        shutil.copytree(runs["groc"], tmp_path / "moved")
        config = json.loads((tmp_path / "moved" / "config.json").read_text())
        config["config"]["corpus"] = str(tmp_path / "gone")
        (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
        status, printed, _ = call("adapt", tmp_path / "moved", target, "--out", tmp_path / "one", "--epochs", 1)
        assert status == 0
        assert "target test" in printed
        assert "source valid" not in printed
        assert "--source" in printed
        options = ["--out", tmp_path / "two", "--epochs", 1, "--source", corpus_folder]
        _, printed, _ = call("adapt", tmp_path / "moved", target, *options)
        assert "source valid" in printed

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["adapt", "nowhere", "TARGET", "--out", "out"], "nowhere is not a GroC checkpoint"),
            (["adapt", "RUN", "nowhere", "--out", "out"], "no corpus folder nowhere"),
            (["adapt", "RUN", "TARGET", "--out", "RUN"], "is not empty"),
            (["adapt", "RUN", "TARGET", "--out", "out", "model.dim=16"], "model.dim is built into"),
            (["adapt", "RUN", "TARGET", "--out", "out", "training.rat=1"], "training.rate"),
            (["adapt", "RUN", "TARGET", "--out", "out", "--epochs", "0"], "at least 1"),
            (["adapt", "RUN", "TARGET", "--out", "out", "--source", "nowhere"], "no corpus folder nowhere"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_is_written(
        self,
        call: Call,
        runs: dict[str, Path],
        target: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        arguments: list[str],
        reason: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        places: dict[str, Any] = {"RUN": runs["groc"], "TARGET": target}
        before = snapshot(runs["groc"])
        status, printed, said = call(*(places.get(argument, argument) for argument in arguments))
        assert status == 1
        assert printed == ""
        assert reason in said
        assert not Path("out").exists()
        assert snapshot(runs["groc"]) == before
