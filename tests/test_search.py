"""A search is a series of runs that can be stopped anywhere, sees no test text, and spends what it was given."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import (
    STANDSTILL,
    as_pairs,
    no_room_beyond,
    signal_while_the_last_valid_text_is_read,
    tiny_config,
    tiny_settings,
)

import groc.resuming
import groc.search
from groc.checkpoint import METRICS, STATE
from groc.cli import main
from groc.commands.search import published, with_own_values
from groc.config import Config
from groc.divergence import Diverged
from groc.errors import GrocError
from groc.paper import TABLES, Results
from groc.proposals import Outcome, Range, Space, ask_optuna, distinct, grid, has, idle, parse_space
from groc.recipe import load_recipe
from groc.search import FEWEST, LOCK, RECORD, Curve, Search, Trial, Watch, read_curve
from groc.signals import Interrupted
from groc.training import Trainer

RATES: Space = {"training.rate": ["0.02", "0.01"]}
TWO: Space = {"training.rate": Range(1e-3, 1e-1, False), "output.dropout": ["0.0", "0.2"]}


@pytest.fixture
def untested(corpus_folder: Path, tmp_path: Path) -> Path:
    """A corpus without a test text: nothing may ask for it."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "valid"):
        shutil.copy(corpus_folder / f"{split}.txt", folder)
    return folder


def made(corpus: Path, folder: Path, space: Space = RATES, budget: int = 20, **options: Any) -> Search:
    changes = {"corpus": str(corpus), "training.epochs": options.pop("epochs", 2)}
    return Search(tiny_config(options.pop("kind", "tied"), changes=changes), space, folder, budget, **options)


# --- what is searched ---------------------------------------------------------------------------------------------


def test_lists_and_ranges_are_told_from_what_is_fixed() -> None:
    fixed, space = parse_space(
        [
            "training.rate=1e-4..1e-2",
            "prefix.hidden=100..200",
            "output.dropout=0,0.5",
            "output.cutoffs=2000,7000:1000,5000",
            "output.kind=tied,bilinear",
            "surface.filters=4,6,8",
            "training.epochs=3",
            "forms.lexicon=../words.tsv",
        ]
    )
    assert fixed == ["surface.filters=4,6,8", "training.epochs=3", "forms.lexicon=../words.tsv"]
    assert space == {
        "training.rate": Range(1e-4, 1e-2, False),
        "prefix.hidden": Range(100, 200, True),
        "output.dropout": ["0", "0.5"],
        "output.cutoffs": ["2000,7000", "1000,5000"],
        "output.kind": ["tied", "bilinear"],
    }
    assert [space[key].log for key in ("training.rate", "prefix.hidden")] == [True, False]  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", ["training.rate=a..b", "training.rate=0.5..0.1", "training.epochs=1.5..3"])
def test_a_range_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(GrocError, match="is no range"):
        parse_space([wrong])


def test_a_setting_is_given_once() -> None:
    with pytest.raises(GrocError, match=r"training\.rate is given twice"):
        parse_space(["training.rate=1e-3,2e-3", "training.rate=3e-3"])


def test_a_grid_has_every_combination_once() -> None:
    combinations = grid({"a": ["1", "2"], "b": ["x", "y", "z"]})
    assert combinations[:2] == [{"a": "1", "b": "x"}, {"a": "1", "b": "y"}]
    assert len({tuple(one.items()) for one in combinations}) == 6


def test_the_papers_ranges_hold_the_papers_choices() -> None:
    _, space = parse_space(published("adaptive", 10_000))
    assert "2000,7000" in space["output.cutoffs"]  # type: ignore[operator]
    assert len(grid(space)) == 60
    for kind in ("lookup", "convolutional", "tied", "bilinear", "deep-residual", "groc"):
        assert grid(parse_space(published(kind, 10_000))[1])


@pytest.mark.parametrize(
    ("variant", "key", "own"),
    [("adaptive", "output.cutoffs", "6000,21000"), ("convolutional", "output.correction", "182")],
)
def test_the_recipes_own_values_are_added_to_the_papers(variant: str, key: str, own: str) -> None:
    config = load_recipe("wikitext2", variant)
    papers = parse_space(published(variant, 33_278))[1]
    added = with_own_values(config, papers)
    assert added == {**papers, key: [*papers[key], own]}  # type: ignore[misc]
    assert with_own_values(config, added) == added


def test_a_grid_has_no_combinations_that_make_the_same_model() -> None:
    space: Space = {"output.depth": ["1", "0", "00"], "output.activation": ["tanh", "relu"]}
    assert [*distinct(tiny_config(), space).values()] == [
        {"output.depth": "1", "output.activation": "tanh"},
        {"output.depth": "1", "output.activation": "relu"},
        {"output.depth": "0", "output.activation": "tanh"},
    ]
    kinds: Space = {"output.kind": ["tied", "groc"], "output.bias": ["none", "relu"], "training.rate": ["1", "2"]}
    assert len(distinct(tiny_config(), kinds)) == 2 + 4
    papers = parse_space(published("groc", 10_000))[1]
    assert len(distinct(load_recipe("penn", "groc"), papers)) == 10 * (1 + 4 * 3)


@pytest.mark.parametrize(
    ("kind", "changes", "space", "found"),
    [
        ("tied", {}, {"output.depth": Range(0, 3, True)}, ["output.depth"]),
        ("tied", {}, {"output.bias_dropout": ["0", "0.1"], "output.dropout": ["0", "0.1"]}, ["output.bias_dropout"]),
        ("groc", {}, {"output.activation": ["relu", "tanh"], "output.depth": Range(0, 3, True)}, []),
        ("groc", {"output.depth": 0}, {"output.activation": ["relu", "tanh"]}, ["output.activation"]),
        ("tied", {}, {"surface.rank": ["2", "3"], "output.kind": ["tied", "groc"]}, []),
        ("groc", {}, {"surface.longest": ["9", "8"], "surface.longest_ngram": ["4", "5"]}, ["surface.longest"]),
        ("tied", {}, {"output.mixture_dropout": ["0", "0.1"]}, ["output.mixture_dropout"]),
        ("tied", {}, {"prefix.gate_rank": ["4", "8"]}, ["prefix.gate_rank"]),
        ("tied", {"training.schedule": "cosine"}, {"training.patience": ["1", "2"]}, ["training.patience"]),
        ("tied", {"training.schedule": "plateau"}, {"training.final_rate": ["0", "1"]}, ["training.final_rate"]),
    ],
)
def test_what_makes_no_difference_is_known(kind: str, changes: dict[str, Any], space: Space, found: list[str]) -> None:
    assert idle(tiny_config(kind, changes=changes), space) == found


def test_without_optuna_no_trial_is_begun(untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(GrocError, match=r"pip install .*\[search\]"):
        made(untested, tmp_path / "search", {"training.rate": Range(1e-3, 1e-1, False)}, 2, method="tpe")
    assert not (tmp_path / "search").exists()


def test_optuna_proposes_the_same_after_the_same_trials() -> None:
    outcomes: list[Outcome] = []
    for number in range(12):
        changes = ask_optuna(TWO, outcomes, number - 5)  # any number is a seed
        assert changes == ask_optuna(TWO, outcomes, number - 5)
        assert 1e-3 <= changes["training.rate"] <= 1e-1
        assert float(f"{changes['training.rate']:.4g}") == changes["training.rate"]
        value = None if number in (3, 4) else abs(changes["training.rate"] - 0.01)
        outcomes.append(Outcome(changes, value, {1: 100.0} if number == 3 else {}))
    assert len({outcome.changes["training.rate"] for outcome in outcomes}) == 12


# --- trials -------------------------------------------------------------------------------------------------------


def test_every_trial_is_a_run_and_the_best_on_valid_is_chosen(untested: Path, tmp_path: Path) -> None:
    search = made(untested, tmp_path / "out")
    search.run()
    assert [trial.changes["training.rate"] for trial in search.trials] == ["0.02", "0.01"]
    for trial in search.trials:
        record = json.loads((search.path(trial) / "result.json").read_text())
        assert record["figures"]["valid_perplexity"] == trial.valid_perplexity
        assert (trial.state, trial.epochs) == ("done", 2)
        assert not (search.path(trial) / STATE).exists()
    best = search.best
    assert best is not None
    assert best.valid_perplexity == min(trial.valid_perplexity or 0 for trial in search.trials)


def test_a_search_that_is_over_trains_no_more(untested: Path, tmp_path: Path) -> None:
    made(untested, tmp_path / "out").run()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    made(untested, tmp_path / "out").run()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


class Killed(Search):
    """Killed hard in the second epoch of its second trial, between two saves."""

    def is_hopeless(self, curve: Curve) -> bool:
        if len(self.trials) == 2:
            raise KeyboardInterrupt
        return super().is_hopeless(curve)


@pytest.mark.parametrize(("method", "space"), [("grid", RATES), ("tpe", TWO)])
def test_a_search_that_was_killed_ends_as_if_it_had_not_been(
    method: str, space: Space, untested: Path, tmp_path: Path
) -> None:
    whole, cut = (made(untested, tmp_path / name, space, 3, method=method) for name in ("whole", "cut"))
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        Killed(cut.config, cut.space, cut.folder, cut.budget, cut.method).run()
    assert json.loads((cut.folder / RECORD).read_text())["trials"][-1]["state"] == "running"
    again = made(untested, tmp_path / "cut", space, 3, method=method)
    again.run()
    assert [without_time(trial) for trial in again.trials] == [without_time(trial) for trial in whole.trials]


def without_time(trial: Trial) -> dict[str, Any]:
    return {key: value for key, value in vars(trial).items() if key != "seconds"}


def test_a_trial_killed_before_its_first_save_is_begun_anew(untested: Path, tmp_path: Path) -> None:
    search = made(untested, tmp_path / "out")
    search.trials.append(Trial(0, {"training.rate": "0.02"}))
    search.save()
    (tmp_path / "out" / "trial-000").mkdir()
    for name in ("run.lock", "vocabulary.tsv", ".config.json.17.tmp"):
        (tmp_path / "out" / "trial-000" / name).touch()
    again = made(untested, tmp_path / "out")
    again.run()
    assert [trial.state for trial in again.trials] == ["done", "done"]


def test_a_hopeless_trial_is_given_up_and_counts(untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.rate": ["0.02", "0.03", "0.04", "0.05", str(STANDSTILL)]}
    search = made(untested, tmp_path / "out", space, epochs=4)
    search.run()
    assert [trial.state for trial in search.trials] == ["done"] * FEWEST + ["pruned"]
    given_up = search.trials[-1]
    assert given_up.epochs == 1
    record = json.loads((search.path(given_up) / "result.json").read_text())
    assert len(record["curve"]) == 1
    assert len(Results(tmp_path / "out").runs) == FEWEST  # what was given up is not taken for a run
    kept = made(untested, tmp_path / "kept", space, epochs=4, prunes=False)
    kept.run()
    assert kept.trials[-1].state == "done"


def test_a_trial_that_lost_its_curve_has_its_epochs_all_the_same(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped behind its first epoch, and the curve deleted: another search would call the second the first."""
    search = made(untested, tmp_path / "out", epochs=3)
    step = Trainer.step

    def stopping(trainer: Trainer) -> None:
        step(trainer)
        if trainer.position.epoch == 1 and not trainer.signals.told:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", stopping)
        with pytest.raises(Interrupted):
            search.run()
    (search.path(search.trials[0]) / METRICS).unlink()
    seen: list[list[int]] = []

    class Noting(Search):
        def is_hopeless(self, curve: Curve) -> bool:
            seen.append([*curve])
            return len(self.trials) == 1 and 2 in curve  # given up behind the second

    again = Noting(search.config, search.space, search.folder, search.budget)
    again.run()
    assert seen[0] == [2]
    assert [(trial.state, trial.epochs) for trial in again.trials] == [("pruned", 2), ("done", 3)]
    record = json.loads((again.path(again.trials[0]) / "result.json").read_text())
    assert record["figures"]["pruned_after_epochs"] == 2


@pytest.mark.parametrize(
    ("curve", "epochs", "hopeless"),
    [
        ({1: 9.0}, 4, False),  # between the best and the worst of the finished ones
        ({1: 11.0}, 4, True),
        ({1: 10.05}, 4, False),  # half are better, but by chance perhaps
        ({1: 11.0}, 40, False),  # too early to say
        ({1: 11.0, 2: 5.0}, 8, False),  # its best epoch counts
        ({1: 11.0, 2: 9.5}, 8, True),
        ({2: 9.5}, 8, True),  # what was before was lost
    ],
)
def test_when_a_curve_is_hopeless(curve: Curve, epochs: int, hopeless: bool, untested: Path, tmp_path: Path) -> None:
    search = made(untested, tmp_path / "out", epochs=epochs)
    for number, values in enumerate(([8.0, 7.0], [9.0, 8.0], [11.0, 9.0], [12.0, 10.0])):
        assert not search.is_hopeless(curve)  # as long as there are too few
        search.trials.append(Trial(number, {}, "done", values[-1]))
        path = search.path(search.trials[-1])
        path.mkdir(parents=True)
        rows = [{"epoch": epoch, "valid_perplexity": value} for epoch, value in enumerate(values, 1)]
        (path / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert search.is_hopeless(curve) is hopeless


def test_a_trial_that_is_too_large_for_the_gpu_fails_and_the_search_goes_on(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = groc.search.train

    def with_little_memory(config: Config, *arguments: Any, **more: Any) -> dict[str, Any]:
        if config.prefix.hidden > 9:
            raise torch.OutOfMemoryError("CUDA out of memory.")  # as a GPU says it, before the first step or behind
        return train(config, *arguments, **more)

    monkeypatch.setattr("groc.search.train", with_little_memory)
    search = made(untested, tmp_path / "out", {"prefix.hidden": ["10", "8"]})
    search.run()
    assert [trial.state for trial in search.trials] == ["failed", "done"]
    assert [trial.device for trial in search.trials] == ["CPU, float32"] * 2


def test_a_trial_that_diverges_fails_and_the_search_goes_on(untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.rate": ["1e37", "0.01"]}
    search = made(untested, tmp_path / "out", space)
    search.run()
    assert [trial.state for trial in search.trials] == ["failed", "done"]
    assert search.best is search.trials[1]


def test_a_trial_that_diverges_says_what_it_had_reached(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = groc.search.train

    def diverging(config: Config, folder: Path, **more: Any) -> dict[str, Any]:
        train(config, folder, **more)
        raise Diverged("in the end")

    monkeypatch.setattr("groc.search.train", diverging)
    search = made(untested, tmp_path / "out", {"training.rate": ["0.01"]})
    search.run()
    (trial,) = search.trials
    assert (trial.state, trial.valid_perplexity) == ("failed", min(read_curve(search.path(trial)).values()))
    assert search.best is None


@pytest.mark.parametrize(
    ("room", "left"),
    [(1_000, []), (10_000, []), (30_000, ["running"])],  # not for the record, for a trial's start, for what it learned
)
def test_a_full_disk_stops_the_search_and_no_trial_fails(
    untested: Path, tmp_path: Path, room: int, left: list[str]
) -> None:
    whole, search = (made(untested, tmp_path / name) for name in ("whole", "out"))
    whole.run()
    message = r"No room on the disk .*free some space and run again"
    with no_room_beyond(room), pytest.raises(GrocError, match=message):
        search.run()
    again = made(untested, tmp_path / "out")
    assert [trial.state for trial in again.trials] == left
    again.run()
    assert [without_time(trial) for trial in again.trials] == [without_time(trial) for trial in whole.trials]


def test_a_sample_that_is_none_is_refused_before_anything_is_trained(untested: Path, tmp_path: Path) -> None:
    with pytest.raises(GrocError, match="is no sample of"):
        made(untested, tmp_path / "out", {"training.sample": ["2", "100000"]})
    assert not (tmp_path / "out").exists()


def test_a_trial_that_cannot_go_on_here_is_not_given_up(untested: Path, tmp_path: Path) -> None:
    cut = made(untested, tmp_path / "out", epochs=3)
    with pytest.raises(KeyboardInterrupt):
        Killed(cut.config, cut.space, cut.folder, cut.budget).run()
    elsewhere = made(untested, tmp_path / "out", epochs=3)
    config = tmp_path / "out" / "trial-001" / "config.json"
    whole = config.read_text()
    config.write_text(whole.replace('"hidden": 12', '"hidden": 13'))  # as another version might have written it
    with pytest.raises(GrocError, match="hidden"):
        elsewhere.run()
    config.write_text(whole)
    again = made(untested, tmp_path / "out", epochs=3)
    assert again.trials[1].state == "running"
    assert (tmp_path / "out" / "trial-001" / STATE).is_file()
    again.run()
    assert [trial.state for trial in again.trials] == ["done", "done"]


def test_the_record_alone_is_enough_to_go_on_from(untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.rate": ["0.02", "0.03", "0.04", "0.05", "0.01"]}
    there, here = made(untested, tmp_path / "there", space), tmp_path / "here"
    there.trials = [Trial(n, {"training.rate": space["training.rate"][n]}, "done", 9.0) for n in range(FEWEST)]  # type: ignore[index]
    there.save()
    here.mkdir()
    shutil.copy(there.folder / RECORD, here)
    search = made(untested, here, space)
    search.run()
    assert [trial.state for trial in search.trials] == ["done"] * 5


def test_each_trial_says_where_it_was_trained(untested: Path, tmp_path: Path) -> None:
    """Also where the search began on another machine, with a version that kept one device for all."""
    out = tmp_path / "out"
    search = made(untested, out)
    search.trials = [Trial(0, {"training.rate": "0.02"}, "done", 9.0), Trial(1, {"training.rate": "0.01"})]
    search.save()
    record = json.loads((out / RECORD).read_text(encoding="utf-8"))
    for trial in record["trials"]:
        del trial["device"]
    (out / RECORD).write_text(json.dumps({**record, "device": "a GPU"}), encoding="utf-8")
    search = made(untested, out)
    search.run()
    trials = json.loads((out / RECORD).read_text(encoding="utf-8"))["trials"]
    assert [trial["device"] for trial in trials] == ["a GPU", "CPU, float32"]


def test_a_grid_of_an_older_version_goes_on_with_what_was_not_tried(untested: Path, tmp_path: Path) -> None:
    """It had every combination, those that make the same model too."""
    space: Space = {"output.depth": ["0", "1"], "output.activation": ["relu", "tanh"]}
    older = made(untested, tmp_path / "out", space, 4, kind="groc")
    for number, activation in enumerate(("relu", "tanh")):
        older.trials.append(Trial(number, {"output.depth": "0", "output.activation": activation}, "failed"))
    older.save()
    search = made(untested, tmp_path / "out", space, 4, kind="groc", epochs=2)
    assert search.size == 4
    search.run()
    assert [trial.changes for trial in search.trials] == grid(space)


def test_one_process_at_a_time_searches_in_a_folder(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fcntl", reason="Windows has no such locks")
    train, refused = groc.search.train, []

    def with_another_search(*arguments: Any, **more: Any) -> dict[str, Any]:
        with pytest.raises(GrocError, match="is being searched by another process") as error:
            made(untested, tmp_path / "out").run()
        refused.append(error)
        return train(*arguments, **more)

    monkeypatch.setattr("groc.search.train", with_another_search)
    early = made(untested, tmp_path / "out")  # came before there was any trial, and is let in after the last one
    search = made(untested, tmp_path / "out")
    search.run()
    assert len(refused) == 2
    early.run()
    assert early.trials == search.trials
    assert len(refused) == 2


def test_a_system_without_locks_searches_all_the_same(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groc.files.fcntl", None)
    search = made(untested, tmp_path / "out")
    search.run()
    assert [trial.state for trial in search.trials] == ["done", "done"]


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """By another process, which is killed at the end."""
    code = f"import fcntl; lock = open({str(lock)!r}, 'ab'); fcntl.flock(lock, fcntl.LOCK_EX); print('locked'); input()"
    with subprocess.Popen([sys.executable, "-u", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        other.kill()


def test_the_lock_goes_with_its_process(untested: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="Windows has no such locks")
    (tmp_path / "out").mkdir()
    lock = tmp_path / "out" / LOCK
    search = made(untested, tmp_path / "out")
    with locked(lock), pytest.raises(GrocError, match="is being searched by another process"):
        search.run()
    assert lock.exists()
    search.run()
    assert [trial.state for trial in search.trials] == ["done", "done"]


@pytest.mark.parametrize(("lexicon", "why"), [("none", "Another process is training"), ("nowhere.tsv", "nowhere")])
def test_a_trial_that_another_process_trains_is_not_removed(
    lexicon: str, why: str, untested: Path, tmp_path: Path
) -> None:
    """It was killed before its first state, and another process, which has none yet either, holds its folder; or else
    the search cannot go on for another reason."""
    pytest.importorskip("fcntl", reason="Windows has no such locks")
    space: Space = {"forms.lexicon": [lexicon, "wordnet"]}
    search = made(untested, tmp_path / "out", space, kind="groc")
    search.trials.append(Trial(0, {"forms.lexicon": lexicon}))
    search.save()
    (tmp_path / "out" / "trial-000").mkdir()
    with locked(tmp_path / "out" / "trial-000" / "run.lock"):
        for _ in range(2):
            with pytest.raises(GrocError, match=why):
                made(untested, tmp_path / "out", space, kind="groc").run()
        assert (tmp_path / "out" / "trial-000" / "run.lock").is_file()
    assert [trial.state for trial in made(untested, tmp_path / "out", space, kind="groc").trials] == ["running"]


def test_optuna_begins_with_the_settings_as_they_stand(untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.rate": Range(1e-3, 1e-1, False), "output.dropout": ["0", "0.10"]}
    search = made(untested, tmp_path / "out", space, 1, method="tpe", epochs=1)
    search.run()
    assert search.trials[0].changes == {"training.rate": 0.01, "output.dropout": "0.10"}
    for key, elsewhere in {"training.rate": Range(0.02, 0.1, False), "output.dropout": ["0", "0.2"]}.items():
        assert made(untested, tmp_path / key, {**space, key: elsewhere}, 1, method="tpe")._own() is None


def test_optuna_tries_nothing_twice_and_ends_where_nothing_is_left(untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.batch": Range(2, 4, True), "output.dropout": ["0", "0.1"]}
    search = made(untested, tmp_path / "out", space, 50, method="tpe", epochs=1)
    search.run()
    tried = [(trial.changes["training.batch"], trial.changes["output.dropout"]) for trial in search.trials]
    assert sorted(tried) == [(batch, dropout) for batch in (2, 3, 4) for dropout in ("0", "0.1")]
    record = json.loads((tmp_path / "out" / RECORD).read_text())
    assert record["budget"]["trials"] == 6
    again = made(untested, tmp_path / "out", space, 50, method="tpe", epochs=1)
    assert again.is_over
    assert made(untested, tmp_path / "few", space, 4, method="tpe").size == 4
    unused: Space = {"output.depth": Range(0, 1, True), "output.activation": ["relu", "tanh", "selu"]}
    assert made(untested, tmp_path / "unused", unused, 50, method="tpe", kind="groc").size == 1 + 3
    endless: Space = {"training.rate": Range(1e-3, 1e-2, False)}
    assert made(untested, tmp_path / "endless", endless, 50, method="tpe").size == 50


def test_optuna_draws_by_chance_what_it_would_not_try_by_itself(untested: Path, tmp_path: Path) -> None:
    """What it likes best is one model, which is tried once; the others are worse."""
    listed: Space = {"training.schedule": ["plateau", "cosine"], "training.clip": ["1", "2", "3", "4", "5", "6", "7"]}
    ranged: Space = {"training.schedule": ["plateau", "cosine"], "training.final_rate": Range(0.1, 0.9, False)}
    for name, space in {"listed": listed, "ranged": ranged}.items():
        search = made(untested, tmp_path / name, space, 14, method="tpe")
        while (changes := search._propose()) is not None and len(search.trials) < search.size:
            worse = changes["training.schedule"] == "cosine"
            search.trials.append(Trial(len(search.trials), changes, "done", 100.0 + worse))
        assert len(search.trials) == len(search.tried) == 14


def test_a_search_ends_where_a_narrow_range_holds_nothing_more(
    untested: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space: Space = {"training.rate": Range(0.01, 0.010011, False)}  # .01, .01001 and .010011, by four digits
    search = made(untested, tmp_path / "out", space, 9, method="tpe", epochs=1)
    search.run()
    assert 2 <= len(search.trials) == len(search.tried) <= 3
    assert search.is_over
    assert "nothing is left to try" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / RECORD).read_text())["budget"]["trials"] == len(search.trials)
    again = made(untested, tmp_path / "out", space, 9, method="tpe", epochs=1)
    again.run()
    assert again.trials == search.trials


@pytest.mark.parametrize("method", ["grid", "tpe"])
def test_settings_in_another_order_are_the_same_search(method: str, untested: Path, tmp_path: Path) -> None:
    space: Space = {"training.rate": ["0.01", "0.02"], "output.dropout": ["0", "0.1"]}
    search = made(untested, tmp_path / "out", space, 4, method=method, epochs=1)
    search.run()
    again = made(untested, tmp_path / "out", dict(reversed(space.items())), 4, method=method, epochs=1)
    assert again.is_over


def test_no_trial_is_given_up_where_epochs_are_searched(untested: Path, tmp_path: Path) -> None:
    """A long one is behind a short one at first, since its rate falls later."""
    curves = [{1: 100.0, 2: 90.0}] * 4
    for space, hopeless in ((RATES, True), ({"training.epochs": ["2", "8"]}, False)):
        search = made(untested, tmp_path / str(hopeless), space, 8)
        for number, curve in enumerate(curves):
            search.trials.append(Trial(number, {}, "done", min(curve.values())))
            folder = search.path(search.trials[-1])
            folder.mkdir(parents=True)
            rows = [{"epoch": epoch, "valid_perplexity": value} for epoch, value in curve.items()]
            (folder / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert search.is_hopeless({1: 200.0, 2: 150.0}) is hopeless


# --- what is refused ----------------------------------------------------------------------------------------------


def test_mistakes_are_known_before_anything_is_trained(untested: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(GrocError, match="--trials 2"):
        made(untested, out, budget=1)
    for budget in (0, -3):
        with pytest.raises(GrocError, match=f"1 or more, not {budget}"):
            made(untested, out, TWO, budget, method="tpe")
    with pytest.raises(GrocError, match=r"training\.rate has the same value twice"):
        made(untested, out, {"training.rate": ["0.01", "1e-2"]})
    with pytest.raises(GrocError, match=r"prefix\.hidden=ten is not possible"):
        made(untested, out, {"prefix.hidden": ["12", "ten"]})
    with pytest.raises(GrocError, match="Did you mean"):
        made(untested, out, {"trainin.rate": ["1", "2"]})
    with pytest.raises(GrocError, match="nothing to search"):
        made(untested, out, {})
    with pytest.raises(GrocError, match="--method tpe"):
        made(untested, out, TWO)
    with pytest.raises(GrocError, match=r"output\.dropout"):
        made(untested, out, {"output.dropout": ["0.1", "1.5"]})
    for key, values in {"corpus": [str(untested), "b"], "name": ["a", "b"], "compute.device": ["cpu", "cuda"]}.items():
        with pytest.raises(GrocError, match=f"{key} cannot be searched"):
            made(untested, out, {**RATES, key: values})
    with pytest.raises(GrocError, match=r"output\.depth makes no difference to test \(output\.kind=tied\)"):
        made(untested, out, {"output.depth": ["0", "1"]})
    assert not out.exists()
    with pytest.raises(GrocError, match=r"no corpus folder .* holds train\.txt and valid\.txt, and test\.txt where a"):
        made(tmp_path / "nowhere", out).run()
    made(untested, tmp_path / "other").run()  # whereas this one can


def test_a_search_that_could_not_begin_leaves_its_folder_to_a_better_one(untested: Path, tmp_path: Path) -> None:
    lexicons: Space = {"forms.lexicon": [str(tmp_path / "nowhere.tsv"), "none"]}
    with pytest.raises(GrocError, match=r"nowhere\.tsv"):
        made(untested, tmp_path / "out", lexicons, kind="groc").run()
    search = made(untested, tmp_path / "out")
    search.run()
    assert [trial.state for trial in search.trials] == ["done", "done"]


def test_a_later_trial_that_cannot_begin_costs_no_earlier_one(untested: Path, tmp_path: Path) -> None:
    lexicons: Space = {"forms.lexicon": ["none", str(tmp_path / "nowhere.tsv")]}
    with pytest.raises(GrocError, match=r"nowhere\.tsv"):
        made(untested, tmp_path / "out", lexicons, kind="groc").run()
    again = made(untested, tmp_path / "out", lexicons, kind="groc")
    assert [trial.state for trial in again.trials] == ["done", "running"]


def test_a_search_goes_on_with_the_same_texts_alone(untested: Path, tmp_path: Path) -> None:
    search = made(untested, tmp_path / "out")
    search.trials.append(Trial(0, {"training.rate": "0.02"}, "done", 9.0))
    search.save()
    valid = untested / "valid.txt"
    whole = valid.read_bytes()
    (untested / "valid.txt.gz").write_bytes(gzip.compress(whole))
    valid.unlink()
    assert len(made(untested, tmp_path / "out").trials) == 1  # the same words, in another file
    (untested / "valid.txt.gz").unlink()
    *others, one, last = whole.decode().splitlines(keepends=True)
    valid.write_text("".join([*others, last, one]), encoding="utf-8")  # as many words, and the same ones
    with pytest.raises(GrocError, match="another training or valid text"):
        made(untested, tmp_path / "out")

    record = json.loads((tmp_path / "out" / RECORD).read_text())
    del record["corpus"]["digests"]  # as in older records
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    assert len(made(untested, tmp_path / "out").trials) == 1


def test_half_a_line_of_a_curve_is_none_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    rows = ['{"epoch": 1, "valid_perplexity": 9.5}\n', '{"epoch": 2, "valid_perpl']
    (tmp_path / METRICS).write_text("".join(rows))
    assert read_curve(tmp_path) == {1: 9.5}
    (tmp_path / METRICS).write_text("".join(rows) + "\n")
    with pytest.raises(GrocError, match=r"metrics\.jsonl, line 2 is damaged"):
        read_curve(tmp_path)


def test_another_search_is_not_mixed_in(untested: Path, tmp_path: Path) -> None:
    made(untested, tmp_path / "out").run()
    with pytest.raises(GrocError, match="other lists or ranges"):
        made(untested, tmp_path / "out", {"training.rate": ["0.5", "0.6"]})
    with pytest.raises(GrocError, match="other settings beside"):
        made(untested, tmp_path / "out", epochs=3)
    with pytest.raises(GrocError, match="holds no search"):
        made(untested, untested)
    with pytest.raises(GrocError, match=r"train\.txt is a file"):
        made(untested, untested / "train.txt" / "out").run()
    with open(untested / "train.txt", "a", encoding="utf-8") as text:
        text.write("a dog\n")
    with pytest.raises(GrocError, match="another training or valid text"):
        made(untested, tmp_path / "out")


def test_a_search_that_is_older_than_a_setting_goes_on(untested: Path, tmp_path: Path) -> None:
    """And is shown when it is over: what it does not name was at its default."""
    search = made(untested, tmp_path / "out")
    search.trials = [Trial(0, {"training.rate": "0.02"}, "done", 9.0)]
    search.folder.mkdir()
    search.save()
    record = json.loads((tmp_path / "out" / RECORD).read_text())
    del record["fixed"]["prefix.weight_dropout"]
    record["fixed"]["surface.gone"] = 0  # one that there is no more, and that was not used
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    assert made(untested, tmp_path / "out").trials == search.trials
    changes = {"prefix.weight_dropout": 0.5, "corpus": str(untested), "training.epochs": 2}
    with pytest.raises(GrocError, match="other settings beside"):  # whoever uses it now searches something else
        Search(tiny_config("tied", changes=changes), RATES, tmp_path / "out", 20)
    record["fixed"]["surface.gone"] = 3
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    with pytest.raises(GrocError, match="other settings beside"):
        made(untested, tmp_path / "out")


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record["trials"][0].update(valid_perplexity="x"),
        lambda record: record["trials"][0].update(valid_perplexity=math.nan),
        lambda record: record["trials"][0].update(seconds="x"),
        lambda record: record["trials"][0].update(state="weird"),
        lambda record: record["trials"][0].update(number=7),
        lambda record: record["trials"][0].update(changes={}),
        lambda record: record["trials"][0].update(changes=[]),
        lambda record: record["trials"].extend(record["trials"]),
        lambda record: record["trials"][0].update(valid_perplexity=None),  # it would be the best of all
        lambda record: record["trials"][0].update(valid_perplexity=-5.0),
        lambda record: record["trials"][0].update(changes={"training.rate": "77"}),  # nobody searched that
        lambda record: record.update(  # of one that goes on while another is begun there would be no end
            trials=[{**record["trials"][0], "number": number, "state": "running"} for number in range(2)]
        ),
        lambda record: record["trials"][0].update(device=5),
        lambda record: record["trials"][0].pop("device") and record.update(device=None),
        lambda record: record.pop("space"),
        lambda record: record.update(trials=None),
        lambda record: record.update(corpus=5),
        lambda record: record.update(corpus=math.nan),
        lambda record: record.update(fixed=5),
        lambda record: record["trials"][0].update(seconds=10**400),
        lambda record: record["trials"][0].update(state="failed", valid_perplexity=""),
        lambda record: record["trials"][0].update(state="failed", valid_perplexity=[]),
        lambda record: record["trials"][0].update(parameters=""),
    ],
)
def test_a_damaged_record_is_not_gone_on_with(
    damage: Callable[[dict[str, Any]], object], untested: Path, tmp_path: Path
) -> None:
    search = made(untested, tmp_path / "out")
    search.trials = [Trial(0, {"training.rate": RATES["training.rate"][0]}, "done", 90.0, 2, 1.0, 3, "a GPU")]
    search.folder.mkdir()
    search.save()
    assert made(untested, tmp_path / "out").trials == search.trials
    record = json.loads((tmp_path / "out" / RECORD).read_text())
    damage(record)
    (tmp_path / "out" / RECORD).write_text(json.dumps(record))
    with pytest.raises(GrocError, match=r"search\.json is damaged"):
        made(untested, tmp_path / "out")


# --- the command --------------------------------------------------------------------------------------------------


def small_search(corpus: Path, out: Path, *more: str) -> list[str]:
    searched = {one.partition("=")[0] for one in more}
    left_out = {"name", "output.kind", "training.rate", "output.dropout", *searched}
    settings = as_pairs({key: value for key, value in tiny_settings().items() if key not in left_out})
    return ["search", "penn", "--corpus", str(corpus), "--out", str(out), *settings, *more]


def test_the_command_shows_trials_and_goes_on(
    untested: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = small_search(untested, tmp_path / "out", "--variant", "tied", "output.dropout=0.0,0.3")
    assert main([*command, "--trials", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [trial["state"] for trial in found["trials"]] == ["done", "done"]
    assert found["name"] == "penn/tied"
    assert str(tmp_path) not in (tmp_path / "out" / RECORD).read_text()
    assert main([*command, "--trials", "2"]) == 0
    shown, errors = capsys.readouterr()
    assert f"output.dropout={found['trials'][found['best']]['changes']['output.dropout']}" in shown
    assert "epoch" not in errors  # nothing was trained again
    best = tmp_path / "out" / f"trial-{found['best']:03}"
    assert str(best) in shown
    shutil.rmtree(best)
    assert main([*command, "--trials", "2"]) == 0
    assert "whose folder is gone" in capsys.readouterr().out


def test_a_time_limit_stops_it_between_trainings_too(
    untested: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = small_search(untested, tmp_path / "out", "output.dropout=0.0,0.3")

    def stopped(_: Search, trial: Trial) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        trial.state = "failed"

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # lest the tests be stopped, if the search is not
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Search, "_try", stopped)
            assert main(command) == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "Go on with the same command" in capsys.readouterr().err
    assert main(command) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_at_the_end_of_a_training_too(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    command = small_search(untested, tmp_path / "out", "output.dropout=0.0,0.3")
    with monkeypatch.context() as patch:
        signal_while_the_last_valid_text_is_read(patch, number)
        assert main(command) == 128 + number
    (trial,) = json.loads((tmp_path / "out" / RECORD).read_text())["trials"]
    assert trial["state"] == "running"
    assert main(command) == 0
    trials = json.loads((tmp_path / "out" / RECORD).read_text())["trials"]
    assert [trial["state"] for trial in trials] == ["done", "done"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_trial_that_is_given_up_is_saved_stops_the_search(
    untested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What was found out of the trial is kept all the same."""
    space: Space = {"training.rate": ["0.02", "0.03", "0.04", "0.05", str(STANDSTILL), "0.06"]}
    save = groc.resuming.save

    def signalled(trainer: Trainer) -> None:
        if trainer.options.rate == STANDSTILL and trainer.position.epoch == 1:
            signal.raise_signal(number)
        save(trainer)

    with monkeypatch.context() as patch:
        patch.setattr("groc.resuming.save", signalled)
        patch.setattr("groc.resuming.Saves.are_due", lambda *_: False)  # the next save is that of what is given up
        with pytest.raises(Interrupted) as stopped:
            made(untested, tmp_path / "out", space, epochs=4).run()
    assert stopped.value.number == number
    again = made(untested, tmp_path / "out", space, epochs=4)
    assert [trial.state for trial in again.trials] == ["done"] * FEWEST + ["pruned"]
    assert not (again.path(again.trials[-1]) / STATE).exists()
    again.run()
    assert [trial.state for trial in again.trials] == ["done"] * FEWEST + ["pruned", "done"]


def test_who_stops_a_search_gives_no_trial_up(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('{"epoch": 1, "valid_perplexity": 9.0}\n')
    watch = Watch(tmp_path, lambda curve: True)
    assert watch.must_stop(True)
    assert not watch.stops
    assert watch.must_stop(False)
    assert watch.stops


def test_a_search_in_which_every_trial_fails_is_a_failure(
    untested: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*small_search(untested, tmp_path / "out", "training.rate=1e37,1e38"), "--json"]) == 1
    shown, errors = capsys.readouterr()
    assert json.loads(shown)["best"] is None
    assert "trial-001 failed: Training diverged" in errors
    assert "No trial came to its end" in errors


def test_a_setting_that_is_given_is_not_searched_over_the_papers_range(
    untested: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("output.dropout=0.3", "output.depth=0,1")
    assert main([*small_search(untested, tmp_path / "out", *given), "--paper-ranges", "--trials", "1"]) == 1
    assert "4 combinations" in capsys.readouterr().err  # one without a network, and three activations with one
    given = ("output.dropout=0.3,0.4", "output.depth=0")
    assert main([*small_search(untested, tmp_path / "out", *given), "--paper-ranges", "--trials", "1"]) == 1
    assert "2 combinations" in capsys.readouterr().err  # without a network, activations are left out


# --- what tables make of it ---------------------------------------------------------------------------------------


def trials_by_model(folder: Path) -> dict[str, int]:
    rows = TABLES["hyper-parameters"].rows(Results(folder))
    return {row["model"]: row["trials"] for row in rows if row["dataset"] == "penn"}


def test_a_record_says_what_was_spent_on_which_corpus(untested: Path, tmp_path: Path) -> None:
    penn = untested.rename(tmp_path / "penn")
    results, out = tmp_path / "results", tmp_path / "out"
    results.mkdir()
    assert main([*small_search(penn, out, "output.dropout=0.0,0.3"), "--trials", "9"]) == 0  # GroC, by default
    record = json.loads((out / RECORD).read_text())
    assert record["budget"] == {"trials": 2, "epochs": 2}
    assert record["corpus"]["name"] == "penn"
    assert record["device"] == "CPU, float32"
    shutil.copy(out / RECORD, results / "groc.json")
    assert trials_by_model(results)["groc"] == 2

    data = {"kind": "data", "name": "data/penn", "figures": {"tokens": record["corpus"]["tokens"]}}
    (results / "data.json").write_text(json.dumps(data))
    assert trials_by_model(results)["groc"] == 2
    data["figures"] = {"tokens": 929_589}
    (results / "data.json").write_text(json.dumps(data))
    assert trials_by_model(results)["groc"] == 0  # another corpus of that name

    del record["corpus"]  # as in older records
    (results / "groc.json").write_text(json.dumps(record))
    assert trials_by_model(results)["groc"] == 2
    record["fixed"]["corpus"] = "tiny"
    (results / "groc.json").write_text(json.dumps(record))
    assert trials_by_model(results)["groc"] == 0


@pytest.mark.parametrize(
    ("tied", "differ"), [((2, 20), ""), ((3, 20), "tied 3 trials of 20 epochs"), ((2, 9), "tied 2 trials of 9 epochs")]
)
def test_it_is_said_where_models_had_other_budgets(
    tied: tuple[int, int], differ: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in TABLES["hyper-parameters"].cells:
        name = model.keys["model"]
        trials, epochs = tied if name == "tied" else (2, 20)
        trial = {"state": "failed", "changes": {"training.rate": "1"}}
        search = {"kind": "search", "name": f"penn/{name}", "trials": [trial] * trials, "budget": {"epochs": epochs}}
        (tmp_path / f"{name}.json").write_text(json.dumps(search))
    assert main(["paper", "hyper-parameters", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert differ in said
    assert said.count("budgets differ") == bool(differ)


@pytest.mark.parametrize(
    ("values", "inside", "outside"),
    [
        (Range(1e-3, 1e-2, False), [1e-3, 2e-3, 1e-2], [9e-4, 2e-2, "2e-3", True, None]),
        (Range(1, 3, True), [1, 3], [0, 4, 1.5, True]),
        (["1e-3", "2e-3"], ["1e-3"], ["3e-3", 1e-3, None]),
    ],
)
def test_what_a_record_may_have_of_a_space(values: list[Any] | Range, inside: list[Any], outside: list[Any]) -> None:
    assert all(has(values, value) for value in inside)
    assert not any(has(values, value) for value in outside)
