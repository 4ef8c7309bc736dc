"""Generated text: what is drawn, from which words, and how it is written."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from groc import checkpoint
from groc.cli import main
from groc.commands.generate import print_lines
from groc.context import read_context
from groc.errors import GrocError
from groc.generate import choices, detokenise, generate
from groc.lexicon import Glossary
from groc.model import LanguageModel
from groc.scoring import score
from groc.vocabulary import END, UNKNOWN, Vocabulary


@pytest.fixture(scope="module")
def models(vocabulary: Vocabulary, glossary: Glossary) -> dict[str, LanguageModel]:
    return {kind: tiny_model(kind, "ngrams", vocabulary, glossary) for kind in ("groc", "tied")}


@pytest.fixture(params=["groc", "tied"])
def model(request: pytest.FixtureRequest, models: dict[str, LanguageModel]) -> LanguageModel:
    return models[request.param]


def drawn(model: LanguageModel, text: str = "", **options: Any) -> list[str]:
    return [one.word for one in generate(model, text, **options)]


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_words_whatever_else_is_random(model: LanguageModel) -> None:
    first = drawn(model, "the dog", seed=1)
    torch.manual_seed(5)
    random.seed(5)
    assert drawn(model, "the dog", seed=1) == first
    assert len(first) == 50
    assert drawn(model, "the dog", seed=2) != first
    assert drawn(model, "the dog") != drawn(model, "the dog")


def test_probabilities_are_the_models_own_whatever_is_drawn_from(model: LanguageModel) -> None:
    """They are those with which the text is scored."""
    generated = list(generate(model, "the dog", length=20, seed=1, temperature=3.0, top_k=9, top_p=0.9))
    index = model.vocabulary.index
    ids = [index[word] for word in ("the", "dog", *(one.word for one in generated))]
    assert np.array([one.probability for one in generated]) == pytest.approx(
        np.exp(score(model, ids).log_prob[2:]), rel=1e-4
    )


@given(
    seed=st.integers(),
    temperature=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    top_k=st.integers(0, 5),
    top_p=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_each_word_is_among_those_that_may_be_drawn(
    models: dict[str, LanguageModel], seed: int, temperature: float, top_k: int, top_p: float
) -> None:
    model = models["groc"]
    words = drawn(model, "the", length=6, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p)
    before = ["the"]
    for word in words:
        text = " ".join(before).replace(END, "\n")
        probabilities = read_context(model, text, tokenised=True).log_probs().exp().clone()
        probabilities[model.vocabulary.index[UNKNOWN]] = 0
        allowed = naive(probabilities.double().tolist(), temperature, top_k, top_p)
        assert model.vocabulary.index[word] in allowed
        before.append(word)


def test_the_state_is_carried_from_word_to_word_and_over_lines(model: LanguageModel) -> None:
    """Twice ten words are twenty."""
    words = drawn(model, "the\ndog", length=20, temperature=0)
    half = " ".join(words[:10]).replace(END, "\n")
    assert drawn(model, f"the\ndog {half}", length=10, temperature=0, tokenised=True) == words[10:]


def test_without_chance_the_most_probable_word_is_taken(model: LanguageModel) -> None:
    words = drawn(model, length=5, temperature=0)
    assert drawn(model, length=5, temperature=1e-300) == drawn(model, length=5, top_k=1) == words
    log_probs = read_context(model, "").log_probs().clone()
    log_probs[model.vocabulary.index[UNKNOWN]] = -math.inf
    assert words[0] == model.vocabulary.words[int(log_probs.argmax())]
    assert set(drawn(model, length=300, seed=1, temperature=1e300)) == set(model.vocabulary) - {UNKNOWN}


def test_unk_is_drawn_only_if_asked_for(vocabulary: Vocabulary, glossary: Glossary) -> None:
    model = tiny_model("tied", "ngrams", vocabulary, glossary)
    with torch.no_grad():
        model.output.bias.weight[vocabulary.index[UNKNOWN]] += 50  # type: ignore[union-attr, index, operator]
    assert UNKNOWN not in drawn(model, seed=1)
    assert UNKNOWN not in drawn(model, seed=1, temperature=0)
    assert set(drawn(model, seed=1, unknown=True)) == {UNKNOWN}
    with pytest.raises(GrocError, match="has no <unk>"):
        generate(checkpoint.load().model, unknown=True)


def test_new_words_of_the_text_can_be_drawn_and_the_model_stays_as_it_was(model: LanguageModel) -> None:
    vocabulary = model.vocabulary
    assert len(drawn(model, "the zebra saw 東京", length=5, seed=1)) == 5
    assert model.vocabulary is vocabulary


# --- choices ----------------------------------------------------------------------------------------------------------


def naive(probabilities: list[float], temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    """By the definition: sharpen, keep the k most probable, then the fewest that reach p."""
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
    if temperature == 0:
        return {order[0]: 1.0}
    best = probabilities[order[0]]
    weights = {i: (probabilities[i] / best) ** (1 / temperature) for i in order[: top_k or None]}
    total, reached, kept = sum(weights.values()), 0.0, {}
    for i, weight in weights.items():
        if reached >= top_p:
            break
        kept[i] = weight / total
        reached += kept[i]
    return {i: weight / sum(kept.values()) for i, weight in kept.items()}


@given(
    counts=st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.integers(0, 25),
    top_p=st.floats(0.01, 1),
)
def test_choices_are_those_of_the_definition(counts: list[int], temperature: float, top_k: int, top_p: float) -> None:
    probabilities = [count / sum(counts) for count in counts]
    ids, weights = choices(torch.tensor(probabilities, dtype=torch.float64).log(), temperature, top_k, top_p)
    found = dict(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))
    # A share that is reached exactly may be missed by rounding: a little less and a little more are both right.
    margins = [naive(probabilities, temperature, top_k, top_p + margin) for margin in (-1e-9, 1e-9)]
    fitting = [expected for expected in margins if _without_zeros(expected).keys() == _without_zeros(found).keys()]
    assert fitting
    assert _without_zeros(found) == pytest.approx(_without_zeros(fitting[0]))


def _without_zeros(weights: dict[int, float]) -> dict[int, float]:
    return {i: weight for i, weight in weights.items() if weight}


# --- lines, length and what is refused --------------------------------------------------------------------------------


def test_an_end_of_line_is_a_word_and_the_next_line_follows(model: LanguageModel) -> None:
    words = drawn(model, length=200, seed=1)
    assert len(words) == 200
    assert 0 < words.count(END) < 200
    assert len(detokenise(words).split("\n")) == 1 + words.count(END)
    assert drawn(model, length=0) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": -1}, "0 or more"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"top_k": -1}, "0 for all"),
        ({"top_p": 0.0}, "at most 1"),
        ({"top_p": 1.1}, "at most 1"),
        ({"top_p": math.nan}, "at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(model: LanguageModel, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GrocError, match=message):
        generate(model, **options)  # not a word has been asked for


@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1).filter("@-@".__ne__)
    )
)
def test_detokenised_text_holds_the_same_characters(words: list[str]) -> None:
    assert "".join(detokenise(words).split()) == "".join("".join(words).split())


def test_detokenised_text_is_written_as_people_do() -> None:
    words = f'it \'s 5 % , " he said " ( now ) . {END} {END} well &amp; good {END}'.split()
    assert detokenise(words) == 'it\'s 5%, "he said" (now).\n\nwell &amp; good\n'
    assert detokenise([]) == ""


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(models: dict[str, LanguageModel], glossary_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    checkpoint.save(folder, models["groc"], tiny_config(changes={"forms.lexicon": str(glossary_file)}))
    return folder


def test_command_writes_the_text_and_what_follows(
    run: Path, models: dict[str, LanguageModel], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", str(run), "--text", "the zebra, it", "--seed", "3", "--length", "30", "--top-k", "5"]
    expected = list(generate(models["groc"], "the zebra, it", seed=3, length=30, top_k=5))
    words = ["the", "zebra", ",", "it", *(one.word for one in expected)]
    assert main(command) == 0
    assert capsys.readouterr().out == detokenise(words) + "\n"
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["text"] == detokenise(words)
    assert [one["word"] for one in printed["words"]] == [one.word for one in expected]
    assert [one["probability"] for one in printed["words"]] == pytest.approx([one.probability for one in expected])


def test_command_leaves_tokens_apart_if_they_were(
    run: Path, models: dict[str, LanguageModel], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", str(run), "--tokenised", "--text", "the zebra,", "--seed", "1", "--length"]
    words = drawn(models["groc"], "the zebra,", seed=1, length=60, tokenised=True)
    for length in (words.index(END) + 1, 60):  # the first ends with a line
        whole = " ".join(["the zebra,", *words[:length]])
        assert main([*command, str(length)]) == 0
        expected = whole.removesuffix(f" {END}").replace(f" {END}", "\n").replace("\n ", "\n")
        assert capsys.readouterr().out == f"{expected}\n"


def test_lines_are_printed_as_they_come_and_what_is_there_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def words() -> Iterator[str]:
        yield from ("the", "dog", END)
        assert capsys.readouterr().out == "the dog\n"
        yield "runs"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_lines(words(), tokenised=False)
    assert capsys.readouterr().out == "runs\n"
