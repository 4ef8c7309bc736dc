"""Training: stopped anywhere and resumed it ends as if never stopped; and what moves the weights."""

from __future__ import annotations

import copy
import json
import math
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import STANDSTILL, TERMS, signal_while_the_last_valid_text_is_read, snapshot, tiny_config, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from groc import checkpoint, resuming
from groc.building import build
from groc.compute import Group, choose
from groc.config import Config, Training
from groc.corpus import Corpus
from groc.divergence import Diverged
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.naive import embed_naively
from groc.optimisation import AveragedWeights, Cosine, Plateau, make_optimiser, make_schedule, set_rate
from groc.orthogonal import AdamAndOrthogonal, orthogonalised
from groc.resuming import SHARE_OF_TIME, Saves
from groc.signals import Interrupted
from groc.streams import cut_streams, rotated
from groc.training import Trainer
from groc.vocabulary import Vocabulary

RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain groc": ("groc", "ngrams", {}),
    "plateau and averaged weights": (
        "tied",
        "cnn",
        {"training.average": 0.8, "training.patience": 1, "training.decay": 0.5, "training.rate": 0.3},
    ),
    "all at once": (
        "groc",
        "cnn",
        {
            "training.schedule": "cosine", "training.warmup": 5, "training.random_unroll": True,
            "training.average": 0.9, "training.full_updates": 0.5, "training.activation": 2.0,
            "training.temporal": 1.0, "training.weight_decay": 1e-3, "training.encoder_rate": 0.5,
            "training.rotate_streams": True,
        },
    ),
    "orthogonal steps": ("groc", "cnn", {"training.matrix_rate": 5.0, "training.full_updates": 0.5}),
    "sparse adaptive": ("adaptive", "cnn", {"training.full_updates": 0.5, "training.schedule": "cosine"}),
    "convolutional": ("convolutional", "cnn", {"training.random_unroll": True}),
    "a sample of the words": (
        "groc",
        "ngrams",
        {
            "training.sample": 12, "forms.surface_dropout": 0.3, "output.count_bias": True, "surface.familiar": True,
            "forms.centred": True,
        },
    ),
    "deep residual": ("deep-residual", "cnn", {"training.clip": 0.0}),
}  # fmt: skip


class Workshop:
    """Makes trainers of one corpus and one glossary."""

    def __init__(self, corpus: Path, glossary: Glossary) -> None:
        self.corpus, self.glossary = Corpus(corpus), glossary

    def trainer(self, folder: Path, config: Config, resume: bool = False) -> Trainer:
        vocabulary = self.corpus.vocabulary()
        torch.manual_seed(config.training.seed)
        policy = choose(config.compute)
        model = build(config, vocabulary, self.glossary).to(policy.device)
        train, valid = self.corpus.text("train").ids(vocabulary), self.corpus.text("valid")
        trainer = Trainer(model, config, train, valid, folder, policy, Group(), quiet=True)
        if resume:
            torch.manual_seed(12345)  # whatever the random numbers are, the saved ones count
            trainer.restore()
        else:
            checkpoint.save_start(folder, model, config)
        return trainer

    def run(self, folder: Path, config: Config, stops: list[int] = []) -> Trainer:  # noqa: B006
        """Train to the end, with a Ctrl-C after each of these steps and a new trainer each time."""
        resume = False
        for stop in [*stops, None]:
            trainer = self.trainer(folder, config, resume)
            if stop is not None:
                interrupt_after(trainer, stop)
            try:
                trainer.run()
            except Interrupted:
                resume = True
                continue
            return trainer
        raise AssertionError


def interrupt_after(trainer: Trainer, step: int) -> None:
    def stepping() -> None:
        Trainer.step(trainer)
        if trainer.position.step == step:
            signal.raise_signal(signal.SIGINT)

    trainer.step = stepping  # type: ignore[method-assign]


def metrics(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / checkpoint.METRICS).read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_same_end(one: Path, other: Path) -> None:
    """Bitwise the same kept weights, last weights, optimiser, random numbers and learning curve."""
    assert (one / checkpoint.WEIGHTS).read_bytes() == (other / checkpoint.WEIGHTS).read_bytes()
    states = [load_file(folder / checkpoint.STATE) for folder in (one, other)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
    assert metrics(one) == metrics(other)


@pytest.fixture(scope="module")
def workshop(corpus_folder: Path, glossary: Glossary) -> Workshop:
    return Workshop(corpus_folder, glossary)


@pytest.fixture(scope="module", params=RUNS)
def uninterrupted(
    request: pytest.FixtureRequest, workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Config, Path, int]:
    kind, surface, changes = RUNS[request.param]
    config = tiny_config(kind, surface, changes)
    folder = tmp_path_factory.mktemp("uninterrupted")
    steps = workshop.run(folder, config).position.step
    return config, folder, steps


class TestResuming:
    @settings(max_examples=4)
    @given(data=st.data())
    def test_stopped_anywhere_equals_never_stopped(
        self,
        uninterrupted: tuple[Config, Path, int],
        workshop: Workshop,
        tmp_path_factory: pytest.TempPathFactory,
        data: st.DataObject,
    ) -> None:
        config, expected, steps = uninterrupted
        stops = sorted(data.draw(st.sets(st.integers(1, steps), min_size=1, max_size=3)))
        folder = tmp_path_factory.mktemp("stopped")
        workshop.run(folder, config, stops)
        assert_same_end(folder, expected)

    @pytest.mark.parametrize("beyond", [-1, 0, 1])
    def test_stopped_around_the_end_of_an_epoch(
        self, uninterrupted: tuple[Config, Path, int], workshop: Workshop, tmp_path: Path, beyond: int
    ) -> None:
        config, expected, _ = uninterrupted
        boundary = metrics(expected)[0]["step"]
        workshop.run(tmp_path, config, [boundary + beyond])
        assert_same_end(tmp_path, expected)

    def test_stopped_after_the_very_first_and_the_very_last_step(
        self, uninterrupted: tuple[Config, Path, int], workshop: Workshop, tmp_path: Path
    ) -> None:
        config, expected, steps = uninterrupted
        workshop.run(tmp_path, config, [1, steps])
        assert_same_end(tmp_path, expected)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_stopped_while_the_last_valid_text_is_read(
        self, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        """What comes next, of a search or a table, is not to begin."""
        config = tiny_config("tied")
        workshop.run(tmp_path / "expected", config)
        with monkeypatch.context() as patch:
            signal_while_the_last_valid_text_is_read(patch, number)
            with pytest.raises(Interrupted):
                workshop.trainer(tmp_path / "run", config).run()
        workshop.trainer(tmp_path / "run", config, resume=True).run()
        assert_same_end(tmp_path / "run", tmp_path / "expected")

    def test_a_signal_between_two_steps_is_passed_on_in_the_next(
        self, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that all processes that train together stop behind the same one."""
        trainer = workshop.trainer(tmp_path, tiny_config("tied"))
        heard: list[bool] = []
        monkeypatch.setattr(trainer.group, "must_stop", lambda told: heard.append(told) or told)
        interrupt_after(trainer, 3)
        with pytest.raises(Interrupted):
            trainer.run()
        assert heard == [False, False, False, True]

    def test_killed_after_a_save_inside_an_epoch(
        self, uninterrupted: tuple[Config, Path, int], workshop: Workshop, tmp_path: Path
    ) -> None:
        """A kill leaves whatever is in the folder; here it is copied after each of the first 14 steps."""
        config, expected, _ = uninterrupted
        often = config.replace({"training.save_minutes": 0.0})
        copies: list[Path] = []
        trainer = workshop.trainer(tmp_path / "run", often)
        saving = trainer.save_state

        def save_and_copy() -> None:
            saving()
            if len(copies) < 14:
                copies.append(tmp_path / f"copy{len(copies)}")
                shutil.copytree(tmp_path / "run", copies[-1])

        trainer.save_state = save_and_copy  # type: ignore[method-assign]
        trainer.run()
        assert_same_end(tmp_path / "run", expected)
        for folder in copies[::6]:
            workshop.trainer(folder, config, resume=True).run()
            assert_same_end(folder, expected)

    def test_killed_epochs_after_the_last_save(
        self, uninterrupted: tuple[Config, Path, int], workshop: Workshop, tmp_path: Path
    ) -> None:
        """Epochs may be shorter than saves are apart: all since the last one are done again, best weights and all."""
        config, expected, steps = uninterrupted
        trainer = workshop.trainer(tmp_path, config)
        trainer.save_state()
        trainer.saves.are_due = lambda at_least_every: False  # type: ignore[method-assign]

        class Killed(Exception):
            pass

        def stepping() -> None:
            if trainer.position.step == steps - 1:
                raise Killed
            Trainer.step(trainer)

        trainer.step = stepping  # type: ignore[method-assign]
        trainer.write_best = lambda: None  # type: ignore[method-assign]  # a hard kill has no last word
        with pytest.raises(Killed):
            trainer.run()
        assert len(metrics(tmp_path)) == len(metrics(expected)) - 1
        assert not (tmp_path / checkpoint.WEIGHTS).exists()
        workshop.trainer(tmp_path, config, resume=True).run()
        assert_same_end(tmp_path, expected)

    def test_what_a_killed_run_wrote_after_its_last_save_is_forgotten(self, workshop: Workshop, tmp_path: Path) -> None:
        """Killed between the metrics of an epoch and the state: the epoch is done again and stands there once."""
        config = tiny_config("tied")
        workshop.run(tmp_path / "expected", config)
        trainer = workshop.trainer(tmp_path / "run", config)
        interrupt_after(trainer, 3)
        with pytest.raises(Interrupted):
            trainer.run()
        with open(tmp_path / "run" / checkpoint.METRICS, "ab") as handle:
            handle.write(b'{"epoch": 1, "step": 11}\n{"epo')
        workshop.trainer(tmp_path / "run", config, resume=True).run()
        assert_same_end(tmp_path / "run", tmp_path / "expected")

    def test_resumed_only_to_be_ended_a_run_has_no_epochs_that_were_lost(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        config = tiny_config("tied", changes={"training.epochs": 1})
        workshop.run(tmp_path, config)
        before = metrics(tmp_path)
        with open(tmp_path / checkpoint.METRICS, "ab") as handle:
            handle.write(b'{"epoch": 2, "step": 22}\n{"epo')
        workshop.trainer(tmp_path, config, resume=True).run()
        assert metrics(tmp_path) == before

    def test_a_finished_run_given_more_epochs_goes_on(self, workshop: Workshop, tmp_path: Path) -> None:
        short, long = (tiny_config("tied", changes={"training.epochs": epochs}) for epochs in (1, 3))
        workshop.run(tmp_path / "long", long)
        workshop.run(tmp_path / "run", short)
        workshop.trainer(tmp_path / "run", long, resume=True).run()
        assert_same_end(tmp_path / "run", tmp_path / "long")

    def test_every_other_plan_that_the_rate_followed_is_kept(self, workshop: Workshop, tmp_path: Path) -> None:
        def resumed(epochs: int, stop: int = 0, start: bool = False) -> list[tuple[int, ...]]:
            changes = {"training.epochs": epochs, "training.schedule": "cosine"}
            trainer = workshop.trainer(tmp_path, tiny_config("tied", changes=changes), resume=not start)
            if start:
                trainer.save_state()
            if stop:
                interrupt_after(trainer, stop - 1)  # which is seen in the next step
                with pytest.raises(Interrupted):
                    trainer.run()
            return [tuple(change.values()) for change in trainer.position.replanned]

        assert resumed(9, start=True) == []
        assert resumed(4, stop=3) == []  # no step was made by the first plan
        assert resumed(4) == []
        assert resumed(2, stop=5) == [(3, 4, 2)]
        assert resumed(2) == [(3, 4, 2)]
        assert resumed(4) == [(3, 4, 2), (5, 2, 4)]
        assert resumed(2) == [(3, 4, 2)]  # no step was made by that plan

    def test_what_an_older_state_was_planned_for_is_in_its_settings(self, workshop: Workshop, tmp_path: Path) -> None:
        one, two = (tiny_config("tied", changes={"training.epochs": n, "training.schedule": "cosine"}) for n in (1, 2))
        older = workshop.trainer(tmp_path, one)
        older.step()
        older.position.planned = 0
        older.save_state()
        assert workshop.trainer(tmp_path, one, resume=True).position.replanned == []
        (change,) = workshop.trainer(tmp_path, two, resume=True).position.replanned
        assert change == {"after_step": 1, "epochs_before": 1, "epochs": 2}

    def test_resuming_a_finished_run_changes_nothing(self, workshop: Workshop, tmp_path: Path) -> None:
        config = tiny_config("tied", changes={"training.epochs": 1})
        workshop.run(tmp_path, config)
        before = snapshot(tmp_path)
        workshop.trainer(tmp_path, config, resume=True).run()
        assert snapshot(tmp_path) == before

    def test_after_a_stop_there_is_a_complete_run_folder(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config())
        interrupt_after(trainer, 13)
        with pytest.raises(Interrupted):
            trainer.run()
        assert len(metrics(tmp_path)) == 1
        checkpoint.load(tmp_path)
        assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*"))

    def test_signals_mean_what_they_meant_before(self, workshop: Workshop, tmp_path: Path) -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        trainer = workshop.trainer(tmp_path, tiny_config("tied"))
        interrupt_after(trainer, 2)
        with pytest.raises(Interrupted):
            trainer.run()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class TestSaves:
    @given(
        epochs=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30),
        took=st.floats(1e-3, 10),
        often=st.sampled_from([0.0, 60.0, math.inf]),
    )
    def test_they_take_a_twentieth_of_the_time_unless_more_are_asked_for(
        self, epochs: list[float], took: float, often: float
    ) -> None:
        now, saved, lost = 0.0, 0, 0.0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(resuming.time, "monotonic", lambda: now)
            saves = Saves()
            with saves.timed():
                now += took
            for epoch in epochs:
                assert lost <= min(often, took / SHARE_OF_TIME) + 1e-6  # what a kill in this epoch would cost besides
                now += epoch
                lost += epoch
                if saves.are_due(often):
                    with saves.timed():
                        now += took
                    saved, lost = saved + 1, 0.0
        if often == 0:
            assert saved == len(epochs)
        elif often == math.inf:
            assert saved * took <= SHARE_OF_TIME * sum(epochs) + 1e-6


class TestBadStates:
    def test_no_state(self, workshop: Workshop, tmp_path: Path) -> None:
        with pytest.raises(GrocError, match=r"no state\.safetensors"):
            workshop.trainer(tmp_path, tiny_config(), resume=True)

    @pytest.mark.parametrize("other", [("groc", {"model.dim": 9}), ("tied", {}), ("groc", {"training.batch": 2})])
    def test_a_state_of_another_run_is_one_clear_sentence(
        self, workshop: Workshop, tmp_path: Path, other: tuple[str, dict[str, Any]]
    ) -> None:
        kind, changes = other
        trainer = workshop.trainer(tmp_path, tiny_config(kind, changes=changes))
        interrupt_after(trainer, 2)
        with pytest.raises(Interrupted):
            trainer.run()
        with pytest.raises(GrocError, match="does not fit") as raised:
            workshop.trainer(tmp_path, tiny_config(), resume=True)
        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize(
        ("split", "changed", "message"),
        [
            # The same words in another order: nothing of the model shows it, but it would not be the same run.
            ("train", lambda text: "".join(reversed(text.splitlines(keepends=True))), "another training text"),
            # A new word in place of another, which has the same number: the best epoch would be that of two texts.
            ("valid", lambda text: text.replace("zebra", "gnu"), "another valid text: resume it with that"),
            # Another word of training with the same number.
            ("train", lambda text: text.replace("dog", "dogs"), "another vocabulary"),
        ],
    )
    def test_another_text_is_refused(
        self,
        workshop: Workshop,
        tmp_path: Path,
        corpus_folder: Path,
        glossary: Glossary,
        split: str,
        changed: Callable[[str], str],
        message: str,
    ) -> None:
        workshop.trainer(tmp_path / "run", tiny_config()).save_state()
        other = shutil.copytree(corpus_folder, tmp_path / "corpus")
        text = (other / f"{split}.txt").read_text(encoding="utf-8")
        (other / f"{split}.txt").write_text(changed(text), encoding="utf-8")
        with pytest.raises(GrocError, match=message):
            Workshop(other, glossary).trainer(tmp_path / "run", tiny_config(), resume=True)

    def test_another_lexicon_is_refused_where_the_model_has_one(
        self, workshop: Workshop, tmp_path: Path, corpus_folder: Path
    ) -> None:
        other = Workshop(corpus_folder, Glossary({**TERMS, "dog": ("another animal", ())}))
        for kind in ("groc", "tied"):
            workshop.trainer(tmp_path / kind, tiny_config(kind)).save_state()
        with pytest.raises(GrocError, match="another lexicon or glossary: resume it with that"):
            other.trainer(tmp_path / "groc", tiny_config(), resume=True)
        other.trainer(tmp_path / "tied", tiny_config("tied"), resume=True)

    def test_a_state_from_before_sources_were_kept_goes_on_and_has_them_from_then_on(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        older = workshop.trainer(tmp_path, tiny_config())
        sources, older.position.sources = older.position.sources, {}
        older.save_state()
        assert workshop.trainer(tmp_path, tiny_config(), resume=True).position.sources == sources

    def test_a_state_of_a_newer_version_says_so(self, workshop: Workshop, tmp_path: Path) -> None:
        workshop.trainer(tmp_path, tiny_config("tied")).save_state()
        tensors, metadata = checkpoint.read_tensors(tmp_path / checkpoint.STATE)
        newer = json.dumps({**json.loads(metadata["position"]), "mood": "good"})
        checkpoint.write_tensors(tmp_path / checkpoint.STATE, tensors, {**metadata, "position": newer})
        before = snapshot(tmp_path)
        with pytest.raises(GrocError, match=r"made by a newer version of GroC, which keeps mood, too: .*upgrade"):
            workshop.trainer(tmp_path, tiny_config("tied"), resume=True)
        assert snapshot(tmp_path) == before

    @pytest.mark.parametrize("share", [0, 0.3, 0.99])
    def test_a_truncated_state(self, workshop: Workshop, tmp_path: Path, share: float) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config("tied"))
        trainer.save_state()
        path = tmp_path / checkpoint.STATE
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
        with pytest.raises(GrocError, match="damaged"):
            workshop.trainer(tmp_path, tiny_config("tied"), resume=True)


class TestDivergence:
    CHANGES: dict[str, Any] = {"training.rate": 1e37, "training.clip": 0.0, "training.warmup": 0}  # noqa: RUF012

    def test_it_is_an_error_and_nothing_bad_is_kept(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config(changes=self.CHANGES))
        before = snapshot(tmp_path)
        with pytest.raises(GrocError, match=r"diverged.*training\.rate") as raised:
            trainer.run()
        assert "\n" not in str(raised.value)
        assert snapshot(tmp_path) == before

    @pytest.mark.parametrize(
        ("clip", "advice"),
        [
            (0.5, r"lower training\.rate or training\.clip and"),
            (0.0, r"or clip gradients \(training\.clip, where 0 is"),
        ],
    )
    def test_a_loss_that_overflows_is_not_finite_and_what_is_not_clipped_is_not_clipped_less(
        self, workshop: Workshop, tmp_path: Path, clip: float, advice: str
    ) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config("tied", changes={"training.clip": clip}))
        trainer.losses.fill_(math.inf)
        with pytest.raises(Diverged, match=rf"the loss is not finite any more .*{advice}"):
            trainer.run()

    def test_what_was_good_before_stays_and_can_be_loaded(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config("tied"))
        interrupt_after(trainer, 13)
        with pytest.raises(Interrupted):
            trainer.run()
        before = snapshot(tmp_path)
        again = workshop.trainer(tmp_path, tiny_config("tied"), resume=True)
        with torch.no_grad():
            next(again.model.prefix.parameters()).fill_(float("nan"))
        with pytest.raises(GrocError, match=r"diverged.*; the last state before that is kept"):
            again.run()
        assert snapshot(tmp_path) == before
        checkpoint.load(tmp_path)

    @pytest.mark.parametrize("resumed", [False, True])
    def test_where_nothing_was_saved_since_the_start_it_says_so(
        self, workshop: Workshop, tmp_path: Path, resumed: bool
    ) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config(changes=self.CHANGES))
        trainer.save_state()
        if resumed:
            trainer = workshop.trainer(tmp_path, tiny_config(changes=self.CHANGES), resume=True)
        with pytest.raises(GrocError, match=r"diverged.* in epoch 1, .*; nothing but the start of the run is kept"):
            trainer.run()

    def test_the_best_weights_are_kept_whenever_they_were_to_be_saved(self, workshop: Workshop, tmp_path: Path) -> None:
        expected = workshop.run(tmp_path / "expected", tiny_config("tied", changes={"training.epochs": 1}))
        trainer = workshop.trainer(tmp_path / "run", tiny_config("tied"))
        trainer.save_state()
        trainer.saves.are_due = lambda at_least_every: False  # type: ignore[method-assign]
        steps = expected.position.step
        weight = next(trainer.model.prefix.parameters())
        weight.register_hook(lambda gradient: gradient * math.nan if trainer.position.step == steps + 2 else gradient)
        with pytest.raises(GrocError, match=r"nothing but the start .* is kept .*, besides the best .* of epoch 1"):
            trainer.run()
        kept, there = (load_file(tmp_path / name / checkpoint.WEIGHTS) for name in ("run", "expected"))
        assert all(torch.equal(kept[name], there[name]) for name in there)

    def test_a_save_inside_an_epoch_keeps_no_weights_that_are_no_numbers(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        """A bad gradient spoils the weights one step before the loss shows it."""
        trainer = workshop.trainer(tmp_path, tiny_config("tied", changes={"training.save_minutes": 0.0}))
        weight = next(trainer.model.prefix.parameters())
        weight.register_hook(lambda gradient: gradient * math.nan if trainer.position.step == 4 else gradient)
        with pytest.raises(GrocError, match=r"diverged.* in epoch 1, .*; the last state before that is kept"):
            trainer.run()
        state = load_file(tmp_path / checkpoint.STATE)
        assert all(torch.isfinite(tensor).all() for tensor in state.values() if tensor.is_floating_point())

    def test_a_loss_that_explodes_without_being_infinite_is_no_success(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config("tied"))
        trainer.losses.fill_(1e9)
        with pytest.raises(Diverged, match="the perplexity is not finite any more"):
            trainer.run()
        assert not (tmp_path / checkpoint.METRICS).exists()

    def test_far_worse_than_an_even_guess_is_diverged_and_the_best_weights_stay(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        expected = workshop.run(tmp_path / "expected", tiny_config("tied", changes={"training.epochs": 1}))
        trainer = workshop.trainer(tmp_path / "run", tiny_config("tied"))
        trainer.save_state()
        step, second = trainer.step, expected.position.step

        def worse() -> None:
            if trainer.position.step == second:  # the first of the second epoch
                trainer.losses.fill_(math.log(20) * (len(trainer.streams) - 1))
            step()

        trainer.step = worse  # type: ignore[method-assign]
        above = r"the training perplexity is above .*, 10 times an even guess, in epoch 2"
        with pytest.raises(Diverged, match=rf"{above}, .* besides the best weights, those of epoch 1"):
            trainer.run()
        assert [row["epoch"] for row in metrics(tmp_path / "run")] == [1]
        kept, there = (load_file(tmp_path / name / checkpoint.WEIGHTS) for name in ("run", "expected"))
        assert all(torch.equal(kept[name], there[name]) for name in there)

    def test_after_a_bad_first_epoch_it_goes_on(self, workshop: Workshop, tmp_path: Path) -> None:
        """Words that start too large are worse than guessing at first, and may be learned all the same."""
        trainer = workshop.trainer(tmp_path, tiny_config("tied", changes={"training.epochs": 2}))
        trainer.losses.fill_(math.log(20) * (len(trainer.streams) - 1))
        trainer.run()
        assert metrics(tmp_path)[0]["train_perplexity"] > len(trainer.model.vocabulary)

    def test_orthogonalised_steps_are_not_to_be_clipped(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config(changes={"training.matrix_rate": 1.0}))
        trainer.losses.fill_(math.inf)
        with pytest.raises(Diverged, match=r"lower training\.rate or leave out training\.matrix_rate and start again"):
            trainer.run()


class TestLearning:
    @pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
    def test_the_loss_falls(self, workshop: Workshop, tmp_path: Path, kind: str) -> None:
        workshop.run(tmp_path, tiny_config(kind, changes={"training.epochs": 6}))
        rows = metrics(tmp_path)
        assert rows[-1]["train_loss"] < rows[0]["train_loss"] - 0.02
        assert rows[0]["train_perplexity"] == pytest.approx(math.exp(rows[0]["train_loss"]))

    def test_the_first_loss_is_about_that_of_a_uniform_guess(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config())
        trainer.model.train()
        words = trainer.options.unroll * trainer.options.batch
        trainer.step()
        loss = float(trainer.losses.sum()) / words
        assert loss == pytest.approx(math.log(len(trainer.model.vocabulary)), abs=0.1)

    def test_the_kept_weights_are_those_of_the_best_epoch(self, workshop: Workshop, tmp_path: Path) -> None:
        config = tiny_config("tied", changes={"training.rate": 0.3, "training.epochs": 5, "training.stop_after": 0})
        trainer = workshop.run(tmp_path, config)
        losses = [row["valid_loss"] for row in metrics(tmp_path)]
        assert trainer.position.best == min(losses)
        assert losses[trainer.position.best_epoch - 1] == min(losses)
        trainer.model.load_state_dict(load_file(tmp_path / checkpoint.WEIGHTS))
        kept = -trainer.score_valid(streams=config.training.valid_streams).log_prob.mean()
        assert kept == pytest.approx(min(losses), abs=1e-6)

    def test_training_stops_when_nothing_is_gained(self, workshop: Workshop, tmp_path: Path) -> None:
        config = tiny_config(
            "tied", changes={"training.rate": STANDSTILL, "training.epochs": 30, "training.stop_after": 2}
        )
        trainer = workshop.run(tmp_path, config)
        assert (trainer.position.epoch, trainer.position.best_epoch) == (3, 1)

    def test_the_valid_loss_is_over_all_its_words_with_those_never_seen(
        self, workshop: Workshop, tmp_path: Path
    ) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config())
        scores = trainer.score_valid(streams=1)
        valid = workshop.corpus.text("valid")
        assert scores.words == [valid.types[code] for code in valid.codes]
        assert (scores.counts == 0).any()
        assert trainer.model.vocabulary == workshop.corpus.vocabulary()

    def test_two_runs_of_a_seed_are_the_same_and_of_two_seeds_are_not(self, workshop: Workshop, tmp_path: Path) -> None:
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            workshop.run(tmp_path / name, tiny_config(changes={"training.seed": seed, "training.epochs": 1}))
        assert_same_end(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "a" / checkpoint.WEIGHTS).read_bytes() != (tmp_path / "c" / checkpoint.WEIGHTS).read_bytes()


class TestSparseUpdates:
    @staticmethod
    def steps(workshop: Workshop, folder: Path, p: float, number: int) -> list[tuple[bool, bool, bool]]:
        """For each step: whether the encoder had gradients, whether it moved, whether the prefix network moved."""
        config = tiny_config("groc", changes={"training.full_updates": p, "training.weight_decay": 0.01})
        trainer = workshop.trainer(folder, config)
        trainer.model.train()
        encoder = [*trainer.model.input.parameters(), *trainer.model.output.parameters()]
        prefix = list(trainer.model.prefix.parameters())
        rows = []
        for _ in range(number):
            before = [tensor.detach().clone() for tensor in (*encoder, *prefix)]
            trainer.step()
            moved = [not torch.equal(old, new) for old, new in zip(before, (*encoder, *prefix), strict=True)]
            with_gradient = [tensor.grad is not None and bool(tensor.grad.any()) for tensor in encoder]
            rows.append((any(with_gradient), any(moved[: len(encoder)]), any(moved[len(encoder) :])))
        return rows

    def test_a_frozen_step_moves_nothing_of_the_encoder(self, workshop: Workshop, tmp_path: Path) -> None:
        rows = self.steps(workshop, tmp_path, 0.5, 10)
        draws = torch.Generator().manual_seed(1)
        expected = [True, *(bool(torch.rand((), generator=draws) < 0.5) for _ in range(9))]
        assert [gradient for gradient, _, _ in rows] == expected
        assert [moved for _, moved, _ in rows] == expected
        assert all(prefix for _, _, prefix in rows)
        assert len(set(expected)) == 2

    def test_p_of_one_updates_all_in_each_step(self, workshop: Workshop, tmp_path: Path) -> None:
        assert self.steps(workshop, tmp_path, 1.0, 5) == [(True, True, True)] * 5
        assert Training().full_updates == 1

    def test_p_of_zero_updates_the_encoder_once(self, workshop: Workshop, tmp_path: Path) -> None:
        assert [moved for _, moved, _ in self.steps(workshop, tmp_path, 0.0, 5)] == [True] + [False] * 4


GROUP = SimpleNamespace(size=1, rank=0)


class TestStreams:
    @given(st.lists(st.integers(1, 9), min_size=2, max_size=40), st.integers(1, 6))
    def test_every_word_is_a_target_once_and_follows_the_word_before_it(self, ids: list[int], batch: int) -> None:
        if len(ids) // batch < 2:
            with pytest.raises(GrocError, match="too few"):
                cut_streams(np.array(ids, np.int32), 0, batch, GROUP)
            return
        streams = cut_streams(np.array(ids, np.int32), 0, batch, GROUP)
        kept = len(ids) // batch * batch
        assert streams[1:].T.flatten().tolist() == ids[:kept]
        assert streams[:-1].T.flatten().tolist() == [0, *ids[: kept - 1]]

    @given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 5))
    def test_processes_share_the_streams(self, size: int, share: int, length: int) -> None:
        ids = np.arange(size * share * length, dtype=np.int32)
        whole = cut_streams(ids, 0, size * share, GROUP)
        parts = [cut_streams(ids, 0, size * share, SimpleNamespace(size=size, rank=rank)) for rank in range(size)]
        assert torch.equal(torch.cat(parts, 1), whole)

    @given(st.integers(2, 9), st.integers(1, 4), st.data())
    def test_rotated_streams_have_all_words_behind_the_same_ones_but_where_they_close(
        self, length: int, batch: int, data: st.DataObject
    ) -> None:
        streams = cut_streams(np.arange(1, length * batch + 1, dtype=np.int32), 0, batch, GROUP)
        offsets = data.draw(st.lists(st.integers(0, length - 1), min_size=batch, max_size=batch))
        for stream, offset, turned in zip(streams.T, offsets, rotated(streams, torch.tensor(offsets)).T, strict=True):
            pairs = list(zip(stream[:-1].tolist(), stream[1:].tolist(), strict=True))
            closing = [(pairs[-1][1], pairs[0][1]), *pairs[1:]]  # the first word follows the last one
            expected = [*pairs[offset:], *closing[:offset]]
            assert list(zip(turned[:-1].tolist(), turned[1:].tolist(), strict=True)) == expected

    def test_streams_are_turned_anew_in_each_epoch_and_by_the_seed(self, workshop: Workshop, tmp_path: Path) -> None:
        def first_words(seed: int, turned: bool) -> list[list[int]]:
            changes = {"training.rotate_streams": turned, "training.epochs": 2, "training.seed": seed}
            trainer = workshop.trainer(tmp_path / f"{seed}-{turned}", tiny_config(changes=changes))
            rows = []

            def stepping() -> None:
                if trainer.position.at == 0:
                    rows.append(trainer.streams[:3].flatten().tolist())
                Trainer.step(trainer)

            trainer.step = stepping  # type: ignore[method-assign]
            trainer.run()
            return rows

        plain, turned = first_words(1, turned=False), first_words(1, turned=True) + first_words(2, turned=True)
        assert plain[0] == plain[1]
        assert len({tuple(row) for row in [plain[0], *turned]}) == 5

    def test_a_batch_that_cannot_be_shared(self) -> None:
        with pytest.raises(GrocError, match=r"training\.batch=3.*multiple of 2"):
            cut_streams(np.zeros(100, np.int32), 0, 3, SimpleNamespace(size=2, rank=0))


def test_a_cpu_records_no_steps(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(GrocError, match=r"compute\.graphs=yes needs a GPU"):
        workshop.trainer(tmp_path, tiny_config(changes={"compute.device": "cpu", "compute.graphs": "yes"}))


class TestSchedules:
    @given(st.lists(st.booleans(), max_size=20), st.integers(1, 4))
    def test_plateau_falls_after_each_row_of_epochs_without_gain(self, gains: list[bool], patience: int) -> None:
        schedule = Plateau(patience, 0.5)
        falls, waited = 0, 0
        for gained in gains:
            schedule.observe(gained)
            waited = 0 if gained else waited + 1
            if waited == patience:
                falls, waited = falls + 1, 0
            assert schedule.factor(0.3) == 0.5**falls

    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
    def test_cosine_falls_from_one_to_the_final_share(self, final: float, one: float, other: float) -> None:
        schedule = Cosine(final)
        assert schedule.factor(0) == pytest.approx(1)
        assert schedule.factor(1) == pytest.approx(final)
        assert schedule.factor(0.5) == pytest.approx((1 + final) / 2)
        assert schedule.factor(min(one, other)) >= schedule.factor(max(one, other)) - 1e-12

    def test_settings_choose_the_schedule(self) -> None:
        assert isinstance(make_schedule(Training(schedule="cosine")), Cosine)
        assert isinstance(make_schedule(Training(schedule="plateau")), Plateau)

    def test_the_rate_warms_up_in_equal_steps(self, workshop: Workshop, tmp_path: Path) -> None:
        config = tiny_config("tied", changes={"training.warmup": 4, "training.rate": 0.1, "training.patience": 99})
        trainer = workshop.trainer(tmp_path, config)
        rates = []
        for _ in range(6):
            trainer.step()
            rates.append(trainer.optimiser.param_groups[0]["lr"])
        assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])

    def test_a_shorter_step_has_a_proportionally_smaller_rate(self, workshop: Workshop, tmp_path: Path) -> None:
        trainer = workshop.trainer(tmp_path, tiny_config("tied", changes={"training.rate": 0.1}))
        length = len(trainer.streams) - 1
        while trainer.position.at + 12 <= length:
            trainer.step()
        rest = length - trainer.position.at
        assert 0 < rest < 12
        trainer.step()
        assert trainer.optimiser.param_groups[0]["lr"] == pytest.approx(0.1 * rest / 12)


def losses_of(trainer: Trainer, steps: int) -> Tensor:
    """The mean loss of each of so many steps."""
    trainer.model.train()
    torch.manual_seed(7)
    history = []
    for _ in range(steps):
        if trainer.position.at + trainer.options.unroll >= len(trainer.streams):
            trainer.position.at = 0
        before = float(trainer.losses.mean())
        trainer.step()
        history.append((float(trainer.losses.mean()) - before) / trainer.options.unroll)
    return torch.tensor(history)


class TestNaiveTwin:
    @pytest.mark.parametrize("surface", ["cnn", "ngrams"])
    def test_two_hundred_steps_stay_together(self, workshop: Workshop, tmp_path: Path, surface: str) -> None:
        losses = []
        for name in ("fast", "naive"):
            changes = {"forms.definition_dropout": 0.2, "training.rate": 5e-3}
            trainer = workshop.trainer(tmp_path / name, tiny_config("groc", surface, changes))
            if name == "naive":
                trainer.embed = partial(embed_naively, trainer.model, trainer.model.forms)
            losses.append(losses_of(trainer, 200))
        fast, naive = losses
        assert naive[-20:].mean() < naive[:20].mean() - 0.1, "it learns"
        torch.testing.assert_close(fast, naive, rtol=1e-3, atol=1e-3)


class TestParameterGroups:
    @pytest.mark.parametrize(
        ("kind", "surface", "tables"),
        [
            ("convolutional", "cnn", {"input.weight", "output.correction.weight", "output.bias.weight"}),
            ("groc", "ngrams", {"input.surface.table"}),
            ("groc", "cnn", set()),
        ],
    )
    def test_only_what_composes_words_has_the_encoders_rate(
        self, vocabulary: Vocabulary, glossary: Glossary, kind: str, surface: str, tables: set[str]
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        optimiser = make_optimiser(model, Training(encoder_rate=0.25))
        set_rate(optimiser, 0.1)
        rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
        assert len(rates) == len(list(model.parameters())), "each parameter is in one group"
        expected = {
            name: 0.1 if name.startswith("prefix.") or name in tables else 0.025 for name, _ in model.named_parameters()
        }
        assert {name: rates[id(p)] for name, p in model.named_parameters()} == expected

    @pytest.mark.parametrize(("kind", "surface"), [("groc", "cnn"), ("groc", "ngrams"), ("tied", "cnn")])
    def test_matrices_that_compose_words_have_steps_of_their_own_if_there_are_any(
        self, vocabulary: Vocabulary, glossary: Glossary, kind: str, surface: str
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        optimiser = make_optimiser(model, Training(encoder_rate=0.25, matrix_rate=5.0))
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = optimiser.param_groups
        assert sum(len(group["params"]) for group in groups) == len(names), "each parameter is in one group"
        apart = {names[id(p)] for group in groups if group.get("orthogonal") for p in group["params"]}
        composed = {"input.combination.weight"} if kind == "groc" else set()
        assert composed <= apart
        assert not [name for name in apart if name.startswith("prefix.") or "characters" in name or "table" in name]
        assert {group["share"] for group in groups if group.get("orthogonal")} == ({5.0} if apart else set())


class TestOrthogonalSteps:
    @given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 9))
    def test_they_keep_directions_and_make_them_alike(self, rows: int, columns: int, seed: int) -> None:
        matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
        left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
        within = left.T @ orthogonalised(matrix) @ right.T
        clear = sizes > 0.05 * sizes[0]  # the smallest ones would need more rounds
        torch.testing.assert_close(within, torch.diag(within.diagonal()), atol=1e-4, rtol=0)
        assert (within.diagonal()[clear] > 0.5).all()
        assert (within.diagonal() < 1.4).all()

    @pytest.mark.parametrize("size", [1.0, 1e-3])
    def test_a_matrix_moves_by_a_share_of_its_size_whatever_its_gradient_and_others_as_with_adam(
        self, size: float
    ) -> None:
        torch.manual_seed(0)
        matrix, vector = torch.nn.Parameter(torch.randn(5, 8) * size), torch.nn.Parameter(torch.randn(8))
        twin = torch.nn.Parameter(vector.detach().clone())
        groups = [{"params": [vector], "orthogonal": False}, {"params": [matrix], "orthogonal": True, "lr": 0.02}]
        both, adam = AdamAndOrthogonal(groups, lr=0.01), torch.optim.Adam([twin], lr=0.01)
        for factor in (1.0, 1e-6, 1e6):
            matrix.grad, vector.grad = torch.randn_like(matrix) * factor, torch.randn_like(vector)
            twin.grad = vector.grad.clone()
            before = matrix.detach().clone()
            both.step()
            adam.step()
            moved = (matrix.detach() - before).norm() / before.norm()
            torch.testing.assert_close(moved, torch.tensor(0.02), atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(vector, twin, atol=0, rtol=0)
        before = matrix.detach().clone()
        matrix.grad = None
        both.step()
        torch.testing.assert_close(matrix.detach(), before, atol=0, rtol=0)

    def test_a_step_that_fails_leaves_all_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        matrix, vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
        groups = [{"params": [vector], "orthogonal": False}, {"params": [matrix], "orthogonal": True}]
        optimiser = AdamAndOrthogonal(groups)

        def fails(_: torch.optim.Adam) -> None:
            raise torch.OutOfMemoryError

        monkeypatch.setattr(torch.optim.Adam, "step", fails)
        with pytest.raises(torch.OutOfMemoryError):
            optimiser.step()
        assert [group["params"] for group in optimiser.param_groups] == [[vector], [matrix]]


class TestAveragedWeights:
    def test_they_are_the_running_mean(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        averaged = AveragedWeights(model, 0.7)
        expected = model.weight.detach().clone()
        for step in range(1, 30):
            with torch.no_grad():
                model.weight.add_(torch.randn_like(model.weight))
            averaged.update()
            decay = min(0.7, step / (step + 9))
            expected = decay * expected + (1 - decay) * model.weight.detach()
        torch.testing.assert_close(averaged.average[0], expected)

    def test_swapping_twice_is_nothing_and_once_evaluates_the_average(self) -> None:
        model = torch.nn.Linear(3, 2)
        averaged = AveragedWeights(model, 0.5)
        with torch.no_grad():
            model.weight.add_(1)
        averaged.update()
        last, mean = copy.deepcopy(model.state_dict()), averaged.average[0].clone()
        averaged.swap()
        assert torch.equal(model.weight, mean)
        averaged.swap()
        assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in last.items())
