"""The language model over any vocabulary: vectors, probabilities, new words."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from conftest import CLOSED_KINDS, KINDS, NEW_WORDS, SURFACES, TERMS, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.nn import softmax
from groc.nn.input import WordTable
from groc.vocabulary import END, Vocabulary

unicode_words = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=8)
# Words that the glossary knows or names: adding one may turn a form word of another word into a word.
telling_words = st.sampled_from(sorted({*TERMS, *(form for _, related in TERMS.values() for form in related)}))
more_words = st.lists(unicode_words | telling_words, max_size=12)


@torch.no_grad()
def by_word(model: LanguageModel) -> dict[str, Tensor]:
    """Input embedding, output embedding and bias of each word, as one vector."""
    embeddings = model.embed()
    rows = torch.cat([embeddings.input, embeddings.output, embeddings.bias[:, None]], 1)
    return dict(zip(model.vocabulary, rows, strict=True))


def parameters(model: LanguageModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same_parameters(model: LanguageModel, before: dict[str, Tensor]) -> None:
    after = model.state_dict()
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name


def some_prefixes(model: LanguageModel, number: int = 5) -> Tensor:
    with torch.no_grad():
        ids = torch.randint(len(model.vocabulary), (number, 2), generator=torch.Generator().manual_seed(1))
        return model.read(model.embed(), ids, model.prefix.start(2))[0].dropped.flatten(0, 1)


@pytest.fixture(scope="module", params=SURFACES)
def open_model(request: pytest.FixtureRequest, vocabulary: Vocabulary, glossary: Glossary) -> LanguageModel:
    return tiny_model("groc", request.param, vocabulary, glossary)


class TestAVocabularyIsData:
    @given(more_words, st.randoms(use_true_random=False))
    def test_adding_and_reordering_words_never_changes_a_words_vector(
        self, open_model: LanguageModel, vocabulary: Vocabulary, more: list[str], shuffler: random.Random
    ) -> None:
        open_model.set_vocabulary(vocabulary)
        before = by_word(open_model)
        words = list(dict.fromkeys([*vocabulary, *more]))
        shuffler.shuffle(words)
        open_model.set_vocabulary(Vocabulary(words))
        after = by_word(open_model)
        for word, vector in before.items():
            torch.testing.assert_close(after[word], vector, atol=1e-6, rtol=1e-6)

    @given(st.lists(unicode_words | telling_words, min_size=1, max_size=6, unique=True))
    def test_removing_words_never_changes_a_words_vector(
        self, open_model: LanguageModel, vocabulary: Vocabulary, kept: list[str]
    ) -> None:
        open_model.set_vocabulary(vocabulary.union(kept))
        before = by_word(open_model)
        open_model.set_vocabulary(Vocabulary(dict.fromkeys([*kept, END])))
        for word, vector in by_word(open_model).items():
            torch.testing.assert_close(vector, before[word], atol=1e-6, rtol=1e-6)

    def test_what_a_lexicon_says_of_a_word_moves_its_vector(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        other = tiny_model("groc", "ngrams", vocabulary, Glossary({"dog": TERMS["dog"]}))
        other.load_state_dict(model.state_dict())
        told, untold = by_word(model), by_word(other)
        torch.testing.assert_close(told["dog"], untold["dog"], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(told["stop"], untold["stop"], atol=1e-6, rtol=1e-6)
        assert (told["cat"] - untold["cat"]).abs().max() > 1e-3

    @pytest.mark.parametrize("surface", SURFACES)
    def test_the_published_rules_do_depend_on_the_vocabulary(
        self, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", surface, vocabulary, glossary, {"forms.rules": "paper"})
        before = by_word(model)
        model.set_vocabulary(vocabulary.union(["hound"]))  # a relation of dog, and of nothing else
        after = by_word(model)
        assert (after["dog"] - before["dog"]).abs().max() > 1e-3
        torch.testing.assert_close(after["red"], before["red"], atol=1e-6, rtol=1e-6)

    def test_no_parameter_belongs_to_a_word(self, open_model: LanguageModel, glossary: Glossary) -> None:
        larger = Vocabulary([*(f"w{i}" for i in range(99)), END])
        surface = "cnn" if any("kernels" in name for name in open_model.state_dict()) else "ngrams"
        assert open_model.is_open
        assert open_model.vocabulary_parameter_count() == 0
        assert tiny_model("groc", surface, larger, glossary).parameter_count() == open_model.parameter_count()

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_order_of_words_does_not_matter_to_a_model_that_knows_them(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        before = by_word(model)
        words = list(vocabulary)
        random.Random(1).shuffle(words)
        model.set_vocabulary(Vocabulary(words))
        for word, vector in by_word(model).items():
            torch.testing.assert_close(vector, before[word], atol=1e-6, rtol=1e-6)


class TestProbabilities:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("words", ["training", "union", "subset", "only new"])
    def test_they_sum_to_one(self, kind: str, words: str, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        subset = random.Random(1).sample(sorted(set(vocabulary) - {END}), 9)
        model.set_vocabulary(
            {
                "training": vocabulary,
                "union": vocabulary.union(NEW_WORDS),
                "subset": Vocabulary([*subset, END]),
                "only new": Vocabulary([*NEW_WORDS, END]),
            }[words]
        )
        prefixes = some_prefixes(model)
        with torch.no_grad():
            embeddings = model.embed()
            log_probs = model.log_probs(embeddings, prefixes)
            assert log_probs.shape == (len(prefixes), len(model.vocabulary))
            assert torch.isfinite(log_probs).all()
            torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(len(prefixes)), atol=1e-5, rtol=0)
            for target in range(len(model.vocabulary)):  # the probability of one word agrees with that of all
                targets = torch.full((len(prefixes),), target)
                one = model.log_prob(embeddings, prefixes, targets)
                torch.testing.assert_close(one, log_probs[:, target], atol=1e-5, rtol=1e-5)

    @given(st.lists(unicode_words, min_size=1, max_size=20, unique=True))
    def test_they_sum_to_one_over_any_words(self, open_model: LanguageModel, words: list[str]) -> None:
        open_model.set_vocabulary(Vocabulary(dict.fromkeys([*words, END])))
        with torch.no_grad():
            total = open_model.log_probs(open_model.embed(), some_prefixes(open_model)).exp().sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)


class TestNewWords:
    @given(more_words)
    def test_an_open_model_gives_each_a_finite_probability_and_changes_no_parameter(
        self, open_model: LanguageModel, vocabulary: Vocabulary, more: list[str]
    ) -> None:
        before = parameters(open_model)
        union = vocabulary.union(more)
        open_model.set_vocabulary(union)
        with torch.no_grad():
            assert torch.isfinite(open_model.log_probs(open_model.embed(), some_prefixes(open_model))).all()
        assert_same_parameters(open_model, before)

    @pytest.mark.parametrize("grow", [False, True])
    def test_growing_means_nothing_to_an_open_model(
        self, open_model: LanguageModel, vocabulary: Vocabulary, grow: bool
    ) -> None:
        before = parameters(open_model)
        open_model.set_vocabulary(vocabulary.union(NEW_WORDS), grow=grow)
        assert_same_parameters(open_model, before)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_closed_model_has_only_the_uniform_share_for_them(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        before = parameters(model)
        with torch.no_grad():
            own = torch.softmax(model.embed().logits(prefixes := some_prefixes(model)), -1)
            union = vocabulary.union(NEW_WORDS)
            model.set_vocabulary(union)
            mixed = model.log_probs(model.embed(), prefixes).exp()
        uniform = (1 - 0.99) / len(union)
        torch.testing.assert_close(mixed[:, len(vocabulary) :], torch.full_like(mixed[:, len(vocabulary) :], uniform))
        torch.testing.assert_close(mixed[:, : len(vocabulary)], 0.99 * own + uniform, atol=1e-6, rtol=1e-5)
        assert_same_parameters(model, before)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_back_in_its_own_vocabulary_a_closed_model_mixes_nothing_in(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        prefixes = some_prefixes(model)
        with torch.no_grad():
            before = model.log_probs(model.embed(), prefixes)
            model.set_vocabulary(vocabulary.union(NEW_WORDS))
            model.set_vocabulary(vocabulary)
            assert torch.equal(model.log_probs(model.embed(), prefixes), before)

    @pytest.mark.parametrize("uniform", [0.0, 1.0])
    def test_the_ends_of_the_uniform_share_are_refused_or_work(
        self, uniform: float, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        try:
            model = tiny_model("tied", "cnn", vocabulary, glossary, {"model.uniform": uniform})
        except GrocError as error:
            assert "model.uniform" in str(error)  # noqa: PT017
            return
        model.set_vocabulary(vocabulary.union(NEW_WORDS))
        with torch.no_grad():
            total = model.log_probs(model.embed(), some_prefixes(model)).exp().sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total))

    @pytest.mark.parametrize("kind", KINDS)
    def test_using_another_vocabulary_for_a_while_leaves_no_trace(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        before = by_word(model)
        union = vocabulary.union(NEW_WORDS)

        def fail() -> None:
            with model.using(union, model.prepare(union)):
                assert len(model.embed().bias) == len(union)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        after = by_word(model)
        assert all(torch.equal(after[word], vector) for word, vector in before.items())


class TestGrowing:
    @staticmethod
    def tables(model: LanguageModel) -> dict[str, Tensor]:
        return {
            name: module.weight.detach().clone()
            for name, module in model.named_modules()
            if isinstance(module, WordTable)
        }

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_new_rows_come_behind_and_all_else_stays_bitwise(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        before, old = by_word(model), parameters(model)
        tables = self.tables(model)
        model.set_vocabulary(vocabulary.union(NEW_WORDS), grow=True)
        grown = self.tables(model)
        added = 0
        for name, table in tables.items():
            assert torch.equal(grown[name][: len(table)], table), name
            added += grown[name].numel() - table.numel()
        assert added > 0
        for name, tensor in model.state_dict().items():
            assert name.removesuffix(".weight") in tables or torch.equal(tensor, old[name]), name
        after = by_word(model)
        for word, vector in before.items():
            torch.testing.assert_close(after[word], vector, atol=1e-6, rtol=1e-6)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_grown_words_are_scored_by_the_model_alone(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        model.set_vocabulary(vocabulary.union(NEW_WORDS), grow=True)
        with torch.no_grad():
            embeddings = model.embed()
            log_probs = model.log_probs(embeddings, some_prefixes(model))
        assert torch.isfinite(embeddings.bias).all()
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(len(log_probs)), atol=1e-5, rtol=0)
        new = log_probs[:, len(vocabulary) :].exp()
        assert not torch.allclose(new, torch.full_like(new, 0.01 / len(model.vocabulary)), rtol=0.1)
        assert not torch.allclose(embeddings.input[-1], embeddings.input[-2]), "each new word has a row of its own"

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_grown_model_can_be_trained(self, kind: str, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        union = vocabulary.union(NEW_WORDS)
        model.set_vocabulary(union, grow=True)
        model.train()
        optimiser = torch.optim.Adam(model.parameters(), 0.01)
        ids = torch.tensor([[union.index[word]] for word in ("dog", *NEW_WORDS, END)])
        losses = []
        for _ in range(8):
            torch.manual_seed(1)  # the same dropout each time
            embeddings = model.embed()
            prefixes, _ = model.read(embeddings, ids[:-1], model.prefix.start(1))
            loss = softmax.loss(prefixes.dropped.flatten(0, 1), embeddings, ids[1:].flatten()).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < losses[0]
        assert all(map(math.isfinite, losses))

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_growing_twice_by_the_same_words_adds_no_row(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "cnn", vocabulary, glossary)
        model.set_vocabulary(vocabulary.union(NEW_WORDS), grow=True)
        once = parameters(model)
        model.set_vocabulary(Vocabulary([*NEW_WORDS, END]), grow=True)
        assert_same_parameters(model, once)


class TestFacts:
    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_vocabulary_parameters_are_those_that_come_with_a_word(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        small = tiny_model(kind, "cnn", vocabulary, glossary)
        large = tiny_model(kind, "cnn", vocabulary.union(NEW_WORDS), glossary)
        more = large.parameter_count() - small.parameter_count()
        assert more == large.vocabulary_parameter_count() - small.vocabulary_parameter_count() > 0

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_seed_builds_the_same_model(self, kind: str, vocabulary: Vocabulary, glossary: Glossary) -> None:
        one, other = (tiny_model(kind, "cnn", vocabulary, glossary) for _ in range(2))
        assert_same_parameters(one, parameters(other))


class TestComposition:
    """What is combined in fewer dimensions equals the combination of the vectors themselves."""

    @pytest.mark.parametrize("surface", SURFACES)
    @torch.no_grad()
    def test_a_word_is_its_surface_relations_and_definition(
        self, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", surface, vocabulary, glossary)
        strings = model.input.surface(model.forms.strings)  # [S, d]
        forms = model.compiler.compile(vocabulary)
        for word, found in enumerate(model.embed().input):
            parts = [strings[word]]
            for lists in (forms.relations, forms.definition):
                some = strings[lists.index[lists.offsets[word] : lists.offsets[word + 1]]]
                parts.append(some.mean(0) if len(some) else torch.zeros(8))
            torch.testing.assert_close(found, model.input.combination(torch.cat(parts)), atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("centred", [False, True])
    @pytest.mark.parametrize("depth", [0, 2])
    @pytest.mark.parametrize("surface", SURFACES)
    @torch.no_grad()
    def test_without_gradients_nothing_is_as_large_as_the_vocabulary_but_what_is_needed(
        self,
        surface: str,
        depth: int,
        centred: bool,
        vocabulary: Vocabulary,
        glossary: Glossary,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The vectors of strings, E^in, and E^out where it is another matrix; all else is done in chunks."""
        changes = {"output.depth": depth, "forms.centred": centred}
        model = tiny_model("groc", surface, vocabulary, glossary, changes)
        expected = model.embed()
        work_in_chunks(monkeypatch, 4)
        for one, other in zip(vars(model.embed()).values(), vars(expected).values(), strict=True):
            torch.testing.assert_close(one, other)
        work_in_chunks(monkeypatch, 1)  # a few strings have as many characters as there are words here
        strings, words = len(model.compiler.compile(vocabulary)), len(vocabulary)
        with Matrices({words, 2 * words, strings}) as made:
            model.embed()
        assert [len(matrix) for matrix in made.matrices] == [strings, words] + [words] * (depth > 0)

    @torch.no_grad()
    def test_in_training_one_mask_of_dropout_is_for_all_words(
        self, vocabulary: Vocabulary, glossary: Glossary, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changes = {"output.dropout": 0.5, "output.bias_dropout": 0.5, "forms.relations_dropout": 0.5}
        model = tiny_model("groc", "ngrams", vocabulary, glossary, changes).train()
        torch.manual_seed(1)
        expected = model.embed()
        work_in_chunks(monkeypatch, 4)
        torch.manual_seed(1)
        for one, other in zip(vars(model.embed()).values(), vars(expected).values(), strict=True):
            torch.testing.assert_close(one, other)


def work_in_chunks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("groc.nn.surface.CHUNK", size)


class Matrices(TorchDispatchMode):
    """Notes the matrices of numbers that are made with so many rows, each once."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__()
        self.rows = rows
        self.by_place: dict[int, Tensor] = {}  # kept, so that no place is used twice

    @property
    def matrices(self) -> list[Tensor]:
        return list(self.by_place.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            numbers = isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.dim() == 2
            if numbers and len(tensor) in self.rows and tensor.shape[1] > 1:
                self.by_place.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return made
