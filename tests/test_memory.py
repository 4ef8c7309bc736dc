"""Word memory: whole segments at once equal a loop over the words, and no word sees what comes behind it."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import CLOSED_KINDS, NEW_WORDS, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from groc.adaptation import memory
from groc.adaptation.memory import WordMemory, by_occurrence, describe, occurrences_before
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import Scores, Segment, score, scored_segment, word_bands
from groc.vocabulary import Vocabulary

WORDS = ["the", "dog", "ship", "sea", "<eos>", *NEW_WORDS[:4]]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def model(vocabulary: Vocabulary, glossary: Glossary) -> LanguageModel:
    """In double precision, so that equal means equal."""
    model = tiny_model("groc", "ngrams", vocabulary, glossary).double()
    model.set_vocabulary(vocabulary.union(NEW_WORDS))
    return model


def tensors(segment: Segment) -> list[tuple[str, Tensor]]:
    return [(name, part) for name, part in vars(segment).items() if isinstance(part, Tensor)]


def ids_of(model: LanguageModel, text: list[str]) -> list[int]:
    return [model.vocabulary.index[word] for word in text]


@torch.no_grad()
def naive(model: LanguageModel, ids: list[int], scale: float, patience: float) -> list[Tensor]:
    """log p of every word of the vocabulary at each place of a text, by the definition, word by word."""
    embeddings, counts = model.embeddings, model.vocabulary.counts
    everything = torch.arange(len(counts))
    vectors, bias = embeddings.output_rows(everything), embeddings.logits(torch.zeros(1, 8).double())[0]
    state, log_probs = model.prefix.start(1), []
    states: list[Tensor] = []
    directions: defaultdict[int, list[Tensor]] = defaultdict(list)
    for last, word in zip([model.vocabulary.end, *ids], ids, strict=False):
        prefixes, state = model.read(embeddings, torch.tensor([[last]]), state)
        states.append(prefixes.dropped[0, 0])
        blended = vectors.clone()
        for known, found in directions.items():
            n, vector = len(found), vectors[known]
            weight = n / (n + patience)
            blended[known] = (1 - weight) * vector + weight * scale * vector.norm() * torch.stack(found).mean(0)
        log_probs.append((blended @ states[-1] + bias).log_softmax(0))
        if counts[word] == 0:
            off = states[-1] - torch.stack(states).mean(0)
            directions[word].append(off / off.norm().clamp(min=1e-12))
    return log_probs


class TestMemory:
    @given(texts, st.floats(0, 3), st.floats(0.1, 5), st.integers(1, 50))
    def test_equals_the_loop_over_words(
        self, model: LanguageModel, text: list[str], scale: float, patience: float, unroll: int
    ) -> None:
        ids = ids_of(model, text)
        expected = [
            float(log_probs[word]) for log_probs, word in zip(naive(model, ids, scale, patience), ids, strict=True)
        ]
        scores = score(model, ids, unroll=unroll, correction=WordMemory(model, scale, patience))
        np.testing.assert_allclose(scores.log_prob, expected, atol=1e-9, rtol=0)

    def test_in_single_precision_it_is_right_to_a_millionth(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        single = tiny_model("groc", "ngrams", vocabulary, glossary)
        single.set_vocabulary(vocabulary.union(NEW_WORDS))
        ids = ids_of(single, (WORDS * 40)[::7])
        rough = score(single, ids, correction=WordMemory(single)).log_prob
        double = single.double()
        exact = score(double, ids, correction=WordMemory(double)).log_prob
        assert abs(rough - exact).max() < 3e-6

    @pytest.mark.parametrize("gain", [1.0, 30.0, 300.0, 3000.0])
    @pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
    @torch.no_grad()
    def test_a_model_that_is_sure_of_new_words_gives_probabilities(
        self, vocabulary: Vocabulary, glossary: Glossary, gain: float, kind: torch.dtype, bound: float
    ) -> None:
        """Nothing is then left for other words that could be told from rounding, and yet all sums to one."""
        model = tiny_model("groc", "ngrams", vocabulary, glossary).to(kind)
        model.input.surface.table.mul_(gain)  # type: ignore[union-attr,operator]
        model.set_vocabulary(vocabulary.union(NEW_WORDS))
        ids = torch.tensor(ids_of(model, (WORDS * 20)[::7]))
        embeddings, bands = model.embeddings, word_bands(model)
        states = model.read(embeddings, ids[:-1, None], model.prefix.start(1))[0].dropped[:, 0]
        memory, least = WordMemory(model), 1.0
        for state, word in zip(states, ids[1:], strict=True):
            everything = torch.arange(len(model.vocabulary))
            segment = scored_segment(model, embeddings, state.expand(len(everything), -1), everything, bands)
            each = [
                copy.deepcopy(memory)(replace(segment, **{name: part[i : i + 1] for name, part in tensors(segment)}))
                for i in range(len(everything))
            ]
            assert float(torch.cat(each).double().exp().sum()) == pytest.approx(1, abs=bound)
            least = min(least, float(segment.log_seen[0].double().exp()))
            memory(replace(segment, **{name: part[word : word + 1] for name, part in tensors(segment)}))
        assert gain < 3000 or least < 1e-6

    @given(texts)
    def test_what_follows_is_shown_a_distribution(self, model: LanguageModel, text: list[str]) -> None:
        """The probabilities of all words sum to one, and those of the new ones to what the segment says."""
        ids = ids_of(model, text)
        shown: list[Segment] = []

        def then(segment: Segment) -> Tensor:
            shown.append(segment)
            return segment.log_prob

        score(model, ids, unroll=7, correction=WordMemory(model, then=then))
        new = torch.from_numpy(model.vocabulary.counts == 0)
        expected = torch.stack(naive(model, ids, 0.5, 1.0))
        log_seen = torch.cat([segment.log_seen for segment in shown])
        torch.testing.assert_close(log_seen, expected[:, ~new].logsumexp(1))
        log_among_new = torch.cat([segment.among_new.log_prob(1.0) for segment in shown])
        own = expected[range(len(ids)), ids] - expected[:, new].logsumexp(1)
        torch.testing.assert_close(log_among_new[new[ids]], own[new[ids]])
        # A logit of a word that never changes is its log-probability and the normaliser.
        plain = torch.stack(naive(model, ids, 0.0, 1e12))
        before: list[Segment] = []
        score(model, ids, unroll=7, correction=lambda segment: before.append(segment) or segment.log_prob)  # type: ignore[func-returns-value]
        old, now = (torch.cat([segment.log_normaliser for segment in part]) for part in (before, shown))
        end = model.vocabulary.end
        torch.testing.assert_close(plain[:, end] + old, expected[:, end] + now)

    @given(texts, texts, st.integers(1, 9))
    def test_no_word_sees_what_comes_behind_it(
        self, model: LanguageModel, text: list[str], future: list[str], unroll: int
    ) -> None:
        alone = score(model, ids_of(model, text), correction=WordMemory(model)).log_prob
        both = score(model, ids_of(model, text + future), unroll=unroll, correction=WordMemory(model)).log_prob
        np.testing.assert_allclose(both[: len(text)], alone, atol=1e-9, rtol=0)

    def test_words_that_were_not_read_keep_their_vectors(self, model: LanguageModel) -> None:
        """Without a new word nothing changes, and what changes behind one changes all others alike."""
        known = ids_of(model, "the dog <eos> the ship".split())
        np.testing.assert_allclose(
            score(model, known, correction=WordMemory(model)).log_prob, score(model, known).log_prob, atol=1e-12
        )
        text = ids_of(model, "the dog zebra sea".split())
        change = []
        for word in ids_of(model, ["the", "hound", "ocean", "zebra"]):
            remembered = score(model, [*text, word], correction=WordMemory(model)).log_prob[-1]
            change.append(remembered - score(model, [*text, word]).log_prob[-1])
        assert change[0] == pytest.approx(change[1], abs=1e-9)
        assert change[0] == pytest.approx(change[2], abs=1e-9)
        assert abs(change[0] - change[3]) > 1e-3

    @settings(max_examples=5)
    @given(st.integers(1, 12))
    def test_a_large_vocabulary_is_read_in_pieces(self, model: LanguageModel, rows: int) -> None:
        ids = ids_of(model, WORDS * 4)
        whole = score(model, ids, correction=WordMemory(model)).log_prob
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "LOGITS", rows * (len(NEW_WORDS) + 1))
            pieces = score(model, ids, correction=WordMemory(model)).log_prob
        np.testing.assert_allclose(pieces, whole, atol=1e-9, rtol=0)

    def test_a_word_that_comes_back_in_its_context_gets_likelier(self, model: LanguageModel) -> None:
        ids = ids_of(model, "the dog <eos> a zebra runs on the sea <eos>".split() * 12)
        remembered, plain = (score(model, ids, correction=cor) for cor in (WordMemory(model, 1.0), None))
        rows = zip(by_occurrence(remembered), by_occurrence(plain), strict=True)
        gains = [without["loss"] - with_["loss"] for with_, without in rows]
        assert gains[0] == pytest.approx(0, abs=1e-9)
        assert min(gains[1:]) > 0.01

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_closed_model_has_nothing_to_blend(self, kind: str, vocabulary: Vocabulary, glossary: Glossary) -> None:
        with pytest.raises(GrocError, match="use a cache"):
            WordMemory(tiny_model(kind, "ngrams", vocabulary, glossary))

    @pytest.mark.parametrize(("scale", "patience"), [(-1, 1), (1, 0), (float("nan"), 1)])
    def test_senseless_numbers_are_refused(self, model: LanguageModel, scale: float, patience: float) -> None:
        with pytest.raises(GrocError, match="scale is 0 or more"):
            WordMemory(model, scale, patience)

    def test_a_vocabulary_without_new_words(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        closed = tiny_model("groc", "ngrams", vocabulary, glossary)
        ids = ids_of(closed, "the old dog <eos>".split())
        np.testing.assert_allclose(
            score(closed, ids, correction=WordMemory(closed)).log_prob, score(closed, ids).log_prob, atol=1e-6
        )


class TestReport:
    @given(st.lists(st.integers(0, 5), max_size=60))
    def test_counts_are_those_of_a_loop(self, words: list[int]) -> None:
        before: Counter[int] = Counter()
        expected = []
        for word in words:
            expected.append(before[word])
            before[word] += 1
        assert occurrences_before(np.array(words, np.int32)).tolist() == expected

    @given(st.lists(st.integers(0, 5), min_size=1, max_size=80))
    def test_every_new_token_is_in_one_row(self, words: list[int]) -> None:
        vocabulary = Vocabulary([*"abcde", "<eos>"], [1, 2, 0, 0, 0, 5])
        ids = np.array(words, np.int32)
        log_prob = -np.arange(len(ids), dtype=np.float64)
        rows = by_occurrence(Scores(vocabulary, ids, log_prob))
        new = vocabulary.counts[ids] == 0
        assert [row["from"] for row in rows] == [0, 1, 2, 5, 10]
        assert sum(row["tokens"] for row in rows) == new.sum()
        total = sum(row["tokens"] * row["loss"] for row in rows if row["tokens"])
        assert total == pytest.approx(-log_prob[new].sum())
        first = [i for i, word in enumerate(words) if new[i] and word not in words[:i]]
        assert rows[0]["tokens"] == len(first)
        assert (rows[0]["loss"] is None) == (not first)

    def test_for_a_person(self) -> None:
        rows = [(0, 0, 3, 1.5), (1, 4, 0, None), (5, None, 1, 0.25)]
        printed = describe([dict(zip(("from", "to", "tokens", "loss"), row, strict=True)) for row in rows])
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()[2:]]
        assert cells == [["0", "3", "1.50"], ["1-4", "0", "-"], ["5 or more", "1", "0.25"]]
