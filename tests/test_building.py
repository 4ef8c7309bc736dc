"""From settings to a model: what biases start at, and how large the recipes' models are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conftest import CLOSED_KINDS, KINDS, NEW_WORDS, tiny_config
from hypothesis import given
from hypothesis import strategies as st

from groc.building import build
from groc.config import Config
from groc.lexicon import Empty, Glossary
from groc.model import LanguageModel
from groc.nn.output import BiasTable
from groc.paper.runs import unused
from groc.recipe import load_recipe, variant_names
from groc.vocabulary import END, Vocabulary

COUNTED = {"output.count_bias": True}
PAPER = (None, *(name for name in variant_names("penn") if name.startswith("groc") and "-out" not in name))
WORDS = {"penn": 10_000, "penn-best": 10_000, "wikitext2-best": 33_278}
LIMITS = [
    *(("penn", variant, 9_800_000) for variant in PAPER),
    *((best, variant, 24_000_000) for best in ("penn-best", "wikitext2-best") for variant in (None, "groc", "tied")),
]
"""With the words of the corpora. What has the output network besides is an ablation, and no part of it."""
OTHER: dict[str, Any] = {
    "output.depth": 3, "output.activation": "tanh", "output.bias": "relu", "output.correction": 5, "output.factor": 3,
    "surface.buckets": 77, "surface.filters": (4, 4), "forms.relations": 1,
}  # fmt: skip
"""Settings that some models make no use of, and values that are none of a tiny model's."""


def built(kind: str, vocabulary: Vocabulary, calibrate: bool = True) -> LanguageModel:
    torch.manual_seed(1)
    return build(tiny_config(kind, changes=COUNTED), vocabulary, Empty(), calibrate).eval()


class TestBiasesThatStartAtCounts:
    @given(st.lists(st.integers(0, 10**7), min_size=1, max_size=20))
    def test_their_softmax_is_the_share_of_each_word_counted_once_more(self, counts: list[int]) -> None:
        bias = BiasTable(len(counts))
        bias.calibrate(np.array(counts))
        expected = (torch.tensor(counts) + 1) / sum(count + 1 for count in counts)
        torch.testing.assert_close(bias.weight[:, 0].softmax(0), expected, atol=1e-6, rtol=1e-4)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_model_that_knows_nothing_else_predicts_by_frequency(self, kind: str, vocabulary: Vocabulary) -> None:
        model = built(kind, vocabulary)
        with torch.no_grad():
            nothing = torch.zeros(1, 8)
            found = model.log_probs(model.embeddings, nothing)[0].exp()
        counts = torch.from_numpy(vocabulary.counts) + 1
        torch.testing.assert_close(found, counts / counts.sum(), atol=1e-6, rtol=1e-4)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_word_that_is_grown_or_has_no_row_starts_at_the_mean(self, kind: str, vocabulary: Vocabulary) -> None:
        for grow in (False, True):
            model = built(kind, vocabulary.without(["<unk>"]))
            model.set_vocabulary(model.vocabulary.union(NEW_WORDS), grow=grow)
            bias = model.output.bias(model.forms)
            new, mean = bias[-len(NEW_WORDS) :], bias[: -len(NEW_WORDS)].mean()
            torch.testing.assert_close(new, mean.expand_as(new), atol=1e-5, rtol=0)

    def test_all_start_at_zero_where_it_is_off_or_weights_are_loaded(self, vocabulary: Vocabulary) -> None:
        assert not Config().output.count_bias
        for model in (build(tiny_config("tied"), vocabulary), built("tied", vocabulary, calibrate=False)):
            assert not model.output.bias.weight.any()

    def test_groc_adds_them_to_biases_that_it_predicts(self, vocabulary: Vocabulary) -> None:
        """So at the start, when these are zero, words have their frequencies, and one never seen half a word's."""
        model = built("groc", vocabulary)
        assert model.is_open
        model.set_vocabulary(vocabulary.union(["ocean"]))
        shares = np.append(vocabulary.counts, 0) + 0.5
        expected = np.log(shares / vocabulary.counts.sum())
        biases = model.embeddings.logits(torch.zeros(1, 8))[0]
        np.testing.assert_allclose(biases.detach(), expected, atol=1e-5)
        # However a word came into the list, and with whatever others.
        twin = built("groc", vocabulary)
        twin.load_state_dict(model.state_dict())
        _ = twin.embeddings
        twin.add_words(["ocean"])
        np.testing.assert_allclose(twin.embeddings.logits(torch.zeros(1, 8))[0].detach(), expected, atol=1e-5)
        part = model.embed_forms(model.forms.take(torch.tensor([1, 3, len(vocabulary)])))
        np.testing.assert_allclose(part.bias.detach(), expected[[1, 3, -1]], atol=1e-5)
        # The explanation of a word is that of the same bias.
        with torch.no_grad():
            assert model.output.frequency is not None
            model.output.frequency.fill_(2.0)
        np.testing.assert_allclose(model.embeddings.logits(torch.zeros(1, 8))[0].detach(), 2 * expected, atol=1e-5)

    def test_all_in_the_recipes_have_it_and_published_settings_do_not(self) -> None:
        for recipe in ("penn", "penn-best", "wikitext2", "wikitext2-best", "news"):
            for variant in variant_names(recipe):
                output = load_recipe(recipe, variant).output
                assert output.count_bias != variant.endswith("-published"), f"{recipe}/{variant}"


class TestSizes:
    @pytest.mark.parametrize(("recipe", "variant", "most"), LIMITS)
    def test_what_is_limited_fits(self, recipe: str, variant: str | None, most: int) -> None:
        words = Vocabulary([END, *(f"word{i}" for i in range(WORDS[recipe] - 1))])
        model = build(load_recipe(recipe, variant), words, Empty(), calibrate=False)
        assert 0.95 * most < model.parameter_count() <= most

    @pytest.mark.parametrize(
        ("kind", "key"),
        [(kind, key) for kind in KINDS for key in OTHER if key in unused(tiny_config(kind).flat())],
    )
    def test_a_setting_that_a_model_makes_no_use_of_changes_nothing(
        self, kind: str, key: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        """Not even its start values: records take runs that differ in such settings for the same."""
        weights = []
        for changes in ({}, {key: OTHER[key]}):
            torch.manual_seed(1)
            weights.append(build(tiny_config(kind, changes=changes), vocabulary, glossary).state_dict())
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

    @pytest.mark.parametrize("recipe", ["penn-best", "wikitext2-best"])
    def test_a_best_recipe_has_both_models_learn_in_the_same_steps(self, recipe: str) -> None:
        """Each with the dropout, the epochs and the encoder's rate that were best for it so far, and with the widths
        that its words leave room for."""
        groc, tied = (load_recipe(recipe, variant) for variant in ("groc", "tied"))
        own = {"training.encoder_rate": 1.0, "training.epochs": tied.training.epochs}
        assert groc.replace(own).training == tied.training
        assert groc.prefix.layers == tied.prefix.layers
        assert groc.output.mixtures == tied.output.mixtures
        assert (groc.output.kind, tied.output.kind) == ("groc", "tied")
        assert set(variant_names(recipe)) == {"groc", "tied"}
