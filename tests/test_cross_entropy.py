"""The loss with scores in bfloat16 is that of PyTorch's, but for the rounding of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import tiny_config
from hypothesis import given
from hypothesis import strategies as st
from test_distributed import NO_DROPOUT
from test_training import Workshop, metrics, workshop  # noqa: F401
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from groc.nn.cross_entropy import cross_entropy
from groc.nn.embeddings import Embeddings
from groc.nn.softmax import Mixture, Softmax


def whole_numbers(rows: int, words: int, dim: int, seed: int) -> tuple[list[Tensor], Tensor]:
    """Prefixes, output embeddings and biases whose scores bfloat16 has exactly, and targets."""
    draw = torch.Generator().manual_seed(seed)
    learning = [torch.randint(-2, 3, size, generator=draw).float() for size in ((rows, dim), (words, dim), (words,))]
    return [each.requires_grad_() for each in learning], torch.randint(words, (rows,), generator=draw)


@given(st.integers(1, 9), st.integers(1, 130), st.integers(1, 20), st.integers(0, 99))
def test_scores_that_need_no_rounding_give_the_loss_itself(rows: int, words: int, dim: int, seed: int) -> None:
    (prefixes, output, bias), targets = whole_numbers(rows, words, dim, seed)
    found = cross_entropy(prefixes, output, bias, targets)
    twin = F.cross_entropy(prefixes @ output.T + bias, targets, reduction="none")
    torch.testing.assert_close(found, twin, atol=1e-5, rtol=1e-5)
    weights = torch.linspace(0.1, 1, rows)
    grads = (torch.autograd.grad((each * weights).sum(), (prefixes, output, bias)) for each in (found, twin))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=0.02 * float(other.abs().max()) + 1e-6, rtol=0.02)


def test_a_word_that_cannot_be_scored_takes_nothing_from_others() -> None:
    (prefixes, output, bias), targets = whole_numbers(5, 9, 4, 1)
    closed = torch.where(torch.arange(9) < 3, -torch.inf, bias.detach()).requires_grad_()
    targets = 3 + targets % 6
    found = cross_entropy(prefixes, output, closed, targets)
    torch.testing.assert_close(found, F.cross_entropy(prefixes @ output.T + closed, targets, reduction="none"))
    for gradient in torch.autograd.grad(found.sum(), (prefixes, output, closed)):
        assert gradient.isfinite().all()
    assert not gradient[:3].any()


def test_nothing_is_computed_for_what_does_not_learn() -> None:
    (prefixes, output, bias), targets = whole_numbers(5, 9, 4, 1)
    products: list[int] = []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            products.append(func is torch.ops.aten.mm.default)
            return func(*args, **(kwargs or {}))

    loss = cross_entropy(prefixes, output.detach(), bias.detach(), targets).sum()
    with Products():
        loss.backward()
    assert sum(products) == 1
    assert prefixes.grad is not None


def test_what_rounding_takes_from_a_bias_is_not_lost() -> None:
    bias, output = torch.tensor([1000.3, 1001.5]), torch.tensor([[-1000.0], [-1000.0]])  # as bfloat16 has both biases
    found = cross_entropy(torch.ones(2, 1), output, bias, torch.tensor([0, 1]))
    twin = F.cross_entropy(torch.tensor([[0.3, 1.5]]).expand(2, 2), torch.tensor([0, 1]), reduction="none")
    torch.testing.assert_close(found, twin, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("softmax", [Softmax(), Mixture(6, 3, 0.0)], ids=["one", "mixture"])
def test_it_is_used_where_products_are_in_bfloat16(softmax: Softmax) -> None:
    torch.manual_seed(0)
    prefixes, output, bias = torch.randn(40, 6, requires_grad=True), torch.randn(50, 6), torch.randn(50)
    embeddings, targets = Embeddings(output, output.requires_grad_(), bias.requires_grad_()), torch.arange(40)
    plain = softmax.loss(prefixes, embeddings, targets)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = softmax.loss(prefixes, embeddings, targets)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, plain)
    torch.testing.assert_close(rounded, plain, atol=0.05, rtol=0.01)
    for leaf in (prefixes, output, bias):
        one, other = (torch.autograd.grad(each.sum(), leaf, retain_graph=True)[0] for each in (rounded, plain))
        torch.testing.assert_close(one, other, atol=0.03 * float(other.abs().max()), rtol=0.05)


def test_training_in_bfloat16_throughout_stays_with_training_in_float32(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    curves = []
    for way in ("no", "all"):
        config = tiny_config(changes={**NO_DROPOUT, "compute.bf16": way, "compute.device": "cpu"})
        workshop.run(tmp_path / way, config)
        curves.append([row["train_loss"] for row in metrics(tmp_path / way)])
    assert curves[0] != curves[1]
    assert curves[1] == pytest.approx(curves[0], abs=0.02)
