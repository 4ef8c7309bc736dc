"""LSTM layers whose input and state gate each other, with the gradients of their loop written out."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_prefix import ON_CUDA, lstm_loop
from test_training import Workshop, assert_same_end
from torch import Tensor, nn

import groc.nn.mogrifier_loop
from groc import checkpoint
from groc.adaptation.dynamic import Dynamic, score_dynamically
from groc.lexicon import Glossary
from groc.nn.mogrifier import MogrifierLSTM
from groc.nn.prefix import PrefixNetwork, detach
from groc.vocabulary import Vocabulary

SIZE, HIDDEN = 4, 6


def layer_of(rounds: int, rank: int = 2, seed: int = 0) -> MogrifierLSTM:
    """In double precision, with gates that are neither open nor shut."""
    torch.manual_seed(seed)
    layer = MogrifierLSTM(SIZE, HIDDEN, rounds, rank).double()
    for wide in layer.wide:
        nn.init.normal_(wide)
    return layer


def twin(
    layer: MogrifierLSTM, x: Tensor, state: tuple[Tensor, Tensor], rate: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The layer by its published equations, word by word."""
    from_hidden = F.dropout(layer.from_hidden, rate)
    maps = [2 * wide @ narrow for narrow, wide in zip(layer.narrow, layer.wide, strict=True)]
    weights = [layer.from_input, from_hidden, layer.bias, torch.zeros_like(layer.bias)]
    outputs = []
    for word in x:
        hidden = state[0][0]
        for turn, gate in enumerate(maps):
            if turn % 2:
                hidden = 2 * (word @ gate.T).sigmoid() * hidden
            else:
                word = 2 * (hidden @ gate.T).sigmoid() * word
        out, state = lstm_loop(word[None], (hidden[None], state[1]), weights)
        outputs.append(out[0])
    return torch.stack(outputs), state


class TestMogrifierLSTM:
    @given(st.integers(1, 5), st.integers(1, 6), st.sampled_from([0.0, 0.5]), st.integers(0, 99))
    def test_equals_its_equations(self, length: int, rounds: int, rate: float, seed: int) -> None:
        layer = layer_of(rounds, seed=seed)
        x = torch.randn(length, 2, SIZE, dtype=torch.float64, requires_grad=True)
        start = tuple(torch.randn(1, 2, HIDDEN, dtype=torch.float64, requires_grad=True) for _ in range(2))
        results = []
        for run in (lambda: layer(x, start, nn.Dropout(rate)), lambda: twin(layer, x, start, rate)):
            torch.manual_seed(seed)
            out, (hidden, cell) = run()
            slopes = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
            loss = (out * slopes).sum() + hidden.square().sum() + cell.sum()
            results.append([out, hidden, cell, *torch.autograd.grad(loss, [x, *start, *layer.parameters()])])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)

    def test_starts_as_an_lstm(self) -> None:
        layer = MogrifierLSTM(SIZE, HIDDEN, 5, 2)
        x, start = torch.randn(7, 3, SIZE), (torch.randn(1, 3, HIDDEN), torch.randn(1, 3, HIDDEN))
        weights = [layer.from_input, layer.from_hidden, layer.bias, torch.zeros_like(layer.bias)]
        torch.testing.assert_close(layer(x, start, nn.Dropout(0.0)), lstm_loop(x, start, weights))

    def test_as_one_matrix_a_gate_is_the_same(self) -> None:
        """On a GPU the factors of a gate are multiplied before the loop."""
        layer = layer_of(4)
        x, start = torch.randn(5, 2, SIZE, dtype=torch.float64), torch.randn(2, 1, 2, HIDDEN, dtype=torch.float64)
        results = []
        for layer.dense in (False, True):
            out, (hidden, cell) = layer(x, start.unbind(), nn.Dropout(0.0))
            slopes = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
            results.append([out, hidden, cell, *torch.autograd.grad((out * slopes).sum(), list(layer.parameters()))])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)

    def test_is_compiled_with_its_network(self) -> None:
        network = PrefixNetwork(SIZE, HIDDEN, 2, 0, 0, 0, gate_rounds=2, gate_rank=2)
        for compiled in (True, False):
            network.fuse(compiled)
            assert {layer.compiled for layer in network.layers} == {compiled}

    def test_all_that_training_does_is_compiled_within_pytorchs_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond it PyTorch warns, and compiles nothing more."""
        compiled = cache(partial(torch.compile, backend="eager"))
        monkeypatch.setattr(groc.nn.mogrifier_loop, "fused", lambda function, wanted: compiled(function))
        network = PrefixNetwork(SIZE, HIDDEN, 3, 0.1, 0.1, 0.1, 0.5, gate_rounds=5, gate_rank=2)

        def read(lengths: list[int], streams: int, lower: bool, learns: bool) -> None:
            state = network.train(learns).start(streams)
            for length in lengths:
                with torch.autocast("cpu", torch.bfloat16, enabled=lower), torch.inference_mode(not learns):
                    x = torch.randn(length, streams, SIZE, requires_grad=learns)
                    prefixes, state = network(x, state)
                if learns:
                    prefixes.raw.sum().backward()
                    state = detach(state)

        torch._dynamo.reset()  # it counts by function, whoever had it compiled
        try:
            with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
                read([7, 5, 9], 4, lower=True, learns=True)
                read([9, 3], 2, lower=False, learns=False)  # the valid text behind an epoch
                read([9, 3], 1, lower=False, learns=False)  # the strict figure in the end
        finally:
            torch._dynamo.reset()

    def test_no_gate_has_more_parameters_than_freedom(self) -> None:
        layer = MogrifierLSTM(SIZE, HIDDEN, 5, 80)
        assert {narrow.shape for narrow in layer.narrow} == {(SIZE, HIDDEN), (SIZE, SIZE)}
        assert {wide.shape for wide in layer.wide} == {(SIZE, SIZE), (HIDDEN, SIZE)}

    def test_under_autocast_it_computes_in_bfloat16_and_gives_float32(self) -> None:
        layer, results = layer_of(5).float(), []
        x = torch.randn(5, 3, SIZE, requires_grad=True)
        start = torch.zeros(1, 3, HIDDEN), torch.zeros(1, 3, HIDDEN)
        for lower in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                out, state = layer(x, start, nn.Dropout(0.0))
            assert {out.dtype, *(part.dtype for part in state)} == {torch.float32}
            results.append([out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])])
        for plain, rounded in zip(*results, strict=True):
            assert 1e-5 < float(((plain - rounded).norm() / plain.norm()).detach()) < 5e-2

    def test_back_under_autocast_it_computes_in_the_type_it_had(self) -> None:
        layer = layer_of(3).float()
        x, start = torch.randn(4, 2, SIZE), torch.randn(2, 1, 2, HIDDEN)
        gradients = []
        for lower in (False, True):
            out = layer(x, start.unbind(), nn.Dropout(0.0))[0].square().sum()
            with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                gradients.append(torch.autograd.grad(out, list(layer.parameters())))
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)

    def test_no_weight_has_a_gradient_of_its_own_at_each_word(self) -> None:
        """What makes it fast: there are as many products for the gradients of weights behind many words as behind few,
        and no operation for a sum of gradients."""

        def operations(length: int) -> Counter[str]:
            layer = layer_of(5)
            x, start = torch.randn(length, 2, SIZE), torch.zeros(2, 1, 2, HIDDEN).unbind()
            out = layer.float()(x, start, nn.Dropout(0.0))[0]
            with torch.profiler.profile() as profile:
                out.sum().backward()
            return Counter(event.name for event in profile.events())

        few, many = operations(3), operations(9)
        added = {name: many[name] - few[name] for name in ("aten::mm", "aten::addmm_", "aten::add_")}
        assert added == {"aten::mm": 6 * 6, "aten::addmm_": 6 * 5, "aten::add_": 0}  # a gate has two factors here

    def test_a_second_pass_back_finds_the_same(self) -> None:
        layer = layer_of(3)
        x, start = torch.randn(4, 2, SIZE, dtype=torch.float64), torch.randn(2, 1, 2, HIDDEN, dtype=torch.float64)
        out = layer(x, start.unbind(), nn.Dropout(0.5))[0].square().sum()
        first, second = (torch.autograd.grad(out, list(layer.parameters()), retain_graph=True) for _ in range(2))
        for one, other in zip(first, second, strict=True):
            assert torch.equal(one, other)

    @ON_CUDA
    def test_on_cuda_compiled_and_captured_it_equals_itself_on_a_cpu(self) -> None:
        torch.manual_seed(0)
        network = PrefixNetwork(40, 136, 2, 0, 0, 0, gate_rounds=5, gate_rank=8)
        for layer in network.layers:
            for wide in layer.wide:
                nn.init.normal_(wide, std=0.3)
        x = torch.randn(7, 5, 40)
        expected = network(x, network.start(5))[0].raw
        expected.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in network.parameters()]
        network, x = network.cuda(), x.cuda()
        network.fuse(True)
        start = network.start(5)

        def step() -> Tensor:
            network.zero_grad(set_to_none=False)
            out: Tensor = network(x, start)[0].raw
            out.square().sum().backward()
            return out

        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step()
        graph.replay()
        torch.testing.assert_close(out.cpu(), expected, atol=1e-4, rtol=1e-4)
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad.cpu(), gradient, atol=1e-3, rtol=1e-3)


GATED = {"prefix.gate_rounds": 3, "prefix.gate_rank": 2, "prefix.weight_dropout": 0.5, "training.average": 0.9}


class TestInAModel:
    def test_survives_a_checkpoint(self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, GATED)
        checkpoint.save(tmp_path, model, tiny_config("groc", changes=GATED), {})
        loaded = checkpoint.load(tmp_path).model
        assert [type(layer) for layer in loaded.prefix.layers] == [MogrifierLSTM] * 2
        assert loaded.state_dict().keys() == model.state_dict().keys()
        assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())

    def test_without_rounds_nothing_is_gated(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"prefix.gate_rank": 2})
        assert all(isinstance(layer, nn.LSTM) for layer in model.prefix.layers)

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_trains_and_resumes_as_if_never_stopped(
        self, kind: str, tmp_path: Path, corpus_folder: Path, glossary: Glossary
    ) -> None:
        workshop = Workshop(corpus_folder, glossary)
        config = tiny_config(kind, changes={**GATED, "training.epochs": 3})
        workshop.run(tmp_path / "whole", config)
        workshop.run(tmp_path / "stopped", config, stops=[5, 16])
        assert_same_end(tmp_path / "whole", tmp_path / "stopped")

    def test_learns_while_it_reads(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, GATED)
        ids = np.full(60, 5)
        still, learning = (
            score_dynamically(model, ids, Dynamic(rate=rate, every=4)).log_prob.mean() for rate in (0.0, 0.03)
        )
        assert learning > still
