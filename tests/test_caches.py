"""Caches: equal to a loop over single words, distributions, blind to the future, safe, and of bounded memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from conftest import NEW_WORDS, TERMS, TRAIN_WORDS, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from groc.adaptation.caches import (
    Cache,
    Chain,
    ExactNeighbours,
    FaissNeighbours,
    Interpolated,
    Joined,
    Learned,
    LocalCache,
    NewWords,
    UnboundedCache,
    Unigram,
    Weights,
    neighbours,
)
from groc.adaptation.caches.correction import MEMORY, PIECE, PRIOR, SHARES
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import Correction, ScoredAmongNew, Segment, score, word_bands
from groc.vocabulary import END, Vocabulary

Array = npt.NDArray[np.float64]

WORDS, DIM, RAREST, NEW = 6, 3, (1, 3), (4, 5)
VOCABULARY = Vocabulary([*TRAIN_WORDS, END], [*range(1, len(TRAIN_WORDS) + 1), 9])
UNION = VOCABULARY.union(NEW_WORDS)


class Stream:
    """A text of random words, states and logits, in double precision."""

    def __init__(self, seed: int, length: int) -> None:
        draw = np.random.default_rng(seed)
        self.words = draw.integers(WORDS, size=length)
        self.states = draw.normal(size=(length, DIM))
        self.logits = draw.normal(size=(length, WORDS)) * 2 + 5

    def segment(self, start: int, end: int, dtype: torch.dtype = torch.float64) -> Segment:
        logits = torch.from_numpy(self.logits[start:end])
        targets = torch.from_numpy(self.words[start:end])
        log_probs = logits.log_softmax(1)
        return Segment(
            targets,
            torch.from_numpy(self.states[start:end]).to(dtype),
            log_probs.gather(1, targets[:, None])[:, 0].to(dtype),
            logits.logsumexp(1).to(dtype),
            log_probs[:, : NEW[0]].logsumexp(1).to(dtype),
            log_probs[:, list(RAREST)].logsumexp(1).to(dtype),
            torch.isin(targets, torch.tensor(NEW)),
            ScoredAmongNew(logits[:, list(NEW)].to(dtype), (targets - NEW[0]).clamp(min=0)),
            WORDS,
            len(NEW),
            len(RAREST),
        )

    def corrected(self, correction: Correction, cuts: Sequence[int] = ()) -> Array:
        """Log-probabilities after a correction that is shown the text in pieces."""
        ends = sorted({0, len(self.words), *(cut for cut in cuts if 0 < cut < len(self.words))})
        pieces = [correction(self.segment(start, end)) for start, end in pairwise(ends)]
        found: Array = torch.cat(pieces).numpy()
        return found


# --- the slow, obvious way: one word after the other, plain probabilities ---------------------------------------------

Weigh = Callable[[list[Array], Array], list[float]]
"""From the states remembered, the oldest first, and the present one to their weights."""


def frequency(states: list[Array], present: Array) -> list[float]:  # noqa: ARG001
    return [1.0] * len(states)


def by_angle(weigh: Weigh, angle: bool) -> Weigh:
    def weigh_directions(states: list[Array], present: Array) -> list[float]:
        return weigh([state / np.linalg.norm(state) for state in states], present / np.linalg.norm(present))

    return weigh_directions if angle else weigh


def fading(weigh: Weigh, recency: float) -> Weigh:
    def weigh_less(states: list[Array], present: Array) -> list[float]:
        ages = range(len(states), 0, -1)
        return [weight / (1 + age / recency) for weight, age in zip(weigh(states, present), ages, strict=True)]

    return weigh_less if recency else weigh


def likeness(theta: float, size: int) -> Weigh:
    def weigh(states: list[Array], present: Array) -> list[float]:
        forgotten = max(len(states) - size, 0)
        return [0.0] * forgotten + [math.exp(theta * float(state @ present)) for state in states[forgotten:]]

    return weigh


def nearness(theta: float, size: int, last: int, angle: bool) -> Weigh:
    def weigh(states: list[Array], present: Array) -> list[float]:
        distances = [math.dist(state, present) for state in states]
        farthest = sorted(distances)[:size][-1] if distances else 0.0
        ages = range(len(states), 0, -1)
        return [
            math.exp(theta * (1 - distance**2 / 2 if angle else -((distance / farthest) ** 2) / 2))
            if distance <= farthest or age <= last
            else 0.0
            for distance, age in zip(distances, ages, strict=True)
        ]

    return weigh


def loop(stream: Stream, weigh: Weigh, share: float | None = None, alpha: float | None = None) -> Array:
    """Interpolated with the model's share, or with one that is learned, or joined to the softmax with alpha."""
    result = []
    evidence = PRIOR * np.log(SHARES)
    for t, word in enumerate(stream.words):
        weights = weigh(list(stream.states[:t]), stream.states[t])
        scores = np.exp(stream.logits[t])
        counted = np.zeros(WORDS)
        for weight, before in zip(weights, stream.words[:t], strict=True):
            counted[before] += weight
        if alpha is not None:
            p = scores + math.exp(alpha) * counted
            p = p / p.sum()
        elif t == 0:
            p = scores / scores.sum()
            evidence = MEMORY * evidence
        else:
            model, cached = scores / scores.sum(), counted / counted.sum()
            odds = np.exp(evidence - evidence.max())
            now = float(odds @ SHARES / odds.sum()) if share is None else share
            p = now * model + (1 - now) * cached
            evidence = MEMORY * evidence + [math.log(s * model[word] + (1 - s) * cached[word]) for s in SHARES]
        result.append(math.log(p[word]))
    return np.array(result)


streams = st.builds(Stream, st.integers(0, 10**6), st.integers(1, 30))
cut_lists = st.lists(st.integers(1, 29), max_size=5)
shares, alphas, sizes = st.floats(0.01, 0.99), st.floats(-3, 3), st.integers(1, 35)
Settings = tuple[float, int, float, bool, int]
"""theta, size, recency, whether states are compared by their angle, and how many of the last are weighed besides."""
settings = st.tuples(
    st.floats(0, 3), sizes, st.sampled_from([0.0, 1.0, 10.0]), st.booleans(), st.sampled_from([0, 5, 50])
)

KINDS = ("unigram", "local", "unbounded")


def make(kind: str, theta: float, size: int, recency: float, angle: bool, last: int) -> tuple[Cache, Weigh]:
    """A cache and its twin."""
    if kind == "unigram":
        return Unigram(), frequency
    compared = "angle" if angle else "published"
    if kind == "local":
        cache: Cache = LocalCache(theta, size, recency, compared)
        weigh = likeness(theta, size)
    else:
        cache = UnboundedCache(theta, size, None, recency, compared, last)
        weigh = nearness(theta, size, last, angle)
    return cache, fading(by_angle(weigh, angle), recency)


@pytest.mark.parametrize("kind", KINDS)
class TestEqualTheLoop:
    @given(streams, cut_lists, shares, settings)
    def test_interpolated(self, kind: str, stream: Stream, cuts: list[int], share: float, settings: Settings) -> None:
        fast, slow = make(kind, *settings)
        found = stream.corrected(Interpolated(fast, share), cuts)
        np.testing.assert_allclose(found, loop(stream, slow, share=share), atol=1e-9, rtol=0)

    @given(streams, cut_lists, settings)
    def test_with_a_learned_share(self, kind: str, stream: Stream, cuts: list[int], settings: Settings) -> None:
        fast, slow = make(kind, *settings)
        found = stream.corrected(Learned(fast), cuts)
        np.testing.assert_allclose(found, loop(stream, slow), atol=1e-9, rtol=0)

    @given(streams, cut_lists, alphas, settings)
    def test_joined_to_the_softmax(
        self, kind: str, stream: Stream, cuts: list[int], alpha: float, settings: Settings
    ) -> None:
        fast, slow = make(kind, *settings)
        found = stream.corrected(Joined(fast, alpha), cuts)
        np.testing.assert_allclose(found, loop(stream, slow, alpha=alpha), atol=1e-9, rtol=0)


def everything() -> Correction:
    return Chain(
        NewWords(0.2, 0.5),
        Interpolated(Unigram(), 0.7),
        Joined(UnboundedCache(3.0, 5, recency=3, last=6), -1.0),
        Interpolated(LocalCache(0.4, 4, recency=2, likeness="angle"), 0.6),
    )


CORRECTIONS: dict[str, Callable[[], Correction]] = {
    "unigram": lambda: Interpolated(Unigram(), 0.6),
    "local": lambda: Interpolated(LocalCache(0.5, 7), 0.6),
    "local, learned": lambda: Learned(LocalCache(0.5, 7)),
    "local, joined": lambda: Joined(LocalCache(0.5, 7), 1.0),
    "unbounded": lambda: Interpolated(UnboundedCache(2.0, 7), 0.6),
    "unbounded, joined": lambda: Joined(UnboundedCache(2.0, 7), 1.0),
    "unbounded, by angle": lambda: Learned(UnboundedCache(5.0, 2, recency=1, likeness="angle", last=3)),
    "new words": lambda: NewWords(0.1, 0.3),
    "all": everything,
}
each_correction = pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)


@each_correction
class TestDistributions:
    @given(streams)
    def test_all_words_together_have_probability_one(
        self, correction: Callable[[], Correction], stream: Stream
    ) -> None:
        total = 0.0
        for word in range(WORDS):  # each as the last word, behind the same text
            stream.words[-1] = word
            total += math.exp(stream.corrected(correction())[-1])
        assert total == pytest.approx(1, abs=1e-9)

    @given(streams, cut_lists)
    def test_the_pieces_change_nothing(
        self, correction: Callable[[], Correction], stream: Stream, cuts: list[int]
    ) -> None:
        np.testing.assert_allclose(stream.corrected(correction(), cuts), stream.corrected(correction()), atol=1e-9)

    @given(streams, st.integers(1, 29), st.integers(0, 10**6))
    def test_nothing_later_counts(
        self, correction: Callable[[], Correction], stream: Stream, known: int, seed: int
    ) -> None:
        before = stream.corrected(correction())[:known]
        order, draw = np.arange(len(stream.words)), np.random.default_rng(seed)
        draw.shuffle(order[known:])
        stream.words, stream.states, stream.logits = stream.words[order], stream.states[order], stream.logits[order]
        stream.words[known:] = draw.integers(0, WORDS, len(stream.words[known:]))  # else sums over them are the same
        np.testing.assert_allclose(stream.corrected(correction())[:known], before, atol=1e-9)


def test_a_cache_counts_once_in_a_chain() -> None:
    """Reading a piece twice, it would know the words that are to come."""
    one = Unigram()
    with pytest.raises(GrocError, match="one of its own"):
        Chain(Interpolated(one, 0.9), Learned(one))


def test_a_learned_share_is_carried_through_a_long_text() -> None:
    stream = Stream(5, 2 * PIECE + 100)
    for cuts in ([], [3, 2 * PIECE + 1]):
        found = stream.corrected(Learned(Unigram()), cuts)
        np.testing.assert_allclose(found, loop(stream, frequency), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("cached", "unsuited"), [(math.log(0.2), 0.966), (-math.inf, 0.8)])
def test_a_learned_share_suits_the_text(cached: float, unsuited: float) -> None:
    """Where all words come again, and where none does: better than one that does not suit, near the best."""
    length = 4000
    segment = replace(Stream(0, length).segment(0, length), log_prob=torch.full((length,), math.log(0.001)))
    weights = Weights(torch.full((length,), cached), torch.zeros(length))
    losses = {share: -float(Interpolated(Unigram(), share).mix(segment, weights).mean()) for share in SHARES}
    learned = -float(Learned(Unigram()).mix(segment, weights).mean())
    assert learned < losses[unsuited] - 0.1
    assert learned < min(losses.values()) + 0.02


# --- over real models -------------------------------------------------------------------------------------------------


@cache
def model_of(kind: str) -> LanguageModel:
    model = tiny_model(kind, "ngrams", VOCABULARY, Glossary(TERMS))
    model.set_vocabulary(UNION)
    return model


texts = st.lists(st.integers(0, len(UNION) - 1), min_size=2, max_size=40)
# Words whose states are the very same lie equally near; which of them are taken is left open, so all are.
REAL = CORRECTIONS | {
    "unbounded": lambda: Interpolated(UnboundedCache(2.0, 50), 0.6),
    "unbounded, joined": lambda: Joined(UnboundedCache(2.0, 50), 1.0),
    "all": lambda: Chain(NewWords(0.2, 0.5), Interpolated(Unigram(), 0.7), Interpolated(UnboundedCache(3.0, 50), 0.9)),
}
each_real_correction = pytest.mark.parametrize("correction", REAL.values(), ids=REAL)
open_and_closed = pytest.mark.parametrize("kind", ["groc", "tied"])


@open_and_closed
@each_real_correction
class TestScores:
    @given(ids=texts, unroll=st.integers(1, 45))
    def test_do_not_depend_on_the_unroll(
        self, kind: str, correction: Callable[[], Correction], ids: list[int], unroll: int
    ) -> None:
        model = model_of(kind)
        whole, pieces = (score(model, ids, unroll=n, correction=correction()).log_prob for n in (256, unroll))
        np.testing.assert_allclose(pieces, whole, atol=2e-5, rtol=0)

    @given(ids=texts, more=texts, seed=st.integers(0, 10**6), unroll=st.integers(1, 45))
    def test_do_not_depend_on_later_words(
        self,
        kind: str,
        correction: Callable[[], Correction],
        ids: list[int],
        more: list[int],
        seed: int,
        unroll: int,
    ) -> None:
        model = model_of(kind)
        shuffled = np.random.default_rng(seed).permutation(more).tolist()
        one, other = (
            score(model, ids + rest, unroll=unroll, correction=correction()).log_prob for rest in (more, shuffled)
        )
        np.testing.assert_allclose(other[: len(ids)], one[: len(ids)], atol=1e-6, rtol=0)

    @given(ids=texts)
    def test_of_all_next_words_sum_to_one(
        self, kind: str, correction: Callable[[], Correction], ids: list[int]
    ) -> None:
        model = model_of(kind)
        last = [score(model, [*ids, word], correction=correction()).log_prob[-1] for word in range(len(UNION))]
        assert np.exp(last).sum() == pytest.approx(1, abs=1e-5)


@open_and_closed
@given(ids=texts, weight=st.floats(0.01, 30), sharpness=st.floats(0, 1))
def test_new_words_are_expected_as_the_rarest_are(kind: str, ids: list[int], weight: float, sharpness: float) -> None:
    model = model_of(kind)
    with torch.no_grad():
        inputs = torch.tensor([UNION.end, *ids[:-1]])[:, None]
        prefixes = model.read(model.embeddings, inputs, model.prefix.start(1))[0].dropped[:, 0]
        p = model.log_probs(model.embeddings, prefixes).double().exp().numpy()
        scores = model.embeddings.logits(prefixes).double().numpy()
    new, rarest = UNION.counts == 0, np.isin(np.arange(len(UNION)), rarest_of(UNION))
    odds = weight * p[:, rarest].sum(1, keepdims=True) / p[:, ~new].sum(1, keepdims=True)
    among = np.exp(sharpness * scores[:, new]) if kind == "groc" else np.ones_like(scores[:, new])
    p[:, ~new] /= p[:, ~new].sum(1, keepdims=True) * (1 + odds)
    p[:, new] = odds / (1 + odds) * among / among.sum(1, keepdims=True)
    np.testing.assert_allclose(p.sum(1), 1)
    found = score(model, ids, correction=NewWords(weight, sharpness)).log_prob
    np.testing.assert_allclose(found, np.log(p[range(len(ids)), ids]), atol=3e-5, rtol=0)


def rarest_of(vocabulary: Vocabulary) -> list[int]:
    """One level of counts after the other, until they make up a hundredth of the text."""
    found: list[int] = []
    for level in range(1, int(vocabulary.counts.max()) + 1):
        found += np.flatnonzero(vocabulary.counts == level).tolist()
        if vocabulary.counts[found].sum() >= 0.01 * vocabulary.counts.sum():
            break
    return found


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_the_rarest_words_of_a_list_are_the_rarest_of_training(counts: list[int], data: st.DataObject) -> None:
    """Whatever list the model has; if it has none of them, its own rarest."""
    trained = Vocabulary([END, *map(str, range(len(counts) - 1))], counts)
    kept = data.draw(st.sets(st.sampled_from(trained.words))) | {END}
    words = [word for word in trained if word in kept]
    model = model_of("groc").copy()
    model.trained = trained
    model.vocabulary = Vocabulary([*words, "new"], [*trained.counts_of(words), 0])
    bands = word_bands(model)
    assert bands.new.tolist() == np.flatnonzero(model.vocabulary.counts == 0).tolist()
    rarest = {trained.words[i] for i in rarest_of(trained)} & kept
    if not rarest and (seen := [count for count in model.vocabulary.counts if count]):
        rarest = {word for word in words if trained.counts[trained.index[word]] == min(seen)}
    assert {model.vocabulary.words[i] for i in bands.rarest.tolist()} == rarest


@open_and_closed
@pytest.mark.parametrize("counted", [True, False])
def test_where_all_words_are_new_or_none_is_their_weight_changes_nothing(kind: str, counted: bool) -> None:
    model = tiny_model(kind, "ngrams", VOCABULARY, Glossary(TERMS))
    if not counted:
        model.trained = Vocabulary(VOCABULARY.words)
        model.set_vocabulary(model.trained)
    ids = list(range(len(VOCABULARY)))
    plain = score(model, ids).log_prob
    np.testing.assert_allclose(score(model, ids, correction=NewWords(0.1, 0.2)).log_prob, plain, atol=1e-6)


# --- memory -----------------------------------------------------------------------------------------------------------


def long_stream(cache: Cache, words: int, piece: int) -> None:
    draw = torch.Generator().manual_seed(1)
    for _ in range(words // piece):
        targets = torch.randint(WORDS, (piece,), generator=draw)
        nothing = torch.zeros(piece)
        states = torch.randn(piece, DIM, generator=draw)
        cache.read(
            Segment(
                targets, states, *[nothing] * 4, targets > 9, ScoredAmongNew(nothing[:, None], targets), WORDS, 0, 0
            )
        )


class TestMemory:
    def test_a_local_cache_holds_no_more_than_its_size_and_one_piece(self) -> None:
        held, piece = LocalCache(0.5, 50), 1000
        for _ in range(2):
            long_stream(held, 50_000, piece)
            assert held.states is not None
            assert held.words is not None
            assert held.states.shape == (50, DIM)
            assert held.states.untyped_storage().nbytes() <= 4 * DIM * (50 + piece)
            assert held.words.untyped_storage().nbytes() <= 8 * (50 + piece)

    def test_a_unigram_holds_one_number_a_word_of_the_vocabulary(self) -> None:
        held = Unigram()
        long_stream(held, 100_000, 1000)
        assert held.counts is not None
        assert held.counts.untyped_storage().nbytes() == 8 * WORDS
        assert int(held.counts.sum()) == 100_000

    @pytest.mark.parametrize("last", [0, 150])
    def test_an_unbounded_cache_grows_by_one_state_and_one_number_a_word(
        self, last: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(neighbours, "BLOCK", 256)
        exact = ExactNeighbours()
        held = UnboundedCache(1.0, 5, exact, last=last)
        for number in (1, 2):
            long_stream(held, 3_000, 100)
            assert held.words is not None
            assert held.states is not None
            states = (*exact.blocks, held.states)
            assert sum(state.untyped_storage().nbytes() for state in states) == 4 * DIM * 3_000 * number
            assert held.words.untyped_storage().nbytes() == 8 * 3_000 * number


# --- neighbours -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 40))
def test_the_nearest_are_found_in_all_blocks(seed: int, pieces: list[int], number: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    states = torch.randn(sum(pieces), DIM, generator=draw, dtype=torch.float64)
    queries = torch.randn(4, DIM, generator=draw, dtype=torch.float64)
    exact = ExactNeighbours()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "BLOCK", 7)
        for piece in torch.split(states, pieces):
            exact.add(piece)
        squares, rows = exact.nearest(queries, number)
    assert len(exact.blocks) == 1 or max(map(len, exact.blocks)) < len(states)
    distances = torch.cdist(queries, states, compute_mode="donot_use_mm_for_euclid_dist").square()
    for query, found, where in zip(distances, squares, rows, strict=True):
        expected = query.argsort()[:number]
        assert set(where.tolist()) == set(expected.tolist())
        torch.testing.assert_close(found, query[where])


def test_faiss_finds_the_same_among_few() -> None:
    pytest.importorskip("faiss")
    stream = Stream(1, 300)
    cuts = range(0, 300, 50)
    one, other = (
        stream.corrected(Interpolated(UnboundedCache(2.0, 8, index, recency=2, likeness="angle", last=10), 0.5), cuts)
        for index in (FaissNeighbours(), ExactNeighbours())
    )
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_without_faiss_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(GrocError, match=r"pip install .*\[faiss\]"):
        FaissNeighbours()


# --- extremes and mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [0.0, 1e-30, 100.0, 1e6])
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1.0, 1e3])
@pytest.mark.parametrize("mix", [lambda c: Interpolated(c, 0.5), lambda c: Joined(c, 50.0), lambda c: Joined(c, -50.0)])
def test_extreme_values_give_probabilities(theta: float, scale: float, mix: Callable[[Cache], Correction]) -> None:
    stream = Stream(1, 40)
    stream.states *= scale
    for remembered in (
        LocalCache(theta, 10),
        LocalCache(theta, 10, likeness="angle"),
        UnboundedCache(theta, 10),
        UnboundedCache(theta, 10, recency=1e9, last=20),
        UnboundedCache(theta, 10, recency=2, likeness="angle", last=5),
    ):
        log_prob = mix(remembered)(stream.segment(0, 40, torch.float32))
        assert not log_prob.isnan().any()
        assert (log_prob <= 1e-6).all()
        if not isinstance(mix(remembered), Joined):
            assert log_prob.isfinite().all()
            assert (log_prob >= stream.segment(0, 40, torch.float32).log_prob + math.log(0.5) - 1e-5).all()


def test_a_far_state_among_last_words_is_no_trouble_where_the_nearest_are_all_the_same() -> None:
    stream = Stream(1, 8)
    stream.states[:] = 1.0
    stream.states[2] = 1e3
    for theta in (0.0, 1.0):
        correction = Interpolated(UnboundedCache(theta, 2, last=8), 0.5)
        assert np.isfinite(stream.corrected(correction)).all()
        single = Interpolated(UnboundedCache(theta, 2, last=8), 0.5)
        assert single(stream.segment(0, 8, torch.float32)).isfinite().all()


def test_states_that_are_all_the_same_are_a_unigram_of_the_last_words() -> None:
    stream = Stream(1, 40)
    stream.states[:] = 1.0
    expected = loop(stream, frequency, share=0.5)
    for same in (LocalCache(3.0, 40), UnboundedCache(3.0, 40)):
        np.testing.assert_allclose(stream.corrected(Interpolated(same, 0.5)), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: Interpolated(Unigram(), 0.0), "lambda"),
        (lambda: Interpolated(Unigram(), 1.0), "lambda"),
        (lambda: Interpolated(Unigram(), math.nan), "lambda"),
        (lambda: Joined(Unigram(), math.inf), "alpha"),
        (lambda: Joined(Unigram(), -1e39), "alpha"),
        (lambda: NewWords(0.0, 0.2), "weight"),
        (lambda: NewWords(math.nan, 0.2), "weight"),
        (lambda: NewWords(1.0, -0.1), "sharpness"),
        (lambda: LocalCache(-0.1, 5), "theta"),
        (lambda: LocalCache(math.inf, 5), "theta"),
        (lambda: LocalCache(1.0, 0), "size"),
        (lambda: LocalCache(1.0, 5.0), "size"),  # type: ignore[arg-type]
        (lambda: UnboundedCache(last=2.0), "last words"),  # type: ignore[arg-type]
        (lambda: score(model_of("tied"), [1], correction=LocalCache(1.0, 5)), "wrap the cache"),  # type: ignore[arg-type]
        (lambda: UnboundedCache(math.nan), "theta"),
        (lambda: UnboundedCache(1.0, 0), "size"),
        (lambda: UnboundedCache(recency=-1.0), "recency"),
        (lambda: LocalCache(1.0, 5, math.nan), "recency"),
        (lambda: LocalCache(1.0, 5, likeness="cosine"), "angle or published"),
        (lambda: UnboundedCache(last=-1), "last words"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], object], reason: str) -> None:
    with pytest.raises(GrocError, match=reason):
        wrong()
