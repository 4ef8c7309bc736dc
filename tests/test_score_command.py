"""groc score: what Python gives, as rows or as a shaded text, from files or standard input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conftest import TERMS, TRAIN_WORDS, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st

import groc
from groc import checkpoint
from groc.cli import main
from groc.commands.shading import SHADES, Shading
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.surprisal import WordScore
from groc.text import read_tokens
from groc.vocabulary import END, Vocabulary

Run = Callable[..., tuple[int, str, str]]
TEXT = 'The dog sleeps.\n\nA "naïve" zebra runs\t👍 שלום\n'
KEYS = ["word", "surprisal", "probability", "rank", "entropy", "seen", "in_lexicon", "start", "end"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["score", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model that knows few words."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    vocabulary = Vocabulary([*TRAIN_WORDS, END], [1] * (len(TRAIN_WORDS) + 1))
    checkpoint.save(folder, tiny_model("groc", "ngrams", vocabulary, Glossary(TERMS)), tiny_config("groc"))
    return folder


@pytest.fixture
def model(folder: Path) -> LanguageModel:
    with pytest.warns(UserWarning, match="lexicon"):
        return groc.load(folder)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def of_json(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def of_table(out: str) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(out), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        {key: value if key in ("file", "word") else json.loads(value) for key, value in row.items()} for row in rows
    ]


def expected(rows: list[WordScore], **more: int | str) -> list[dict[str, Any]]:
    return [{**more, **asdict(row)} for row in rows]


class TestRows:
    @pytest.mark.parametrize(("layout", "parse"), [("tsv", of_table), ("jsonl", of_json)])
    def test_are_exactly_those_of_python(
        self, run: Run, folder: Path, file: Path, model: LanguageModel, layout: str, parse: Callable[..., Any]
    ) -> None:
        status, out, _ = run(folder, file, "--format", layout)
        assert status == 0
        rows = parse(out)
        assert list(rows[0]) == KEYS
        assert rows == expected(model.score(TEXT))
        assert [TEXT[row["start"] : row["end"]] for row in rows] == [row["word"] for row in rows]

    @pytest.mark.parametrize("options", [["--ends"], ["--unknown"], ["--tokenised"], ["--tokenised", "--ends"]])
    def test_options_are_those_of_python(
        self, run: Run, folder: Path, file: Path, model: LanguageModel, options: list[str]
    ) -> None:
        rows = of_table(run(folder, file, *options)[1])
        assert rows == expected(model.score(TEXT, **{option.removeprefix("--"): True for option in options}))

    @pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
    def test_packed_files_are_unpacked(
        self, run: Run, folder: Path, file: Path, ending: str, pack: Callable[[bytes], bytes]
    ) -> None:
        packed = file.with_name(f"text.txt{ending}")
        packed.write_bytes(pack(TEXT.encode()))
        assert run(folder, packed)[1] == run(folder, file)[1]

    @pytest.mark.parametrize("names", [[], ["-"], ["--format", "tsv", "-"]])
    def test_standard_input_is_read_where_no_file_is_named_or_a_dash(
        self, run: Run, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode()), "ascii"))
        assert run(folder, *names)[1] == run(folder, file)[1]

    def test_a_dash_needs_no_run(self, run: Run, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoint, "POCKET", folder)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode()), "ascii"))
        assert run("-")[1] == run(folder, file)[1]

    def test_a_byte_order_mark_is_no_word(self, run: Run, folder: Path, file: Path) -> None:
        plain = run(folder, file)[1]
        file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
        assert run(folder, file)[1] == plain

    def test_without_a_run_the_model_that_comes_along_is_used(
        self, run: Run, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "POCKET", folder)
        assert run(file)[1] == run(folder, file)[1]

    def test_terms_of_a_glossary_are_words(self, run: Run, folder: Path, file: Path, tmp_path: Path) -> None:
        (tmp_path / "terms.tsv").write_text("zebra runs\tthe flight of a striped animal\tflight\n", encoding="utf-8")
        rows = of_table(run(folder, file, "--glossary", tmp_path / "terms.tsv")[1])
        term = next(row for row in rows if row["word"] == "zebra_runs")
        assert TEXT[term["start"] : term["end"]] == "zebra runs"
        assert term["in_lexicon"]


class TestDocuments:
    @pytest.fixture
    def files(self, tmp_path: Path) -> list[Path]:
        paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
        for path, text in zip(paths, ("the dog\n\nruns", "a zebra\n"), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def named(self, texts: Sequence[tuple[Path | str, int, str]], model: LanguageModel) -> list[dict[str, Any]]:
        return [
            row for file, number, text in texts for row in expected(model.score(text), file=str(file), document=number)
        ]

    def assert_close(self, found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
        """Equal but for the rounding of documents that were read side by side."""
        assert len(found) == len(wanted)
        for row, other in zip(found, wanted, strict=True):
            assert row == pytest.approx(other, abs=1e-5)

    @pytest.mark.parametrize(("layout", "parse"), [("tsv", of_table), ("jsonl", of_json)])
    def test_files_are_separate_streams_that_keep_their_names(
        self, run: Run, folder: Path, files: list[Path], model: LanguageModel, layout: str, parse: Callable[..., Any]
    ) -> None:
        rows = parse(run(folder, *files, "--format", layout)[1])
        assert list(rows[0]) == ["file", "document", *KEYS]
        self.assert_close(rows, self.named([(files[0], 1, "the dog\n\nruns"), (files[1], 2, "a zebra\n")], model))

    @pytest.mark.parametrize(("layout", "parse"), [("tsv", of_table), ("jsonl", of_json)])
    def test_lines_are_separate_streams_that_keep_the_numbers_they_have_in_their_files(
        self, run: Run, folder: Path, files: list[Path], model: LanguageModel, layout: str, parse: Callable[..., Any]
    ) -> None:
        rows = parse(run(folder, *files, "--documents", "line", "--format", layout)[1])
        assert list(rows[0]) == ["file", "document", *KEYS]
        lines = [(files[0], 1, "the dog"), (files[0], 2, ""), (files[0], 3, "runs"), (files[1], 1, "a zebra")]
        self.assert_close(rows, self.named(lines, model))

    def test_lines_of_one_file_need_no_name(
        self, run: Run, folder: Path, files: list[Path], model: LanguageModel
    ) -> None:
        rows = of_table(run(folder, files[0], "--documents", "line")[1])
        assert list(rows[0]) == ["document", *KEYS]
        self.assert_close(
            [{"file": str(files[0]), **row} for row in rows],
            self.named([(files[0], 1, "the dog"), (files[0], 3, "runs")], model),
        )

    def test_standard_input_may_stand_beside_files(
        self, run: Run, folder: Path, files: list[Path], model: LanguageModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the sea\n"), "ascii"))
        rows = of_table(run(folder, files[1], "-", "--documents", "line")[1])
        self.assert_close(rows, self.named([(files[1], 1, "a zebra"), ("-", 1, "the sea")], model))

    def test_a_name_does_not_break_the_table(self, run: Run, folder: Path, files: list[Path]) -> None:
        odd = files[0].rename(files[0].with_name("a\tb\nc.txt"))
        rows = of_table(run(folder, odd, files[1])[1])
        assert {row["file"] for row in rows} == {f"{odd.parent}/a\\tb\\nc.txt", str(files[1])}

    def test_all_files_are_one_stream(self, run: Run, folder: Path, files: list[Path], model: LanguageModel) -> None:
        rows = of_table(run(folder, *files, "--documents", "all")[1])
        assert rows == expected(model.score("the dog\n\nruns\na zebra"))


class TestText:
    def test_without_a_terminal_bits_stand_behind_the_words(
        self, run: Run, folder: Path, file: Path, model: LanguageModel
    ) -> None:
        file.write_text("the dog\x1b[31m\n runs\x00", encoding="utf-8")
        status, out, _ = run(folder, file, "--format", "text", "--ends")
        assert status == 0
        assert "\x1b" not in out
        assert "\x00" not in out
        bits = [f"{row.surprisal:.1f}" for row in model.score("the dog\x1b[31m\n runs\x00", ends=True)]
        assert [found.rstrip("*") for found in re.findall(r"\[(\d+\.\d\*?)\]", out)] == bits
        assert out.splitlines()[1].startswith(f"the[{bits[0]}] dog[{bits[1]}]␛")

    @pytest.mark.parametrize(
        ("terminal", "no_colour", "kind", "coloured"),
        [
            (True, None, "xterm", True),
            (True, "", "xterm", True),
            (True, "1", "xterm", False),
            (True, None, "dumb", False),
            (False, None, "xterm", False),
        ],
    )
    def test_colours_are_for_terminals_and_those_who_want_them(
        self,
        run: Run,
        folder: Path,
        file: Path,
        monkeypatch: pytest.MonkeyPatch,
        terminal: bool,
        no_colour: str | None,
        kind: str,
        coloured: bool,
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
        monkeypatch.setenv("TERM", kind)
        monkeypatch.delenv("NO_COLOR", raising=False)
        if no_colour is not None:
            monkeypatch.setenv("NO_COLOR", no_colour)
        assert ("\x1b[" in run(folder, file, "--format", "text")[1]) == coloured

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.lists(st.floats(0, 40), min_size=60))
    def test_colour_changes_no_character_but_those_that_command_a_terminal(self, text: str, bits: list[float]) -> None:
        tokens = [token for line in read_tokens(text, tokenised=True, lower=False) for token in line]
        rows = [
            WordScore(t.word, b, 0.5, 1, 1.0, b > 20, True, t.start, t.end) for t, b in zip(tokens, bits, strict=False)
        ]
        shown = re.sub(r"\x1b\[[\d;]*m", "", "".join(Shading(True).shaded(text, rows)))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
        same = [c if c.isprintable() or c in "\n\t" else None for c in text.replace("\r", "").rstrip("\n")]
        assert len(shown) == len(same)
        assert all(wanted in (None, c) for c, wanted in zip(shown, same, strict=True))

    def test_each_shade_is_another_and_the_legend_shows_all(self) -> None:
        rows = [WordScore("a", float(start), 0.5, 1, 1.0, True, True, 0, 1) for start, _ in SHADES]
        shades = ["".join(Shading(True).shaded("a", [row])) for row in rows]
        assert len(set(shades)) == len(SHADES)
        legend = Shading(True).legend()
        assert all(str(start) in legend for start, _ in SHADES)
        assert all(f";{colour}m" in legend for _, colour in SHADES if colour)


class TestBadInput:
    def fails(self, run: Run, reason: str, *arguments: str | Path) -> None:
        status, out, err = run(*arguments)
        assert status == 1
        assert out == ""
        said = [line for line in err.splitlines() if line.startswith("groc: ")]
        assert len(said) == 1
        assert re.search(reason, said[0])

    @pytest.mark.parametrize("text", ["", "\n \n", "\x00\x01", "\u200b\xad"])
    def test_there_must_be_a_word(self, run: Run, folder: Path, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        self.fails(run, "nothing to score", folder, file)

    def test_a_file_must_be_there(self, run: Run, folder: Path, tmp_path: Path) -> None:
        self.fails(run, "no file or run folder", tmp_path / "missing")
        self.fails(run, "no file or run folder", folder, tmp_path / "missing")

    def test_an_empty_name_is_not_this_folder(self, run: Run) -> None:
        self.fails(run, "name of a file is empty", "")

    def test_what_is_closed_to_the_user_is_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def closed(path: Path) -> bool:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "is_dir", closed)  # root may go everywhere
        self.fails(run, r"home/text.txt is out of reach \(Permission denied\): check", "home/text.txt")

    @pytest.mark.parametrize(("name", "how"), [("config.json", "read_text"), ("model.safetensors", "open")])
    def test_a_run_that_is_closed_to_the_user_is_not_called_damaged(
        self, run: Run, folder: Path, file: Path, name: str, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_text("a dog", encoding="utf-8")
        usual = getattr(Path, how)

        def closed(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return usual(path, *arguments, **options)

        monkeypatch.setattr(Path, how, closed)
        self.fails(run, rf"{name} is out of reach \(Permission denied\): check", folder, file)

    def test_the_standard_input_can_be_read_once(self, run: Run, folder: Path) -> None:
        self.fails(run, "standard input .* once", folder, "-", "-")

    def test_a_folder_is_no_text(self, run: Run, folder: Path, tmp_path: Path) -> None:
        self.fails(run, "cannot be read", folder, tmp_path)

    def test_a_folder_is_not_always_a_run(self, run: Run, file: Path) -> None:
        self.fails(run, "not a GroC checkpoint", file.parent, file)

    def test_a_text_is_utf8(self, run: Run, folder: Path, file: Path) -> None:
        file.write_bytes(b"fine\nna\xefve\n")
        self.fails(run, r"line 2 is not UTF-8 \(byte 3", folder, file)

    def test_a_damaged_file_is_named(self, run: Run, folder: Path, tmp_path: Path) -> None:
        packed = tmp_path / "text.txt.gz"
        packed.write_bytes(gzip.compress(TEXT.encode())[:-9])
        self.fails(run, r"text\.txt\.gz is damaged", folder, packed)

    def test_a_word_without_end_is_no_word(self, run: Run, folder: Path, file: Path) -> None:
        file.write_text("x" * 20_000, encoding="utf-8")
        self.fails(run, "word of 20,000 characters", folder, file)


def test_a_second_glossary_would_make_the_first_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["score", str(tmp_path), "--glossary", "a.tsv", "--glossary", "b.tsv"])
    assert "--glossary was given twice" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--tune", "--gradients", "--against"])
def test_so_would_a_second_text_or_run_of_eval(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "run", "corpus", option, "a", option, "a"])
    assert f"{option} was given twice: leave one out" in capsys.readouterr().err
