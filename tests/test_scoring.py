"""Scores: every word once, from the words before it; and the figures made of them."""

from __future__ import annotations

import math
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from conftest import KINDS, NEW_WORDS, TERMS, TRAIN_WORDS, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from groc import scoring
from groc.compute import full_float32
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings
from groc.report import BINS, describe, summarise
from groc.scoring import Correction, Scores, Segment, in_bits, score
from groc.vocabulary import END, Vocabulary

VOCABULARY = Vocabulary([*TRAIN_WORDS, END], [*range(1, len(TRAIN_WORDS) + 1), 9])
UNION = VOCABULARY.union(NEW_WORDS)
texts = st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1, max_size=40)
union_texts = st.lists(st.integers(0, len(UNION) - 1), min_size=1, max_size=40)


@cache
def model_of(kind: str) -> LanguageModel:
    return tiny_model(kind, "ngrams", VOCABULARY, Glossary(TERMS))


@torch.no_grad()
def word_by_word(model: LanguageModel, ids: list[int], before: int | None = None) -> list[float]:
    """The slow, obvious way: read one word, write the distribution down, look up the next word."""
    model.eval()
    embeddings = model.embed()
    state = model.prefix.start(1)
    last, result = model.vocabulary.end if before is None else before, []
    for word in ids:
        prefixes, state = model.read(embeddings, torch.tensor([[last]]), state)
        logits = prefixes.dropped[0, 0].double() @ embeddings.output.double().T + embeddings.bias.double()
        p = float(logits.softmax(0)[word])
        if any(w not in model.trained for w in model.vocabulary) and not model.is_open:
            p = model.uniform * p + (1 - model.uniform) / len(model.vocabulary)
        result.append(math.log(p))
        last = word
    return result


class TestStrictScores:
    @pytest.mark.parametrize("kind", KINDS)
    @given(ids=texts, unroll=st.integers(1, 45))
    def test_equal_a_word_by_word_loop_for_any_unroll(self, kind: str, ids: list[int], unroll: int) -> None:
        model = model_of(kind)
        model.set_vocabulary(VOCABULARY)
        found = score(model, np.array(ids, np.int32), unroll=unroll)
        np.testing.assert_allclose(found.log_prob, word_by_word(model, ids), atol=1e-5, rtol=0)

    @pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
    @given(ids=union_texts, unroll=st.integers(1, 45))
    def test_equal_the_loop_over_new_words_too(self, kind: str, ids: list[int], unroll: int) -> None:
        model = model_of(kind)
        model.set_vocabulary(UNION)
        found = score(model, np.array(ids, np.int32), unroll=unroll)
        np.testing.assert_allclose(found.log_prob, word_by_word(model, ids), atol=1e-5, rtol=0)

    @given(texts)
    def test_perplexity_is_that_of_the_loop(self, ids: list[int]) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        expected = math.exp(-sum(word_by_word(model, ids)) / len(ids))
        assert summarise(score(model, np.array(ids, np.int32)))["perplexity"] == pytest.approx(expected, rel=1e-5)

    @given(texts, texts)
    def test_a_word_is_scored_before_what_follows_is_seen(self, ids: list[int], more: list[int]) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        short, long = (score(model, np.array(some, np.int32)).log_prob for some in (ids, ids + more))
        np.testing.assert_allclose(long[: len(ids)], short, atol=1e-5, rtol=0)

    def test_the_first_word_follows_an_eos(self) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        dog, end = VOCABULARY.index["dog"], VOCABULARY.end
        with torch.no_grad():
            embeddings = model.embed()
            prefixes, _ = model.read(embeddings, torch.tensor([[end]]), model.prefix.start(1))
            expected = model.log_probs(embeddings, prefixes.dropped[0])[0, dog]
        assert score(model, np.array([dog], np.int32)).log_prob[0] == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(("log_prob", "bits"), [(0.0, "0.0"), (-0.0, "0.0"), (math.log(0.25), "2.0"), (1e-9, "0.0")])
def test_bits_of_a_word(log_prob: float, bits: str) -> None:
    assert str(in_bits(log_prob)) == bits


def test_a_broken_model_is_certain_of_nothing() -> None:
    assert math.isnan(in_bits(math.nan))
    assert in_bits(-math.inf) == math.inf


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that is made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


@pytest.mark.parametrize("mixture", [1, 3])
@pytest.mark.parametrize("correction", [None, lambda segment: segment.log_prob], ids=["alone", "with a cache"])
def test_memory_does_not_grow_with_the_vocabulary(
    mixture: int, correction: Correction | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer logits at once than the words of a window have, and a vocabulary of thousands."""
    words = Vocabulary([*(f"w{i}" for i in range(4000)), END], [1] * 2000 + [0] * 2000 + [9])
    model = tiny_model("tied", "ngrams", words, Glossary(TERMS), {"output.mixtures": mixture})
    ids, whole = list(range(300)), score(model, range(300), correction=correction)
    monkeypatch.setattr(scoring, "LOGITS", 100_000)
    with LargestTensor() as largest:
        found = score(model, ids, correction=correction)
    assert len(words) < largest.numbers <= 100_000
    np.testing.assert_allclose(found.log_prob, whole.log_prob, atol=1e-5, rtol=0)


class TestStreams:
    @given(texts, st.integers(1, 12), st.integers(1, 9))
    def test_every_token_is_scored_once_and_in_order(self, ids: list[int], streams: int, unroll: int) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        found = score(model, np.array(ids, np.int32), streams=streams, unroll=unroll)
        assert found.ids.tolist() == ids
        length = -(-len(ids) // streams)
        expected: list[float] = []
        for start in range(0, len(ids), length):  # each piece from a fresh state, after the word before it
            before = ids[start - 1] if start else VOCABULARY.end
            expected += word_by_word(model, ids[start : start + length], before)
        np.testing.assert_allclose(found.log_prob, expected, atol=1e-5, rtol=0)


class TestMode:
    @pytest.mark.parametrize("training", [True, False])
    def test_the_model_stays_in_the_mode_it_was_and_dropout_is_off(self, training: bool) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        ids = np.arange(10, dtype=np.int32)
        model.train(training)
        before = torch.get_rng_state()
        first, second = score(model, ids).log_prob, score(model, ids).log_prob
        assert model.training == training
        assert all(module.training == training for module in model.modules())
        assert torch.equal(torch.get_rng_state(), before), "scoring draws no random numbers"
        np.testing.assert_array_equal(first, second)
        model.eval()

    def test_the_mode_comes_back_after_an_error(self) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        model.train()

        def breaking(done: int) -> None:  # noqa: ARG001
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            score(model, np.zeros(3, np.int32), progress=breaking)
        assert model.training
        model.eval()

    @pytest.mark.parametrize("wrong", [-1, 10**6, 2**40])
    def test_an_id_outside_the_vocabulary_is_refused(self, wrong: int) -> None:
        with pytest.raises(GrocError, match="outside the vocabulary"):
            score(model_of("groc"), [0, wrong])

    def test_an_id_that_is_no_whole_number_is_refused(self) -> None:
        for wrong in (1.5, float("nan"), "a", None, 2**70):
            with pytest.raises(GrocError, match="whole numbers"):
                score(model_of("groc"), [0, wrong])

    def test_no_words_have_no_scores(self) -> None:
        assert len(score(model_of("groc"), [])) == 0

    def test_progress_ends_at_the_number_of_words(self) -> None:
        model = model_of("groc")
        model.set_vocabulary(VOCABULARY)
        seen: list[int] = []
        score(model, np.zeros(25, np.int32), unroll=10, progress=seen.append)
        assert seen == [10, 20, 25]


class TestCorrections:
    @pytest.mark.parametrize("kind", ["groc", "tied"])
    @given(ids=union_texts, unroll=st.integers(1, 45), logits=st.integers(1, 200))
    def test_are_shown_every_word_once_with_what_the_model_says(
        self, kind: str, ids: list[int], unroll: int, logits: int
    ) -> None:
        model = model_of(kind)
        model.set_vocabulary(UNION)
        shown: list[Segment] = []

        def correct(segment: Segment) -> torch.Tensor:
            shown.append(segment)
            return torch.full_like(segment.log_prob, -len(shown))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scoring, "LOGITS", logits)
            found = score(model, ids, unroll=unroll, correction=correct)
        new = torch.from_numpy(UNION.counts == 0)
        unroll = min(unroll, max(logits // int(new.sum()), 1))  # at each place a segment has scores of all new words
        assert [len(segment) for segment in shown] == [len(ids[i : i + unroll]) for i in range(0, len(ids), unroll)]
        assert all(len(segment) == 1 or segment.among_new.scores.numel() <= logits for segment in shown)  # type: ignore[attr-defined]
        assert found.log_prob.tolist() == [-float(1 + i // unroll) for i in range(len(ids))]
        targets, prefixes, log_prob, normaliser, log_seen, is_new = (
            torch.cat([getattr(segment, name) for segment in shown])
            for name in ("targets", "prefixes", "log_prob", "log_normaliser", "log_seen", "is_new")
        )
        log_probs = model.log_probs(model.embeddings, prefixes)
        assert targets.tolist() == ids
        assert is_new.tolist() == new[ids].tolist()
        np.testing.assert_allclose(log_prob.numpy(), word_by_word(model, ids), atol=1e-5, rtol=0)
        torch.testing.assert_close(log_seen, log_probs[:, ~new].logsumexp(1), atol=1e-5, rtol=0)
        torch.testing.assert_close(normaliser, model.embeddings.logits(prefixes).logsumexp(1), atol=1e-5, rtol=0)

    def test_that_change_nothing_leave_the_scores(self) -> None:
        model = model_of("groc")
        model.set_vocabulary(UNION)
        ids = list(range(len(UNION)))
        found = score(model, ids, correction=lambda segment: segment.log_prob).log_prob
        np.testing.assert_allclose(found, score(model, ids).log_prob, atol=1e-6, rtol=0)

    def test_of_several_streams_are_refused(self) -> None:
        with pytest.raises(GrocError, match="one stream"):
            score(model_of("groc"), [1, 2], streams=2, correction=lambda segment: segment.log_prob)


counted_scores = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 9, 10, 99, 100, 999, 1000, 10**4, 10**6]), st.floats(-30, 0)),
    min_size=1,
    max_size=30,
)


def scores_of(rows: list[tuple[int, float]]) -> Scores:
    vocabulary = Vocabulary([*(f"w{i}" for i in range(len(rows))), END], [*(count for count, _ in rows), 5])
    return Scores(vocabulary, np.arange(len(rows), dtype=np.int32), np.array([log_prob for _, log_prob in rows]))


class TestReport:
    @given(counted_scores)
    def test_perplexity_is_the_exponential_of_the_mean_loss(self, rows: list[tuple[int, float]]) -> None:
        summary = summarise(scores_of(rows))
        mean = -sum(log_prob for _, log_prob in rows) / len(rows)
        assert summary["tokens"] == len(rows)
        assert summary["loss"] == pytest.approx(mean)
        assert summary["perplexity"] == pytest.approx(math.exp(mean))
        assert summary["bits_per_word"] == pytest.approx(mean / math.log(2))

    @given(counted_scores)
    def test_bins_are_a_partition_of_the_tokens(self, rows: list[tuple[int, float]]) -> None:
        summary = summarise(scores_of(rows))
        assert sum(row["tokens"] for row in summary["bins"]) == len(rows)
        assert sum(row["tokens"] * row["loss"] for row in summary["bins"]) == pytest.approx(
            summary["loss"] * len(rows), abs=1e-6
        )
        assert all(row["from"] in BINS for row in summary["bins"])
        for row in summary["bins"]:
            end = math.inf if row["to"] is None else row["to"]
            inside = [log_prob for count, log_prob in rows if row["from"] <= count <= end]
            assert row["tokens"] == len(inside) > 0
            assert row["loss"] == pytest.approx(-sum(inside) / len(inside))

    @given(counted_scores)
    def test_the_share_and_the_loss_of_unseen_words(self, rows: list[tuple[int, float]]) -> None:
        summary = summarise(scores_of(rows))
        unseen = [log_prob for count, log_prob in rows if count == 0]
        assert summary["oov_share"] == pytest.approx(len(unseen) / len(rows))
        assert summary["unseen"]["tokens"] == len(unseen)
        if unseen:
            assert summary["unseen"]["loss"] == pytest.approx(-sum(unseen) / len(unseen))
        else:
            assert summary["unseen"]["loss"] is None

    @given(counted_scores, st.randoms())
    def test_what_was_read_as_unk_is_in_no_bin(self, rows: list[tuple[int, float]], draw: Random) -> None:
        scores, as_unk = scores_of(rows), np.array([draw.random() < 0.5 for _ in rows])
        summary = summarise(scores, as_unk)
        whole = summarise(scores)
        assert {key: summary[key] for key in ("tokens", "loss")} == {key: whole[key] for key in ("tokens", "loss")}
        left = [row for row, unknown in zip(rows, as_unk, strict=True) if not unknown]
        assert summary.get("as_unk", {"tokens": 0})["tokens"] == len(rows) - len(left)
        if left:
            alone = summarise(scores_of(left))
            assert (summary["bins"], summary["unseen"]) == (alone["bins"], alone["unseen"])
        named = [line for line in describe(summary).splitlines() if line.startswith("| read as <unk>")]
        assert len(named) == bool(as_unk.any())

    @given(counted_scores)
    def test_the_text_names_every_bin(self, rows: list[tuple[int, float]]) -> None:
        summary = summarise(scores_of(rows))
        lines = describe(summary).splitlines()
        shown = lines[0].split()[1]
        assert float(shown) == pytest.approx(summary["perplexity"], rel=5e-3, abs=5e-3)
        assert len(shown) <= len("999999999.99")
        assert len([line for line in lines if line.startswith("|")]) == 2 + len(summary["bins"])

    def test_impossible_words_give_an_infinite_perplexity_and_no_crash(self) -> None:
        summary = summarise(scores_of([(1, -1000.0)]))
        assert summary["perplexity"] == math.inf

    @given(counted_scores)
    def test_surprisal_is_in_bits(self, rows: list[tuple[int, float]]) -> None:
        scores = scores_of(rows)
        np.testing.assert_allclose(2**-scores.surprisal, np.exp(scores.log_prob))


def test_scores_are_computed_in_full_float32_whatever_was_set_before(
    monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary, glossary: Glossary
) -> None:
    model = tiny_model("tied", "ngrams", vocabulary, glossary)
    seen = []
    embed = model.embed

    def watching() -> Embeddings:
        seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return embed()

    monkeypatch.setattr(model, "embed", watching)
    torch.set_float32_matmul_precision("high")
    try:
        score(model, np.zeros(3, np.int32))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == [("highest", False)]


def test_full_float32_lasts_until_the_last_thread_has_left() -> None:
    first, second = full_float32(), full_float32()
    torch.set_float32_matmul_precision("high")
    try:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "highest"
        second.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
