"""Every table and figure of the paper; those of its closed-vocabulary part are here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from groc.paper import published as printed
from groc.paper.courses import all_but, comparable
from groc.paper.hyper import SETTINGS, hyper_parameters, listed
from groc.paper.open_tables import OPEN_TABLES
from groc.paper.records import LARGE, Results
from groc.paper.runs import BEST, Job
from groc.paper.searches import said_of_searches
from groc.paper.table import Cell, Row, Table, figures_of, measured, origin, runs_of
from groc.report import BINS

PAIRS = [(dataset, model) for dataset in printed.DATASETS for model in printed.MODELS]
BIN_NAMES = tuple(
    f"{start:,}-{end - 1:,}" if end else f"{start:,}+" for start, end in zip(BINS[1:], (*BINS[2:], 0), strict=True)
)
"""Of training frequency; words never seen are left out, since closed sets do not have them."""


def _data(results: Results, cell: Cell) -> Row:
    figures = results.data.get(f"data/{cell.keys['dataset']}", {})
    return {**dict.fromkeys(cell.paper), **figures, "runs": int(bool(figures))}


def _main_cells() -> list[Cell]:
    cells = []
    for dataset, model in PAIRS:
        millions, dev, test = printed.MAIN[dataset][model]
        paper = {"parameters": millions * 1e6, "dev": dev, "test": test}
        cells.append(Cell({"dataset": dataset, "model": model}, paper, Job(dataset, model)))
    return cells


def by_bin(tests: Iterable[Row | None], key: str) -> dict[str, float]:
    """A figure of each bin of the test text, averaged over those that have it."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for figures in filter(None, tests):
        for row in figures["bins"]:
            if row["from"] and key in row:
                found[BIN_NAMES[BINS.index(row["from"]) - 1]].append(row[key])
    return {name: sum(values) / len(values) for name, values in found.items()}


def _frequency(results: Results, cell: Cell) -> Row:
    runs, groc = (
        [run for run in results.of(Job(cell.keys["dataset"], model)) if run.test()]
        for model in (cell.keys["model"], "groc")
    )
    if paired := [run for run in runs if any(one.against(run) for one in groc)]:
        gains = by_bin((one.against(run) for run in paired for one in groc), "median")
        return {**dict.fromkeys(BIN_NAMES), **gains, "of": "paired", **figures_of(paired)}
    for kind, key in (("median", "median_loss"), ("mean", "loss")):
        ours, theirs = (by_bin((run.test() for run in some), key) for some in (groc, runs))
        if gains := {name: theirs[name] - ours[name] for name in theirs if name in ours}:
            return {**dict.fromkeys(BIN_NAMES), **gains, "of": kind, **figures_of(runs)}
    return {**dict.fromkeys(BIN_NAMES), "of": None, **figures_of([])}


def _said_of_pairs(rows: Sequence[Row]) -> str:
    """Which rows show the paper's figure."""
    paired = [f"{row['model']} on {row['dataset']}" for row in rows if row["of"] == "paired"]
    return f"Paired: {', '.join(paired)}." if paired else "No row is paired yet."


def _ablation_cells() -> list[Cell]:
    cells = []
    for dataset, figures in printed.ABLATIONS.items():
        for network, row in figures.items():
            start = "groc" if network else "groc-no-out"
            for without, (dev, test) in zip(printed.WITHOUT, row, strict=True):
                keys = {
                    "dataset": dataset,
                    "model": "groc",
                    "output network": "yes" if network else "no",
                    "without": without,
                }
                job = replace(_without(dataset, start, without), network=network)
                cells.append(Cell(keys, {"dev": dev, "test": test}, job))
    return cells


def _without(dataset: str, variant: str, without: str) -> Job:
    """What is run for a variant without some of what is told of words."""
    left_out = {"": (), "both": ("relations", "definitions")}.get(without, (without,))
    return Job(dataset, f"{variant}-without-{without}" if without else variant, (("forms.without", left_out),))


NETWORK = ("output.depth", "output.activation")
FORMS_DROPOUT = ("forms.relations_dropout", "forms.definition_dropout")


def _coverage_cells() -> list[Cell]:
    cells = []
    for how in ("groc, at inference", "groc, retrained", "groc with forms dropout, at inference"):
        for share, inference, retrained in printed.COVERAGE:
            variant = "groc-robust" if "dropout" in how else "groc"
            changes = (("forms.coverage", share),) if "retrained" in how else ()
            paper = {} if "dropout" in how else {"test": retrained if changes else inference}
            extras = () if changes or share == 1 else (f"coverage {share:g}",)
            keys = {"dataset": "penn", "model": how, "coverage": share}
            cells.append(Cell(keys, paper, Job("penn", variant, changes), extras))
    return cells


def _coverage(results: Results, cell: Cell) -> Row:
    """Of the seeds that all rows of a model have in common, so that they differ in coverage alone. Rows that were not
    run keep none of the others from showing theirs."""
    rows = [runs_of(results, other) for other in _COVERAGE if other.keys["model"] == cell.keys["model"]]
    common = set.intersection(*({run.seed for run in runs} for runs in rows if runs)) if any(rows) else set()
    runs = runs_of(results, cell)
    return figures_of([run for run in runs if run.seed in common] or runs, cell.extras)


CHARACTERS = "groc with characters"
TIMED_AS = {"groc-characters": "groc, characters"}
"""What `groc bench` calls variants that it has another name for."""


def _speed(results: Results, cell: Cell) -> Row:
    """Seconds are those of the timed step: runs are made side by side, where each takes longer."""
    assert cell.job is not None
    timed, device = results.timings(cell.job.dataset)
    changes, tied = dict(cell.job.changes), timed.get("tied")
    step = timed.get(TIMED_AS.get(cell.job.variant, cell.job.variant))
    if step and "training.full_updates" in changes:
        p, frozen = changes["training.full_updates"], timed.get("groc, frozen")
        step = p * step + (1 - p) * frozen if frozen else None
    size = results.data.get(f"data/{cell.job.dataset}", printed.DATA[cell.job.dataset])
    steps = size["tokens"] / (20 * 35)
    row = {**measured(results, cell), "seconds": step and step * steps / 1000, "ratio": step and tied and step / tied}
    devices = [f"timed on {device}"] if step else []
    trained = origin(runs_of(results, cell))["device"]
    return {**row, "device": " / ".join([*devices, *([f"trained on {trained}"] if trained else [])])}


def _speed_cells() -> list[Cell]:
    cells = []
    for place, dataset in enumerate(printed.DATASETS):
        rows: list[tuple[str, Any, Job, float | None]] = [
            (model, seconds, Job(dataset, model), printed.MAIN[dataset][model][2])
            for model, seconds in printed.SPEED.items()
        ]
        rows.append((CHARACTERS, None, Job(dataset, "groc-characters"), None))
        for p, seconds in printed.SPARSE.items():
            test = printed.SPARSE_TEST if (dataset, p) == ("penn", 0.3) else None
            rows.append((f"groc, p = {p}", seconds, Job(dataset, "groc", (("training.full_updates", p),)), test))
        for model, seconds, job, test in rows:
            paper = {"test": test}
            if seconds:
                ratio = seconds[place] / printed.SPEED["tied"][place]
                paper |= {"seconds": seconds[place], "ratio": ratio}
            cells.append(Cell({"dataset": dataset, "model": model}, paper, job))
    return cells


def _best_recipes(dataset: str) -> list[tuple[str, Job]]:
    """The rows of our large models: their names and what is run."""
    return [(f"{model}{BEST}", Job(dataset, model, set="-best")) for model in ("tied", "groc")]


def _size_cells() -> list[Cell]:
    there = "Table 11"
    rows: list[tuple[str, str, str, float | None, float | None, Job | None, tuple[str, ...]]] = [
        *(("penn", name, there, millions, test, None, ()) for name, millions, test in printed.SIZES),
        ("penn", "tied", there, 10, 86.2, Job("penn", "tied"), ()),
        ("penn", "groc", there, 9.7, 69.5, Job("penn", "groc"), ()),
        *(
            ("wikitext-2", model, "Table 2", millions, test, Job("wikitext-2", model), ())
            for model, (millions, _, test) in printed.MAIN["wikitext-2"].items()
            if model in ("tied", "groc")
        ),
    ]
    for dataset, others in printed.ELSEWHERE.items():
        rows.append((dataset, CHARACTERS, "", None, None, Job(dataset, "groc-characters"), ()))
        rows += [(dataset, name, "elsewhere", millions, test, None, ()) for name, millions, test in others]
        for name, best in _best_recipes(dataset):
            rows.append((dataset, name, "", None, None, best, ()))
            rows.append((dataset, f"{name}, dynamic evaluation", "", None, None, best, ("dynamic",)))
    cells = []
    for dataset, name, where, millions, test, job, extras in rows:
        keys = {"dataset": dataset, "model": name, "published": where}
        cells.append(Cell(keys, {"parameters": millions and millions * 1e6, "test": test}, job, extras))
    return sorted(cells, key=lambda cell: printed.DATASETS.index(cell.keys["dataset"]))


def _size(results: Results, cell: Cell) -> Row:
    runs = runs_of(results, cell)
    return {**measured(results, cell), "softmaxes": runs[0].settings["output.mixtures"] if runs else None}


def _hyper_cells() -> list[Cell]:
    cells = [Cell({"dataset": d, "model": m}, {"output": listed(printed.HYPER[d][m])}, Job(d, m)) for d, m in PAIRS]
    for dataset, without in printed.HYPER_WITHOUT.items():
        for what, settings in without.items():
            keys = {"dataset": dataset, "model": f"groc without {what}"}
            cells.append(Cell(keys, {"output": listed(settings)}, _without(dataset, "groc", what)))
    for dataset in printed.DATASETS:
        cells += [Cell({"dataset": dataset, "model": name}, {}, job) for name, job in _best_recipes(dataset)]
    return cells


OUR_GROC = (
    "Our groc is not the paper's in every respect. Among other things it composes words of hashed n-grams, where the "
    "paper's has a convolution over characters (variant `groc-characters`), it has an output network on penn too, and "
    "the log of a word's training count is part of its bias; variant `groc-published` of recipe `penn` is as printed, "
    "but for start values, and was not run."
)
_MODEL = ("dataset", "model")
_COVERAGE = tuple(_coverage_cells())
_ALL = (
    Table(
        "data", "The corpora, and the share of their words that WordNet covers (%)", "Table 1", ("dataset",),
        tuple(printed.DATA["penn"]),
        tuple(Cell({"dataset": name}, printed.DATA[name], Job(name, "groc")) for name in printed.DATASETS), _data,
        note="Tokens of the training text, ours with `<eos>`; forms by the paper's rules.", shown=(),
    ),
    Table(
        "main", "Output embeddings with a closed vocabulary (perplexity)", "Tables 2 and 9", _MODEL,
        ("parameters", "dev", "test"), tuple(_main_cells()), measured, alike=comparable, note=OUR_GROC,
    ),
    Table(
        "frequency", "Test loss of each rival above GroC's, by how often training had the word (nats)", "Figure 3",
        _MODEL, BIN_NAMES, tuple(Cell({"dataset": d, "model": m}, {}, Job(d, m)) for d, m in PAIRS if m != "groc"),
        _frequency, shown=("of", "runs", "seeds", "device"),
        note="The paper draws the median of the differences between two models' losses on the same words, and prints "
        "no numbers. Rows that say `paired` have that figure, averaged over the pairs of runs that `groc eval "
        "--against` compared. The others have another one: the difference of the two models' median losses (or mean "
        "losses, where a record has no medians), each averaged over seeds. It can be several times as large, so do "
        "not compare the two. Above 0, GroC is better.",
        remark=_said_of_pairs, alike=comparable,
    ),
    Table(
        "ablations", "GroC with and without its output network, relations and definitions (perplexity)", "Table 3",
        ("dataset", "output network", "without"), ("dev", "test"), tuple(_ablation_cells()), measured,
        alike=all_but(*NETWORK), note=OUR_GROC,
    ),
    Table(
        "coverage", "GroC on penn with a part of WordNet (test perplexity)", "Table 4", ("model", "coverage"),
        ("test",), _COVERAGE, _coverage,
        note="Coverage is the share of WordNet's entries that is left; the paper prints the share of words that have "
        "one then, 0, 16, 32, 48, 64 and 82%. The rows of a model are of the same seeds: those that all of its rows "
        "with runs have, if there are such. With surface forms alone the paper has 73.1; ours is in "
        "`groc paper ablations`, without both. Ours takes all that WordNet says of a word away, the paper a word's "
        f"relations and its definition each by itself. {OUR_GROC}",
        alike=all_but(*FORMS_DROPOUT),
    ),
    Table(
        "speed", "Seconds an epoch, their ratio to tied, and what sparse updates cost (test perplexity)", "Table 10",
        _MODEL, ("seconds", "ratio", "test"), tuple(_speed_cells()), _speed,
        note="p is the probability of a full update of the output embedding; in other steps ours leaves the input "
        "embedding as it is, too, of which the paper does not speak. The paper's device is an RTX 2080 Ti, and "
        f"its groc has characters, as our `{CHARACTERS}`, where that of our recipes has n-grams. "
        "Our seconds are the median step of `groc bench`, 20 x 35 words without dropout of words and weights, as often "
        "as the text has them; with p, the mean of full and other steps. Perplexities are those of the recipes.",
        alike=comparable,
    ),
    Table(
        "size", "Models of comparable size, and our best recipes (test perplexity)", "Table 11",
        (*_MODEL, "published"), ("parameters", "test", "softmaxes"), tuple(_size_cells()), _size,
        note="`published`: where the figure beside ours stands; those from `elsewhere` are of the work that the row "
        f"names, and not in the paper's table, which is of penn alone. `{CHARACTERS}` has the paper's encoder, "
        f"and no output network. The best recipes have {LARGE}; they are ours, and not in it either. "
        "`softmaxes`: how many ours mix; of the others only those that say so have a mixture. Dynamic evaluation has "
        "the rate that was best on another text, news of 2008, and the usual decay, which was not varied; it measures "
        "gradients on the training text. "
        f"{OUR_GROC}",
        alike=comparable,
    ),
    Table(
        "hyper-parameters",
        "The settings behind the main comparison, the ablations and the best recipes, chosen on dev", "Tables 7 and 8",
        _MODEL, SETTINGS, tuple(_hyper_cells()), hyper_parameters,
        shown=("trials", "runs", "seeds", "device"),
        note="`prefix`: the sizes of words and of each LSTM layer; `surface`: what words are composed of; `output`: of "
        "the output embedding; `start`: the scale of vectors at the start; `dropout`: of words and of the prefix "
        "network's input, hidden states, weights and output. `encoder rate` multiplies the rate for what composes all "
        "words alike; `clip` is the largest norm of the gradient; `schedule`: how the rate falls, with a cosine to "
        "that share of it; `average`: the decay of the running average of weights, 0 where there is none; `batch`: "
        "streams x words of each in a step, `about` where that varies; `streams`: whether they begin at another place "
        "in every epoch. These four and `epochs` are the course of training. `trials` are those of recorded searches. "
        "What the paper searched (Table 7; `groc search --paper-ranges` goes through it): output dropout from 0 to .9 "
        "for all (10 trials, printed as if up to 1); the width of convolutional's correction, 32, 64 or 128; adaptive's"
        " cutoffs, six of them; depth (up to 4) and activation (three) of the networks of deep residual and GroC; it "
        "says that these were 204 trials on penn and 67 on wikitext-2 in all.",
        remark=said_of_searches,
    ),
)  # fmt: skip
TABLES = {one.name: one for one in (*_ALL, *OPEN_TABLES)}
"""By name, in the paper's order."""
