"""Tokens: the words of a text, and where they stand."""

import re
from unicodedata import category, normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.text import LONGEST_WORD, Token, read_tokens, tokeniser
from groc.vocabulary import SEPARATOR


def test_moses_splits_punctuation_and_keeps_characters_as_they_are() -> None:
    assert tokeniser()("He said: \"don't & won't\".") == [
        "He",
        "said",
        ":",
        '"',
        "don",
        "'t",
        "&",
        "won",
        "'t",
        '"',
        ".",
    ]


def test_lower_casing_does_not_change_where_words_end() -> None:
    line = "He left. She came. It was Mr. Smith."
    tokens = tokeniser()(line)
    assert tokeniser(lower=True)(line) == [token.lower() for token in tokens]
    assert "left" in tokens
    assert "Mr." in tokens


def test_white_space_alone_is_no_word() -> None:
    assert tokeniser()("  \t ") == []


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
raw_texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    # What the rules look at, and what could be taken for their inner marks.
    st.lists(
        st.sampled_from(
            [
                *"aAb1.,'`-\"(!_ \t\n\r\x00\x1c\x85\u2028é東ש😀\u200b\u200c\u200d\ufeff\xad",
                *("...", "Mr. ", "DOTMULTI", "'s ", "می\u200cخ", "b.a. ", "b.a."),
            ]
        )
    ).map("".join),
)


def is_read(text: str, place: int) -> bool:
    """Whether a character of a raw text is to be in a word: not if it cannot be seen, but for a joiner in Persian."""
    character, beside = text[place], text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    if character in "\u200c\u200d" and len(beside) == 2 and all("\u0600" <= c <= "\u18af" for c in beside):
        return all(c in MosesTokenizer.IsAlpha for c in beside)
    return not character.isspace() and character >= " " and category(character) != "Cf"


def read(text: str, start: int = 0, end: int | None = None) -> str:
    """What is to be read of the characters `start` to `end` of a raw text."""
    return "".join(text[place] for place in range(len(text))[start:end] if is_read(text, place))


def flat(lines: list[list[Token]]) -> list[Token]:
    return [token for line in lines for token in line]


def assert_in_order(text: str, tokens: list[Token]) -> None:
    """No span is empty, and none begins before the one before it ends."""
    end = 0
    for token in tokens:
        assert end <= token.start < token.end <= len(text)
        end = token.end


class TestRawText:
    @given(raw_texts, st.booleans())
    @example("DOTDOTMULTI a.. DOTMULTI", False)
    @example("a\x00b \x01\x02 \x1cc\x1f", True)
    @example("İstanbul ΣΑΣ ǅ", True)
    @example("e\u0301 cafe\u0301s", True)
    @example("\ufeffa \u200b b\u200b c\xadd \xad می\u200cخ", True)
    def test_spans_hold_the_words(self, text: str, lower: bool) -> None:
        tokens = flat(read_tokens(text, tokenised=False, lower=lower))
        assert_in_order(text, tokens)
        for token in tokens:
            kept = normalize("NFC", read(text, token.start, token.end))
            assert token.word == (kept.lower() if lower else kept)
            assert is_read(text, token.start)
            assert is_read(text, token.end - 1)
        # Nothing but white space, control and format characters lies between the spans.
        assert "".join(read(text, token.start, token.end) for token in tokens) == read(text)

    @given(raw_texts)
    def test_words_are_those_of_the_tokeniser(self, text: str) -> None:
        words = [[token.word for token in line] for line in read_tokens(text, tokenised=False, lower=False)]
        assert words == [tokens for line in text.split("\n") if (tokens := tokeniser()(line))]

    @given(raw_texts.filter(lambda text: not re.search("DOTMULTI|می\u200cخ|[\u0300-\u036f]", text)))
    def test_the_rules_are_those_of_sacremoses_for_what_can_be_seen(self, line: str) -> None:
        seen = "".join(c for c in line.replace("\u200b", " ") if category(c) != "Cf")
        tokens = MosesTokenizer("en").tokenize(seen, escape=False)
        assert tokeniser()(line) == [normalize("NFC", token) for token in tokens]

    def test_an_accent_stays_with_its_letter(self) -> None:
        """As some systems write it: a letter and the accent behind it."""
        tokens = flat(read_tokens("Cafe\u0301, nai\u0308ve.", tokenised=False, lower=True))
        assert [(token.word, token.start, token.end) for token in tokens] == [
            ("café", 0, 5), (",", 5, 6), ("naïve", 7, 13), (".", 13, 14),
        ]  # fmt: skip
        assert tokeniser()("Cafe\u0301") == ["Café"]

    @pytest.mark.parametrize("text", ["", "   ", "\n\n", "\x00\x01", "\u2028\x85", "\ufeff", "\u200b \xad\u200d"])
    def test_there_may_be_no_word(self, text: str) -> None:
        assert read_tokens(text, tokenised=False, lower=False) == []

    def test_what_cannot_be_seen_is_no_word_and_makes_no_two_of_one(self) -> None:
        text = "\ufeffA soft\xadhyphen \u200b at Auf\u200clage\u200b\u2060. \xad"
        tokens = flat(read_tokens(text, tokenised=False, lower=False))
        assert [token.word for token in tokens] == ["A", "softhyphen", "at", "Auflage", "."]
        spans = ["A", "soft\xadhyphen", "at", "Auf\u200clage", "."]
        assert [text[token.start : token.end] for token in tokens] == spans

    def test_a_zero_width_space_is_a_space(self) -> None:
        assert tokeniser()("one\u200btwo") == ["one", "two"]

    @pytest.mark.parametrize("word", ["می\u200cخواهم", "क्\u200dष"])
    def test_joiners_stay_in_words_that_are_spelt_with_them(self, word: str) -> None:
        text = f"\u200c{word}\u200d, {word}\u200c."
        tokens = flat(read_tokens(text, tokenised=False, lower=False))
        assert [token.word for token in tokens] == [word, ",", word, "."]


class TestTokenisedText:
    @given(raw_texts)
    def test_words_are_what_stands_between_ascii_white_space(self, text: str) -> None:
        lines = read_tokens(text, tokenised=True, lower=False)
        assert_in_order(text, flat(lines))
        assert all(token.word == text[token.start : token.end] for token in flat(lines))
        split = [[word for word in SEPARATOR.split(line) if word] for line in text.split("\n")]
        assert [[token.word for token in line] for line in lines] == [words for words in split if words]

    def test_capitals_go_if_the_model_reads_lower_case(self) -> None:
        tokens = flat(read_tokens("The U.S. <unk>", tokenised=True, lower=True))
        assert [token.word for token in tokens] == ["the", "u.s.", "<unk>"]


class TestTerms:
    TERMS = (
        Glossary(
            dict.fromkeys(
                ("myocardial infarction", "Acute myocardial infarction", "crohn's disease", "c++", "the_end"), ("", ())
            )
        )
        .as_words(lower=True)
        .spellings
    )

    def words(self, text: str, tokenised: bool = False) -> list[str]:
        tokens = flat(read_tokens(text, tokenised=tokenised, lower=True, terms=self.TERMS))
        assert_in_order(text, tokens)
        return [token.word for token in tokens]

    def test_parts_that_stand_together_are_one_token_and_the_longest_term_wins(self) -> None:
        assert self.words("An acute myocardial infarction, no Myocardial  Infarction.") == [
            "an",
            "acute_myocardial_infarction",
            ",",
            "no",
            "myocardial_infarction",
            ".",
        ]

    def test_a_term_spans_all_its_parts(self) -> None:
        text = "Of Crohn's disease"
        (_, term) = flat(read_tokens(text, tokenised=False, lower=True, terms=self.TERMS))
        assert text[term.start : term.end] == "Crohn's disease"

    def test_what_the_rules_would_split_is_one_token_too(self) -> None:
        assert self.words("C++ and myocardial_infarction") == ["c++", "and", "myocardial_infarction"]

    def stops(self, text: str, *terms: str, tokenised: bool = False) -> list[tuple[str, str]]:
        """The words of a text with these terms, and what is read as each."""
        spellings = Glossary(dict.fromkeys(terms, ("", ()))).as_words(lower=True).spellings
        tokens = flat(read_tokens(text, tokenised=tokenised, lower=True, terms=spellings))
        assert_in_order(text, tokens)
        return [(token.word, text[token.start : token.end]) for token in tokens]

    @pytest.mark.parametrize("term", ["node.js", ".net", "use of node.js", "zorgon", "yahoo!", "vs"])
    @pytest.mark.parametrize("rest", ["", " It", " it", '"', ")", " (x)"])
    def test_a_full_stop_behind_a_term_is_no_part_of_it(self, term: str, rest: str) -> None:
        found = self.stops(f"Is it {term}.{rest}", term)
        assert found[:4] == [("is", "Is"), ("it", "it"), (term.replace(" ", "_"), term), (".", ".")]
        assert "".join(word for word, _ in found[4:]) == rest.strip().lower().replace(" ", "")

    @pytest.mark.parametrize("term", ["etc.", "Acme Inc.", "u.s.", "ph.d."])
    @pytest.mark.parametrize("rest", ["", " It", " it", '"', ")", ", it", "?"])
    def test_a_full_stop_of_a_term_belongs_to_it(self, term: str, rest: str) -> None:
        for before in ("in", "In the"):
            found = self.stops(f"{before} {term}{rest}", term)
            assert (term.lower().replace(" ", "_"), term) in found
            assert (".", ".") not in found

    def test_of_two_terms_the_one_with_the_full_stop_wins(self) -> None:
        assert self.stops("etc. etc", "etc", "etc.") == [("etc.", "etc."), ("etc", "etc")]

    def test_behind_the_full_stop_of_a_term_there_may_be_another(self) -> None:
        assert self.stops("Nuts etc..", "etc.") == [("nuts", "Nuts"), ("etc.", "etc."), (".", ".")]

    def test_a_full_stop_behind_other_words_stays_where_the_rules_leave_it(self) -> None:
        assert self.stops("On node.js. by e.g. me", "e.g") == [
            ("on", "On"),
            ("node.js.", "node.js."),
            ("by", "by"),
            ("e.g", "e.g"),
            (".", "."),
            ("me", "me"),
        ]

    def test_tokenised_text_is_split_at_white_space_alone(self) -> None:
        assert self.stops("use node.js.", "node.js", tokenised=True) == [("use", "use"), ("node.js.", "node.js.")]

    def test_a_term_may_be_spelt_with_what_cannot_be_seen(self) -> None:
        assert self.stops("drimble drim\xadble.", "drim\xadble") == [
            ("drim\xadble", "drimble"),
            ("drim\xadble", "drim\xadble"),
            (".", "."),
        ]

    def test_tokenised_text_is_joined_as_well(self) -> None:
        assert self.words("the end of the myocardial infarction", True) == [
            "the_end",
            "of",
            "the",
            "myocardial_infarction",
        ]

    def test_parts_in_different_lines_are_no_term(self) -> None:
        assert self.words("the\nend") == ["the", "end"]

    def test_the_mark_may_be_another(self) -> None:
        spellings = Glossary({"hot dog": ("", ())}, mark="~").as_words().spellings
        assert flat(read_tokens("hot dog", tokenised=True, lower=False, terms=spellings)) == [Token("hot~dog", 0, 7)]

    def test_a_part_may_hold_the_mark(self) -> None:
        spellings = Glossary({"x-ray machine": ("", ())}, mark="-").as_words().spellings
        tokens = flat(read_tokens("an x-ray machine", tokenised=True, lower=False, terms=spellings))
        assert tokens == [Token("an", 0, 2), Token("x-ray-machine", 3, 16)]

    def test_glossaries_with_different_marks_go_together(self) -> None:
        both = Glossary({"sea dog": ("", ())}, mark="+").as_words().joined(Glossary({"hot dog": ("", ())}).as_words())
        tokens = flat(read_tokens("sea dog hot dog", tokenised=True, lower=False, terms=both.spellings))
        assert [token.word for token in tokens] == ["sea+dog", "hot_dog"]

    @given(raw_texts, st.lists(WORDS.filter(lambda word: "\n" not in word and word.strip()), max_size=4))
    def test_joining_changes_no_character_that_is_covered(self, text: str, terms: list[str]) -> None:
        spellings = {term: term.replace("_", " ") for term in (*terms, "a_a", "._a")}
        plain, joined = (
            flat(read_tokens(text, tokenised=False, lower=False, terms=some)) for some in (None, spellings)
        )
        assert_in_order(text, joined)
        stops = {token.end - 1 for token in plain if token.word.endswith(".")}  # a term may end before one
        assert {token.start for token in joined} <= {token.start for token in plain} | stops
        assert {token.end for token in joined} <= {token.end for token in plain} | stops
        assert "".join(read(text, token.start, token.end) for token in joined) == read(text)


class TestBadText:
    @pytest.mark.parametrize("tokenised", [True, False])
    def test_half_a_character_is_refused(self, tokenised: bool) -> None:
        with pytest.raises(GrocError, match=r"Character 4 .*half a character"):
            read_tokens("ab \ud800", tokenised=tokenised, lower=False)

    @pytest.mark.parametrize("tokenised", [True, False])
    def test_a_word_without_end_is_refused(self, tokenised: bool) -> None:
        with pytest.raises(GrocError, match="word of 10,001 characters"):
            read_tokens("a " + "b" * (LONGEST_WORD + 1), tokenised=tokenised, lower=False)
        read_tokens("a " + "b" * LONGEST_WORD, tokenised=tokenised, lower=False)

    def test_a_long_line_is_read(self) -> None:
        line = "The horse raced past the barn fell. " * 20_000
        assert [len(words) for words in read_tokens(line, tokenised=False, lower=True)] == [8 * 20_000]
