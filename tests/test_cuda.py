"""What runs on a GPU alone: fused kernels and recorded steps, each against its plain twin."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
import test_letters
import torch
import torch.nn.functional as F
from conftest import tiny_config
from test_cross_entropy import whole_numbers
from test_distributed import NO_DROPOUT
from test_dynamic import model_of, repeated
from test_nn import forms_of
from test_training import Workshop, losses_of, workshop  # noqa: F401
from torch import nn

from groc.adaptation.caches import Interpolated, LocalCache
from groc.adaptation.dynamic import Dynamic, gradient_sizes, score_dynamically
from groc.naive import embed_naively
from groc.nn.cnn import CharacterCNN
from groc.nn.cross_entropy import cross_entropy
from groc.nn.segments import Segments
from groc.scoring import score

CHINESE = "".join(map(chr, range(0x4E00, 0x5E00, 7)))
"""Their bytes are more than fast memory keeps."""

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("dim", [1, 16, 80, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_over_lists_equal_those_of_embedding_bag(dim: int, dtype: torch.dtype) -> None:
    torch.manual_seed(dim)
    rows, lists = 500, 3000
    sizes = torch.randint(0, 9, (lists,))
    sizes[7] = 1000
    offsets = F.pad(sizes.cumsum(0), (1, 0)).int()
    index = (torch.rand(int(offsets[-1])) ** 3 * rows).int()  # the first rows so often that their lists are cut
    segments = Segments(index, offsets, torch.rand(lists), rows)
    matrix = torch.randn(rows, dim, dtype=dtype)
    weights = torch.randn(lists, dim)
    results = []
    for device, kind in (("cpu", torch.float64), ("cuda", dtype)):
        leaf = matrix.to(device, kind).requires_grad_()
        sums = segments.to(device)(leaf)
        (sums * weights.to(sums)).sum().backward()
        results.append((sums.detach().cpu().double(), leaf.grad.cpu().double()))
    bound = 1e-4 if dtype is torch.float32 else 3e-2
    for naive, fast in zip(*results, strict=True):
        assert float((naive - fast).norm() / naive.norm()) < bound


@pytest.mark.parametrize("strings", test_letters.STRINGS)
@pytest.mark.parametrize("characters", test_letters.CHARACTERS)
@pytest.mark.parametrize("widths", test_letters.WIDTHS)
@pytest.mark.parametrize("limit", test_letters.LIMITS)
def test_kernels_for_letters_do_what_their_twins_do(
    strings: int, characters: int, widths: list[int], limit: int
) -> None:
    test_letters.check_kernels(strings, characters, widths, limit, "cuda")


@pytest.mark.parametrize("filters", [(1,), (10, 20, 30, 40, 60, 3, 7), (32, 32, 64, 128, 256, 512)])
@pytest.mark.parametrize("characters", ["ab", "abcdefghijklmnopqrstuvwxyz", CHINESE])
def test_features_by_tables_equal_those_of_windows(characters: str, filters: tuple[int, ...]) -> None:
    """And are the same again; gradients would differ where two windows are nearly as good."""
    torch.manual_seed(1)
    draw = random.Random(1)
    some = {"".join(draw.choices(characters, k=draw.randint(1, 30))) for _ in range(300)}
    cnn = CharacterCNN(8, 16, filters, 0, 40).cuda()
    nn.init.normal_(cnn.shifts)
    strings = cnn.features(forms_of(sorted(some))).cuda()
    results = []
    for fast in (False, True, True):
        cnn.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=fast):
            pooled = cnn.pooled(strings)
        pooled.float().square().sum().backward()
        gradients = [parameter.grad for parameter in cnn.parameters() if parameter.grad is not None]
        results.append([pooled.detach().float(), *gradients])
    plain, fast, again = results
    assert strings.letters() is not None
    assert float((plain[0] - fast[0]).norm() / plain[0].norm()) < 1e-2
    assert all((one == other).all() for one, other in zip(fast, again, strict=True))


@pytest.mark.parametrize("rows", [1, 40, 1400])
def test_the_loss_with_scores_in_bfloat16_is_that_of_a_cpu(rows: int) -> None:
    learning, targets = whole_numbers(rows, 1003, 30, rows)
    there = [each.detach().cuda().requires_grad_() for each in learning]
    one, other = cross_entropy(*learning, targets), cross_entropy(*there, targets.cuda(), compiled=True)
    torch.testing.assert_close(other.cpu(), one, atol=1e-4, rtol=1e-4)
    grads = torch.autograd.grad(one.sum(), learning), torch.autograd.grad(other.sum(), there)
    for on_cpu, on_gpu in zip(*grads, strict=True):
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=0.01 * float(on_cpu.abs().max()), rtol=0.02)


@pytest.mark.parametrize("kind", ["tied", "groc"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training.random_unroll": True},
        {"training.full_updates": 0.4},
        {"training.sample": 8},
        {"training.sample": 8, "training.random_unroll": True},
        {"training.matrix_rate": 5.0, "training.random_unroll": True},
    ],
)
def test_recorded_steps_give_the_weights_that_plain_steps_give(
    workshop: Workshop,  # noqa: F811
    tmp_path: Path,
    kind: str,
    changes: dict[str, object],
) -> None:
    weights = []
    for graphs in ("no", "yes"):
        compute = {"compute.device": "cuda", "compute.compile": "no", "compute.bf16": "no", "compute.graphs": graphs}
        trainer = workshop.trainer(tmp_path / graphs, tiny_config(kind, changes={**changes, **compute}))
        trainer.model.train()
        torch.cuda.manual_seed(3)
        for _ in range(20):
            if trainer.position.at + 30 > len(trainer.streams):
                trainer.position.at = 0
            trainer.step()
        assert hasattr(trainer.launch, "graphs") == (graphs == "yes")
        weights.append([parameter.detach().clone() for parameter in trainer.model.parameters()])
    for plain, recorded in zip(*weights, strict=True):
        torch.testing.assert_close(plain, recorded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("numbers", "apart"), [("no", 0.01), ("yes", 0.1), ("all", 0.1)])
@pytest.mark.parametrize("surface", ["cnn", "ngrams"])
def test_two_hundred_fast_steps_stay_with_those_of_the_naive_twin(
    workshop: Workshop,  # noqa: F811
    tmp_path: Path,
    surface: str,
    numbers: str,
    apart: float,
) -> None:
    """Compiled, recorded, in float32 or with matrix work in bfloat16 and the kernels for letters; and with the naive
    encoder in float32 with none of that."""
    losses = []
    for fast in (False, True):
        compute = {
            "compute.bf16": numbers if fast else "no",
            **dict.fromkeys(("compute.compile", "compute.graphs"), "yes" if fast else "no"),
        }
        changes = {**NO_DROPOUT, "training.rate": 5e-3, "compute.device": "cuda", **compute}
        trainer = workshop.trainer(tmp_path / str(fast), tiny_config("groc", surface, changes))
        if not fast:
            trainer.embed = partial(embed_naively, trainer.model, trainer.model.forms)
        losses.append(losses_of(trainer, 200).view(10, 20).mean(1))
        if surface == "cnn":
            assert (trainer.model.forms.strings._letters is not None) == (fast and numbers != "no")
    naive, quick = losses
    assert naive[-1] < naive[0] - 0.1, "it learns"
    torch.testing.assert_close(quick, naive, rtol=0, atol=apart)


@pytest.mark.parametrize("surface", ["cnn", "ngrams"])
def test_no_step_waits_for_the_device(workshop: Workshop, tmp_path: Path, surface: str) -> None:  # noqa: F811
    changes = {"compute.device": "cuda", "training.average": 0.9, "training.full_updates": 0.5}
    trainer = workshop.trainer(tmp_path, tiny_config("groc", surface, changes))
    losses_of(trainer, 20)  # all kinds of steps are recorded
    trainer.position.at = 0
    torch.cuda.set_sync_debug_mode("error")
    try:
        while trainer.position.at + trainer.options.unroll < len(trainer.streams):
            trainer.step()
        with pytest.raises(RuntimeError, match="synchroniz"):
            trainer.losses.mean().item()  # which is how one would wait
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("numbers", ["yes", "all"])
@pytest.mark.parametrize("surface", ["cnn", "ngrams"])
def test_fast_steps_with_drawn_words_stay_with_plain_ones(
    workshop: Workshop,  # noqa: F811
    tmp_path: Path,
    surface: str,
    numbers: str,
) -> None:
    """The second half recorded, matrix work in bfloat16 and the kernels for letters; and none of that."""
    losses = []
    for fast in (False, True):
        compute = {"compute.bf16": numbers if fast else "no", "compute.graphs": "yes" if fast else "no"}
        changes = {**NO_DROPOUT, "training.sample": 8, "training.rate": 5e-3, "compute.device": "cuda", **compute}
        trainer = workshop.trainer(tmp_path / str(fast), tiny_config("groc", surface, changes))
        torch.cuda.manual_seed(3)  # the same draws
        losses.append(losses_of(trainer, 200).view(10, 20).mean(1))
    plain, quick = losses
    assert plain[-1] < plain[0] - 0.1, "it learns"
    torch.testing.assert_close(quick, plain, rtol=0, atol=0.15)


@pytest.mark.parametrize("sample", [0, 8])
def test_a_resumed_run_ends_as_one_that_was_never_stopped(workshop: Workshop, tmp_path: Path, sample: int) -> None:  # noqa: F811
    changes = {"compute.device": "cuda", "compute.compile": "no", "training.sample": sample}
    config = tiny_config("groc", changes=changes)
    whole = workshop.run(tmp_path / "whole", config)
    stopped = workshop.run(tmp_path / "stopped", config, stops=[2, 9])
    for one, other in zip(whole.model.parameters(), stopped.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_averages_and_evaluation_between_recorded_steps(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    """The whole of `run`, with the averaged weights swapped in for each evaluation."""
    ends = []
    for graphs in ("no", "yes"):
        compute = {"compute.device": "cuda", "compute.compile": "no", "compute.bf16": "no", "compute.graphs": graphs}
        trainer = workshop.run(tmp_path / graphs, tiny_config("groc", changes={**compute, "training.average": 0.9}))
        ends.append([*trainer.model.parameters(), *trainer.averaged.average])
    for plain, recorded in zip(*ends, strict=True):
        torch.testing.assert_close(plain, recorded, rtol=1e-5, atol=1e-6)


def test_a_model_is_scored_with_the_weights_of_the_last_recorded_step(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    trainer = workshop.trainer(tmp_path, tiny_config("groc", changes={"compute.device": "cuda"}))
    model = trainer.model
    for _ in range(6):
        trainer.step()
        kept = model.embeddings.rows(torch.arange(3, device="cuda"))
    model._kept = None
    torch.testing.assert_close(kept, model.embeddings.rows(torch.arange(3, device="cuda")))


def test_what_is_too_wide_or_too_long_for_the_kernels_takes_the_plain_way() -> None:
    for filters, longest in (((5,) * 9, 40), ((5,), 400)):
        cnn = CharacterCNN(8, 5, filters, 1, longest).cuda()
        features = cnn.features(forms_of(["bank", "banker" * 60])).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            assert cnn(features).isfinite().all()
        assert features.letters() is None


@pytest.mark.parametrize("kind", ["groc", "tied"])
def test_dynamic_evaluation_on_a_gpu_is_that_of_a_cpu(kind: str) -> None:
    """There each kind of piece is recorded: whole ones, and the shorter one at the end."""
    model, dynamic = model_of(kind), Dynamic(0.1, 0.01, 4)
    ids = repeated(5)[:-1]
    scores = []
    for device in ("cpu", "cuda"):
        model = model.to(device)
        sizes = gradient_sizes(model, ids, dynamic)
        caches = [None, Interpolated(LocalCache(0.3, 20), 0.7)]
        scores += [
            score_dynamically(model, ids, dynamic, sizes=some, correction=cache).log_prob
            for some in (None, sizes)
            for cache in caches
        ]
    for plain, recorded in zip(scores[:4], scores[4:], strict=True):
        assert abs(plain - recorded).max() < 1e-3


@pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
@pytest.mark.parametrize("streams", [1, 3])
def test_a_text_is_scored_as_on_a_cpu(kind: str, streams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are recorded: of seven whole ones of 8 words three warm up, and a shorter one is behind them."""
    replays, replay = [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replays.append(graph), replay(graph)))
    model, ids = model_of(kind), repeated()[: 60 * streams]
    on_cpu, on_gpu = (score(model.to(device), ids, streams=streams, unroll=8) for device in ("cpu", "cuda"))
    assert abs(on_cpu.log_prob - on_gpu.log_prob).max() < 1e-4
    assert len(replays) == 4
