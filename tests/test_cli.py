"""Commands as a user meets them: what they print, what they leave behind, and one clear sentence for what is wrong."""

from __future__ import annotations

import json
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import KINDS, as_pairs, no_room_beyond, snapshot, tiny_settings
from safetensors.torch import load_file

import groc
from groc import checkpoint
from groc.cli import main
from groc.corpus import Corpus
from groc.recipe import recipe_names
from groc.running import evaluation_command
from groc.scoring import score
from groc.training import Trainer

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process: its exit status, what it printed, what it said on stderr."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse
            status = int(exit_.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def tiny_train(corpus_folder: Path, glossary_file: Path) -> Callable[..., list[str]]:
    """The arguments of a `groc train` that takes a second."""

    def arguments(out: Path, *more: str, kind: str = "groc", **changes: Any) -> list[str]:
        settings = {**tiny_settings(kind), "forms.lexicon": str(glossary_file)}
        settings |= {key.replace("__", "."): value for key, value in changes.items()}
        return ["train", "tiny", *as_pairs(settings), "--corpus", str(corpus_folder), "--out", str(out), *more]

    return arguments


@pytest.fixture(scope="session")
def trained(tiny_train: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of an open and of a closed model."""
    folders = {kind: tmp_path_factory.mktemp("runs") / kind for kind in ("groc", "tied")}
    for kind, folder in folders.items():
        assert main(tiny_train(folder, kind=kind)) == 0
    return folders


def fails(run: Run, arguments: list[str | Path], reason: str, *, watched: list[Path], lines: int = 1) -> str:
    """The command exits with 1 after one clear line, and the folders are as they were."""
    before = [snapshot(folder) for folder in watched]
    status, out, err = run(*arguments)
    assert status == 1, err
    assert out == ""
    said = err.splitlines()
    assert len(said) == lines
    assert said[-1].startswith("groc: ")
    assert sum(line.startswith("groc: ") for line in said) == 1
    assert "Traceback" not in err
    assert re.search(reason, said[-1]), said[-1]
    assert [snapshot(folder) for folder in watched] == before
    return said[-1]


# --- what works ------------------------------------------------------------------------------------------------------


class TestTrain:
    def test_leaves_a_complete_run_and_says_what_it_measured(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        status, out, _ = run(*tiny_train(tmp_path / "run", "--json"))
        figures = json.loads(out)
        assert status == 0
        assert figures["run"] == str(tmp_path / "run")
        assert figures["vocabulary_parameters"] == 0
        loaded = checkpoint.load(tmp_path / "run")
        assert loaded.facts["valid_perplexity"] == figures["valid_perplexity"]
        record = json.loads((tmp_path / "run" / "result.json").read_text())
        assert record["figures"]["valid_perplexity"] == figures["valid_perplexity"]
        assert [row["epoch"] for row in record["curve"]] == [1, 2]

    def test_the_figure_is_that_of_eval(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        for folder in trained.values():
            _, out, _ = run("eval", folder, corpus_folder, "--split", "valid", "--json")
            facts = json.loads((folder / "config.json").read_text())["facts"]
            assert json.loads(out)["perplexity"] == pytest.approx(facts["valid_perplexity"], rel=1e-6)

    def test_too_little_memory_is_said_in_a_line(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        status, _, errors = run(*tiny_train(tmp_path / "run", prefix__hidden=10_000_000))
        assert status == 1
        assert errors.splitlines()[-1].startswith("groc: There is not enough memory")

    def test_a_run_that_is_not_asked_for_json_ends_with_a_sentence(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        _, out, _ = run(*tiny_train(tmp_path / "run", kind="tied"))
        assert "valid perplexity" in out
        assert "groc eval" in out
        assert len(out.splitlines()) == 1


def test_what_is_said_next_fits_the_texts_that_are_there(tmp_path: Path) -> None:
    assert evaluation_command("a run", str(tmp_path)) == f"groc eval 'a run' {tmp_path} --split valid"
    (tmp_path / "test.txt.xz").touch()
    assert evaluation_command("run", str(tmp_path)) == f"groc eval run {tmp_path}"


class TestEval:
    def test_a_single_text_has_no_splits(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        text = next(corpus_folder.glob("valid.txt*"))
        assert run("eval", trained["tied"], text)[0] == 0
        status, _, said = run("eval", trained["tied"], text, "--split", "valid")
        assert (status, "leave out --split" in said) == (1, True)

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_over_the_union_every_token_is_counted(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path, glossary: Any, kind: str
    ) -> None:
        status, out, _ = run("eval", trained[kind], corpus_folder, "--json")
        summary = json.loads(out)
        text = Corpus(corpus_folder).text("test")
        model = groc.load(trained[kind], lexicon=glossary)
        union = model.trained.union(text.types)
        model.set_vocabulary(union)
        loss = -score(model, text.ids(union)).log_prob.mean()
        assert status == 0
        assert summary["tokens"] == len(text)
        assert summary["loss"] == pytest.approx(loss, abs=1e-5)
        assert summary["oov_share"] > 0
        assert summary["read_as_unk"] == 0
        assert summary["uniform_mixed_in"] == pytest.approx(0 if kind == "groc" else 0.01)

    def test_over_the_training_words_new_ones_are_read_as_unk_and_that_is_said(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path
    ) -> None:
        _, out, _ = run("eval", trained["groc"], corpus_folder, "--vocabulary", "train", "--json")
        summary = json.loads(out)
        text = Corpus(corpus_folder).text("test")
        assert summary["read_as_unk"] == text.outside(groc.load(trained["groc"]).trained) > 0
        assert summary["tokens"] == len(text)
        _, out, _ = run("eval", trained["groc"], corpus_folder, "--vocabulary", "train")
        assert f"{summary['read_as_unk']:,} tokens" in out
        assert "--vocabulary union" in out

    def test_over_a_given_list(self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path) -> None:
        words = tmp_path / "words.txt"
        words.write_text("<unk>\ndog\nzebra\n", encoding="utf-8")
        _, out, _ = run("eval", trained["groc"], corpus_folder, "--vocabulary", words, "--json")
        assert json.loads(out)["vocabulary"] == 4

    @pytest.mark.parametrize("unk", [0, 5])
    def test_words_outside_a_list_do_not_count_as_often_as_unk(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, unk: int
    ) -> None:
        """However often training had `<unk>`, never included, that says nothing of the words it stands for."""
        corpus = tmp_path / "corpus"
        corpus.mkdir()
        (corpus / "train.txt").write_text("the dog runs\n" * 20 + "<unk>\n" * unk)
        (corpus / "valid.txt").write_text("the dog\n")
        assert run(*tiny_train(tmp_path / "run", training__epochs=1), "--corpus", corpus)[0] == 0
        text, words = tmp_path / "text.txt", tmp_path / "words.txt"
        text.write_text("the dog runs\nthe zebra sleeps\n")
        words.write_text("<unk>\nthe\nzebra\n")
        arguments = ["eval", tmp_path / "run", text, "--vocabulary", words]
        summary = json.loads(run(*arguments, "--json")[1])
        assert [(row["from"], row["tokens"]) for row in summary["bins"]] == [(0, 1), (10, 4)]  # zebra; the, <eos>
        assert (summary["unseen"]["tokens"], summary["as_unk"]["tokens"], summary["read_as_unk"]) == (1, 3, 3)
        assert sum(row["tokens"] for row in summary["new_by_occurrence"]) == 1
        assert re.search(r"^\| never +\| +1 ", run(*arguments)[1], re.MULTILINE)
        assert re.search(r"^\| read as <unk> +\| +3 ", run(*arguments)[1], re.MULTILINE)

    def test_a_list_may_lack_what_a_glossary_has(self, run: Run, trained: dict[str, Path], tmp_path: Path) -> None:
        words, terms = tmp_path / "words.txt", tmp_path / "terms.tsv"
        text = tmp_path / "text.txt"
        text.write_text("the zebra sleeps\n")
        words.write_text("the\nsleeps\n")
        terms.write_text("zebra\ta striped animal\thorse\n")
        arguments = ["eval", trained["groc"], text, "--vocabulary", words]
        fails(run, arguments, "lacks 1 of the words .*'zebra'", watched=[tmp_path])
        summary = json.loads(run(*arguments, "--glossary", terms, "--json")[1])
        assert (summary["vocabulary"], summary["read_as_unk"]) == (4, 0)

    def test_one_file_is_a_text_too(self, run: Run, trained: dict[str, Path], tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text("the dog runs\n")
        _, out, _ = run("eval", trained["groc"], path, "--json")
        assert json.loads(out)["tokens"] == 4

    def test_tokens_that_cannot_be_seen_count_and_that_is_said(
        self, run: Run, trained: dict[str, Path], tmp_path: Path
    ) -> None:
        path = tmp_path / "text.txt"
        for text, tokens, invisible in (
            ("the \u200b dog\n\xad\u2060 \ufeff runs\n", 8, 3),
            ("the\u200b café \xa0 می\u200cخ\n", 5, 0),
        ):
            path.write_text(text, encoding="utf-8")
            summary = json.loads(run("eval", trained["groc"], path, "--json")[1])
            assert (summary["tokens"], summary["invisible"]) == (tokens, invisible)
            assert ("invisible characters" in run("eval", trained["groc"], path)[1]) == bool(invisible)
        assert json.loads(run("eval", trained["groc"], path, "--first", "1", "--json")[1])["invisible"] == 0

    def test_words_that_are_new_by_their_capitals_alone_are_told_of(
        self, run: Run, trained: dict[str, Path], tmp_path: Path
    ) -> None:
        path = tmp_path / "text.txt"
        for text, said in ("The dog runs\n", "25.0% of the tokens are words of training but for"), ("the Zzz\n", ""):
            path.write_text(text)
            out = run("eval", trained["groc"], path)[1]
            assert said in out
            assert bool(said) == ("capital letters" in out)
            out = run("eval", trained["groc"], path, "--against", trained["tied"])[1]
            assert [f"text of {trained[kind]} was lower-cased" in out for kind in ("groc", "tied")] == [bool(said)] * 2

    def test_for_a_person_there_is_a_table(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        status, out, _ = run("eval", trained["tied"], corpus_folder)
        assert status == 0
        assert "perplexity" in out
        assert "| never" in out
        assert "1% of the probability" in out

    def test_the_run_is_not_touched(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        before = snapshot(trained["groc"])
        run("eval", trained["groc"], corpus_folder)
        assert snapshot(trained["groc"]) == before


class TestInfoForAPerson:
    def test_a_run(self, run: Run, trained: dict[str, Path]) -> None:
        for folder in trained.values():
            status, out, _ = run("info", folder)
            assert status == 0
            assert "valid perplexity" in out

    def test_a_recipe_without_a_corpus_shows_settings_and_variants(self, run: Run) -> None:
        status, out, _ = run("info", "penn")
        assert status == 0
        assert "training.rate" in out
        assert "deep-residual" in out

    def test_without_a_corpus_a_size_that_depends_on_the_words_is_not_made_up(self, run: Run) -> None:
        assert "--corpus" not in run("info", "tiny")[1]
        closed = run("info", "tiny", "--variant", "tied")[1]
        assert closed.startswith("tiny/tied: give --corpus DIR")
        assert closed.count("with --corpus") == 2


class TestRecords:
    def test_figures_are_added_on_request_and_survive_a_needless_resume(
        self,
        run: Run,
        trained: dict[str, Path],
        tiny_train: Callable[..., list[str]],
        corpus_folder: Path,
        tmp_path: Path,
    ) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        _, out, _ = run("eval", folder, corpus_folder, "--record", "--json")
        run("eval", folder, corpus_folder, "--split", "valid")  # not recorded
        assert run(*tiny_train(folder, "--resume"))[0] == 0
        evaluations = json.loads((folder / "result.json").read_text())["evaluations"]
        assert list(evaluations) == [f"{corpus_folder.name}/test, union vocabulary"]
        (recorded,) = evaluations.values()
        assert recorded["perplexity"] == json.loads(out)["perplexity"]

    def test_figures_say_where_they_were_taken_if_not_where_the_run_was_trained(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path
    ) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        for trained_on, told in (("CPU, bfloat16", None), ("Some GPU, bfloat16", "CPU, float32")):
            record = json.loads((folder / "result.json").read_text())
            (folder / "result.json").write_text(json.dumps({**record, "device": trained_on}))
            run("eval", folder, corpus_folder, "--record")
            (recorded,) = json.loads((folder / "result.json").read_text())["evaluations"].values()
            assert recorded.get("device") == told

    def test_new_words_of_a_closed_model(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path
    ) -> None:
        folder = shutil.copytree(trained["tied"], tmp_path / "run")
        _, out, _ = run("eval", folder, corpus_folder, "--new-words", "1.5", "--record", "--json")
        assert json.loads(out)["sharpness"] is None
        (name,) = json.loads((folder / "result.json").read_text())["evaluations"]
        assert name.endswith(", new words 1.5")

    def test_figures_that_replace_others_say_so(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path
    ) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        for share, replaces in (("0.9", False), ("0.9", False), ("0.8", True)):
            _, _, err = run("eval", folder, corpus_folder, "--cache", "unigram", "--lambda", share, "--record")
            assert ("these replace them" in err) == replaces

    @pytest.mark.parametrize(
        ("text", "lambda_", "said", "tuned_on"),
        [
            ("test.txt", None, "itself: its figures are too good", "test.txt"),
            ("valid.txt", "0.9", "Nothing was tuned on", ""),
            ("valid.txt", None, "", "valid.txt"),
        ],
    )
    def test_what_tuning_is_worth(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path,
        text: str, lambda_: str | None, said: str, tuned_on: str,
    ) -> None:  # fmt: skip
        options = ["--vocabulary", "train", "--cache", "unigram", "--tune", corpus_folder / text, "--json"]
        _, out, err = run("eval", trained["groc"], corpus_folder, *options, *(["--lambda", lambda_] if lambda_ else []))
        assert said in err
        assert bool(said) == ("tuned on" in err.lower())
        assert ("few tokens" in err) == bool(tuned_on)
        assert json.loads(out)["tuned_on"].endswith(tuned_on)
        assert bool(json.loads(out)["tuned_on"]) == bool(tuned_on)

    def test_no_record_to_add_to(self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        (folder / "result.json").unlink()
        fails(run, ["eval", folder, corpus_folder, "--record"], "without --record", watched=[folder])

    @pytest.mark.parametrize("epochs", [2, 3])
    @pytest.mark.parametrize(("cut", "left"), [(None, []), (-1, [1]), (-30, [1])])
    def test_the_learning_curve_may_be_cut_or_deleted(
        self,
        run: Run,
        trained: dict[str, Path],
        tiny_train: Callable[..., list[str]],
        tmp_path: Path,
        epochs: int,
        cut: int | None,
        left: list[int],
    ) -> None:
        """Whether the run is finished or goes on: what it has learned is worth more than its curve."""
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        metrics = folder / checkpoint.METRICS
        whole = metrics.read_bytes()
        metrics.unlink() if cut is None else metrics.write_bytes(whole[:cut])
        status, _, err = run(*tiny_train(folder, "--resume", training__epochs=epochs))
        assert status == 0, err
        assert f"{metrics} has lost epochs" in err
        curve = json.loads((folder / "result.json").read_text())["curve"]
        assert [row["epoch"] for row in curve] == [*left, *range(3, epochs + 1)]

    @pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b"\xff", b""])
    def test_a_damaged_learning_curve_is_named_before_training_goes_on(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], tmp_path: Path, line: bytes
    ) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        metrics = folder / checkpoint.METRICS
        first, second = metrics.read_bytes().splitlines()
        metrics.write_bytes(b"\n".join([line.ljust(len(first)), second, b""]))
        arguments = tiny_train(folder, "--resume", training__epochs=3)
        fails(run, arguments, "metrics.jsonl, line 1 is damaged: .* delete it", watched=[folder])


class TestLexiconOfTraining:
    """Figures over new words mean something else where their lexicon is missing: that is said."""

    def test_missing(self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        document = json.loads((folder / checkpoint.CONFIG).read_text())
        document["config"]["forms"]["lexicon"] = str(tmp_path / "gone.jsonl")
        (folder / checkpoint.CONFIG).write_text(json.dumps(document))
        assert "is not here" in run("eval", folder, corpus_folder)[1]
        assert "is not here" in json.loads(run("eval", folder, corpus_folder, "--json")[1])["lexicon_warning"]

    def test_another(self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(trained["groc"], tmp_path / "run")
        (tmp_path / "other.jsonl").write_text('{"word": "other"}\n')
        document = json.loads((folder / checkpoint.CONFIG).read_text())
        document["config"]["forms"]["lexicon"] = str(tmp_path / "other.jsonl")
        (folder / checkpoint.CONFIG).write_text(json.dumps(document))
        assert "has changed" in run("eval", folder, corpus_folder)[1]

    def test_the_same(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        for folder in trained.values():
            assert json.loads(run("eval", folder, corpus_folder, "--json")[1])["lexicon_warning"] == ""


class TestInfo:
    @pytest.mark.parametrize("kind", KINDS)
    def test_sizes_add_up(self, run: Run, corpus_folder: Path, kind: str) -> None:
        _, out, _ = run("info", "tiny", "--variant", kind, "model.dim=12", "--corpus", corpus_folder, "--json")
        summary = json.loads(out)
        assert sum(summary["parts"].values()) == summary["parameters"]
        assert summary["open"] == (kind == "groc") == (summary["vocabulary_parameters"] == 0)
        assert summary["config"]["model"]["dim"] == 12

    def test_of_a_run_they_are_those_of_its_recipe(self, run: Run, trained: dict[str, Path]) -> None:
        _, out, _ = run("info", trained["tied"], "--json")
        summary = json.loads(out)
        assert summary["parameters"] == groc.load(trained["tied"]).parameter_count()
        assert summary["facts"]["epochs"] == 2

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_does_not_depend_on_the_words_is_known_without_a_corpus(
        self, run: Run, corpus_folder: Path, kind: str
    ) -> None:
        arguments = ("info", "tiny", "--variant", kind, "--json")
        without, with_corpus = (json.loads(run(*arguments, *more)[1]) for more in ((), ("--corpus", corpus_folder)))
        assert without["vocabulary"] is None
        assert without["open"] == with_corpus["open"]
        if without["open"]:
            for name in ("parameters", "vocabulary_parameters", "parts"):
                assert without[name] == with_corpus[name]
        else:
            assert without["parameters"] is without["vocabulary_parameters"] is None
            prefix = {"prefix network": with_corpus["parts"]["prefix network"]}
            assert without["parts"] == {"input embedding": None, "output embedding": None, **prefix}

    @pytest.mark.usefixtures("no_wordnet")
    def test_no_wordnet_is_needed(self, run: Run, corpus_folder: Path) -> None:
        assert run("info", "tiny", "--corpus", corpus_folder)[0] == 0


class TestCoverage:
    def test_counts_words_and_tokens(self, run: Run, corpus_folder: Path, glossary_file: Path) -> None:
        arguments = ("lexicon", "coverage", corpus_folder, "--lexicon", glossary_file)
        _, out, _ = run(*arguments, "--json")
        summary = json.loads(out)
        vocabulary = Corpus(corpus_folder).vocabulary()
        related = "dog cat animal ship boat sea run sleep old".split()
        assert summary["words"] == len(vocabulary)
        assert summary["relations"] == pytest.approx(100 * len(related) / len(vocabulary))
        share = sum(vocabulary.counts[vocabulary.index[word]] for word in related) / vocabulary.counts.sum()
        assert summary["relations_of_tokens"] == pytest.approx(100 * share)
        _, out, _ = run(*arguments)
        assert f"{summary['relations']:.1f}" in out


class TestProcess:
    def test_python_m_groc_works_and_help_does_not_wait_for_torch(self) -> None:
        script = "import sys; sys.argv = ['groc', '--version']\nfrom groc.cli import main\n"
        script += "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"groc {groc.__version__}\n"

    def test_what_does_not_train_does_not_wait_for_torch_s_compiler(self) -> None:
        """It takes as long to import as the rest of torch."""
        script = "import sys\nfrom groc.commands import evaluate, next_words, score, serve\n"
        script += "assert 'torch' in sys.modules\nassert 'torch._dynamo' not in sys.modules"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_no_command_is_a_usage_error(self, run: Run) -> None:
        status, _, err = run()
        assert status == 2
        assert "usage: groc" in err

    def test_a_setting_where_none_is_taken_is_a_usage_error(self, run: Run, tmp_path: Path) -> None:
        assert run("eval", tmp_path, tmp_path, "training.rate=1")[0] == 2
        assert run("train", "tiny", "--bogus")[0] == 2

    @pytest.mark.parametrize(
        ("arguments", "command"),
        [
            ("score --json", "score"),
            ("train tiny --bogus", "train"),
            ("eval run corpus more", "eval"),
            ("lexicon show word --bogus", "lexicon show"),
            ("heldout run corpus tiny --out run --bogus", "heldout run"),
        ],
    )
    def test_what_a_command_does_not_take_is_answered_with_its_own_usage(
        self, run: Run, arguments: str, command: str
    ) -> None:
        status, _, err = run(*arguments.split())
        assert status == 2
        assert err.startswith(f"usage: groc {command} ")
        assert err.splitlines()[-1].startswith(f"groc {command}: error: unrecognized arguments: ")

    def test_a_reader_that_goes_away_is_no_traceback(self) -> None:
        done = subprocess.run(
            f"{sys.executable} -m groc --help | true; {sys.executable} -m groc train --help | head -1",
            shell=True, capture_output=True, text=True,
        )  # fmt: skip
        assert "Traceback" not in done.stderr


# --- what does not ---------------------------------------------------------------------------------------------------


@pytest.fixture
def broken_corpus(corpus_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the corpus with one of its files replaced or (None) removed."""

    def make(name: str, content: bytes | None) -> Path:
        folder = shutil.copytree(corpus_folder, tmp_path / "corpus")
        split = name.partition(".")[0]
        (folder / f"{split}.txt").unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        return folder

    return make


BROKEN = {
    "missing split": ("{split}.txt", None, r"has no file with a {split} text: add {split}\.txt"),
    "empty split": ("{split}.txt", b"", r"{split}\.txt holds no words"),
    "blank split": ("{split}.txt", b"\n \n", r"{split}\.txt holds no words"),
    "not UTF-8": ("{split}.txt", b"good\ncaf\xe9\n", r"{split}\.txt, line 2 is not UTF-8"),
    "a line too long": ("{split}.txt", b"x " * 100_001, r"{split}\.txt, line 1 has 100,001 words"),
    "damaged gz": ("{split}.txt.gz", b"\x1f\x8b\x08\x00 not really", r"{split}\.txt\.gz is damaged"),
    "text called gz": ("{split}.txt.gz", b"some words\n", r"{split}\.txt\.gz is damaged"),
    "truncated xz": ("{split}.txt.xz", lzma.compress(b"some words\n" * 99)[:-20], r"{split}\.txt\.xz is damaged"),
}


class TestBadCorpus:
    @pytest.mark.parametrize("split", ["train", "valid"])
    @pytest.mark.parametrize("case", BROKEN)
    def test_train(
        self,
        run: Run,
        tiny_train: Callable[..., list[str]],
        broken_corpus: Callable[..., Path],
        tmp_path: Path,
        case: str,
        split: str,
    ) -> None:
        name, content, reason = BROKEN[case]
        folder = broken_corpus(name.format(split=split), content)
        arguments = [*tiny_train(tmp_path / "run"), "--corpus", str(folder)]
        fails(run, arguments, reason.replace("{split}", split), watched=[folder, tmp_path / "run"])
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("case", BROKEN)
    def test_eval(self, run: Run, trained: dict[str, Path], broken_corpus: Callable[..., Path], case: str) -> None:
        name, content, reason = BROKEN[case]
        folder = broken_corpus(name.format(split="test"), content)
        reason = reason.replace("{split}", "test")
        fails(run, ["eval", trained["groc"], folder], reason, watched=[folder, trained["groc"]])

    @pytest.mark.parametrize("command", ["train", "info", "coverage"])
    def test_no_folder(self, run: Run, tmp_path: Path, glossary_file: Path, command: str) -> None:
        nowhere = tmp_path / "nowhere"
        arguments = {
            "train": ["train", "tiny", "--corpus", nowhere, "--out", tmp_path / "run"],
            "info": ["info", "tiny", "--corpus", nowhere],
            "coverage": ["lexicon", "coverage", nowhere, "--lexicon", glossary_file],
        }[command]
        fails(run, arguments, "no (text or )?corpus folder .*nowhere", watched=[tmp_path])

    def test_none_named(self, run: Run, tmp_path: Path) -> None:
        fails(run, ["train", "tiny", "--out", tmp_path / "run"], "--corpus", watched=[tmp_path])

    def test_too_little_text_for_the_batch(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        arguments = tiny_train(tmp_path / "run", training__batch=100_000)
        fails(run, arguments, r"too few for training\.batch=100000", watched=[tmp_path])


class TestBadVocabulary:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"dog\ncat\ndog\n<unk>\n", "'dog' stands twice"),
            (b"dog\n\n<unk>\n", "empty"),
            (b"two words\n<unk>\n", "white space"),
            (b"d\xff\n", "UTF-8"),
            (b"dog\tx\n", "is not a count"),
            (b"", "holds no word"),
            (b"dog\n", r"lacks \d+ of the words of .*test.txt, .* no <unk>: \d+ of \d+ tokens .* --vocabulary union"),
        ],
    )
    def test_eval(
        self, run: Run, trained: dict[str, Path], corpus_folder: Path, tmp_path: Path, content: bytes, reason: str
    ) -> None:
        path = tmp_path / "words.txt"
        path.write_bytes(content)
        arguments = ["eval", trained["groc"], corpus_folder, "--vocabulary", path]
        fails(run, arguments, reason, watched=[tmp_path, trained["groc"]])

    def test_a_missing_file(self, run: Run, trained: dict[str, Path], corpus_folder: Path) -> None:
        arguments = ["eval", trained["groc"], corpus_folder, "--vocabulary", "nowhere.txt"]
        fails(run, arguments, "nowhere.txt", watched=[trained["groc"]])


class TestBadGlossary:
    def test_a_file_without_a_term(
        self,
        run: Run,
        trained: dict[str, Path],
        tiny_train: Callable[..., list[str]],
        corpus_folder: Path,
        tmp_path: Path,
    ) -> None:
        path = tmp_path / "terms.tsv"
        path.write_text("word\tdefinition\trelated\n")
        for arguments in (
            ["next", trained["groc"], "the", "--glossary", path],
            ["eval", trained["groc"], corpus_folder, "--glossary", path],
            tiny_train(tmp_path / "run", "--glossary", str(path)),
            ["lexicon", "show", "dog", "--lexicon", path],
        ):
            fails(run, arguments, r"terms\.tsv holds no term: .*such as stent<TAB>", watched=[tmp_path])


class TestBadCheckpoint:
    @pytest.fixture
    def copy(self, trained: dict[str, Path], tmp_path: Path) -> Path:
        return shutil.copytree(trained["groc"], tmp_path / "copy")

    def test_truncated(self, run: Run, copy: Path, corpus_folder: Path) -> None:
        path = copy / checkpoint.WEIGHTS
        path.write_bytes(path.read_bytes()[:-100])
        fails(run, ["eval", copy, corpus_folder], "damaged", watched=[copy])
        fails(run, ["info", copy], "damaged", watched=[copy])

    def test_foreign(self, run: Run, tmp_path: Path, corpus_folder: Path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 50257}')
        fails(run, ["eval", tmp_path, corpus_folder], "not a GroC checkpoint", watched=[tmp_path])
        fails(run, ["info", tmp_path], "not a GroC checkpoint", watched=[tmp_path])

    def test_of_a_newer_format(
        self, run: Run, copy: Path, corpus_folder: Path, tiny_train: Callable[..., list[str]]
    ) -> None:
        path = copy / checkpoint.CONFIG
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
        for arguments in (["eval", copy, corpus_folder], ["info", copy], tiny_train(copy, "--resume")):
            fails(run, arguments, "format 99.*upgrade", watched=[copy])

    def test_of_several_models(
        self, run: Run, copy: Path, trained: dict[str, Path], corpus_folder: Path, tiny_train: Callable[..., list[str]]
    ) -> None:
        shutil.copy(trained["tied"] / checkpoint.WEIGHTS, copy)
        fails(run, ["eval", copy, corpus_folder], "do not fit", watched=[copy])
        shutil.copy(trained["tied"] / checkpoint.STATE, copy)
        fails(run, tiny_train(copy, "--resume"), "does not fit", watched=[copy])

    def test_where_there_is_none(self, run: Run, tmp_path: Path, corpus_folder: Path) -> None:
        fails(run, ["eval", tmp_path / "nothing", corpus_folder], "not a GroC checkpoint", watched=[tmp_path])

    @pytest.mark.parametrize(("command", "needed"), [("next", "TEXT"), ("explain", "WORD")])
    def test_a_run_alone_is_no_text(self, run: Run, trained: dict[str, Path], command: str, needed: str) -> None:
        fails(run, [command, trained["groc"]], f"is the folder of a run: give a {needed} after it", watched=[])

    def test_a_long_text_is_no_folder(self, run: Run) -> None:
        assert run("next", "word " * 2000, "--limit", "1")[0] == 0


class TestBadSettings:
    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            (["training.raet=1"], r"no setting 'training\.raet'\. Did you mean 'training\.rate'"),
            (["rate=1"], r"Did you mean 'training\.rate'"),
            (["training.batch=many"], r"training\.batch=many .* whole number"),
            (["training.rate=fast"], r"training\.rate=fast .* number"),
            (["training.batch=0"], r"training\.batch=0 .* at least 1"),
            (["output.dropout=1"], "dropout"),
            (["output.kind=tide"], r"output\.kind=tide .*'tied'"),
            (["compute.device=abacus"], "abacus"),
            (["forms.lexicon=nowhere.jsonl"], "nowhere.jsonl"),
            (["forms.lexicon=/nowhere"], "/nowhere"),
            (["--variant", "tide"], "no variant 'tide'.*'tied'"),
            (["corpus=elsewhere"], "'corpus=elsewhere' is no key=value setting: give it with --corpus"),
        ],
    )
    def test_train(
        self, run: Run, corpus_folder: Path, tmp_path: Path, glossary_file: Path, more: list[str], reason: str
    ) -> None:
        lexicon = [] if any("lexicon" in pair for pair in more) else [f"forms.lexicon={glossary_file}"]
        arguments = ["train", "tiny", *lexicon, *more, "--corpus", corpus_folder, "--out", tmp_path / "run"]
        fails(run, arguments, reason, watched=[tmp_path])
        assert not (tmp_path / "run").exists()

    def test_an_unknown_recipe(self, run: Run, tmp_path: Path) -> None:
        fails(run, ["train", "pen"], "no recipe 'pen'. Did you mean 'penn'", watched=[tmp_path])
        fails(run, ["train", tmp_path / "mine.toml"], r"mine\.toml cannot be read", watched=[tmp_path])

    def test_neither_a_recipe_nor_a_run(self, run: Run, tmp_path: Path) -> None:
        said = fails(run, ["info", "pen"], "'pen' is neither a recipe nor a run. Did you mean 'penn'", watched=[])
        assert all(name in said for name in (*recipe_names(), ".toml", "groc train"))
        for nothing in (tmp_path, tmp_path / "nothing"):
            fails(run, ["info", nothing], "is neither a recipe nor a run. Recipes are", watched=[tmp_path])

    @pytest.mark.usefixtures("no_wordnet")
    def test_no_wordnet(self, run: Run, corpus_folder: Path, tmp_path: Path) -> None:
        reason = "No WordNet found: run 'groc lexicon install', or set GROC_WORDNET"
        out = tmp_path / "run"
        fails(run, ["train", "tiny", "--corpus", corpus_folder, "--out", out], reason, watched=[corpus_folder, out])
        fails(run, ["lexicon", "coverage", corpus_folder], reason, watched=[corpus_folder])
        fails(run, ["lexicon", "show", "dog"], reason, watched=[corpus_folder])
        assert not out.exists()


class TestBadOutput:
    def test_a_folder_that_is_not_empty(self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("years of work")
        fails(run, tiny_train(tmp_path), "not empty.*--resume", watched=[tmp_path])

    def test_a_finished_run(self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]]) -> None:
        fails(run, tiny_train(trained["groc"]), "not empty", watched=[trained["groc"]])

    @pytest.mark.parametrize("below", ["", "run"])
    def test_a_file_in_its_place(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, below: str
    ) -> None:
        (tmp_path / "file").write_text("text")
        fails(run, tiny_train(tmp_path / "file" / below), "file", watched=[tmp_path])

    @pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
    def test_a_folder_where_not_even_root_can_write(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], corpus_folder: Path
    ) -> None:
        train = tiny_train(Path("/proc/run"))
        adapt = ["adapt", trained["groc"], corpus_folder, "--out", "/proc/run"]
        for command in (train, adapt):
            fails(run, command, "/proc is no folder that can be written to", watched=[])
        search = ["search", *train[1:], "training.weight_decay=0,0.1"]
        fails(run, search, "/proc/run/search.lock cannot be written", watched=[])

    def test_a_locked_run_is_not_trained_on(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "run"
        assert run(*tiny_train(folder, training__epochs=1))[0] == 0

        def refuse(**where: Path) -> None:
            assert where == {"dir": folder}
            raise PermissionError

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root may write everywhere
        arguments = tiny_train(folder, "--resume", training__epochs=2)
        fails(run, arguments, "is no folder that can be written to", watched=[folder])

    def test_a_cache_that_cannot_be_written_is_done_without(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("text")
        monkeypatch.setenv("GROC_CACHE", str(tmp_path / "file" / "cache"))
        status, _, err = run(*tiny_train(tmp_path / "run"))
        assert status == 0, err

    def test_forms_that_cannot_be_cached_are_made_each_time(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GROC_CACHE", str(tmp_path))
        (tmp_path / "forms").write_text("a file where a folder should be")
        status, _, err = run(*tiny_train(tmp_path / "run"))
        assert status == 0, err


class TestDivergence:
    def test_exit_status_message_and_no_bad_weights(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        status, out, err = run(*tiny_train(tmp_path / "run", training__rate=1e37, training__clip=0))
        assert status == 1
        assert out == ""
        assert err.splitlines()[-1].startswith("groc: Training diverged")
        assert "training.rate" in err
        assert "nothing but the start of the run is kept" in err
        assert "Traceback" not in err
        assert not (tmp_path / "run" / checkpoint.WEIGHTS).exists()
        kept = load_file(tmp_path / "run" / checkpoint.STATE)
        assert all(tensor.isfinite().all() for tensor in kept.values()), "the state before the first step"


class TestResume:
    @pytest.mark.parametrize(
        "changes",
        [
            {"training__rate": 0.5},
            {"model__dim": 9},
            {"kind": "lookup"},
            {"training__seed": 2},
            {"forms__rules": "paper"},
        ],
    )
    def test_other_settings_are_refused_by_name(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], changes: dict[str, Any]
    ) -> None:
        (name,) = changes
        key = "output.kind" if name == "kind" else name.replace("__", ".")
        arguments = tiny_train(trained["groc"], "--resume", **changes)
        fails(run, arguments, rf"started with {key}=.*same settings", watched=[trained["groc"]])

    @pytest.mark.parametrize("schedule", ["plateau", "cosine"])
    def test_more_epochs_go_on_and_that_is_said(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, schedule: str
    ) -> None:
        folder = tmp_path / "run"
        settings = {"kind": "tied", "training__schedule": schedule}
        assert run(*tiny_train(folder, **settings))[0] == 0
        status, _, err = run(*tiny_train(folder, "--resume", training__epochs=3, **settings))
        assert status == 0
        (said,) = [line for line in err.splitlines() if "now has" in line]
        assert f"{folder} now has 3 epochs where it had 2 before" in said
        assert ("rate follows the new length, and its record will say so" in said) == (schedule == "cosine")
        assert checkpoint.load_config(folder).training.epochs == len(read_epochs(folder)) == 3
        assert "now has" not in run(*tiny_train(folder, "--resume", training__epochs=3, **settings))[2]
        figures = json.loads((folder / "result.json").read_text())["figures"]
        change = {"after_step": figures["steps"] * 2 // 3, "epochs_before": 2, "epochs": 3}
        # Where the rate does not follow the length, the run is bitwise that of three epochs from the start.
        assert figures.get("replanned") == ([change] if schedule == "cosine" else None)

    def test_where_the_number_of_epochs_is_the_first_again_that_is_said_too(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rate has followed another number in the meantime, and so the run does not count in tables."""
        folder = tmp_path / "run"
        settings = {"kind": "tied", "training__schedule": "cosine"}
        step = Trainer.step

        def stopping(trainer: Trainer) -> None:
            step(trainer)
            if not trainer.signals.told:
                signal.raise_signal(signal.SIGINT)  # heard of in the next step

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "step", stopping)
            for more, epochs in ([], 4), (["--resume"], 6):
                assert run(*tiny_train(folder, *more, training__epochs=epochs, **settings))[0] == 130
        status, _, err = run(*tiny_train(folder, "--resume", training__epochs=4, **settings))
        assert status == 0
        assert f"{folder} now has 4 epochs where it had 6 before: its learning rate follows the new length" in err
        replanned = json.loads((folder / "result.json").read_text())["figures"]["replanned"]
        assert [(one["after_step"], one["epochs"]) for one in replanned] == [(2, 6), (4, 4)]

    def test_what_may_change_and_is_not_given_stays_as_the_run_has_it(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As it was given last, even if that training was stopped, too."""
        folder = tmp_path / "run"
        settings = {"kind": "tied", "training__schedule": "cosine"}
        resume = tiny_train(folder, "--resume", **settings)
        resume.remove("training.epochs=2")
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "step", lambda trainer: signal.raise_signal(signal.SIGINT))
            assert run(*tiny_train(folder, training__save_minutes=7, compute__graphs="no", **settings))[0] == 130
            assert run(*resume, "training.epochs=4")[0] == 130
        status, _, err = run(*resume)
        assert status == 0, err
        assert f"{folder} has it: training.epochs=4, training.save_minutes=7.0, compute.graphs=no." in err
        assert "now has" not in err
        assert len(read_epochs(folder)) == 4
        own = checkpoint.load_config(folder)
        assert (own.training.save_minutes, own.compute.graphs) == (7, "no")

    def test_fewer_epochs_than_are_finished_are_refused(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        folder = shutil.copytree(trained["tied"], tmp_path / "run")
        arguments = tiny_train(folder, "--resume", kind="tied", training__epochs=1)
        fails(run, arguments, r"finished 2 epochs already.* resume with 2 or more", watched=[folder])

    def test_nothing_to_resume(self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path) -> None:
        fails(run, tiny_train(tmp_path / "run", "--resume"), "There is no run in .* to go on with", watched=[tmp_path])

    def test_a_run_killed_before_its_first_save_is_no_dead_end(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        """Either --resume starts it, or the message names a way that works."""
        folder = tmp_path / "run"
        folder.mkdir()
        for name in (checkpoint.CONFIG, checkpoint.VOCABULARY, checkpoint.LEXICON, checkpoint.CARD):
            shutil.copy(trained["groc"] / name, folder)
        status, _, err = run(*tiny_train(folder, "--resume"))
        if status:
            assert "--out" in err or "delete" in err or "remove" in err, err

    def test_a_finished_run_is_left_as_it_is(
        self, run: Run, trained: dict[str, Path], tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        folder = shutil.copytree(trained["tied"], tmp_path / "run")
        before = (folder / checkpoint.WEIGHTS).read_bytes()
        assert run(*tiny_train(folder, "--resume", kind="tied"))[0] == 0
        assert (folder / checkpoint.WEIGHTS).read_bytes() == before


# --- signals and a full disk, in real processes ----------------------------------------------------------------------

QUICK: dict[str, Any] = {"training__epochs": 30, "training__stop_after": 0}
SAVING: dict[str, Any] = {**QUICK, "training__save_minutes": 0.0}
"""The same run, with a save after each step: a signal comes in time, and a kill leaves a state inside an epoch."""


@pytest.fixture(scope="module")
def uninterrupted(tiny_train: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert main(tiny_train(folder, **QUICK)) == 0
    return folder


def read_epochs(folder: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (folder / checkpoint.METRICS).read_text().splitlines()]


def assert_same_run(one: Path, other: Path) -> None:
    assert (one / checkpoint.WEIGHTS).read_bytes() == (other / checkpoint.WEIGHTS).read_bytes()
    curves = [
        [
            {key: value for key, value in json.loads(line).items() if key != "seconds"}
            for line in (folder / checkpoint.METRICS).read_text().splitlines()
        ]
        for folder in (one, other)
    ]
    assert curves[0] == curves[1]


def start_and_signal(arguments: list[str], folder: Path, number: int) -> tuple[int, str]:
    """A real process that gets the signal as soon as it has finished an epoch."""
    process = subprocess.Popen(
        [sys.executable, "-m", "groc", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    metrics = folder / checkpoint.METRICS
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 1):
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.fixture(scope="module")
def stopped_once(tiny_train: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    status, _ = start_and_signal(tiny_train(folder, **SAVING), folder, signal.SIGTERM)
    assert status == -signal.SIGTERM
    return folder


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """A run that was stopped after its first epoch and can be gone on with."""
    return shutil.copytree(stopped_once, tmp_path / "run")


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """As in a terminal: what is started in the background ignores it, and so would whatever it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
class TestSignals:
    @pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
    def test_a_polite_stop_saves_and_resumes_bitwise(
        self, run: Run, tiny_train: Callable[..., list[str]], uninterrupted: Path, tmp_path: Path, name: str
    ) -> None:
        folder = tmp_path / "run"
        number = getattr(signal, name)
        status, err = start_and_signal(tiny_train(folder, **SAVING), folder, number)
        assert status == -number  # which a shell calls 130 or 143
        assert "--resume" in err.splitlines()[-1]
        assert "Traceback" not in err
        assert (folder / checkpoint.STATE).is_file()
        checkpoint.load(folder)
        assert run(*tiny_train(folder, "--resume", **QUICK))[0] == 0
        assert_same_run(folder, uninterrupted)

    def test_a_kill_loses_nothing_but_the_time_since_the_last_save(
        self, run: Run, tiny_train: Callable[..., list[str]], uninterrupted: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "run"
        status, _ = start_and_signal(tiny_train(folder, **SAVING), folder, signal.SIGKILL)
        assert status == -signal.SIGKILL
        checkpoint.load(folder)
        assert run(*tiny_train(folder, "--resume", **QUICK))[0] == 0
        assert_same_run(folder, uninterrupted)

    @pytest.mark.parametrize("waits_for", ["recipe", "lexicon"])
    def test_before_there_is_a_run_it_is_said_that_nothing_was_written(
        self, tiny_train: Callable[..., list[str]], tmp_path: Path, waits_for: str
    ) -> None:
        """What the process reads is a pipe into which nobody writes, so it is known where the signal meets it."""
        pipe = tmp_path / ("recipe.toml" if waits_for == "recipe" else "lexicon.jsonl")
        os.mkfifo(pipe)
        arguments = tiny_train(tmp_path / "run", **({} if waits_for == "recipe" else {"forms__lexicon": pipe}))
        if waits_for == "recipe":
            arguments[1] = str(pipe)
        process = subprocess.Popen([sys.executable, "-m", "groc", *arguments], stderr=subprocess.PIPE, text=True)
        end = writing_end(pipe, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        os.close(end)
        assert process.returncode == -signal.SIGINT
        assert err.splitlines() == ["Stopped before training began: there is nothing to go on with."]
        assert not (tmp_path / "run").exists()

    @pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
    def test_a_script_is_stopped_with_its_command(self, tiny_train: Callable[..., list[str]], tmp_path: Path) -> None:
        pipe = tmp_path / "recipe.toml"
        os.mkfifo(pipe)
        command = shlex.join([sys.executable, "-m", "groc", "train", str(pipe), *tiny_train(tmp_path / "run")[2:]])
        script = subprocess.Popen(
            ["bash", "-c", f"{command}; echo went on"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        end = writing_end(pipe, script)
        os.killpg(script.pid, signal.SIGINT)  # as a terminal does it
        out, _ = script.communicate(timeout=120)
        os.close(end)
        assert out == ""
        assert script.returncode == -signal.SIGINT

    def test_before_there_is_a_state_it_is_said_what_to_do(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("groc.resuming.save", lambda trainer: signal.raise_signal(signal.SIGINT))
        status, _, err = run(*tiny_train(tmp_path / "run"))
        assert status == 130
        assert err.splitlines() == [
            f"Stopped. There is no state to go on from yet: delete {tmp_path / 'run'} and start again."
        ]


def writing_end(pipe: Path, process: subprocess.Popen[str]) -> int:
    """Of a pipe, as soon as a process has come to read from it."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.05)
    raise AssertionError(process.communicate()[1])


class TestFullDisk:
    def test_training_stops_with_one_sentence_and_can_go_on_later(
        self, run: Run, tiny_train: Callable[..., list[str]], uninterrupted: Path, stopped: Path
    ) -> None:
        before = snapshot(stopped)
        for limit in (50, (stopped / checkpoint.WEIGHTS).stat().st_size + 1):  # no room for the weights, for the state
            with no_room_beyond(limit):
                status, _, err = run(*tiny_train(stopped, "--resume", **SAVING))
            assert status == 1
            assert "Traceback" not in err
            assert re.fullmatch(
                rf"groc: No room on the disk to write \S+: free some space and go on with the same command and "
                rf"--resume; the last good state is in {stopped}\.",
                err.splitlines()[-1],
            )
            assert snapshot(stopped) == before
        assert run(*tiny_train(stopped, "--resume", **QUICK))[0] == 0
        assert_same_run(stopped, uninterrupted)

    def test_where_there_is_no_state_yet_it_is_not_said_to_resume(
        self, run: Run, tiny_train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        folder = tmp_path / "run"
        with no_room_beyond(10_000):
            status, _, err = run(*tiny_train(folder))
        assert status == 1
        assert err.splitlines()[-1].endswith(
            f"start again when you have deleted {folder}, which holds no state to go on from yet."
        )
        shutil.rmtree(folder)
        assert run(*tiny_train(folder))[0] == 0

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_no_room_for_the_learning_curve(
        self, run: Run, tiny_train: Callable[..., list[str]], stopped: Path
    ) -> None:
        """The one file that grows: where it cannot, that is one sentence too."""
        (stopped / checkpoint.METRICS).unlink()
        os.symlink("/dev/full", stopped / checkpoint.METRICS)
        status, _, err = run(*tiny_train(stopped, "--resume", **QUICK))
        assert status == 1
        assert err.splitlines()[-1].startswith("groc: ")
