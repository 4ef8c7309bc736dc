"""Scores of words: each equal to a naive loop, whatever it is scored with, and read from where it says."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from conftest import KINDS, NEW_WORDS, TERMS, TRAIN_WORDS, tiny_model
from hypothesis import example, given
from hypothesis import strategies as st

from groc import surprisal
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import score
from groc.surprisal import WordScore, score_texts
from groc.text import read_tokens
from groc.vocabulary import END, UNKNOWN, Vocabulary

VOCABULARY = Vocabulary([*TRAIN_WORDS, END], [*range(len(TRAIN_WORDS)), 9])  # the first word has the count 0

lines = st.lists(st.sampled_from([*TRAIN_WORDS, *NEW_WORDS, "new", "<eos>"]), max_size=6).map(" ".join)
texts = st.lists(lines, max_size=4).map("\n".join)


@cache
def model_of(kind: str, rules: str = "default") -> LanguageModel:
    return tiny_model(kind, "ngrams", VOCABULARY, Glossary(TERMS), {"forms.rules": rules})


@torch.no_grad()
def word_by_word(model: LanguageModel, text: str, unknown: bool = False) -> list[dict[str, float]]:
    """The slow, obvious way over a tokenised text: one word at a time, in double precision, with `<eos>` rows."""
    words = [word for line in text.split("\n") if line.split() for word in (*line.split(), END)]
    if unknown:
        words = [word if word in model.vocabulary else UNKNOWN for word in words]
    model = model.copy()
    model.set_vocabulary(model.vocabulary.union(words))
    embeddings, state = model.embed(), model.prefix.start(1)
    rows, last = [], model.vocabulary.end
    for word in words:
        prefixes, state = model.read(embeddings, torch.tensor([[last]]), state)
        logits = embeddings.output.double() @ prefixes.dropped[0, 0].double() + embeddings.bias.double()
        p = logits.softmax(0)
        if not model.is_open and any(w not in model.trained for w in model.vocabulary):
            p = model.uniform * p + (1 - model.uniform) / len(model.vocabulary)
        last = model.vocabulary.index[word]
        own = float(p[last])
        entropy = -sum(x * math.log2(x) for x in p.tolist() if x > 0)
        # Words that are as good as equal may change places by rounding.
        least, most = 1 + int((p > own * (1 + 1e-5)).sum()), int((p >= own * (1 - 1e-5)).sum())
        rows.append(
            {"surprisal": -math.log2(own), "probability": own, "entropy": entropy, "least": least, "most": most}
        )
        assert float(p.sum()) == pytest.approx(1)
    return rows


def assert_equal_rows(found: list[WordScore], expected: list[dict[str, float]]) -> None:
    assert len(found) == len(expected)
    for row, naive in zip(found, expected, strict=True):
        for name in ("surprisal", "probability", "entropy"):
            assert getattr(row, name) == pytest.approx(naive[name], abs=2e-5)
        assert naive["least"] <= row.rank <= naive["most"]


def assert_same(one: list[WordScore], other: list[WordScore]) -> None:
    """The same rows but for rounding, which may also let neighbours in rank change places."""
    assert [(row.word, row.seen, row.in_lexicon, row.start, row.end) for row in one] == [
        (row.word, row.seen, row.in_lexicon, row.start, row.end) for row in other
    ]
    for name in ("surprisal", "probability", "entropy"):
        np.testing.assert_allclose(
            [getattr(r, name) for r in one], [getattr(r, name) for r in other], atol=1e-5, rtol=0
        )


class TestNumbers:
    @pytest.mark.parametrize("kind", KINDS)
    @given(text=texts)
    def test_equal_a_word_by_word_loop(self, kind: str, text: str) -> None:
        model = model_of(kind)
        (rows,) = score_texts(model, [text], tokenised=True, ends=True)
        assert_equal_rows(rows, word_by_word(model, text))

    @given(texts)
    def test_equal_the_loop_where_forms_depend_on_the_vocabulary(self, text: str) -> None:
        model = model_of("groc", "paper")
        (rows, _) = score_texts(model, [text, "zebra dog"], tokenised=True, ends=True)
        assert_equal_rows(rows, word_by_word(model, text))

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    @given(text=texts)
    def test_unknown_words_are_read_as_unk_and_keep_their_name(self, kind: str, text: str) -> None:
        model = model_of(kind)
        (rows,) = score_texts(model, [text], tokenised=True, ends=True, unknown=True)
        assert_equal_rows(rows, word_by_word(model, text, unknown=True))
        assert [row.word for row in rows if row.start < row.end] == text.split()

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    @given(text=texts)
    def test_are_consistent(self, kind: str, text: str) -> None:
        for row in score_texts(model_of(kind), [text], tokenised=True)[0]:
            assert 0 < row.probability <= 1
            assert row.probability == pytest.approx(2**-row.surprisal)
            size = len(VOCABULARY) + len(set(text.split()) - set(VOCABULARY))
            assert 1 <= row.rank <= size
            assert 0 <= row.entropy <= math.log2(size) + 1e-5
            assert row.rank * row.probability <= 1 + 1e-5, "all that rank higher are at least as probable"

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_probabilities_of_all_words_behind_a_context_sum_to_one(self, kind: str) -> None:
        words = VOCABULARY.words
        rows = score_texts(model_of(kind), [f"the dog\n{word}" for word in words], tokenised=True)
        assert sum(row[-1].probability for row in rows) == pytest.approx(1, abs=1e-5)
        assert sorted(row[-1].rank for row in rows) == [*range(1, len(words) + 1)]

    def test_equals_share_the_best_of_their_ranks(self) -> None:
        # A closed model gives all new words even odds, the smallest of all.
        (rows,) = score_texts(model_of("tied"), ["plugh xyzzy"], tokenised=True)
        assert [row.rank for row in rows] == [len(VOCABULARY) + 1] * 2

    def test_the_sum_is_that_of_the_ids(self) -> None:
        model = model_of("groc").copy()
        text = "the dog runs\nzebra on the ocean\n\n  \nit was not small\n"
        (rows,) = score_texts(model, [text], tokenised=True, ends=True)
        words = text.replace("\n\n  \n", "\n").replace("\n", f" {END} ").split()
        assert [row.word for row in rows] == words
        model.set_vocabulary(model.vocabulary.union(words))
        expected = score(model, [model.vocabulary.index[word] for word in words])
        np.testing.assert_allclose([row.surprisal for row in rows], expected.surprisal, atol=1e-5)


@pytest.mark.parametrize("wrong", [None, math.nan, 3, b"bytes"])
def test_what_is_no_text_is_named(wrong: Any) -> None:
    """The empty cells of a table come as None or NaN, and which of 10,000 sentences it was is worth knowing."""
    model = model_of("groc")
    with pytest.raises(GrocError, match=r"texts\[1\] is .* no text"):
        model.score(["a text", wrong])
    for ask in (model.next, model.explain, lambda text: [*model.generate(text)], lambda text: model.score([text])):
        with pytest.raises(GrocError, match="no text"):
            ask(wrong)
    with pytest.raises(GrocError, match="no text"):
        model.score(wrong)


class TestDocuments:
    @pytest.mark.parametrize("kind", ["groc", "tied", "adaptive"])
    @pytest.mark.parametrize("rules", ["default", "paper"])
    @given(documents=st.lists(texts, max_size=6))
    def test_a_batch_equals_one_by_one(self, kind: str, rules: str, documents: list[str]) -> None:
        model = model_of(kind, rules)
        together = score_texts(model, documents, tokenised=True, ends=True)
        assert len(together) == len(documents)
        for rows, text in zip(together, documents, strict=True):
            assert_same(rows, score_texts(model, [text], tokenised=True, ends=True)[0])

    @given(st.lists(texts, max_size=6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 100), st.integers(0, 3))
    def test_neither_windows_nor_groups_nor_chunks_change_anything(
        self, documents: list[str], unroll: int, side_by_side: int, cells: int, new_words: int
    ) -> None:
        model = model_of("groc")
        usual = score_texts(model, documents, tokenised=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(surprisal, "UNROLL", unroll)
            patch.setattr(surprisal, "SIDE_BY_SIDE", side_by_side)
            patch.setattr(surprisal, "CELLS", cells)
            patch.setattr(surprisal, "NEW_WORDS", new_words)
            other = score_texts(model, documents, tokenised=True)
        for one, another in zip(usual, other, strict=True):
            assert_same(one, another)

    @given(texts, texts)
    def test_state_is_carried_over_lines_and_nothing_is_known_of_what_follows(self, text: str, more: str) -> None:
        model = model_of("groc").copy()
        model.add_words([*text.split(), *more.split()])
        short, long = score_texts(model, [text, f"{text}\n{more}"], tokenised=True)
        assert_same(short, long[: len(short)])
        if short and len(long) > len(short):
            (alone,) = score_texts(model, [more], tokenised=True)
            assert alone[0].surprisal != pytest.approx(long[len(short)].surprisal, abs=1e-7)

    def test_lines_without_words_change_nothing(self) -> None:
        model = model_of("groc")
        one, other = score_texts(model, ["the dog\nruns", "\n \nthe dog\r\n\n\t\nruns\n\n"])
        assert [row.surprisal for row in one] == pytest.approx([row.surprisal for row in other], abs=1e-5)

    def test_the_model_stays_as_it_was(self) -> None:
        model = model_of("groc")
        score_texts(model, ["an altogether new text", "zebra"])
        assert model.vocabulary is VOCABULARY
        assert not model.training
        model.train()
        trained = score_texts(model, ["the dog"])
        assert model.training, "and in its mode"
        model.eval()
        assert trained == score_texts(model, ["the dog"]), "without dropout"

    def test_progress_counts_to_the_last_word(self) -> None:
        told: list[int] = []
        score_texts(model_of("groc"), ["the dog", "zebra", ""], progress=told.append)
        assert told == sorted(told)
        assert told[-1] == 5, "with the two <eos>"


class TestWords:
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=3))
    @example(["He said “naïve” — שלום עולם 👩‍🚀!\n\x00\x1bzero", "\u202eright to left", "", " \n"])
    def test_raw_text_of_any_kind_is_scored_where_it_stands(self, documents: list[str]) -> None:
        for text, rows in zip(documents, score_texts(model_of("groc"), documents), strict=True):
            tokens = [token for line in read_tokens(text, tokenised=False, lower=False) for token in line]
            assert [(row.word, row.start, row.end) for row in rows] == [(t.word, t.start, t.end) for t in tokens]
            assert all(math.isfinite(row.surprisal) and row.rank >= 1 for row in rows)

    def test_seen_and_in_lexicon(self) -> None:
        (rows,) = score_texts(model_of("groc"), ["the dog zebra xyzzy"])
        assert [(row.word, row.seen, row.in_lexicon) for row in rows] == [
            ("the", False, False),  # listed, but with the count 0
            ("dog", True, True),
            ("zebra", False, True),
            ("xyzzy", False, False),
        ]

    def test_an_end_of_line_has_no_characters(self) -> None:
        (rows,) = score_texts(model_of("groc"), ["a dog \n runs"], ends=True)
        assert [(row.word, row.start, row.end) for row in rows] == [
            ("a", 0, 1),
            ("dog", 2, 5),
            (END, 5, 5),
            ("runs", 8, 12),
            (END, 12, 12),
        ]

    def test_capitals_are_lowered_where_the_model_reads_lower_case(self) -> None:
        model = tiny_model("groc", "ngrams", VOCABULARY, Glossary(TERMS), {"forms.lower": True})
        (rows, plain) = score_texts(model, ["The DOG", "the dog"])
        assert_same(rows, plain)

    def test_curly_apostrophes_are_read_as_straight_ones_unless_training_had_some(self) -> None:
        text = "the dog\u2019s \u2019dog\u2019 didn\u2019t run"
        model = tiny_model("groc", "ngrams", VOCABULARY, Glossary(TERMS))
        straight = "the dog's \u2019dog\u2019 didn't run"  # quotation marks stay
        assert_same(model.score(text), model.score(straight))
        assert model.next(text) == model.next(straight)
        assert "'s" in [row.word for row in model.score(text)]
        assert [row.word for row in model.score(text, tokenised=True)] == text.split()
        curly = tiny_model(
            "groc", "ngrams", Vocabulary([*VOCABULARY, "\u2019"], [1] * (len(VOCABULARY) + 1)), Glossary(TERMS)
        )
        assert "'s" not in [row.word for row in curly.score(text)]

    def test_a_term_that_was_taught_is_one_word(self) -> None:
        model = model_of("groc").copy()
        model.add_words(Glossary({"red dog": ("an animal that barks", ["dog"])}))
        text = "the red dog runs"
        rows = model.score(text)
        assert [row.word for row in rows] == ["the", "red_dog", "runs"]
        assert text[rows[1].start : rows[1].end] == "red dog"
        assert rows[1].in_lexicon
        assert not rows[1].seen

    @pytest.mark.parametrize("text", ["", " \n\t", "\x00"])
    def test_no_words_have_no_rows(self, text: str) -> None:
        assert score_texts(model_of("groc"), [text]) == [[]]
        assert model_of("groc").score(text) == []
        assert score_texts(model_of("groc"), []) == []

    def test_a_model_without_unk_cannot_read_anything_as_it(self) -> None:
        model = tiny_model("groc", "ngrams", Vocabulary(["the", END], [1, 1]), Glossary(TERMS))
        assert len(model.score("the the", unknown=True)) == 2
        with pytest.raises(GrocError, match="no <unk>"):
            model.score("the dog", unknown=True)
