"""Settings: recipes, variants, key=value pairs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import KINDS
from hypothesis import given
from hypothesis import strategies as st

from groc.building import build
from groc.config import Config, known_keys
from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.recipe import load_recipe, recipe_names, variant_names
from groc.vocabulary import Vocabulary

SMALL = (
    "model.dim=8", "prefix.hidden=6", "surface.characters=3", "surface.filters=2,3,2", "surface.buckets=50",
    "surface.rank=4", "output.correction=4",
)  # fmt: skip
RECIPES = [(recipe, variant) for recipe in recipe_names() for variant in (None, *variant_names(recipe))]


class TestShippedRecipes:
    def test_there_are_those_the_documentation_names(self) -> None:
        assert {"tiny", "penn", "wikitext2"} <= set(recipe_names())

    @pytest.mark.parametrize("recipe", ["tiny", "penn", "wikitext2"])
    def test_each_has_a_variant_for_each_output_embedding(self, recipe: str) -> None:
        assert {kind: load_recipe(recipe, kind).output.kind for kind in KINDS} == {kind: kind for kind in KINDS}

    @pytest.mark.parametrize(("recipe", "variant"), RECIPES)
    def test_each_builds_a_model(
        self, recipe: str, variant: str | None, vocabulary: Vocabulary, glossary: Glossary
    ) -> None:
        config = load_recipe(recipe, variant, SMALL)
        model = build(config, vocabulary, glossary)
        assert model.is_open == (config.output.kind == "groc")
        assert (model.vocabulary_parameter_count() == 0) == model.is_open
        assert model.embed().output.shape == (len(vocabulary), 8)

    @pytest.mark.parametrize(("recipe", "variant"), RECIPES)
    def test_each_is_named_after_itself(self, recipe: str, variant: str | None) -> None:
        assert load_recipe(recipe, variant).name == (f"{recipe}/{variant}" if variant else recipe)


class TestLayers:
    @pytest.fixture
    def recipe(self, tmp_path: Path) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(
            "[training]\nrate = 0.1\nbatch = 11\nunroll = 7\n"
            "[variants.fast]\ntraining = { rate = 0.2, batch = 12 }\n[variants.slow]\ntraining.rate = 0.3\n"
        )
        return str(path)

    def test_a_recipe_overrides_the_defaults(self, recipe: str) -> None:
        assert load_recipe(recipe) == Config(name="mine").replace(
            {"training.rate": 0.1, "training.batch": 11, "training.unroll": 7}
        )

    def test_a_variant_overrides_the_recipe_and_leaves_the_rest(self, recipe: str) -> None:
        training = load_recipe(recipe, "fast").training
        assert (training.rate, training.batch, training.unroll) == (0.2, 12, 7)

    def test_a_pair_overrides_the_variant(self, recipe: str) -> None:
        training = load_recipe(recipe, "fast", ["training.rate=0.4"]).training
        assert (training.rate, training.batch, training.unroll) == (0.4, 12, 7)

    def test_the_last_of_two_pairs_wins(self, recipe: str) -> None:
        assert load_recipe(recipe, None, ["training.rate=1", "training.rate=2"]).training.rate == 2

    def test_an_unknown_variant_names_the_nearest_and_all(self, recipe: str) -> None:
        with pytest.raises(GrocError, match=r"no variant 'fats'.*'fast'.*fast, slow"):
            load_recipe(recipe, "fats")

    def test_a_key_the_recipe_misspells_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "wrong.toml"
        path.write_text("[training]\nraet = 0.1\n")
        with pytest.raises(GrocError, match=r"'training.raet'.*'training.rate'"):
            load_recipe(str(path))

    @pytest.mark.parametrize("content", [b"[training\n", b"rate = \n", b"\xff\xfe", b"variants = 3"])
    def test_a_file_that_is_no_recipe_is_an_error(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "broken.toml"
        path.write_bytes(content)
        with pytest.raises(GrocError, match=r"broken"):
            load_recipe(str(path), "fast")

    def test_an_unknown_recipe_names_the_nearest_and_all(self) -> None:
        with pytest.raises(GrocError, match=r"'pen'.*'penn'.*tiny"):
            load_recipe("pen")


shares = st.floats(0, 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(max_size=8),
    "corpus": st.text(max_size=8),
    "forms.rules": st.sampled_from(["default", "paper"]),
    "forms.lower": st.booleans(),
    "forms.without": st.sets(st.sampled_from(["relations", "definitions"])).map(tuple),
    "forms.coverage": shares,
    "surface.filters": st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    "output.kind": st.sampled_from(KINDS),
    "output.cutoffs": st.sets(st.integers(1, 99999), max_size=3).map(lambda ranks: tuple(sorted(ranks))),
    "model.start": st.floats(0, 1e9),
    "prefix.hidden": st.integers(1, 10**9),
    "training.rate": st.floats(0, 1e300, exclude_min=True),
    "training.random_unroll": st.booleans(),
    "training.rotate_streams": st.booleans(),
    "training.seed": st.integers(-(10**12), 10**12),
    "compute.bf16": st.sampled_from(["auto", "yes", "no"]),
}
overrides = st.fixed_dictionaries({}, optional=VALUES)


class TestValues:
    @given(overrides)
    def test_settings_survive_json(self, changes: dict[str, Any]) -> None:
        config = Config().replace(changes)
        assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config

    @given(overrides)
    def test_replace_sets_what_it_is_told_and_nothing_else(self, changes: dict[str, Any]) -> None:
        assert Config().replace(changes).flat() == {**Config().flat(), **changes}

    @given(overrides)
    def test_text_from_the_command_line_means_the_same_as_values(self, changes: dict[str, Any]) -> None:
        def as_text(value: Any) -> str:
            return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

        texts = {key: as_text(value) for key, value in changes.items() if not isinstance(value, bool)}
        flags = {key: str(value).lower() for key, value in changes.items() if isinstance(value, bool)}
        assert Config().replace({**texts, **flags}) == Config().replace(changes)

    @pytest.mark.parametrize(
        "assignment",
        [
            "training.batch=many", "training.batch=2.5", "training.batch=", "training.rate=fast", "forms.lower=maybe",
            "surface.filters=1,x", "training.batch=0", "training.rate=-1", "training.rate=0", "training.rate=nan",
            "training.rate=inf", "output.dropout=1.5", "output.kind=tide", "surface.filters=", "surface.filters=0",
            "surface.longest_ngram=0", "forms.without=words", "training.decay=2", "output.mixture_dropout=1",
            "training.seed=99999999999999999999", "training.seed=-99999999999999999999",
            "training.batch=99999999999999999999",
            "prefix.hidden=99999999999999999999", "prefix.gate_rounds=1001", "surface.filters=9,99999999999999999999",
        ],
    )  # fmt: skip
    def test_an_impossible_value_is_refused_with_its_key(self, assignment: str) -> None:
        key = assignment.partition("=")[0]
        with pytest.raises(GrocError, match=key):
            load_recipe("tiny", None, [assignment])

    def test_epochs_and_patience_may_be_as_large_as_somebody_likes(self) -> None:
        never = "99999999999999999999"
        config = load_recipe("tiny", None, [f"training.{key}={never}" for key in ("epochs", "stop_after", "warmup")])
        assert Config.from_dict(config.to_dict()).training.stop_after == int(never)

    def test_a_size_below_another_is_refused_for_that(self) -> None:
        with pytest.raises(GrocError, match=r"not be smaller than surface\.shortest_ngram"):
            load_recipe("tiny", None, ["surface.longest_ngram=-1"])

    @pytest.mark.parametrize(
        ("key", "value"),
        [("training.batch", 2.0), ("training.batch", True), ("name", 3), ("forms.lower", 1), ("surface.filters", 5)],
    )
    def test_a_value_of_another_type_in_a_file_is_refused(self, key: str, value: Any) -> None:
        with pytest.raises(GrocError, match=key):
            Config().replace({key: value})

    def test_a_pair_needs_an_equals_sign(self) -> None:
        with pytest.raises(GrocError, match="key=value"):
            load_recipe("tiny", None, ["training.rate"])


class TestMisspeltKeys:
    @given(st.sampled_from(sorted(known_keys())), st.data())
    def test_a_key_without_one_letter_names_the_key(self, key: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(key) - 1))
        with pytest.raises(GrocError, match=f"Did you mean '{key}'"):
            Config().replace({key[:at] + key[at + 1 :]: 1})

    @pytest.mark.parametrize(
        ("short", "whole"), [("rate", "training.rate"), ("hidden", "prefix.hidden"), ("dim", "model.dim")]
    )
    def test_a_forgotten_section_is_supplied(self, short: str, whole: str) -> None:
        with pytest.raises(GrocError, match=f"'{whole}'"):
            Config().replace({short: 1})

    def test_nothing_is_suggested_for_what_resembles_nothing(self) -> None:
        with pytest.raises(GrocError, match=r"no setting 'qqqq'\.$"):
            Config().replace({"qqqq": 1})
