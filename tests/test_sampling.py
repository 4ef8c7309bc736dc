"""Training on a sample of the vocabulary: what is encoded, and that the estimate of the softmax is right on average."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from conftest import KINDS, SURFACES, TERMS, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from groc.compute import Group, choose
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.naive import embed_naively
from groc.nn import softmax
from groc.nn.embeddings import Embeddings
from groc.nn.input import FormsDropout, UsualEntries
from groc.nn.sampling import Sampler
from groc.training import Trainer
from groc.vocabulary import Vocabulary

CPU = torch.device("cpu")


class TestTake:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("surface", SURFACES)
    @torch.no_grad()
    def test_some_words_have_the_vectors_that_they_have_among_all(
        self, kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        whole = model.embed()
        for which in (torch.tensor([0]), torch.tensor([1, 4, 9]), torch.arange(len(vocabulary))):
            some = model.embed_forms(model.forms.take(which))
            torch.testing.assert_close(some.input, whole.input[which])
            torch.testing.assert_close(some.output, whole.output[which])
            torch.testing.assert_close(some.bias, whole.bias[which])

    def test_gradients_are_those_of_all_words(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        which = torch.tensor([0, 3, 5, 11])
        weights = torch.randn(len(which), 8, generator=torch.Generator().manual_seed(1))
        gradients = []
        for some in (model.embed_forms(model.forms.take(which)).output, model.embed().output[which]):
            model.zero_grad()
            (some * weights).sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)

    def test_no_string_is_encoded_that_is_not_needed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "cnn", vocabulary, glossary)
        the = vocabulary.index["the"]  # has no entry
        assert len(model.forms.take(torch.tensor([the])).strings.codes) == 1
        red = vocabulary.index["red"]
        words_of_definition = len(TERMS["red"][0].split())
        assert len(model.forms.take(torch.tensor([red])).strings.codes) == 1 + words_of_definition - 1  # "of" twice

    @pytest.mark.parametrize("surface", SURFACES)
    def test_where_characters_are_all_that_is_read_only_words_are_encoded(
        self, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        """Though the model was told what words mean."""
        model = tiny_model("convolutional", surface, vocabulary, glossary)
        before = model.embed()
        model.add_words(Glossary({**TERMS, "quagga": ("an animal that nobody has seen again", ("unicorn",))}))
        assert len(model.teller.compile_words(model.vocabulary)) > len(model.vocabulary)
        encoded: list[int] = []
        model.output.surface.register_forward_hook(lambda module, strings, vectors: encoded.append(len(vectors)))
        whole, some = model.embed(), model.embed_forms(model.forms.take(torch.tensor([1, 4, 9])))
        model.embeddings  # noqa: B018 (composed, so that what is added next is composed on its own)
        model.add_words(Glossary({"tarpan": ("a wild horse of the steppe", ("horse", "pony"))}))
        assert encoded == [len(vocabulary) + 4, 3, len(vocabulary) + 4, 1]  # with hound, ocean, zebra and quagga
        torch.testing.assert_close(whole.output[: len(vocabulary)], before.output)
        torch.testing.assert_close(some.output, before.output[[1, 4, 9]])


class TestSampler:
    @given(st.lists(st.integers(0, 1000), min_size=3, max_size=30), st.integers(1, 50), st.integers(0, 99))
    def test_what_a_step_needs_is_there(self, counts: list[int], draws: int, seed: int) -> None:
        torch.manual_seed(seed)
        needed = torch.randint(0, len(counts), (2, 4))
        sample = Sampler(np.array(counts), draws, CPU).draw(needed)
        assert sample.ids.tolist() == sorted(set(sample.ids.tolist()))
        assert torch.equal(sample.ids[sample.places(needed)], needed)
        own = torch.isin(sample.ids, needed)
        assert not sample.log_weights[own].any(), "words of the text stand for themselves"
        times = (sample.log_weights + Sampler(np.array(counts), draws, CPU).log_shares[sample.ids]).exp()[~own] * draws
        assert times.sum() <= draws + 1e-3
        torch.testing.assert_close(times, times.round(), rtol=1e-3, atol=1e-3)  # each was drawn a whole number of times

    def test_every_word_can_be_drawn(self) -> None:
        torch.manual_seed(0)
        sample = Sampler(np.array([0, 1, 5]), 2000, CPU).draw(torch.tensor([0]))
        assert len(sample.ids) == 3


class TestWeighted:
    def test_the_sum_over_the_vocabulary_is_exact_on_average(self) -> None:
        torch.manual_seed(1)
        counts = np.array([50, 20, 10, 5, 2, 1, 0])
        table = Embeddings(torch.zeros(7, 3), torch.randn(7, 3), torch.randn(7))
        prefixes, targets = torch.randn(4, 3), torch.tensor([0, 3, 3, 6])
        exact = softmax.loss(prefixes, table, targets).exp()
        sampler, sums = Sampler(counts, 5, CPU), torch.zeros(4)
        for _ in range(4000):
            sample = sampler.draw(targets)
            sums += softmax.loss(prefixes, sample.weighted(table.select(sample.ids)), sample.places(targets)).exp()
        torch.testing.assert_close(sums / 4000, exact, rtol=0.05, atol=0)

    def test_with_very_many_draws_it_is_the_full_loss(self) -> None:
        torch.manual_seed(1)
        table = Embeddings(torch.zeros(7, 3), torch.randn(7, 3), torch.randn(7))
        prefixes, targets = torch.randn(4, 3), torch.tensor([0, 3, 3, 6])
        sample = Sampler(np.ones(7, np.int64), 2_000_000, CPU).draw(targets)
        found = softmax.loss(prefixes, sample.weighted(table.select(sample.ids)), sample.places(targets))
        torch.testing.assert_close(found, softmax.loss(prefixes, table, targets), atol=0.01, rtol=0.01)

    def test_where_the_text_has_all_words_nothing_is_estimated(self) -> None:
        torch.manual_seed(1)
        table = Embeddings(torch.zeros(7, 3), torch.randn(7, 3), torch.randn(7))
        prefixes, targets = torch.randn(7, 3), torch.arange(7)
        sample = Sampler(np.ones(7, np.int64), 3, CPU).draw(targets)
        found = softmax.loss(prefixes, sample.weighted(table), targets)
        torch.testing.assert_close(found, softmax.loss(prefixes, table, targets))


class TestTraining:
    def losses(self, corpus_folder: Any, glossary: Glossary, tmp_path: Any, changes: dict[str, Any]) -> list[float]:
        corpus = Corpus(corpus_folder)
        vocabulary = corpus.vocabulary()
        config = tiny_config("groc", "ngrams", {"training.epochs": 3, **changes})
        torch.manual_seed(1)
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        text = corpus.text("train").ids(vocabulary)
        trainer = Trainer(model, config, text, corpus.text("valid"), tmp_path, choose(config.compute), Group(), True)
        trainer.run()
        rows = (tmp_path / "metrics.jsonl").read_text().splitlines()
        return [json.loads(row)["valid_loss"] for row in rows]

    def test_it_learns_as_the_full_softmax_does(self, corpus_folder: Any, glossary: Glossary, tmp_path: Any) -> None:
        full = self.losses(corpus_folder, glossary, tmp_path / "full", {})
        sampled = self.losses(corpus_folder, glossary, tmp_path / "sampled", {"training.sample": 20})
        assert sampled[-1] < sampled[0]
        assert sampled[-1] == pytest.approx(full[-1], rel=0.05)

    def test_a_sample_is_smaller_than_the_vocabulary(
        self, corpus_folder: Any, glossary: Glossary, tmp_path: Any
    ) -> None:
        with pytest.raises(GrocError, match=r"training\.sample=26 is no sample of 26 words"):
            self.losses(corpus_folder, glossary, tmp_path, {"training.sample": 26})

    def test_not_with_sparse_updates(self) -> None:
        with pytest.raises(GrocError, match="exclude each other"):
            tiny_config("groc", "ngrams", {"training.sample": 10, "training.full_updates": 0.5})


class TestFormsDropout:
    def parts(self, vocabulary: Vocabulary, glossary: Glossary, rates: tuple[float, float, float]) -> Any:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        dropout = FormsDropout(*rates)
        ones = [torch.ones(len(vocabulary), 2) for _ in range(3)]
        torch.manual_seed(0)
        return model.forms, dropout, [part[:, 0] for part in dropout(ones, model.forms)]

    def test_the_surface_goes_only_where_something_stays(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        forms, _, (surface, relations, definition) = self.parts(vocabulary, glossary, (1.0, 0.5, 0.5))
        others = (forms.relations.filled[:, 0] & (relations > 0)) | (forms.definition.filled[:, 0] & (definition > 0))
        assert torch.equal(surface == 0, others)
        assert 0 < int(others.sum()) < len(vocabulary)

    def test_each_word_on_its_own(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        _, _, (_, relations, definition) = self.parts(vocabulary, glossary, (0.0, 0.5, 0.5))
        assert 0 < relations.mean() < 1
        assert not torch.equal(relations, definition)

    def test_nothing_goes_when_not_training(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.surface_dropout": 0.9})
        assert torch.equal(model.embed().input, model.embed().input)
        model.train()
        assert not torch.equal(model.embed().input, model.embed().input)


class TestUsualEntries:
    def model(self, vocabulary: Vocabulary, glossary: Glossary, surface: str) -> LanguageModel:
        return tiny_model("groc", surface, vocabulary, glossary, {"forms.centred": True})

    def usual(self, model: LanguageModel) -> UsualEntries:
        [part] = [part for part in model.modules() if isinstance(part, UsualEntries)]
        return part

    @pytest.mark.parametrize("surface", ["cnn", "ngrams"])
    def test_agrees_with_the_naive_twin(self, vocabulary: Vocabulary, glossary: Glossary, surface: str) -> None:
        model = self.model(vocabulary, glossary, surface)
        with torch.no_grad():
            naive = embed_naively(model, model.forms)
            torch.testing.assert_close(model.embed().output, naive.output, rtol=1e-4, atol=1e-5)
            self.usual(model).sums.zero_()
            assert not torch.allclose(model.embed().output, naive.output, atol=1e-3)

    @pytest.mark.parametrize("parts", [1, 3])
    def test_entries_differ_from_none_by_what_they_say(
        self, vocabulary: Vocabulary, glossary: Glossary, parts: int
    ) -> None:
        """The mean entry is the same as none, what is not there stays away; and so if the words are taken in in parts,
        of which some have no entry, and what was found is averaged, as several processes do."""
        there = self.model(vocabulary, glossary, "ngrams").forms.entries_there
        generator = torch.Generator().manual_seed(3)
        entries = [torch.randn(len(vocabulary), 4, generator=generator) + shift for shift in (2.0, -1.0)]
        found = [UsualEntries(4) for _ in range(parts)]
        for number, usual in enumerate(found):
            mine = slice(number * len(vocabulary) // parts, (number + 1) * len(vocabulary) // parts)
            usual.observe([rows[mine] for rows in entries], [some[mine] for some in there])
        whole = UsualEntries(4)
        whole.sums.copy_(sum(usual.sums for usual in found) / parts)
        whole.counts.copy_(sum(usual.counts for usual in found) / parts)
        for rows, some in zip(whole(entries, there), there, strict=True):
            assert 0 < int(some.sum()) < len(vocabulary)
            torch.testing.assert_close(rows[some[:, 0]].mean(0), torch.zeros(4), rtol=0, atol=1e-5)
            assert not rows[~some[:, 0]].any()

    def test_means_are_learned_in_training_alone(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = self.model(vocabulary, glossary, "ngrams")
        before = self.usual(model).means
        model.embed()
        assert torch.equal(self.usual(model).means, before)
        model.train().embed()
        assert not torch.equal(self.usual(model).means, before)
