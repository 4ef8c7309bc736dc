"""What a model makes of a word: each form's contribution is what is lost when it is taken from the word's entry."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import NEW_WORDS, SURFACES, TERMS, TRAIN_WORDS, tiny_config, tiny_model

from groc import checkpoint
from groc.cli import main
from groc.commands.explain import _table
from groc.errors import GrocError
from groc.explain import Part, explain
from groc.lexicon import Empty, Glossary
from groc.model import LanguageModel
from groc.scoring import score
from groc.suggest import nearest
from groc.vocabulary import END, Vocabulary

ENTRIES = {
    **TERMS,
    "echo": ("a dog and a dog and a dog", ("boat", "ship", "sea", "run", "day")),  # words that come again, and too many
    "lone": ("", ("dog",)),
    "plain": ("a boat", ()),
}
WORDS = ["zebra", "sleep", "echo", "lone", "plain"]
CONTEXT = "the old dog and"


@pytest.fixture(scope="module")
def model(vocabulary: Vocabulary) -> LanguageModel:
    return tiny_model("groc", "cnn", vocabulary, Glossary(ENTRIES))


@pytest.fixture(scope="module")
def closed(vocabulary: Vocabulary) -> LanguageModel:
    return tiny_model("tied", "ngrams", vocabulary, Empty())


# --- leave one out ----------------------------------------------------------------------------------------------------


def without(forms: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is left out of a list of words, and what stays: first all of them, then each."""
    if len(forms) > 1:
        yield " ".join(forms), ()
    for i, form in enumerate(forms):
        yield form, forms[:i] + forms[i + 1 :]


def twin_parts(model: LanguageModel, word: str, relations: tuple[str, ...], definition: tuple[str, ...]) -> list[Part]:
    """By a copy of the model for each form, that is taught an entry without it."""

    def taught(relations: tuple[str, ...], definition: tuple[str, ...]) -> tuple[torch.Tensor, float]:
        twin = model.copy()
        twin.add_words(Glossary({word: (" ".join(definition), relations)}))
        index = twin.vocabulary.index
        with torch.no_grad():
            vector = twin.embed().output[index[word]]
        ids = [index[each] for each in (*CONTEXT.split(), word)]
        return vector, float(score(twin, ids).surprisal[-1])

    def part(form: str, gone: str, variant: tuple[torch.Tensor, float]) -> Part:
        cosine = float(torch.cosine_similarity(whole[0], variant[0], dim=0))
        return Part(form, gone, 1 - cosine, variant[1] - whole[1])

    whole = taught(relations, definition)
    return [
        *(part("relation", gone, taught(rest, definition)) for gone, rest in without(relations)),
        *(part("definition", gone, taught(relations, rest)) for gone, rest in without(definition)),
    ]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("rules", ["default", "paper"])
@pytest.mark.parametrize("surface", SURFACES)
def test_parts_are_those_of_a_model_that_is_taught_an_entry_without_them(
    vocabulary: Vocabulary, surface: str, rules: str, word: str
) -> None:
    by_default = rules == "default"
    changes = {
        "forms.rules": rules, "output.count_bias": True, "surface.familiar": by_default, "forms.centred": by_default
    }  # fmt: skip
    model = tiny_model("groc", surface, vocabulary, Glossary(ENTRIES), changes)
    explanation = explain(model, word, context=CONTEXT)
    characters, *parts = explanation.parts
    expected = twin_parts(model, word, explanation.relations, explanation.definition)
    assert [(part.form, part.word) for part in parts] == [(part.form, part.word) for part in expected]
    assert [part.change for part in parts] == pytest.approx([part.change for part in expected], abs=1e-5)
    assert [part.bits for part in parts] == pytest.approx([part.bits for part in expected], abs=1e-4)
    assert any(part.change > 1e-4 for part in parts) or not parts
    assert (characters.form, characters.word) == ("surface", word)


def test_the_surface_is_left_out_by_a_vector_of_zeros(model: LanguageModel) -> None:
    """As relations and definitions are where there are none."""
    twin = model.copy()
    twin.add_words(["zebra"])

    def silence(_: Any, inputs: Any, parts: list[torch.Tensor]) -> list[torch.Tensor]:  # noqa: ARG001
        return [torch.zeros_like(parts[0]), *parts[1:]]

    at = twin.vocabulary.index["zebra"]
    with torch.no_grad():
        whole = twin.embed()
        hook = model.input.forms_dropout.register_forward_hook(silence)  # type: ignore[union-attr, operator]
        silent = twin.embed()
        hook.remove()
    part = explain(model, "zebra", context="the").parts[0]
    cosine = torch.cosine_similarity(whole.output[at], silent.output[at], dim=0)
    assert part.change == pytest.approx(1 - float(cosine), abs=1e-5)
    whole.output[at], whole.bias[at] = silent.output[at], silent.bias[at]
    ids = torch.tensor([[twin.vocabulary.index[word]] for word in (END, "the")])
    with torch.no_grad():
        prefixes, _ = twin.read(whole, ids, twin.prefix.start(1))
        without = -float(twin.log_probs(whole, prefixes.dropped[-1])[0, at]) / math.log(2)
    surprisal = explain(model, "zebra", context="the").surprisal
    assert surprisal is not None
    assert part.bits == pytest.approx(without - surprisal, abs=1e-4)


def test_forms_are_those_that_the_model_reads(model: LanguageModel) -> None:
    explanation = explain(model, "echo")
    assert explanation.relations == ("boat", "ship", "sea")
    assert explanation.definition == tuple("a dog and a dog and a dog".split())
    assert len(explain(model, "sleep").definition) == model.compiler.max_definition


def test_a_word_without_an_entry_is_its_characters(model: LanguageModel) -> None:
    for word in ("東京", "the", "\N{PILE OF POO}", "x" * 5000):
        explanation = explain(model, word, context="")
        assert [part.form for part in explanation.parts] == ["surface"]
        assert explanation.relations == explanation.definition == ()
        assert math.isfinite(explanation.parts[0].change)


def test_what_was_taught_is_what_counts(model: LanguageModel) -> None:
    taught = model.copy()
    taught.add_words(Glossary({"zebra": ("an old ship", ["boat"]), "red sea": ("", ["sea"])}))
    assert explain(taught, "zebra").definition == ("an", "old", "ship")
    assert explain(taught, "red_sea").relations == ("sea",)
    assert explain(model, "zebra").relations == ("horse", "animal")


# --- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["dog", "zebra"])
@pytest.mark.parametrize("context", ["", CONTEXT, "a zebra\n"])
def test_probability_and_rank_are_those_of_the_scores(model: LanguageModel, word: str, context: str) -> None:
    twin = model.copy()
    twin.add_words([word, *context.split()])
    before = context.replace("\n", f" {END}").split()
    others = {
        other: float(score(twin, [twin.vocabulary.index[each] for each in (*before, other)]).surprisal[-1])
        for other in twin.vocabulary
    }
    explanation = explain(model, word, context=context)
    assert explanation.surprisal == pytest.approx(others[word], abs=1e-4)
    assert explanation.probability == pytest.approx(2 ** -others[word], rel=1e-4)
    assert explanation.rank == 1 + sum(bits < others[word] - 1e-6 for bits in others.values())


def test_without_a_context_there_is_no_probability(model: LanguageModel) -> None:
    explanation = explain(model, "dog")
    assert explanation.probability is explanation.surprisal is explanation.rank is explanation.context is None
    assert all(part.bits is None for part in explanation.parts)
    in_context = explain(model, "dog", context="the")
    assert [(part.form, part.word, part.change) for part in explanation.parts] == [
        (part.form, part.word, part.change) for part in in_context.parts
    ]


def test_nearest_words_are_those_of_suggestions(model: LanguageModel) -> None:
    for limit in (0, 3, 1000):
        assert explain(model, "dog", limit=limit).nearest == nearest(model, ["dog"], limit)[0]
    assert explain(model, "dog").seen
    assert not explain(model, "zebra").seen
    assert len(explain(model, "zebra", limit=1000).nearest) == len(set(TRAIN_WORDS)) - 1  # less <unk>


def test_the_model_stays_as_it_was(model: LanguageModel) -> None:
    vocabulary = model.vocabulary
    for word in NEW_WORDS:
        explain(model, word, context=" ".join(NEW_WORDS))
    assert model.vocabulary is vocabulary


def test_a_closed_model_has_rows_and_no_forms(closed: LanguageModel) -> None:
    closed = closed.copy()
    closed.add_words(Glossary({"zebra": ("a striped animal", [])}))
    known, new = (explain(closed, word, context="the") for word in ("dog", "zebra"))
    assert known.parts == new.parts == []
    assert known.relations == known.definition == new.definition == ()
    assert known.nearest == nearest(closed, ["dog"], 10)[0]
    assert new.nearest == []  # it has no vector of its own
    assert known.probability is not None
    assert new.probability is not None
    assert known.probability > new.probability > 0


def test_a_vector_that_came_with_the_model_is_not_taken_apart_without_its_entry(vocabulary: Vocabulary) -> None:
    full, bare = (tiny_model("groc", "ngrams", vocabulary, lexicon) for lexicon in (Glossary(TERMS), Empty()))
    with torch.no_grad():
        bare.keep(full.embed().input, [full.in_lexicon(word) for word in vocabulary])
    assert explain(bare, "dog").parts == []
    assert explain(bare, "dog").nearest == explain(full, "dog").nearest
    assert [part.form for part in explain(bare, "the").parts] == ["surface"]  # no entry went into it
    assert [part.form for part in explain(bare, "zebra").parts] == ["surface"]  # composed here


@pytest.mark.parametrize("word", ["", " ", "hot dog", "dog\n", "\tdog"])
def test_what_is_not_one_word_is_refused(model: LanguageModel, closed: LanguageModel, word: str) -> None:
    for each in (model, closed):
        with pytest.raises(GrocError, match="not one word"):
            explain(each, word)


def test_a_negative_limit_is_refused(model: LanguageModel) -> None:
    with pytest.raises(GrocError, match="0 or more"):
        explain(model, "dog", limit=-1)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(model: LanguageModel, closed: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    checkpoint.save(folder / "groc", model, tiny_config("groc", "cnn"))
    checkpoint.save(folder / "tied", closed, tiny_config("tied"))
    return {name: folder / name for name in ("groc", "tied")}


def test_command_gives_the_same_to_a_program(
    runs: dict[str, Path], model: LanguageModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(runs["groc"]), "sleep", "--context", "the", "--limit", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = json.loads(json.dumps(asdict(explain(model, "sleep", context="the", limit=2))))
    parts, expected_parts = printed.pop("parts"), expected.pop("parts")
    assert [word for word, _ in printed.pop("nearest")] == [word for word, _ in expected.pop("nearest")]
    assert printed == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in expected.items()
    }
    assert [(part["form"], part["word"]) for part in parts] == [(part["form"], part["word"]) for part in expected_parts]
    assert [part["bits"] for part in parts] == pytest.approx([part["bits"] for part in expected_parts], abs=1e-5)


def test_command_tells_a_person(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("zebra\ta striped horse\thorse;animal\n")
    assert main(["explain", str(runs["groc"]), "zebra", "--glossary", str(terms), "--context", "the old"]) == 0
    said = capsys.readouterr().out
    for expected in (
        "never seen",
        "a striped horse",
        "Behind 'the old'",
        "all relations",
        "definition striped",
        "bits",
    ):
        assert expected in said
    assert main(["explain", str(runs["groc"]), "東京"]) == 0
    assert "(none)" in capsys.readouterr().out
    assert main(["explain", str(runs["tied"]), "dog", "--context", ""]) == 0
    said = capsys.readouterr().out
    assert "The model is closed" in said
    assert "At the start of a text" in said
    assert main(["explain", str(runs["tied"]), "hot dog"]) == 1
    assert "not one word" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "note"), [("zeb's", "In a text it is read as: zeb 's."), ("cafe\u0301", "as: caf\xe9."), ("zebra", "")]
)
def test_command_says_where_a_text_has_a_word_otherwise(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str], word: str, note: str
) -> None:
    assert main(["explain", str(runs["groc"]), word]) == 0
    out = capsys.readouterr().out
    assert note in out
    assert ("In a text" in out) == bool(note)


def test_command_tells_how_rare_a_rare_word_is(
    vocabulary: Vocabulary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"model.start": 20.0}  # large vectors: some words are very rare
    model = tiny_model("groc", "ngrams", vocabulary, Empty(), changes)
    checkpoint.save(tmp_path / "run", model, tiny_config(changes=changes))
    *_, rarest = model.next("the old", limit=len(vocabulary))
    arguments = ["explain", str(tmp_path / "run"), rarest.word, "--context", "the old"]
    assert main([*arguments, "--json"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    assert 0 < wanted["probability"] < 5e-5  # it would be 0.00%
    assert main(arguments) == 0
    [(share, bits)] = re.findall(r"probability ([\d.e-]+)%, ([\d.]+) bits", capsys.readouterr().out)
    assert float(share) / 100 == pytest.approx(wanted["probability"], rel=0.06, abs=0)
    assert float(bits) == pytest.approx(wanted["surprisal"], abs=0.005)


def test_bars_are_empty_where_nothing_changes() -> None:
    parts = [Part("surface", "zxq", -1e-8, None), Part("definition", "a thing", 0.0, None)]
    table = _table(parts)
    assert "█" not in table
    assert "-0.000" not in table
    assert "█" in _table([*parts, Part("relation", "thing", 0.2, None)])
