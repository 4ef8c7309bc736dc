"""Corpora: text files to ids, and the cache between them."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groc.corpus import LONGEST_LINE, Corpus, Text, read_text
from groc.errors import GrocError
from groc.vocabulary import END, UNKNOWN, Vocabulary

tokens = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"), min_size=1, max_size=5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GROC_CACHE", str(folder))
    return folder


def words_of(text: Text) -> list[str]:
    return [text.types[code] for code in text.codes]


def write(folder: Path, content: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class TestTokens:
    @given(st.lists(st.lists(tokens, max_size=4), min_size=1, max_size=6).filter(any))
    def test_a_text_is_its_words_with_eos_behind_each_line(self, tmp_path: Path, lines: list[list[str]]) -> None:
        path = write(tmp_path, "".join(" ".join(line) + "\n" for line in lines))
        assert words_of(read_text(path)) == [word for line in lines for word in (*line, END)]

    def test_blank_lines_count(self, tmp_path: Path) -> None:
        assert words_of(read_text(write(tmp_path, "a\n\n \nb\n"))) == ["a", END, END, END, "b", END]

    def test_the_last_line_needs_no_line_end(self, tmp_path: Path) -> None:
        assert words_of(read_text(write(tmp_path, "a b\nc"))) == ["a", "b", END, "c", END]

    def test_tabs_and_windows_line_ends_are_white_space(self, tmp_path: Path) -> None:
        assert words_of(read_text(write(tmp_path, "a\tb\r\nc\r\n"))) == ["a", "b", END, "c", END]

    @pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u2028", "\x85", "\x1c"])
    def test_only_ascii_white_space_ends_a_word(self, tmp_path: Path, space: str) -> None:
        write(tmp_path, f"10{space}000 dogs\n")
        vocabulary = Corpus(tmp_path).vocabulary()
        assert set(vocabulary) == {f"10{space}000", "dogs", END}

    @pytest.mark.parametrize(("ending", "opener"), [(".txt.gz", gzip.open), (".txt.xz", lzma.open)])
    def test_compressed_text_gives_the_same_ids(self, tmp_path: Path, corpus_folder: Path, ending, opener) -> None:
        content = (corpus_folder / "train.txt").read_bytes()
        with opener(tmp_path / f"train{ending}", "wb") as handle:
            handle.write(content)
        plain, packed = Corpus(corpus_folder), Corpus(tmp_path)
        assert packed.vocabulary() == plain.vocabulary()
        ids = [corpus.text("train").ids(plain.vocabulary()).tolist() for corpus in (plain, packed)]
        assert ids[0] == ids[1]

    def test_the_longest_line_allowed_is_read(self, tmp_path: Path) -> None:
        assert len(read_text(write(tmp_path, "x " * LONGEST_LINE))) == LONGEST_LINE + 1


class TestVocabulary:
    def test_the_words_of_training_with_their_counts(self, tmp_path: Path) -> None:
        write(tmp_path, "b a b\nb c\n")
        vocabulary = Corpus(tmp_path).vocabulary()
        assert dict(zip(vocabulary, vocabulary.counts.tolist(), strict=True)) == {"b": 3, END: 2, "a": 1, "c": 1}
        assert vocabulary.words == ("b", END, "a", "c")

    def test_ids_of_a_union_keep_the_old_ones(self, tmp_path: Path) -> None:
        write(tmp_path, "b a b\n")
        write(tmp_path, "a new b\n", "test.txt")
        corpus = Corpus(tmp_path)
        old = corpus.vocabulary()
        union = old.union(corpus.text("test").types)
        assert corpus.text("train").ids(old).tolist() == corpus.text("train").ids(union).tolist()
        assert [union.words[i] for i in corpus.text("test").ids(union)] == ["a", "new", "b", END]

    def test_unknown_words_become_unk_where_that_is_a_word(self, tmp_path: Path) -> None:
        text = read_text(write(tmp_path, "a b a\n"))
        vocabulary = Vocabulary(["a", UNKNOWN, END])
        assert text.ids(vocabulary).tolist() == [0, 1, 0, 2]
        assert text.outside(vocabulary) == 1

    def test_unknown_words_without_unk_are_an_error_that_counts_them(self, tmp_path: Path) -> None:
        text = read_text(write(tmp_path, "a b b\n"))
        with pytest.raises(GrocError, match=r"2 of 4 tokens .* union"):
            text.ids(Vocabulary(["a", END]))


class TestCache:
    def test_the_second_reading_uses_it(self, tmp_path: Path, cache: Path) -> None:
        path = write(tmp_path, "a b\n")
        read_text(path)
        (stored,) = cache.rglob("types.json")
        stored.write_text(json.dumps(["a", "from the cache", END]))
        assert words_of(read_text(path)) == ["a", "from the cache", END]

    def test_it_is_keyed_by_content(self, tmp_path: Path, cache: Path) -> None:
        path = write(tmp_path, "a b\n")
        read_text(path)
        read_text(write(tmp_path, "a b\n", "copy.txt"))
        assert len(list(cache.rglob("types.json"))) == 1
        write(tmp_path, "a c\n")
        assert words_of(read_text(path)) == ["a", "c", END]
        assert len(list(cache.rglob("types.json"))) == 2

    def test_nothing_is_kept_of_a_text_that_could_not_be_read(self, tmp_path: Path, cache: Path) -> None:
        path = write(tmp_path, b"good words\nbad \xff word\n")
        with pytest.raises(GrocError):
            read_text(path)
        assert not list(cache.rglob("*.npy"))

    @pytest.mark.parametrize("name", ["types.json", "codes.npy"])
    def test_a_damaged_cache_is_made_again(self, tmp_path: Path, cache: Path, name: str) -> None:
        path = write(tmp_path, "a b\n")
        read_text(path)
        (stored,) = cache.rglob(name)
        stored.write_bytes(stored.read_bytes()[:5])
        assert words_of(read_text(path)) == ["a", "b", END]


class TestBadInput:
    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(GrocError, match="no corpus folder"):
            Corpus(tmp_path / "nothing")

    def test_a_missing_split_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, "a\n")
        with pytest.raises(GrocError, match=r"no file with a valid text.*valid\.txt"):
            Corpus(tmp_path).text("valid")

    @pytest.mark.parametrize("content", ["", "\n", " \n\n"])
    def test_an_empty_split(self, tmp_path: Path, content: str) -> None:
        with pytest.raises(GrocError, match="holds no words"):
            read_text(write(tmp_path, content))

    @pytest.mark.parametrize("bad", [b"caf\xe9", b"\xff", b"\xc3", b"\xed\xa0\x80"])
    def test_text_that_is_not_utf8_names_the_line(self, tmp_path: Path, bad: bytes) -> None:
        with pytest.raises(GrocError, match=r"train\.txt, line 3 is not UTF-8"):
            read_text(write(tmp_path, b"one\ntwo\nthree " + bad + b"\n"))

    def test_a_line_without_end_names_the_line(self, tmp_path: Path) -> None:
        with pytest.raises(GrocError, match=r"line 2 has 100,001 words"):
            read_text(write(tmp_path, "a\n" + "x " * (LONGEST_LINE + 1)))

    @pytest.mark.parametrize(("ending", "module"), [(".txt.gz", gzip), (".txt.xz", lzma)])
    @pytest.mark.parametrize("damage", ["garbage", "truncated", "flipped"])
    def test_a_damaged_compressed_file(self, tmp_path: Path, ending: str, module, damage: str) -> None:
        packed = bytearray(module.compress(("some words " * 50 + "\n").encode()))
        if damage == "garbage":
            packed = bytearray(b"plain text\n")
        elif damage == "truncated":
            packed = packed[:-9]
        else:
            packed[len(packed) // 2] ^= 0xFF
        with pytest.raises(GrocError, match="is damaged"):
            read_text(write(tmp_path, bytes(packed), f"train{ending}"))


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    for name, start in (("with.txt", b"\xef\xbb\xbf"), ("without.txt", b"")):
        (tmp_path / name).write_bytes(start + b"dog cat\n")
    assert read_text(tmp_path / "with.txt").types == read_text(tmp_path / "without.txt").types
