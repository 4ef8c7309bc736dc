"""A training step is what a plain loop makes of it."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import STANDSTILL, tiny_config
from hypothesis import given
from hypothesis import strategies as st
from test_distributed import NO_DROPOUT
from test_nn import lists_of_rows, segments_of
from test_training import Workshop, workshop  # noqa: F401
from torch import nn

from groc.nn import segments
from groc.nn.prefix import detach


@pytest.mark.parametrize("kind", ["groc", "tied"])
def test_a_run_gives_the_weights_and_averages_of_a_plain_loop(workshop: Workshop, tmp_path: Path, kind: str) -> None:  # noqa: F811
    changes = {
        **NO_DROPOUT, "training.activation": 2.0, "training.temporal": 1.0, "training.average": 0.9,
        "training.clip": 0.5, "training.weight_decay": 1e-3, "training.patience": 9,
    }  # fmt: skip
    trainer = workshop.trainer(tmp_path, tiny_config(kind, changes=changes))
    model, streams, options = copy.deepcopy(trainer.model), trainer.streams, trainer.options
    weights = list(model.parameters())
    optimiser = torch.optim.Adam(weights, weight_decay=options.weight_decay)
    averages, steps = [weight.detach().clone() for weight in weights], 0
    for _ in range(options.epochs):
        state = model.prefix.start(options.batch)
        for at in range(0, len(streams) - 1, options.unroll):
            window = streams[at : at + options.unroll + 1]
            embeddings = model.embed()
            prefixes, state = model.read(embeddings, window[:-1], detach(state))
            loss = F.cross_entropy(embeddings.logits(prefixes.raw.flatten(0, 1)), window[1:].flatten())
            loss = loss + 2 * prefixes.raw.square().mean()
            loss = loss + (prefixes.raw.diff(dim=0).square().mean() if len(window) > 2 else 0)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 0.5)
            optimiser.param_groups[0]["lr"] = options.rate * (len(window) - 1) / options.unroll
            optimiser.step()
            steps += 1
            with torch.no_grad():
                for average, weight in zip(averages, weights, strict=True):
                    average.lerp_(weight, 1 - min(0.9, steps / (steps + 9)))
    trainer.run()
    for one, other in zip(trainer.model.parameters(), weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    for one, other in zip(trainer.averaged.average, averages, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_frozen_embeddings_are_those_of_the_last_full_step(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    trainer = workshop.trainer(tmp_path, tiny_config(changes={**NO_DROPOUT, "training.full_updates": 0.5}))
    kinds = set()
    for _ in range(8):
        draws = trainer.draws.get_state()
        full = trainer._is_full()
        trainer.draws.set_state(draws)
        expected = trainer.model.embed() if full else trainer.frozen.mapped(torch.clone)
        trainer.step()
        for name, part in vars(trainer.frozen).items():
            torch.testing.assert_close(part, getattr(expected, name).detach())
        kinds.add(full)
    assert len(kinds) == 2


def test_words_of_a_sample_count_for_what_they_stand_for(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    trainer = workshop.trainer(tmp_path, tiny_config(changes={**NO_DROPOUT, "training.sample": 5}))
    sample = trainer.drawn.sampler.draw(trainer.streams[:2, :1])
    assert sample.log_weights.any()
    expected = trainer.model.embed().bias[sample.ids] + sample.log_weights
    torch.testing.assert_close(trainer.drawn.encode(sample).bias, expected)


@pytest.mark.parametrize("room", [False, True], ids=["as many rows as words", "room for any sample"])
@pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
def test_a_step_with_a_sample_has_the_gradients_of_one_pass(
    workshop: Workshop,  # noqa: F811
    tmp_path: Path,
    kind: str,
    room: bool,
) -> None:
    """Though gradients stop between what encodes words and what reads them, and rows that no word has are read too."""
    changes = {"training.sample": 5, "training.clip": 0.0, "training.rate": STANDSTILL, "training.activation": 2.0}
    changes |= {"forms.definition_dropout": 0.5}
    trainer = workshop.trainer(tmp_path, tiny_config(kind, changes=changes))
    model = trainer.model.train()
    trainer.drawn.policy = replace(trainer.policy, graphs=room)
    for _ in range(3):  # what one step left behind must not be found by the next
        window, random = trainer.streams[trainer.position.at :][: trainer.options.unroll + 1], torch.get_rng_state()
        sample = trainer.drawn.sampler.draw(window)
        embeddings, ids = trainer.drawn.encode(sample), sample.places(window)
        prefixes, _ = model.read(embeddings, ids[:-1], trainer.state)
        losses = model.prefix.softmax.loss(prefixes.dropped.flatten(0, 1), embeddings, ids[1:].flatten())
        loss = losses.mean() + 2.0 * prefixes.dropped.square().mean()
        expected = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        torch.set_rng_state(random)
        trainer.step()
        assert (trainer.drawn.placed is not None) == room
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


def test_random_lengths_come_in_fives_and_fit_the_window(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    trainer = workshop.trainer(tmp_path, tiny_config(changes={"training.random_unroll": True, "training.unroll": 15}))
    lengths = {trainer._unroll() for _ in range(3000)}
    assert len(lengths) > 3
    assert all(length % 5 == 0 and 5 <= length < len(trainer.window) for length in lengths)


@given(lists_of_rows, st.sampled_from([1, 2, 3]))
def test_gradients_of_rows_in_many_lists_are_added_up_in_pieces(
    case: tuple[int, list[list[int]]], longest: int
) -> None:
    rows, lists = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "LONGEST", longest)
        module = segments_of(rows, lists, [0.5] * len(lists))
        matrix = torch.randn(rows, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(module, (matrix,))


def test_a_flag_of_one_process_is_seen_by_all(tmp_path: Path) -> None:
    script = tmp_path / "flags.py"
    script.write_text(
        "from groc.compute import Group\n"
        "group = Group()\n"
        "assert group.any(group.rank == 1)\n"
        "assert not group.any(False)\n"
        "group.close()\n"
    )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run(launcher, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
