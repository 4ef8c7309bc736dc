"""Training, evaluating and comparing what a table lacks: one run after another, each resumed where it stopped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from groc import checkpoint
from groc.adaptation.dynamic import Dynamic
from groc.building import build_lexicon
from groc.commands.against import evaluate_against
from groc.commands.evaluate import PROTOCOL
from groc.commands.evaluate import evaluate as evaluate_run
from groc.compute import choose, device_name
from groc.config import Compute, Config
from groc.corpus import Corpus
from groc.divergence import Diverged
from groc.errors import GrocError
from groc.files import write_text
from groc.forms import FormsCompiler, coverage
from groc.lexicon import Coverage
from groc.paper.announcing import announce
from groc.paper.place import Place, chosen, recorded, run_name, train_once
from groc.paper.records import TIMED, Results
from groc.paper.runs import RECIPES, Job, Run, identity
from groc.paper.table import Cell, Table
from groc.progress import Progress
from groc.recipe import recipe_names, variant_names
from groc.report import summarise, to_json
from groc.results import RESULT, add_evaluation, circumstances
from groc.scoring import score

TRAIN_ANEW = "Give --results and --runs folders of their own to train anew."


def run_missing(table: Table, cells: Sequence[Cell], place: Place, seeds: int, settings: Sequence[str]) -> list[str]:
    """Fill the cells with runs of the recipes as they stand, and record them. The names of those that diverged, which
    fill none."""
    diverged: list[str] = []
    known_runs = Results(place.results, quiet=True)
    if table.name == "data":
        missing = [cell.keys["dataset"] for cell in cells if f"data/{cell.keys['dataset']}" not in known_runs.data]
        for dataset in missing:
            record_data(dataset, place)
        if not missing:
            print(f"All of it is recorded in {place.results}: take a record away to measure anew.", file=sys.stderr)
        return diverged
    known = {f"{recipe}/{variant}" for recipe in recipe_names() for variant in variant_names(recipe)}
    jobs = [(cell.job, cell.extras) for cell in cells if cell.job]
    if table.name == "frequency":  # its rows are of the rivals alone, and each is compared with GroC
        jobs += [(Job(dataset, "groc"), ()) for dataset in dict.fromkeys(job.dataset for job, _ in jobs)]
    for name in sorted({f"{job.recipe}/{job.variant}" for job, _ in jobs} - known):
        print(f"There is no recipe with a variant {name}: left out.", file=sys.stderr)
    jobs = [(job, extras) for job, extras in jobs if f"{job.recipe}/{job.variant}" in known]
    wanted = [
        (job, _config(job, seed, place, settings), extras) for seed in range(1, seeds + 1) for job, extras in jobs
    ]
    found = [(config, extras, _find(known_runs, job, config)) for job, config, extras in wanted]
    untrained = {run_name(config): config for config, _, run in found if run is None}
    for dataset in sorted({Path(config.corpus).name for config in untrained.values()}):
        _check_corpus(dataset, place, known_runs)
    announce(untrained, place.runs)
    if table.name != "frequency" and all(run and run.test(extras) for _, extras, run in found):
        print(f"All of it is recorded in {place.results}: there is nothing to run.", file=sys.stderr)
    for seed in range(1, seeds + 1):  # every cell once before any cell twice
        for job, extras in jobs:
            config = _config(job, seed, place, settings)
            try:
                _fill(job, config, extras, place)
            except Diverged as error:
                diverged.append(run_name(config))
                print(f"{diverged[-1]} is left out: {error}", file=sys.stderr)
        if table.name == "frequency":
            for rival in (job for job, _ in jobs if job.variant != "groc"):
                groc = Job(rival.dataset, "groc")
                _pair(groc, _config(groc, seed, place, settings), rival, _config(rival, seed, place, settings), place)
    if table.name == "speed":
        for dataset in dict.fromkeys(cell.keys["dataset"] for cell in cells):
            if TIMED - set(known_runs.timings(dataset)[0]):
                bench = _bench(dataset, place.results)
                print(f"--run times nothing: the seconds of {dataset} come from {bench}", file=sys.stderr)
    return diverged


def _bench(dataset: str, results: Path) -> str:
    """The command that times what the table of speed shows."""
    models = [part for model in sorted(TIMED - {"tied"}) for part in ("--model", model)]
    out = str(results / f"bench-{dataset}.json")
    return shlex.join(["groc", "bench", "--size", RECIPES[dataset], *models, "--out", out])


def _check_corpus(dataset: str, place: Place, results: Results) -> None:
    """What is not there, or another corpus of that name, is known before hours of training."""
    corpus = place.corpus(dataset)
    for split in ("train", "valid", "test"):
        corpus.text(split)  # an empty one is an error
    if why := results.another_corpus(dataset, len(corpus.text("train"))):
        raise GrocError(f"{corpus.folder} {why}: its runs would not count. Give them a --results of their own.")


def _config(job: Job, seed: int, place: Place, settings: Sequence[str]) -> Config:
    config = chosen(job.recipe, job.variant, settings)
    return config.replace({**dict(job.changes), "training.seed": seed, "corpus": str(place.corpora / job.dataset)})


def _fill(job: Job, config: Config, extras: tuple[str, ...], place: Place) -> None:
    folder = place.runs / run_name(config)
    results = Results(place.results, quiet=True)
    known = _find(results, job, config)
    if known is None:
        train_once(config, folder)  # or it is trained, but not recorded yet
    elif known.test(extras):
        return
    elif not (folder / checkpoint.WEIGHTS).is_file():
        what = f"{known.path} has no figures of the test text{f' with {extras[0]}' if extras else ''}"
        others = [str(run.seed) for run in results.of(job) if run.test(extras)]
        told = f"The table has those of seed {', '.join(others)}." if others else TRAIN_ANEW
        print(f"{what}, and there are no weights of it in {folder}. {told}", file=sys.stderr)
        return
    for helped in {(), extras}:
        if recorded(folder).test(helped) is None:
            evaluate(folder, Path(config.corpus), helped)
    place.publish(folder)


def _pair(job: Job, config: Config, rival: Job, rival_config: Config, place: Place) -> None:
    """Compare a run with a rival's word by word, unless that is recorded."""
    results = Results(place.results, quiet=True)
    run, other = _find(results, job, config), _find(results, rival, rival_config)
    if run is None or run.path is None or other is None or run.against(other):
        return  # a run that does not count would show nothing
    folder, other_folder = place.runs / run_name(config), place.runs / run_name(rival_config)
    for one, where in ((run, folder), (other, other_folder)):
        is_there = (where / checkpoint.WEIGHTS).is_file() and (where / RESULT).is_file()
        if not is_there or recorded(where).dev != one.dev:  # such a pair would not count as one of the recorded runs
            what = f"{folder.name} is recorded without a comparison with {other_folder.name}"
            print(
                f"{what}, and the weights of the recorded run are not in {where}. {TRAIN_ANEW}",
                file=sys.stderr,
            )
            return
    if not recorded(folder).against(other):  # else it was stopped just before it was published
        names = str(folder), str(other_folder), config.corpus
        evaluate_against(*names, None, config.compute.device, record=True, as_json=False)
    place.publish(folder)


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


def record_data(dataset: str, place: Place) -> None:
    """Measure a corpus, and how much of it the lexicon covers."""
    corpus = place.corpus(dataset)
    vocabulary = corpus.vocabulary()
    relations, definitions = coverage(FormsCompiler(build_lexicon(Config()), "paper").compile(vocabulary))
    tokens = len(corpus.text("train"))
    figures = {"vocabulary": len(vocabulary), "tokens": tokens, "relations": relations, "definitions": definitions}
    about = circumstances(choose(Compute(device="cpu")))
    record = {"kind": "data", "name": f"data/{dataset}", **about, "figures": figures}
    write_text(place.results / f"data-{dataset}.json", to_json(record, indent=1) + "\n")
