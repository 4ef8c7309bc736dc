"""Dynamic evaluation: what is read is learned, for the text alone, and never before it is scored."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from conftest import KINDS, NEW_WORDS, TERMS, TRAIN_WORDS, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from groc.adaptation.caches import Interpolated, LocalCache, NewWords
from groc.adaptation.dynamic import RECENT, SMALLEST, Dynamic, Learner, Sizes, gradient_sizes, score_dynamically
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn.prefix import detach
from groc.scoring import score, word_bands
from groc.vocabulary import END, Vocabulary

VOCABULARY = Vocabulary([*TRAIN_WORDS, END], [*range(1, len(TRAIN_WORDS) + 1), 9])
UNION = VOCABULARY.union(NEW_WORDS)
open_and_closed = pytest.mark.parametrize("kind", ["groc", "tied"])
texts = st.lists(st.integers(0, len(UNION) - 1), min_size=1, max_size=25)


def model_of(kind: str) -> LanguageModel:
    model = tiny_model(kind, "ngrams", VOCABULARY, Glossary(TERMS))
    model.set_vocabulary(UNION)
    return model


def repeated(times: int = 30) -> list[int]:
    sentence = "the old dog sleeps on the zebra and was not red <eos>".split()
    return [UNION.index[word] for word in sentence] * times


class UsualLength:
    """The obvious way: all lengths so far, and a mean that forgets, at its largest."""

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.means: list[float] = []

    def shortened(self, length: float) -> float:
        if not length:
            return 1.0
        self.logs.append(math.log(length))
        number, before = min(len(self.logs), RECENT), self.means[-1] if self.means else 0.0
        self.means.append(before * (1 - 1 / number) + self.logs[-1] / number)
        return min(1.0, math.exp(max(self.means)) / length)


def step_by_step(model: LanguageModel, ids: list[int], dynamic: Dynamic, sizes: Sizes | None = None) -> list[float]:
    """The obvious way: a copy that is differentiated piece by piece, each weight moved by its formula."""
    assert dynamic.rate is not None
    assert dynamic.decay is not None
    learner = copy.deepcopy(model).eval()
    start = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
    learning = {
        name: parameter
        for name, parameter in learner.named_parameters()
        if name.startswith("prefix.") or not dynamic.prefix_only
    }
    state, last, result, usual = learner.prefix.start(1), model.vocabulary.end, [], UsualLength()
    for first in range(0, len(ids), dynamic.every):
        piece = ids[first : first + dynamic.every]
        embeddings = learner.embed()
        prefixes, state = learner.read(embeddings, torch.tensor([last, *piece[:-1]])[:, None], state)
        result += learner.log_probs(embeddings, prefixes.dropped[:, 0])[range(len(piece)), piece].tolist()
        # Even odds, which a closed model mixes in, teach it nothing, nor do words that it cannot score.
        own = learner.prefix.softmax.scores(prefixes.dropped[:, 0], embeddings).log_softmax(1)[range(len(piece)), piece]
        loss = -own.masked_fill(own.isneginf(), 0.0).mean()
        found = torch.autograd.grad(loss, list(learning.values()), allow_unused=True)
        steps = {
            name: gradient if sizes is None else gradient / (sizes[name] + SMALLEST)
            for name, gradient in zip(learning, found, strict=True)
            if gradient is not None
        }
        length = math.sqrt(sum(float(step.double().square().sum()) for step in steps.values()))
        shortened = usual.shortened(length)
        for name, step in steps.items():
            parameter = learning[name]
            size = torch.ones_like(parameter) if sizes is None else sizes[name]
            back = (dynamic.decay * size).clamp(max=1)
            parameter.data = parameter.data + back * (start[name] - parameter.data) - dynamic.rate * shortened * step
        state, last = detach(state), piece[-1]
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix_only", [True, False])
@settings(max_examples=5)
@given(ids=texts, every=st.integers(1, 12), rate=st.floats(0, 0.5), decay=st.floats(0, 1))
def test_scores_are_those_of_a_step_by_step_loop(
    kind: str, prefix_only: bool, ids: list[int], every: int, rate: float, decay: float
) -> None:
    model, dynamic = model_of(kind), Dynamic(rate, decay, every, prefix_only)
    found = score_dynamically(model, ids, dynamic).log_prob
    np.testing.assert_allclose(found, step_by_step(model, ids, dynamic), atol=1e-4, rtol=0)


@open_and_closed
@settings(max_examples=10)
@given(ids=texts, every=st.integers(1, 12), rate=st.floats(0, 0.3), decay=st.floats(0, 1), seed=st.integers(0, 99))
def test_steps_are_matched_to_the_sizes_of_gradients(
    kind: str, ids: list[int], every: int, rate: float, decay: float, seed: int
) -> None:
    model, dynamic = model_of(kind), Dynamic(rate, decay, every)
    draw = torch.Generator().manual_seed(seed)
    sizes = {name: torch.rand(some.shape, generator=draw) * 3 for name, some in model.named_parameters()}
    found = score_dynamically(model, ids, dynamic, sizes=sizes).log_prob
    np.testing.assert_allclose(found, step_by_step(model, ids, dynamic, sizes), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_the_model_stays_as_it_was(kind: str, training: bool) -> None:
    model = model_of(kind).train(training)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = model.embeddings
    random, modes = torch.get_rng_state(), {name: module.training for name, module in model.named_modules()}
    static = score(model, repeated(2)).log_prob
    changed = score_dynamically(model, repeated(2), Dynamic(0.1, 0.0, 5)).log_prob
    assert not np.allclose(changed, static)
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.embeddings is kept
    assert modes.items() <= {name: module.training for name, module in model.named_modules()}.items()
    assert torch.equal(torch.get_rng_state(), random)
    np.testing.assert_array_equal(score(model, repeated(2)).log_prob, static)


@open_and_closed
@pytest.mark.parametrize(("prefix_only", "rate", "gain"), [(True, 10.0, 0.03), (False, 1.0, 0.3)])
def test_a_text_that_repeats_itself_is_learned(kind: str, prefix_only: bool, rate: float, gain: float) -> None:
    model, ids = model_of(kind), repeated()
    static = score(model, ids).log_prob
    learned = score_dynamically(model, ids, Dynamic(rate, 0.0, 12, prefix_only)).log_prob
    assert learned.mean() > static.mean() + gain
    assert learned[-12:].mean() > learned[:12].mean() + gain


@open_and_closed
@settings(max_examples=10)
@given(ids=texts, more=texts, seed=st.integers(0, 10**6), every=st.integers(1, 12))
def test_nothing_later_counts(kind: str, ids: list[int], more: list[int], seed: int, every: int) -> None:
    model, dynamic = model_of(kind), Dynamic(0.2, 0.01, every)
    shuffled = np.random.default_rng(seed).permutation(more).tolist()
    one, other = (score_dynamically(model, ids + rest, dynamic).log_prob for rest in (more, shuffled))
    np.testing.assert_allclose(other[: len(ids)], one[: len(ids)], atol=1e-6, rtol=0)


@open_and_closed
def test_without_steps_scores_are_the_static_ones_and_caches_come_on_top(kind: str) -> None:
    model, still = model_of(kind), Dynamic(0.0, 0.5, 7)
    ids = repeated(3)
    np.testing.assert_allclose(score_dynamically(model, ids, still).log_prob, score(model, ids).log_prob, atol=1e-5)
    one = score_dynamically(model, ids, still, correction=Interpolated(LocalCache(0.3, 20), 0.7)).log_prob
    other = score(model, ids, correction=Interpolated(LocalCache(0.3, 20), 0.7)).log_prob
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_full_way_back_leaves_the_last_step_alone_which_is_no_longer_than_usual() -> None:
    model = model_of("groc")
    learner = Learner(model, prefix_only=False)
    bands, usual = word_bands(model), UsualLength()
    trained = dict(model.named_parameters())
    for strange in (1.0, 0.5, 100.0, 1.0):
        learner.learn(torch.tensor([[1], [2]]), torch.tensor([[2], [3]]), model.prefix.start(1), bands)
        for _, gradient in learner.gradients():
            gradient *= strange
        before = {name: gradient.clone() for name, gradient in learner.gradients()}
        scale = usual.shortened(math.sqrt(sum(float(gradient.square().sum()) for gradient in before.values())))
        assert (scale < 1) == (strange == 100)
        learner.step(Dynamic(0.1, 1.0), trained, None)
        for name, gradient in before.items():
            expected = trained[name] - 0.1 * scale * gradient
            torch.testing.assert_close(learner.parameters[name].data, expected)


def test_an_easy_passage_does_not_keep_a_model_from_learning_of_the_next() -> None:
    model, draw = model_of("tied"), np.random.default_rng(1)
    easy = [UNION.index["dog"]] * 1000
    new = [int(some) for some in draw.integers(len(VOCABULARY), size=40)] * 6
    losses = [
        -score_dynamically(model, [*before, *new], Dynamic(0.5, 0.0, 10)).log_prob[-40:].mean() for before in ([], easy)
    ]
    assert losses[1] < losses[0] + 0.5


@open_and_closed
def test_an_infinite_loss_of_a_word_without_a_row_teaches_nothing(kind: str) -> None:
    model = model_of(kind)
    model.uniform = 1.0
    found = score_dynamically(model, repeated(3), Dynamic(0.1, 0.0, 5)).log_prob
    assert not np.isnan(found).any()
    assert np.isinf(found).any() == (kind == "tied")


class TestGradientSizes:
    def test_are_root_mean_squares_relative_to_their_mean(self) -> None:
        model, dynamic = model_of("groc"), Dynamic(every=4)
        ids = np.random.default_rng(1).integers(len(UNION), size=101)
        found = gradient_sizes(model, ids, dynamic)
        # 20 streams of 5 words, read in pieces of 4 and 1
        inputs, targets = (torch.from_numpy(ids[i : i + 100]).view(20, 5).T for i in (0, 1))
        squares = {name: torch.zeros_like(some) for name, some in model.named_parameters()}
        state = model.prefix.start(20)
        for window in (slice(0, 4), slice(4, 5)):
            embeddings = model.embed()
            prefixes, state = model.read(embeddings, inputs[window], state)
            log_prob = model.log_prob(embeddings, prefixes.dropped.flatten(0, 1), targets[window].flatten())
            gradients = torch.autograd.grad(-log_prob.mean(), list(model.parameters()))
            for name, gradient in zip(squares, gradients, strict=True):
                squares[name] += gradient**2 / 2
            state = detach(state)
        mean = torch.cat([square.sqrt().flatten() for square in squares.values()]).mean()
        for name, square in squares.items():
            torch.testing.assert_close(found[name], square.sqrt() / mean, rtol=1e-3, atol=1e-5)

    def test_are_those_of_the_prefix_network_where_it_alone_learns(self) -> None:
        found = gradient_sizes(model_of("tied"), repeated(4), Dynamic(prefix_only=True))
        assert found
        assert all(name.startswith("prefix.") for name in found)
        score_dynamically(model_of("tied"), repeated(2), Dynamic(prefix_only=True), sizes=found)

    def test_of_a_single_word_are_refused(self) -> None:
        with pytest.raises(GrocError, match="two words"):
            gradient_sizes(model_of("tied"), [1], Dynamic())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"rate": -1.0}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"decay": 1.5}, "decay"),
        ({"decay": -0.1}, "decay"),
        ({"every": 0}, "every"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, float], reason: str) -> None:
    with pytest.raises(GrocError, match=reason):
        Dynamic(**values)  # type: ignore[arg-type]


@open_and_closed
@pytest.mark.parametrize("weighing", [None, NewWords(1.0, 0.0)])
def test_a_rate_that_leads_astray_is_named(kind: str, weighing: NewWords | None) -> None:
    """Whether figures end as no number or as absurd ones that are still finite, or even odds hide it."""
    model = model_of(kind)
    with pytest.raises(GrocError, match=r"astray at rate 1e\+30"):
        score_dynamically(model, repeated(5), Dynamic(1e30, 0.0, 5), correction=weighing)


def test_no_words_have_no_scores() -> None:
    assert len(score_dynamically(model_of("groc"), [], Dynamic())) == 0


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(GrocError, match="outside the vocabulary"):
        score_dynamically(model_of("groc"), [10**6], Dynamic())
