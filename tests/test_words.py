"""Words that come and go at run time: composed once, alone, and never at the cost of others."""

from __future__ import annotations

import copy as copying
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CLOSED_KINDS, KINDS, NEW_WORDS, SURFACES, TERMS, tiny_config, tiny_model
from hypothesis import example, given
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import groc
from groc import checkpoint
from groc.adaptation.adapting import learn_words
from groc.adaptation.dynamic import Dynamic, score_dynamically
from groc.corpus import Text
from groc.errors import GrocError
from groc.kept import Stamp
from groc.lexicon import Coverage, Empty, Glossary
from groc.model import LanguageModel
from groc.scoring import score
from groc.vocabulary import END, Vocabulary


def recomposed(model: LanguageModel) -> LanguageModel:
    """A twin that keeps nothing: all its vectors come from the forms of the whole list."""
    twin = model.copy()
    twin._kept = None
    return twin


def assert_same_vectors(model: LanguageModel) -> None:
    """What is kept equals what composing everything anew gives, for input, output and probabilities."""
    naive, kept = recomposed(model).embed(), model.embeddings
    ids = torch.arange(len(model.vocabulary))
    torch.testing.assert_close(kept.rows(ids), naive.input, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(kept.output_rows(ids), naive.output, atol=1e-5, rtol=1e-5)
    prefixes = torch.randn(3, naive.output.shape[1], generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(kept.logits(prefixes), naive.logits(prefixes), atol=1e-5, rtol=1e-5)
    total = model.log_probs(kept, prefixes).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(3), atol=1e-5, rtol=0)


DEEP_COPIES = [copying.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]

COMPOSING_ANEW: dict[str, Callable[[LanguageModel, Path], object]] = {
    "read dynamically": lambda model, folder: score_dynamically(model, [0, 1], Dynamic()),
    "read with other weights": lambda model, folder: (model.load_state_dict(model.state_dict()), model.embeddings),
    "adapt": lambda model, folder: learn_words(model, Text("text", ("wug", END), np.array([0, 1]))),
    "save": lambda model, folder: checkpoint.save(folder, model, tiny_config()),
}
"""What needs the entries of a model's words, however these came to be known."""


class Counting:
    """A lexicon that remembers what it was asked."""

    def __init__(self, glossary: Glossary) -> None:
        self.glossary, self.asked = glossary, []

    @property
    def fingerprint(self) -> str:
        return self.glossary.fingerprint

    def entry(self, word: str) -> Any:
        self.asked.append(word)
        return self.glossary.entry(word)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("surface", SURFACES)
class TestAgreesWithComposingEverything:
    @torch.no_grad()
    def test_after_adding_removing_and_replacing(
        self, kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        assert_same_vectors(model)
        model.add_words(["zebra", "ocean"])
        assert_same_vectors(model)
        model.add_words(Glossary({"wug": ("a small animal", ["bird"]), "dog": ("a machine for the sea", [])}))
        assert_same_vectors(model)
        model.remove_words(["cat", "zebra"])
        assert_same_vectors(model)
        model.add_words(["zebra", "cat", "naïve"])
        assert_same_vectors(model)
        model.set_vocabulary(Vocabulary(["ocean", "new", "the", END, "wug"]))
        assert_same_vectors(model)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from([*NEW_WORDS, *TERMS, "blick"]), max_size=4)),
        st.tuples(st.just("teach"), st.lists(st.sampled_from([*NEW_WORDS, *TERMS, "blick"]), max_size=3, unique=True)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from([*NEW_WORDS, *TERMS, "blick"]), max_size=3)),
        st.just(("compose", ())),
    ),
    max_size=8,
)


class TestAnyOrder:
    @given(st.booleans(), CHANGES)
    @example(False, [("teach", ["blick"]), ("compose", ()), ("remove", ["blick"]), ("add", ["blick"])])
    @torch.no_grad()
    def test_whatever_was_done_before(
        self, vocabulary: Vocabulary, glossary: Glossary, composed: bool, changes: Any
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        if composed:
            model.embeddings  # noqa: B018
        for what, words in changes:
            if what == "compose":  # the whole list, with what has been taught so far
                model._kept = None
                model.embeddings  # noqa: B018
            elif what == "add":
                model.add_words(words)
            elif what == "teach":
                model.add_words(Glossary({word: (f"definition of {word}", ["sea"]) for word in words}))
            else:
                model.remove_words([word for word in words if word in model.vocabulary])
        assert_same_vectors(model)


class TestOnlyWhatIsNew:
    def test_the_lexicon_is_asked_for_new_words_alone(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        lexicon = Counting(glossary)
        model = tiny_model("groc", "ngrams", vocabulary, lexicon)
        model.embeddings  # noqa: B018
        lexicon.asked.clear()
        model.add_words(["zebra", "dog"])
        with pytest.raises(GrocError, match="are a Glossary"):
            model.add_words({"wug": ("a small animal", [])})
        model.embeddings  # noqa: B018
        assert lexicon.asked == ["zebra"]

    def test_the_large_table_is_shared(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        before = model.embeddings.base
        twin = model.copy()
        twin.add_words(Glossary({"wug": ("a small animal", [])}))
        assert twin.embeddings.base.output.data_ptr() == before.output.data_ptr()

    def test_rows_that_no_word_needs_are_let_go(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.embeddings  # noqa: B018
        for _ in range(20):
            model.add_words(Glossary({"wug": ("a small animal", [])}))
            model.remove_words(["wug"])
        assert len(model.embeddings.added) == 0
        for _ in range(20):
            model.add_words(Glossary({"wug": ("a small animal", [])}))
        assert len(model.embeddings.added) == 1

    def test_kept_until_a_weight_changes(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        first = model.embeddings
        assert model.embeddings is first
        with torch.no_grad():
            model.input.combination.weight.mul_(2)
        torch.testing.assert_close(model.embeddings.rows(torch.arange(3)), 2 * first.rows(torch.arange(3)))

    @pytest.mark.parametrize("fused", [False, True])
    def test_a_step_of_the_optimiser_is_noticed(self, vocabulary: Vocabulary, glossary: Glossary, fused: bool) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        before = score(model, [1, 2, 3]).log_prob
        optimiser = torch.optim.Adam(model.parameters(), 0.1, fused=fused)
        model.embed().output.sum().backward()
        optimiser.step()
        assert not (score(model, [1, 2, 3]).log_prob == before).any()

    def test_other_weights_are_noticed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        other = copying.deepcopy(model.state_dict())
        other["input.combination.weight"] += 1
        before = model.embeddings.rows(torch.arange(3))
        model.load_state_dict(other)
        assert not torch.equal(model.embeddings.rows(torch.arange(3)), before)

    def test_strings_of_training_that_come_with_weights_are_noticed(
        self, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        """What n-grams a model knows is noted beside its weights, and decides what words are made of."""
        other, familiar = Vocabulary([END, "zebra", "quagga", "the"], [9, 1, 1, 1]), {"surface.familiar": True}
        trained, model = (tiny_model("groc", "ngrams", words, glossary, familiar) for words in (vocabulary, other))
        model.embeddings  # noqa: B018
        forms = model.forms
        model.load_state_dict(model.state_dict())
        assert model.forms is forms  # there is nothing new to make
        model.load_state_dict(trained.state_dict())
        trained.set_vocabulary(other)
        rows = torch.arange(len(other))
        assert torch.equal(model.embeddings.rows(rows), trained.embeddings.rows(rows))

    @torch.no_grad()
    def test_strings_that_a_copy_notes_are_noticed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        """They are the model's too, as weights are."""
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"surface.familiar": True})
        model.set_vocabulary(vocabulary.union(NEW_WORDS))
        model.embeddings  # noqa: B018
        twin = model.copy()
        twin.trained = model.vocabulary
        twin.remember_strings()
        fresh = model.copy()
        fresh._forms = fresh._kept = None
        ids = torch.arange(len(model.vocabulary))
        torch.testing.assert_close(model.embeddings.rows(ids), fresh.embeddings.rows(ids))

    @pytest.mark.parametrize("change", [lambda words: words[::-1], lambda words: [*words, *NEW_WORDS]])
    def test_a_list_that_is_assigned_is_noticed(
        self, vocabulary: Vocabulary, glossary: Glossary, change: Callable[[Sequence[str]], Sequence[str]]
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.embeddings  # noqa: B018
        model.vocabulary = Vocabulary(change(vocabulary.words))
        assert_same_vectors(model)
        with pytest.raises(AttributeError, match="taught"):
            model.taught = glossary  # type: ignore[misc]

    def test_another_lexicon_is_noticed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        """And what was taught stays taught."""
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.add_words(Glossary({"blorp": ("a small dog", ["dog"])}))
        before, forms = model.embeddings.output_rows(torch.arange(len(model.vocabulary))), model.forms
        model.compiler = replace(model.compiler, lexicon=Empty())
        assert model.forms is not forms
        after = model.embeddings.output_rows(torch.arange(len(model.vocabulary)))
        changed = {
            word for word, same in zip(model.vocabulary, (before == after).all(1).tolist(), strict=True) if not same
        }
        assert changed
        assert "blorp" not in changed
        assert all(glossary.entry(word) for word in changed)
        assert_same_vectors(model)
        model.remove_words(["blorp"])
        model.add_words(["blorp"])
        assert not model.in_lexicon("blorp"), "the lexicon of before does not come back"

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_compiler_put_back_does_not_make_what_was_taught_part_of_the_lexicon(
        self, vocabulary: Vocabulary, glossary: Glossary, wrapped: bool
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.add_words(Glossary({"blorp": ("a small dog", ["dog"]), "dog": ("a machine", [])}))
        compiler = model.compiler
        model.compiler = replace(compiler, lexicon=Coverage(compiler.lexicon, 1.0)) if wrapped else compiler
        assert model.in_lexicon("blorp")
        assert_same_vectors(model)
        model.remove_words(["blorp", "dog"])
        model.add_words(["blorp", "dog"])
        assert not model.in_lexicon("blorp")
        untaught = tiny_model("groc", "ngrams", vocabulary, glossary)
        untaught.set_vocabulary(model.vocabulary)
        ids = torch.arange(len(model.vocabulary))
        torch.testing.assert_close(model.embeddings.rows(ids), untaught.embeddings.rows(ids))

    def test_parts_in_another_mode_than_the_whole(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"output.dropout": 0.5})
        plain = model.eval().embeddings.rows(torch.arange(5))
        model.input.train()
        with torch.no_grad():
            next(model.parameters()).mul_(1)
        assert torch.equal(model.embeddings.rows(torch.arange(5)), plain)
        assert model.input.dropout.training
        assert not model.prefix.training

    def test_other_weights_do_not_come_to_lie_where_the_last_ones_lay(self) -> None:
        stamp = Stamp.of([torch.zeros(1000)])
        assert all(stamp != Stamp.of([torch.zeros(1000)]) for _ in range(20))

    def test_weights_put_in_the_place_of_others_are_noticed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        weights = parameters_to_vector(model.parameters()).detach()
        for factor in (1, 2, 3):
            vector_to_parameters(weights * factor, model.parameters())  # by way of `.data`
            assert_same_vectors(model)

    @pytest.mark.parametrize("copied", DEEP_COPIES)
    def test_a_deep_copy_composes_its_own(
        self, vocabulary: Vocabulary, glossary: Glossary, copied: Callable[[LanguageModel], LanguageModel]
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        before = model.embeddings.rows(torch.arange(5))
        twin = copied(model)
        weights = {weight.data_ptr() for weight in model.parameters()}
        assert not weights & {weight.data_ptr() for weight in twin._kept.stamp.held}  # else it would hold the model's
        with torch.no_grad():
            twin.input.combination.weight.mul_(2)
        assert_same_vectors(twin)
        assert torch.equal(model.embeddings.rows(torch.arange(5)), before)

    def test_an_autocast_around_it_changes_nothing(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model, twin = (tiny_model("groc", "ngrams", vocabulary, glossary) for _ in range(2))
        words = torch.arange(len(vocabulary))
        with torch.autocast("cpu", torch.bfloat16):
            composed = model.embeddings.rows(words)
            surprisals = [word.surprisal for word in model.score("the cat saw the dog")]
            model.add_words(["zebra"])
        assert torch.equal(composed, twin.embeddings.rows(words))
        assert surprisals == [word.surprisal for word in twin.score("the cat saw the dog")]
        assert_same_vectors(model)

    def test_dropout_is_off_while_composing_and_on_again_behind(
        self, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"output.dropout": 0.5})
        expected = model.embeddings.rows(torch.arange(5))
        model._kept = None
        model.train()
        assert torch.equal(model.embeddings.rows(torch.arange(5)), expected)
        assert model.input.dropout.training


class TestMeanings:
    @torch.no_grad()
    def test_a_definition_changes_its_own_word_and_no_other(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.add_words(["wug"])
        ids = torch.arange(len(model.vocabulary))
        before = model.embeddings.rows(ids)
        model.add_words(Glossary({"wug": ("a small animal", ["bird"])}))
        after = model.embeddings.rows(ids)
        assert torch.equal(after[:-1], before[:-1])
        assert not torch.allclose(after[-1], before[-1])
        assert model.in_lexicon("wug")

    @torch.no_grad()
    def test_what_was_taught_is_forgotten_with_the_word(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        dog = model.vocabulary.index["dog"]
        before = model.embeddings.rows(torch.tensor([dog]))
        model.add_words(Glossary({"dog": ("a machine", [])}))
        assert not torch.allclose(model.embeddings.rows(torch.tensor([dog])), before)
        model.remove_words(["dog"])
        model.add_words(["dog"])
        again = model.embeddings.rows(torch.tensor([model.vocabulary.index["dog"]]))
        torch.testing.assert_close(again, before)
        assert "dog" not in model.taught

    def test_a_copy_leaves_the_model_as_it_was(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        before = score(model, [1, 2, 3]).log_prob
        twin = model.copy()
        twin.add_words(Glossary({"wug": ("a small animal", []), "the": ("a machine", [])}))
        twin.remove_words(["cat"])
        assert model.vocabulary is vocabulary
        assert not len(model.taught)
        assert (score(model, [1, 2, 3]).log_prob == before).all()
        assert all(one is other for one, other in zip(model.parameters(), twin.parameters(), strict=True))

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_copy_that_grows_leaves_the_model_as_it_was(
        self, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, "ngrams", vocabulary, glossary)
        before = score(model, [1, 2, 3]).log_prob
        twin = model.copy()
        twin.set_vocabulary(vocabulary.union(NEW_WORDS), grow=True)
        assert (score(model, [1, 2, 3]).log_prob == before).all()
        assert not twin.mixes_uniform
        assert_same_vectors(twin)
        assert twin._surface[0] is getattr(twin.output, "surface", None)

    def test_terms_of_several_words_become_one(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.lower": True})
        model.add_words(Glossary({"Sea  Dog": ("an old sailor", ["sailor"])}, mark="+"))
        assert model.vocabulary.words[-1] == "sea+dog"
        assert list(model.taught) == ["sea+dog"]
        assert model.in_lexicon("sea+dog")

    def test_a_term_of_several_words_goes_by_its_spelling_too(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.add_words(Glossary({"sea dog": ("an old sailor", ["sailor"])}))
        assert model.explain("sea dog").word == "sea_dog"
        model.remove_words(["sea dog"])
        assert "sea_dog" not in model.vocabulary

    def test_words_are_lower_cased_where_the_text_is(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.lower": True})
        model.add_words(["Zebra"])
        assert model.vocabulary.words[-1] == "zebra"


class TestBadWords:
    @pytest.mark.parametrize("method", ["add_words", "remove_words"])
    @pytest.mark.parametrize("words", [["cat", 1], [b"cat"], 5, None])
    def test_what_is_no_list_of_words(
        self, method: str, words: Any, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        with pytest.raises(GrocError, match=r"is no (word: words are texts|list of words)\."):
            getattr(model, method)(words)
        assert model.vocabulary == vocabulary

    @pytest.mark.parametrize("method", ["add_words", "remove_words"])
    def test_one_string_is_not_a_list(self, method: str, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        with pytest.raises(GrocError, match=r"\['dog'\]"):
            getattr(model, method)("dog")

    @pytest.mark.parametrize("words", [[""], ["two words"], ["a\tb"]])
    def test_impossible_words(self, words: list[str], vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        with pytest.raises(GrocError, match="cannot be a word"):
            model.add_words(words)
        assert model.vocabulary is vocabulary

    def test_a_word_that_is_not_there_cannot_be_removed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        with pytest.raises(GrocError, match="'wug' is not in the vocabulary"):
            model.remove_words(["dog", "wug"])
        assert "dog" in model.vocabulary

    def test_the_end_cannot_be_removed(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        with pytest.raises(GrocError, match="<eos>"):
            model.remove_words([END])

    def test_terms_that_are_one_word_to_the_model(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.lower": True})
        with pytest.raises(GrocError, match="'AIDS' and 'aids' are the same word, 'aids'"):
            model.add_words(Glossary({"AIDS": ("a disease", []), "aids": ("helps", [])}))
        assert model.vocabulary is vocabulary

    @pytest.mark.parametrize("mark", ["", " ", "a b"])
    def test_a_mark_that_cannot_join(self, mark: str) -> None:
        with pytest.raises(GrocError, match="cannot join"):
            Glossary({}, mark=mark)


class TestPaperRules:
    """There a word's forms depend on which other words there are, so a change composes all anew."""

    @torch.no_grad()
    def test_old_words_gain_relations(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.rules": "paper"})
        dog = torch.tensor([model.vocabulary.index["dog"]])
        before = model.embeddings.rows(dog)
        model.add_words(["hound", "canine"])
        assert_same_vectors(model)
        assert not torch.allclose(model.embeddings.rows(dog), before)


class TestPacked:
    @pytest.fixture
    def packed(self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> tuple[Path, LanguageModel]:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        checkpoint.save_packed(tmp_path / "packed", model, tiny_config(), {"valid_perplexity": 1.5}, len(vocabulary))
        return tmp_path / "packed", model

    def test_words_of_training_need_no_lexicon(self, packed: tuple[Path, LanguageModel]) -> None:
        folder, model = packed
        loaded = groc.load(folder, lexicon=Empty())
        ids = list(range(len(model.vocabulary)))
        assert abs(score(model, ids).log_prob - score(loaded, ids).log_prob).max() < 0.02  # half precision
        assert [loaded.in_lexicon(word) for word in loaded.trained] == [model.in_lexicon(w) for w in model.trained]

    @pytest.mark.parametrize("copied", DEEP_COPIES)
    def test_a_deep_copy_has_them_too(
        self, packed: tuple[Path, LanguageModel], copied: Callable[[LanguageModel], LanguageModel]
    ) -> None:
        loaded = groc.load(packed[0], lexicon=Empty())
        loaded.add_words(Glossary({"wug": ("a small animal", [])}))
        twin, ids = copied(loaded), torch.arange(len(loaded.vocabulary))
        assert torch.equal(twin.embeddings.output_rows(ids), loaded.embeddings.output_rows(ids))
        assert twin.in_lexicon("dog")

    def test_the_model_that_comes_along_goes_into_other_processes(self) -> None:
        """As PyTorch's loaders and `multiprocessing` pass what they work with."""
        loaded = checkpoint.load().model
        twin = pickle.loads(pickle.dumps(loaded))
        text = "the process of a blorp"
        assert [row.surprisal for row in twin.score(text)] == [row.surprisal for row in loaded.score(text)]

    @torch.no_grad()
    def test_a_compiler_put_back_changes_nothing(self, packed: tuple[Path, LanguageModel]) -> None:
        loaded = groc.load(packed[0], lexicon=Empty())
        before = loaded.embeddings.rows(torch.arange(9))
        loaded.compiler = loaded.compiler
        assert torch.equal(loaded.embeddings.rows(torch.arange(9)), before)
        assert loaded.in_lexicon("dog")

    def test_another_lexicon_is_all_that_is_known(self, packed: tuple[Path, LanguageModel]) -> None:
        loaded = groc.load(packed[0], lexicon=Empty())
        loaded.compiler = replace(loaded.compiler, lexicon=Glossary({"cat": ("a pet", [])}))
        assert [word for word in loaded.trained if loaded.in_lexicon(word)] == ["cat"]
        assert_same_vectors(loaded)

    @torch.no_grad()
    def test_they_keep_their_vectors_whatever_is_added(self, packed: tuple[Path, LanguageModel]) -> None:
        loaded = groc.load(packed[0], lexicon=Empty())
        before = loaded.embeddings.rows(torch.arange(10))
        loaded.add_words(["zebra"])
        loaded.set_vocabulary(loaded.vocabulary.union(["ocean"]))
        assert torch.equal(loaded.embeddings.rows(torch.arange(10)), before)

    @torch.no_grad()
    def test_new_words_are_composed_from_the_lexicon(
        self, packed: tuple[Path, LanguageModel], glossary: Glossary
    ) -> None:
        folder, model = packed
        loaded = groc.load(folder, lexicon=glossary)
        for one in (model, loaded):
            one.add_words(["zebra"])
        last = torch.tensor([len(model.vocabulary) - 1])
        torch.testing.assert_close(loaded.embeddings.rows(last), model.embeddings.rows(last), atol=0.01, rtol=0.01)

    def test_it_holds_no_text_of_the_lexicon(self, packed: tuple[Path, LanguageModel]) -> None:
        everything = b"".join(path.read_bytes() for path in packed[0].iterdir())
        assert b"domestic" not in everything
        assert not (packed[0] / checkpoint.LEXICON).exists()

    def test_a_model_with_other_words_or_tables_is_not_packed(
        self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        closed = tiny_model("tied", "ngrams", vocabulary, glossary)
        changed = tiny_model("groc", "ngrams", vocabulary, glossary)
        changed.add_words(["zebra"])
        for model in (closed, changed):
            with pytest.raises(GrocError, match="packed"):
                checkpoint.save_packed(tmp_path / "no", model, tiny_config(), {}, 10)

    def test_rare_words_of_training_are_composed_where_they_are_met(
        self, packed: tuple[Path, LanguageModel], tmp_path: Path, glossary: Glossary
    ) -> None:
        _, model = packed
        checkpoint.save_packed(tmp_path / "part", model, tiny_config(), {}, 10)
        loaded = groc.load(tmp_path / "part", lexicon=glossary)
        assert loaded.vocabulary.words == model.trained.words[:10]
        assert loaded.trained == model.trained
        loaded.set_vocabulary(loaded.trained)
        ids = list(range(len(model.vocabulary)))
        assert abs(score(model, ids).log_prob - score(loaded, ids).log_prob).max() < 0.02

    @pytest.mark.parametrize(
        ("damage", "told"),
        [("longer", "do not fit"), ("unequal", "do not fit"), ("missing", "do not fit"), ("infinite", "not finite")],
    )
    def test_damage_is_told(self, packed: tuple[Path, LanguageModel], damage: str, told: str) -> None:
        path = packed[0] / checkpoint.VECTORS
        tensors, facts = checkpoint.read_tensors(path)
        damaged = {
            "longer": {name: torch.cat([tensor, tensor]) for name, tensor in tensors.items()},
            "unequal": {**tensors, "input": tensors["input"][:-1].clone()},
            "missing": {},
            "infinite": {**tensors, "input": tensors["input"] / 0},
        }
        checkpoint.write_tensors(path, damaged[damage], facts)
        with pytest.raises(GrocError, match=told):
            groc.load(packed[0], lexicon=Empty())

    @torch.no_grad()
    def test_a_word_that_comes_back_is_what_it_was(self, packed: tuple[Path, LanguageModel]) -> None:
        """Without the lexicon it could not be composed again."""
        loaded = groc.load(packed[0], lexicon=Empty())
        dog = torch.tensor([loaded.vocabulary.index["dog"]])
        before = loaded.embeddings.rows(dog)
        loaded.remove_words(["dog"])
        loaded.add_words(["dog"])
        assert torch.equal(loaded.embeddings.rows(torch.tensor([loaded.vocabulary.index["dog"]])), before)
        everything = loaded.vocabulary
        loaded.set_vocabulary(Vocabulary(["the", END]))
        loaded.set_vocabulary(everything)
        assert torch.equal(loaded.embeddings.rows(torch.tensor([everything.index["dog"]])), before)

    @pytest.mark.filterwarnings("ignore:.* lose what a lexicon said")
    def test_in_lexicon_are_words_whose_vectors_know_of_it(self, packed: tuple[Path, LanguageModel]) -> None:
        loaded = groc.load(packed[0], lexicon=Empty())
        loaded.remove_words(["dog"])
        assert loaded.in_lexicon("dog"), "it would come back as it was"
        loaded.tell_of_new_words(Empty())
        loaded.add_words(["dog"])
        assert not loaded.in_lexicon("dog"), "it was composed from its characters"
        loaded.add_words(Glossary({"cat": ("", [])}))
        assert not loaded.in_lexicon("cat"), "it was taught that nothing is known of it"
        with loaded.using(loaded.trained, loaded.prepare(loaded.trained)):
            loaded.embeddings  # noqa: B018
            assert not loaded.in_lexicon("boat"), "for a while it is composed from its characters"
        assert loaded.in_lexicon("boat")
        with torch.no_grad():
            next(loaded.parameters()).mul_(1.5)
        assert not loaded.in_lexicon("boat"), "it will be composed anew"

    @pytest.mark.parametrize("done", COMPOSING_ANEW)
    def test_words_that_lose_their_entries_are_told(
        self, packed: tuple[Path, LanguageModel], glossary: Glossary, tmp_path: Path, done: str
    ) -> None:
        folder, model = packed
        known = sum(model.in_lexicon(word) for word in model.trained)
        loaded, with_lexicon = (groc.load(folder, lexicon=lexicon) for lexicon in (Empty(), glossary))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            COMPOSING_ANEW[done](with_lexicon, tmp_path / "saved")
            loaded.score("the zebra")
            loaded.add_words(["zebra"])
        with pytest.warns(UserWarning, match=f"^{known} words lose what a lexicon said of them"):
            COMPOSING_ANEW[done](loaded, tmp_path / "saved")

    @pytest.mark.parametrize("surface", SURFACES)
    @torch.no_grad()
    def test_vectors_move_with_the_model(
        self, surface: str, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", surface, vocabulary, glossary)
        checkpoint.save_packed(tmp_path, model, tiny_config("groc", surface), {}, len(vocabulary))
        loaded = groc.load(tmp_path, lexicon=Empty())
        before = loaded.embeddings.rows(torch.arange(9))
        loaded.double()
        assert torch.equal(loaded.embeddings.rows(torch.arange(9)), before.double())

    def test_loading_inside_inference_mode(self, packed: tuple[Path, LanguageModel]) -> None:
        with torch.inference_mode():
            loaded = groc.load(packed[0], lexicon=Empty())
            loaded.add_words(["zebra"])
        prefixes, _ = loaded.read(loaded.embeddings, torch.tensor([[0], [1]]), loaded.prefix.start(1))
        loaded.log_prob(loaded.embeddings, prefixes.dropped.flatten(0, 1), torch.tensor([1, 2])).sum().backward()
        assert all(parameter.grad is not None for parameter in loaded.prefix.parameters())

    @pytest.mark.filterwarnings("ignore:.* lose what a lexicon said")
    @pytest.mark.parametrize("changed", [*DEEP_COPIES, LanguageModel.double])
    def test_copying_and_moving_inside_inference_mode(
        self, packed: tuple[Path, LanguageModel], changed: Callable[[LanguageModel], LanguageModel]
    ) -> None:
        loaded, ids = groc.load(packed[0], lexicon=Empty()), torch.arange(9)
        before = loaded.embeddings.output_rows(ids)
        with torch.inference_mode():
            twin = changed(loaded)
            assert torch.equal(twin.embeddings.output_rows(ids).float(), before)
        assert twin.in_lexicon("dog")
        rows = twin.embeddings.output_rows(ids)
        weight = torch.ones_like(rows, requires_grad=True)
        (rows * weight).sum().backward()  # what is kept may be read where gradients are wanted
        twin.embed().output.sum().backward()
        torch.optim.SGD(twin.parameters(), 0.1).step()
        assert not torch.equal(twin.embeddings.output_rows(ids).float(), before)

    def test_loading_under_autocast(self, packed: tuple[Path, LanguageModel]) -> None:
        ids, plain = torch.arange(9), groc.load(packed[0], lexicon=Empty())
        with torch.autocast("cpu", torch.bfloat16):
            loaded = groc.load(packed[0], lexicon=Empty())
        assert torch.equal(loaded.embeddings.output_rows(ids), plain.embeddings.output_rows(ids))


class TestTaughtMeanings:
    @torch.no_grad()
    def test_what_was_taught_stays_while_the_word_is_off_the_list(
        self, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.embeddings  # noqa: B018
        model.add_words(Glossary({"dog": ("a machine", [])}))
        taught = model.embeddings.rows(torch.tensor([vocabulary.index["dog"]]))
        everything = model.vocabulary
        model.set_vocabulary(Vocabulary(["the", END]))
        model.set_vocabulary(everything)
        assert_same_vectors(model)
        torch.testing.assert_close(model.embeddings.rows(torch.tensor([everything.index["dog"]])), taught)

    def test_a_generator_does_not_follow_changes_of_its_model(self, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        alone = [one.word for one in model.generate("the dog", length=8, seed=1)]
        drawing = model.generate("the dog", length=8, seed=1)
        words = [next(drawing).word]
        model.remove_words(["the", "cat"])
        assert words + [one.word for one in drawing] == alone


def test_the_model_that_comes_along_is_small() -> None:
    assert sum(path.stat().st_size for path in checkpoint.POCKET.iterdir()) <= 3_000_000
    assert not (checkpoint.POCKET / checkpoint.LEXICON).exists()
