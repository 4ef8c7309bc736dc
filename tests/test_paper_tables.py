"""What the paper's tables and figures show of records: the same seeds, settings, budgets, curves that can be read."""

from __future__ import annotations

import json
import math
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from groc.cli import main
from groc.compute import choose
from groc.config import Compute
from groc.paper import TABLES, Results, published
from groc.paper.claims import UNEQUAL, closed_claims
from groc.paper.figures import FIGURES
from groc.paper.judging import NEAR, OPEN, Claim
from groc.paper.records import LARGE, LARGEST_BEST
from groc.paper.searches import not_tuned_alike, said_of_searches
from groc.paper.table import shown as shown_as
from groc.recipe import load_recipe
from groc.report import to_json
from groc.results import add_evaluation, write_result

CORPORA = {"penn": "penn", "wikitext2": "wikitext-2", "news": "news"}
CURVE = (300.0, 120.0, 90.0, 80.0)
SHARES = [share for share, *_ in published.COVERAGE]


def record(
    folder: Path, name: str, seed: int = 1, curve: tuple[float, ...] = CURVE, on: str = "", **changes: Any
) -> Path:
    """The record of a run that was never made; `on` names the text on which it was fine-tuned."""
    recipe, _, variant = name.partition("/")
    corpus = on or CORPORA[recipe.removesuffix("-best")]
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    config = load_recipe(recipe, variant).replace(
        {"name": name, "corpus": f"/x/{corpus}", "training.seed": seed, **settings}
    )
    path = folder / f"{len(list(folder.glob('*')))}.json"
    figures = {"valid_perplexity": curve[-1], "parameters": 1_000_000, "steps": 1}
    figures |= {"adapted_from": name, "texts": []} if on else {}
    rows = [
        {"epoch": n, "step": n, "seconds": n, "valid_perplexity": value, "valid_loss": math.log(value)}
        for n, value in enumerate(curve, 1)
    ]
    write_result(path, config, choose(Compute(device="cpu")), figures, rows)
    return path


def add_test(path: Path, perplexity: float, **more: Any) -> None:
    figures = {"text": "/x/penn/test.txt", "run": "r", "perplexity": perplexity, "bins": []}
    words = {"vocabulary": 10_000, "vocabulary_kind": "union", "oov_share": 0.0, "unseen": {"loss": None}}
    add_evaluation(path, {**figures, **words, **more})


def test_runs_that_read_another_test_text_are_named_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, (tokens, test) in enumerate(((900, 70.0), (80, 40.0), (900, 72.0)), 1):
        add_test(record(tmp_path, "penn/tied", seed), test, tokens=tokens)
    (row,) = rows_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["test"], row["runs"], row["seeds"]) == (71.0, 2, [1, 3])
    assert "was tested on 80 tokens, most runs of penn 900: it is not counted" in capsys.readouterr().err


def test_runs_that_chose_among_other_words_are_named_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, words in enumerate((900, 900, 80), 1):
        add_test(record(tmp_path, "penn/tied", seed), 70.0, vocabulary=words)
    (row,) = rows_of("main", tmp_path, dataset="penn", model="tied")
    assert row["seeds"] == [1, 2]
    assert "was tested among 80 words, most runs of penn 900: it is not counted" in capsys.readouterr().err


def test_a_run_with_the_recipe_of_another_corpus_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path, "wikitext2/tied", on="penn")
    found = json.loads(path.read_text())
    del found["figures"]["adapted_from"]
    path.write_text(json.dumps(found))
    assert not any(row["runs"] for row in rows_of("main", tmp_path))
    told = "is called wikitext2/tied, which is for wikitext-2, but was trained on penn: it is not counted"
    assert told in capsys.readouterr().err


def test_a_test_text_that_was_not_read_strictly_is_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_test(record(tmp_path, "penn/tied", 1), 70.0, protocol="strict: one stream")
    add_test(record(tmp_path, "penn/tied", 2), 40.0, protocol="ten streams")
    (row,) = rows_of("main", tmp_path, dataset="penn", model="tied")
    assert (row["test"], row["runs"]) == (70.0, 1)
    assert 'must be text that begins with strict, not "ten streams"' in capsys.readouterr().err


def said_of(claim: Claim) -> str:
    return f"{claim.text}: **{claim.verdict}** ({claim.why})."


def rows_of(table: str, folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    rows = TABLES[table].rows(Results(folder))
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def drawn(name: str, folder: Path) -> Any:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(10, 4.2), layout="constrained")
    FIGURES[name](figure, Results(folder))
    return figure


def legend(axes: Any) -> list[str]:
    return list(axes.get_legend_handles_labels()[1])


# --- coverage -----------------------------------------------------------------------------------------------------


def test_rows_of_coverage_are_of_the_same_seeds(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        path = record(tmp_path, "penn/groc", seed)
        add_test(path, 60.0 + seed)
        for share in SHARES[:-1] if seed == 2 else SHARES[:2]:
            if seed < 3:
                add_test(path, 100.0 + seed, coverage=share)
    rows = rows_of("coverage", tmp_path, model="groc, at inference")
    assert [row["seeds"] for row in rows] == [[2]] * len(SHARES)
    assert [row["test"] for row in rows] == [102.0] * 5 + [62.0]
    (whole, *others) = reversed(rows_of("coverage", tmp_path, model="groc, retrained"))
    assert (whole["seeds"], [row["runs"] for row in others]) == ([1, 2, 3], [0] * 5)
    add_test(record(tmp_path, "penn/groc", 3, forms__coverage=0.2), 70.0)
    found = {row["coverage"]: row["test"] for row in rows_of("coverage", tmp_path, model="groc, retrained")}
    assert (found[0.2], found[1.0]) == (70.0, 63.0)


def test_rows_of_coverage_without_a_common_seed_show_their_own(tmp_path: Path) -> None:
    add_test(record(tmp_path, "penn/groc", 1), 60.0)
    add_test(record(tmp_path, "penn/groc", 2, forms__coverage=0.2), 70.0)
    rows = rows_of("coverage", tmp_path, model="groc, retrained")
    assert {row["coverage"]: row["seeds"] for row in rows if row["runs"]} == {0.2: [2], 1.0: [1]}


# --- other domains ------------------------------------------------------------------------------------------------


EARLIER = "news-wmt-2008-2013"


def test_a_row_of_fine_tuned_models_has_those_alone_that_were_tuned_for_the_text(tmp_path: Path) -> None:
    """As on the years before it, if it is of a later year."""
    for on, texts in (
        ("talks-ted", {"talks-ted": 10.0, "wikitext-2": 90.0, "news-wmt-2014": 91.0}),
        (EARLIER, {"wikitext-2": 92.0, "news-wmt-2014": 20.0, "news-wmt-2012": 93.0}),
    ):
        path = record(tmp_path, "news/groc", on=on)
        for text, test in texts.items():
            add_test(path, test, text=f"/x/{text}/test.txt")
    found = {(row["domain"], row["model"]): row["test"] for row in rows_of("cross-domain", tmp_path)}
    assert found == {("talks-ted", "groc+finetuned"): 10.0, ("news-wmt-2014", "groc+finetuned"): 20.0}


@pytest.mark.parametrize(("best", "told"), [(3e-3, "0.003, the largest of"), (1e-3, "0.001 of")])
def test_it_is_said_of_which_rates_the_best_was_taken(best: float, told: str, tmp_path: Path) -> None:
    for rate in (1e-3, 3e-3, 3e-4):
        record(tmp_path, "news/tied", on=EARLIER, training__rate=rate, curve=(90.0, 70.0 if rate == best else 80.0))
    record(tmp_path, "news/tied", on="talks-ted", training__rate=best)
    rows = rows_of("fine-tuning", tmp_path)
    assert [row["rate"] for row in rows] == [best, best]
    assert TABLES["fine-tuning"].said(rows).endswith(f": tied on {EARLIER} {told} 0.0003, 0.001, 0.003.")


@pytest.mark.parametrize(("tokens", "better"), [(10, "1 of 1"), (0, None), (9, None)])
def test_memory_is_compared_on_the_same_tokens_alone(tokens: int, better: str | None, tmp_path: Path) -> None:
    path = record(tmp_path, "news/groc")
    for memory, read in ((False, 10), (True, tokens)):
        rows = [{"from": start, "to": None, "tokens": 0} for start in (0, 1, 2, 5, 10)]
        rows[1] |= {"tokens": read, "loss": 9.0 - memory} if read else {}
        add_test(path, 90.0, text="/x/talks-ted/test.txt", memory=memory, new_by_occurrence=rows)
    assert [row["better on"] for row in rows_of("memory", tmp_path)] == ([better] if better else [])


# --- size ---------------------------------------------------------------------------------------------------------


def test_models_of_others_have_the_keys_of_ours_and_say_where_they_stand(tmp_path: Path) -> None:
    record(tmp_path, "penn/tied")
    rows = rows_of("size", tmp_path)
    assert len({tuple(row) for row in rows}) == 1
    for row in (row for row in rows if row["runs"] is None):
        assert all(row[key] is None for key in row if key not in ("dataset", "model", "published", "paper"))
    elsewhere = [(row["dataset"], row["paper"]["test"]) for row in rows if row["published"] == "elsewhere"]
    assert elsewhere == [
        *(("penn", test) for test in (57.3, 51.1, 54.4, 47.7, 50.1, 44.8, 47.9, 42.9)),
        *(("wikitext-2", test) for test in (65.8, 44.3, 61.5, 40.7, 55.1, 38.6, 55.0, 38.0)),
    ]
    assert " elsewhere |" in TABLES["size"].markdown(rows)


def test_the_limit_of_large_models_is_said_alike_everywhere(tmp_path: Path) -> None:
    assert f"at most {LARGEST_BEST // 10**6} million parameters" == LARGE
    assert LARGE in TABLES["size"].note
    assert any(LARGE in claim.text for claim in closed_claims(Results(tmp_path)))
    record(tmp_path, "penn/groc")
    assert LARGE in drawn("main", tmp_path).axes[-1].get_title()


# --- settings -----------------------------------------------------------------------------------------------------


def test_settings_of_published_size_and_of_best_recipes_are_shown(tmp_path: Path) -> None:
    plain = {"training__average": 0.0, "training__rotate_streams": False}
    record(tmp_path, "penn/tied", prefix__word_dropout=0.15, prefix__weight_dropout=0.45, **plain)
    changes = {"rate": 0.002, "final_rate": 0.3, "average": 0.9998, "encoder_rate": 0.2}
    changes |= {"schedule": "cosine", "rotate_streams": True, "random_unroll": True, "batch": 40, "unroll": 35}
    record(tmp_path, "penn-best/groc", **{f"training__{name}": value for name, value in changes.items()})
    rows = {row["model"]: row for row in rows_of("hyper-parameters", tmp_path, dataset="penn")}
    assert rows["tied"]["dropout"] == "0.15/0.35/0.275/0.45/0.35"
    assert (rows["tied"]["streams"], rows["tied"]["average"]) == ("fixed", 0.0)
    best = rows["groc, best recipe"]
    assert (best["schedule"], best["average"], best["encoder rate"]) == ("cosine to 30%", 0.9998, 0.2)
    assert (best["batch"], best["streams"], best["device"]) == ("40 x about 35", "rotated", "CPU, float32")
    printed = TABLES["hyper-parameters"].markdown(list(rows.values()))
    assert " 0.9998 |" in printed
    assert rows["tied, best recipe"]["rate"] is None


def test_a_schedule_of_plateaus_is_told(tmp_path: Path) -> None:
    record(tmp_path, "penn/tied", training__schedule="plateau", training__decay=0.5, training__patience=3)
    (row,) = rows_of("hyper-parameters", tmp_path, dataset="penn", model="tied")
    assert row["schedule"] == "plateau, x0.5 after 3 epochs without gain"


def test_it_is_said_where_models_were_not_searched_alike(tmp_path: Path) -> None:
    def search(model: str, trials: int) -> Path:
        return record_search(tmp_path, model, [trial(90, training__rate="2e-3")] * trials)

    def note() -> str:
        return TABLES["hyper-parameters"].markdown(rows_of("hyper-parameters", tmp_path)).splitlines()[-1]

    unequal = "Not searched alike for the seven models: "
    record(tmp_path, "penn/tied")
    shown = TABLES["hyper-parameters"].markdown(rows_of("hyper-parameters", tmp_path, dataset="penn", model="tied"))
    assert "|      0 |    1 |" in shown  # trials and runs
    for model in published.MODELS:
        assert f"{unequal}penn and wikitext-2." in note()
        search(model, 12)
    alike = f"but for what is named next: penn with 12 trials of 5 epochs (training.rate). {unequal}wikitext-2."
    assert alike in note()
    every, picked = (rows_of("hyper-parameters", tmp_path, **only) for only in ({}, {"dataset": "penn"}))
    said = TABLES["hyper-parameters"].markdown(picked, every)
    assert said.splitlines()[-1] == note()  # of all models, whichever are shown
    more = search("tied", 3)  # whoever is given more is not searched alike
    assert f"{unequal}penn and" in note()
    more.unlink()
    assert alike in note()
    search("groc", 24)
    assert "Searched alike" not in note()


OUTPUT, RATE = {"output__dropout": "0.1"}, {"training__rate": "2e-3"}


@pytest.mark.parametrize(
    ("of_groc", "of_rivals", "alike"),
    [
        ([RATE], [OUTPUT], ""),  # as many trials, but of other settings
        ([{**RATE, "output__depth": "2"}], [RATE], "2 trials of 5 epochs (training.rate)"),
        ([{"output__depth": "2"}], [RATE], ""),
        ([RATE, {"output__depth": "2"}], [RATE], ""),  # a search more
        ([OUTPUT, RATE], [RATE, OUTPUT], "(output.dropout) and 2 trials of 5 epochs (training.rate)"),
        ([RATE, {**RATE, **OUTPUT}], [OUTPUT, RATE], ""),
    ],
)
def test_searches_are_alike_that_gave_all_models_as_much_for_the_same_settings(
    of_groc: list[dict[str, str]], of_rivals: list[dict[str, str]], alike: str, tmp_path: Path
) -> None:
    for model in published.MODELS:
        for changes in of_groc if model == "groc" else of_rivals:
            record_search(tmp_path, model, [trial(90, **changes)] * 2)
    rows = rows_of("hyper-parameters", tmp_path)
    assert not_tuned_alike(rows) == ([] if alike else ["penn"]) + ["wikitext-2"]
    assert alike in said_of_searches(rows)


def test_searches_over_other_values_are_not_alike(tmp_path: Path) -> None:
    for model in published.MODELS:
        slower = model == "groc"
        space = {"training.rate": ["1e-3", "4e-3"] if slower else ["2e-3", "4e-3"]}
        record_search(tmp_path, model, [trial(90, **RATE)], space=space)
    rows = rows_of("hyper-parameters", tmp_path)
    assert "Searched alike" not in said_of_searches(rows)
    assert not_tuned_alike(rows) == ["penn", "wikitext-2"]


def test_what_was_searched_for_some_models_alone_is_named(tmp_path: Path) -> None:
    for model in published.MODELS:
        more = {"training__encoder_rate": "0.1"} if model in ("adaptive", "groc") else {}
        record_search(tmp_path, model, [trial(90, **RATE, **more)])
    said = said_of_searches(rows_of("hyper-parameters", tmp_path))
    assert "along with others, for some models alone: training.encoder_rate for adaptive, groc." in said


def record_search(
    folder: Path, model: str, trials: list[dict[str, Any]], epochs: int = 5, space: dict[str, Any] | None = None
) -> Path:
    found = {"kind": "search", "name": f"penn/{model}", "trials": trials, "budget": {"epochs": epochs}}
    found |= {"space": space} if space else {}
    path = folder / f"{len(list(folder.glob('*')))}.json"
    path.write_text(to_json(found))
    return path


def trial(valid: float | None, state: str = "done", **changes: Any) -> dict[str, Any]:
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    return {"state": state, "changes": settings, "valid_perplexity": valid}


def untried_of(folder: Path) -> dict[str, str]:
    rows = rows_of("hyper-parameters", folder, dataset="penn")
    return {row["model"]: row["untried"] for row in rows if row["untried"]}


def test_what_a_search_found_and_no_long_run_has_tried_is_open(tmp_path: Path) -> None:
    """A search of short runs says what to try: until it was tried at full length, models are not tuned alike."""
    for model in published.MODELS:
        trials = [
            trial(90, training__rate="2e-3"),
            trial(95 if model == "groc" else 85, training__rate="4e-3"),
            trial(None, training__rate="6e-3"),
            trial(None, "failed", training__rate="9e-3"),
            trial(80, "pruned", training__rate="8e-3"),
        ]
        record_search(tmp_path, model, trials)
        record(tmp_path, f"penn/{model}", training__rate=2e-3, training__epochs=60)
    rivals = [model for model in published.MODELS if model != "groc"]
    found = "training.rate=4e-3 (5 trials of 5 epochs)"
    assert untried_of(tmp_path) == dict.fromkeys(rivals, found)
    said = TABLES["hyper-parameters"].markdown(rows_of("hyper-parameters", tmp_path)).rstrip()
    assert said.endswith(f"not run for as long as the row: {found} for {', '.join(rivals)}.")
    claims = (
        "On penn GroC has the lowest perplexity of the seven on the dev text",
        "On penn bilinear, deep-residual and adaptive have a lower perplexity than tied",
    )

    def doubted() -> list[bool]:
        lines = closed_claims(Results(tmp_path))
        return [UNEQUAL in next(line.why for line in lines if line.text == claim) for claim in claims]

    for path in tmp_path.glob("*.json"):
        if json.loads(path.read_text()).get("kind") != "search":
            add_test(path, 80.0)
    assert doubted() == [True, True]
    too_short = {"training__epochs": 8, "curve": (300.0, 120.0)}
    record(tmp_path, "penn/tied", training__rate=4e-3, seed=2, **too_short)
    record(tmp_path, "penn/tied", training__rate=4e-3, seed=3, training__average=0.0, curve=(300.0, 120.0))
    assert "tied" in untried_of(tmp_path)  # these are too short, and of another course
    for model in rivals:
        record(tmp_path, f"penn/{model}", training__rate=4e-3, training__epochs=60, seed=2)
    assert untried_of(tmp_path) == {}
    assert doubted() == [False, False]


@pytest.mark.parametrize(
    ("changes", "long", "found"),
    [
        ({"training__epochs": "8"}, {}, ""),  # belongs to the course
        ({"training__seed": "3", "forms__coverage": "0.4"}, {}, ""),  # no settings of a row
        ({"output__gone": "0.3"}, {}, ""),
        ({"output__activation": "tanh"}, {}, ""),  # an adaptive model has none
        ({"output__cutoffs": "1000,5000"}, {}, "output.cutoffs=1000,5000"),
        ({"output__cutoffs": "1000,5000"}, {"output__cutoffs": (1000, 5000)}, ""),
        ({"output__count_bias": "no"}, {"output__count_bias": False}, ""),
        ({"training__rate": "0.004037"}, {"training__rate": 4e-3}, ""),
        ({"training__rate": "0.005"}, {"training__rate": 4e-3}, "training.rate=0.005"),
        # Both values in one run, not in one each:
        ({"training__rate": "4e-3", "output__dropout": "0.0"}, {"training__rate": 4e-3}, ""),
        (
            {"training__rate": "4e-3", "output__dropout": "0.3"},
            {"training__rate": 4e-3},
            "training.rate=4e-3 with output.dropout=0.3",
        ),
        ({"training__rate": "much"}, {}, "training.rate=much"),
    ],
)
def test_a_value_that_a_search_found_is_looked_for_in_long_runs(
    changes: dict[str, str], long: dict[str, Any], found: str, tmp_path: Path
) -> None:
    record_search(tmp_path, "adaptive", [trial(85, **changes)])
    assert untried_of(tmp_path) == {}  # there is no row yet
    record(tmp_path, "penn/adaptive")
    record(tmp_path, "penn/adaptive", seed=2, **long)
    assert untried_of(tmp_path) == ({"adaptive": f"{found} (1 trial of 5 epochs)"} if found else {})


def test_of_a_search_the_best_that_is_small_enough_is_heard(tmp_path: Path) -> None:
    record(tmp_path, "penn/adaptive")
    cutoffs = {"1000,2000": (83, 9_500_000), "4000,6000": (84, 8_600_000), "2000,4000": (85, 8_000_000)}
    trials = [{**trial(valid, output__cutoffs=some), "parameters": size} for some, (valid, size) in cutoffs.items()]
    record_search(tmp_path, "adaptive", trials)
    assert untried_of(tmp_path) == {"adaptive": "output.cutoffs=4000,6000 (3 trials of 5 epochs)"}


def test_each_search_is_heard(tmp_path: Path) -> None:
    record(tmp_path, "penn/tied")
    record_search(tmp_path, "tied", [trial(85, training__rate="4e-3"), trial(86, training__rate="5e-3")])
    record_search(tmp_path, "tied", [trial(84, training__rate="6e-3", output__dropout="0.2")], epochs=9)
    first = "training.rate=4e-3 (2 trials of 5 epochs)"
    second = "training.rate=6e-3 with output.dropout=0.2 (1 trial of 9 epochs)"
    assert untried_of(tmp_path) == {"tied": f"{first}; {second}"}


# --- figures ------------------------------------------------------------------------------------------------------


def test_the_ends_of_learning_curves_fill_the_axis(tmp_path: Path) -> None:
    for recipe in ("penn", "wikitext2", "penn-best", "wikitext2-best"):
        record(tmp_path, f"{recipe}/tied", curve=(500.0, 100.0, 72.0), training__epochs=3)
        record(tmp_path, f"{recipe}/groc", curve=(400.0, 100.0, 70.0), training__epochs=3)
        record(tmp_path, f"{recipe}/groc", 2, curve=(400.0, 100.0, 69.5), training__epochs=3)
    figure = drawn("main", tmp_path)
    assert "first seed" in figure.get_suptitle()
    assert len(figure.axes) == 4
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert 0.9 * 70 < low < 70
        assert 72 < high < 1.6 * 70
        assert legend(axes)[:2] == ["tied 72.0", "groc 70.0"]


def test_a_curve_that_ends_high_is_still_in_sight(tmp_path: Path) -> None:
    record(tmp_path, "penn/tied", curve=(500.0, 300.0, 200.0))
    record(tmp_path, "penn/groc", curve=(400.0, 100.0, 70.0))
    axes = drawn("main", tmp_path).axes[0]
    assert 200 < axes.get_ylim()[1] < 300


def test_models_that_were_not_run_are_named_last(tmp_path: Path) -> None:
    bins = [{"from": 1, "to": 9, "loss": 5.0, "median_loss": 4.0}]
    for model in ("tied", "groc"):
        add_test(record(tmp_path, f"penn/{model}"), 70.0, bins=bins)
    add_test(record(tmp_path, "penn/lookup"), 75.0, bins=[{**bins[0], "median_loss": 4.5}])
    axes = drawn("frequency", tmp_path).axes[0]
    missing = [f"{model}: not run" for model in ("convolutional", "bilinear", "deep-residual", "adaptive")]
    assert legend(axes) == [f"{model} (difference of medians)" for model in ("lookup", "tied")] + missing
    assert "median" in axes.get_ylabel()
    named = legend(drawn("main", tmp_path).axes[0])
    assert [label.split()[0] for label in named[:3]] == ["lookup", "tied", "groc"]
    assert named[3:] == missing


def test_labels_of_four_curves_stand_apart(tmp_path: Path) -> None:
    for text in ("biomed-mtl", "europarl-v7", "news-wmt-2008-2013", "reviews-movie"):
        for model in ("tied", "groc"):
            record(tmp_path, f"news/{model}", on=text)
    figure = drawn("fine-tuning", tmp_path)
    figure.draw_without_rendering()
    assert len(figure.axes) == 4
    for parts in ([axes.xaxis.label for axes in figure.axes], [axes.title for axes in figure.axes]):
        boxes = [part.get_window_extent() for part in parts]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
        assert boxes[0].x0 > 0
        assert boxes[-1].x1 < figure.bbox.width


# --- the course of training ---------------------------------------------------------------------------------------

OLDER = {"training__rotate_streams": False, "training__final_rate": 0.01, "training__average": 0.0}
DIFFERS = {
    "schedule": "cosine to 1% (groc: cosine to 60%)",
    "average": "0 (groc: 0.9998)",
    "streams": "fixed (groc: rotated)",
}
BIN = [{"from": 1, "to": 9, "loss": 5.0, "median_loss": 4.0}]


def main_comparison(folder: Path, **of_lookup: Any) -> None:
    """Records of four rows of the main comparison: dropout and rates are each model's own, its course is not."""
    add_test(record(folder, "penn/groc"), 60.0, bins=BIN)
    add_test(record(folder, "penn/tied", prefix__word_dropout=0.4, training__rate=0.01), 70.0, bins=BIN)
    add_test(record(folder, "penn/lookup", **of_lookup), 80.0, bins=BIN)
    record(folder, "wikitext2/groc")


@pytest.mark.parametrize("name", ["main", "frequency", "speed"])
@pytest.mark.parametrize("older", [False, True])
def test_a_row_of_another_course_of_training_is_marked(name: str, older: bool, tmp_path: Path) -> None:
    main_comparison(tmp_path, **(OLDER if older else {}))
    rows = rows_of(name, tmp_path)
    assert {row["model"]: row["differs"] for row in rows if row["differs"]} == ({"lookup": DIFFERS} if older else {})
    assert all((row["differs"] is None) == (not row["runs"]) for row in rows)
    shown = TABLES[name].markdown(rows)
    assert ("| lookup * " in shown) == older
    assert ("on penn lookup, with schedule cosine to 1% (groc: cosine to 60%), average 0" in shown) == older
    assert ("The course of training is how long" in shown) == older
    assert shown.count(" * ") == older
    assert TABLES[name].said(rows) in shown


@pytest.mark.parametrize(("part", "size"), [("prefix__gate_rounds", 5), ("output__mixtures", 10)])
@pytest.mark.parametrize("richer", ["groc", "tied"])
def test_models_with_more_around_their_embeddings_are_marked_and_settle_no_claim(
    richer: str, part: str, size: int, tmp_path: Path
) -> None:
    for model in ("groc", "tied"):
        has = {part: size} if model == richer else {}
        for seed in (1, 2):
            add_test(record(tmp_path, f"penn/{model}", seed, **has), (60.0 if has else 70.0) + seed / 10)
    rows = rows_of("main", tmp_path)
    shown = TABLES["main"].markdown(rows)
    assert "| tied * " in shown
    assert f"on penn tied, with {part.replace('__', '.')} " in shown
    (claim,) = (
        claim
        for claim in closed_claims(Results(tmp_path))
        if claim.text == "On penn GroC has the lowest perplexity of the seven on the test text"
    )
    assert claim.verdict == OPEN
    assert "trained otherwise" in claim.why


def test_where_groc_was_not_run_rows_are_compared_with_the_first(tmp_path: Path) -> None:
    for model, changes in (("lookup", OLDER), ("tied", {}), ("adaptive", OLDER)):
        add_test(record(tmp_path, f"penn/{model}", **changes), 70.0)
    found = {row["model"]: row["differs"] for row in rows_of("main", tmp_path) if row["differs"]}
    assert list(found) == ["tied"]
    assert found["tied"]["streams"] == "rotated (lookup: fixed)"


def test_large_models_are_compared_with_large_ones(tmp_path: Path) -> None:
    for name in ("penn/groc", "penn/tied", "penn-best/groc", "penn-best/tied"):
        add_test(record(tmp_path, name, training__epochs=8 if "best" in name else 6), 60.0)
    assert not any(row["differs"] for row in rows_of("size", tmp_path))
    add_test(record(tmp_path, "penn-best/tied", curve=(300.0, 50.0), training__epochs=7), 60.0)
    assert [row["model"] for row in rows_of("size", tmp_path) if row["differs"]] == ["tied, best recipe"]


@pytest.mark.parametrize("name", ["main", "frequency"])
@pytest.mark.parametrize("older", [False, True])
def test_figures_mark_models_of_another_course(name: str, older: bool, tmp_path: Path) -> None:
    main_comparison(tmp_path, **(OLDER if older else {}))
    figure = drawn(name, tmp_path)
    marked = [label.split()[0] for axes in figure.axes for label in legend(axes) if " *" in label]
    assert marked == ["lookup"] * older
    assert ("had another course of training" in figure.get_supxlabel()) == older


def test_json_says_what_stands_below_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_comparison(tmp_path, **OLDER)
    assert main(["paper", "main", "--results", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "course of training" in found["note"]
    assert [row["model"] for row in found["rows"] if row["differs"]] == ["lookup"]


@pytest.mark.parametrize("otherwise", [False, True])
def test_an_ablation_with_other_settings_besides_is_named(tmp_path: Path, otherwise: bool) -> None:
    for variant in ("groc", "groc-without-relations", "groc-no-out"):
        add_test(record(tmp_path, f"penn/{variant}"), 70.0)
    dropout = 0.9 if otherwise else load_recipe("penn", "groc").prefix.word_dropout
    add_test(record(tmp_path, "penn/groc-without-both", prefix__word_dropout=dropout), 75.0)
    rows = rows_of("ablations", tmp_path, dataset="penn")
    shown = TABLES["ablations"].markdown(rows)
    assert [row["without"] for row in rows if row["differs"]] == ["both"] * otherwise
    told = "on penn output network yes, without both, with prefix.word_dropout 0.9 (groc: "
    assert (told in shown) == otherwise
    assert ("| both * " in shown) == otherwise
    assert "course of training" not in shown  # dropout is no part of it


def test_of_each_ablation_is_said_what_is_true_of_it(tmp_path: Path) -> None:
    add_test(record(tmp_path, "penn/groc"), 70.0)
    add_test(record(tmp_path, "penn/groc-without-both", prefix__word_dropout=0.9), 75.0)
    add_test(record(tmp_path, "penn/groc-without-relations", prefix__word_dropout=0.9, **OLDER), 75.0)
    said = TABLES["ablations"].said(rows_of("ablations", tmp_path))
    of_course, others = said.split(" These ")[1:]
    assert of_course.startswith("had another course of training: on penn output network yes, without relations, with ")
    assert others.startswith("were trained with other settings: on penn output network yes, without both, with prefix.")
    assert "without both" not in of_course


@pytest.mark.parametrize("otherwise", [False, True])
def test_a_model_trained_otherwise_is_named_in_the_table_of_coverage(tmp_path: Path, otherwise: bool) -> None:
    add_test(record(tmp_path, "penn/groc"), 70.0)
    add_test(record(tmp_path, "penn/groc", forms__coverage=0.2), 72.0)
    dropout = {"forms__relations_dropout": 0.5, "forms__definition_dropout": 0.5}
    add_test(record(tmp_path, "penn/groc-robust", training__random_unroll=otherwise, **dropout), 71.0)
    told = "on penn groc with forms dropout, at inference, with batch 40 x about 35 (groc: 40 x 35)."
    assert (told in TABLES["coverage"].markdown(rows_of("coverage", tmp_path))) == otherwise


# --- devices ------------------------------------------------------------------------------------------------------


def test_a_device_that_all_rows_share_is_named_once(tmp_path: Path) -> None:
    record(tmp_path, "penn/groc")
    path = record(tmp_path, "penn/tied")
    shown = TABLES["main"].markdown(rows_of("main", tmp_path))
    assert "device" not in shown.splitlines()[0]
    assert shown.count("CPU, float32") == 1
    path.write_text(path.read_text().replace("CPU, float32", "NVIDIA H200"))
    lines = TABLES["main"].markdown(rows_of("main", tmp_path)).splitlines()
    assert lines[0].endswith("| device |")
    letters = {line.split("|")[2].strip(): line.split("|")[-2].strip() for line in lines[2:9]}
    assert (letters["tied"], letters["groc"], letters["lookup"]) == ("A", "B", "")
    assert "Device: A NVIDIA H200; B CPU, float32." in lines


def test_each_of_many_devices_has_letters_of_its_own(tmp_path: Path) -> None:
    record(tmp_path, "penn/groc")
    row = next(row for row in rows_of("main", tmp_path) if row["runs"])
    shown = TABLES["main"].markdown([{**row, "device": f"GPU {n}"} for n in range(28)])
    assert "Y GPU 24; Z GPU 25; AA GPU 26; AB GPU 27." in shown
    assert [line.split("|")[-2].strip() for line in shown.splitlines()[27:30]] == ["Z", "AA", "AB"]


def test_a_difference_of_nothing_has_no_sign() -> None:
    assert (shown_as(-0.001, "gain"), shown_as(-0.01, "gain")) == ("0.00", "-0.01")


# --- what is open -------------------------------------------------------------------------------------------------


def test_what_is_open_follows_from_the_records(tmp_path: Path) -> None:
    page = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "results.py"))

    def said() -> str:
        return "\n".join(page["open_questions"](Results(tmp_path)))

    def settings() -> list[list[str]]:
        """All of penn's, and of the course that is shown: of lookup, convolutional and tied."""
        lines = page["settings_run"](Results(tmp_path)).splitlines()
        return [line.replace("|", " ").split()[2:4] for line in lines[4:7]]

    main_comparison(tmp_path, **OLDER)
    before = said()
    assert "course of training that GroC has: on penn lookup." in before
    assert "Run with one seed alone: on penn lookup, tied, groc; on wikitext-2 groc." in before
    assert settings() == [["1", "1"], ["0", "0"], ["1", "1"]]
    line = page["settings_run"](Results(tmp_path)).splitlines()[3]
    assert [cell.endswith(":") for cell in line.strip("|").split("|")] == [False] * 2 + [True] * 5  # names, and numbers
    assert "Not run of `groc paper coverage`: 16 on penn." in before
    assert "Not compared with GroC word by word: on penn lookup, tied." in before
    for model in published.MODELS:
        for dropout in (0.6, 0.7):
            for seed in (1, 2):
                record(tmp_path, f"penn/{model}", seed, curve=(70.0, 50.0, 50.1), prefix__word_dropout=dropout)
    after = said()
    assert "that GroC has" not in after
    assert "Run with one seed alone: on wikitext-2 groc." in after
    assert settings() == [["3", "2"], ["2", "2"], ["3", "3"]]
    assert "Best at the last epoch, so that longer training may help: on wikitext-2 groc." in after


def test_retrained_models_of_another_course_say_nothing_of_coverage(tmp_path: Path) -> None:
    def retrained() -> str:
        return claim_of(tmp_path, "Retrained")

    add_test(record(tmp_path, "penn/groc"), 70.0)
    add_test(record(tmp_path, "penn/groc", forms__coverage=0.2, **OLDER), 90.0)
    assert "**open** (not run" in retrained()
    add_test(record(tmp_path, "penn/groc", curve=(70.0, 60.0), forms__coverage=0.2), 71.0)
    assert "true in 1 of 1" in retrained()


def claim_of(folder: Path, start: str) -> str:
    return next(said_of(claim) for claim in closed_claims(Results(folder)) if claim.text.startswith(start))


def test_groc_with_the_papers_encoder_is_judged_on_its_own(tmp_path: Path) -> None:
    characters = "On penn GroC with the paper's encoder"
    for name, test in (("groc", 60.0), ("tied", 70.0)):
        for seed in (1, 2):
            add_test(record(tmp_path, f"penn/{name}", seed), test + seed)
    assert "**open** (not run" in claim_of(tmp_path, characters)
    add_test(record(tmp_path, "penn/groc-characters", **OLDER), 50.0)
    assert "**open** (not run" in claim_of(tmp_path, characters)  # trained otherwise than GroC was
    add_test(record(tmp_path, "penn/groc-characters", curve=(80.0, 79.0)), 90.0)
    assert "not: tied; 5 not run; with characters 90.0, tied 71.5" in claim_of(tmp_path, characters)
    assert "true in 1 of 1 comparisons; 5 not run; groc 61.5" in claim_of(tmp_path, "On penn GroC has the lowest")


@pytest.mark.parametrize(
    ("name", "changes", "start"),
    [
        ("penn/groc-characters", {}, "On penn GroC with the paper's encoder"),
        ("penn/groc", {"training__full_updates": 0.3}, "On penn GroC with a full update in three of ten"),
    ],
)
def test_other_models_are_judged_by_the_spread_of_groc_too(
    name: str, changes: dict[str, Any], start: str, tmp_path: Path
) -> None:
    for seed in (1, 2):
        add_test(record(tmp_path, "penn/tied", seed), 70.0 + 0.1 * seed)
        add_test(record(tmp_path, "penn/groc", seed), 60.0 + 2 * seed)
    add_test(record(tmp_path, name, **changes), 68.0)
    assert f"**{OPEN}** ({NEAR}: tied; 5 not run" in claim_of(tmp_path, start)


def test_what_groc_costs_is_judged(tmp_path: Path) -> None:
    sparse, size = "On penn GroC with a full update in three of ten", "On penn GroC has no more parameters"
    for seed in (1, 2):
        add_test(record(tmp_path, "penn/tied", seed), 70.0 + seed)
    add_test(record(tmp_path, "penn/groc", training__full_updates=0.3), 80.0)
    assert "not: tied; 5 not run; groc, p = 0.3 80.0, tied 71.5" in claim_of(tmp_path, sparse)
    groc = record(tmp_path, "penn/groc")
    assert "**open** (true in 1 of 1 comparisons; 4 not run" in claim_of(tmp_path, size)
    larger = json.loads(groc.read_text())
    larger["figures"]["parameters"] = 2_000_000
    groc.write_text(json.dumps(larger))
    assert "not: tied; 4 not run; tied 1.0M, groc 2.0M" in claim_of(tmp_path, size)
    longer = "takes longer to train than convolutional"
    of_characters, of_ngrams = (
        f"On penn GroC with {name} {longer}" for name in ("the paper's encoder of characters", "our n-grams")
    )
    assert all("**open** (not run)" in claim_of(tmp_path, claim) for claim in (of_characters, of_ngrams))
    steps = {"tied": 2.0, "convolutional": 3.0, "groc, characters": 4.0, "groc": 2.5}
    models = [{"model": name, "step": step} for name, step in steps.items()]
    bench = {"sizes": {"penn": {"models": models}}, "device": "GPU", "date": "2026-01-01", "settings": []}
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    assert "**holds** (groc with characters 5.3 s an epoch, convolutional 4.0)" in claim_of(tmp_path, of_characters)
    assert "**does not hold in these runs** (groc 3.3 s an epoch" in claim_of(tmp_path, of_ngrams)


def test_figures_read_with_something_have_no_dev(tmp_path: Path) -> None:
    """The dev text was read without it."""
    path = record(tmp_path, "penn-best/groc")
    add_test(path, 60.0)
    add_test(path, 50.0, dynamic={"rate": 1})
    found = {
        row["model"]: (row["dev"], row["test"]) for row in rows_of("size", tmp_path, dataset="penn") if row["runs"]
    }
    assert found == {"groc, best recipe": (80.0, 60.0), "groc, best recipe, dynamic evaluation": (None, 50.0)}
    (row,) = rows_of("hyper-parameters", tmp_path, dataset="penn", model="groc, best recipe")
    assert (row["dev"], row["test"]) == (80.0, 60.0)


def test_settings_count_where_they_were_trained_to_the_end_alone_or_bundled(tmp_path: Path) -> None:
    page = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "results.py"))

    def counted() -> list[str]:
        """All settings of tied on penn, and those of the course that is shown."""
        lines = page["settings_run"](Results(tmp_path)).splitlines()
        cells = ([cell.strip() for cell in line.split("|")] for line in lines)
        (found,) = (row[3:5] for row in cells if row[1:3] == ["penn", "tied"])
        return found

    record(tmp_path, "penn/tied")
    record(tmp_path, "penn/tied", curve=(300.0, 200.0), training__epochs=20, training__rate=0.01)
    assert counted() == ["1", "1"]
    others = [record(tmp_path, "penn/tied", prefix__word_dropout=dropout) for dropout in (0.6, 0.7)]
    alone = counted()
    assert alone == ["3", "3"]
    runs = {path.stem: json.loads(path.read_text()) for path in others}
    for path in others:
        path.unlink()
    assert counted() == ["1", "1"]
    (tmp_path / "together.json").write_text(json.dumps({"kind": "levels", "runs": runs}))
    assert counted() == alone
    lowest = "On penn GroC has the lowest perplexity of the seven on the test"
    add_test(record(tmp_path, "penn/groc"), 60.0)
    add_test(record(tmp_path, "penn/tied", seed=2), 70.0)
    assert "settings run as long: lookup 0, convolutional 0, tied 3, bilinear 0," in claim_of(tmp_path, lowest)
    # One that is too large for the row is no setting of it.
    runs[others[0].stem]["figures"]["parameters"] = 20_000_000
    (tmp_path / "together.json").write_text(json.dumps({"kind": "levels", "runs": runs}))
    assert counted() == ["2", "2"]
    (row,) = rows_of("main", tmp_path, dataset="penn", model="tied")
    assert row["runs"] == 2
