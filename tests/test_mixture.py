"""Mixtures of softmaxes: a probability for every word, by their definition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import NEW_WORDS, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_training import Workshop, assert_same_end, metrics
from torch import Tensor

from groc import checkpoint
from groc.adaptation.caches import Interpolated, Joined, LocalCache, NewWords
from groc.adaptation.dynamic import Dynamic, score_dynamically
from groc.adaptation.memory import WordMemory
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings
from groc.nn.sampling import Sampler
from groc.nn.softmax import Mixture, Softmax
from groc.scoring import Correction, score
from groc.vocabulary import Vocabulary

MIXED = {"output.mixtures": 3, "output.mixture_dropout": 0.2}


def made(number: int, words: int, seed: int, mute: int = 0) -> tuple[Mixture, Tensor, Embeddings]:
    """A mixture of three with made-up prefixes and words, the first `mute` of which cannot be scored."""
    torch.manual_seed(seed)
    mixture = Mixture(4, 3, 0.3).double().eval()
    prefixes, table, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((number, 4), (words, 4), (words,)))
    bias[:mute] = -torch.inf
    return mixture, prefixes, Embeddings(table, table.requires_grad_(), bias)


class TestMixture:
    @given(st.integers(1, 5), st.integers(1, 8), st.integers(0, 99))
    def test_is_the_weighted_mean_of_softmaxes_over_views_of_the_prefix(
        self, number: int, words: int, seed: int
    ) -> None:
        mixture, prefixes, embeddings = made(number, words, seed)
        for prefix, found in zip(prefixes, mixture.scores(prefixes, embeddings), strict=True):
            weights = torch.softmax(mixture.weights.weight @ prefix, 0)
            expected = torch.zeros(words, dtype=torch.float64)
            for weight, view in zip(weights, mixture.maps, strict=True):
                state = torch.tanh(view.weight @ prefix + view.bias)
                powers = torch.exp(embeddings.output @ state + embeddings.bias)
                expected = expected + weight * powers / powers.sum()
            torch.testing.assert_close(found.exp(), expected)
            assert float(found.detach().exp().sum()) == pytest.approx(1)

    @given(st.integers(1, 5), st.integers(2, 8), st.integers(0, 99))
    def test_the_loss_is_that_of_its_scores_and_so_are_the_gradients(self, number: int, words: int, seed: int) -> None:
        mixture, prefixes, embeddings = made(number, words, seed, mute=seed % 2)
        targets = torch.randint(seed % 2, words, (number,))
        loss = mixture.loss(prefixes, embeddings, targets)
        twin = -mixture.scores(prefixes, embeddings).gather(1, targets[:, None])[:, 0]
        torch.testing.assert_close(loss, twin)
        learning = [*mixture.parameters(), embeddings.output]
        for one, other in zip(*(torch.autograd.grad(each.sum(), learning) for each in (loss, twin)), strict=True):
            assert one.isfinite().all()
            torch.testing.assert_close(one, other)

    def test_a_word_that_cannot_be_scored_stays_so(self) -> None:
        mixture, prefixes, embeddings = made(3, 5, 0, mute=2)
        scores = mixture.scores(prefixes, embeddings)
        assert scores[:, :2].isneginf().all()
        torch.testing.assert_close(scores[:, 2:].exp().sum(1), torch.ones(3, dtype=torch.float64))
        assert mixture.loss(prefixes, embeddings, torch.tensor([0, 1, 2])).isinf().tolist() == [True, True, False]

    def test_views_are_dropped_in_training_alone(self) -> None:
        mixture, prefixes, embeddings = made(3, 5, 0)
        still = mixture.scores(prefixes, embeddings)
        assert torch.equal(still, mixture.scores(prefixes, embeddings))
        assert not torch.allclose(still, mixture.train().scores(prefixes, embeddings))

    def test_one_softmax_is_none(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        plain, mixed = (tiny_model("groc", "ngrams", vocabulary, glossary, changes) for changes in ({}, MIXED))
        assert type(plain.prefix.softmax) is Softmax
        assert isinstance(mixed.prefix.softmax, Mixture)
        assert mixed.parameter_count() - plain.parameter_count() == 3 * (8 * 8 + 8) + 3 * 8
        assert mixed.is_open

    def test_of_a_sample_that_has_all_words_the_loss_is_the_full_one(self) -> None:
        torch.manual_seed(1)
        table = Embeddings(torch.zeros(7, 4), torch.randn(7, 4), torch.randn(7))
        mixture, prefixes, targets = Mixture(4, 3, 0.0), torch.randn(7, 4), torch.arange(7)
        sample = Sampler(np.ones(7, np.int64), 3, torch.device("cpu")).draw(targets)
        found = mixture.loss(prefixes, sample.weighted(table), targets)
        torch.testing.assert_close(found, mixture.loss(prefixes, table, targets))


@torch.no_grad()
def word_by_word(model: LanguageModel, ids: list[int]) -> Tensor:
    """p of every word at each place of a text, one word at a time by the definition, in double precision."""
    embeddings, state, mixture = model.embed(), model.prefix.start(1), model.prefix.softmax
    table, bias, rows = embeddings.output.double(), embeddings.bias.double(), []
    for last in [model.vocabulary.end, *ids[:-1]]:
        prefixes, state = model.read(embeddings, torch.tensor([[last]]), state)
        prefix = prefixes.dropped[0, 0].double()
        weights = torch.softmax(mixture.weights.weight.double() @ prefix, 0)
        views = [torch.tanh(view.weight.double() @ prefix + view.bias) for view in mixture.maps]
        p = sum(weight * torch.softmax(table @ view + bias, 0) for weight, view in zip(weights, views, strict=True))
        if model.mixes_uniform:
            p = model.uniform * p + (1 - model.uniform) / len(p)
        rows.append(p)
    return torch.stack(rows)


@pytest.fixture(params=["groc", "tied"])
def model(request: pytest.FixtureRequest, vocabulary: Vocabulary, glossary: Glossary) -> LanguageModel:
    """An open and a closed one, each with words that training never had, one of them added after all the others."""
    model = tiny_model(request.param, "ngrams", vocabulary, glossary, MIXED)
    model.set_vocabulary(vocabulary.union(NEW_WORDS[:-1]))
    assert len(model.embeddings.rows(torch.tensor([0]))) == 1
    model.add_words(NEW_WORDS[-1:])
    return model


class TestModels:
    """Every way to ask a model gives the mixture's probabilities."""

    IDS = (3, 1, 28, 4, 1, 5, 30, 9, 2, 6, 31, 28)

    def expected(self, model: LanguageModel) -> np.ndarray:
        p = word_by_word(model, list(self.IDS))
        assert p.sum(1).tolist() == pytest.approx([1] * len(self.IDS))
        return p[range(len(self.IDS)), self.IDS].log().numpy()

    def test_scores_and_corrected_scores(self, model: LanguageModel) -> None:
        expected = self.expected(model)
        np.testing.assert_allclose(score(model, self.IDS).log_prob, expected, atol=1e-4)
        np.testing.assert_allclose(
            score(model, self.IDS, correction=lambda s: s.log_prob).log_prob, expected, atol=1e-4
        )

    @pytest.mark.parametrize(
        "correction",
        [
            lambda: Interpolated(LocalCache(0.5, 8), 0.8),
            lambda: Joined(LocalCache(0.5, 8), 0.3),
            lambda: NewWords(0.1, 0.3),
        ],
        ids=["interpolated", "joined", "new words"],
    )
    def test_with_a_cache_all_next_words_sum_to_one(
        self, model: LanguageModel, correction: Callable[[], Correction]
    ) -> None:
        words = range(len(model.vocabulary))
        last = [score(model, [*self.IDS, word], correction=correction()).log_prob[-1] for word in words]
        assert np.exp(last).sum() == pytest.approx(1, abs=1e-5)

    def test_surprisal_suggestions_and_explanations(self, model: LanguageModel) -> None:
        words = [model.vocabulary.words[i] for i in self.IDS]
        p = word_by_word(model, [*self.IDS, 0])
        rows = model.score(" ".join(words), tokenised=True)
        np.testing.assert_allclose(
            [row.probability for row in rows[: len(words)]], np.exp(self.expected(model)), rtol=1e-3
        )
        found = {one.word: one.probability for one in model.next(" ".join(words), limit=5, tokenised=True)}
        for word, probability in found.items():
            assert probability == pytest.approx(float(p[-1, model.vocabulary.index[word]]), rel=1e-3)

    def test_what_a_form_contributes(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, MIXED)
        known = {
            part.form: part.bits for part in model.explain("dog", context="the old").parts if part.form == "surface"
        }
        ids = [model.vocabulary.index[word] for word in ("the", "old", "dog")]
        before = word_by_word(model, ids)[-1, ids[-1]]

        def silence(_: Any, inputs: Any, parts: list[Tensor]) -> list[Tensor]:  # noqa: ARG001
            return [parts[0].index_fill(0, torch.tensor(ids[-1:]), 0.0), *parts[1:]]

        hook = model.input.forms_dropout.register_forward_hook(silence)
        after = word_by_word(model, ids)[-1, ids[-1]]
        hook.remove()
        assert known["surface"] == pytest.approx(float((before / after).log2()), abs=1e-4)

    def test_dynamic_evaluation_learns_and_stays_finite(self, model: LanguageModel) -> None:
        still = score_dynamically(model, self.IDS, Dynamic(rate=0.0, every=4)).log_prob
        np.testing.assert_allclose(still, self.expected(model), atol=1e-4)
        weight = model.prefix.softmax.maps[0].weight.detach().clone()
        moved = score_dynamically(model, self.IDS, Dynamic(rate=0.1, every=4)).log_prob
        assert np.isfinite(moved).all()
        assert not np.allclose(moved[4:], still[4:], atol=1e-4)
        assert torch.equal(model.prefix.softmax.maps[0].weight, weight), "a copy learns"

    def test_word_memory_is_refused(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        with pytest.raises(GrocError, match="mixture"):
            WordMemory(tiny_model("groc", "ngrams", vocabulary, glossary, MIXED))

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_a_checkpoint_keeps_it(self, kind: str, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model(kind, "ngrams", vocabulary, glossary, MIXED)
        checkpoint.save(tmp_path, model, tiny_config(kind, changes=MIXED), {})
        found = score(checkpoint.load(tmp_path).model, self.IDS[:2]).log_prob
        np.testing.assert_array_equal(found, score(model, self.IDS[:2]).log_prob)

    @pytest.mark.parametrize("kind", ["groc", "tied"])
    def test_training_gains_and_resumes_as_if_never_stopped(
        self, kind: str, tmp_path: Path, corpus_folder: Path, glossary: Glossary
    ) -> None:
        workshop = Workshop(corpus_folder, glossary)
        config = tiny_config(kind, changes={**MIXED, "training.epochs": 4})
        workshop.run(tmp_path / "whole", config)
        workshop.run(tmp_path / "stopped", config, stops=[5, 16])
        assert_same_end(tmp_path / "whole", tmp_path / "stopped")
        losses = [row["train_loss"] for row in metrics(tmp_path / "whole")]
        assert losses[-1] < losses[0] - 0.05
