"""The cross-domain comparison from end to end, with models of a few numbers: every row, once, and right."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import NEW_WORDS, TRAIN_WORDS, as_pairs, sentences, snapshot, tiny_settings

from groc import checkpoint
from groc.adaptation.heldout import Choice
from groc.cli import main
from groc.corpus import Corpus
from groc.paper import TABLES, Results, crossing, opening
from groc.paper.crossing import CACHES, CLOSED_WAYS, LESS, OPEN_WAYS, RATES
from groc.recipe import variant_names
from groc.running import LOCK, START
from groc.scoring import score

TEXTS = {
    "news": {"train": 150, "valid": 15, "test": 15},
    "news-wmt-2008": {"valid": 15, "test": 15},
    "news-wmt-2008-2013": {"train": 30, "valid": 8},
    "news-wmt-2018": {"test": 15},
    "wikitext-2": {"train": 30, "valid": 8, "test": 15},
}
FIRST = 40
Row = dict[str, Any]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    for number, (name, splits) in enumerate(TEXTS.items()):
        (folder / name).mkdir()
        for split, lines in splits.items():
            words = TRAIN_WORDS if (name, split) == ("news", "train") else [*TRAIN_WORDS, *NEW_WORDS]
            text = " ".join(words) + "\n" + sentences(lines, words, 10 * number + lines)
            (folder / name / f"{split}.txt").write_text(text, encoding="utf-8")
    return folder


Rows = dict[tuple[str, str], Row]
WHOLE = [name for name, splits in TEXTS.items() if "test" in splits]
ROWS = {"tied": [*CLOSED_WAYS], "groc": [*OPEN_WAYS, *LESS]}


@pytest.fixture(scope="module")
def settings(glossary_file: Path) -> list[str]:
    left_out = ("name", "output.kind", "output.depth", "output.dropout")
    changes = {**tiny_settings(), "forms.lexicon": str(glossary_file), "training.epochs": 1}
    return as_pairs({key: value for key, value in changes.items() if key not in left_out})


@pytest.fixture(scope="module", autouse=True)
def small_numbers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossing, "FIRST", FIRST)
        patch.setattr(crossing, "FIRST_TUNED", 30)
        patch.setattr(opening, "Choice", lambda: Choice(words=2, least=5, most=200, lines=4))
        yield


def run(folder: Path, corpora: Path, settings: list[str], table: str, *options: str) -> int:
    folders = ["--corpus-root", str(corpora), "--runs", str(folder / "runs"), "--results", str(folder / "results")]
    return main(["paper", table, "--run", *folders, *options, *settings])


@pytest.fixture(scope="module")
def filled(corpora: Path, settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything was run there."""
    folder = tmp_path_factory.mktemp("filled")
    assert run(folder, corpora, settings, "cross-domain") == 0
    return folder


@pytest.fixture(scope="module")
def rows(filled: Path) -> Rows:
    return {(row["domain"], row["model"]): row for row in rows_of("cross-domain", filled)}


def rows_of(table: str, folder: Path) -> list[Row]:
    return TABLES[table].rows(Results(folder / "results"))


def evaluations_of(path: Path) -> dict[str, Row]:
    found: dict[str, Row] = json.loads(path.read_text(encoding="utf-8"))["evaluations"]
    return found


def named(model: str, way: str) -> str:
    return f"{model}+{way}" if way else model


def record_of(folder: Path, model: str, on: str = "") -> Path:
    (record,) = (folder / "runs").glob(f"news-{model}-*-seed1{f'-on-{on}-*' if on else ''}/result.json")
    return record


def test_every_row_is_there(rows: Rows, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {(domain, named(model, way)) for model, ways in ROWS.items() for way in ways for domain in WHOLE}
    wanted |= {(domain, f"{model}+finetuned") for model in ROWS for domain in ("news-wmt-2018", "wikitext-2")}
    first = [f"{domain}, first {FIRST} tokens" for domain in WHOLE]
    wanted |= {(part, named(model, way)) for model in ROWS for way in ("", *CACHES, "dynamic") for part in first}
    assert set(rows) == wanted
    assert all(1 < row["test"] < 1e4 for row in rows.values())
    assert main(["paper", "cross-domain", "--results", str(filled / "results"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["rows"]
    assert len(printed) == len(rows)
    assert all({"domain", "model", "test", "unseen_loss", "oov"} <= set(row) for row in printed)


def test_all_models_choose_among_the_same_words(rows: Rows) -> None:
    for domain in WHOLE:
        of_domain = [row for (name, _), row in rows.items() if name == domain]
        assert len({(round(row["oov"], 9), row["vocabulary"]) for row in of_domain}) == 1
        assert of_domain[0]["oov"] > 0


def test_what_is_told_of_new_words_counts(rows: Rows) -> None:
    assert len({rows["wikitext-2", f"groc{way}"]["unseen_loss"] for way in ("", "+memory", "+without both")}) == 3


@pytest.mark.parametrize("of_older_caches", [False, True])
def test_what_is_recorded_is_not_done_again_and_what_is_lost_or_of_caches_of_another_kind_is(
    filled: Path, corpora: Path, settings: list[str], of_older_caches: bool
) -> None:
    before = snapshot(filled)
    assert run(filled, corpora, settings, "cross-domain") == 0
    assert snapshot(filled) == before
    record = record_of(filled, "groc")
    content = json.loads(record.read_text())
    texts = ("wikitext-2/test", "news-wmt-2008/valid") if of_older_caches else ("wikitext-2/test",)
    lost = [name for name in content["evaluations"] if name.startswith(texts) and ", local" in name]
    assert len(lost) == 1 + len(texts)
    kept = {name: content["evaluations"].pop(name) for name in lost}
    if of_older_caches:
        older = [{key: value for key, value in kept[lost[0]]["caches"][0].items() if key != "likeness"}]
        content["evaluations"] |= {name: {**figures, "loss": 0.0, "caches": older} for name, figures in kept.items()}
    record.write_text(json.dumps(content))
    assert run(filled, corpora, settings, "cross-domain") == 0
    for name, figures in kept.items():
        found = evaluations_of(record)[name]
        assert found["loss"] == pytest.approx(figures["loss"], rel=1e-6)
        assert found["caches"][0]["likeness"] == "angle"


def test_fine_tuning_that_was_killed_before_its_first_save_is_begun_anew(
    filled: Path, corpora: Path, settings: list[str]
) -> None:
    record = record_of(filled, "tied", "wikitext-2")
    (filled / "results" / f"{record.parent.name}.json").unlink()
    before = json.loads(record.read_text())["figures"]["valid_perplexity"]
    for path in record.parent.iterdir():
        if path.name not in (LOCK, *START):
            path.unlink()
    assert run(filled, corpora, settings, "cross-domain") == 0
    assert json.loads(record.read_text())["figures"]["valid_perplexity"] == before


def test_a_row_is_what_eval_gives_with_the_recorded_values(
    filled: Path, corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = record_of(filled, "groc")
    found = evaluations_of(record).items()
    (figures,) = (
        f for name, f in found if name.startswith("wikitext-2/test") and ", local" in name and not f.get("first")
    )
    (cache,) = figures["caches"]
    options = [
        "--cache",
        "local",
        "--lambda",
        cache["lambda"],
        "--theta",
        cache["theta"],
        "--cache-size",
        cache["size"],
    ]
    options += ["--new-words", figures["novelty"], "--sharpness", figures["sharpness"]]
    arguments = ["eval", record.parent, corpora / "wikitext-2", "--json", "--device", "cpu", *options]
    assert main(list(map(str, arguments))) == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(figures["loss"], rel=1e-5)
    assert figures["tuned_on"] == "news-wmt-2008/valid"
    assert str(corpora) not in record.read_text()


def test_fine_tuned_models_choose_among_the_source_s_words_and_the_text_s(
    filled: Path, corpora: Path, rows: Rows
) -> None:
    record = record_of(filled, "tied", on="wikitext-2")
    (figures,) = evaluations_of(record).values()
    model, text = checkpoint.load(record.parent).model, Corpus(corpora / "wikitext-2").text("test")
    source = Corpus(corpora / "news").vocabulary()
    model.set_vocabulary(source.union(text.types))
    assert len(model.trained) > len(source)
    model.uniform = 1 - figures["uniform_mixed_in"]
    loss = -score(model, text.ids(model.vocabulary)).log_prob
    unseen = np.array([word not in source for word in text.types])[text.codes]
    assert figures["loss"] == pytest.approx(loss.mean(), rel=1e-5)
    assert rows["wikitext-2", "tied+finetuned"]["unseen_loss"] == pytest.approx(loss[unseen].mean(), rel=1e-5)


def test_the_other_tables_are_of_the_same_records(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("unseen", "caches", "domains"):
        assert main(["paper", name, "--results", str(filled / "results")]) == 0
        out = capsys.readouterr().out
        assert "not evaluated" not in out
        assert not re.search(r"\|\s+\|", out.replace("|\n|", ""))
    assert [row["domain"] for row in rows_of("unseen", filled)] == WHOLE
    assert {row["text"] for row in rows_of("caches", filled)} == {"news-wmt-2008/valid"}
    tied = [row for row in rows_of("fine-tuning", filled) if row["model"] == "tied"]
    assert [row["domain"] for row in tied] == ["wikitext-2", "news-wmt-2008-2013"]
    assert all(row["to_tied"] == row["updates"] and row["source_after"] for row in tied)
    assert len(list((filled / "runs").glob("news-tied-*-on-news-wmt-2008-2013-*"))) == len(RATES)


def test_a_person_sees_a_line_a_domain(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "cross-domain", "--results", str(filled / "results")]) == 0
    _, whole, first, runs, *_ = capsys.readouterr().out.split("\n\n")
    assert whole.count("\n") == first.count("\n") == len(WHOLE) + 1
    assert "dynamic" not in whole
    assert "| tied+dynamic |" in first
    assert runs == "Runs: tied 1, groc 1 (CPU, float32)."
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in whole.split("\n"))
    tuned = {line[0]: line[head.index("tied+finetuned")] for line in lines}
    assert [domain for domain, cell in tuned.items() if cell == "-"] == ["news", "news-wmt-2008"]
    assert "not run" not in whole + first


@pytest.mark.parametrize(
    ("asked", "columns"),
    [
        ("groc+without both", ["groc+without both"]),
        ("groc groc+without both", ["groc", "groc+without both"]),
        ("tied+*", ["tied", "tied+unigram", "tied+local", "tied+unbounded", "tied+finetuned"]),
        (
            "groc+*",
            [
                "groc",
                *(f"groc+{way}" for way in (*CACHES, "memory", "finetuned")),
                *(f"groc+{way}" for way in sorted(LESS)),
            ],
        ),
    ],
)
def test_some_models_can_be_asked_for(
    asked: str, columns: list[str], filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [f"--model={name}" for name in re.split(r" (?=groc)", asked)]
    assert main(["paper", "cross-domain", "--results", str(filled / "results"), *models]) == 0
    whole = capsys.readouterr().out.split("\n\n")[1]
    assert [cell.strip() for cell in whole.partition("\n")[0].strip("|").split("|")] == ["domain", "oov", *columns]
    assert whole.count("\n") == len(WHOLE) + 1


def test_a_domain_is_picked_with_its_first_tokens(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What learns while it reads was measured on these alone."""

    def picked(*options: str) -> str:
        command = ["paper", "cross-domain", "--results", str(filled / "results"), "--dataset", "wikitext-2", *options]
        assert main(command) == 0
        return capsys.readouterr().out

    assert "| tied+dynamic |" in picked()
    assert f"| wikitext-2, first {FIRST} tokens |" in picked("--model", "tied+dynamic")
    assert main(["paper", "cross-domain", "--results", str(filled / "results"), "--dataset", "wiki"]) == 1
    assert "has no dataset wiki: choose from news, news-wmt-2008, news-wmt-2018, wikitext-2." in capsys.readouterr().err


def test_a_cell_that_is_not_run_says_so(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = shutil.copytree(filled / "results", tmp_path / "results")
    (gone,) = results.glob("**/news-groc-*-on-wikitext-2-*")
    gone.unlink()
    assert main(["paper", "cross-domain", "--results", str(results)]) == 0
    (line,) = (line for line in capsys.readouterr().out.split("\n") if line.startswith("| wikitext-2 "))
    assert line.count("not run") == 1
    assert line.endswith("not run |")
    assert ("wikitext-2", "groc+finetuned") not in {
        (row["domain"], row["model"]) for row in TABLES["cross-domain"].rows(Results(results))
    }


def test_only_what_is_named_is_run(tmp_path: Path, corpora: Path, settings: list[str]) -> None:
    assert run(tmp_path, corpora, settings, "cross-domain", "--model", "tied+local", "--dataset", "wikitext-2") == 0
    found = {(row["domain"], row["model"]) for row in rows_of("cross-domain", tmp_path)}
    assert found == {("wikitext-2", "tied+local"), (f"wikitext-2, first {FIRST} tokens", "tied+local")}


def test_held_out_words_have_a_table_and_no_row_elsewhere(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, corpora, settings, "held-out") == 0
    (trained,) = (tmp_path / "runs").glob("news-held-out-*")
    assert f"  {trained.name}: news-held-out, 1 epoch" in capsys.readouterr().err.splitlines()
    rows = rows_of("held-out", tmp_path)
    assert [row["model"] for row in rows] == ["groc"] * 7
    assert rows[0]["gain"] == 0
    told = {row["told"]: row for row in rows}
    assert told["definition"]["loss"] != told["another word's definition"]["loss"]
    assert all(row["low"] <= row["gain"] <= row["high"] and row["closed_share"] > row["even_odds"] for row in rows)
    assert not rows_of("cross-domain", tmp_path)
    before = snapshot(tmp_path)
    assert run(tmp_path, corpora, settings, "held-out") == 0
    assert snapshot(tmp_path) == before


def test_words_that_were_held_out_are_scored_by_open_models_alone(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, corpora, settings, "held-out", "--model", "tied") == 1
    assert "There is no 'tied' to run here: choose from groc, " in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_all_rows_of_a_model_have_one_name(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Such that models can be run at the same time, each by a command of its own."""
    assert run(tmp_path, corpora, settings, "cross-domain", "--model", "tied+*", "--dataset", "wikitext-2") == 0
    said = [line.split() for line in capsys.readouterr().err.splitlines() if line.startswith("  news-tied")]
    planned = [(name.rstrip(":"), corpus.rstrip(","), epochs) for name, corpus, epochs, _ in said]
    assert [(corpus, epochs) for _, corpus, epochs in planned] == [
        ("news", "1"),
        *[("news-wmt-2008-2013", "3")] * len(RATES),
        ("wikitext-2", "3"),
    ]
    trained = {path.name for path in (tmp_path / "runs").iterdir()}
    assert all(any(fnmatch(name, pattern) for name in trained) for pattern, *_ in planned)
    assert len(trained) == len(planned)
    found = {row["model"] for row in rows_of("cross-domain", tmp_path) if row["domain"].startswith("wikitext-2")}
    assert found == {"tied", "tied+unigram", "tied+local", "tied+unbounded", "tied+dynamic", "tied+finetuned"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--dataset", "wikitext-3"], "wikitext-2"),
        (["--dataset", "news-wmt-2009"], "news-wmt-2018"),  # not in this folder
        (["--model", "groc+locale"], "groc+local"),
        (["--model", "tied+memory"], "tied+dynamic"),
    ],
)
def test_what_is_not_there_is_named(
    options: list[str],
    reason: str,
    tmp_path: Path,
    corpora: Path,
    settings: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, corpora, settings, "cross-domain", *options) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_the_source_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], glossary_file: Path
) -> None:
    where = ["--corpus-root", str(tmp_path), "--results", str(tmp_path / "results")]
    assert main(["paper", "domains", "--run", *where, f"forms.lexicon={glossary_file}"]) == 1
    assert "docs/data.md" in capsys.readouterr().err


def some_of(corpora: Path, folder: Path, *names: str) -> Path:
    """A folder with some of the corpora."""
    for name in names:
        shutil.copytree(corpora / name, folder / name)
    return folder


def test_texts_that_came_later_are_measured_too(tmp_path: Path, corpora: Path, settings: list[str]) -> None:
    root = some_of(corpora, tmp_path / "root", "news", "news-wmt-2008")
    options = ["--model", "tied", "--dataset", "news-wmt-2008"]
    assert run(tmp_path, root, settings, "cross-domain", *options) == 0
    assert [row["domain"] for row in rows_of("domains", tmp_path)] == ["news, training text", "news", "news-wmt-2008"]
    some_of(corpora, root, "wikitext-2")
    assert run(tmp_path, root, settings, "cross-domain", *options) == 0
    assert [row["domain"] for row in rows_of("domains", tmp_path)][2:] == ["news-wmt-2008", "wikitext-2"]
    shutil.rmtree(root / "wikitext-2")  # what was measured stays
    some_of(corpora, root, "news-wmt-2018")
    assert run(tmp_path, root, settings, "cross-domain", *options) == 0
    later = [row["domain"] for row in rows_of("domains", tmp_path)][2:]
    assert later == ["news-wmt-2008", "news-wmt-2018", "wikitext-2"]


def test_the_text_for_tuning_is_missed_before_anything_is_trained(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = some_of(corpora, tmp_path / "root", "news", "wikitext-2")
    assert run(tmp_path, root, settings, "cross-domain") == 1
    said = capsys.readouterr().err
    assert "no folder news-wmt-2008 with a valid text" in said
    assert "docs/data.md" in said
    assert not (tmp_path / "runs").exists()


def test_rows_that_cannot_be_fine_tuned_are_named_and_the_others_filled(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = some_of(corpora, tmp_path / "root", "news", "news-wmt-2008", "wikitext-2")
    options = ["--model", "tied", "--model", "tied+finetuned"]
    assert run(tmp_path, root, settings, "cross-domain", *options, "--dataset", "wikitext-2") == 0
    (line,) = (line for line in capsys.readouterr().err.split("\n") if "news-wmt-2008-2013" in line)
    assert "docs/data.md" in line
    assert "tied+finetuned" in line
    found = {row["model"] for row in rows_of("cross-domain", tmp_path) if row["domain"] == "wikitext-2"}
    assert found == {"tied"}
    assert run(tmp_path, root, settings, "cross-domain", *options, "--dataset", "news-wmt-2008") == 0
    assert "news-wmt-2008-2013" not in capsys.readouterr().err  # no model is fine-tuned for that


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        ("file/a.png", "file is no folder"),
        ("file/b/a.png", "file is no folder"),
        ("folder", "folder is a folder"),
        ("folder/", "folder/ is a folder"),
        ("nowhere/", "nowhere/ is a folder"),
        (f"{'long' * 99}.png", "cannot be written"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(
    figure: str,
    reason: str,
    filled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    assert main(["paper", "cross-domain", "--results", str(filled / "results"), "--figure", figure]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert reason in printed.err
    assert {path.name for path in tmp_path.rglob("*")} == {"file", "folder"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_figure_is_not_drawn_into_a_locked_folder(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    figure = str(tmp_path / "locked" / "a.png")
    assert main(["paper", "cross-domain", "--results", str(filled / "results"), "--figure", figure]) == 1
    assert "locked is no folder that can be written to" in capsys.readouterr().err


@pytest.mark.parametrize("table", ["cross-domain", "held-out"])
def test_where_records_go_is_looked_at_before_anything_is_run(
    table: str, tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").touch()
    assert run(tmp_path, corpora, settings, table) == 1
    assert "results is a file: name the folder of results" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_where_a_figure_goes_is_looked_at_before_anything_is_run(
    tmp_path: Path, corpora: Path, settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, corpora, settings, "cross-domain", "--figure", f"{tmp_path}/") == 1
    assert "is a folder" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_the_recipe_has_the_rivals() -> None:
    assert {"tied", "groc"} <= set(variant_names("news"))
