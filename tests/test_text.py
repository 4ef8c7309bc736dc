"""Tokenisation of raw text."""

from groc.text import tokeniser


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
