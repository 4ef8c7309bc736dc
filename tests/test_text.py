"""Tokens: the words of a text, and where they stand."""

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
        st.sampled_from([*"aAb1.,'`-\"(!_ \t\n\r\x00\x1c\x85\u2028é東ש😀\u200d", "...", "Mr. ", "DOTMULTI", "'s "])
    ).map("".join),
)


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
    def test_spans_hold_the_words(self, text: str, lower: bool) -> None:
        tokens = flat(read_tokens(text, tokenised=False, lower=lower))
        assert_in_order(text, tokens)
        for token in tokens:
            kept = "".join(c for c in text[token.start : token.end] if c >= " ")
            assert token.word == (kept.lower() if lower else kept)
        # Nothing but white space and control characters lies between the spans.
        kept_characters = [c for c in text if c >= " " and not c.isspace()]
        assert sum(token.end - token.start for token in tokens) >= len(kept_characters)
        assert "".join(c for t in tokens for c in text[t.start : t.end] if c >= " ") == "".join(kept_characters)

    @given(raw_texts)
    def test_words_are_those_of_the_tokeniser(self, text: str) -> None:
        words = [[token.word for token in line] for line in read_tokens(text, tokenised=False, lower=False)]
        assert words == [tokens for line in text.split("\n") if (tokens := tokeniser()(line))]

    @given(raw_texts.filter(lambda text: "DOTMULTI" not in text))
    def test_the_rules_are_those_of_sacremoses(self, line: str) -> None:
        assert tokeniser()(line) == MosesTokenizer("en").tokenize(line, escape=False)

    @pytest.mark.parametrize("text", ["", "   ", "\n\n", "\x00\x01", "\u2028\x85"])
    def test_there_may_be_no_word(self, text: str) -> None:
        assert read_tokens(text, tokenised=False, lower=False) == []


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
        assert {token.start for token in joined} <= {token.start for token in plain}
        assert {token.end for token in joined} <= {token.end for token in plain}
        assert [c for t in joined for c in text[t.start : t.end] if not c.isspace() and c >= " "] == [
            c for t in plain for c in t.word
        ]


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
