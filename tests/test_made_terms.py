"""The set of made terms is what it says, and the bench that uses it compares what it says."""

import json
import runpy
from collections import Counter
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config, tiny_model

from groc import checkpoint
from groc.errors import GrocError
from groc.lexicon import Empty, WordNet
from groc.text import tokeniser
from groc.vocabulary import Vocabulary

BENCH = Path(__file__).parents[1] / "bench" / "made_terms.py"


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return runpy.run_path(str(BENCH))


@pytest.fixture(scope="module")
def terms(bench: dict[str, Any]) -> list[Any]:
    return list(bench["read_terms"]())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is as if trained, of a few words, with no lexicon behind it."""
    folder = tmp_path_factory.mktemp("run")
    model = tiny_model("groc", "ngrams", Vocabulary("the a in of to <unk> <eos>".split()), Empty())
    checkpoint.save(folder, model, tiny_config("groc", "ngrams"))
    return folder


# --- the set ----------------------------------------------------------------------------------------------------------


def test_it_has_enough_terms_each_once_and_groups_of_a_size(terms: list[Any]) -> None:
    assert len(terms) >= 60
    assert len({term.word for term in terms}) == len(terms)
    assert all(set(term.word) <= set(ascii_lowercase) for term in terms)
    sizes = Counter(term.group for term in terms)
    assert len(sizes) >= 6
    assert min(sizes.values()) >= 6
    parts = Counter(term.part_of_speech for term in terms)
    assert set(parts) == {"noun", "verb", "adjective"}
    assert parts["noun"] > len(terms) / 2


def test_each_context_holds_its_term_once_with_words_before_it(terms: list[Any]) -> None:
    words = {term.word for term in terms}
    for term in terms:
        assert len(term.contexts) == 3
        for context in term.contexts:
            tokens = context.split(" ")
            assert [token for token in tokens if token in words] == [term.word]
            assert tokens[0] != term.word
            assert words.isdisjoint(term.definition.split())


def test_contexts_are_all_different_and_tokenised_as_the_training_text_is(terms: list[Any]) -> None:
    contexts = [context for term in terms for context in term.contexts]
    assert len(set(contexts)) == len(contexts)
    tokenise = tokeniser(lower=True)
    assert [" ".join(tokenise(context)) for context in contexts] == contexts


def test_no_context_gives_away_a_related_word(terms: list[Any]) -> None:
    for term in terms:
        assert 1 <= len(term.related) <= 3
        for context in term.contexts:
            assert set(context.split()).isdisjoint(term.related), context


def test_definitions_are_short_and_all_different(terms: list[Any]) -> None:
    assert len({term.definition for term in terms}) == len(terms)
    assert all(4 <= len(term.definition.split()) <= 12 for term in terms)


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    try:
        return WordNet.find()
    except GrocError:
        pytest.skip("there is no WordNet on this machine: run groc lexicon install")


def test_no_term_is_a_word_or_one_letter_away_from_one(terms: list[Any], wordnet: WordNet) -> None:
    for term in terms:
        near = {
            term.word[:i] + letter + term.word[i + cut :]
            for i in range(len(term.word) + 1)
            for letter in ("", *ascii_lowercase)
            for cut in (0, 1)
        }
        assert [word for word in near if wordnet.entry(word)] == []


def test_related_words_are_words_and_definitions_are_our_own(terms: list[Any], wordnet: WordNet) -> None:
    for term in terms:
        assert all(wordnet.entry(word) for word in term.related)
        theirs = {sense.definition for word in term.related for sense in wordnet.entry(word).senses}
        assert term.definition not in theirs


def test_no_context_is_a_usage_example(terms: list[Any], wordnet: WordNet) -> None:
    """The small model learns from these: with any one word in the term's place, none of them is a context."""
    tokenise = tokeniser(lower=True)
    examples = {_bare(tokenise(example)) for example in wordnet.examples()}
    with_gap = {(*example[:i], "", *example[i + 1 :]) for example in examples for i in range(len(example))}
    for term in terms:
        for context in term.contexts:
            assert tuple("" if word == term.word else word for word in _bare(context.split())) not in with_gap, context


def _bare(tokens: list[str]) -> tuple[str, ...]:
    return tuple(token for token in tokens if token[0].isalnum())


# --- the bench --------------------------------------------------------------------------------------------------------


def test_a_wrong_entry_is_of_another_group_and_the_same_part_of_speech(bench: dict[str, Any], terms: list[Any]) -> None:
    wrong = [bench["wrong_term"](term, terms) for term in terms]
    for term, other in zip(terms, wrong, strict=True):
        assert other.group != term.group
        assert other.part_of_speech == term.part_of_speech
        assert set(other.related).isdisjoint(term.related)
    assert len({other.word for other in wrong}) == len(terms)  # a rotation: each is somebody's wrong entry


@torch.no_grad()
def test_it_is_the_surprisal_of_the_term_alone_with_all_terms_in_the_word_list(
    bench: dict[str, Any], terms: list[Any], run: Path
) -> None:
    """Its slow twin: the probability of the term behind the words before it, read word by word."""
    model = checkpoint.load(run).model
    entries = bench["conditions"](terms)[bench["FULL"]]
    fast = bench["surprisals"](model, terms, entries)
    assert fast.shape == (len(terms),)
    taught = model.copy()
    taught.add_words(bench["Glossary"](entries))
    for i in (0, len(terms) - 1):
        bits = []
        for context in terms[i].contexts:
            before, term, _ = context.partition(terms[i].word)
            own = taught.copy()
            own.add_words(context.split())
            embeddings, state = own.embeddings, own.prefix.start(1)
            for word in ["<eos>", *before.split()]:
                prefixes, state = own.read(embeddings, torch.tensor([[own.vocabulary.index[word]]]), state)
            log_probs = own.log_probs(embeddings, prefixes.dropped[-1])
            bits.append(-float(log_probs[0, own.vocabulary.index[term]]) / np.log(2))
        assert fast[i] == pytest.approx(np.mean(bits), abs=1e-4)


def test_characters_alone_are_the_same_as_no_entry(bench: dict[str, Any], terms: list[Any], run: Path) -> None:
    model = checkpoint.load(run).model
    plain = bench["surprisals"](model, terms, bench["conditions"](terms)[bench["PLAIN"]])
    model.add_words([term.word for term in terms])
    assert plain == pytest.approx(bench["surprisals"](model, terms, {}), abs=1e-4)


def test_a_comparison_is_of_pairs_and_its_interval_holds_the_mean(bench: dict[str, Any]) -> None:
    draw = np.random.default_rng(0)
    before = draw.normal(20, 5, 70)
    figures = {"before": before, "after": before - 1 + draw.normal(0, 0.1, 70), "worse": before + 1}
    better = bench["compare"](figures, "after", "before")
    assert better.low < better.difference < better.high < -0.9  # the spread between terms plays no part
    assert better.improved == 1
    worse = bench["compare"](figures, "worse", "before")
    assert (worse.difference, worse.improved) == (pytest.approx(1), 0)
    assert bench["compare"](figures, "after", "before") == better


def test_the_record_says_what_the_table_says(
    bench: dict[str, Any], terms: list[Any], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench["main"]([str(run), "--out", str(tmp_path / "record.json")])
    table = capsys.readouterr().out
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert set(record["bits"]) == {term.word for term in terms}
    full = next(row for row in record["comparisons"] if row["condition"] == bench["FULL"])
    mean = np.mean([bits[bench["FULL"]] - bits[bench["PLAIN"]] for bits in record["bits"].values()])
    assert full["difference"] == pytest.approx(mean, abs=1e-3)
    assert f"{full['difference']:+.2f}" in table
    assert str(run.parent) not in json.dumps(record)
