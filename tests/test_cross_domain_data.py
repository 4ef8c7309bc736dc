"""The tool that writes the texts of the cross-domain comparison, on sets of the same shape."""

from __future__ import annotations

import lzma
import runpy
import sys
from pathlib import Path

import mini_wordnet
import pytest
from conftest import sentences

from groc.corpus import Corpus
from groc.forms import FormsCompiler
from groc.lexicon import Glossary, WordNet
from groc.paper.domains import DOMAINS, EARLIER_YEARS, FAR, LATER_YEARS, LM1B, SOURCE, TUNING, YEARS

TOOL = Path(__file__).parents[1] / "tools" / "cross_domain_data.py"
WORDS = "The dog Dogs runs US tea the , .".split()
NAMES = [
    *(
        f"{name}/{split}"
        for name in ("news-bbc-2004-2005", "news-abc-2006", *FAR)
        for split in ("train", "valid", "test")
    ),
    *(f"{LM1B}/{split}" for split in ("valid", "test")),
    *(f"news-wmt-by-year/{year}" for year in range(2008, 2019)),
]


def lines_of(path: Path) -> list[str]:
    return lzma.decompress(path.read_bytes()).decode().splitlines()


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GROC_WORDNET", str(mini_wordnet.build(tmp_path / "wordnet")))
    for number, name in enumerate(NAMES):
        path = tmp_path / "sets" / f"{name}.txt.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = [*WORDS, name.replace("/", "-")]
        path.write_bytes(lzma.compress((" \n" + sentences(60, own, number)).encode()))
    return tmp_path / "sets"


def call(sets: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cross_domain_data.py", str(sets), "--out", str(out)])
    runpy.run_path(str(TOOL), run_name="__main__")


def test_every_text_is_made_of_its_sets(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    call(sets, out, monkeypatch)
    printed = capsys.readouterr().out

    def raw(name: str) -> list[str]:
        lines = (line.strip().lower() for line in lines_of(sets / f"{name}.txt.xz"))
        return [line for line in lines if line]

    def made(name: str, split: str) -> list[str]:
        return lines_of(out / name / f"{split}.txt.xz")

    for split, last in (("train", f"{LM1B}/valid"), ("valid", None), ("test", None)):
        parts = [f"news-bbc-2004-2005/{split}", f"news-abc-2006/{split}", *([last] if last else [])]
        assert made(SOURCE, split) == [line for part in parts for line in raw(part)]
    assert made(LM1B, "test") == raw(f"{LM1B}/test")
    years = {year: raw(f"news-wmt-by-year/{year[-4:]}") for year in YEARS}
    for year in YEARS[1:]:
        assert made(year, "test") == years[year]
        assert not (out / year / "valid.txt.xz").exists()
    assert made(TUNING, "valid") + made(TUNING, "test") == years[TUNING]
    sizes = [sum(len(line.split()) + 1 for line in made(TUNING, split)) for split in ("valid", "test")]
    assert abs(sizes[0] - sizes[1]) < 20
    earlier = [line for year in YEARS if year not in LATER_YEARS for line in years[year]]
    assert sorted(made(EARLIER_YEARS, "train") + made(EARLIER_YEARS, "valid")) == sorted(earlier)
    assert len(made(EARLIER_YEARS, "valid")) == len(earlier) // 10
    for name in FAR:
        assert made(name, "train") == raw(f"{name}/train")
    assert {path.name for path in out.iterdir() if path.is_dir()} == {*DOMAINS, EARLIER_YEARS}
    assert f"| {SOURCE}/train " in printed
    assert (out / "statistics.json").is_file()


def test_far_texts_are_cut_at_their_budgets(sets: Path) -> None:
    tool = runpy.run_path(str(TOOL))
    whole = tool["read"](sets, "wikitext-2/test")
    cut = tool["read"](sets, "wikitext-2/test", 100)
    sizes = [len(line.split()) + 1 for line in cut]
    assert cut == whole[: len(cut)]
    assert sum(sizes[:-1]) < 100 <= sum(sizes)


def test_the_lexicon_serves_all_texts_in_wordnet_s_place(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    call(sets, out, monkeypatch)
    stored = FormsCompiler(Glossary.read(out / "lexicon.jsonl"), lower=True)
    wordnet = FormsCompiler(WordNet.find(), lower=True)
    words = {word for path in out.glob("*/*.txt.xz") for word in Corpus(path.parent).text(path.name[:-7]).types}
    assert {word: stored.select(word) for word in words} == {word: wordnet.select(word) for word in words}
    assert any(wordnet.select(word).definition for word in words)


def test_what_is_missing_or_there_already_is_said(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sets / "web-nltk" / "test.txt.xz").unlink()
    with pytest.raises(SystemExit, match="web-nltk/test"):
        call(sets, tmp_path / "out", monkeypatch)
    with pytest.raises(SystemExit, match="there already"):
        call(sets, sets, monkeypatch)
