"""Dropout of weights and of words, and prefix networks of three layers."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import CLOSED_KINDS, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_training import Workshop, assert_same_end
from torch import Tensor, nn

from groc import checkpoint
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn.dropout import WordDropout
from groc.nn.prefix import PrefixNetwork, State
from groc.vocabulary import Vocabulary

ON_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")


def network_of(layers: int = 3, weight_dropout: float = 0.5, seed: int = 0) -> PrefixNetwork:
    """4 -> 6 -> ... -> 4 in double precision, with no other dropout that draws random numbers."""
    torch.manual_seed(seed)
    return PrefixNetwork(4, 6, layers, 0, 0, 0, weight_dropout).double()


def lstm_loop(x: Tensor, state: tuple[Tensor, Tensor], weights: list[Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM layer by its equations, word by word."""
    from_input, from_hidden, input_bias, hidden_bias = weights
    hidden, cell = state[0][0], state[1][0]
    outputs = []
    for step in x:
        gates = step @ from_input.T + input_bias + hidden @ from_hidden.T + hidden_bias
        enter, forget, candidate, leave = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs), (hidden[None], cell[None])


def twin(network: PrefixNetwork, x: Tensor, state: State, rate: float) -> tuple[Tensor, State]:
    """The network in training, as a loop. Draws one mask a layer."""
    after = []
    for layer, before in zip(network.layers, state, strict=True):
        from_input, from_hidden, *biases = layer.parameters()
        x, layer_state = lstm_loop(x, before, [from_input, F.dropout(from_hidden, rate), *biases])
        after.append(layer_state)
    return x, tuple(after)


class TestLowerPrecision:
    @pytest.mark.parametrize("rate", [0.0, 0.5])
    def test_under_autocast_it_computes_in_bfloat16_and_gives_float32(self, rate: float) -> None:
        results = []
        for lower in (False, True):
            network = network_of(2, rate).float()
            x = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
            torch.manual_seed(2)
            with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                prefixes, state = network(x, network.start(3))
            (prefixes.raw.square().sum() + state[0][1].sum()).backward()
            weight = network.layers[0].weight_hh_l0
            assert prefixes.raw.dtype == state[1][0].dtype == weight.grad.dtype == torch.float32
            results.append((prefixes.raw.detach(), x.grad, weight.grad))
        for plain, rounded in zip(*results, strict=True):
            error = float((plain - rounded).norm() / plain.norm())
            assert 1e-5 < error < 3e-2


class TestWeightDropout:
    @given(st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.2, 0.5, 0.9]), st.integers(0, 99))
    def test_equals_a_loop_with_the_same_dropped_matrix(self, length: int, layers: int, rate: float, seed: int) -> None:
        network = network_of(layers, rate, seed)
        x = torch.randn(length, 2, 4, dtype=torch.float64)
        start = tuple((torch.randn_like(hidden), torch.randn_like(cell)) for hidden, cell in network.start(2))
        results = []
        for run in (lambda: network(x, start), lambda: twin(network, x, start, rate)):
            torch.manual_seed(seed)
            out, state = run()
            out = out if isinstance(out, Tensor) else out.raw
            weights = torch.linspace(-1, 1, out.numel()).view_as(out)
            gradients = torch.autograd.grad((out * weights).sum() + state[0][1].sum(), list(network.parameters()))
            results.append([out, *(part for layer in state for part in layer), *gradients])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)

    def test_the_gradient_reaches_the_weights_that_stayed_and_no_others(self) -> None:
        network = network_of(layers=1)
        torch.manual_seed(1)
        network(torch.randn(5, 3, 4, dtype=torch.float64), network.start(3))[0].raw.sum().backward()
        weight = network.layers[0].weight_hh_l0
        torch.manual_seed(1)
        torch.randn(5, 3, 4, dtype=torch.float64)
        stayed = F.dropout(weight, 0.5) != 0
        assert 0.2 < float(stayed.double().mean()) < 0.8
        assert ((weight.grad != 0) == stayed).all()

    def test_seeds_make_it_reproducible_and_each_pass_has_a_mask_of_its_own(self) -> None:
        network, x = network_of(), torch.randn(5, 2, 4, dtype=torch.float64)

        def read(seed: int) -> tuple[Tensor, Tensor]:
            torch.manual_seed(seed)
            return tuple(network(x, network.start(2))[0].raw for _ in range(2))  # type: ignore[return-value]

        first, second = read(1)
        assert torch.equal(first, read(1)[0])
        assert not torch.allclose(first, second)
        assert not torch.allclose(first, read(2)[0])

    def test_none_when_evaluating_even_with_lstms_that_give_gradients(self) -> None:
        network, x = network_of().eval(), torch.randn(5, 2, 4, dtype=torch.float64)
        plain = network_of(weight_dropout=0.0)
        expected = plain(x, plain.start(2))[0].raw
        assert torch.equal(network(x, network.start(2))[0].raw, expected)
        for layer in network.layers:  # as dynamic evaluation does
            layer.train()
        assert torch.equal(network(x, network.start(2))[0].raw, expected)

    def test_at_rate_zero_the_layers_run_as_they_are_and_no_random_number_is_drawn(self) -> None:
        network, x = network_of(weight_dropout=0.0), torch.randn(5, 2, 4, dtype=torch.float64)
        before = torch.get_rng_state()
        found = network(x, network.start(2))[0].raw
        assert torch.equal(torch.get_rng_state(), before)
        for layer in network.layers:
            x = nn.LSTM.forward(layer, x)[0]
        assert torch.equal(found, x)

    def test_the_names_of_the_weights_are_those_of_the_layers(self) -> None:
        names = {f"layers.{i}.{name}" for i in range(3) for name, _ in nn.LSTM(1, 1).named_parameters()}
        assert network_of().state_dict().keys() == names

    @ON_CUDA
    def test_on_cuda_it_stays_with_cudnn_and_can_be_captured(self) -> None:
        network = PrefixNetwork(40, 136, 3, 0, 0, 0, 0.5).cuda()
        x = torch.randn(7, 5, 40, device="cuda")
        start = network.start(5)

        def step() -> Tensor:
            network.zero_grad(set_to_none=False)
            out: Tensor = network(x, start)[0].raw
            out.square().sum().backward()
            return out

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # cuDNN's about weights that are not in one piece
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(3):
                    step()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = step()
        graph.replay()
        first = out.clone()
        graph.replay()
        assert not torch.allclose(out, first), "each replay has a mask of its own"
        still = network.eval()(x, start)[0].raw
        with torch.backends.cudnn.flags(enabled=False):
            torch.testing.assert_close(network(x, start)[0].raw, still, atol=1e-3, rtol=1e-3)


class TestWordDropout:
    @given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.sampled_from([0.1, 0.5, 0.8]), st.integers(0, 99))
    def test_a_word_is_dropped_wherever_it_stands_or_nowhere(self, ids: list[int], rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        places = torch.tensor(ids).view(-1, 1)
        dropped = WordDropout(rate)(torch.ones(*places.shape, 3), places, 10)
        assert set(dropped.unique().tolist()) <= {0.0, float(torch.tensor(1 / (1 - rate)))}
        for word in set(ids):
            assert len(dropped[places == word].unique()) == 1

    def test_words_are_dropped_at_the_rate_and_the_mean_stays(self) -> None:
        torch.manual_seed(0)
        dropped = WordDropout(0.3)(torch.ones(100_000, 1), torch.arange(100_000), 100_000)
        assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
        assert float(dropped.mean()) == pytest.approx(1, abs=0.02)

    def test_nothing_when_not_training(self) -> None:
        x = torch.randn(4, 2, 5)
        assert WordDropout(0.9).eval()(x, torch.zeros(4, 2, dtype=torch.long), 1) is x

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_a_model_reads_with_some_words_left_out(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        changes = {f"prefix.{site}_dropout": 0.0 for site in ("input", "hidden", "output")}
        changes["prefix.word_dropout"] = 0.5
        model = tiny_model(kind, "ngrams", vocabulary, glossary, changes)
        ids = torch.arange(len(vocabulary)).repeat(2)[:, None]
        embeddings = model.embed()

        def read() -> Tensor:
            torch.manual_seed(3)
            return model.read(embeddings, ids, model.prefix.start(1))[0].raw

        whole = read()
        assert torch.equal(whole, model.prefix(embeddings.rows(ids), model.prefix.start(1))[0].raw)
        model.train()
        with_gaps = read()
        assert torch.equal(with_gaps, read())
        torch.manual_seed(3)
        kept = torch.empty(len(vocabulary)).bernoulli_(0.5)
        rows = torch.stack(
            [embeddings.input[word] * 2 if kept[word] else 0 * embeddings.input[word] for word in ids[:, 0]]
        )
        torch.testing.assert_close(with_gaps, model.prefix(rows[:, None], model.prefix.start(1))[0].raw)


THREE_LAYERS = {
    "prefix.layers": 3,
    "prefix.weight_dropout": 0.5,
    "prefix.word_dropout": 0.1,
    "output.count_bias": True,
    "training.random_unroll": True,
    "training.average": 0.9,
}


class TestThreeLayers:
    def test_are_as_wide_as_the_settings_say(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("tied", "ngrams", vocabulary, glossary, THREE_LAYERS)
        assert [(layer.input_size, layer.hidden_size) for layer in model.prefix.layers] == [(8, 12), (12, 12), (12, 8)]

    @pytest.mark.parametrize("kind", ["groc", *CLOSED_KINDS])
    def test_survive_a_checkpoint(self, kind: str, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model(kind, "ngrams", vocabulary, glossary, THREE_LAYERS)
        checkpoint.save(tmp_path, model, tiny_config(kind, changes=THREE_LAYERS), {})
        loaded = checkpoint.load(tmp_path).model
        assert loaded.state_dict().keys() == model.state_dict().keys()
        assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())
        ids = torch.arange(len(vocabulary))[:, None]
        assert torch.equal(*(self.log_probs(one, ids) for one in (model, loaded)))

    @staticmethod
    @torch.no_grad()
    def log_probs(model: LanguageModel, ids: Tensor) -> Tensor:
        prefixes, _ = model.read(model.embeddings, ids, model.prefix.start(1))
        return model.log_probs(model.embeddings, prefixes.dropped[:, 0])

    @pytest.mark.parametrize(("kind", "sample"), [("groc", 0), ("tied", 0), ("groc", 12)])
    def test_train_and_resume_as_if_never_stopped(
        self, kind: str, sample: int, tmp_path: Path, corpus_folder: Path, glossary: Glossary
    ) -> None:
        workshop = Workshop(corpus_folder, glossary)
        config = tiny_config(kind, changes={**THREE_LAYERS, "training.sample": sample, "training.epochs": 3})
        workshop.run(tmp_path / "whole", config)
        workshop.run(tmp_path / "stopped", config, stops=[5, 16])
        assert_same_end(tmp_path / "whole", tmp_path / "stopped")
