"""Vocabularies: ids, counts, union, files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groc.errors import GrocError
from groc.vocabulary import END, Vocabulary

# Whatever stands between ASCII white space in a UTF-8 text is a word.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"), min_size=1, max_size=6)
word_lists = st.lists(words, unique=True, max_size=8).map(lambda some: list(dict.fromkeys([*some, END])))


class TestIds:
    @given(word_lists)
    def test_an_id_is_the_position(self, some: list[str]) -> None:
        vocabulary = Vocabulary(some)
        assert [vocabulary.index[word] for word in some] == list(range(len(some)))
        assert list(vocabulary) == some
        assert vocabulary.words[vocabulary.end] == END

    @given(st.dictionaries(words, st.integers(0, 3)))
    def test_from_counts_puts_frequent_words_first_and_is_independent_of_order(self, counts: dict[str, int]) -> None:
        vocabulary = Vocabulary.from_counts(counts)
        assert set(vocabulary) == {*counts, END}
        assert sorted(vocabulary.counts.tolist(), reverse=True) == vocabulary.counts.tolist()
        assert vocabulary == Vocabulary.from_counts(dict(reversed(counts.items())))
        assert dict(zip(vocabulary, vocabulary.counts.tolist(), strict=True)) == {END: 0, **counts}

    @given(word_lists, word_lists)
    def test_equal_means_the_same_words_in_the_same_order(self, one: list[str], other: list[str]) -> None:
        same = one == other
        assert (Vocabulary(one) == Vocabulary(other)) == same
        assert (Vocabulary(one).digest == Vocabulary(other).digest) == same


class TestUnion:
    @given(word_lists, st.lists(words))
    def test_old_ids_and_counts_stay_and_new_words_follow_uncounted(self, some: list[str], more: list[str]) -> None:
        old = Vocabulary(some, range(1, len(some) + 1))
        union = old.union(more)
        assert union.words[: len(old)] == old.words
        assert union.counts[: len(old)].tolist() == old.counts.tolist()
        assert union.words[len(old) :] == tuple(word for word in dict.fromkeys(more) if word not in some)
        assert not union.counts[len(old) :].any()

    @given(word_lists, st.lists(words))
    def test_a_second_time_it_adds_nothing(self, some: list[str], more: list[str]) -> None:
        union = Vocabulary(some).union(more)
        assert union.union(more) is union


class TestFiles:
    @given(st.dictionaries(words, st.integers(0, 10**9)))
    def test_any_words_survive_a_file(self, tmp_path: Path, counts: dict[str, int]) -> None:
        vocabulary = Vocabulary.from_counts(counts)
        path = tmp_path / "vocabulary.tsv"
        path.write_bytes(vocabulary.to_text().encode())
        read = Vocabulary.read(path)
        assert read == vocabulary
        assert read.counts.tolist() == vocabulary.counts.tolist()

    def test_counts_and_eos_may_be_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "list.txt"
        path.write_text("dog\ncat\t3\r\nbird")
        vocabulary = Vocabulary.read(path)
        assert vocabulary.words == ("dog", "cat", "bird", END)
        assert vocabulary.counts.tolist() == [0, 3, 0, 0]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"dog\ncat\ndog\n", "'dog' stands twice"),
            (b"", "holds no word"),
            (b"\n\r\n", "holds no word"),
            (b"dog\n\ncat\n", "empty"),
            (b"dog\n \ncat\n", "white space"),
            (b"two words\n", "white space"),
            (b"dog\tmany\n", "line 1: 'many' is not a count"),
            (b"dog\ncat\t-1\n", "line 2: '-1' is not a count"),
            (b"d\xff\n", "not UTF-8"),
        ],
    )
    def test_a_bad_file_is_named_with_the_reason(self, tmp_path: Path, content: bytes, reason: str) -> None:
        path = tmp_path / "list.txt"
        path.write_bytes(content)
        with pytest.raises(GrocError, match=reason) as raised:
            Vocabulary.read(path)
        assert str(path) in str(raised.value)

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(GrocError, match="cannot be read"):
            Vocabulary.read(tmp_path / "nothing")


class TestRefused:
    @pytest.mark.parametrize(
        ("some", "reason"),
        [
            (["dog", "dog", END], "'dog' stands twice"),
            (["", END], "''"),
            (["two words", END], "'two words'"),
            (["line\nend", END], "line"),
            (["dog"], "no <eos>"),
        ],
    )
    def test_what_is_no_vocabulary(self, some: list[str], reason: str) -> None:
        with pytest.raises(GrocError, match=reason):
            Vocabulary(some)

    def test_counts_must_be_as_many_as_words(self) -> None:
        with pytest.raises(GrocError, match="2 words"):
            Vocabulary(["dog", END], [1])


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_words(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfdog\r\ncat\t3\r\n<eos>\r\n")
    assert Vocabulary.read(tmp_path / "list.txt").words == ("dog", "cat", END)


def test_one_word_is_no_list_of_words() -> None:
    with pytest.raises(GrocError, match="one word"):
        Vocabulary([END]).union("dog")
