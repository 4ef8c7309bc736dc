"""The adaptive embedding: bands by frequency, a projection a band, and steps no larger than those of a table."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from conftest import tiny_config
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from groc.building import build
from groc.lexicon import Empty
from groc.nn.dropout import SharedDropout
from groc.nn.input import AdaptiveInput, PreparedForms, WordTable
from groc.optimisation import make_optimiser, set_rate
from groc.recipe import load_recipe
from groc.vocabulary import END, Vocabulary


def naive(embedding: AdaptiveInput, word: int) -> Tensor:
    """The vector of a word by its rank, from the table of its band."""
    for table, projection in zip(embedding.tables, embedding.projections, strict=True):
        assert isinstance(table, WordTable)
        assert isinstance(projection, nn.Linear)
        if word < len(table.weight):
            return projection(table.weight[word])  # type: ignore[no-any-return]
        word -= len(table.weight)
    raise AssertionError("there is no such word")


@given(
    words=st.integers(1, 30),
    dim=st.integers(1, 12),
    cutoffs=st.lists(st.integers(1, 40), max_size=3, unique=True).map(sorted),
    factor=st.integers(1, 4),
)
def test_every_word_has_the_vector_of_its_band(words: int, dim: int, cutoffs: list[int], factor: int) -> None:
    embedding = AdaptiveInput(words, dim, cutoffs, factor, 0.05, SharedDropout(0.0))
    vectors = embedding(PreparedForms(words))
    assert vectors.shape == (words, dim)
    for word in range(words):
        torch.testing.assert_close(vectors[word], naive(embedding, word))
    inner = [cutoff for cutoff in cutoffs if cutoff < words]
    tables = [table for table in embedding.tables if isinstance(table, WordTable)]
    assert [len(table.weight) for table in tables] == [end - start for start, end in pairwise([0, *inner, words])]
    assert [table.weight.shape[1] for table in tables] == [max(dim // factor**band, 1) for band in range(len(tables))]


@given(
    words=st.integers(10, 30),
    cutoffs=st.lists(st.integers(1, 40), max_size=3, unique=True).map(sorted),
    some=st.lists(st.integers(0, 29), min_size=1, max_size=9),
)
def test_some_words_have_the_vectors_and_gradients_they_have_among_all(
    words: int, cutoffs: list[int], some: list[int]
) -> None:
    embedding = AdaptiveInput(words, 8, cutoffs, 2, 0.05, SharedDropout(0.0))
    rows = torch.tensor([word % words for word in some])
    alone, among = embedding(PreparedForms(len(rows), rows=rows)), embedding(PreparedForms(words))[rows]
    torch.testing.assert_close(alone, among)
    ways = torch.randn(len(rows), 8, generator=torch.Generator().manual_seed(1))
    gradients = [torch.autograd.grad((v * ways).sum(), [*embedding.parameters()]) for v in (alone, among)]
    torch.testing.assert_close(*gradients)


def test_the_first_band_has_the_most_frequent_words_and_probabilities_sum_to_one() -> None:
    counts = {f"w{i}": 1 + (7 * i) % 23 for i in range(23)} | {END: 40}
    vocabulary = Vocabulary.from_counts(counts)
    model = build(tiny_config("adaptive", changes={"output.cutoffs": (5, 12)}), vocabulary, Empty()).eval()
    assert isinstance(model.input, AdaptiveInput)
    first = model.input.tables[0]
    assert isinstance(first, WordTable)
    with torch.no_grad():
        before = model.embed().output.clone()
        first.weight.add_(1.0)
        changed = (model.embed().output != before).any(1)
        scores = model.prefix.softmax.scores(torch.randn(3, 8), model.embed())
    moved = {word for word, was_moved in zip(vocabulary, changed.tolist(), strict=True) if was_moved}
    assert moved == set(sorted(counts, key=lambda word: -counts[word])[:5])
    torch.testing.assert_close(scores.softmax(-1).sum(-1), torch.ones(3))


def test_every_band_starts_at_the_scale_of_a_table() -> None:
    torch.manual_seed(1)
    vectors = AdaptiveInput(3000, 64, [1000, 2000], 4, 0.05, SharedDropout(0.0))(PreparedForms(3000))
    for band in vectors.split(1000):
        assert band.std().item() == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("recipe", ["penn", "wikitext2"])
def test_a_step_moves_vectors_no_further_than_those_of_a_table(recipe: str) -> None:
    """A word moves with its row and with the projection of its band; what both do must not dwarf a step of a table."""
    config = load_recipe(recipe, "adaptive", ["prefix.hidden=4"])
    words = [END, *map(str, range(2 * config.output.cutoffs[-1]))]
    torch.manual_seed(1)
    model = build(config, Vocabulary(words, range(len(words), 0, -1)), Empty()).eval()
    optimiser = make_optimiser(model, config.training)
    set_rate(optimiser, config.training.rate)
    before = model.embed().output
    (before * torch.randn_like(before)).sum().backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    with torch.no_grad():
        steps = (model.embed().output - before) / config.training.rate  # of a table: 1 or -1
    for start, end in pairwise([0, *config.output.cutoffs, len(words)]):
        assert steps[start:end].square().mean().sqrt() < 1.5
