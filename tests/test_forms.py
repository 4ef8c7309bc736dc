"""Forms: which words ground a word, and the arrays they are kept in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import TERMS
from hypothesis import given
from hypothesis import strategies as st

from groc.errors import GrocError
from groc.forms import FormsCompiler, Lists, WordForms, coverage
from groc.lexicon import Coverage, Empty, Entry, Glossary, Lexicon, Sense, WordNet
from groc.rules import RULES, Selected, rules_named
from groc.vocabulary import END, Vocabulary

default, paper = rules_named("default"), rules_named("paper")

simple_words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)
entries = st.builds(
    Entry,
    st.lists(
        st.builds(
            Sense,
            definition=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
            synonyms=st.lists(simple_words, max_size=4).map(tuple),
            hyponyms=st.lists(simple_words, max_size=3).map(tuple),
            part_of_speech=st.sampled_from(["n", "v", "a", "r", ""]),
            count=st.integers(0, 3),
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
)


class Fixed:
    """A lexicon with given entries, looked up as WordNet does: in lower case."""

    def __init__(self, known: dict[str, Entry]) -> None:
        self.known = known
        self.fingerprint = repr(sorted(known.items()))

    def entry(self, word: str) -> Entry | None:
        return self.known.get(word.lower())


def strings_of(forms: WordForms, lists: Lists, word: int) -> list[str]:
    return [forms.string(i) for i in lists.index[lists.offsets[word] : lists.offsets[word + 1]]]


NAMES = ("index", "offsets", "scale")


def same(one: WordForms, other: WordForms) -> bool:
    def arrays(forms: WordForms) -> list[np.ndarray]:
        lists = [getattr(part, name) for part in (forms.relations, forms.definition) for name in NAMES]
        return [forms.characters, forms.boundaries, *lists]

    assert all(a.dtype == b.dtype for a, b in zip(arrays(one), arrays(other), strict=True))
    return one.words == other.words and all(map(np.array_equal, arrays(one), arrays(other)))


class TestDefaultRules:
    def test_the_most_frequent_sense_over_all_parts_of_speech(self) -> None:
        rare = Sense("a noun", ("thing",), (), "n", 2)
        frequent = Sense("a verb", ("act",), (), "v", 9)
        assert default.select("word", Entry((rare, frequent))) == Selected(("act",), ("a", "verb"))

    def test_the_first_of_equally_frequent_senses(self) -> None:
        senses = (Sense("first", (), (), "n", 2), Sense("second", (), (), "v", 2))
        assert default.select("word", Entry(senses)).definition == ("first",)

    def test_synonyms_come_before_hyponyms_each_once(self) -> None:
        sense = Sense("", ("b", "a"), ("d", "a", "c"), "n")
        assert default.select("word", Entry((sense,))).relations == ("b", "a", "d", "c")

    def test_the_word_itself_is_no_relation_in_any_case(self) -> None:
        sense = Sense("", ("Dog", "hound", "dog"), ("DOG",), "n")
        assert default.select("dog", Entry((sense,))).relations == ("hound",)

    def test_lemmas_of_several_words_are_no_relations(self) -> None:
        assert default.select("dog", Entry((Sense("", ("domestic_dog", "hound"), (), "n"),))).relations == ("hound",)

    def test_a_definition_is_its_words_without_punctuation(self) -> None:
        sense = Sense("(of a U.S. mother-in-law's) day; 'night'!", (), (), "n")
        assert default.select("word", Entry((sense,))).definition == (
            "of",
            "a",
            "U.S",
            "mother-in-law's",
            "day",
            "night",
        )

    @pytest.mark.parametrize("word", ["a", "A", "he", "He", "or", "us", "Us", "N", "x"])
    def test_a_function_word_has_no_sense_of_its_homograph(self, word: str) -> None:
        assert default.select(word, Entry((Sense("an abbreviation", ("letter",), (), "n", 5),))) == Selected()

    @pytest.mark.parametrize("word", ["in", "In", "as", "can"])
    def test_a_word_that_is_often_no_noun_keeps_its_other_senses(self, word: str) -> None:
        noun, adverb = Sense("a unit of length", ("inch",), (), "n", 50), Sense("not out", ("inside",), (), "r", 1)
        assert default.select(word, Entry((noun, adverb))) == Selected(("inside",), ("not", "out"))

    @pytest.mark.parametrize("word", ["US", "IT", "IN", "WHO"])
    def test_in_capitals_it_is_an_abbreviation(self, word: str) -> None:
        assert default.select(word, Entry((Sense("a country", (), (), "n"),))).definition == ("a", "country")

    def test_a_glossary_may_define_function_words(self) -> None:
        assert default.select("or", Entry((Sense("one of both", ("either",)),))).relations == ("either",)

    def test_no_entry_no_forms(self) -> None:
        assert default.select("word", None) == Selected()

    @given(simple_words, entries)
    def test_only_what_one_sense_says_is_selected(self, word: str, entry: Entry) -> None:
        selected = default.select(word, entry)
        assert word.lower() not in {form.lower() for form in selected.relations}
        assert selected == Selected() or any(
            set(selected.relations) <= {*sense.synonyms, *sense.hyponyms}
            and all(form in sense.definition for form in selected.definition)
            for sense in entry.senses
        )


class TestPaperRules:
    def test_lemmas_of_all_senses_in_alphabetical_order_and_the_first_definition(self) -> None:
        senses = (Sense("one, two", ("dog", "cad"), ("pup",), "n", 1), Sense("three", ("b", "dog"), (), "v", 9))
        assert paper.select("dog", Entry(senses)) == Selected(("b", "cad", "dog"), ("one,", "two"))

    def test_only_words_of_the_vocabulary_count_and_the_limit_comes_after(self) -> None:
        lexicon = Fixed({"dog": Entry((Sense("w x y z", ("a", "b", "c", "d", "e"), (), "n"),))})
        vocabulary = Vocabulary(["dog", "b", "d", "e", "x", "z", END])
        forms = FormsCompiler(lexicon, "paper", 2, 10).compile_words(vocabulary)
        assert strings_of(forms, forms.relations, 0) == ["b", "d"]
        assert strings_of(forms, forms.definition, 0) == ["x", "z"]
        assert len(forms) == len(vocabulary)

    def test_the_mean_is_over_the_limit_whatever_is_present(self) -> None:
        lexicon = Fixed({"dog": Entry((Sense("x", ("b",), (), "n"),))})
        forms = FormsCompiler(lexicon, "paper", 4, 8).compile_words(Vocabulary(["dog", "b", "x", END]))
        assert forms.relations.scale.tolist() == [0.25] * 4
        assert forms.definition.scale.tolist() == [0.125] * 4


class TestArrays:
    @given(
        st.lists(simple_words, unique=True, max_size=6), st.dictionaries(simple_words, entries, max_size=6), st.data()
    )
    def test_they_say_what_the_rules_selected(
        self, some: list[str], known: dict[str, Entry], data: st.DataObject
    ) -> None:
        vocabulary = Vocabulary(
            dict.fromkeys([*some, *data.draw(st.sets(st.sampled_from(sorted(known) or ["x"]))), END])
        )
        limit = data.draw(st.integers(0, 3))
        for name, rules in RULES.items():
            compiler = FormsCompiler(Fixed(known), name, limit, limit + 1)
            forms = compiler.compile_words(vocabulary)
            assert [forms.string(i) for i in range(len(vocabulary))] == list(vocabulary)
            strings = [forms.string(i) for i in range(len(forms))]
            assert len(set(strings)) == len(strings), "each distinct string is kept once"
            for number, word in enumerate(vocabulary):
                selected = compiler.select(word)
                for lists, chosen, most in (
                    (forms.relations, selected.relations, limit),
                    (forms.definition, selected.definition, limit + 1),
                ):
                    allowed = [form for form in chosen if name == "default" or form in vocabulary][:most]
                    assert strings_of(forms, lists, number) == allowed
                    divisor = max(most if rules.mean_over_limit else len(allowed), 1)
                    assert lists.scale[number] == np.float32(1 / divisor)
                    assert lists.present[number] == bool(allowed)

    def test_lower_casing_applies_to_forms_and_not_to_words(self) -> None:
        lexicon = Glossary({"Rome": ("The City", ("Roma", "ROMA", "City"))})
        forms = FormsCompiler(lexicon, lower=True).compile_words(Vocabulary(["Rome", END]))
        assert forms.string(0) == "Rome"
        assert strings_of(forms, forms.relations, 0) == ["roma", "city"]
        assert strings_of(forms, forms.definition, 0) == ["the", "city"]

    def test_no_lexicon_gives_empty_lists(self) -> None:
        forms = FormsCompiler(Empty()).compile_words(Vocabulary(["dog", END]))
        assert coverage(forms) == (0, 0)

    def test_coverage_counts_words_with_relations_and_with_definitions(self, glossary: Glossary) -> None:
        # red has no relations, old no definition, <eos> nothing.
        forms = FormsCompiler(glossary).compile_words(Vocabulary(["dog", "red", "old", END]))
        assert coverage(forms) == (50, 50)


class TestCache:
    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("GROC_CACHE", str(tmp_path))
        return tmp_path

    def test_cached_forms_are_the_fresh_ones(self, cache: Path, glossary: Glossary, vocabulary: Vocabulary) -> None:
        compiler = FormsCompiler(glossary)
        first, second = compiler.compile(vocabulary), compiler.compile(vocabulary)
        fresh = compiler.compile_words(vocabulary)
        assert len(list(cache.rglob("*.npz"))) == 1
        assert same(first, fresh)
        assert same(second, fresh)

    def test_whatever_changes_the_forms_changes_the_key(self, cache: Path, glossary: Glossary) -> None:
        base = Vocabulary(["dog", "Rome", END])
        variants: list[tuple[FormsCompiler, Vocabulary]] = [
            (FormsCompiler(glossary), base),
            (FormsCompiler(glossary), Vocabulary(["Rome", "dog", END])),
            (FormsCompiler(glossary), base.union(["cat"])),
            (FormsCompiler(glossary, "paper"), base),
            (FormsCompiler(glossary, "default", 2), base),
            (FormsCompiler(glossary, "default", 3, 4), base),
            (FormsCompiler(glossary, "default", 3, 10, True), base),
            (FormsCompiler(Glossary({**TERMS, "dog": ("barks", ())})), base),
            (FormsCompiler(Coverage(glossary, 0.5)), base),
        ]
        for number, (compiler, vocabulary) in enumerate(variants, 1):
            assert same(compiler.compile(vocabulary), compiler.compile_words(vocabulary))
            assert len(list(cache.rglob("*.npz"))) == number

    @pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.9, 0.99])
    def test_damaged_forms_are_made_again(
        self, cache: Path, glossary: Glossary, vocabulary: Vocabulary, share: float
    ) -> None:
        compiler = FormsCompiler(glossary)
        compiler.compile(vocabulary)
        (stored,) = cache.rglob("*.npz")
        content = stored.read_bytes()
        stored.write_bytes(content[: int(share * len(content))])
        assert same(compiler.compile(vocabulary), compiler.compile_words(vocabulary))

    def test_flipped_bytes_in_the_middle_are_noticed(
        self, cache: Path, glossary: Glossary, vocabulary: Vocabulary
    ) -> None:
        compiler = FormsCompiler(glossary)
        compiler.compile(vocabulary)
        (stored,) = cache.rglob("*.npz")
        content = bytearray(stored.read_bytes())
        content[300] ^= 0xFF
        stored.write_bytes(bytes(content))
        assert same(compiler.compile(vocabulary), compiler.compile_words(vocabulary))


class TestStoredForms:
    """A checkpoint stores what was selected as a glossary; selecting from that must give the same again."""

    @staticmethod
    def stored(compiler: FormsCompiler, some: list[str]) -> FormsCompiler:
        selected = {word: compiler.select(word) for word in some}
        terms = {word: (" ".join(forms.definition), forms.relations) for word, forms in selected.items()}
        kept = Glossary(terms)
        return FormsCompiler(kept, compiler.rules, compiler.max_relations, compiler.max_definition, compiler.lower)

    @given(st.dictionaries(simple_words, entries, max_size=5), st.sampled_from(sorted(RULES)), st.booleans())
    def test_selecting_twice_is_selecting_once(self, known: dict[str, Entry], rules: str, lower: bool) -> None:
        compiler = FormsCompiler(Fixed(known), rules, lower=lower)
        some = [*known, "unknown"]
        again = self.stored(compiler, some)
        assert [again.select(word) for word in some] == [compiler.select(word) for word in some]

    def test_a_word_without_forms_does_not_borrow_those_of_its_lower_case(self) -> None:
        """As with `forms.coverage`, which decides for Dog and dog apart."""

        class OnlyLowerCase:
            fingerprint = "test"

            def entry(self, word: str) -> Entry | None:
                return Entry((Sense("barks", ("hound",)),)) if word == "dog" else None

        compiler = FormsCompiler(OnlyLowerCase())
        again = self.stored(compiler, ["dog", "Dog"])
        assert again.select("dog") == compiler.select("dog")
        assert again.select("Dog") == compiler.select("Dog") == Selected()


@pytest.fixture(scope="module")
def wordnet() -> Lexicon:
    try:
        return WordNet.find()
    except GrocError as problem:
        pytest.skip(str(problem))


class TestWithWordNet:
    @pytest.mark.parametrize("word", ["a", "he", "or", "it", "us"])
    def test_function_words_have_no_sense(self, wordnet: Lexicon, word: str) -> None:
        assert wordnet.entry(word) is not None
        assert default.select(word, wordnet.entry(word)) == Selected()

    def test_in_is_not_the_inch_and_not_the_metal(self, wordnet: Lexicon) -> None:
        assert not {"inch", "indium"} & set(default.select("in", wordnet.entry("in")).relations)

    def test_the_us_is_a_country(self, wordnet: Lexicon) -> None:
        assert {"America", "USA"} & set(default.select("US", wordnet.entry("US")).relations)

    def test_a_dog_is_an_animal_and_to_run_is_to_move(self, wordnet: Lexicon) -> None:
        dog, run = (default.select(word, wordnet.entry(word)) for word in ("dog", "run"))
        assert "Canis" in dog.definition
        assert "puppy" in dog.relations
        assert "move" in run.definition

    def test_most_frequent_and_first_sense_differ(self, wordnet: Lexicon) -> None:
        """The verb is what "say" means most; the paper takes the noun because nouns stand first."""
        entry = wordnet.entry("say")
        assert default.select("say", entry).definition != tuple(paper.select("say", entry).definition)
