"""Checkpoints: complete, bitwise, unable to run code, and safe from a full disk."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CLOSED_KINDS, KINDS, NEW_WORDS, TERMS, no_room_beyond, shake, snapshot, tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import groc
from groc import checkpoint
from groc.building import build
from groc.errors import GrocError
from groc.lexicon import Entry, Glossary, Sense
from groc.model import LanguageModel
from groc.nn.segments import Segments
from groc.scoring import score
from groc.vocabulary import END, Vocabulary

MODELS = [(kind, "cnn") for kind in KINDS] + [("groc", "ngrams"), ("convolutional", "ngrams")]


def scores(model: LanguageModel) -> np.ndarray:
    ids = np.random.default_rng(0).integers(len(model.vocabulary), size=60).astype(np.int32)
    return score(model, ids).log_prob


def assert_equal_models(one: LanguageModel, other: LanguageModel) -> None:
    """Bitwise: weights, words, counts, forms, scores."""
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    assert one.trained.words == other.trained.words
    assert one.trained.counts.tolist() == other.trained.counts.tolist()
    forms, others = dict(one.forms.named_buffers()), dict(other.forms.named_buffers())
    assert forms.keys() == others.keys()
    for name, tensor in forms.items():
        assert torch.equal(tensor, others[name]), name
    np.testing.assert_array_equal(scores(one), scores(other))


def refused(folder: Path, reason: str) -> None:
    """Loading fails with one sentence on one line."""
    with pytest.raises(GrocError, match=reason) as raised:
        checkpoint.load(folder)
    assert "\n" not in str(raised.value)


@pytest.fixture
def saved(tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> Path:
    """A small open model on disk."""
    folder = tmp_path / "run"
    config = tiny_config()
    checkpoint.save(folder, tiny_model("groc", "ngrams", vocabulary, glossary), config, {"epochs": 3})
    return folder


OURS = {"surface.familiar": True, "output.count_bias": True}


class TestRoundTrip:
    def test_what_is_known_of_training_comes_along(
        self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        """Words that are added later are composed of familiar n-grams, and are not taken for frequent ones."""
        model = tiny_model("groc", "ngrams", vocabulary, glossary, OURS)
        checkpoint.save(tmp_path / "run", model, tiny_config("groc", "ngrams", OURS))
        loaded = checkpoint.load(tmp_path / "run", lexicon=glossary).model
        for some in (model, loaded):
            some.set_vocabulary(vocabulary.union(["zyzzyva", "doghouse"]))
        for name, tensor in vars(model.embed()).items():
            assert torch.equal(tensor, getattr(loaded.embed(), name)), name
        strings = model.forms.strings
        assert isinstance(strings, Segments)
        whole = tiny_model("groc", "ngrams", vocabulary.union(["zyzzyva", "doghouse"]), glossary).forms.strings
        assert isinstance(whole, Segments)
        kept, every = strings.offsets.diff(), whole.offsets.diff()
        assert torch.equal(kept[: len(vocabulary)], every[: len(vocabulary)])
        assert (kept[len(vocabulary) :][:2] < every[len(vocabulary) :][:2]).all()

    @pytest.mark.parametrize(("kind", "surface"), MODELS)
    def test_is_bitwise(
        self, tmp_path: Path, kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model, config = tiny_model(kind, surface, vocabulary, glossary), tiny_config(kind, surface)
        checkpoint.save(tmp_path, model, config, {"valid_perplexity": 12.5})
        loaded = checkpoint.load(tmp_path)
        assert_equal_models(model, loaded.model)
        assert loaded.config == config
        assert loaded.facts == {"valid_perplexity": 12.5}
        assert not loaded.model.training

    @pytest.mark.parametrize(("kind", "surface"), MODELS)
    def test_new_words_are_looked_up_in_the_given_lexicon(
        self, tmp_path: Path, kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        checkpoint.save(tmp_path, model, tiny_config(kind, surface))
        loaded = groc.load(tmp_path, lexicon=glossary)
        for one in (model, loaded):
            one.set_vocabulary(vocabulary.union(NEW_WORDS))
        np.testing.assert_array_equal(scores(model), scores(loaded))

    @pytest.mark.parametrize(("kind", "surface"), [("groc", "cnn"), ("groc", "ngrams"), ("convolutional", "cnn")])
    @pytest.mark.usefixtures("no_wordnet")
    def test_no_wordnet_is_needed(
        self, tmp_path: Path, kind: str, surface: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model(kind, surface, vocabulary, glossary)
        checkpoint.save(tmp_path / "run", model, tiny_config(kind, surface, {"forms.lexicon": "wordnet"}))
        loaded = groc.load(tmp_path / "run")
        assert_equal_models(model, loaded)
        loaded.set_vocabulary(vocabulary.union(NEW_WORDS))
        assert np.isfinite(scores(loaded)).all()

    @pytest.mark.parametrize(
        "changes",
        [
            {"forms.rules": "paper"},
            {"forms.lower": True},
            {"forms.rules": "paper", "forms.lower": True},
            {"forms.coverage": 0.5},
            {"forms.coverage": 0.5, "forms.rules": "paper", "forms.lower": True},
            {"forms.without": ["relations"]},
            {"forms.without": ["definitions"]},
            {"forms.without": ["relations", "definitions"]},
            {"forms.lexicon": "none"},
            {"forms.relations": 1, "forms.definition": 2},
        ],
    )
    def test_forms_are_the_same_under_all_rules(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        terms = {
            "Rome": ("The City, of Seven hills.", ("Zeta", "alpha", "Beta", "gamma", "Urbs")),
            **{word: TERMS[word] for word in ("dog", "cat", "sea", "ship", "run", "old", "red", "boat")},
        }
        path = tmp_path / "terms.jsonl"
        Glossary(terms).write(path)
        words = [*terms, *(word.capitalize() for word in terms if word != "Rome"), "DOG", "zeta", "alpha", "the", END]
        config = tiny_config("groc", "ngrams", {"forms.lexicon": str(path), **changes})
        torch.manual_seed(1)
        model = build(config, Vocabulary(words)).eval()
        shake(model)
        checkpoint.save(tmp_path / "run", model, config)
        path.unlink()  # the folder must be complete without it
        assert_equal_models(model, groc.load(tmp_path / "run"))

    def test_a_new_word_borrows_nothing_from_a_trained_one_that_differs_in_case(self, tmp_path: Path) -> None:
        """Trained with the pronoun us, which has no sense; then the word US comes, which has one."""

        class Country:
            fingerprint = "country"

            def entry(self, word: str) -> Entry | None:
                return Entry((Sense("a country", ("America",), (), "n"),)) if word.lower() == "us" else None

        vocabulary = Vocabulary(["us", "we", "they", END])
        model = tiny_model("groc", "ngrams", vocabulary, Country())
        checkpoint.save(tmp_path, model, tiny_config())
        loaded = groc.load(tmp_path, lexicon=Country())
        for one in (model, loaded):
            one.set_vocabulary(vocabulary.union(["US"]))
        np.testing.assert_array_equal(scores(model), scores(loaded))

    def test_odd_words_survive(self, tmp_path: Path, glossary: Glossary) -> None:
        odd = ["10\u00a0000", "a\u2028b", "n\x85l", "\ufeffbom", '"quoted"', "back\\slash", "東京", "e\u0301", "🦓"]
        model = tiny_model("groc", "ngrams", Vocabulary([*odd, END]), glossary)
        checkpoint.save(tmp_path, model, tiny_config())
        assert_equal_models(model, groc.load(tmp_path))

    def test_a_model_in_use_with_other_words_saves_those_it_was_trained_with(
        self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary)
        model.set_vocabulary(vocabulary.union(NEW_WORDS))
        checkpoint.save(tmp_path, model, tiny_config())
        loaded = groc.load(tmp_path)
        model.set_vocabulary(vocabulary)
        assert_equal_models(model, loaded)

    @pytest.mark.parametrize("kind", CLOSED_KINDS)
    def test_a_grown_model_survives(
        self, tmp_path: Path, kind: str, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        # The second cutoff lies between the old number of words and the new one.
        changes = {"output.cutoffs": (6, len(vocabulary) + 2)}
        model = tiny_model(kind, "cnn", vocabulary, glossary, changes)
        model.set_vocabulary(vocabulary.union(NEW_WORDS), grow=True)
        checkpoint.save(tmp_path, model, tiny_config(kind, "cnn", changes))
        assert_equal_models(model, groc.load(tmp_path, lexicon=glossary))

    def test_loading_draws_no_random_numbers(self, saved: Path) -> None:
        before = torch.get_rng_state()
        checkpoint.load(saved)
        assert torch.equal(torch.get_rng_state(), before)

    def test_what_has_no_words_of_the_model_may_be_deleted(self, saved: Path) -> None:
        before = scores(groc.load(saved))
        (saved / checkpoint.CARD).unlink()
        np.testing.assert_array_equal(scores(groc.load(saved)), before)

    def test_saving_leaves_no_temporary_files(self, saved: Path) -> None:
        names = {checkpoint.CONFIG, checkpoint.WEIGHTS, checkpoint.VOCABULARY, checkpoint.LEXICON, checkpoint.CARD}
        assert {path.name for path in saved.iterdir()} == names

    def test_the_card_says_what_the_model_is(self, saved: Path) -> None:
        model = groc.load(saved)
        card = (saved / checkpoint.CARD).read_text()
        assert f"{model.parameter_count():,} parameters" in card
        assert "open" in card
        assert "epochs: 3" in card


def test_an_empty_glossary_for_new_words_is_as_good_as_any(
    tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary
) -> None:
    config = tiny_config("groc", changes={"forms.lexicon": str(tmp_path / "gone.jsonl")})
    checkpoint.save(tmp_path / "run", tiny_model("groc", "ngrams", vocabulary, glossary), config)
    loaded = checkpoint.load(tmp_path / "run", lexicon=Glossary({}))
    assert loaded.warning == ""
    assert loaded.model.trained == vocabulary


class TestBadFolders:
    @pytest.mark.parametrize("name", [checkpoint.CONFIG, checkpoint.WEIGHTS, checkpoint.VOCABULARY])
    def test_a_missing_file(self, saved: Path, name: str) -> None:
        (saved / name).unlink()
        refused(saved, name)

    @given(st.floats(0, 1, exclude_max=True))
    def test_weights_cut_off_anywhere(self, saved: Path, share: float) -> None:
        path = saved / checkpoint.WEIGHTS
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        refused(saved, "damaged")
        path.write_bytes(content)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_weights_that_are_not_finite(self, saved: Path, value: float) -> None:
        weights = load_file(saved / checkpoint.WEIGHTS)
        next(iter(weights.values())).flatten()[-1] = value
        save_file(weights, saved / checkpoint.WEIGHTS)
        refused(saved, "not finite")

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            *itertools.product(["groc", "tied", "convolutional"], [checkpoint.CONFIG, checkpoint.VOCABULARY]),
            ("groc", checkpoint.LEXICON),  # closed models have none
        ],
    )
    @pytest.mark.parametrize("lines", [0, 2, 5])
    def test_another_file_cut_off_at_a_line(
        self, tmp_path: Path, kind: str, name: str, lines: int, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        """An incomplete copy must not pass for a model with fewer words or fewer definitions."""
        checkpoint.save(tmp_path, tiny_model(kind, "cnn", vocabulary, glossary), tiny_config(kind, "cnn"))
        path = tmp_path / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
        refused(tmp_path, ".")

    @pytest.mark.parametrize(
        "content",
        [
            "", "[]", "3", "null", "{", '{"model_type": "gpt2"}', '{"kind": "groc"}',
            '{"kind": "groc", "format": null}',
            '{"kind": "groc", "format": "one"}', '{"kind": "other", "format": 1}', '{"kind": "groc", "format": 1}',
            '{"kind": "groc", "format": 1, "config": 3, "facts": {}}',
            '{"kind": "groc", "format": 1, "config": {"model": 3}, "facts": {}}',
            '{"kind": "groc", "format": 1, "config": {"model": {"dim": "x"}}, "facts": {}}',
            '{"kind": "groc", "format": 1, "config": {}, "facts": 3}', "\x00\x01",
        ],
    )  # fmt: skip
    def test_a_foreign_or_damaged_config(self, saved: Path, content: str) -> None:
        (saved / checkpoint.CONFIG).write_text(content)
        refused(saved, ".")

    def test_a_config_that_is_not_text(self, saved: Path) -> None:
        (saved / checkpoint.CONFIG).write_bytes(b"\xff\xfe\x00")
        refused(saved, "not a GroC checkpoint")

    def test_no_folder_and_a_file_in_its_place(self, tmp_path: Path) -> None:
        refused(tmp_path / "nothing", "not a GroC checkpoint")
        (tmp_path / "file").write_text("text")
        refused(tmp_path / "file", "not a GroC checkpoint")

    def test_a_setting_that_is_gone_matters_only_where_it_was_used(self, saved: Path) -> None:
        path = saved / checkpoint.CONFIG
        document = json.loads(path.read_text())
        document["config"]["surface"]["whole"] = 0
        path.write_text(json.dumps(document))
        checkpoint.load(saved)
        document["config"]["surface"]["whole"] = 7
        path.write_text(json.dumps(document))
        refused(saved, r"another version of GroC.*surface\.whole")

    def test_a_newer_format_says_to_upgrade(self, saved: Path) -> None:
        path = saved / checkpoint.CONFIG
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "format": checkpoint.FORMAT + 1, "config": "of another shape"}))
        refused(saved, rf"format {checkpoint.FORMAT + 1}.*upgrade")

    @pytest.mark.parametrize(
        ("kind", "changes"), [("groc", {"model.dim": 9}), ("tied", {}), ("groc", {"surface.kind": "cnn"})]
    )
    def test_files_of_different_models(
        self,
        saved: Path,
        tmp_path: Path,
        kind: str,
        changes: dict[str, Any],
        vocabulary: Vocabulary,
        glossary: Glossary,
    ) -> None:
        other = tiny_model(kind, "ngrams", vocabulary, glossary, changes)
        checkpoint.save(tmp_path / "other", other, tiny_config(kind, "ngrams", changes))
        (tmp_path / "other" / checkpoint.WEIGHTS).replace(saved / checkpoint.WEIGHTS)
        refused(saved, "do not fit")


class TestNoCodeRuns:
    class Touch:
        """What a pickle of it does when it is loaded."""

        def __init__(self, path: Path) -> None:
            self.path = path

        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(self.path),)

    def test_the_trap_works(self, tmp_path: Path) -> None:
        pickle.loads(pickle.dumps(self.Touch(tmp_path / "trap")))
        assert (tmp_path / "trap").exists()

    @pytest.mark.parametrize("name", [checkpoint.CONFIG, checkpoint.WEIGHTS, checkpoint.VOCABULARY, checkpoint.LEXICON])
    @pytest.mark.parametrize("writer", ["pickle", "torch"])
    def test_a_pickle_in_any_files_place_is_refused_unread(
        self, saved: Path, tmp_path: Path, name: str, writer: str
    ) -> None:
        trap = self.Touch(tmp_path / "trap")
        if writer == "pickle":
            (saved / name).write_bytes(pickle.dumps(trap))
        else:
            torch.save({"weight": trap}, saved / name)
        refused(saved, ".")
        assert not (tmp_path / "trap").exists()

    def test_the_source_has_no_way_to_run_stored_code(self) -> None:
        forbidden = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
        found = []
        for path in Path(groc.__file__).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    names = {(node.module or "").partition(".")[0]}
                elif isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    names = {"pickle"} if called in ("torch.load", "eval", "exec") else set()
                    names |= {"pickle"} if any(keyword.arg == "allow_pickle" for keyword in node.keywords) else set()
                else:
                    continue
                found += [f"{path.name}:{node.lineno}"] if names & forbidden else []
        assert not found


class TestFullDisk:
    """A limit on the size of files makes a real write fail in the middle, as a full disk does."""

    @pytest.mark.parametrize("other_words", [False, True])
    @pytest.mark.parametrize("limit", [100, 4000])
    def test_the_old_checkpoint_stays_as_it_was(
        self, saved: Path, vocabulary: Vocabulary, limit: int, other_words: bool
    ) -> None:
        before = snapshot(saved)
        assert (saved / checkpoint.WEIGHTS).stat().st_size > limit
        words = vocabulary.union(NEW_WORDS) if other_words else vocabulary
        model = tiny_model("groc", "ngrams", words, Glossary(TERMS))
        shake(model, seed=2)
        changed = tiny_config(changes={"training.seed": 7})
        with no_room_beyond(limit), pytest.raises(GrocError, match="No room on the disk"):
            checkpoint.save(saved, model, changed, {"epochs": 4})
        assert snapshot(saved) == before
        checkpoint.load(saved)


class TestEarlierRuns:
    def test_ngrams_had_one_hash(self, tmp_path: Path, vocabulary: Vocabulary, glossary: Glossary) -> None:
        model = tiny_model("groc", "ngrams", vocabulary, glossary, {"surface.hashes": 1})
        checkpoint.save(tmp_path, model, tiny_config("groc", "ngrams", {"surface.hashes": 1}))
        document = json.loads((tmp_path / "config.json").read_text())
        del document["config"]["surface"]["hashes"]
        (tmp_path / "config.json").write_text(json.dumps(document))
        assert_equal_models(model, groc.load(tmp_path, lexicon=glossary))


class TestGlossaryOfTraining:
    @pytest.fixture
    def trained(self, tmp_path: Path, vocabulary: Vocabulary, glossary_file: Path) -> tuple[Path, Path]:
        """A run whose lexicon is one glossary, with another in front of it."""
        own = tmp_path / "own.tsv"
        own.write_text("dog\ta machine\nwug\ta small animal\n")
        changes = {"forms.lexicon": str(glossary_file), "forms.glossary": str(own)}
        config = tiny_config("groc", "ngrams", changes)
        checkpoint.save(tmp_path / "run", build(config, vocabulary).eval(), config)
        return tmp_path / "run", own

    def test_nothing_is_said_while_all_is_there(self, trained: tuple[Path, Path]) -> None:
        loaded = checkpoint.load(trained[0])
        assert loaded.warning == ""
        assert loaded.model.in_lexicon("wug")

    def test_without_it_the_lexicon_is_still_asked(self, trained: tuple[Path, Path]) -> None:
        trained[1].unlink()
        loaded = checkpoint.load(trained[0])
        assert "glossary of training" in loaded.warning
        assert not loaded.model.in_lexicon("wug")
        assert loaded.model.in_lexicon("zebra")
        assert loaded.model.compiler.select("dog").definition == ("a", "machine")
