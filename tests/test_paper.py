"""The paper's tables: its numbers, our runs beside them, and nothing that was not run."""

from __future__ import annotations

import json
import math
import re
import runpy
import shlex
import shutil
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    as_pairs,
    no_room_beyond,
    sentences,
    signal_while_the_last_valid_text_is_read,
    snapshot,
    tiny_settings,
)
from hypothesis import given
from hypothesis import strategies as st

from groc import checkpoint
from groc.cli import main
from groc.commands.paper import count
from groc.compute import choose
from groc.config import Compute, Config, known_keys
from groc.corpus import Corpus
from groc.lexicon import Empty
from groc.paper import TABLES, Results, announcing, checking, published
from groc.paper.claims import all_claims, closed_claims
from groc.paper.figures import FIGURES
from groc.paper.place import Place
from groc.paper.records import TIMED
from groc.paper.running import evaluate
from groc.paper.runs import AS_GOOD, Job, Run, best, identity
from groc.paper.searches import as_long, different_budgets, values_tried
from groc.paper.shapes import misfits
from groc.recipe import load_recipe, recipe_names, variant_names
from groc.report import summarise
from groc.results import PRUNED, add_evaluation, text_name, write_result
from groc.scoring import score

DOCS = Path(__file__).parents[1] / "docs"
WORDS = "the a dog cat ship sea run sleep red old".split()
Row = dict[str, Any]
Recorder = Callable[..., Path]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Writes records of runs that were never made, as the real writer does."""

    def record(
        name: str, dev: float, test: float | None = None, seed: int = 1, extra: Row | None = None, **changes: Any
    ) -> Path:
        recipe, _, variant = name.partition(" on ")[0].partition("/")
        config = load_recipe(recipe, variant or None) if recipe in recipe_names() else Config()
        config = config.replace({"name": name})
        dataset = changes.pop("corpus", "wikitext-2" if recipe == "wikitext2" else "penn")
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        config = config.replace({"corpus": f"/somewhere/{dataset}", "training.seed": seed, **changes})
        path = tmp_path / "results" / f"{len(list(tmp_path.glob('results/*')))}.json"
        figures = {"valid_perplexity": dev, "parameters": 1_000_000, "steps": 1, **(extra or {})}
        measured = {"valid_perplexity": dev, "valid_loss": math.log(dev), "train_perplexity": dev}
        curve = [{"epoch": n, "step": 100 * n, "seconds": s, **measured} for n, s in CURVE]
        write_result(path, config, choose(Compute(device="cpu")), figures, curve)
        if test is not None:
            add_test(path, f"/somewhere/{dataset}/test.txt.xz", test)
        return path

    return record


CURVE = ((1, 50.0), (2, 60.0), (3, 72.0))  # the first epoch compiles


def add_test(path: Path, text: str, perplexity: float, **more: Any) -> None:
    unseen = {"loss": 9.0}
    summary = {"text": text, "run": "r", "perplexity": perplexity, "unseen": unseen, "oov_share": 0.02, "bins": []}
    add_evaluation(path, {**summary, "vocabulary": 100, "vocabulary_kind": "union", **more})


def rows_of(table: str, folder: Path, **wanted: Any) -> list[Row]:
    rows = TABLES[table].rows(Results(folder / "results"))
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def row_of(table: str, folder: Path, **wanted: Any) -> Row:
    (row,) = rows_of(table, folder, **wanted)
    return row


# --- what the paper prints ----------------------------------------------------------------------------------------


def test_the_papers_tables_agree_with_each_other() -> None:
    for dataset, usual in (("penn", False), ("wikitext-2", True)):
        assert published.ABLATIONS[dataset][usual][0] == published.MAIN[dataset]["groc"][1:]
        assert set(published.MAIN[dataset]) == set(published.MODELS) == set(published.HYPER[dataset])
    assert published.COVERAGE[-1][1:] == (published.MAIN["penn"]["groc"][2],) * 2
    assert all(len(figures) == len(published.DOMAINS) for figures in published.CROSS_DOMAIN.values())


def test_every_cell_has_a_recipe() -> None:
    jobs = {(cell.job.recipe, cell.job.variant) for table in TABLES.values() for cell in table.cells if cell.job}
    known = {(recipe, variant) for recipe in recipe_names() for variant in variant_names(recipe)}
    assert jobs <= known


# --- which runs belong where --------------------------------------------------------------------------------------


def test_nothing_is_said_of_what_was_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, table in TABLES.items():
        assert main(["paper", name, "--results", str(tmp_path), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert all(row[measure] is None for row in rows for measure in table.measures)
        assert not any(row["runs"] for row in rows)
        assert main(["paper", name, "--results", str(tmp_path)]) == 0
        assert "not run" in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere", "There is no folder"), ("notes.json", "is a file"), ("", "holds no record")]
)
def test_where_no_results_are_found_it_is_said_how_to_name_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    (tmp_path / "notes.json").write_text('{"notes": []}')
    for table in ("main", "cross-domain"):
        for form in ([], ["--json"]):
            is_file = name == "notes.json"
            assert main(["paper", table, "--results", str(tmp_path / name), *form]) == (1 if is_file else 0)
            shown = capsys.readouterr()
            (said,) = shown.err.splitlines()
            assert reason in said
            assert str(tmp_path / name) in said
            assert "--results" in said
            if table == "main" and not (is_file or form):
                assert re.search(r"penn +\| groc .*69\.5.*not run", shown.out)


def test_of_known_results_nothing_is_said(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/tied", 90.0, 88.0)
    assert main(["paper", "main", "--results", str(tmp_path / "results")]) == 0
    assert capsys.readouterr().err == ""


def test_rows_of_a_dataset_or_a_model_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def keys(table: str, key: str, *options: str) -> list[tuple[str, str]]:
        assert main(["paper", table, "--results", str(tmp_path), "--json", *options]) == 0
        return [(row.get(key), row.get("model")) for row in json.loads(capsys.readouterr().out)["rows"]]

    models = ["--model", "tied", "--model", "groc"]
    assert keys("main", "dataset", "--dataset", "penn", *models) == [("penn", "tied"), ("penn", "groc")]
    assert len(keys("main", "dataset", *models)) == 4
    assert len(keys("main", "dataset")) == 14
    assert keys("data", "dataset", "--dataset", "penn") == [("penn", None)]
    other = next(name for name, *_ in published.SIZES)  # of penn alone
    assert main(["paper", "size", "--results", str(tmp_path), "--dataset", "wikitext-2", "--model", other]) == 1
    assert "no row of such a --dataset and --model: leave one out" in capsys.readouterr().err
    # Where nothing is recorded, this is what is said.
    assert main(["paper", "cross-domain", "--results", str(tmp_path), "--model", "tied"]) == 0
    assert "Not run." in capsys.readouterr().out


def test_the_main_comparison_has_all_cells(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/tied", 90.0, 88.0)
    assert main(["paper", "main", "--results", str(tmp_path / "results"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["dataset"], row["model"]) for row in rows] == [
        (dataset, model) for dataset in ("penn", "wikitext-2") for model in published.MODELS
    ]
    assert all({"dev", "test", "parameters", "runs"} <= set(row) for row in rows)
    assert [row["runs"] for row in rows] == [int((row["dataset"], row["model"]) == ("penn", "tied")) for row in rows]


def test_mean_and_spread_over_seeds(tmp_path: Path, recorder: Recorder) -> None:
    for seed, test in enumerate((70.0, 71.0, 73.0), 1):
        recorder("penn/groc", 75.0 + seed, test, seed)
    row = row_of("main", tmp_path, dataset="penn", model="groc")
    assert (row["dev"], row["test"], row["runs"], row["seeds"]) == (77.0, pytest.approx(214 / 3), 3, [1, 2, 3])
    assert row["test_spread"] == pytest.approx(statistics.stdev((70.0, 71.0, 73.0)))
    assert "71.3 ± 1.5" in TABLES["main"].markdown([row])
    assert row["device"] == "CPU, float32"


def test_a_run_without_a_test_figure_says_so(tmp_path: Path, recorder: Recorder) -> None:
    path = recorder("penn/tied", 90.0)
    add_test(path, "/somewhere/penn/valid.txt", 1.0)  # another text
    add_test(path, "/somewhere/penn/test.txt", 2.0, vocabulary_kind="words.txt")  # another task
    add_test(path, "/somewhere/penn/test.txt", 3.0, caches=[{"kind": "local", "lambda": 0.9}])
    row = row_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["runs"], row["test"]) == (1, None)
    assert "not evaluated" in TABLES["main"].markdown([row])


def test_a_test_figure_says_of_how_many_runs_it_is(tmp_path: Path, recorder: Recorder) -> None:
    for seed, test in enumerate((88.0, 90.0, None), 1):
        recorder("penn/tied", 90.0, test, seed)
    row = row_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["runs"], row["test"], row["test_runs"]) == (3, 89.0, 2)
    printed = TABLES["main"].markdown([row])
    assert "89.0 ± 1.4 (2 of 3)" in printed
    assert "90.0 ± 0.0 |" in printed  # dev is that of all


def test_of_two_records_of_a_run_the_later_is_taken_and_a_tie_is_said(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    def dated(path: Path, day: int) -> Path:
        path.write_text(json.dumps({**json.loads(path.read_text()), "date": f"2026-01-0{day}"}))
        return path

    def taken() -> float:
        results = Results(tmp_path / "results")
        rows = [row for name in ("main", "size", "main") for row in TABLES[name].rows(results)]
        return float(next(row["test"] for row in rows if row["model"] == "tied"))

    first, second, third = (dated(recorder("penn/tied", 90.0 + n, 80.0 + n), day) for n, day in enumerate((3, 2, 1)))
    assert (taken(), capsys.readouterr().err) == (80.0, "")
    dated(second, 3)
    assert taken() == 81.0
    (said,) = capsys.readouterr().err.splitlines()
    assert str(first) in said
    assert said.endswith(f"{second} is taken.")
    assert str(third) not in said
    second.write_text(first.read_text())
    assert (taken(), capsys.readouterr().err) == (80.0, "")  # a copy


def test_a_tie_is_said_where_it_could_decide(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/tied", 80.0, 79.0)
    recorder("penn/tied", 95.0, training__rate=0.5)
    recorder("penn/tied", 90.0, training__rate=0.5)
    Results(tmp_path / "results")
    assert capsys.readouterr().err == ""  # both are far behind
    hidden = recorder("penn/tied", 70.0, training__rate=0.25)
    recorder("penn/tied", 90.0, training__rate=0.25)
    Results(tmp_path / "results")
    assert str(hidden) in capsys.readouterr().err


def test_a_tie_is_said_that_decides_among_ablations_alone(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/groc", 60.0, output__depth=0)
    first, _ = (recorder("penn/groc", 90.0, test) for test in (80.0, 81.0))
    Results(tmp_path / "results")
    assert str(first) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "parameters", "counts"),
    [
        ("penn/groc", 10_000_000, True),  # of 9 million
        ("penn/groc", 10_100_000, False),
        ("penn/groc-no-out", 10_100_000, False),
        ("penn/convolutional", 14_200_000, True),  # of 13 million
        ("penn/deep-residual", 11_100_000, False),
        ("wikitext2/lookup", 25_200_000, True),  # of 23 million
        ("wikitext2/groc", 15_000_000, False),
        ("penn-best/groc", 23_900_000, True),
        ("penn-best/groc", 24_100_000, False),
    ],
)
def test_what_is_larger_than_the_papers_model_is_not_counted(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str], name: str, parameters: int, counts: bool
) -> None:
    path = recorder(name, 60.0, 50.0, extra={"parameters": parameters})
    results = Results(tmp_path / "results")
    found = [row for table in ("main", "ablations", "size", "main") for row in TABLES[table].rows(results)]
    assert any(row["runs"] for row in found) == counts
    said = capsys.readouterr().err.splitlines()
    assert [str(path) in line for line in said] == ([] if counts else [True])


def test_seeds_of_one_model_are_of_one_size(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        recorder("penn/tied", 60.0, 50.0, seed, extra={"parameters": 10_000_000})
    other = recorder("penn/tied", 60.0, 50.0, 3, extra={"parameters": 5_000_000})
    row = row_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["parameters"], row["seeds"]) == (10_000_000, [1, 2])
    assert f"{other} has 5,000,000 parameters, most runs" in capsys.readouterr().err


def test_of_two_sizes_neither_is_that_of_most(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = (5_000_000, 10_000_000)
    first, second = (
        recorder("penn/tied", 60.0, 50.0, seed, extra={"parameters": size}) for seed, size in enumerate(sizes, 1)
    )
    assert row_of("main", tmp_path, dataset="penn", model="tied")["runs"] == 0
    said = capsys.readouterr().err
    for path, size, other in ((first, *sizes), (second, *reversed(sizes))):
        assert f"{path} has {size:,} parameters, other runs with its settings {other:,}, and which is right" in said
    recorder("penn/tied", 60.0, 50.0, 1, extra={"parameters": 10_000_000})  # the first one made again
    row = row_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["parameters"], row["seeds"]) == (10_000_000, [1, 2])


def test_a_variant_that_the_recipe_has_not_is_named(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/groc", 60.0, 50.0)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "name": "penn/grok"}))
    assert not Results(tmp_path / "results").counted
    assert f"{path} is called penn/grok" in capsys.readouterr().err


@pytest.mark.parametrize(("dev", "counts"), [(62.0, True), (50.0, False)])
def test_a_perplexity_that_its_curve_contradicts_is_named(
    tmp_path: Path, recorder: Recorder, dev: float, counts: bool
) -> None:
    path = recorder("penn/tied", 64.8, 60.0)
    record = json.loads(path.read_text())
    record["figures"]["valid_perplexity"] = dev  # strict; the curve reads several streams
    path.write_text(json.dumps(record))
    results = Results(tmp_path / "results", quiet=True)
    assert len(results.counted) == counts
    assert ["near 64.8, the best of its curve" in why for why in results.damaged] == ([] if counts else [True])


def test_a_curve_without_its_best_epoch_contradicts_nothing(tmp_path: Path, recorder: Recorder) -> None:
    """Lines of metrics.jsonl can be lost; training goes on without them."""
    path = recorder("penn/tied", 64.8, 60.0, extra={"best_epoch": 2})
    record = json.loads(path.read_text())
    record["curve"] = [{**row, "valid_perplexity": 99.0} for row in record["curve"] if row["epoch"] != 2]
    path.write_text(json.dumps(record))
    assert not Results(tmp_path / "results").damaged
    record["figures"]["best_epoch"] = 3
    path.write_text(json.dumps(record))
    assert Results(tmp_path / "results", quiet=True).damaged


def test_another_corpus_of_the_same_name_is_not_counted(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained(seed: int, steps: int) -> Path:
        settings = {"training__batch": 40, "training__unroll": 35}
        return recorder("penn/tied", 60.0, 50.0, seed, extra={"steps": steps, "epochs": 10}, **settings)

    trained(1, 6640)
    trained(2, 6820)  # with random unrolls
    tiny = trained(3, 100)
    assert row_of("main", tmp_path, dataset="penn", model="tied")["seeds"] == [1, 2, 3]  # nothing to compare it with
    data = {"kind": "data", "name": "data/penn", "figures": {"vocabulary": 10_000, "tokens": 929_589}}
    (tmp_path / "results" / "data-penn.json").write_text(json.dumps(data))
    assert capsys.readouterr().err == ""
    assert row_of("main", tmp_path, dataset="penn", model="tied")["seeds"] == [1, 2]
    (said,) = capsys.readouterr().err.splitlines()
    assert str(tiny) in said
    assert "14,000" in said


def test_a_run_whose_rate_followed_two_plans_is_not_counted(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [{"after_step": 2000, "epochs_before": 20, "epochs": 40}]
    again = {"after_step": 3000, "epochs_before": 40, "epochs": 20}
    for corpus in ("penn", "news"):
        recorder(f"{corpus}/tied", 60.0, 50.0, corpus=corpus)
        before = [rows_of(table, tmp_path) for table in ("main", "cross-domain")]
        path = recorder(f"{corpus}/tied", 59.0, 49.0, 2, extra={"replanned": changes}, corpus=corpus)
        capsys.readouterr()
        assert [rows_of(table, tmp_path) for table in ("main", "cross-domain")] == before
        said = capsys.readouterr().err
        assert f"{path} was to have 40 epochs, not 20, from step 2,000 on, and its" in said
        assert "it is not counted" in said
        path = recorder(f"{corpus}/tied", 59.0, 49.0, 3, extra={"replanned": [*changes, again]}, corpus=corpus)
        assert [rows_of(table, tmp_path) for table in ("main", "cross-domain")] == before
        assert f"{path} was to have 40 epochs, not 20, from step 2,000 on, and last 20, from step 3,000 on" in (
            capsys.readouterr().err
        )


def test_every_run_of_the_repository_counts(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results(DOCS.parent / "results")
    assert results.counted == results.runs
    assert capsys.readouterr().err == ""


def test_settings_are_chosen_on_dev_and_never_mixed(tmp_path: Path, recorder: Recorder) -> None:
    recorder("penn/tied", 90.0, 60.0, 1)
    recorder("penn/tied", 80.0, 85.0, 1, training__rate=0.002)
    recorder("penn/tied", 80.4, 86.0, 1, training__rate=0.003)
    recorder("penn/tied", 80.6, 87.0, 2, training__rate=0.003)
    row = row_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["seeds"], row["test"]) == ([1, 2], 86.5)  # as good on dev, and with more seeds


def test_settings_that_a_model_makes_no_use_of_do_not_tell_its_runs_apart(tmp_path: Path, recorder: Recorder) -> None:
    recorder("penn/tied", 80.0, 85.0, 1, output__kind="tied", surface__buckets=100, forms__lower=True, output__depth=1)
    recorder("penn/tied", 81.0, 87.0, 2, output__kind="tied", surface__buckets=200, output__depth=2)
    assert row_of("main", tmp_path, dataset="penn", model="tied")["seeds"] == [1, 2]
    recorder("penn/groc", 70.0, 71.0, 1, output__kind="groc", surface__buckets=100)
    recorder("penn/groc", 70.1, 71.0, 2, output__kind="groc", surface__buckets=200)
    assert row_of("main", tmp_path, dataset="penn", model="groc")["seeds"] == [1]


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]), st.integers(1, 3), st.floats(50, 100)), min_size=1),
    st.randoms(use_true_random=False),
)
def test_the_choice_is_one_of_settings_and_blind_to_the_test_text(
    runs: list[tuple[float, int, float]], draw: Any
) -> None:
    def made(rate: float, seed: int, dev: float) -> Run:
        config = Config().replace({"corpus": "penn", "training.rate": rate, "training.seed": seed}).to_dict()
        tests = {"penn/test, union vocabulary": {"perplexity": draw.uniform(1, 1000)}}
        figures = {"valid_perplexity": dev}
        return Run({"name": "penn/tied", "config": config, "figures": figures, "evaluations": tests})

    chosen, again = (best(made(*run) for run in runs) for _ in range(2))
    assert [(run.settings, run.dev) for run in chosen] == [(run.settings, run.dev) for run in again]
    assert len({identity(run.settings) for run in chosen}) == 1
    assert len({run.seed for run in chosen}) == len(chosen)
    latest = {(rate, seed): dev for rate, seed, dev in runs}
    means = [statistics.mean(dev for (r, _), dev in latest.items() if r == rate) for rate in {r for r, _ in latest}]
    assert statistics.mean(run.dev for run in chosen) <= AS_GOOD * min(means) * (1 + 1e-12)


def test_settings_whose_names_begin_alike_are_told_apart() -> None:
    """`surface.longest`, which n-grams make no use of, and `surface.longest_ngram`, which they do."""
    settings = load_recipe("penn", "groc").flat()
    assert identity({**settings, "surface.longest_ngram": 4}) != identity(settings)
    assert identity({**settings, "surface.longest": 4}) == identity(settings)


def test_settings_that_a_table_varies_stay_in_their_cells(tmp_path: Path, recorder: Recorder) -> None:
    recorder("penn/groc", 70.0, 71.0)
    recorder("penn/groc", 60.0, 61.0, forms__coverage=0.2)
    recorder("penn/groc", 50.0, 51.0, forms__without=("relations",))
    recorder("penn/groc-sparse", 40.0, 41.0)
    recorder("penn/groc-no-out-without-relations", 30.0, 31.0)
    recorder("penn/groc-no-out", 20.0, 21.0)
    recorder("penn/groc-characters", 10.0, 11.0)
    assert row_of("main", tmp_path, dataset="penn", model="groc")["test"] == 71.0
    assert row_of("coverage", tmp_path, model="groc, retrained", coverage=0.2)["test"] == 61.0
    assert row_of("coverage", tmp_path, model="groc, at inference", coverage=0.2)["runs"] == 0
    assert row_of("speed", tmp_path, dataset="penn", model="groc, p = 0.3")["test"] == 41.0
    found = {
        (row["output network"], row["without"]): row["test"] for row in rows_of("ablations", tmp_path, dataset="penn")
    }
    assert (found["yes", ""], found["no", "relations"], found["no", ""]) == (71.0, 31.0, 21.0)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("penn/groc", {"output__depth": 0}),
        ("penn/groc", {"forms__without": ("relations",)}),
        ("penn/groc-no-out", {"output__depth": 2}),
        ("penn/groc-no-out", {"forms__without": ("relations",)}),
        ("penn/groc-without-both", {"output__depth": 0}),
        ("penn/groc-without-both", {"forms__without": ("relations",)}),
        ("penn/groc-no-out-without-relations", {"output__depth": 2}),
        ("penn/groc-no-out-without-relations", {"forms__without": ()}),
    ],
)
def test_a_row_of_ablations_has_runs_of_what_it_says_alone(
    tmp_path: Path, recorder: Recorder, name: str, settings: Row
) -> None:
    recorder(name, 70.0, 71.0)
    recorder(name, 60.0, 61.0, **settings)
    assert [row["test"] for row in rows_of("ablations", tmp_path) if row["runs"]] == [71.0]


def test_what_is_left_out_may_be_named_in_any_order(tmp_path: Path, recorder: Recorder) -> None:
    runs = [
        recorder("penn/groc-without-both", 70.0, 71.0, forms__without=order)
        for order in (
            ("relations", "definitions"),
            ("definitions", "relations"),
        )
    ]
    (row,) = [row for row in rows_of("ablations", tmp_path) if row["runs"]]
    assert (row["without"], row["test"]) == ("both", 71.0)
    assert len({Run(json.loads(path.read_text())).repeated for path in runs}) == 1


def test_groc_without_output_network_may_be_the_best_in_the_main_comparison(tmp_path: Path, recorder: Recorder) -> None:
    """As on penn in the paper. Ablations are compared with the row of their own table all the same."""
    recorder("penn/groc", 60.0, 61.0, output__depth=0, prefix__word_dropout=0.9)
    recorder("penn/groc", 70.0, 71.0)
    recorder("penn/groc-without-both", 80.0, 81.0)
    assert row_of("main", tmp_path, dataset="penn", model="groc")["test"] == 61.0
    assert [row["differs"] for row in rows_of("ablations", tmp_path) if row["runs"]] == [{}, {}]


def test_a_setting_that_is_gone_and_was_not_used_changes_nothing(tmp_path: Path, recorder: Recorder) -> None:
    path = recorder("penn/groc", 90.0, 80.0)
    record = json.loads(path.read_text())
    record["config"]["surface"]["whole"] = 0
    record["config"]["training"]["seed"] = record["seed"] = 2
    (path.parent / "other.json").write_text(json.dumps(record))
    assert row_of("main", tmp_path, dataset="penn", model="groc")["runs"] == 2


def test_records_of_earlier_versions_are_read(tmp_path: Path, recorder: Recorder) -> None:
    path = recorder("penn", 105.0, 104.0)  # no variant: the recipe's own model
    record = json.loads(path.read_text())
    record["evaluations"] = {"penn/test": record["evaluations"].pop("penn/test, union vocabulary")}
    del record["config"]["surface"]["hashes"], record["config"]["forms"]["surface_dropout"]
    path.write_text(json.dumps(record))
    (path.parent / "demo.json").write_text('{"name": "demo", "figures": {"groc": {}}, "config": {}}')
    (path.parent / "bench.json").write_text('{"sizes": {}}')
    assert row_of("main", tmp_path, dataset="penn", model="groc")["test"] == 104.0


def test_a_setting_that_is_newer_than_a_record_is_not_asked_of_it(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to say that a setting is new; it must be what it can be where a record names it."""
    config = json.loads(recorder("penn/tied", 90.0).read_text())["config"]
    monkeypatch.setattr(checking, "known_keys", lambda: {**known_keys(), "training.invented": float})
    shape = checking.config_shape()
    assert list(misfits(config, shape, "config")) == []
    config["training"]["invented"] = "much"
    assert list(misfits(config, shape, "config")) == ['config.training.invented must be a finite number, not "much"']


# --- what tables make of runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("medians", [True, False])
def test_losses_by_frequency_are_those_of_the_rival_less_grocs(
    tmp_path: Path, recorder: Recorder, medians: bool
) -> None:
    for name, loss in (("groc", 5.0), ("tied", 5.5)):
        bins = [{"from": start, "to": None, "loss": loss + start} for start in (0, 1, 10)]
        if medians:
            bins = [{**row, "median_loss": 2 * row["loss"]} for row in bins]
        add_test(recorder(f"penn/{name}", 90.0), "/x/penn/test.txt", 80.0, bins=bins)
    row = row_of("frequency", tmp_path, dataset="penn", model="tied")
    gain = 1.0 if medians else 0.5
    assert (row["1-9"], row["10-99"], row["100-999"]) == (gain, gain, None)
    assert row["of"] == ("median" if medians else "mean")


def test_speed_is_that_of_the_bench_with_most_models(tmp_path: Path, recorder: Recorder) -> None:
    folder = recorder("penn/groc", 90.0, 80.0).parent
    every = {"tied": 2.0, "groc": 3.0, "groc, frozen": 1.0}
    benches = [
        ("GPU 1", [], every),
        ("GPU 2", [], {"tied": 1.0, "lookup": 9.0}),  # later, but with fewer models
        ("GPU 3", ["training.batch=1"], {**every, "tied": 0.1, "lookup": 1.0}),  # not the step of the paper
        ("CPU, float32", [], {**every, "tied": 50.0, "lookup": 50.0}),
    ]
    for day, (device, settings, steps) in enumerate(benches, 1):
        models = [{"model": name, "step": step} for name, step in steps.items()]
        record = {"date": f"2026-01-0{day}", "device": device, "settings": settings}
        (folder / f"bench-{day}.json").write_text(json.dumps({**record, "sizes": {"penn": {"models": models}}}))
    groc, sparse, lookup = (
        row_of("speed", tmp_path, dataset="penn", model=name) for name in ("groc", "groc, p = 0.3", "lookup")
    )
    steps = 1_328  # of 20 x 35 words, in the text that the paper counts
    assert groc["seconds"] == pytest.approx(3.0 * steps / 1000, rel=1e-3)
    assert (groc["ratio"], groc["test"], groc["device"]) == (1.5, 80.0, "timed on GPU 1 / trained on CPU, float32")
    assert (sparse["device"], lookup["device"]) == ("timed on GPU 1", "")
    assert (sparse["ratio"], sparse["test"]) == (pytest.approx((0.3 * 3 + 0.7 * 1) / 2), None)
    assert (lookup["seconds"], lookup["ratio"]) == (None, None)
    assert groc["paper"]["ratio"] == pytest.approx(259.8 / 18.6)


def test_new_words_are_counted_over_all_texts_by_how_often_they_were_read(tmp_path: Path, recorder: Recorder) -> None:
    path = recorder("news/groc", 100.0, corpus="news")
    for text, tokens, plain, helped in (("wikitext-2", 10, 9.0, 8.0), ("talks-ted", 30, 5.0, 5.4)):
        for memory, loss in ((False, plain), (True, helped)):
            counted = [{"from": start, "to": end, "tokens": 0} for start, end in ((0, 0), (1, 1), (5, 9), (10, None))]
            counted.insert(2, {"from": 2, "to": 4, "tokens": tokens, "loss": loss})
            add_test(path, f"/x/{text}/test.txt", 90.0, memory=memory, new_by_occurrence=counted)
    add_test(path, "/x/biomed-mtl/test.txt", 90.0, new_by_occurrence=counted)  # without memory alone: left out
    row = row_of("memory", tmp_path)
    assert (row["read before"], row["tokens"], row["better on"]) == ("2-4", 40, "1 of 2")
    assert (row["groc"], row["groc+memory"]) == (pytest.approx(6.0), pytest.approx(6.05))


def test_models_of_others_are_not_ours_to_run(tmp_path: Path, recorder: Recorder) -> None:
    add_test(recorder("penn/tied", 90.0, 80.0), "/x/penn/test.txt", 70.0, dynamic={"rate": 1})
    rows = rows_of("size", tmp_path)
    assert {row["model"]: row["runs"] for row in rows}["AWD-LSTM (Merity et al. 2018)"] is None
    assert row_of("size", tmp_path, dataset="penn", model="tied")["test"] == 80.0


def test_cross_domain_rows_come_from_evaluations(tmp_path: Path, recorder: Recorder) -> None:
    path = recorder("news/groc", 100.0, corpus="news")
    add_test(path, "/x/wikitext-2/test.txt", 500.0, oov_share=0.05)
    add_test(path, "/x/wikitext-2/valid.txt", 1.0)  # what was tuned on is no row
    add_test(path, "/x/news-wmt-by-year/2008.txt.xz", 300.0)
    tuning = {"1 local": [{"lambda": share, "theta": 0.5, "loss": share, "perplexity": 9.0} for share in (0.9, 0.8)]}
    local = {
        "caches": [{"kind": "local"}],
        "novelty": 0.8,
        "sharpness": 0.2,
        "tuning": tuning,
        "tuned_on": "/x/news-2008/valid.txt",
    }
    add_test(path, "/x/wikitext-2/test.txt", 400.0, **local)
    after = {"perplexity": 200.0, "loss": 5.3, "new_words_loss": 8.0}
    texts = [{"text": "target test", "new_share": 0.05, "after": after}]
    adapted = {"adapted_from": "news-groc", "texts": texts}
    recorder("news/groc on wikitext-2", 150.0, corpus="wikitext-2", extra=adapted)
    rows = {(row["domain"], row["model"]): row for row in rows_of("cross-domain", tmp_path)}
    assert {key: row["test"] for key, row in rows.items()} == {
        ("wikitext-2", "groc"): 500.0,
        ("news-wmt-by-year/2008", "groc"): 300.0,
        ("wikitext-2", "groc+local"): 400.0,
        ("wikitext-2", "groc+finetuned"): 200.0,
    }
    assert rows["wikitext-2", "groc"]["oov"] == pytest.approx(5.0)
    assert [rows["wikitext-2", model]["unseen_loss"] for model in ("groc", "groc+finetuned")] == [9.0, 8.0]
    cache = row_of("caches", tmp_path)
    assert (cache["text"], cache["lambda"], cache["theta"]) == ("news-2008/valid", 0.8, 0.5)
    assert "/x/" not in path.read_text()


def test_values_that_were_tried_are_those_of_runs_that_learned_to_the_end(tmp_path: Path, recorder: Recorder) -> None:
    recorder("penn/tied", 90, training__rate=0.001)
    recorder("penn/tied", 80, training__rate=0.002)
    recorder("penn/tied", 95, training__rate=0.003, training__epochs=200)  # as long, but in another course
    worse = recorder("penn/tied", 85, training__rate=0.004)
    record = json.loads(worse.read_text(encoding="utf-8"))
    record["curve"][-1]["valid_perplexity"] = 1e9
    worse.write_text(json.dumps(record), encoding="utf-8")
    results = Results(tmp_path / "results")
    assert [run.path for run in results.runs if run.ended_worse] == [worse]
    tried = values_tried(results, Job("penn", "tied"))
    assert tried["rate"] == "0.001, **0.002**"
    assert tried["dropout of outputs"] == "**0**"
    assert len(as_long(results, Job("penn", "tied"))) == 3
    assert values_tried(results, Job("penn", "groc")) == {}


def test_settings_and_trials_are_shown(tmp_path: Path, recorder: Recorder) -> None:
    recorder("penn/adaptive", 80.0, output__dropout=0.4)
    search = {
        "kind": "search",
        "name": "penn/adaptive",
        "trials": [{"state": "failed", "changes": {"training.rate": "1"}}] * 2,
    }
    (tmp_path / "results" / "search.json").write_text(json.dumps(search))
    row = row_of("hyper-parameters", tmp_path, dataset="penn", model="adaptive")
    assert (row["output"], row["trials"]) == ("dropout 0.4, cutoffs 2000/7000", 2)


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["mian"], "main"),
        (["MAIN"], "Did you mean 'main'?"),
        (["Table 2"], "groc paper main."),
        (["Tables 2 and 9"], "groc paper main."),
        (["figure 3"], "groc paper frequency."),
        (["Table 5"], "groc paper cross-domain."),
        (["Table 6"], "groc paper domains."),
        (["Table 12"], "groc paper fine-tuning."),
        (["Table 99"], "Choose from data, main"),
        (["main", "--run"], "--corpus-root"),
        (["--run"], "which table"),
        (["ablations", "--figure", "x.png"], "frequency"),
        (["main", "training.rate=1"], "--run"),
        (["main", "--seeds", "3"], "--run"),
        (["main", "--run", "--seeds", "0"], "1 or more"),
        (["caches", "--run", "--corpus-root", "."], "groc paper cross-domain --run"),
        (["main", "--corpus-root", "."], "--run"),
        (["main", "--run", "--corpus-root", ".", "--model", "tide"], "choose from lookup, "),
        (["main", "--run", "--corpus-root", ".", "--model", "tied", "--model", "nope"], "no model nope to run: choose"),
        (["main", "--run", "--corpus-root", ".", "--dataset", "penn", "--dataset", "pen"], "no dataset pen to run"),
        (["data", "--run", "--corpus-root", ".", "--model", "tied"], "leave out --model"),
        (["data", "--run", "--corpus-root", ".", "--seeds", "2"], "leave out --seeds"),
        (["data", "--run", "--corpus-root", ".", "training.rate=1"], "leave out key=value"),
        (["domains", "--run", "--corpus-root", ".", "--dataset", "news"], "leave out --dataset"),
        (["domains", "--run", "--corpus-root", ".", "--model", "tied"], "leave out --model"),
        (["held-out", "--run", "--corpus-root", ".", "--dataset", "news"], "leave out --dataset"),
        (["claims", "--run", "--corpus-root", "."], "say groc paper TABLE --run"),
        (["claims", "--figure", "a.png"], "takes --results and --json alone"),
        (["claim"], "Did you mean 'claims'?"),
        (
            ["coverage", "--run", "--corpus-root", ".", "--model", "groc"],
            "from 'groc, at inference', 'groc, retrained'",
        ),
        (["size", "--run", "--corpus-root", ".", "--model", "tie+*"], "no model tie+* to run: choose from "),
        (["main", "--dataset", "pen"], "no dataset pen: choose from penn, wikitext-2."),
        (["data", "--model", "tied"], "no model tied: leave out --model"),
        (["main", "--figure", "x.png", "--model", "tied"], "leave out --dataset and --model"),
        (["main", "--run", "--corpus-root", ".", "--dataset", "wikitext2"], "choose from penn, wikitext-2."),
        (["coverage", "--run", "--corpus-root", ".", "--dataset", "wikitext-2"], "choose from penn."),
        (
            ["main", "--run", "--corpus-root", ".", "training.seed=7"],
            "training.seed is what --seeds says: leave it out.",
        ),
        (
            ["main", "--run", "--corpus-root", ".", "output.kind=tied"],
            "has the output embedding of tied: leave",
        ),
        (
            ["coverage", "--run", "--corpus-root", ".", "forms.coverage=0.5"],
            "forms.coverage is what tables vary: leave",
        ),
        (
            ["ablations", "--run", "--corpus-root", ".", "output.depth=0"],
            "has no output network: leave them out",
        ),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], needed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *arguments, "--results", str(tmp_path)]) == 1
    assert needed in capsys.readouterr().err


NO_PROC = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


@pytest.mark.parametrize(
    ("results", "named"),
    [("file/results", "file"), ("nowhere", "nowhere"), pytest.param("/proc/results", "/proc", marks=NO_PROC)],
)
def test_results_that_cannot_be_written_are_known_before_training(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str], results: str, named: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "results")
    before = snapshot(tmp_path)
    folders = ["--results", str(tmp_path / results), "--corpus-root", str(corpora), "--runs", str(tmp_path / "runs")]
    assert main(["paper", "main", "--run", "--model", "tied", "--dataset", "penn", *folders, *small({})]) == 1
    assert f"{tmp_path / named} is no folder that can be written to" in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_an_empty_text_is_known_before_training(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpora / "penn" / "test.txt").write_text("")
    folders = ["--results", str(tmp_path / "results"), "--corpus-root", str(corpora), "--runs", str(tmp_path / "runs")]
    assert main(["paper", "main", "--run", "--model", "tied", "--dataset", "penn", *folders]) == 1
    assert f"{corpora / 'penn' / 'test.txt'} holds no words" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("penn/groc", {"output.kind": "tied"}, "is called groc, but has the output embedding of tied"),
        ("penn/groc-no-out", {"output.depth": 1}, "is called groc-no-out, but has an output network of depth 1"),
        ("penn/groc-without-both", {"output.depth": 0}, "is called groc-without-both, but has no output network"),
        ("penn/groc", {"forms.without": ["relations"]}, "is called groc, but was trained without relations"),
        (
            "penn/groc-without-relations",
            {"forms.without": ["definitions", "relations"]},
            "is called groc-without-relations, but was trained without relations and definitions",
        ),
        (
            "penn/groc-no-out-without-both",
            {"forms.without": []},
            "is called groc-no-out-without-both, but has relations and definitions",
        ),
    ],
)
def test_a_model_that_is_not_what_it_is_called_is_not_counted(
    name: str, settings: Row, told: str, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder(name, 60.0, 58.0)
    record = json.loads(path.read_text())
    for key, value in settings.items():
        change(record, f"config.{key}", value)
    path.write_text(json.dumps(record))
    assert all(row["runs"] == 0 for table in ("main", "ablations") for row in rows_of(table, tmp_path))
    assert main(["paper", "main", "--results", str(path.parent)]) == 0
    assert f"{path} {told}: it is not counted." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("seed", 9, "but seed must be 1, as config.training.seed says, not 9:"),
        ("seed", "1", 'but seed must be 1, as config.training.seed says, not "1":'),
        ("epochs", 999, "figures.epochs must be at most 60, as config.training.epochs says, not 999:"),
        ("loss", 1.0, ".loss must be 4.0604, the logarithm of its perplexity of 58, not 1.0:"),
    ],
)
def test_a_run_that_contradicts_itself_is_not_counted(
    key: str, value: Any, told: str, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/groc", 60.0, 58.0)
    record = json.loads(path.read_text())
    parts = {"seed": record, "epochs": record["figures"], "loss": next(iter(record["evaluations"].values()))}
    parts[key][key] = value
    path.write_text(json.dumps(record))
    assert row_of("main", tmp_path, dataset="penn", model="groc")["runs"] == 0
    assert main(["paper", "main", "--results", str(path.parent)]) == 0
    assert told in capsys.readouterr().err


def test_the_bench_that_is_lacking_is_named(
    tmp_path: Path, recorder: Recorder, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as it is lacking, with a command that can be pasted."""
    folder = recorder("penn/tied", 90.0, seed=1).parent.rename(tmp_path / "with space")
    run = ["paper", "speed", "--run", "--dataset", "penn", "--model", "tied", "--results", str(folder)]
    run += ["--corpus-root", str(corpora), "--runs", str(tmp_path / "runs"), "training.epochs=1", *small({})]
    assert main(run) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    told, _, bench = said.partition(" come from ")
    assert told == "--run times nothing: the seconds of penn"
    command = shlex.split(bench)
    models = {name for option, name in pairwise(command) if option == "--model"}
    assert {*models, "tied"} == TIMED
    assert command[-1] == str(folder / "bench-penn.json")
    timed = {"date": "2026-01-01", "device": "GPU", "settings": []}
    steps = [{"model": model, "step": 1.0} for model in TIMED]
    (folder / "bench-penn.json").write_text(json.dumps({**timed, "sizes": {"penn": {"models": steps}}}))
    assert main(run) == 0
    assert "groc bench" not in capsys.readouterr().err


def test_rows_that_are_not_compared_word_by_word_are_not_counted(tmp_path: Path, recorder: Recorder) -> None:
    bins = [{"from": 1, "to": 9, "tokens": 1, "loss": 4.0, "median_loss": 4.0}]
    for model in ("groc", "tied"):
        path = recorder(f"penn/{model}", 60.0)
        add_test(path, "/x/penn/test.txt", 58.0, bins=bins)
    results = Results(tmp_path / "results")
    row = next(row for row in rows_of("frequency", tmp_path, dataset="penn", model="tied"))
    assert (row["of"], row["runs"]) == ("median", 1)
    assert count(TABLES["frequency"], results)["run"] == 0


def test_json_that_is_too_deep_to_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    assert main(["paper", "main", "--results", str(tmp_path)]) == 0
    assert f"{path} is no readable JSON" in capsys.readouterr().err


def test_evaluations_that_are_added_at_the_same_time_are_all_kept(recorder: Recorder) -> None:
    pytest.importorskip("fcntl")
    path = recorder("penn/groc", 60.0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_test(path, f"/x/text{number}/test.txt", 90.0), range(40)))
    assert len(json.loads(path.read_text())["evaluations"]) == 40


def change(record: Row, key: str, value: Any) -> None:
    """Set what lies at a dotted key, or take it out (...)."""
    *parts, last = key.split(".")
    for part in parts:
        record = record[part]
    if value is ...:
        record.pop(last, None)
    else:
        record[last] = value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, ...) for key in ("name", "date", "device", "config.corpus", "figures.parameters")),
        ("device", None),
        *(("figures.parameters", value) for value in ("many", True, 10**400)),
        *(("figures.valid_perplexity", value) for value in (..., None, math.nan, math.inf, -1.0, 0, "80")),
        ("figures.steps", "many"),
        ("config.prefix", 3),
        ("config.training.seed", "x"),
        ("config.training.seed", {"first": 1}),
        ("config.training.rate", "fast"),
        ("config.prefix", ...),
        ("config.training.rate", ...),
        ("config.forms.without", "relations"),
        ("config.forms.without", [1]),
        ("curve", None),
        ("curve", [{"epoch": 1}]),
        ("curve", [{"epoch": 1, "valid_perplexity": "low"}]),
        ("evaluations", [1, 2]),
        ("evaluations", {"penn/test": 1}),
    ],
)
def test_a_run_without_what_tables_need_is_named_and_not_counted(
    key: str, value: Any, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/lookup", 91.0, 89.0)
    path = recorder("penn/tied", 90.0, 88.0)
    record = json.loads(path.read_text())
    change(record, key, value)
    path.write_text(json.dumps(record))
    for table in TABLES:
        assert main(["paper", table, "--results", str(path.parent), "--json"]) == 0
        shown = capsys.readouterr()
        said = shown.err.splitlines()[0]
        assert str(path) in said
        assert f"but {key}" in said or f"but lacks {key}" in said
        assert "it is not counted; mend it or take it away" in said
        if table == "main":
            runs = {row["model"]: row["runs"] for row in json.loads(shown.out)["rows"] if row["dataset"] == "penn"}
            assert {model for model, number in runs.items() if number} == {"lookup"}


GRID = [{"lambda": share, "theta": theta, "loss": 1.0, "perplexity": 2.0} for share in (0.8, 0.9) for theta in (0, 1)]
TUNED = {"caches": [{"kind": "local"}], "tuning": {"1 local": GRID}, "tuned_on": "/x/penn/valid.txt"}
HELD_OUT_ROW = {"condition": "x", "loss": {"mean": 1}, "gain": {"mean": 1, "low": 1, "high": 1}, "seen_loss": {}}


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("main", {"perplexity": "abc"}),
        ("main", {"perplexity": -3.0}),
        ("main", {"perplexity": 0.5}),
        ("main", {"coverage": "half"}),
        ("main", {"novelty": "much"}),
        ("main", {"caches": None}),
        ("main", {"caches": [{}]}),
        ("main", {"first": "few"}),
        ("main", {"device": 1}),
        ("frequency", {"bins": ...}),
        ("frequency", {"bins": [{"from": 7, "loss": 1.0}]}),
        ("frequency", {"bins": [{"from": 10, "loss": None}]}),
        ("cross-domain", {"unseen": None}),
        ("cross-domain", {"unseen": {}}),
        ("cross-domain", {"oov_share": None}),
        ("unseen", {"oov_share": 0}),
        ("unseen", {"vocabulary": ...}),
        ("memory", {"new_by_occurrence": [{"from": 0}]}),
        ("held-out", {"vocabulary_kind": "held-out"}),
        ("held-out", {"vocabulary_kind": "held-out", "rows": [HELD_OUT_ROW]}),
        ("caches", {**TUNED, "tuned_on": ...}),
        ("caches", {**TUNED, "caches": []}),
        ("caches", {**TUNED, "caches": [{"kind": "remote"}]}),
        ("caches", {**TUNED, "tuning": {"local": GRID}}),
        ("caches", {**TUNED, "tuning": {"1 local": []}}),
        ("caches", {**TUNED, "tuning": {"1 local": [{**GRID[0], "loss": None}, GRID[1]]}}),
        ("caches", {**TUNED, "tuning": {"1 local": GRID[1:]}}),
    ],
)
def test_a_run_with_a_damaged_evaluation_is_named_and_not_counted(
    table: str, changes: Row, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("news/tied", 90.0, 88.0, corpus="news")
    for name in ("penn/groc", "news/groc"):
        path = recorder(name, 90.0, 88.0, corpus=name.partition("/")[0])
        record = json.loads(path.read_text())
        (evaluation,) = record["evaluations"].values()
        for key, value in changes.items():
            change(evaluation, key, value)
        path.write_text(json.dumps(record))
    figure = ["--figure", str(tmp_path / "a.png")] if table == "caches" else []
    assert main(["paper", table, "--results", str(path.parent), *figure]) == (1 if figure else 0)
    said = capsys.readouterr().err.splitlines()
    if figure:
        assert "nothing to draw" in said.pop()
    assert [line.partition(" ")[0] for line in said] == [str(path.with_name("1.json")), str(path)]
    assert all("evaluations['" in line and "it is not counted" in line for line in said)
    assert [row["model"] for row in rows_of("cross-domain", tmp_path)] == ["tied"]


@pytest.mark.parametrize(
    ("table", "extra", "curve"),
    [
        ("fine-tuning", {}, True),
        ("fine-tuning", {"texts": []}, False),
        ("fine-tuning", {"texts": [{"text": "source valid"}]}, True),
        ("cross-domain", {"texts": [{"text": "target test", "after": {"perplexity": 1.0}}]}, True),
        ("cross-domain", {"texts": [1]}, True),
    ],
)
def test_a_damaged_fine_tuned_run_is_named_and_not_counted(
    table: str, extra: Row, curve: bool, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("news/groc on penn", 9.0, corpus="penn", extra={"adapted_from": "x", **extra})
    if not curve:
        path.write_text(json.dumps({**json.loads(path.read_text()), "curve": []}))
    assert main(["paper", table, "--results", str(path.parent)]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert str(path) in said
    assert "Not run" in TABLES[table].markdown(TABLES[table].rows(Results(path.parent, quiet=True)))


@pytest.mark.parametrize("name", ["run", "fine-tuned", "search", "bench"])
def test_no_damage_is_a_traceback(name: str, recorder: Recorder) -> None:
    """Any value of a record may be another, or be missing: tables are shown all the same."""
    run = recorder("penn/tied", 90.0, 88.0, extra={"valid_tokens": 900, "best_epoch": 3, "epochs": 3})
    add_test(run, "/x/penn/valid.txt", 90.0, **TUNED)
    recorder("penn/tied", 91.0, 89.0, seed=2, extra={"valid_tokens": 900})
    tuned = recorder("news/groc on penn", 9.0, corpus="penn", extra={"adapted_from": "x", "texts": [READ_TEXT]})
    trial = {"state": "done", "changes": {"training.rate": "1"}, "valid_perplexity": 9.0, "parameters": 9}
    search = {"kind": "search", "name": "penn/tied", "space": {"training.rate": ["1"]}, "trials": [trial]}
    sizes = {"penn": {"models": [{"model": "tied", "step": 1.0}]}}
    bench = {"date": "2026-01-01", "device": "GPU", "settings": [], "sizes": sizes}
    paths = {"run": run, "fine-tuned": tuned, **{one: run.with_name(f"{one}.json") for one in ("search", "bench")}}
    paths["search"].write_text(json.dumps({**search, "budget": {"epochs": 5}}))
    paths["bench"].write_text(json.dumps(bench))
    path = paths[name]
    whole = path.read_text()
    others = [..., None, [], {}, "text", -1, math.inf, True]
    for number, (*place, last) in enumerate(places(json.loads(whole))):
        is_setting = place[:1] == ["config"]  # of these there are many, and all are read alike
        for value in [others[number % len(others)]] if is_setting else others:
            record = json.loads(whole)
            part = record
            for key in place:
                part = part[key]
            if value is ...:
                del part[last]
            else:
                part[last] = value
            path.write_text(json.dumps(record))
            try:
                results = Results(path.parent, quiet=True)
                for table in TABLES.values():
                    rows = table.rows(results)
                    table.markdown(table.usual(rows), rows)
                all_claims(results)
                different_budgets(results)
            except Exception as error:
                error.add_note(f"{'.'.join(map(str, [*place, last]))} of the {name} was {value}")
                raise


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (key,)
        for more in places(one):
            yield key, *more


READ_TEXT = {"text": "target test", "new_share": 0.05, "after": {"perplexity": 200.0, "new_words_loss": 8.0}}
TEXT_SIZES = [{"set": "news", "text": "train", "tokens": 9, "words": 3}]
NEW_SHARES = {"test": "wikitext-2", "of_tokens": 0.1, "of_words": 0.2, "with_entry": 0.3}


@pytest.mark.parametrize(
    ("table", "kind", "record"),
    [
        ("hyper-parameters", "search", {"kind": "search", "name": "penn/groc"}),
        ("hyper-parameters", "search", {"kind": "search", "trials": []}),
        ("hyper-parameters", "search", {"kind": "search", "name": "penn/groc", "trials": [], "corpus": {}}),
        ("hyper-parameters", "search", {"kind": "search", "name": "penn/groc", "trials": [], "budget": 3}),
        ("hyper-parameters", "search", {"kind": "search", "name": "penn/groc", "trials": [{"state": "done"}]}),
        (
            "hyper-parameters",
            "search",
            {"kind": "search", "name": "penn/groc", "trials": [{"state": "done", "changes": {}}]},
        ),
        ("hyper-parameters", "search", {"kind": "search", "name": "penn/groc", "trials": [], "space": None}),
        (
            "hyper-parameters",
            "search",
            {
                "kind": "search",
                "name": "penn/tied",
                "trials": [{"state": "done", "changes": {"a": 1}, "parameters": "few"}],
            },
        ),
        ("main", "set of runs", {"kind": "levels", "runs": [1]}),
        ("main", "set of runs", {"kind": "levels", "runs": {"GroC": {"date": "2026-11-16", "config": 3}}}),
        ("data", "corpus", {"kind": "data", "figures": {"tokens": 1}}),
        ("speed", "corpus", {"kind": "data", "name": "data/penn", "figures": {}}),
        ("speed", "corpus", {"kind": "data", "name": "data/penn", "figures": {"tokens": "many"}}),
        ("domains", "corpus", {"kind": "data", "name": "data/cross-domain", "figures": {"tokens": 1}}),
        (
            "domains",
            "corpus",
            {"kind": "data", "name": "data/cross-domain", "figures": {"texts": TEXT_SIZES, "unseen": [NEW_SHARES]}},
        ),
        ("main", "run", {"name": "penn/groc", "figures": {"valid_perplexity": 60.0}}),
        ("main", "run", {"name": "penn/groc", "date": "2026-11-16", "config": {"corpus": "penn"}}),
        ("main", "run", {"date": "2026-11-16", "config": {"corpus": "penn"}, "figures": {"steps": 1}, "curve": []}),
        ("speed", "bench", {"sizes": {"penn": {"models": [{"model": "tied"}]}}}),
        ("speed", "bench", {"sizes": {"penn": {"models": [{"model": "tied", "step": 1.0}]}}, "device": "GPU"}),
        ("speed", "bench", {"sizes": {"penn": 1}, "device": "GPU", "date": "2026-01-01"}),
        ("speed", "bench", {"sizes": [], "device": "GPU", "date": "2026-01-01"}),
    ],
)
def test_other_damaged_records_are_named_and_not_counted(
    table: str, kind: str, record: Row, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/tied", 90.0, 88.0).with_name("damaged.json")
    before = rows_of(table, tmp_path)
    path.write_text(json.dumps(record))
    assert main(["paper", table, "--results", str(path.parent)]) == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert f"{path} is the record of a {kind}, but " in said
    assert rows_of(table, tmp_path) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "penn/gr', "is no readable JSON"),
        ("", "is no readable JSON"),
        *((nothing, "is empty") for nothing in ("{}", "[]", "null")),
        *((other, "is no record: a record is an object, with names and values") for other in ("[1, 2]", '"text"', "7")),
    ],
)
def test_a_file_that_holds_nothing_is_named_and_stops_no_table(
    text: str, why: str, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/tied", 90.0, 88.0).with_name("cut.json")
    before = rows_of("main", tmp_path)
    path.write_text(text)
    assert main(["paper", "main", "--results", str(path.parent)]) == 0
    assert f"{path} {why}: it is not counted" in capsys.readouterr().err
    assert rows_of("main", tmp_path) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["main", "--runs", "mine"], "--seeds, --runs and --corpus-root are for what is run: give --run with them."),
        (["main", "--seeds", "2"], "--seeds, --runs and --corpus-root are for what is run: give --run with them."),
        (["main", "--run", "--corpus-root", ".", "--seeds", "101"], "at most 100."),
        (["main", "--run", "--corpus-root", ".", "--runs", "/proc/no"], "/proc is no folder that can be written to"),
        (["--runs", "mine"], f"Say which table: {', '.join(TABLES)}."),
        (["--figure", "main.png"], f"Say which table: {', '.join(FIGURES)}."),
        (["claims", "--runs", "mine"], "takes --results and --json alone"),
    ],
)
def test_what_would_be_passed_over_is_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *options, "--results", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


def test_a_trial_that_was_given_up_is_no_damaged_run(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/tied", 90.0, 88.0)
    record = json.loads(path.read_text())
    given_up = {**record, "figures": {PRUNED: 2, "valid_perplexity_in_streams": 90.0}, "curve": []}
    path.with_name("pruned.json").write_text(json.dumps(given_up))
    before = rows_of("main", tmp_path)
    assert capsys.readouterr().err == ""
    path.with_name("pruned.json").unlink()
    assert rows_of("main", tmp_path) == before


def test_nothing_is_run_beside_a_damaged_record(
    tmp_path: Path, corpora: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder("penn/tied", 90.0, 88.0)
    path.write_text(path.read_text().replace('"seed": 1', '"seed": "one"'))
    before = snapshot(tmp_path)
    assert main(["paper", "main", "--run", "--results", str(path.parent), "--corpus-root", str(corpora)]) == 1
    assert f"{path} is the record of a run, but config.training.seed must be a whole number" in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_claims_are_shown_with_their_verdicts(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--results", str(recorder("penn/tied", 90.0, 88.0).parent)]
    assert main(["paper", "claims", *where, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    claims = all_claims(Results(tmp_path / "results"))
    assert [(row["claim"], row["verdict"] or "", row["why"]) for row in rows] == [
        (claim.text, claim.verdict, claim.why) for claim in claims
    ]
    assert {row["verdict"] for row in rows} == {"open", None}
    assert main(["paper", "claims", *where]) == 0
    shown = capsys.readouterr().out
    assert f"| {rows[0]['claim']} | **open** | {rows[0]['why']} |" in shown.splitlines()
    assert f"within {AS_GOOD - 1:.0%} of the best on dev" in shown  # how near is too near, and what is shown
    assert main(["paper", *where]) == 0
    assert "| claims " in capsys.readouterr().out


def test_all_tables_are_listed_with_what_was_run(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder("penn/tied", 90.0, 88.0)
    assert main(["paper", "--results", str(tmp_path / "results"), "--json"]) == 0
    listed = {row["table"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert list(listed) == list(TABLES)
    assert (listed["main"]["cells"], listed["main"]["run"]) == (14, 1)
    assert listed["size"]["cells"] == 14
    assert main(["paper", "--results", str(tmp_path / "results")]) == 0
    lines = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    cells = {line[1]: line[2:] for line in lines[2:] if len(line) > 1}
    places = {name: place.partition(", figure")[0] for name, (_, place, *_) in cells.items()}
    assert (places["main"], places["unseen"]) == ("Tables 2 and 9", "not in it")
    assert all(places.values())
    assert [cells[name][2] for name in ("main", "memory")] == ["1 of 14", "0"]  # what was run, where there is no whole
    assert main(["paper", "--results", str(tmp_path / "nowhere")]) == 0
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_as_it_says(
    name: str, tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    for model in ("tied", "groc"):
        bins = [{"from": 1, "to": 9, "tokens": 1, "loss": 4.0, "median_loss": 4.0}]
        path = recorder(f"penn/{model}", 90.0)
        add_test(path, "/x/penn/test.txt", 80.0, bins=bins)
    add_test(path, "/x/penn/test.txt", 7.0, **TUNED)
    recorder("news/groc", 90.0, 80.0, corpus="news")
    recorder("news/groc on penn", 9.0, corpus="penn", extra={"adapted_from": "x", "texts": []})
    assert main(["paper", name]) == 0
    _, told, command = capsys.readouterr().out.splitlines()[-1].rpartition("As a figure: groc ")
    assert told
    assert main(shlex.split(command)) == 0
    assert "As a figure" not in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", FIGURES)
def test_where_nothing_was_run_nothing_is_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    where = ["--results", str(tmp_path)]
    assert main(["paper", name, *where, "--figure", str(tmp_path / "a.png")]) == 1
    assert "There is nothing to draw" in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()
    assert main(["paper", name, *where]) == 0
    assert "As a figure" not in capsys.readouterr().out


# --- running ------------------------------------------------------------------------------------------------------


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora" / "penn"
    folder.mkdir(parents=True)
    for seed, (split, lines) in enumerate({"train": 40, "valid": 10, "test": 10}.items()):
        (folder / f"{split}.txt").write_text(" ".join(WORDS) + "\n" + sentences(lines, WORDS, seed), encoding="utf-8")
    return folder.parent


def small(changes: Mapping[str, Any]) -> list[str]:
    """The settings of a tiny model, but for what the rows of the tables differ in."""
    left_out = ("name", "output.kind", "output.depth", "output.dropout")
    return as_pairs({k: v for k, v in {**tiny_settings(), **changes}.items() if k not in left_out})


def test_what_is_missing_is_trained_once(
    tmp_path: Path, corpora: Path, glossary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    settings = small({"forms.lexicon": str(glossary_file), "training.epochs": 1})
    chosen = ["--dataset", "penn", "--model", "tied", "--model", "groc", "--seeds", "2"]
    assert main(["paper", "main", "--run", *chosen, *folders, *settings]) == 0
    for model in ("tied", "groc"):
        row = row_of("main", tmp_path, dataset="penn", model=model)
        assert (row["runs"], row["seeds"]) == (2, [1, 2])
        assert 1 < row["test"] < 100
    before = snapshot(tmp_path)
    assert "nothing to run" not in capsys.readouterr().err
    assert main(["paper", "main", "--run", *chosen, *folders, *settings]) == 0
    assert "there is nothing to run" in capsys.readouterr().err
    assert snapshot(tmp_path) == before

    # The same runs serve other tables: here a record gains what it lacks, and nothing is trained again.
    inference = ["--model", "groc, at inference"]
    assert main(["paper", "coverage", "--run", *inference, *folders, *settings]) == 0
    weights = {name: digest for name, digest in snapshot(tmp_path).items() if name.endswith(checkpoint.WEIGHTS)}
    assert weights.items() <= before.items()
    rows = rows_of("coverage", tmp_path, model="groc, at inference")
    assert [row["runs"] for row in rows] == [1, 1, 1, 1, 1, 1]
    assert rows[0]["test"] != pytest.approx(row["test"], abs=1e-9)

    # A trained run that was not recorded (or whose record was lost) is not trained again either.
    (record,) = (tmp_path / "results").glob("penn-tied-*-seed1.json")
    text = record.read_text()
    record.unlink()
    capsys.readouterr()
    assert main(["paper", "main", "--run", *chosen, *folders, *settings]) == 0
    assert "epoch" not in capsys.readouterr().err
    assert record.read_text() == text


def test_what_cannot_be_read_any_more_is_named(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record without figures of the test text, of a run whose weights are gone."""
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    command = ["paper", "main", "--run", "--dataset", "penn", "--model", "tied", "--seeds", "2", *folders]
    command += small({"training.epochs": 1})
    assert main(command) == 0
    for seed, told in ((1, "The table has those of seed 2."), (2, "Give --results and --runs folders of their own")):
        (path,) = (tmp_path / "results").glob(f"*-seed{seed}.json")
        (folder,) = (tmp_path / "runs").glob(f"*-seed{seed}")
        path.write_text(json.dumps({**json.loads(path.read_text()), "evaluations": {}}))
        (folder / checkpoint.WEIGHTS).unlink()
        capsys.readouterr()
        assert main(command) == 0
        said = capsys.readouterr().err
        assert f"{path} has no figures of the test text, and there are no weights of it in {folder}. {told}" in said


ANOTHER_CORPUS = "tokens of training, but the penn of these results 929,589"


def test_a_row_that_diverges_stops_no_other_and_is_named_in_the_end(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    # The rate of what composes words: the first row has that, and the second nothing of it.
    settings = small({"training.encoder_rate": 1e37, "training.epochs": 1, "training.clip": 0.0})
    chosen = ["--dataset", "penn", "--model", "convolutional", "--model", "tied"]
    assert main(["paper", "main", "--run", *chosen, *folders, *settings]) == 1
    told = capsys.readouterr().err
    assert re.search(r"penn-convolutional-\w+-seed1 is left out: Training diverged", told)
    assert re.search(r"These diverged, and fill no cell: penn-convolutional-\w+-seed1\.$", told.strip())
    for model, runs in (("convolutional", 0), ("tied", 1)):
        assert row_of("main", tmp_path, dataset="penn", model=model)["runs"] == runs


@pytest.mark.parametrize("lacks", ["corpora/wikitext-2", "corpora/penn has no file with a test text", ANOTHER_CORPUS])
def test_a_text_that_is_not_there_is_known_before_training(
    lacks: str, tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    if lacks == ANOTHER_CORPUS:
        (tmp_path / "results").mkdir()
        measured = {"kind": "data", "name": "data/penn", "figures": {"tokens": 929_589}}
        (tmp_path / "results" / "data.json").write_text(json.dumps(measured))
    elif "penn" in lacks:
        (corpora / "penn" / "test.txt").unlink()
    assert main(["paper", "main", "--run", "--model", "tied", *folders, *small({"training.epochs": 1})]) == 1
    assert lacks in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("slow", [True, False])
def test_what_will_be_trained_is_said_before_it_is(
    slow: bool, tmp_path: Path, corpora: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    settings = small({"training.epochs": 2, "compute.device": "cpu"})
    command = ["paper", "main", "--run", "--dataset", "penn", "--model", "tied", *folders]
    assert main([*command, *settings]) == 0
    tokens = len(Corpus(corpora / "penn").text("train"))
    monkeypatch.setattr(announcing, "HOUR", 5 * tokens if slow else 6 * tokens)
    capsys.readouterr()
    assert main([*command, "--model", "lookup", "--seeds", "2", *settings]) == 0
    said = capsys.readouterr().err.splitlines()
    trained = [path.name for path in sorted((tmp_path / "runs").iterdir())]
    (tied,) = [name for name in trained if "tied" in name and name.endswith("seed2")]
    lookups = [name for name in trained if "lookup" in name]
    planned = [lookups[0], lookups[1], tied]
    assert said[0] == f"To be trained in {tmp_path / 'runs'} (Ctrl-C loses nothing: the same command goes on):"
    assert said[1:4] == [f"  {name}: penn, 2 epochs" for name in planned]
    assert said[4].startswith("There is no GPU in use") == slow
    if slow:
        assert f"reads {6 * tokens:,} tokens in all: this takes hours" in said[4]
    assert main([*command, "--model", "lookup", "--seeds", "2", *settings]) == 0
    assert "To be trained" not in capsys.readouterr().err


@pytest.mark.parametrize("table", ["main", "data", "domains", "cross-domain", "held-out"])
def test_who_gives_a_corpus_as_the_folder_of_corpora_is_told_to_go_up(
    table: str, tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    assert main(["paper", table, "--run", "--corpus-root", str(corpora / "penn"), *folders]) == 1
    assert "give as --corpus-root the folder above the corpora" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_of_a_damaged_state_is_said_what_to_delete(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    command = ["paper", "main", "--run", "--dataset", "penn", "--model", "tied", *folders]
    command += small({"training.epochs": 1})
    assert main(command) == 0
    (run,) = (tmp_path / "runs").iterdir()
    (run / "result.json").unlink()
    shutil.rmtree(tmp_path / "results")
    (run / checkpoint.STATE).write_bytes(b"damaged")
    assert main(command) == 1
    assert f"copy it again, or delete {run} and start the run anew." in capsys.readouterr().err
    shutil.rmtree(run)
    assert main(command) == 0


def test_whoever_stops_it_at_the_end_of_a_run_stops_it_altogether(
    tmp_path: Path, corpora: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    chosen = ["--dataset", "penn", "--model", "tied", "--model", "lookup"]
    command = ["paper", "main", "--run", *chosen, *folders, *small({"training.epochs": 1})]
    with monkeypatch.context() as patch:
        signal_while_the_last_valid_text_is_read(patch, signal.SIGTERM)
        assert main(command) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.splitlines()[-1].startswith("Stopped. Go on with the same command")
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert main(command) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_after_a_full_disk_it_is_run_again_as_it_says(
    tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is room for the start of a run, but not for its state."""
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    chosen = ["--dataset", "penn", "--model", "tied"]
    command = ["paper", "main", "--run", *chosen, *folders, *small({"training.epochs": 1})]
    with no_room_beyond(10_000):
        assert main(command) == 1
    assert "state.safetensors: free some space and run again" in capsys.readouterr().err
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / checkpoint.CONFIG).is_file()
    assert main(command) == 0
    assert row_of("main", tmp_path, dataset="penn", model="tied")["runs"] == 1


def test_dynamic_evaluation_is_run_too(tmp_path: Path, corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    model = "tied, best recipe, dynamic evaluation"
    chosen = ["--dataset", "penn", "--model", model]
    assert main(["paper", "size", "--run", "--json", *chosen, *folders, *small({"training.epochs": 1})]) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)["rows"] if row["dataset"] == "penn"}
    learning, alone = rows[model], rows["tied, best recipe"]
    assert learning["runs"] == alone["runs"] == 1
    assert learning["test"] not in (None, alone["test"])


def test_rivals_are_compared_with_groc_once(
    tmp_path: Path, corpora: Path, glossary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    settings = small({"forms.lexicon": str(glossary_file), "training.epochs": 1})
    chosen = ["--dataset", "penn", "--model", "tied", "--model", "lookup"]

    def run(*options: str) -> str:
        """The table is its output, and what is said beside it comes back."""
        capsys.readouterr()
        assert main(["paper", "frequency", "--run", "--json", *options, *chosen, *folders, *settings]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["rows"] == rows_of("frequency", tmp_path)
        return shown.err

    run("--seeds", "2")
    for model in ("tied", "lookup"):
        row = row_of("frequency", tmp_path, dataset="penn", model=model)
        assert (row["of"], row["seeds"]) == ("paired", [1, 2])
    for seed in (1, 2):  # each with the rivals of its own seed
        (record,) = (tmp_path / "results").glob(f"penn-groc-*-seed{seed}.json")
        pairs = json.loads(record.read_text())["paired"]
        assert {(pair["against"], pair["seed"]) for pair in pairs.values()} == {
            ("penn/tied", seed),
            ("penn/lookup", seed),
        }
        assert (tmp_path / "runs" / record.stem / "result.json").read_text() == record.read_text()
    done = snapshot(tmp_path)
    run("--seeds", "2")
    assert snapshot(tmp_path) == done

    # A comparison that was made but not published is not made again.
    (record,) = (tmp_path / "results").glob("penn-groc-*-seed1.json")
    whole = json.loads(record.read_text())
    record.write_text(json.dumps({key: value for key, value in whole.items() if key != "paired"}))
    assert "mean difference" not in run()
    assert snapshot(tmp_path) == done

    # Where the weights of a run are gone, or of another training, the others are compared all the same.
    folder = tmp_path / "runs" / record.stem
    for path in (record, folder / "result.json"):
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != "paired"}))
    (lookup,) = (tmp_path / "runs").glob("penn-lookup-*-seed1")
    weights, trained = (lookup / checkpoint.WEIGHTS).read_bytes(), json.loads((lookup / "result.json").read_text())
    (lookup / checkpoint.WEIGHTS).unlink()
    for _ in range(2):
        (said,) = [line for line in run().splitlines() if "weights" in line]
        assert said == (
            f"{folder.name} is recorded without a comparison with {lookup.name}, "
            f"and the weights of the recorded run are not in {lookup}. "
            "Give --results and --runs folders of their own to train anew."
        )
        assert [pair["against"] for pair in json.loads(record.read_text())["paired"].values()] == ["penn/tied"]
        (lookup / checkpoint.WEIGHTS).write_bytes(weights)
        trained["figures"]["valid_perplexity"] += 1
        (lookup / "result.json").write_text(json.dumps(trained))


def test_what_a_recorded_training_lacks_is_added_to_its_record(tmp_path: Path, corpora: Path) -> None:
    """Whatever its file is called: a second one would hide what the first has alone."""
    folders = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--corpus-root", str(corpora)]
    command = ["paper", "main", "--run", "--dataset", "penn", "--model", "tied", *folders]
    command += small({"training.epochs": 1})
    assert main(command) == 0
    (path,) = (tmp_path / "results").glob("*.json")
    (run,) = (tmp_path / "runs").iterdir()
    whole = json.loads(path.read_text())
    (test,) = whole["evaluations"]
    other = {"penn/test, union vocabulary, coverage 0.2": {**whole["evaluations"][test], "coverage": 0.2}}
    pairs = {"a": {"against": "penn/groc", "seed": 1, "valid_perplexity": 9.0, "tokens": 1, "mean": 0.1}}
    pairs["a"] |= {"low": 0.0, "high": 0.2, "bins": []}
    moved = tmp_path / "results" / "penn" / "tied-a.json"
    moved.parent.mkdir()
    moved.write_text(json.dumps({**whole, "evaluations": other, "paired": pairs}))
    path.unlink()
    (run / "result.json").write_text(json.dumps({**whole, "evaluations": {}}))
    assert main(command) == 0
    assert list((tmp_path / "results").rglob("*.json")) == [moved]
    record = json.loads(moved.read_text())
    assert list(record["evaluations"]) == [*other, test]
    assert (record["paired"], record["curve"]) == (pairs, whole["curve"])
    assert row_of("main", tmp_path, dataset="penn", model="tied")["test"] == whole["evaluations"][test]["perplexity"]

    # Another training with the same settings is another run.
    whole["figures"]["valid_perplexity"] += 1
    (run / "result.json").write_text(json.dumps(whole))
    moved.write_text(json.dumps({**record, "evaluations": other}))
    assert main(command) == 0
    assert json.loads(moved.read_text())["evaluations"] == other
    assert json.loads(path.read_text())["figures"] == whole["figures"]


@pytest.mark.parametrize(
    ("recorded", "in_folder", "kept"),
    [
        ("2026-02-01", "2026-01-01", "recorded"),
        ("2026-01-01", "2026-02-01", "in_folder"),
        ("2026-01-01", "2026-01-01", "in_folder"),
        (None, "2026-02-01", "in_folder"),  # of the day of its record, 2026-01-15
        (None, "2026-01-01", "recorded"),
    ],
)
def test_of_two_evaluations_of_a_kind_the_later_one_is_published(
    tmp_path: Path, recorder: Recorder, recorded: str | None, in_folder: str, kept: str
) -> None:
    record = {**json.loads(recorder("penn/tied", 90.0).read_text()), "date": "2026-01-15"}
    folders = {"recorded": tmp_path / "results" / "0.json", "in_folder": tmp_path / "runs" / "tied" / "result.json"}
    folders["in_folder"].parent.mkdir(parents=True)
    for (place, path), day, test in zip(folders.items(), (recorded, in_folder), (88.0, 99.0), strict=True):
        path.write_text(json.dumps(record))
        add_test(path, "/x/penn/test.txt", test)
        (figures,) = (whole := json.loads(path.read_text()))["evaluations"].values()
        del figures["date"]
        figures.update(place=place, **({"date": day} if day else {}))
        path.write_text(json.dumps(whole))
    Place(tmp_path / "results", tmp_path, tmp_path / "runs").publish(folders["in_folder"].parent)
    (figures,) = json.loads(folders["recorded"].read_text())["evaluations"].values()
    assert figures["place"] == kept
    assert list((tmp_path / "results").iterdir()) == [folders["recorded"]]


def test_coverage_at_inference_is_that_of_a_model_without_entries(
    tmp_path: Path, corpora: Path, glossary_file: Path
) -> None:
    out = tmp_path / "run"
    settings = small({"forms.lexicon": str(glossary_file)})
    assert main(["train", "penn", "--corpus", str(corpora / "penn"), "--out", str(out), *settings]) == 0
    for share in ("0", "0.5"):
        evaluate(out, corpora / "penn", (f"coverage {share}",))
    found = json.loads((out / "result.json").read_text())["evaluations"]
    model, text = checkpoint.load(out).model, Corpus(corpora / "penn").text("test")
    model.compiler = replace(model.compiler, lexicon=Empty())
    model.set_vocabulary(model.trained)
    naive = summarise(score(model, text.ids(model.vocabulary)))
    assert found["penn/test, union vocabulary, coverage 0"]["perplexity"] == pytest.approx(naive["perplexity"])
    assert len({figures["perplexity"] for figures in found.values()}) == 2


def test_corpora_are_measured(tmp_path: Path, corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mini_wordnet

    monkeypatch.setenv("GROC_WORDNET", str(mini_wordnet.build(tmp_path / "wordnet")))
    where = ["--results", str(tmp_path / "results"), "--corpus-root", str(corpora), "--dataset", "penn"]
    assert main(["paper", "data", "--run", *where]) == 0
    row = row_of("data", tmp_path, dataset="penn")
    assert row["vocabulary"] == len(WORDS) + 1
    assert row["tokens"] == len(Corpus(corpora / "penn").text("train"))
    assert 0 < row["definitions"] <= 100
    assert row_of("data", tmp_path, dataset="wikitext-2")["runs"] == 0

    # What is recorded stays, whatever lies under that name now.
    done = snapshot(tmp_path / "results")
    (corpora / "penn" / "train.txt").write_text("another text\n")
    assert main(["paper", "data", "--run", *where]) == 0
    assert snapshot(tmp_path / "results") == done


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_of_results_is_that_of_the_records() -> None:
    module = runpy.run_path(str(DOCS / "results.py"))
    page = module["page"](Results(module["RECORDS"]))
    assert (DOCS / "results.md").read_text(encoding="utf-8") == page, "run python docs/results.py"


def test_claims_hold_only_when_every_comparison_was_made(tmp_path: Path, recorder: Recorder) -> None:
    def verdict() -> str:
        claim = closed_claims(Results(tmp_path / "results"))[0]
        return f"{claim.verdict} ({claim.why})"

    recorder("penn/groc", 70.0, 70.0)
    assert "open" in verdict()
    for model in published.MODELS[:-1]:
        recorder(f"penn/{model}", 80.0, 80.0)
    assert f"with one seed only: {', '.join(published.MODELS[:-1])}" in verdict()
    recorder("penn/groc", 70.4, 70.4, seed=2)
    assert "holds" in verdict()
    recorder("penn/tied", 70.5, 70.5)
    assert "open" in verdict()
    recorder("penn/tied", 60.0, 60.0, training__rate=0.01)
    assert "does not hold" in verdict()
    recorder("penn/tied", 50.0, 50.0, training__average=0.5)
    assert "does not hold" in verdict()
    recorder("penn/groc", 30.0, 30.0, training__epochs=99)
    recorder("penn/groc", 30.1, 30.1, training__epochs=99, seed=2)
    assert f"(trained otherwise: {', '.join(published.MODELS[:-1])}; groc 30.1" in verdict()
    assert text_name("/x/penn/test.txt.xz") == "penn/test"
