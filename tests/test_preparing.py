"""From raw text to a corpus: which lines are taken, where they go, and what is said of them."""

from __future__ import annotations

import gzip
import json
import lzma
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

Lines = list[bytes]
lines_of_text = st.lists(st.text("ab ", max_size=12).map(lambda line: line.encode() + b"\n"), max_size=40)


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


def raw_sentences(number: int, seed: int, words: str = "Mr. Smith doesn't say: the U.S. ship, old and red!") -> str:
    draw = random.Random(seed)
    choices = words.split()
    return "".join(" ".join(draw.choices(choices, k=draw.randint(3, 9))) + f" No. {i}.\n" for i in range(number))


class TestShuffle:
    @given(lines_of_text, st.integers(1, 60), st.integers(0, 3))
    def test_equals_a_shuffle_of_all_lines_cut_at_the_budget(self, lines: Lines, budget: int, seed: int) -> None:
        everything = shuffled(lines, 10**9, at_spaces, seed)
        taken, tokens = [], 0
        for line in everything:
            if tokens < budget:
                taken.append(line)
                tokens += size(line)
        assert shuffled(lines, budget, at_spaces, seed) == taken
        distinct = (" ".join(at_spaces(line)) for line in {line.strip() for line in lines})
        assert sorted(everything) == sorted(line for line in distinct if line)

    @given(lines_of_text, st.integers(1, 60), st.randoms(use_true_random=False))
    def test_the_order_of_the_lines_does_not_matter(self, lines: Lines, budget: int, draw: random.Random) -> None:
        other = draw.sample(lines, len(lines))
        assert shuffled(lines, budget, at_spaces, 1) == shuffled(other, budget, at_spaces, 1)

    def test_another_seed_is_another_shuffle(self) -> None:
        lines = [f"line {i}\n".encode() for i in range(50)]
        one, other = (shuffled(lines, 10**9, at_spaces, seed) for seed in (1, 2))
        assert one != other
        assert sorted(one) == sorted(other)
        assert one != [line.decode().strip() for line in lines]

    def test_lines_that_cannot_be_taken_are_not_tokenised(self) -> None:
        tokenise, seen = counting(at_spaces)
        lines = [f"line {i}\n".encode() for i in range(5000)]
        assert len(shuffled(lines, 30, tokenise, 1)) == 10
        assert len(seen) < 200

    def test_in_order_nothing_beyond_the_budget_is_read(self) -> None:
        source = iter([b"a b\n", b"\n", b"c\n", b"d\n", b"e\n"])
        assert list(in_order(source, 5, at_spaces)) == ["a b", "c"]
        assert list(source) == [b"e\n"]


class TestDeal:
    @given(lines_of_text, st.tuples(*[st.integers(0, 30)] * 3))
    def test_each_text_is_filled_before_the_next_begins(self, lines: Lines, sizes: tuple[int, int, int]) -> None:
        budgets = dict(zip(SPLITS, sizes, strict=True))
        taken = list(in_order(lines, sum(sizes), at_spaces))
        dealt = list(deal(taken, budgets))
        assert [line for _, line in dealt] == taken
        assert [split for split, _ in dealt] == sorted((split for split, _ in dealt), key=SPLITS.index)
        assert all(budgets[split] for split, _ in dealt)
        before = 0
        for split, line in dealt:
            limits = [sum(sizes[: i + 1]) for i in range(3)]
            assert split == next(name for name, limit in zip(SPLITS, limits, strict=True) if before < limit)
            before += size(line)


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
                assert abs(sum(map(size, lines)) - budget) < 30  # a line more or less
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
            (["text.txt", "--out", "data"], "too little text, nothing is left for valid.txt"),
            (["text.txt", "--out", "data", "--train", "-1"], "0 or more"),
            (["text.txt", "--out", "data", "--train", "0", "--valid", "0", "--test", "0"], "not all of them 0"),
            (["text.txt", "latin.txt", "--out", "data", "--name", "x"], "--name is for one file"),
            (["latin.txt", "--out", "data", *SMALL], "not UTF-8"),
            (["text.txt", "text.txt.gz", "--out", "data"], "would both become the set text"),
            (["text.txt", "--out", "there", *SMALL], "is there already"),
            (["broken.gz", "--out", "data", *SMALL], "is damaged"),
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_is_written(
        self, prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for folder in ("empty", "there/text"):
            Path(folder).mkdir(parents=True)
        Path("there/text/train.txt").write_text("mine\n")
        Path("text.txt").write_text(raw_sentences(80, 1))
        Path("text.txt.gz").write_bytes(gzip.compress(b"x\n"))
        Path("latin.txt").write_bytes("naïve\n".encode("latin-1") * 3)
        Path("broken.gz").write_bytes(gzip.compress(raw_sentences(80, 1).encode())[:-9])
        status, printed, said = prepare(*arguments)
        assert status == 1
        assert printed == ""
        assert reason in said
        assert len(said.splitlines()) == 1
        assert not list(Path().glob("data/*/*"))
        assert Path("there/text/train.txt").read_text() == "mine\n"


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
