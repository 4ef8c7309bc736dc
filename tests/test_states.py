"""Whatever was done to a model, it says what one says that was built in that state."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from conftest import NEW_WORDS, TERMS, TRAIN_WORDS, tiny_config, tiny_model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from groc.adaptation.telling import LessOfNewWords
from groc.building import build
from groc.lexicon import Chain, Coverage, Empty, Glossary, Lexicon, Without
from groc.model import LanguageModel
from groc.vocabulary import END, Vocabulary

WORDS = [*NEW_WORDS, *list(TERMS)[:5], "the", "blick"]
TEXT = "the dog and a zebra blick on the ship\nthe wug"
TRAINED = Vocabulary([END, *TRAIN_WORDS], [80, *range(30, 30 + len(TRAIN_WORDS))])
LEXICONS: list[Callable[[Lexicon], Lexicon]] = [
    lambda lexicon: lexicon,
    lambda lexicon: Coverage(lexicon, 1.0),
    lambda lexicon: Without(lexicon, relations=True),
    lambda lexicon: Glossary({"zebra": ("a horse", []), "dog": ("a cat", ["cat"])}),
    lambda lexicon: Empty(),
]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "groc": ("groc", {"forms.centred": True, "output.count_bias": True, "surface.familiar": True}),
    "packed": ("groc", {}),
    "paper rules": ("groc", {"forms.rules": "paper"}),
    "tied": ("tied", {}),
    "adaptive": ("adaptive", {}),
    "convolutional": ("convolutional", {}),
}

some_words = st.lists(st.sampled_from(WORDS), max_size=3, unique=True)
which = st.integers(0, 9)


@dataclass
class Kept:
    """A model, and what must be known of it to build its twin."""

    model: LanguageModel
    trained: Vocabulary
    vocabulary: Vocabulary
    lexicon: Lexicon
    taught: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    grounded: frozenset[str] = frozenset()
    """Of a packed model, the words with vectors that know what the lexicon of training said of them."""
    weights: object = field(default_factory=object)
    """The same in all models that share them."""

    def twin(self, kind: str, changes: dict[str, Any]) -> LanguageModel:
        stored = Glossary({word: entry for word, entry in TERMS.items() if word in self.grounded}, exact=True)
        twin = build(tiny_config(kind, "ngrams", changes), self.trained, Chain(stored, self.lexicon))
        twin.load_state_dict(copy.deepcopy(self.model.state_dict()))
        twin.add_words(Glossary(self.taught))
        twin.set_vocabulary(self.vocabulary)
        return twin.eval()


class States(RuleBasedStateMachine):
    kind, changes = KINDS["groc"]
    is_packed = False

    @initialize()
    def start(self) -> None:
        model = tiny_model(self.kind, "ngrams", TRAINED, Glossary(TERMS), self.changes)
        self.all = [Kept(model, TRAINED, TRAINED, model.compiler.lexicon)]
        if self.is_packed:  # as in `checkpoint`, but in full precision, and without the lexicon
            vectors = model.embeddings.rows(torch.arange(len(TRAINED)))
            grounded = [word in TERMS for word in TRAINED]
            model.compiler = replace(model.compiler, lexicon=Empty())
            model.keep(vectors, grounded)
            self.all = [Kept(model, TRAINED, TRAINED, model.compiler.lexicon, grounded=frozenset(TERMS) & {*TRAINED})]

    def one(self, number: int) -> Kept:
        return self.all[number % len(self.all)]

    def sharing(self, one: Kept) -> list[Kept]:
        return [other for other in self.all if other.weights is one.weights]

    @rule(number=which, words=some_words)
    def add(self, number: int, words: list[str]) -> None:
        one = self.one(number)
        one.model.add_words(words)
        one.vocabulary = one.vocabulary.union(words)

    @rule(
        number=which, words=some_words, entry=st.sampled_from([("a small animal", ["boat"]), ("the sea", []), ("", [])])
    )
    def teach(self, number: int, words: list[str], entry: tuple[str, list[str]]) -> None:
        one = self.one(number)
        terms = dict.fromkeys(words, entry)
        one.model.add_words(Glossary(terms))
        one.taught = one.taught | terms
        one.vocabulary = one.vocabulary.union(words)

    @rule(number=which, words=some_words)
    def remove(self, number: int, words: list[str]) -> None:
        one = self.one(number)
        words = [word for word in words if word in one.vocabulary]
        one.model.remove_words(words)
        one.taught = {word: entry for word, entry in one.taught.items() if word not in words}
        one.vocabulary = one.vocabulary.without(words)

    @rule(number=which, words=some_words)
    def replace_list(self, number: int, words: list[str]) -> None:
        one = self.one(number)
        one.vocabulary = Vocabulary([*words, *(word for word in TRAINED if word not in words)][::-1])
        one.model.set_vocabulary(one.vocabulary)

    @rule(number=which, words=some_words)
    def grow(self, number: int, words: list[str]) -> None:
        one = self.one(number)
        one.vocabulary = one.vocabulary.union(words)
        one.model.set_vocabulary(one.vocabulary, grow=True)
        if not one.model.is_open:
            one.trained = one.trained.union(one.vocabulary)

    @precondition(lambda self: self.kind == "groc")
    @rule(number=which, change=st.sampled_from(LEXICONS))
    def replace_lexicon(self, number: int, change: Callable[[Lexicon], Lexicon]) -> None:
        one = self.one(number)
        lexicon = change(one.lexicon)
        one.model.compiler = replace(one.model.compiler, lexicon=lexicon)
        if lexicon is not one.lexicon:
            one.lexicon, one.grounded = lexicon, frozenset()

    @precondition(lambda self: self.kind == "groc")
    @rule(number=which, change=st.sampled_from(LEXICONS))
    def tell_of_new_words(self, number: int, change: Callable[[Lexicon], Lexicon]) -> None:
        one = self.one(number)
        one.lexicon = LessOfNewWords(one.lexicon, change(one.lexicon), one.vocabulary)
        one.model.tell_of_new_words(one.lexicon)
        one.grounded &= {*one.vocabulary}

    @rule(number=which, counts=st.sampled_from([1, 50]))
    def replace_counts(self, number: int, counts: int) -> None:
        one = self.one(number)
        one.trained = Vocabulary(one.trained.words, [counts] * len(one.trained))
        one.model.trained = one.trained
        one.grounded = frozenset()  # counts may go into vectors

    @precondition(lambda self: self.kind == "groc")
    @rule(number=which, text=st.sampled_from(["hound", "a naïve cat"]))
    def remember(self, number: int, text: str) -> None:
        """As adaptation does, by words that join those of training."""
        one = self.one(number)
        one.trained = one.trained.union(text.split())
        one.model.trained = one.trained
        one.model.remember_strings()
        one.grounded = frozenset()

    @rule(
        number=which, factor=st.sampled_from([0.5, 1.0, 1.5]), how=st.sampled_from(["write", "load", "assign", "step"])
    )
    def replace_weights(self, number: int, factor: float, how: str) -> None:
        model = self.one(number).model
        for one in self.sharing(self.one(number)):
            one.grounded = frozenset()
        if how == "write":
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(factor)
        elif how == "step":
            optimiser = torch.optim.SGD(model.parameters(), 0.1)
            model.embed().output.square().sum().backward()
            optimiser.step()
            optimiser.zero_grad()
        else:
            weights = copy.deepcopy(model.state_dict())
            for weight in weights.values():
                if weight.is_floating_point():
                    weight.mul_(factor)
                elif factor != 1:
                    weight.zero_()  # what strings of training are known
            model.load_state_dict(weights, assign=how == "assign")

    @precondition(lambda self: len(self.all) < 3)
    @rule(number=which, how=st.sampled_from(["shared", "deep", "pickle"]))
    def copy(self, number: int, how: str) -> None:
        one = self.one(number)
        copies = {
            "shared": lambda model: model.copy(),
            "deep": copy.deepcopy,
            "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        }
        weights = one.weights if how == "shared" else object()
        self.all.append(replace(one, model=copies[how](one.model), weights=weights))

    @rule(number=which, how=st.sampled_from(["train", "eval", "double", "score", "next", "explain", "inference"]))
    def use(self, number: int, how: str) -> None:
        """What must change nothing."""
        model = self.one(number).model
        match how:
            case "train" | "eval":
                model.train(how == "train")
            case "double":
                model.double().float()  # models that share its weights cannot know that these are only elsewhere
                for one in self.sharing(self.one(number)):
                    one.grounded = one.grounded if one.model is model else frozenset()
            case "score":
                model.score([TEXT, "a blorp"])
            case "next":
                model.next("the blorp", words=["zebra", "cat"])
            case "explain":
                model.explain("blorp", context="the")
            case "inference":
                with torch.inference_mode():
                    model.embeddings  # noqa: B018

    def teardown(self) -> None:
        """At the end alone: to look at a model makes it compose its vectors, behind which faults could hide."""
        for one in self.all:
            model, twin = one.model, one.twin(self.kind, self.changes)
            assert model.vocabulary.words == twin.vocabulary.words
            assert [model.in_lexicon(word) for word in WORDS] == [twin.in_lexicon(word) for word in WORDS]
            found, expected = (each.score(TEXT) for each in (model, twin))
            assert [row.word for row in found] == [row.word for row in expected]
            assert [row.surprisal for row in found] == pytest.approx([row.surprisal for row in expected], rel=1e-4)


@pytest.mark.filterwarnings("ignore:.* lose what a lexicon said")
@pytest.mark.parametrize("name", KINDS)
def test_any_sequence_of_changes(name: str) -> None:
    kind, changes = KINDS[name]
    machine = type("Machine", (States,), {"kind": kind, "changes": changes, "is_packed": name == "packed"})
    examples = settings().max_examples // 3  # each is many changes
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=15))
