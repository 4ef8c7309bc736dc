"""Next words: their probabilities, the words they are like, and how a text before them is read."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch
from conftest import NEW_WORDS, TRAIN_WORDS, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from groc import checkpoint
from groc.cli import main
from groc.commands.columns import bar, columns, percentage, width
from groc.context import read_context
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import UNROLL
from groc.suggest import nearest, next_words
from groc.vocabulary import END, UNKNOWN, Vocabulary

WORDS = st.sampled_from([*TRAIN_WORDS, *NEW_WORDS, END])
TEXTS = st.lists(st.sampled_from([*TRAIN_WORDS, *NEW_WORDS, "\n"])).map(" ".join)


@pytest.fixture(scope="module")
def models(vocabulary: Vocabulary, glossary: Glossary) -> dict[str, LanguageModel]:
    """An open and a closed one, with a word in their lists that training never had."""
    models = {kind: tiny_model(kind, "ngrams", vocabulary, glossary) for kind in ("groc", "tied")}
    for model in models.values():
        model.add_words(["zebra"])
    return models


@pytest.fixture(params=["groc", "tied"])
def model(request: pytest.FixtureRequest, models: dict[str, LanguageModel]) -> LanguageModel:
    return models[request.param]


@torch.no_grad()
def naive(model: LanguageModel, read: list[str], more: list[str]) -> dict[str, float]:
    """Probabilities behind words that are read one at a time, over a list that all of them have joined."""
    model = model.copy()
    model.set_vocabulary(model.vocabulary.union([*read, *more]))
    embeddings, state = model.embed(), model.prefix.start(1)
    for word in (END, *read):
        prefixes, state = model.read(embeddings, torch.tensor([[model.vocabulary.index[word]]]), state)
    probabilities = model.log_probs(embeddings, prefixes.dropped[-1])[0].exp()
    return dict(zip(model.vocabulary, probabilities.tolist(), strict=True))


# --- probabilities ----------------------------------------------------------------------------------------------------


@given(text=TEXTS, words=st.lists(WORDS, min_size=1, max_size=8))
def test_over_a_list_probabilities_are_the_models_and_sum_to_one(
    models: dict[str, LanguageModel], text: str, words: list[str]
) -> None:
    lines = [line.split() for line in text.split("\n") if line.strip()]
    read = [word for line in lines for word in (*line, END)]
    if lines and text.rstrip(" ")[-1] != "\n":
        read.pop()
    for model in models.values():
        suggestions = next_words(model, text, len(words), words=words, tokenised=True)
        expected = naive(model, read, words)
        total = sum(expected[word] for word in set(words))
        assert {one.word: one.probability for one in suggestions} == pytest.approx(
            {word: expected[word] / total for word in words}, rel=1e-4
        )
        assert sum(one.probability for one in suggestions) == pytest.approx(1)


def test_a_model_without_unk_suggests_none() -> None:
    with pytest.raises(GrocError, match="has no <unk>"):
        next_words(checkpoint.load().model, unknown=True)


@given(text=TEXTS, limit=st.integers(1, 60), unknown=st.booleans())
def test_over_all_words_they_are_the_models_own_and_unk_comes_only_if_asked_for(
    models: dict[str, LanguageModel], text: str, limit: int, unknown: bool
) -> None:
    for model in models.values():
        suggestions = next_words(model, text + "\nthe old", limit, unknown=unknown, tokenised=True)
        expected = naive(model, [word for line in text.split("\n") if line.strip() for word in (*line.split(), END)]
                         + ["the", "old"], [])  # fmt: skip
        if not unknown:
            del expected[UNKNOWN]
        best = sorted(expected.values(), reverse=True)[:limit]
        assert [one.probability for one in suggestions] == pytest.approx(best, rel=1e-4)
        assert {one.word: one.probability for one in suggestions} == pytest.approx(
            {one.word: expected[one.word] for one in suggestions}, rel=1e-4
        )
        assert len({one.word for one in suggestions}) == min(limit, len(expected))


def test_each_suggestion_says_what_it_is(model: LanguageModel) -> None:
    suggestions = next_words(model, "the", 100, reasons=2)
    assert len(suggestions) == len(model.vocabulary) - 1
    for one in suggestions:
        assert 2**-one.surprisal == pytest.approx(one.probability)
        assert one.seen == (one.word != "zebra")
        if model.is_open or one.seen:
            assert one.nearest == tuple(word for word, _ in nearest(model, [one.word], 2)[0])
        else:
            assert one.nearest == ()  # it has no vector of its own


def test_unk_can_be_named_among_the_words(model: LanguageModel) -> None:
    assert {one.word for one in next_words(model, "", words=[UNKNOWN, "dog"])} == {UNKNOWN, "dog"}


def test_the_model_stays_as_it_was(model: LanguageModel) -> None:
    vocabulary, before = model.vocabulary, next_words(model, "the dog", 5)
    next_words(model, "e-mail from 東京", words=["ocean", "hound"])
    assert model.vocabulary is vocabulary
    assert next_words(model, "the dog", 5) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "1 or more"),
        ({"limit": -3}, "1 or more"),
        ({"reasons": -1}, "0 or more"),
        ({"words": []}, "is empty"),
        ({"words": "dog"}, r"write \['dog'\]"),
        ({"words": [""]}, "cannot be a word"),
        ({"words": ["hot dog"]}, "cannot be a word"),
    ],
)
def test_what_makes_no_sense_is_refused(model: LanguageModel, options: dict[str, object], message: str) -> None:
    with pytest.raises(GrocError, match=message):
        next_words(model, "the", **options)  # type: ignore[arg-type]


# --- the nearest words ------------------------------------------------------------------------------------------------


def test_nearest_are_the_trained_words_in_order_of_their_cosine(model: LanguageModel) -> None:
    with torch.no_grad():
        vectors = dict(zip(model.vocabulary, model.embed().output, strict=True))
    words = [*model.trained, "zebra"]
    for word, found in zip(words, nearest(model, words, 1000), strict=True):
        expected = {
            other: float(torch.cosine_similarity(vectors[word], vectors[other], dim=0))
            for other in set(TRAIN_WORDS) - {word, UNKNOWN}
        }
        assert dict(found) == pytest.approx(expected, abs=1e-5)
        cosines = [cosine for _, cosine in found]
        assert cosines == sorted(cosines, reverse=True)
    assert [len(row) for row in nearest(model, ["dog", "zebra"], 3)] == [3, 3]
    assert nearest(model, ["dog"], 0) == [[]]
    assert nearest(model, [], 3) == []


def test_a_certain_word_has_no_bits(model: LanguageModel) -> None:
    (only,) = next_words(model, "", words=["dog"])
    assert str(only.surprisal) == "0.0"  # -0.0 is equal, and looks wrong


def test_nearest_come_from_the_words_that_are_both_trained_and_listed(models: dict[str, LanguageModel]) -> None:
    for model in models.values():
        other = model.copy()
        other.set_vocabulary(Vocabulary(["sea", "zebra", END, "dog", "ocean"]))
        assert {word for word, _ in nearest(other, ["ocean"], 9)[0]} == {"sea", "dog"}
        assert [word for word, _ in nearest(other, ["dog"], 9)[0]] == ["sea"]


# --- how the text before is read --------------------------------------------------------------------------------------


def read(model: LanguageModel, text: str, tokenised: bool = False) -> list[float]:
    log_probs: list[float] = read_context(model, text, tokenised=tokenised).log_probs().tolist()
    return log_probs


def test_a_text_goes_on_in_its_last_line_unless_that_has_ended(model: LanguageModel) -> None:
    assert read(model, "the dog") == read(model, "\n the  dog \t")
    assert read(model, "the dog\n") == read(model, "the dog \n\n  ")
    assert read(model, "the dog") != read(model, "the dog\n")
    assert read(model, "the dog\nthe") == read(model, "the dog\n\nthe")
    assert read(model, "") == read(model, " \n ")


def test_raw_text_is_split_and_tokenised_text_is_not(model: LanguageModel) -> None:
    assert read(model, "the dog, not it") == read(model, "the dog , not it", tokenised=True)
    assert read(model, "the dog, not it") != read(model, "the dog, not it", tokenised=True)


def test_a_long_text_is_the_sum_of_its_pieces(model: LanguageModel) -> None:
    text = " ".join(TRAIN_WORDS * (2 * UNROLL // len(TRAIN_WORDS)))
    assert len(text.split()) > UNROLL + 1
    expected = naive(model, text.split(), [])
    assert [math.exp(value) for value in read(model, text, tokenised=True)] == pytest.approx(
        list(expected.values()), rel=1e-4
    )


def test_a_model_of_lower_cased_text_reads_and_chooses_so(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("groc", "ngrams", vocabulary, glossary, {"forms.lower": True})
    assert read(model, "The DOG") == read(model, "the dog")
    assert [one.word for one in next_words(model, "", words=["Zebra", "zebra"])] == ["zebra"]


def test_a_term_of_several_words_is_read_as_one(models: dict[str, LanguageModel]) -> None:
    model = models["groc"].copy()
    model.add_words(Glossary({"red sea": ("a sea between two lands", ["sea"])}))
    assert read(model, "on the red sea") == read(model, "on the red_sea")
    assert "red_sea" in {one.word for one in next_words(model, "the", 100)}


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(models: dict[str, LanguageModel], glossary_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    checkpoint.save(folder, models["groc"], tiny_config(changes={"forms.lexicon": str(glossary_file)}))
    return folder


def test_command_gives_the_same_to_a_program(
    run: Path, models: dict[str, LanguageModel], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("ocean\ndog\n東京\n", encoding="utf-8")
    assert main(["next", str(run), "the old", "--words", str(words), "--limit", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["suggestions"]
    expected = next_words(models["groc"], "the old", 2, words=["ocean", "dog", "東京"])
    assert [(one["word"], one["seen"], tuple(one["nearest"])) for one in printed] == [
        (one.word, one.seen, one.nearest) for one in expected
    ]
    assert [one["probability"] for one in printed] == pytest.approx([one.probability for one in expected])


def test_command_shows_a_person_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(run), "", "--limit", "100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(TRAIN_WORDS) | {END}) - 1
    assert "████" in lines[0]
    assert all("% " in line and " bits " in line and " like " in line for line in lines)


def test_columns_are_aligned_for_wide_characters_too() -> None:
    lines = columns([["東京", "1", "x"], ["dog", "100", "y"], ["e\u0301", "", "z"]], right=[1]).splitlines()
    assert lines == ["東京    1  x", "dog   100  y", "e\u0301          z"]
    assert len({width(line) for line in lines}) == 1


@given(share=st.floats(0, 1), longest=st.integers(1, 50))
def test_bars_are_as_long_as_their_share(share: float, longest: int) -> None:
    assert len(bar(share, longest)) == pytest.approx(share * longest, abs=1)
    assert bar(0, longest) == ""
    assert bar(1, longest) == "█" * longest


@given(st.floats(0, 1, allow_subnormal=False) | st.floats(-300, 0).map(lambda power: 10**power))
def test_percentages_say_something_however_small_they_are(share: float) -> None:
    shown = percentage(share)
    assert float(shown.removesuffix("%")) == pytest.approx(100 * share, rel=0.06, abs=0)
    assert shown.endswith("%")


def test_a_person_sees_the_probabilities_that_a_program_gets(
    vocabulary: Vocabulary, glossary: Glossary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"model.start": 20.0}  # large vectors: some words are very rare
    model = tiny_model("groc", "ngrams", vocabulary, glossary, changes)
    checkpoint.save(tmp_path / "run", model, tiny_config(changes=changes))
    arguments = ["next", str(tmp_path / "run"), "the", "--limit", "100"]
    assert main([*arguments, "--json"]) == 0
    wanted = [one["probability"] for one in json.loads(capsys.readouterr().out)["suggestions"]]
    assert min(wanted) < 5e-5  # it would be 0.00%
    assert main(arguments) == 0
    found = re.findall(r" ([\d.e-]+)% ", capsys.readouterr().out)
    assert [float(share) / 100 for share in found] == pytest.approx(wanted, rel=0.06, abs=0)
