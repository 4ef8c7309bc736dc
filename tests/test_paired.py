"""Two models on one text, word by word: a naive twin, signs, what is refused, what is recorded and what tables show."""

from __future__ import annotations

import json
import runpy
import shutil
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TRAIN_WORDS, as_pairs, snapshot, tiny_settings
from test_paper_tables import add_test, drawn, legend, record, rows_of, said_of

from groc import checkpoint
from groc.cli import main
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.paired import BLOCK, DRAWS, SEED, compare, interval
from groc.paper import TABLES, Results
from groc.paper.claims import closed_claims
from groc.results import add_paired
from groc.scoring import Scores
from groc.vocabulary import END, Vocabulary

Row = dict[str, Any]


@pytest.fixture(scope="module")
def runs(corpus_folder: Path, glossary_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An open and a closed model of one corpus, and a closed one of another whose words are fewer."""
    folder = tmp_path_factory.mktemp("runs")
    smaller = shutil.copytree(corpus_folder, folder / "smaller")
    (smaller / "train.txt").write_text(" ".join([*TRAIN_WORDS[:12], "zebra"]) + "\n", encoding="utf-8")
    made = {}
    for name, kind, corpus in (
        ("groc", "groc", corpus_folder),
        ("tied", "tied", corpus_folder),
        ("other", "tied", smaller),
    ):
        settings = {**tiny_settings(kind), "name": f"tiny/{name}", "forms.lexicon": str(glossary_file)}
        made[name] = folder / name
        arguments = ["--corpus", str(corpus), "--out", str(made[name]), *as_pairs({**settings, "training.epochs": 1})]
        assert main(["train", "tiny", *arguments]) == 0
    return made


def compared(capsys: pytest.CaptureFixture[str], run: Path, other: Path, corpus: Path, *options: str) -> Row:
    capsys.readouterr()
    assert main(["eval", str(run), str(corpus), "--against", str(other), "--json", *options]) == 0
    found: Row = json.loads(capsys.readouterr().out)
    return found


# --- what is compared -------------------------------------------------------------------------------------------------


def losses_word_by_word(model: LanguageModel, words: list[str], tokens: list[str]) -> list[float]:
    """As one would first write it: a word is read, then the next one is looked up among all."""
    counts = dict(zip(model.trained.words, model.trained.counts.tolist(), strict=True))
    model.set_vocabulary(Vocabulary(words, [counts.get(word, 0) for word in words]))
    losses, state, last = [], model.prefix.start(1), END
    with torch.inference_mode():
        for token in tokens:
            prefix, state = model.read(model.embeddings, torch.tensor([[words.index(last)]]), state)
            losses.append(-float(model.log_probs(model.embeddings, prefix.dropped[0])[0, words.index(token)]))
            last = token
    return losses


@pytest.mark.parametrize("other", ["tied", "other"])
def test_figures_are_those_of_a_loop_over_words(
    other: str, runs: dict[str, Path], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (corpus_folder / "test.txt").read_text(encoding="utf-8").splitlines()
    tokens = [word for line in lines for word in (*line.split(), END)]
    mine, theirs = (checkpoint.load(runs[name]).model for name in ("groc", other))
    words = sorted({*mine.trained, *theirs.trained, *tokens})
    counts = {word: mine.trained.counts[i] for i, word in enumerate(mine.trained)}
    pairs = zip(*(losses_word_by_word(model, words, tokens) for model in (mine, theirs)), strict=True)
    gains = [loss_of_other - loss for loss, loss_of_other in pairs]
    found = compared(capsys, runs["groc"], runs[other], corpus_folder)
    assert found["vocabulary"] == len(words)
    ends = [*((row["from"], row["to"]) for row in found["bins"]), (0, None)]
    for row, (start, end) in zip([*found["bins"], found], ends, strict=True):
        inside = [
            gain
            for gain, token in zip(gains, tokens, strict=True)
            if start <= counts.get(token, 0) and (end is None or counts.get(token, 0) <= end)
        ]
        assert row["tokens"] == len(inside)
        assert row["lower"] == sum(gain > 0 for gain in inside) / len(inside)
        assert row["mean"] == pytest.approx(statistics.mean(inside), abs=1e-5)
        assert row["median"] == pytest.approx(statistics.median(inside), abs=1e-5)
    assert sum(row["tokens"] for row in found["bins"]) == found["tokens"] == len(tokens)


def test_the_mean_is_the_difference_of_the_usual_losses(
    runs: dict[str, Path], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, runs["groc"], runs["tied"], corpus_folder, "--split", "valid")
    usual = []
    for name in ("tied", "groc"):
        assert main(["eval", str(runs[name]), str(corpus_folder), "--split", "valid", "--json"]) == 0
        usual.append(json.loads(capsys.readouterr().out))
    assert found["mean"] == pytest.approx(usual[0]["loss"] - usual[1]["loss"], abs=1e-9)
    assert [row["tokens"] for row in found["bins"]] == [row["tokens"] for row in usual[1]["bins"]]
    assert found["protocol"] == usual[1]["protocol"]


def test_identical_models_differ_nowhere(
    runs: dict[str, Path], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = shutil.copytree(runs["groc"], tmp_path / "twin")
    found = compared(capsys, runs["groc"], twin, corpus_folder)
    for row in (found, *found["bins"]):
        assert (row["lower"], row["mean"], row["median"]) == (0.0, 0.0, 0.0)
    assert (found["low"], found["high"]) == (0.0, 0.0)


def test_swapping_the_models_changes_signs(
    runs: dict[str, Path], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = compared(capsys, runs["groc"], runs["tied"], corpus_folder)
    other = compared(capsys, runs["tied"], runs["groc"], corpus_folder)
    assert len(one["bins"]) == len(other["bins"]) > 1
    for row, swapped in zip((one, *one["bins"]), (other, *other["bins"]), strict=True):
        assert (row["mean"], row["median"]) == pytest.approx((-swapped["mean"], -swapped["median"]))
        assert row["lower"] == pytest.approx(1 - swapped["lower"])
    assert (one["low"], one["high"]) == pytest.approx((-other["high"], -other["low"]))
    assert one["low"] < one["mean"] < one["high"]


def test_the_interval_is_that_of_drawn_blocks() -> None:
    gains = np.random.default_rng(3).normal(0.1, 1.0, 4 * BLOCK + 30)
    random, means = np.random.default_rng(SEED), []
    blocks = [gains[start : start + BLOCK].tolist() for start in range(0, len(gains), BLOCK)]
    for _ in range(DRAWS):
        drawn_tokens = [gain for i in random.integers(5, size=5) for gain in blocks[i]]
        means.append(sum(drawn_tokens) / len(drawn_tokens))
    means.sort()
    low, high = interval(gains)
    assert low is not None
    assert high is not None
    rounding = 1e-12
    assert means[24] - rounding <= low <= means[25] + rounding
    assert means[974] - rounding <= high <= means[975] + rounding
    assert interval(gains) == (low, high)
    assert interval(gains[:BLOCK]) == (None, None)


def test_neighbours_stay_together() -> None:
    """What comes in runs is less certain than the same differences in any order."""
    gains = np.repeat(np.random.default_rng(1).normal(size=50), BLOCK)
    (low, high), (mixed_low, mixed_high) = interval(gains), interval(np.random.default_rng(2).permutation(gains))
    assert None not in (low, high, mixed_low, mixed_high)
    assert high - low > 3 * (mixed_high - mixed_low)  # type: ignore[operator]


def test_equal_losses_are_not_lower() -> None:
    vocabulary = Vocabulary([END, "a"], [2, 20])
    ids = np.array([0, 1, 1], np.int32)
    mine, theirs = (Scores(vocabulary, ids, np.array(values)) for values in ([-1.0, -1.0, -2.0], [-1.0, -3.0, -2.0]))
    found = compare(mine, theirs)
    assert (found["lower"], found["median"]) == (pytest.approx(1 / 3), 0.0)
    assert [(row["from"], row["to"], row["tokens"], row["mean"]) for row in found["bins"]] == [
        (1, 9, 1, 0.0),
        (10, 99, 2, 1.0),
    ]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_a_person_is_shown_the_same(
    runs: dict[str, Path], corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, runs["groc"], runs["other"], corpus_folder)
    assert main(["eval", str(runs["groc"]), str(corpus_folder), "--against", str(runs["other"])]) == 0
    said = capsys.readouterr().out
    assert f"95% interval {found['low']:+.3f} to {found['high']:+.3f}" in said
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("|")]
    assert table[0][2] == f"{runs['groc']} is better"
    assert [row[0] for row in table[2:]][:2] == ["all", "never"]
    assert [row[1] for row in table[2:]] == [f"{row['tokens']:,}" for row in (found, *found["bins"])]
    assert [row[4] for row in table[2:]] == [f"{row['median']:+.3f}" for row in (found, *found["bins"])]
    assert f"{runs['other']} has no parameters for the words it never saw: 1%" in said
    assert "few tokens" in said


@pytest.mark.parametrize(
    "options",
    [
        *(["--vocabulary", "train"], ["--first", "5"], ["--glossary", "x.tsv"], ["--without", "relations"]),
        *(["--cache", "local"], ["--new-words", "0"], ["--sharpness", "0"], ["--memory"], ["--uniform", "0"]),
        *(["--tune", "x"], ["--dynamic"], ["--rate", "0"], ["--every", "2"], ["--prefix-only"], ["--gradients", "x"]),
        ["--decay", "0"],
    ],
    ids=lambda options: options[0],
)
def test_what_changes_how_one_model_reads_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "run", "corpus", "--against", "other", *options]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("groc: --against")
    assert said.endswith(f"leave out {options[0]}.")


def test_other_nonsense_is_refused(
    runs: dict[str, Path], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, text = runs["groc"], corpus_folder / "test.txt"
    (tmp_path / "link").symlink_to(run)
    bare = shutil.copytree(run, tmp_path / "bare")
    (bare / "result.json").write_text('{"evaluations": []}')
    before = snapshot(run), snapshot(bare)
    for arguments, reason in (
        ([run, text, "--against", f"{run}/"], "compared with itself"),
        ([run, text, "--against", tmp_path / "link"], "compared with itself"),
        ([run, text, "--against", tmp_path / "nothing"], "nothing is not a GroC checkpoint"),
        ([run, text, "--against", runs["tied"], "--split", "valid"], "leave out --split"),
        ([run, tmp_path / "no-text", "--against", runs["tied"]], "no text or corpus folder"),
        ([bare, text, "--against", runs["tied"], "--record"], "without --record"),
    ):
        capsys.readouterr()
        assert main(["eval", *map(str, arguments)]) == 1
        shown = capsys.readouterr()
        assert reason in shown.err.splitlines()[-1]
        assert shown.out == ""
    assert (snapshot(run), snapshot(bare)) == before


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_a_record_gets_the_comparison_and_nothing_else_changes(
    runs: dict[str, Path], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, tied = (shutil.copytree(runs[name], tmp_path / name) for name in ("groc", "tied"))
    others = snapshot(tied)
    before = json.loads((run / "result.json").read_text())
    assert "paired" not in before
    found = compared(capsys, run, tied, corpus_folder, "--record")
    after = json.loads((run / "result.json").read_text())
    ((name, kept),) = after.pop("paired").items()
    assert after == before
    assert name == f"{corpus_folder.name}/test, against tiny/tied, seed 1"
    assert (kept["against"], kept["seed"]) == ("tiny/tied", 1)
    assert kept["valid_perplexity"] == checkpoint.load_facts(tied)["valid_perplexity"]
    assert all(kept[key] == found[key] for key in ("tokens", "mean", "median", "low", "high", "bins"))
    assert {"from", "to", "tokens", "median", "mean"} <= set(kept["bins"][0])
    assert not {"run", "other", "text", "notes"} & set(kept)
    assert snapshot(tied) == others
    assert Results(tmp_path, quiet=True).damaged == []


def test_a_needless_resume_keeps_it_and_more_training_does_not(
    runs: dict[str, Path], corpus_folder: Path, glossary_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(runs["groc"], tmp_path / "groc")
    compared(capsys, run, runs["tied"], corpus_folder, "--record")
    settings = {**tiny_settings(), "name": "tiny/groc", "forms.lexicon": str(glossary_file)}
    for epochs, is_kept in ((1, True), (2, False)):
        pairs = as_pairs({**settings, "training.epochs": epochs})
        assert main(["train", "tiny", "--corpus", str(corpus_folder), "--out", str(run), "--resume", *pairs]) == 0
        assert ("paired" in json.loads((run / "result.json").read_text())) == is_kept


def test_another_model_of_the_same_name_replaces_it_and_that_is_said(
    runs: dict[str, Path], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, tied = (shutil.copytree(runs[name], tmp_path / name) for name in ("groc", "tied"))
    arguments = ["eval", str(run), str(corpus_folder), "--against", str(tied), "--record"]
    for valid_perplexity, replaces in ((7.0, False), (7.0, False), (8.0, True)):
        config = json.loads((tied / "config.json").read_text())
        config["facts"]["valid_perplexity"] = valid_perplexity
        (tied / "config.json").write_text(json.dumps(config))
        assert main(arguments) == 0
        assert ("these replace them" in capsys.readouterr().err) == replaces
    assert len(json.loads((run / "result.json").read_text())["paired"]) == 1


# --- what tables show -------------------------------------------------------------------------------------------------

BINS = [{"from": start, "to": None, "loss": 5.0, "median_loss": 4.0} for start in (1, 10)]


def add_pair(path: Path, median: float, **changes: Any) -> None:
    figures = {"text": "/x/penn/test.txt", "against": "penn/tied", "seed": 1, "valid_perplexity": 80.0, "tokens": 3}
    figures |= {"mean": 0.5, "low": 0.4, "high": None}
    bins = [{"from": start, "to": None, "tokens": 1, "median": median + start, "mean": 9.0} for start in (0, 1)]
    add_paired(path, {**figures, "bins": bins, **changes})


def pair_of_records(folder: Path, seed: int = 1) -> Path:
    """GroC's record comes back."""
    for model in ("tied", "groc"):
        path = record(folder, f"penn/{model}", seed)
        add_test(path, 70.0, bins=BINS)
    return path


def test_a_row_shows_the_medians_of_the_pair(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        path = pair_of_records(tmp_path, seed)
        if seed < 3:
            add_pair(path, 0.1 * seed, seed=seed)
    (row,) = rows_of("frequency", tmp_path, dataset="penn", model="tied")
    assert (row["of"], row["1-9"], row["10-99"], row["seeds"]) == ("paired", pytest.approx(1.15), None, [1, 2])
    printed = TABLES["frequency"].markdown(rows_of("frequency", tmp_path))
    assert "Paired: tied on penn." in printed
    assert " paired |" in printed
    axes = drawn("frequency", tmp_path).axes[0]
    assert legend(axes)[0] == "tied"
    assert axes.get_ylabel() == "nats (median of the differences, if nothing else is said)"


def test_a_figure_with_rows_of_both_kinds_names_those_that_are_not_paired(tmp_path: Path) -> None:
    add_pair(pair_of_records(tmp_path), 0.1)
    add_test(record(tmp_path, "penn/lookup"), 70.0, bins=BINS)
    axes = drawn("frequency", tmp_path).axes[0]
    assert legend(axes)[:2] == ["lookup (difference of medians)", "tied"]
    assert [bool(bars[0].get_hatch()) for bars in axes.containers[:2]] == [True, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"valid_perplexity": 81.0},  # other settings, or trained again
        {"valid_perplexity": None},
        {"against": "penn/lookup"},
        {"text": "/x/penn/valid.txt"},
        {"text": "/x/wikitext-2/test.txt"},
    ],
    ids=str,
)
def test_a_pair_with_another_model_or_text_is_not_shown(changes: Row, tmp_path: Path) -> None:
    path = pair_of_records(tmp_path)
    usual = rows_of("frequency", tmp_path)
    add_pair(path, 0.1, **changes)
    assert rows_of("frequency", tmp_path) == usual
    assert "No row is paired yet." in TABLES["frequency"].markdown(usual)


def test_the_page_of_results_says_what_was_compared(tmp_path: Path) -> None:
    """A median of differences is not a difference of medians, and neither is a mean."""
    plain_words = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "results.py"))["plain_words"]

    def rarest() -> list[str]:
        """The head of the table of rare words, and its first row."""
        lines = [line for line in "\n".join(plain_words(Results(tmp_path))).splitlines() if line.startswith("|")]
        return [cell.strip() for line in (lines[0], lines[2]) for cell in line.split("|")[1:-1]]

    path = pair_of_records(tmp_path)
    assert rarest() == ["seen in training", "in the mean", "difference of the medians", "1-9", "0.00", "0.00"]
    add_pair(path, 0.1)
    assert rarest() == ["seen in training", "in the mean", "median of the differences", "1-9", "0.00", "1.10"]


def test_other_tables_show_what_they_did(tmp_path: Path) -> None:
    path = pair_of_records(tmp_path)
    others = [name for name in TABLES if name != "frequency"]
    before = [TABLES[name].rows(Results(tmp_path)) for name in others]
    add_pair(path, 0.1)
    assert [TABLES[name].rows(Results(tmp_path)) for name in others] == before


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"seed": "one"}, '.seed must be a whole number, not "one"'),
        ({"bins": [{"from": 7, "median": 0.1}]}, ".bins[0].from must be one of 0, 1, "),
        ({"bins": [{"from": 1, "median": None}]}, ".bins[0].median must be a finite number, not null"),
        ({"bins": None}, ".bins must be a list, not null"),
    ],
    ids=str,
)
def test_a_damaged_comparison_is_named(changes: Row, where: str, tmp_path: Path) -> None:
    add_pair(pair_of_records(tmp_path), 0.1, **changes)
    (said,) = Results(tmp_path, quiet=True).damaged
    assert f"but paired['penn/test, against penn/tied, seed {changes.get('seed', 1)}']{where}" in said


def test_a_record_that_cannot_be_added_to(tmp_path: Path) -> None:
    for content in ("[]", "{}", "no json"):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(GrocError, match="not the record of a run"):
            add_pair(tmp_path / "result.json", 0.1)


def test_claims_of_rare_words_are_of_pairs_in_the_median_and_of_all_runs_in_the_mean(tmp_path: Path) -> None:

    def said(measure: str) -> str:
        told = "On penn GroC gains more on words seen less than 100 times"
        return next(
            said_of(claim)
            for claim in closed_claims(Results(tmp_path))
            if claim.text.startswith(told) and claim.text.endswith(f"in the {measure}")
        )

    def bins(rare: float, frequent: float) -> list[Row]:
        return [{"from": n, "loss": rare if n < 100 else frequent, "median_loss": 4.0} for n in (1, 10, 1000, 10_000)]

    groc, tied = (record(tmp_path, f"penn/{model}") for model in ("groc", "tied"))
    for path, rare in ((groc, 8.0), (tied, 8.5)):
        add_test(path, 70.0, bins=bins(rare, 4.0))
    assert "**open** (not word by word: tied; 5 not run)" in said("median")
    assert "**open** (true in 1 of 1 comparisons; 5 not run)" in said("mean")
    add_test(tied, 70.0, bins=bins(8.01, 4.0))
    assert "**open** (too near: tied; 5 not run)" in said("mean")
    add_test(tied, 70.0, bins=bins(7.0, 4.0))
    assert "**does not hold in these runs** (true in 0 of 1 comparisons; not: tied; 5 not run)" in said("mean")
    add_pair(groc, 0.1)
    assert "**open** (no such words: tied; 5 not run)" in said("median")
    add_pair(groc, 0.1, bins=[{"from": start, "median": 1 / start} for start in (1, 1000)])
    assert "**open** (true in 1 of 1 comparisons; 5 not run)" in said("median")
