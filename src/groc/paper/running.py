"""Training and evaluating what a table lacks: one run after another, each resumed where it stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from groc import checkpoint
from groc.adaptation.dynamic import Dynamic
from groc.building import build_lexicon
from groc.commands.evaluate import PROTOCOL
from groc.commands.evaluate import evaluate as evaluate_run
from groc.commands.train import run as train
from groc.compute import Group, choose, device_name
from groc.config import Compute, Config
from groc.corpus import Corpus
from groc.files import check_folder, write_text
from groc.forms import FormsCompiler, coverage
from groc.lexicon import Coverage
from groc.paper.runs import Job, Results, Run, identity
from groc.paper.table import Cell, Table
from groc.progress import Progress
from groc.recipe import load_recipe, recipe_names, variant_names
from groc.report import summarise, to_json
from groc.results import RESULT, add_evaluation, circumstances
from groc.scoring import score


def run_missing(
    table: Table,
    cells: Sequence[Cell],
    results: Path,
    corpora: Path,
    runs: Path,
    seeds: int,
    settings: Sequence[str],
) -> None:
    """Fill the cells with runs of the recipes as they stand, and put their records into `results`."""
    check_folder(results)
    if table.name == "data":
        for cell in cells:
            record_data(cell.keys["dataset"], corpora, results)
        return
    if table.name == "speed":
        print(
            "Perplexities are filled here; seconds come from groc bench --size ... --out results/NAME.json.",
            file=sys.stderr,
        )
    known = {f"{recipe}/{variant}" for recipe in recipe_names() for variant in variant_names(recipe)}
    jobs = [(cell, cell.job) for cell in cells if cell.job]
    for name in sorted({f"{job.recipe}/{job.variant}" for _, job in jobs} - known):
        print(f"There is no recipe with a variant {name}: left out.", file=sys.stderr)
    for seed in range(1, seeds + 1):  # every cell once before any cell twice
        for cell, job in jobs:
            if f"{job.recipe}/{job.variant}" in known:
                _fill(cell, job, seed, results, corpora, runs, settings)


def _fill(cell: Cell, job: Job, seed: int, results: Path, corpora: Path, runs: Path, settings: Sequence[str]) -> None:
    corpus = corpora / job.dataset
    config = load_recipe(job.recipe, job.variant, settings)
    config = config.replace({**dict(job.changes), "training.seed": seed, "corpus": str(corpus)})
    name = f"{config.name.replace('/', '-')}-{identity(config.flat())}-seed{seed}"
    folder, record = runs / name, results / f"{name}.json"
    known = _find(Results(results, quiet=True), job, config)
    if known is None and (folder / RESULT).is_file():
        pass  # trained, but not recorded yet
    elif known is None:
        torch.compiler.reset()  # else PyTorch stops compiling after some models
        train(config, folder, resume=(folder / checkpoint.STATE).is_file(), group=Group())
    elif known.test(cell.extras):
        return
    elif not (folder / checkpoint.WEIGHTS).is_file():
        print(f"{name} is recorded without {', '.join(('test', *cell.extras))}, and {folder} is gone.", file=sys.stderr)
        return
    for helped in {(), cell.extras}:
        if Run(json.loads((folder / RESULT).read_text(encoding="utf-8"))).test(helped) is None:
            evaluate(folder, corpus, helped)
    write_text(record, (folder / RESULT).read_text(encoding="utf-8"))


def _find(results: Results, job: Job, config: Config) -> Run | None:
    wanted = identity(config.flat()), config.training.seed
    found = [run for run in results.counted if job.wants(run) and run.repeated == wanted]
    return found[-1] if found else None


def evaluate(folder: Path, corpus: Path, helped: tuple[str, ...] = ()) -> None:
    """Add the strict figures on the test text to the run's record. `coverage 0.2` forgets 80% of the lexicon; `dynamic`
    goes on learning, with the usual rate and steps matched to gradients on the training text."""
    if helped == ("dynamic",):
        device = checkpoint.load_config(folder).compute.device
        evaluate_run(
            str(folder), str(corpus), None, "union", None, device, record=True, as_json=False,
            dynamic=Dynamic(), gradients=str(corpus),
        )  # fmt: skip
        return
    loaded = checkpoint.load(folder)
    model, text = loaded.model.to(choose(loaded.config.compute).device), Corpus(corpus).text("test")
    share = 1.0
    for extra in helped:
        share = float(extra.removeprefix("coverage "))
        model.compiler = replace(model.compiler, lexicon=Coverage(model.compiler.lexicon, share))
    model.set_vocabulary(model.trained.union(text.types))
    progress = Progress(f"scoring {text.name}", len(text))
    summary = summarise(score(model, text.ids(model.vocabulary), progress=progress))
    progress.close()
    summary |= {
        "text": text.name,
        "vocabulary_kind": "union",
        "coverage": share,
        "device": f"{device_name(model.device)}, float32",
        "protocol": PROTOCOL,
    }
    add_evaluation(folder / RESULT, summary)


def record_data(dataset: str, corpora: Path, results: Path) -> None:
    """Measure a corpus, and how much of it the lexicon covers."""
    corpus = Corpus(corpora / dataset)
    vocabulary = corpus.vocabulary()
    relations, definitions = coverage(FormsCompiler(build_lexicon(Config()), "paper").compile(vocabulary))
    tokens = len(corpus.text("train"))
    figures = {"vocabulary": len(vocabulary), "tokens": tokens, "relations": relations, "definitions": definitions}
    about = circumstances(choose(Compute(device="cpu")))
    record = {"kind": "data", "name": f"data/{dataset}", **about, "figures": figures}
    write_text(results / f"data-{dataset}.json", to_json(record, indent=1) + "\n")
