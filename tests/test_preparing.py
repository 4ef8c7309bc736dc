"""From raw text to a corpus: which lines are taken, where they go, and what is said of them."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groc import text as splitting
from groc.cli import main
from groc.corpus import SPLITS, Corpus
from groc.preparing import Tokenise, deal, in_order, line_tokeniser, shuffled
from groc.text import tokeniser

DOCS = Path(__file__).parents[1] / "docs"
SMALL = ["--train", "300", "--valid", "60", "--test", "200"]
ALL = {"train": 10**9, "valid": 0, "test": 0}

Lines = list[bytes]
lines_of_text = st.lists(st.text("ab ", max_size=12).map(lambda line: line.encode() + b"\n"), max_size=40)
some_budgets = st.tuples(*[st.integers(0, 30)] * 3).map(lambda sizes: dict(zip(SPLITS, sizes, strict=True)))


def at_spaces(line: bytes) -> list[str]:
    return line.decode().split()


def counting(tokenise: Tokenise) -> tuple[Tokenise, Lines]:
    seen: Lines = []

    def call(line: bytes) -> list[str]:
        seen.append(line)
        return tokenise(line)

    return call, seen


def size(line: str) -> int:
    return len(line.split()) + 1


def naively_dealt(lines: list[str], budgets: dict[str, int]) -> list[tuple[str, str]]:
    dealt: list[tuple[str, str]] = []
    used = dict.fromkeys(SPLITS, 0)
    for line in lines:
        if open_splits := [split for split in SPLITS if used[split] < budgets[split]]:
            dealt.append((open_splits[0], line))
            used[open_splits[0]] += size(line)
    return dealt


def raw_sentences(number: int, seed: int, words: str = "Mr. Smith doesn't say: the U.S. ship, old and red!") -> str:
    draw = random.Random(seed)
    choices = words.split()
    return "".join(" ".join(draw.choices(choices, k=draw.randint(3, 9))) + f" No. {i}.\n" for i in range(number))


class TestShuffle:
    @given(lines_of_text, some_budgets.filter(lambda budgets: any(budgets.values())), st.integers(0, 3))
    def test_equals_a_shuffle_of_all_lines_cut_at_the_budgets(
        self, lines: Lines, budgets: dict[str, int], seed: int
    ) -> None:
        everything = shuffled(lines, ALL, at_spaces, seed)
        kept = shuffled(lines, budgets, at_spaces, seed)
        assert list(deal(kept, budgets)) == naively_dealt(everything, budgets)
        distinct = (" ".join(at_spaces(line)) for line in {line.strip() for line in lines})
        assert sorted(everything) == sorted(line for line in distinct if line)

    @given(lines_of_text, some_budgets.filter(lambda budgets: any(budgets.values())), st.randoms(use_true_random=False))
    def test_the_order_of_the_lines_does_not_matter(
        self, lines: Lines, budgets: dict[str, int], draw: random.Random
    ) -> None:
        one, other = (
            list(deal(shuffled(text, budgets, at_spaces, 1), budgets))
            for text in (lines, draw.sample(lines, len(lines)))
        )
        assert one == other

    def test_another_seed_is_another_shuffle(self) -> None:
        lines = [f"line {i}\n".encode() for i in range(50)]
        one, other = (shuffled(lines, ALL, at_spaces, seed) for seed in (1, 2))
        assert one != other
        assert sorted(one) == sorted(other)
        assert one != [line.decode().strip() for line in lines]

    def test_lines_that_cannot_be_taken_are_neither_tokenised_nor_held(self) -> None:
        tokenise, seen = counting(at_spaces)
        lines = [f"line {i}\n".encode() for i in range(5000)]
        assert len(shuffled(lines, {"train": 30, "valid": 0, "test": 0}, tokenise, 1)) == 10
        assert len(shuffled(lines, {"train": 10, "valid": 10, "test": 10}, tokenise, 1)) == 12  # a line more each
        assert len(seen) < 400

    def test_in_order_nothing_beyond_the_budget_is_read(self) -> None:
        source = iter([b"a b\n", b"\n", b"c\n", b"d\n", b"e\n"])
        assert list(in_order(source, 5, at_spaces)) == ["a b", "c"]
        assert list(source) == [b"e\n"]


class TestDeal:
    @given(lines_of_text, some_budgets)
    def test_each_text_ends_with_the_line_that_reaches_its_budget(self, lines: Lines, budgets: dict[str, int]) -> None:
        whole = list(in_order(lines, 10**9, at_spaces))
        rest = iter(whole)
        dealt = list(deal(rest, budgets))
        assert dealt == naively_dealt(whole, budgets)
        assert [line for _, line in dealt] + list(rest) == whole  # nothing is read that is not dealt


def test_tokenised_text_needs_no_tokeniser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    splitting._moses.cache_clear()
    tokenise = line_tokeniser(Path("a text"), lower=True, tokenised=True)
    assert tokenise("I 'm  No\u00a0Break.\n".encode()) == ["i", "'m", "no\u00a0break."]


Prepare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prepare(capsys: pytest.CaptureFixture[str]) -> Prepare:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["data", "prepare", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


class TestCommand:
    def test_a_folder_by_year(self, prepare: Prepare, tmp_path: Path) -> None:
        """Each year a corpus: every kind of file, tokenised by Moses's rules, lower-cased; the statistics add up."""
        years = tmp_path / "years"
        years.mkdir()
        texts = {year: raw_sentences(200, year) for year in (2007, 2008, 2009)}
        (years / "news.2007.en.shuffled").write_text(texts[2007])
        (years / "news.2008.en.shuffled.gz").write_bytes(gzip.compress(texts[2008].encode()))
        (years / "2009.txt.xz").write_bytes(lzma.compress(texts[2009].encode()))
        out = tmp_path / "data"
        status, printed, _ = prepare(years, "--out", out, "--lower", "--json", *SMALL)
        figures = json.loads(printed)
        assert status == 0
        assert json.loads((out / "statistics.json").read_text()).items() <= figures.items()
        tokenise = tokeniser(lower=True)
        for year, text in texts.items():
            possible = {" ".join(tokenise(line)) for line in text.splitlines()}
            taken: list[str] = []
            for split, budget in zip(SPLITS, (300, 60, 200), strict=True):
                lines = (out / str(year) / f"{split}.txt").read_text().splitlines()
                assert possible.issuperset(lines)
                assert sum(map(size, lines[:-1])) < budget <= sum(map(size, lines))
                taken += lines
                row = next(row for row in figures["texts"] if (row["set"], row["text"]) == (str(year), split))
                corpus = Corpus(out / str(year)).text(split)
                assert (row["lines"], row["tokens"], row["words"]) == (len(lines), len(corpus), len(corpus.types))
            assert len(taken) == len(set(taken))
        for row in figures["unseen"]:
            train, test = Corpus(out / row["train"]).text("train"), Corpus(out / row["test"]).text("test")
            tokens = [test.types[code] not in train.types for code in test.codes]
            assert row["of_tokens"] == pytest.approx(sum(tokens) / len(tokens))
            assert row["of_words"] == pytest.approx(len(set(test.types) - set(train.types)) / len(test.types))
        assert len(figures["unseen"]) == 9

    def test_sets_prepared_one_after_the_other_are_compared(self, prepare: Prepare, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / f"{name}.txt").write_text(raw_sentences(100, len(name)))
        prepare(tmp_path / "one.txt", "--out", tmp_path / "data", *SMALL)
        status, printed, _ = prepare(
            tmp_path / "two.txt", "--name", "other", "--out", tmp_path / "data", "--train", "0", "--valid", "0"
        )
        assert status == 0
        assert "one/train" in printed
        assert re.search(r"^\| other/test +\| +\d+\.\d% \(\d+%\) \|$", printed, re.MULTILINE)
        assert [path.name for path in (tmp_path / "data" / "other").iterdir()] == ["test.txt"]

    def test_tokenised_running_text_stays_as_it_is(self, prepare: Prepare, tmp_path: Path) -> None:
        text = " = Title = \n\n" + raw_sentences(100, 1) + "a @-@ b no\u00a0break\n"
        (tmp_path / "wiki.train.raw").write_text(text, encoding="utf-8")
        options = ["--name", "wiki", "--in-order", "--tokenised", *SMALL[:-1], "9999"]
        status, _, _ = prepare(tmp_path / "wiki.train.raw", "--out", tmp_path, *options)
        assert status == 0
        written = "".join((tmp_path / "wiki" / f"{split}.txt").read_text(encoding="utf-8") for split in SPLITS)
        assert written == "= Title =\n" + text.split("\n\n")[1]

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["missing.txt", "--out", "data"], "no file or folder missing.txt"),
            (["empty", "--out", "data"], "no file in empty"),
            (
                ["text.txt", "--out", "data"],
                "nothing is left for valid.txt: give smaller numbers of tokens, such as --train ",
            ),
            (["same.txt", "--out", "data", *SMALL], "only 1 different lines"),
            (["long.txt", "--out", "data", "--tokenised"], "long.txt has a line of 100,001 words"),
            (["blank.txt", "--out", "data"], "blank.txt holds no words"),
            (["text.txt", "--out", "data", "--train", "-1"], "0 or more"),
            (["few.txt", "--out", "data", "--train", "4", "--valid", "1", "--test", "1"], "give more or shorter lines"),
            (["text.txt", "--out", "data", *SMALL, "--language", "xx"], "know no language 'xx': choose among as, bn"),
            (["text.txt", "--out", "data", *SMALL, "--language", "de", "--tokenised"], "leave it out, or --tokenised"),
            (["text.txt", "--out", "data", *SMALL, "--seed", "1", "--in-order"], "leave it out, or --in-order"),
            (["text.txt", "--out", "data", "--train", "0", "--valid", "0", "--test", "0"], "not all of them 0"),
            (["text.txt", "latin.txt", "--out", "data", "--name", "x"], "--name is for one file"),
            (["latin.txt", "--out", "data", *SMALL], "not UTF-8"),
            (["text.txt", "text.txt.gz", "--out", "data"], "would both become the set text"),
            (["text.txt", "--out", "there", *SMALL], "is there already"),
            (["broken.gz", "--out", "data", *SMALL], "is damaged"),
            (["text.txt", "--out", "text.txt.gz", *SMALL], "text.txt.gz is a file, so no corpus"),
            *(
                (["text.txt", "--out", "data", "--name", name, *SMALL], f"{name!r} cannot be the name")
                for name in ("../x", "a/b", "a/", "..", ".hid", "", "a\nb", "statistics.json")
            ),
            (["text.txt", "--out", "data", "--name", "a" * 300, *SMALL], "File name too long"),
            ([".hidden.txt", "--out", "data", *SMALL], "'.hidden' cannot be the name"),
            (["text.txt", "--out", "data", "--seed", "1" * 65, *SMALL], "--seed is too long a number"),
            (["pipe", "--out", "data", *SMALL], "pipe is a pipe or a device"),
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_is_written(
        self, prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for folder in ("empty", "there/text"):
            Path(folder).mkdir(parents=True)
        Path("there/text/train.txt").write_text("mine\n")
        for text in ("text.txt", ".hidden.txt"):
            Path(text).write_text(raw_sentences(80, 1))
        Path("blank.txt").write_text(" \n\n")
        Path("few.txt").write_text("a\nb\nc\n")
        Path("same.txt").write_text("one line\n" * 500)
        Path("long.txt").write_text("a line\n" + "a " * 100_001)
        os.mkfifo("pipe")
        Path("text.txt.gz").write_bytes(gzip.compress(b"x\n"))
        Path("latin.txt").write_bytes("naïve\n".encode("latin-1") * 3)
        Path("broken.gz").write_bytes(gzip.compress(raw_sentences(80, 1).encode())[:-9])
        before = sorted(Path().rglob("*"))
        status, printed, said = prepare(*arguments)
        assert status == 1
        assert printed == ""
        assert reason in said
        assert len(said.splitlines()) == 1
        assert sorted(Path().rglob("*")) == before
        assert Path("there/text/train.txt").read_text() == "mine\n"

    def test_each_text_reaches_its_number_and_no_line_more(self, prepare: Prepare, tmp_path: Path) -> None:
        """Small texts, behind a training text that ends with a line far beyond its number."""
        source = tmp_path / "news.2007.en.shuffled"
        source.write_text(raw_sentences(400, 1))
        for order in ([], ["--in-order"]):
            out = tmp_path / f"data{len(order)}"
            status, _, said = prepare(source, "--out", out, "--train", "100", "--valid", "10", "--test", "10", *order)
            assert status == 0, said
            for split, budget in (("train", 100), ("valid", 10), ("test", 10)):
                *others, last = map(size, (out / "2007" / f"{split}.txt").read_text().splitlines())
                assert sum(others) < budget <= sum(others) + last

    @pytest.mark.parametrize("bad", ["years/2009.txt", "data/mine/train.txt"])
    def test_if_one_file_fails_nothing_is_left_and_a_second_try_works(
        self, prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for folder in ("years", "data/mine", "data/2008"):  # an empty folder is not in the way
            Path(folder).mkdir(parents=True)
        Path("data/statistics.json").write_text("mine")
        Path("data/mine/train.txt").write_text("mine\n")
        for year in (2007, 2008, 2009):
            Path(f"years/{year}.txt").write_text(raw_sentences(200, year))
        good = Path(bad).read_bytes()
        Path(bad).write_bytes("naïve\n".encode("latin-1"))
        before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
        status, _, said = prepare("years", "--out", "data", *SMALL)
        assert status == 1
        assert re.search(f"{bad}.* is not UTF-8 .byte 3 of ", said)
        assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before
        Path(bad).write_bytes(good)
        status, _, said = prepare("years", "--out", "data", *SMALL)
        assert status == 0, said
        figures = json.loads(Path("data/statistics.json").read_text())
        assert [*dict.fromkeys(row["set"] for row in figures["texts"])] == ["2007", "2008", "2009", "mine"]
        assert Path("data/mine/train.txt").read_text() == "mine\n"
        assert sorted(path.name for path in Path("data").iterdir()) == [
            "2007", "2008", "2009", "mine", "statistics.json"
        ]  # fmt: skip
        assert sorted(path.name for path in Path().iterdir()) == ["data", "years"]


def test_the_recipe_of_the_page_works_on_files_of_the_same_shape(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/data.md, with smaller numbers of tokens."""
    monkeypatch.chdir(tmp_path)
    Path("news-crawl").mkdir()
    for year in range(2007, 2012):
        Path(f"news-crawl/news.{year}.en.shuffled").write_text(raw_sentences(150, year))
    Path("commoncrawl.de-en.en").write_text(raw_sentences(150, 1, "Buy cheap hotels (now): 100% best e-mail offers"))
    Path("wiki.train.raw").write_text(" \n = Robert = \n \n" + raw_sentences(150, 2, "an @-@ @,@ actor who 2 000 ."))
    Path("letters.txt.gz").write_bytes(gzip.compress(raw_sentences(150, 3).encode()))
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("groc data prepare ")][1:]
    assert len(commands) == 4
    for command in commands:
        status, printed, said = prepare(*command[3:], *SMALL)
        assert status == 0, said
    for name in ("2007", "2008", "2009", "2010", "2011", "web", "wiki", "letters"):
        assert f"{name}/test" in printed
        assert Path(f"data/{name}/valid.txt").stat().st_size
    assert "@-@" in Path("data/wiki/train.txt").read_text()
