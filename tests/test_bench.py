"""The benchmark measures the real step: here that it runs and that its made-up words are good, never how fast."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import as_pairs, tiny_model, tiny_settings

from groc import benchmark
from groc.benchmark import (
    FEW_ENDINGS,
    MANY_ENDINGS,
    Endings,
    Size,
    held_memory,
    made_forms,
    made_trainer,
    peak_memory,
    time_models,
)
from groc.cli import main
from groc.compute import choose
from groc.config import Compute
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn.characters import CODES, Characters
from groc.nn.letters import Letters
from groc.vocabulary import END, Vocabulary


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmark.WARM_UP, "cpu", 1)
    sizes = {"whole": Size("tiny", 60, 100), "sampled": Size("tiny", 60, 100, 20)}
    for name in list(benchmark.SIZES):
        monkeypatch.delitem(benchmark.SIZES, name)
    for name, size in sizes.items():
        monkeypatch.setitem(benchmark.SIZES, name, size)


@pytest.mark.parametrize("words", [1, 30, 1000, 10_000])
@pytest.mark.parametrize("endings", [FEW_ENDINGS, MANY_ENDINGS])
def test_made_up_words_differ(words: int, endings: Endings) -> None:
    forms = made_forms(words, 2 * words, np.random.default_rng(1), endings)
    assert len({forms.string(i) for i in range(len(forms))}) == 2 * words
    assert forms.words == words


@pytest.mark.parametrize(
    ("size", "characters", "kept", "rare", "beyond"),
    [("penn", 51, 32, 0.0175, 0.0175), ("penn, words alone", 51, 32, 0.0175, 0.0175),
     ("wikitext2", 180, 64, 0.019, 0.29)],
)  # fmt: skip
def test_made_up_words_have_such_characters_as_those_of_a_corpus(
    size: str, characters: int, kept: int, rare: float, beyond: float
) -> None:
    """As the kernels for letters count them, with the two marks and what is no character: how many there are, how many
    of them are kept, the share of strings that have others, and of those that have any but the first 32."""
    made = benchmark.SIZES[size]
    forms = made_forms(made.words, made.strings, np.random.default_rng(1), made.endings)
    strings = Characters.of(forms, longest=50, widest=6)
    letters = Letters.of(strings.codes, strings.lengths, CODES)
    assert int(letters.codes.max()) + 1 == pytest.approx(characters, rel=0.05)
    assert letters.limit == kept
    assert float(letters.rare.float().mean()) == pytest.approx(rare, rel=0.2)
    assert float((letters.codes >= 32).any(1).float().mean()) == pytest.approx(beyond, rel=0.2)


@pytest.mark.parametrize("sample", [0, 20])
def test_every_part_is_timed(sample: int) -> None:
    models = ["tied", "groc, characters"] if sample else ["tied", "groc, characters", "groc, characters, naive"]
    small = ["model.dim=8", "prefix.hidden=8", "surface.filters=4,4"]
    for name, timing in zip(models, time_models(Size("penn", 60, 100, sample), models, 2, "cpu", small), strict=True):
        assert timing.model == name
        parts = (timing.step, timing.ratio, timing.encoder, timing.prefix, timing.softmax, timing.optimiser)
        assert all(part > 0 for part in parts)
        assert timing.memory > 0
        assert timing.held > 0


def test_what_is_held_between_steps(tmp_path: Path) -> None:
    """Of a model without forms: weights, gradients and the two numbers that Adam keeps of each."""
    with made_trainer(Size("penn", 60, 100, 0), "tied", "cpu", ["model.dim=8", "prefix.hidden=8"], tmp_path) as trainer:
        numbers = trainer.model.parameter_count()
        assert held_memory(trainer) == pytest.approx(4e-6 * numbers, rel=0.1)
        trainer.step()
        assert held_memory(trainer) == pytest.approx(4 * 4e-6 * numbers, rel=0.1)


def test_averages_and_frozen_embeddings_are_held_too(tmp_path: Path) -> None:
    small = ["model.dim=8", "prefix.hidden=8", "training.average=0.9"]
    with made_trainer(Size("penn", 60, 100, 0), "groc, frozen", "cpu", small, tmp_path) as trainer:
        trainer.step()
        held = [held_memory(trainer)]
        trainer.averaged = None
        held.append(held_memory(trainer))
        trainer.frozen = None
        held.append(held_memory(trainer))
        numbers = trainer.model.parameter_count()
    assert -np.diff(held) == pytest.approx([4e-6 * numbers, 4e-6 * 60 * (8 + 8 + 1)])  # the second: E^in, E^out and b


def test_what_is_held_does_not_depend_on_the_timing_of_parts(tmp_path: Path) -> None:
    size, small = Size("penn", 60, 100, 20), ["model.dim=8", "prefix.hidden=8"]
    (timing,) = time_models(size, ["groc, n-grams"], 2, "cpu", small)
    with made_trainer(size, "groc, n-grams", "cpu", small, tmp_path) as trainer:
        trainer.step()
        assert timing.held == pytest.approx(held_memory(trainer), rel=1e-3)


def test_the_peak_of_memory_is_what_is_held_at_once_and_not_for_good() -> None:
    held = [torch.zeros(1_000_000)]

    def work() -> None:
        held.append(torch.zeros(1_000_000))
        first = torch.empty(1_000_000)
        second = torch.empty(500_000)
        del first
        third = torch.empty(250_000)
        del second, third

    assert peak_memory(work, choose(Compute(device="cpu"))) == pytest.approx(6.0, abs=0.01)


@pytest.mark.parametrize("size", benchmark.SIZES.values(), ids=list(benchmark.SIZES))
def test_the_step_is_the_published_one_whatever_the_recipe_has(size: Size, tmp_path: Path) -> None:
    small = Size(size.recipe, 60, 100, 20 if size.sample else 0)
    with made_trainer(small, "groc, n-grams", "cpu", ["model.dim=8", "prefix.hidden=8"], tmp_path) as trainer:
        assert trainer.averaged is None
        assert (trainer.options.batch, trainer.options.unroll) == (20, 35)
        assert trainer.model.prefix.word_dropout.rate == 0


def test_every_model_can_be_timed() -> None:
    models = [*benchmark.MODELS, *benchmark.OTHERS]
    small = ["model.dim=8", "prefix.hidden=8", "surface.filters=4,4", "output.cutoffs=20,40"]
    told: list[int] = []
    timings = time_models(Size("penn", 60, 100), models, 1, "cpu", small, told.append)
    assert told == sorted(told)
    left = benchmark.work_of(len(models), 1, "cpu") - told[-1]
    assert left == benchmark.WARM_UP["cpu"] + 1  # what never encodes has no encoder to time
    assert [timing.model for timing in timings] == models
    assert all(timing.step > 0 for timing in timings)
    assert [timing.model for timing in timings if not timing.encoder] == ["groc, frozen"]


@pytest.mark.usefixtures("small")
def test_what_has_no_step_with_a_sample_is_left_out_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "bench.json"
    models = ["--model", "groc, frozen", "--model", "groc, n-grams, naive"]
    where = ["--device", "cpu", "--out", str(record)]
    assert main(["bench", "--size", "whole", "--size", "sampled", *models, "--steps", "1", *where]) == 0
    sizes = json.loads(record.read_text())["sizes"]
    timed = {name: [one["model"] for one in size["models"]] for name, size in sizes.items()}
    assert timed == {"whole": ["tied", "groc, frozen", "groc, n-grams, naive"], "sampled": ["tied"]}
    assert "not timed with groc, frozen and groc, n-grams, naive." in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_the_command_prints_a_table_and_writes_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "bench.json"
    sizes = ["--size", "whole", "--size", "sampled"]
    assert main(["bench", "--model", "tied", *sizes, "--steps", "1", "--device", "cpu", "--out", str(record)]) == 0
    table = capsys.readouterr().out
    assert "60 words, 100 strings, 20 drawn a step" in table
    found = json.loads(record.read_text())["sizes"]
    assert found["whole"]["models"][0]["ratio"] == 1.0
    assert found["sampled"]["sample"] == 20
    assert main(["bench", "--model", "tied", "--steps", "1", "--device", "cpu", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["sizes"]) == ["whole"]  # the others take long on a CPU


@pytest.mark.usefixtures("small")
def test_a_record_says_what_was_computed_in(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "--model", "tied", "--steps", "1", "--device", "cpu", "compute.bf16=yes", "--json"]
    assert main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"] == "CPU"
    assert record["sizes"]["whole"]["models"][0]["device"] == "CPU, bfloat16"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("setting", ["forms.relations_dropout=0.3", "forms.centred=true"])
def test_settings_of_forms_that_cost_time_can_be_timed(
    setting: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["bench", "--model", "groc", "--steps", "1", "--device", "cpu", setting, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == [setting]
    with made_trainer(Size("tiny", 60, 100), "groc", "cpu", [setting], tmp_path) as trainer:
        timed = trainer.model.input
        assert (timed.usual is not None, timed.forms_dropout.rates[1]) in ((True, 0.0), (False, 0.3))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "huge"], "no size 'huge'"),
        (["--model", "bert"], "no model 'bert'"),
        (["--steps", "0"], "--steps"),
        (["training.sample=0"], "--size"),
        (["output.kind=groc"], "--model"),
        (["training.random_unroll=true"], "choose training.unroll"),
        (["training.random_unroll = true"], "choose training.unroll"),
        (["compute.device=cuda"], "--device"),
        (["forms.lexicon=none"], "made up"),
        (["--device", "meta"], "not there"),
        (["--out", f"{__file__}/bench.json"], "no folder that can be written to"),
        (["--out", str(Path(__file__).parent)], "is a folder"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_one_process_is_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_timing(*_: object) -> None:
        pytest.fail("several processes were about to be timed")

    monkeypatch.setattr("groc.commands.bench.time_models", no_timing)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["bench", "--model", "tied", "--steps", "1", "--device", "cpu"]) == 1
    printed = capsys.readouterr()
    assert "without torchrun" in printed.err
    assert not printed.out


@pytest.mark.usefixtures("small")
def test_a_number_of_processes_that_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    assert main(["bench", "--model", "tied"]) == 1
    assert "WORLD_SIZE=many is no number" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_torchrun_with_one_process_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert main(["bench", "--model", "tied", "--steps", "1", "--device", "cpu"]) == 0


@pytest.fixture
def benchmark_script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a script of bench/ in this process: one of its own would import torch again."""

    def run_script(name: str, *options: str) -> None:
        monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bench")
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *options])
        importlib.import_module(name).main()

    return run_script


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["adding_words", "--words", "10"], "--words is at least"),
        (["adding_words", "--device", "meta"], "is not there"),
        (["step_kernels", "--size", "huge"], "invalid choice"),
    ],
)
def test_a_benchmark_refuses_nonsense_in_a_line(
    arguments: list[str],
    message: str,
    benchmark_script: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmark_script(*arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_each_change_of_a_list_is_what_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """New words are new each time, and what is redefined was there."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bench")
    adding_words = importlib.import_module("adding_words")
    words = tuple(f"w{i}" for i in range(adding_words.DEFINING))
    model = tiny_model("groc", "ngrams", Vocabulary([END, *words]), Glossary({}))
    grown = []

    def milliseconds(model: LanguageModel, change: Callable[[], None]) -> float:
        before, taught = len(model.vocabulary), len(model.taught)
        change()
        grown.append((len(model.vocabulary) - before, len(model.taught) - taught))
        return float(len(grown))

    monkeypatch.setattr(adding_words, "milliseconds", milliseconds)
    found = adding_words.times(model, words)
    assert grown == [(1, 1)] * 50 + [(1000, 1000)] * 5 + [(0, 0)] * 5 + [(-1, -1)] * 5
    assert found == {"one_ms": 25.5, "many_ms": 53.0, "redefined_ms": 58.0, "removed_ms": 63.0}


@pytest.mark.parametrize(
    "command",
    [
        ["adding_words", "--words", "3000"],
        ["caches", "--size", "300", "--words", "300", "--dim", "8"],
    ],
)
def test_a_benchmark_prints_a_record(
    command: list[str], benchmark_script: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark_script(*command, "--device", "cpu", "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["device"] == "CPU, float32"
    assert record["torch"]


@pytest.mark.parametrize("settings", [["--variant", "tied"], ["training.sample=8"]])
def test_only_all_words_of_groc_have_a_naive_twin(
    settings: list[str],
    corpus_folder: Path,
    benchmark_script: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        benchmark_script("fast_and_naive", "tiny", "--corpus", str(corpus_folder), *settings)
    assert "The naive encoder is GroC's" in capsys.readouterr().err


@pytest.mark.parametrize("surface", ["ngrams", "cnn"])
def test_fast_and_naive_training_are_compared(
    surface: str,
    corpus_folder: Path,
    glossary_file: Path,
    benchmark_script: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = as_pairs({**tiny_settings("groc", surface), "forms.lexicon": str(glossary_file), "training.seed": 3})
    benchmark_script("fast_and_naive", "tiny", "--corpus", str(corpus_folder), "--steps", "40", "--json", *settings)
    record = json.loads(capsys.readouterr().out)
    assert len(record["naive"]) == len(record["fast"]) == 2
    assert record["fast"][1] < record["fast"][0], "it learns"
    assert record["fast"] == pytest.approx(record["naive"], abs=1e-5)
    assert 0 <= record["apart"] < 1e-5
    assert record["settings"]["corpus"] == corpus_folder.name
    dropouts = {key: part[key] for part in record["settings"].values() if isinstance(part, dict) for key in part}
    assert not any(value for key, value in dropouts.items() if key.endswith("dropout"))
