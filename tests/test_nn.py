"""The parts of the model, each compared with an obvious twin."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import tiny_model
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from groc.errors import GrocError
from groc.forms import FormsCompiler, WordForms
from groc.lexicon import Empty, Glossary
from groc.nn import softmax
from groc.nn.characters import BEGIN, END, FIRST_BYTE
from groc.nn.cnn import CharacterCNN
from groc.nn.dropout import SharedDropout
from groc.nn.embeddings import Embeddings
from groc.nn.ngrams import HashedNgrams, hash_ngrams
from groc.nn.output import ACTIVATIONS, ResidualNetwork
from groc.nn.prefix import PrefixNetwork, detach
from groc.nn.segments import Segments
from groc.nn.windows import MaximumOverPositions
from groc.vocabulary import END as END_WORD
from groc.vocabulary import Vocabulary

words = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=9)
word_lists = st.lists(words, min_size=1, max_size=6, unique=True)


def forms_of(some: list[str]) -> WordForms:
    return FormsCompiler(Empty()).compile_words(Vocabulary(dict.fromkeys([*some, END_WORD])))


def codes_of(word: str, longest: int | None = None) -> list[int]:
    return [BEGIN, *(byte + FIRST_BYTE for byte in word.encode()[:longest]), END]


@pytest.fixture(scope="module")
def cnn() -> CharacterCNN:
    torch.manual_seed(0)
    module = CharacterCNN(dim=7, characters=4, filters=(3, 5, 4, 6), highway=2, longest=12)
    nn.init.normal_(module.shifts, 0, 0.3)
    return module


@pytest.fixture(scope="module")
def ngrams() -> HashedNgrams:
    torch.manual_seed(0)
    return HashedNgrams(dim=7, buckets=100_000, rank=5, shortest=1, longest=4, hashes=2)


@pytest.fixture(params=["cnn", "ngrams"])
def surface(request: pytest.FixtureRequest) -> CharacterCNN | HashedNgrams:
    encoder: CharacterCNN | HashedNgrams = request.getfixturevalue(request.param)
    return encoder


@torch.no_grad()
def vectors(surface: CharacterCNN | HashedNgrams, some: list[str]) -> dict[str, Tensor]:
    forms = forms_of(some)
    encoded = surface(surface.features(forms))
    return {forms.string(i): encoded[i] for i in range(len(forms))}


class TestCharactersAreSeenInOrder:
    @pytest.mark.parametrize(("one", "other"), [("stop", "pots"), ("dog", "god"), ("ab", "ba"), ("東京", "京東")])
    def test_anagrams_differ(self, surface: CharacterCNN | HashedNgrams, one: str, other: str) -> None:
        both = vectors(surface, [one, other])
        assert (both[one] - both[other]).abs().max() > 1e-3

    def test_all_orders_of_four_letters_differ(self, surface: CharacterCNN | HashedNgrams) -> None:
        orders = ["".join(order) for order in permutations("stop")]
        matrix = torch.stack([vectors(surface, orders)[word] for word in orders])
        distances = torch.cdist(matrix, matrix) + torch.eye(len(orders)) * 9
        assert distances.min() > 1e-3

    @given(st.lists(st.sampled_from("abcdefghij"), min_size=2, max_size=6, unique=True))
    def test_a_word_and_its_reverse_differ(self, surface: CharacterCNN | HashedNgrams, letters: list[str]) -> None:
        word = "".join(letters)
        both = vectors(surface, [word, word[::-1]])
        assert not torch.allclose(both[word], both[word[::-1]], atol=1e-4)

    def test_the_beginning_and_the_end_of_a_word_are_known(self, surface: CharacterCNN | HashedNgrams) -> None:
        some = vectors(surface, ["aaab", "baaa", "aaaab"])
        assert not torch.allclose(some["aaab"], some["baaa"], atol=1e-4)
        assert not torch.allclose(some["aaab"], some["aaaab"], atol=1e-4)


class TestIndependenceOfOtherWords:
    @given(word_lists, word_lists)
    def test_a_vector_depends_on_the_word_alone(
        self, surface: CharacterCNN | HashedNgrams, some: list[str], more: list[str]
    ) -> None:
        alone, together = vectors(surface, some), vectors(surface, [*more, "x" * 40, *some])
        for word in some:
            torch.testing.assert_close(together[word], alone[word], atol=1e-6, rtol=1e-6)


class TestCharacterCNN:
    @staticmethod
    def naive_pooled(cnn: CharacterCNN, word: str) -> Tensor:
        x = torch.stack([cnn.characters[code - 1] for code in codes_of(word, cnn.longest)])  # [L, c]
        maxima = []
        for width, kernel in zip(cnn.widths, cnn.kernels, strict=True):
            weight = torch.stack(
                [
                    torch.stack([kernel[at * x.shape[1] : (at + 1) * x.shape[1], out] for at in range(width)], 1)
                    for out in range(kernel.shape[1])
                ]
            )  # [filters, c, width]
            behind = torch.cat([x, torch.zeros(width - 1, x.shape[1])])
            scores = F.conv1d(behind.T[None], weight)[0]  # [filters, L]
            maxima += [max(row.tolist()) for row in scores]
        hidden = torch.relu(torch.tensor(maxima) + cnn.shifts)
        for layer in cnn.highways:
            size = len(hidden)
            transform = torch.relu(layer.both.weight[:size] @ hidden + layer.both.bias[:size])
            gate = torch.sigmoid(layer.both.weight[size:] @ hidden + layer.both.bias[size:])
            hidden = gate * transform + (1 - gate) * hidden
        return hidden

    @given(word_lists)
    @torch.no_grad()
    def test_equals_one_convolution_for_each_word_and_width(self, cnn: CharacterCNN, some: list[str]) -> None:
        forms = forms_of(some)
        features = cnn.features(forms)
        pooled = cnn.pooled(features)
        expected = torch.stack([self.naive_pooled(cnn, forms.string(i)) for i in range(len(forms))])
        torch.testing.assert_close(pooled, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(cnn(features), cnn.projection(expected), atol=1e-5, rtol=1e-5)

    def test_bytes_beyond_the_longest_are_not_seen_but_the_end_mark_is(self, cnn: CharacterCNN) -> None:
        some = vectors(cnn, ["a" * 11, "a" * 12, "a" * 12 + "b", "a" * 12 + "cd"])
        torch.testing.assert_close(some["a" * 12 + "b"], some["a" * 12 + "cd"])
        torch.testing.assert_close(some["a" * 12], some["a" * 12 + "cd"])

    def test_calibration_gives_zero_mean_and_the_wanted_deviation(self) -> None:
        torch.manual_seed(0)
        cnn = CharacterCNN(16, 4, (8, 8, 8), 1, 20)
        features = cnn.features(forms_of([f"word{i}{i % 7}x" for i in range(200)]))
        cnn.calibrate(features, 0.05)
        encoded = cnn(features).detach()
        assert float(encoded.std()) == pytest.approx(0.05, rel=0.05)
        assert float(encoded.mean(0).abs().max()) < 1e-4


class TestHashedNgrams:
    LENGTHS = range(1, 5)

    @classmethod
    def naive(cls, word: str) -> list[tuple[int, ...]]:
        codes = codes_of(word)
        return [tuple(codes[at : at + n]) for n in cls.LENGTHS for at in range(len(codes) - n + 1)]

    @given(word_lists, st.integers(1, 3))
    def test_equal_ngrams_and_only_they_share_a_bucket(self, some: list[str], hashes: int) -> None:
        forms = forms_of(some)
        index, offsets = hash_ngrams(forms, self.LENGTHS, 2**31 - 1, hashes)
        buckets: dict[tuple[int, ...], int] = {}
        for i in range(len(forms)):
            expected = [(*ngram, number) for ngram in self.naive(forms.string(i)) for number in range(hashes)]
            found = index[offsets[i] : offsets[i + 1]].tolist()
            assert len(found) == len(expected)
            by_length = sorted(expected, key=lambda ngram: (len(ngram), ngram[-1]))  # length by length, hash by hash
            for ngram, bucket in zip(by_length, found, strict=True):
                assert buckets.setdefault(ngram, bucket) == bucket
        assert len(set(buckets.values())) == len(buckets)

    @given(word_lists, st.integers(1, 50))
    def test_buckets_are_in_range(self, some: list[str], buckets: int) -> None:
        index, _ = hash_ngrams(forms_of(some), range(2, 4), buckets, 2)
        assert index.min() >= 0
        assert index.max() < buckets

    def test_a_list_of_one_word_that_is_shorter_than_an_ngram(self) -> None:
        forms = FormsCompiler(Empty()).compile_words(["a"])
        assert len(hash_ngrams(forms, range(1, 7), 1000, 1)[0]) == 3 + 2 + 1  # begin mark, a, end mark

    @given(words)
    def test_only_the_wanted_lengths_are_used(self, word: str) -> None:
        forms = forms_of([word])
        length = len(word.encode()) + 2
        _, offsets = hash_ngrams(forms, range(2, 4), 1000, 1)
        assert offsets[1] == max(length - 1, 0) + max(length - 2, 0)

    def test_the_hash_is_the_same_in_every_version(self) -> None:
        """Trained tables depend on it: were it to change, every n-gram checkpoint would be lost."""
        index, offsets = hash_ngrams(forms_of(["ab"]), range(1, 4), 1000, 2)
        assert index[: offsets[1]].tolist() == PINNED_HASHES

    @given(word_lists)
    @torch.no_grad()
    def test_a_vector_is_the_scaled_sum_of_its_ngrams_rows(self, ngrams: HashedNgrams, some: list[str]) -> None:
        forms = forms_of(some)
        index, offsets = hash_ngrams(forms, ngrams.lengths, ngrams.buckets, ngrams.hashes)
        encoded = ngrams(ngrams.features(forms))
        for i in range(len(forms)):
            rows = [ngrams.table[bucket] for bucket in index[offsets[i] : offsets[i + 1]]]
            expected = ngrams.projection.weight @ (sum(rows) / len(rows) ** 0.5)
            torch.testing.assert_close(encoded[i], expected, atol=1e-5, rtol=1e-5)

    @given(word_lists, word_lists, word_lists)
    def test_ngrams_that_training_never_had_are_left_out(
        self, first: list[str], then: list[str], others: list[str]
    ) -> None:
        module = HashedNgrams(4, 100_000, 2, 1, 4, 2, familiar=True)  # with so many bits no two n-grams share one
        every = HashedNgrams(4, 100_000, 2, 1, 4, 2)
        assert torch.equal(module.features(forms_of(others)).index, every.features(forms_of(others)).index)
        module.remember(forms_of(first))
        module.remember(forms_of(then))
        known = {ngram for word in (*first, *then, END_WORD) for ngram in self.naive(word)}
        assert torch.equal(module.features(forms_of(then)).index, every.features(forms_of(then)).index)
        forms = forms_of(others)
        found, whole = module.features(forms), every.features(forms)
        for i in range(len(forms)):
            ngrams = self.naive(forms.string(i))  # length by length, as they are hashed
            lists = {n: [ngram for ngram in ngrams if len(ngram) == n] for n in self.LENGTHS}
            rows = iter(whole.index[whole.offsets[i] : whole.offsets[i + 1]].tolist())
            expected = [
                row
                for some in lists.values()
                for _ in range(2)
                for ngram in some
                for row in [next(rows)]
                if ngram in known
            ]
            assert found.index[found.offsets[i] : found.offsets[i + 1]].tolist() == expected
            assert float(found.scale[i]) == pytest.approx(max(len(expected), 1) ** -0.5)

    def test_what_is_familiar_is_part_of_the_weights(self) -> None:
        module, twin = (HashedNgrams(4, 1000, 2, 1, 4, 2, familiar=True) for _ in range(2))
        module.remember(forms_of(["bass", "base"]))
        twin.load_state_dict(module.state_dict())
        for some in (module, twin):
            assert len(some.features(forms_of(["zzzz"])).index) < len(module.features(forms_of(["bass"])).index)
        assert torch.equal(module.features(forms_of(["abase"])).index, twin.features(forms_of(["abase"])).index)

    def test_calibration_gives_the_wanted_deviation(self) -> None:
        torch.manual_seed(0)
        module = HashedNgrams(16, 500, 8, 1, 4, 2)
        features = module.features(forms_of([f"word{i}" for i in range(100)]))
        module.calibrate(features, 0.05)
        assert float(module(features).detach().std()) == pytest.approx(0.05, rel=0.05)


PINNED_HASHES = [520, 733, 505, 604, 345, 710, 612, 806, 99, 780, 502, 190, 224, 874, 60, 178, 391, 781]

lists_of_rows = st.integers(1, 6).flatmap(
    lambda rows: st.tuples(
        st.just(rows), st.lists(st.lists(st.integers(0, rows - 1), max_size=5), min_size=1, max_size=5)
    )
)


def segments_of(rows: int, lists: list[list[int]], scale: list[float]) -> Segments:
    index = np.array([row for some in lists for row in some], np.int32)
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return Segments.of(index, offsets, np.array(scale, np.float32), rows)


class TestSegments:
    @given(lists_of_rows, st.data())
    def test_forward_and_backward_equal_a_loop(self, case: tuple[int, list[list[int]]], data: st.DataObject) -> None:
        rows, lists = case
        scale = data.draw(st.lists(st.floats(0.125, 2, width=32), min_size=len(lists), max_size=len(lists)))
        torch.manual_seed(len(lists))
        matrix = torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)
        twin = matrix.detach().clone().requires_grad_()
        found = segments_of(rows, lists, scale)(matrix)
        expected = torch.stack(
            [
                factor * sum((twin[row] for row in some), torch.zeros(3, dtype=torch.float64))
                for some, factor in zip(lists, scale, strict=True)
            ]
        )
        torch.testing.assert_close(found, expected)
        weights = torch.randn_like(expected)
        (found * weights).sum().backward()
        if any(lists):
            (expected * weights).sum().backward()
        torch.testing.assert_close(matrix.grad, twin.grad if twin.grad is not None else torch.zeros_like(twin))

    @given(lists_of_rows)
    def test_the_gradient_is_that_of_finite_differences(self, case: tuple[int, list[list[int]]]) -> None:
        rows, lists = case
        module = segments_of(rows, lists, [0.5] * len(lists))
        matrix = torch.randn(rows, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(module, (matrix,))

    def test_its_tensors_are_no_part_of_a_checkpoint(self) -> None:
        assert not segments_of(2, [[0], [1, 1]], [1, 1]).state_dict()


class TestSharedDropout:
    def test_one_mask_for_all_positions(self) -> None:
        torch.manual_seed(0)
        dropped = SharedDropout(0.5)(torch.ones(7, 3, 40))
        assert (dropped == dropped[:1]).all()
        assert set(dropped.unique().tolist()) == {0.0, 2.0}
        assert not (dropped[0, 0] == dropped[0, 1]).all(), "sequences have masks of their own"

    def test_nothing_when_not_training(self) -> None:
        x = torch.randn(4, 5)
        assert SharedDropout(0.9).eval()(x) is x

    def test_it_keeps_the_mean(self) -> None:
        torch.manual_seed(0)
        assert float(SharedDropout(0.3)(torch.ones(1, 100_000)).mean()) == pytest.approx(1, abs=0.02)

    @pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
    def test_an_impossible_rate(self, rate: float) -> None:
        with pytest.raises(GrocError, match="dropout"):
            SharedDropout(rate)


class TestPrefixNetwork:
    @pytest.mark.parametrize("layers", [1, 2, 3])
    def test_the_last_layer_is_as_wide_as_a_word(self, layers: int) -> None:
        network = PrefixNetwork(6, 10, layers, 0, 0, 0)
        prefixes, state = network(torch.randn(4, 3, 6), network.start(3))
        assert prefixes.dropped.shape == (4, 3, 6)
        assert [hidden.shape[-1] for hidden, _ in state] == [10] * (layers - 1) + [6]

    @given(st.integers(1, 8), st.integers(1, 7))
    def test_reading_in_pieces_with_the_state_carried_is_reading_at_once(self, length: int, cut: int) -> None:
        assume(cut < length)
        torch.manual_seed(length)
        network = PrefixNetwork(4, 5, 2, 0.3, 0.3, 0.3).eval()
        x = torch.randn(length, 2, 4)
        whole, end = network(x, network.start(2))
        first, state = network(x[:cut], network.start(2))
        second, last = network(x[cut:], detach(state))
        torch.testing.assert_close(torch.cat([first.dropped, second.dropped]), whole.dropped)
        for one, other in zip(end, last, strict=True):
            torch.testing.assert_close(one, other)

    def test_dropout_is_at_every_site(self) -> None:
        x = torch.randn(5, 2, 4)
        for rates in ((0.5, 0, 0), (0, 0.5, 0), (0, 0, 0.5)):
            torch.manual_seed(0)
            network = PrefixNetwork(4, 6, 2, *rates)
            trained, still = network(x, network.start(2))[0], network.eval()(x, network.start(2))[0]
            assert not torch.allclose(trained.dropped, still.dropped)
            assert torch.allclose(trained.raw, still.raw) == (rates[2] > 0), "raw is before the last dropout"


class TestResidualNetwork:
    @pytest.mark.parametrize("depth", [0, 1, 3])
    @pytest.mark.parametrize("activation", ["relu", "selu", "tanh"])
    def test_each_layer_adds_the_input_again(self, depth: int, activation: str) -> None:
        torch.manual_seed(0)
        network = ResidualNetwork(5, depth, activation, SharedDropout(0.0))
        e_in = torch.randn(4, 5)
        expected = e_in
        for layer in network.layers:
            expected = ACTIVATIONS[activation](expected @ layer.weight.T + layer.bias) + e_in
        torch.testing.assert_close(network(e_in), expected)


class TestSoftmax:
    @given(st.integers(1, 6), st.integers(1, 9))
    def test_the_loss_is_minus_the_log_of_a_plain_softmax(self, number: int, vocabulary: int) -> None:
        torch.manual_seed(number)
        prefixes = torch.randn(number, 3)
        embeddings = Embeddings(torch.zeros(0), torch.randn(vocabulary, 3), torch.randn(vocabulary))
        targets = torch.randint(vocabulary, (number,))
        for i, loss in enumerate(softmax.loss(prefixes, embeddings, targets)):
            pairs = zip(embeddings.output, embeddings.bias, strict=True)
            powers = [float((prefixes[i] @ e).exp() * b.exp()) for e, b in pairs]
            assert float(loss) == pytest.approx(-np.log(powers[targets[i]] / sum(powers)), abs=1e-5)

    @given(st.floats(0.01, 0.99), st.lists(st.floats(0.01, 1), min_size=1, max_size=5))
    def test_mixing_with_uniform_is_a_weighted_mean(self, share: float, weights: list[float]) -> None:
        p = torch.tensor(weights) / sum(weights)
        mixed = softmax.with_uniform(p.log(), share, len(weights)).exp()
        torch.testing.assert_close(mixed, share * p + (1 - share) / len(weights))
        assert float(mixed.sum()) == pytest.approx(1, abs=1e-5)


def test_a_maximum_has_one_place_to_send_its_gradient_to() -> None:
    scores = torch.zeros(2, 4, 3, requires_grad=True)
    MaximumOverPositions.apply(scores, torch.tensor([4, 2])).sum().backward()
    assert scores.grad.sum().item() == 6
    assert scores.grad.max().item() == 1


@pytest.mark.parametrize(("kind", "surface"), [("groc", "cnn"), ("groc", "ngrams"), ("convolutional", "cnn")])
def test_what_was_made_in_inference_mode_serves_gradients_too(
    kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
) -> None:
    model = tiny_model(kind, surface, vocabulary, glossary)
    with torch.inference_mode():
        model.embed()
    model.embed().output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
