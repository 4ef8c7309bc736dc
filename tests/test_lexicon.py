"""Lexicons: WordNet from its files, glossaries, and their wrappers."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_wordnet import SYNSETS, build

from groc.commands.lexicon import show
from groc.errors import GrocError
from groc.lexicon import Chain, Coverage, Empty, Entry, Glossary, Lexicon, Sense, Without, WordNet

COUNT_FILES = ("index.sense", "cntlist.rev", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wordnet"))


@pytest.fixture(scope="module")
def mini(folder: Path) -> WordNet:
    return WordNet(folder)


@pytest.fixture(scope="module")
def real() -> WordNet:
    try:
        return WordNet.find()
    except GrocError as problem:
        pytest.skip(str(problem))


def senses(lexicon: Lexicon, word: str) -> tuple[Sense, ...]:
    entry = lexicon.entry(word)
    return entry.senses if entry else ()


def definitions(lexicon: Lexicon, word: str) -> list[str]:
    return [sense.definition for sense in senses(lexicon, word)]


class TestEntriesOfWordNet:
    def test_a_whole_entry(self, mini: WordNet) -> None:
        assert mini.entry("dog") == Entry(
            (
                Sense("barks", ("dog", "domestic_dog"), ("puppy", "pup", "cur", "Rex"), "n", 42),
                Sense("behaves badly; often without knowing", ("cad", "dog"), (), "n", 0),
                Sense("walk behind", ("trail", "dog"), (), "v", 2),
            )
        )

    def test_every_lemma_has_an_entry_with_its_synset(self, mini: WordNet) -> None:
        lemmas = list(mini.lemmas())
        assert len(lemmas) == len(set(lemmas))
        assert set(lemmas) == {lemma for synset in SYNSETS for lemma in synset.lemmas}
        for lemma in lemmas:
            for sense in senses(mini, lemma):
                assert lemma in {word.lower() for word in sense.synonyms}

    @pytest.mark.parametrize("word", ["Domestic Dog", "domestic_dog", "DOMESTIC_DOGS"])
    def test_case_and_spaces_do_not_matter(self, mini: WordNet, word: str) -> None:
        assert definitions(mini, word) == ["barks"]

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("mice", ["is small and grey"]),
            ("boxes", ["has a lid"]),
            ("went", ["move away"]),
            ("baking", ["make bread"]),
            ("larger", ["of great size"]),
            ("better", ["as it should be", "in a good way"]),
        ],
    )
    def test_inflected_words(self, mini: WordNet, word: str, expected: list[str]) -> None:
        assert definitions(mini, word) == expected

    def test_rules_are_applied_once(self, mini: WordNet) -> None:
        assert mini.entry("catss") is None

    def test_a_synset_reached_by_two_forms_appears_once(self, mini: WordNet) -> None:
        assert definitions(mini, "axes") == ["two spellings of one thing, for once", "a line to turn about"]

    def test_satellites_are_adjectives_and_markers_are_not_part_of_words(self, mini: WordNet) -> None:
        assert mini.entry("aghast") == Entry((Sense("in fear of something", ("scared", "aghast"), (), "a", 5),))

    def test_a_word_in_two_spellings_is_counted_once(self, mini: WordNet) -> None:
        assert mini.entry("utopia") == Entry((Sense("a good place", ("Utopia", "utopia"), (), "n", 13),))

    def test_an_open_quotation_stays_in_the_definition(self, mini: WordNet) -> None:
        assert definitions(mini, "cat") == ['purrs; "the cat of the house']

    @pytest.mark.parametrize("word", ["", " ", "1", "unheard-of", "ẞ", "<unk>", "s", "%"])
    def test_unknown_words(self, mini: WordNet, word: str) -> None:
        assert mini.entry(word) is None

    @given(st.text())
    def test_any_text_may_be_asked_for(self, mini: WordNet, word: str) -> None:
        entry = mini.entry(word)
        assert entry is None or entry.senses

    def test_examples_in_file_order(self, mini: WordNet) -> None:
        expected = ["an animal slept", "a dog barked", "my dog", "they dog her steps", "a good day", "well done"]
        assert list(mini.examples()) == expected

    def test_many_threads_get_the_same_answers(self, folder: Path) -> None:
        words = [*WordNet(folder).lemmas(), "mice", "axes", "nothing"] * 20
        expected = [WordNet(folder).entry(word) for word in words]
        shared = WordNet(folder)
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(shared.entry, words)) == expected


class TestFilesOfWordNet:
    def test_both_files_with_counts_say_the_same(self, tmp_path: Path) -> None:
        by_file = {counts: WordNet(build(tmp_path / str(counts), counts)) for counts in COUNT_FILES}
        for word in by_file["index.sense"].lemmas():
            assert by_file["index.sense"].entry(word) == by_file["cntlist.rev"].entry(word)
            without = [sense.count for sense in senses(by_file[None], word)]
            assert without == [0] * len(without)

    def test_the_fingerprint_is_that_of_the_content(self, tmp_path: Path, mini: WordNet) -> None:
        assert WordNet(build(tmp_path / "same")).fingerprint == mini.fingerprint
        others = [WordNet(build(tmp_path / str(counts), counts)).fingerprint for counts in COUNT_FILES]
        changed = build(tmp_path / "changed")
        (changed / "noun.exc").write_text("curses cur\n")
        assert len({*others, WordNet(changed).fingerprint}) == 4

    def test_windows_line_ends(self, tmp_path: Path, mini: WordNet) -> None:
        for path in build(tmp_path).iterdir():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        converted = WordNet(tmp_path)
        assert [converted.entry(word) for word in mini.lemmas()] == [mini.entry(word) for word in mini.lemmas()]
        assert converted.fingerprint == mini.fingerprint

    def test_without_irregular_forms(self, tmp_path: Path) -> None:
        (build(tmp_path) / "noun.exc").unlink()
        assert WordNet(tmp_path).entry("mice") is None
        assert definitions(WordNet(tmp_path), "boxes") == ["has a lid"]

    @pytest.mark.parametrize("name", ["data.noun", "index.verb", "data.adj", "index.adv", "index.sense"])
    @pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"This is a text.\nIt has lines.\n", b"{}"])
    def test_a_file_that_is_something_else(self, tmp_path: Path, name: str, content: bytes) -> None:
        (build(tmp_path) / name).write_bytes(content)
        with pytest.raises(GrocError, match=name):
            list(map(WordNet(tmp_path).entry, ["dog", "go", "good", "well"]))

    @pytest.mark.parametrize("name", ["data.noun", "index.noun"])
    def test_a_file_that_breaks_off_at_any_byte(self, tmp_path: Path, name: str) -> None:
        path = build(tmp_path) / name
        whole = path.read_bytes()
        for length in range(0, len(whole) - 1, 7):
            path.write_bytes(whole[:length])
            try:
                short = WordNet(tmp_path)
                known = [word for word in ("animal", "dog", "utopia") if short.entry(word)]
            except GrocError as problem:
                assert name in str(problem)  # noqa: PT017
            else:
                # Cut between two lines, an index is a whole index of fewer words.
                assert name == "index.noun"
                assert whole[length - 1 : length] == b"\n"
                assert known

    def test_a_line_with_a_wrong_offset(self, tmp_path: Path) -> None:
        path = build(tmp_path) / "data.noun"
        path.write_bytes(path.read_bytes().replace(b"has a lid", b"has a good lid"))
        with pytest.raises(GrocError, match=r"data\.noun"):
            WordNet(tmp_path).entry("utopia")

    @pytest.mark.parametrize(("old", "new"), [(b"~ ", b"~ 9"), (b" n 0000", b" x 0000"), (b"~i ", b"~i x")])
    def test_a_pointer_to_nowhere(self, tmp_path: Path, old: bytes, new: bytes) -> None:
        path = build(tmp_path) / "data.noun"
        before, line, after = path.read_bytes().partition(b"dog 0 domestic_dog")
        broken = after.replace(old, new)[: len(after) - 1] + b"\n"
        path.write_bytes(before + line + broken)
        with pytest.raises(GrocError, match=r"data\.noun"):
            WordNet(tmp_path).entry("dog")


class TestFindingWordNet:
    def test_a_path_comes_first(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GROC_WORDNET", str(build(tmp_path)))
        assert WordNet.find(str(folder)).folder == folder
        assert WordNet.find().folder == tmp_path

    def test_nltk_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GROC_WORDNET", raising=False)
        monkeypatch.setenv("NLTK_DATA", os.pathsep.join(("nowhere", str(tmp_path))))
        expected = build(tmp_path / "corpora" / "wordnet")
        assert WordNet.find().folder == expected

    def test_a_place_that_is_closed_to_the_user_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the home of another user."""
        stat = os.stat

        def closed(path: Any, **options: Any) -> os.stat_result:
            if str(path).startswith("/closed"):
                raise PermissionError(13, "Permission denied", str(path))
            return stat(path, **options)

        monkeypatch.delenv("GROC_WORDNET", raising=False)
        monkeypatch.setenv("NLTK_DATA", os.pathsep.join(("/closed", str(tmp_path))))
        monkeypatch.setattr(os, "stat", closed)
        expected = build(tmp_path / "corpora" / "wordnet")
        assert WordNet.find().folder == expected

    def test_a_named_folder_without_wordnet_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(GrocError, match=r"no file data\.noun"):
            WordNet.find(str(tmp_path))
        monkeypatch.setenv("GROC_WORDNET", str(tmp_path))
        with pytest.raises(GrocError, match="GROC_WORDNET"):
            WordNet.find()


class TestRealWordNet:
    def test_dog(self, real: WordNet) -> None:
        first, *_, last = senses(real, "dogs")
        assert first.synonyms == ("dog", "domestic_dog", "Canis_familiaris")
        assert (first.part_of_speech, last.part_of_speech) == ("n", "v")
        assert {"puppy", "poodle", "corgi"} <= set(first.hyponyms)
        assert first.count > 0

    def test_every_entry_can_be_read(self, real: WordNet) -> None:
        lemmas = list(real.lemmas())
        assert len(lemmas) > 140_000
        for lemma in lemmas[::50]:
            assert all(sense.synonyms and sense.part_of_speech in "nvar" for sense in senses(real, lemma))

    def test_examples(self, real: WordNet) -> None:
        examples = list(real.examples())
        assert len(examples) > 45_000
        assert all('"' not in example for example in examples)


words = st.text(min_size=1).filter(str.strip)
terms = st.dictionaries(words, st.tuples(st.text(), st.lists(words)), min_size=1)


class TestGlossary:
    @given(terms)
    def test_round_trip(
        self, tmp_path_factory: pytest.TempPathFactory, terms: Mapping[str, tuple[str, list[str]]]
    ) -> None:
        path = tmp_path_factory.mktemp("glossary") / "terms.jsonl"
        glossary = Glossary(terms)
        glossary.write(path)
        again = Glossary.read(path)
        assert list(again) == list(terms)
        assert len(again) == len(terms)
        assert again.fingerprint == glossary.fingerprint
        for word, (definition, related) in terms.items():
            assert again.entry(word) == Entry((Sense(definition, tuple(related)),))

    def test_exact_spelling_first_then_lower_case(self) -> None:
        glossary = Glossary({"US": ("a country", []), "us": ("we", []), "Ada": ("a name", [])})
        assert [definitions(glossary, word) for word in ("US", "us", "Us")] == [["a country"], ["we"], ["we"]]
        assert glossary.entry("ada") is None

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.jsonl", '{"word": "x", "definition": "a, b", "related": ["p", "q r"]}\n\n{"word": "y"}\n'),
            ("a.jsonl", '{"term": "x", "definition": "a, b", "related": ["p", "q r"]}\n{"term": "y"}\n'),
            ("a.tsv", "x\ta, b\tp; q r;\ny\n"),
            ("a.tsv", "\ufeffTerm\tDefinition\tRelated\r\nx\ta, b\tp;q r\r\n\r\ny\r\n"),
            ("a.csv", 'word,definition,related\nx,"a, b","p;q r"\ny,,\n'),
            ("a.csv", 'term,definition,related\nx,"a, b",p;q r\ny'),
        ],
    )
    def test_files(self, tmp_path: Path, name: str, text: str) -> None:
        path = tmp_path / name
        path.write_bytes(text.encode())
        glossary = Glossary.read(path)
        assert list(glossary) == ["x", "y"]
        assert glossary.entry("x") == Entry((Sense("a, b", ("p", "q r")),))
        assert glossary.entry("y") == Entry((Sense(""),))

    @pytest.mark.parametrize(
        ("name", "head"),
        [("a.tsv", "definition\tword"), ("a.csv", "related,Term,definition"), ("a.csv", "name,definition")],
    )
    def test_columns_in_another_order_are_refused(self, tmp_path: Path, name: str, head: str) -> None:
        (tmp_path / name).write_text(f"{head}\nx,y\n")
        with pytest.raises(GrocError, match=r"Line 1 .* in this order"):
            Glossary.read(tmp_path / name)

    @pytest.mark.parametrize("names", ["word", "word definition"])
    def test_a_cell_for_which_the_line_of_names_has_no_column_is_refused(self, tmp_path: Path, names: str) -> None:
        path = tmp_path / "a.tsv"
        path.write_text("\t".join(names.split()) + "\n\nv\nx\ta tube\tpipe\n")
        with pytest.raises(GrocError, match=f"has only {names.replace(' ', ', ')}\\.$") as error:
            Glossary.read(path)
        assert str(error.value).startswith(f"Line 4 of the glossary {path}")

    def test_columns_that_no_term_needs_may_be_missing(self, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_text("word\tdefinition\nx\ta tube\ny\ta pipe\t\n")
        glossary = Glossary.read(tmp_path / "a.tsv")
        assert glossary.terms == (("x", "a tube", ()), ("y", "a pipe", ()))

    def test_null_is_nothing_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"word": "x", "definition": null, "related": null}\n')
        assert Glossary.read(tmp_path / "a.jsonl").terms == (("x", "", ()),)

    def test_quotation_marks_in_tab_separated_text_are_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_text('x\t"y" is said\n')
        assert definitions(Glossary.read(tmp_path / "a.tsv"), "x") == ['"y" is said']

    @pytest.mark.parametrize(
        ("name", "line", "problem"),
        [
            ("a.jsonl", b"{", "not JSON"),
            ("a.jsonl", b"[" * 100_000, "not JSON"),
            ("a.jsonl", b"[1]", "not a JSON object"),
            ("a.jsonl", b'{"word": "x", "gloss": "y"}', "'gloss' is not a key"),
            ("a.jsonl", b'{"definition": "y"}', "it has no word"),
            ("a.jsonl", b'{"word": null, "definition": "y"}', "it has no word"),
            ("a.jsonl", b'{"word": 1}', "its word must be a string"),
            ("a.jsonl", b'{"word": "x", "definition": 1}', "its definition must be a string"),
            ("a.jsonl", b'{"word": "x", "related": "y"}', "list of strings"),
            ("a.jsonl", b'{"word": "x", "related": [null]}', "list of strings"),
            ("a.jsonl", b'{"word": "x", "related": [""]}', "related words is empty"),
            ("a.jsonl", b'{"word": " "}', "word is empty"),
            ("a.jsonl", b'{"word": "x", "definition": "y", "definition": "z"}', "'definition' stands there twice"),
            ("a.jsonl", b'{"word": "x", "word": "x"}', "'word' stands there twice"),
            ("a.jsonl", b'{"word": "first"}', "was there before, in line 1"),
            ("a.jsonl", b'{"word": "\\ud800"}', "half a character"),
            ("a.jsonl", b'{"word": "\xff"}', "not UTF-8"),
            ("a.tsv", b"x\ty\tz\tmore", "4 columns"),
            ("a.tsv", b"\tdefinition", "word is empty"),
            ("a.tsv", b"first\tagain", "was there before"),
            ("a.tsv", b"\xff", "not UTF-8"),
            ("a.csv", b'x,"open', "a quotation mark opens"),
            ("a.csv", b'x,"open\ny,z\nmore', "a quotation mark opens"),
            ("a.csv", b'x,"open\ny,z\nv,"a, b"\n', "a quotation mark opens"),  # closed where another one opens
            ("a.csv", b'x,"open\n' + b"a long text\n" * 20_000, "a quotation mark opens"),  # longer than a cell may be
            ("a.csv", b'x,"closed"y', "a quotation mark opens"),
            ("a.csv", b"x," + b"long" * 40_000, "more than 131,072 characters: a .jsonl file"),
            ("a.tsv", b"x\t" + b"long" * 40_000, "more than 131,072 characters: a .jsonl file"),
            ("a.csv", b"x,a\rb", "a carriage return stands alone"),
            ("a.csv", b"x\ty\tz", "name a file with tabs .tsv"),
            ("a.csv", b'"x\nof two lines",y,z,more', "4 columns"),
            ("a.csv", b"x;y;z", "commas .* or tabs"),
        ],
    )
    def test_an_error_names_file_and_line(self, tmp_path: Path, name: str, line: bytes, problem: str) -> None:
        path = tmp_path / name
        path.write_bytes((b'{"word": "first"}' if name == "a.jsonl" else b"first") + b"\n" + line)
        with pytest.raises(GrocError, match=problem) as error:
            Glossary.read(path)
        assert str(error.value).startswith(f"Line 2 of the glossary {path}")

    def test_an_open_quotation_is_named_by_its_line_not_by_that_of_its_row(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text('v,"closed,\n""twice""",w\n\nx,"closed\nthere","open\ny,z\n')
        with pytest.raises(GrocError, match=r"Line 5 .* a quotation mark opens"):
            Glossary.read(tmp_path / "a.csv")

    @given(
        st.lists(st.lists(st.text('a"\n,;', max_size=4), min_size=1, max_size=3), max_size=4),
        st.lists(st.text('a"\n,;', max_size=4), max_size=1),
    )
    def test_the_line_of_an_open_quotation_is_the_one_where_it_was_opened(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], before: list[str]
    ) -> None:
        text = io.StringIO()
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([[f"w{number}", *row[:2]] for number, row in enumerate(rows)])
        writer.writerow(["last", *before])
        good = text.getvalue().removesuffix("\n")
        path = tmp_path_factory.mktemp("glossary") / "a.csv"
        path.write_text(f'{good},"open\nmore\n')
        with pytest.raises(GrocError, match="a quotation mark opens") as error:
            Glossary.read(path)
        assert str(error.value).startswith(f"Line {good.count(chr(10)) + 1} of")

    @pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
    @pytest.mark.parametrize(
        "text",
        [
            "word;definition\nx;y\n",
            'Term;Definition;Related\nx;"a, b";"p;q"\n',
            "x;a, b;p\n",
            '"word";"definition"\n"x";"a, b"\n',
        ],
    )
    def test_semicolons_between_columns_are_refused(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(GrocError, match=r"Line 1 .*semicolon.*separated by commas \(\.csv\) or tabs \(\.tsv\)"):
            Glossary.read(tmp_path / name)

    def test_a_semicolon_at_the_edge_of_a_term_is_part_of_it(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(";),a smile\n&amp;,a sign\n;,a mark\n")
        assert list(Glossary.read(tmp_path / "a.csv")) == [";)", "&amp;", ";"]

    def test_columns_in_another_order(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("word,related,definition\nx,y,z\n")
        with pytest.raises(GrocError, match=r"Line 1 .* in this order"):
            Glossary.read(tmp_path / "a.csv")

    @pytest.mark.parametrize(
        ("name", "text"),
        [("a.jsonl", ""), ("a.jsonl", "\ufeff\n \n"), ("a.tsv", "word\tdefinition\n"), ("a.csv", "\n,,\n")],
    )
    def test_a_file_without_a_term_is_refused_with_a_line_that_would_do(
        self, tmp_path: Path, name: str, text: str
    ) -> None:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(GrocError, match="holds no term") as error:
            Glossary.read(path)
        path.write_text(str(error.value).partition("such as ")[2].replace("<TAB>", "\t"))
        assert Glossary.read(path).terms == (("stent", "a small tube", ("tube", "pipe")),)

    def test_files_that_cannot_be_read_or_written(self, tmp_path: Path) -> None:
        with pytest.raises(GrocError, match=r"missing\.jsonl"):
            Glossary.read(tmp_path / "missing.jsonl")
        with pytest.raises(GrocError, match=r"\.tsv or \.csv"):
            Glossary.read(tmp_path / "a.txt")
        with pytest.raises(GrocError, match=r"a\.jsonl"):
            Glossary({}).write(tmp_path / "a.tsv")

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.mkdir()
        with pytest.raises(GrocError):
            Glossary({"x": ("y", [])}).write(path)
        assert list(tmp_path.iterdir()) == [path]

    def test_terms_that_cannot_be_used(self) -> None:
        with pytest.raises(GrocError, match="' '"):
            Glossary({" ": ("y", [])})


class TestWrappers:
    glossary = Glossary({"dog": ("mine", ["hound"]), "newt": ("a pet", [])})

    def test_chain_asks_in_order(self, mini: WordNet) -> None:
        chain = Chain(Empty(), self.glossary, mini)
        assert chain.entry("dog") == self.glossary.entry("dog")
        assert chain.entry("cat") == mini.entry("cat")
        assert chain.entry("nothing") is None
        assert Chain().entry("dog") is None

    def test_without(self, mini: WordNet) -> None:
        whole, bare = mini.entry("dog"), Without(mini, relations=True, definitions=True).entry("dog")
        assert Without(mini).entry("dog") == whole
        assert bare == Entry((Sense("", (), (), "n", 42), Sense("", (), (), "n", 0), Sense("", (), (), "v", 2)))
        assert definitions(Without(mini, relations=True), "dog") == definitions(mini, "dog")
        without_definitions = senses(Without(mini, definitions=True), "dog")
        assert [sense.synonyms for sense in without_definitions] == [sense.synonyms for sense in senses(mini, "dog")]
        assert Without(mini, relations=True).entry("nothing") is None

    @given(st.text(), st.floats(0, 1), st.floats(0, 1), st.integers())
    def test_coverage_is_nested(self, word: str, share: float, other: float, seed: int) -> None:
        smaller, larger = sorted((share, other))
        everything = Glossary({word: ("y", [])}) if word.strip() else Empty()
        if Coverage(everything, smaller, seed).entry(word):
            assert Coverage(everything, larger, seed).entry(word)
        assert Coverage(everything, 1, seed).entry(word) == everything.entry(word)
        assert Coverage(everything, 0, seed).entry(word) is None

    def test_coverage_keeps_about_its_share_and_follows_its_seed(self) -> None:
        known = [f"word{number}" for number in range(5000)]
        glossary = Glossary({word: ("", []) for word in known})
        kept = {seed: {word for word in known if Coverage(glossary, 0.4, seed).entry(word)} for seed in (0, 1)}
        for seed in (0, 1):
            assert abs(len(kept[seed]) / len(known) - 0.4) < 0.03
        assert abs(len(kept[0] & kept[1]) / len(known) - 0.16) < 0.03

    def test_coverage_is_the_same_for_ever(self) -> None:
        coverage = Coverage(Empty(), 0.5, seed=1)
        assert [word for word in ("the", "quick", "brown", "fox", "über", "dog") if coverage.keeps(word)] == [
            "brown",
            "fox",
        ]

    @pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
    def test_bad_shares(self, share: float) -> None:
        with pytest.raises(GrocError, match="between 0 and 1"):
            Coverage(Empty(), share)

    def test_fingerprints_tell_lexicons_apart(self, mini: WordNet) -> None:
        different: list[Lexicon] = [
            Empty(),
            mini,
            self.glossary,
            Glossary({}),
            Chain(mini, self.glossary),
            Chain(self.glossary, mini),
            Chain(mini),
            Without(mini),
            Without(mini, relations=True),
            Without(mini, definitions=True),
            Coverage(mini, 0.5, 0),
            Coverage(mini, 0.5, 1),
            Coverage(mini, 0.6, 0),
            Coverage(self.glossary, 0.5, 0),
        ]
        assert len({lexicon.fingerprint for lexicon in different}) == len(different)
        assert Coverage(mini, 1).fingerprint == Coverage(mini, 1.0).fingerprint


class TestShow:
    def test_for_a_person(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        show("dogs", str(folder), "paper", as_json=False)
        printed = capsys.readouterr().out
        assert printed.startswith(
            "dogs: 3 senses\n  1. (noun, seen 42 times) barks\n     words     dog, domestic dog\n"
        )
        assert "narrower  puppy, pup, cur, Rex\n" in printed
        assert printed.endswith("relations   cad dog domestic_dog\n    definition  barks\n")

    def test_as_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Glossary({"newt": ("a small pet", ["eft"])}).write(tmp_path / "own.jsonl")
        show("Newt", str(tmp_path / "own.jsonl"), "default", as_json=True)
        record = json.loads(capsys.readouterr().out)
        assert record["senses"][0]["definition"] == "a small pet"
        assert record["relations"] == ["eft"]
        assert record["definition"] == ["a", "small", "pet"]

    def test_unknown_words_and_rules(self, folder: Path) -> None:
        with pytest.raises(GrocError, match="no entry for 'nothing'"):
            show("nothing", str(folder), "paper", as_json=False)
        with pytest.raises(GrocError, match="'odd'"):
            show("dog", str(folder), "odd", as_json=False)


class TestWhatAModelCannotBeTaught:
    @pytest.mark.parametrize(
        "entry", ["text", ("text", "word"), ("text", None), ("text", [5]), (None, []), 5, ("text",)]
    )
    def test_what_is_no_definition_with_related_words(self, entry: Any) -> None:
        with pytest.raises(GrocError, match="give a definition and a list"):
            Glossary({"x": entry})

    @pytest.mark.parametrize("word", ["<eos>", "<UNK>", "a\x1b[31m", "nul\0", "\u200b", "soft \xad", "x" * 10_001])
    def test_what_is_no_word_of_a_text(self, word: str) -> None:
        with pytest.raises(GrocError, match="cannot be taught"):
            Glossary({word: ("text", [])}).as_words(lower=True)
