"""Several texts read side by side and scored in several ways at once: equal to one text after the other, way by way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import NEW_WORDS, TRAIN_WORDS, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from groc import scoring
from groc.adaptation import reading
from groc.adaptation.dynamic import Dynamic
from groc.adaptation.online import CacheSettings, Online
from groc.adaptation.reading import counted, read_texts, score_texts
from groc.corpus import Text
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.scoring import score
from groc.vocabulary import END, Vocabulary

WAYS = {
    "plain": Online(),
    "weighed": Online(novelty=30.0),
    "unigram": Online(caches=(CacheSettings("unigram", 0.9),)),
    "local": Online(novelty=2.0, sharpness=1.0, caches=(CacheSettings("local", 0.8, 1.0, 5),)),
    "joined": Online(caches=(CacheSettings("unbounded", None, 2.0, 4, last=5, joined=True, alpha=-1.0),)),
}
CLOSED = {**WAYS, "spread": Online(uniform=0.2, caches=(CacheSettings("local", 0.8, 1.0, 5),))}
OPEN = {**WAYS, "memory": Online(memory=True, caches=(CacheSettings("unigram", 0.9),))}

Lines = st.lists(st.sampled_from([*TRAIN_WORDS, *NEW_WORDS]), min_size=1, max_size=30)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that texts end in different pieces."""
    monkeypatch.setattr(reading, "UNROLL", 7)


def text_of(words: list[str]) -> Text:
    types = tuple(dict.fromkeys([*words, END]))
    return Text("a text", types, np.array([types.index(word) for word in [*words, END]], np.int32))


@pytest.mark.parametrize(("kind", "ways"), [("groc", OPEN), ("tied", CLOSED)])
@given(texts=st.lists(Lines, min_size=1, max_size=4))
def test_every_text_in_every_way_is_what_it_is_alone(
    kind: str, ways: dict[str, Online], texts: list[list[str]], vocabulary: Vocabulary, glossary: Glossary
) -> None:
    model = tiny_model(kind, "ngrams", vocabulary, glossary).double()
    several = [text_of(words) for words in texts]
    found = list(score_texts(model, several, [ways] * len(several)))
    assert model.vocabulary is vocabulary
    for text, (scorer, scores) in zip(several, found, strict=True):
        model.set_vocabulary(vocabulary.union(text.types))
        assert scorer.vocabulary == model.vocabulary
        assert scorer.mixes_uniform == model.mixes_uniform
        for way, online in ways.items():
            alone = online.score(model, text.ids(model.vocabulary))
            np.testing.assert_allclose(scores[way].log_prob, alone.log_prob, atol=1e-8, err_msg=way)
            assert scores[way].counts.tolist() == alone.counts.tolist()


def test_no_more_scores_of_new_words_are_held_than_there_is_room_for(
    vocabulary: Vocabulary, glossary: Glossary, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, text, sizes = tiny_model("groc", "ngrams", vocabulary, glossary), text_of([*NEW_WORDS, *TRAIN_WORDS]), []
    ways = {"local": WAYS["local"]}
    ((_, expected),) = score_texts(model, [text], [ways])

    def noting(*arguments: Any) -> scoring.Segment:
        segment = scoring.scored_segment(*arguments)
        assert isinstance(segment.among_new, scoring.ScoredAmongNew)
        sizes.append(segment.among_new.scores.numel())
        return segment

    monkeypatch.setattr(reading, "scored_segment", noting)
    monkeypatch.setattr(scoring, "LOGITS", 2 * len(NEW_WORDS))
    ((_, found),) = score_texts(model, [text], [ways])
    assert len(sizes) > 2
    assert max(sizes) == 2 * len(NEW_WORDS)
    np.testing.assert_allclose(found["local"].log_prob, expected["local"].log_prob, atol=1e-6)


def test_states_are_those_that_scoring_reads(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    draw = np.random.default_rng(1)
    texts = [draw.integers(len(vocabulary), size=size) for size in (3, 20, 0, 11)]
    seen: list[Any] = []
    told: list[int] = []
    for ids, states in zip(texts, read_texts(model, texts, told.append), strict=True):
        seen.clear()
        score(model, ids, correction=lambda segment: seen.append(segment.prefixes) or segment.log_prob)
        assert states.shape == (len(ids), 8)
        if len(ids):
            np.testing.assert_allclose(states.numpy(), np.concatenate([part.numpy() for part in seen]), atol=1e-6)
    assert told == [7, 14, 20]


def test_a_model_that_learned_words_has_them_no_longer_as_new(vocabulary: Vocabulary, glossary: Glossary) -> None:
    """Whatever the list of words it chooses among."""
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    model.trained = Vocabulary([*vocabulary.words, "zebra"], [*vocabulary.counts.tolist(), 5])
    text = text_of(["the", "zebra", "ocean"])
    ((scorer, scores),) = score_texts(model, [text], [{"": Online(novelty=2.0)}], vocabulary)
    assert scorer.vocabulary == vocabulary.union(text.types)
    assert [scores[""].vocabulary.counts[scorer.vocabulary.index[word]] for word in ("zebra", "ocean")] == [5, 0]
    model.set_vocabulary(scores[""].vocabulary)
    alone = Online(novelty=2.0).score(model, text.ids(model.vocabulary))
    np.testing.assert_allclose(scores[""].log_prob, alone.log_prob, atol=1e-5)


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.dictionaries(st.sampled_from("abcxyz"), st.integers(0, 9)))
def test_counts_are_those_of_training(words: list[str], counts: dict[str, int]) -> None:
    found = counted(Vocabulary([END, *words]), Vocabulary([END, *counts], [3, *counts.values()]))
    assert found.words == (END, *words)
    assert found.counts.tolist() == [3, *(counts.get(word, 0) for word in words)]


def test_learning_shares_no_states(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("tied", "ngrams", vocabulary, glossary)
    with pytest.raises(GrocError, match="cannot share"):
        list(score_texts(model, [text_of(["the"])], [{"": Online(dynamic=Dynamic())}]))


@pytest.mark.parametrize("online", [*CLOSED.values(), Online(dynamic=Dynamic(0.1, 0.0, 7)), Online(memory=True)])
def test_a_record_says_enough_to_read_so_again(online: Online) -> None:
    again = Online.of(online.facts(), online.uniform)
    assert again.facts() == online.facts()
    assert again.uniform == online.uniform
    assert Online.of(again.facts(), again.uniform) == again
