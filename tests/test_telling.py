"""Less is told of new words, and nothing else of a model changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import NEW_WORDS, as_pairs, tiny_model, tiny_settings

from groc.adaptation.telling import PARTS, telling_less
from groc.cli import main
from groc.errors import GrocError
from groc.lexicon import Empty, Glossary, Without
from groc.rules import Selected
from groc.vocabulary import Vocabulary


@pytest.mark.parametrize("without", [["relations"], ["definitions"], ["relations", "definitions"]])
def test_new_words_are_as_in_a_model_with_less_and_old_ones_as_they_were(
    without: list[str], vocabulary: Vocabulary, glossary: Glossary
) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    lexicon = Without(glossary, relations="relations" in without, definitions="definitions" in without)
    naive = tiny_model("groc", "ngrams", vocabulary, lexicon)
    union = vocabulary.union(NEW_WORDS)
    less = telling_less(model, without)
    for one in (model, naive, less):
        one.set_vocabulary(union)
    old, new = (
        torch.tensor([i for i, word in enumerate(union) if (word in vocabulary) == seen]) for seen in (True, False)
    )
    torch.testing.assert_close(less.embeddings.output_rows(old), model.embeddings.output_rows(old))
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in naive.named_parameters():
            parameter.copy_(weights[name])
    torch.testing.assert_close(less.embeddings.output_rows(new), naive.embeddings.output_rows(new))
    assert not torch.allclose(less.embeddings.output_rows(new), model.embeddings.output_rows(new))
    assert less.compiler.lexicon.fingerprint != model.compiler.lexicon.fingerprint


@torch.no_grad()
def test_a_word_that_was_there_before_is_new_again(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    model.add_words(["zebra"])
    model.embeddings  # noqa: B018
    before, fresh = (telling_less(one, PARTS) for one in (model, tiny_model("groc", "ngrams", vocabulary, glossary)))
    for one in (before, fresh):
        one.add_words(["zebra"])
    ids = torch.arange(len(before.vocabulary))
    torch.testing.assert_close(before.embeddings.output_rows(ids), fresh.embeddings.output_rows(ids))


def test_what_was_taught_stays_taught(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    model.add_words(Glossary({"blorp": ("a small dog", ["dog"])}))
    model.tell_of_new_words(Empty())
    assert model.teller.select("blorp").relations == ("dog",)
    model.remove_words(["blorp"])
    assert not model.in_lexicon("blorp")


def test_less_is_told_of_what_was_taught_too(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary)
    model.add_words(Glossary({"sea dog": ("an old sailor", ["sailor"]), "dog": ("a machine", ["robot"])}))
    less = telling_less(model, ["relations"])
    assert less.teller.select("sea_dog") == Selected((), ("an", "old", "sailor"))
    assert less.teller.select("dog") == model.teller.select("dog")
    assert less.taught.spelt("sea dog") == "sea_dog"
    less.add_words(["sea dog"])
    less.remove_words(["sea dog"])
    assert not less.in_lexicon("sea_dog"), "it is forgotten with the word"
    assert model.in_lexicon("sea_dog")


def test_what_makes_no_sense_is_refused(vocabulary: Vocabulary, glossary: Glossary) -> None:
    with pytest.raises(GrocError, match="closed model"):
        telling_less(tiny_model("tied", "ngrams", vocabulary, glossary), ["relations"])
    with pytest.raises(GrocError, match="'letters'"):
        telling_less(tiny_model("groc", "ngrams", vocabulary, glossary), ["letters"])


@pytest.fixture(scope="module")
def run(corpus_folder: Path, glossary_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "groc"
    settings = as_pairs({**tiny_settings(), "forms.lexicon": str(glossary_file), "training.epochs": 1})
    assert main(["train", "tiny", "--corpus", str(corpus_folder), "--out", str(out), *settings]) == 0
    return out


class TestEval:
    def evaluate(self, run: Path, corpus: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["eval", str(run), str(corpus), "--json", *options]) == 0
        figures: dict[str, Any] = json.loads(capsys.readouterr().out)
        return figures

    def test_each_row_has_a_place_of_its_own_in_the_record(
        self, run: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = {
            "": [],
            ", memory": ["--memory"],
            ", without relations": ["--without", "relations", "--without", "relations"],
            ", without both": ["--without", "definitions", "--without", "relations"],
            ", first 30 tokens": ["--first", "30"],
        }
        found = {
            name: self.evaluate(run, corpus_folder, capsys, "--record", *some)["perplexity"]
            for name, some in options.items()
        }
        evaluations = json.loads((run / "result.json").read_text())["evaluations"]
        names = {f"{corpus_folder.name}/test, union vocabulary{name}": figure for name, figure in found.items()}
        assert {name: figures["perplexity"] for name, figures in evaluations.items()} == pytest.approx(names)
        assert len(set(found.values())) == len(found)

    def test_the_first_tokens_are_scored_as_in_the_whole(
        self, run: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        lines = (corpus_folder / "test.txt").read_text().splitlines(keepends=True)
        first = lines[:6]
        tokens = sum(len(line.split()) + 1 for line in first)
        (tmp_path / "first.txt").write_text("".join(first))
        words = {word for line in lines for word in line.split()}
        train = {word for line in (corpus_folder / "train.txt").read_text().splitlines() for word in line.split()}
        (tmp_path / "words.txt").write_text("\n".join(sorted(words | train)))
        naive = self.evaluate(run, tmp_path / "first.txt", capsys, "--vocabulary", str(tmp_path / "words.txt"))
        found = self.evaluate(run, corpus_folder, capsys, "--first", str(tokens))
        assert found["tokens"] == naive["tokens"] == tokens
        assert found["vocabulary"] == naive["vocabulary"]
        for key in ("perplexity", "oov_share", "read_as_unk"):
            assert found[key] == pytest.approx(naive[key], rel=1e-4)
        assert found["first"] == tokens
        assert self.evaluate(run, corpus_folder, capsys, "--first", "999999")["first"] is None

    def test_people_are_told_of_both(self, run: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["eval", str(run), str(corpus_folder), "--first", "30", "--without", "relations"]) == 0
        head = capsys.readouterr().out.splitlines()[0]
        assert head.endswith("test.txt, first 30 tokens, with new words known without relations")

    def test_no_tokens_are_no_text(self, run: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["eval", str(run), str(corpus_folder), "--first", "0"]) == 1
        assert "1 or more" in capsys.readouterr().err
