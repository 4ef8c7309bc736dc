"""Every table and figure of the paper; those of its closed-vocabulary part are here."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from groc.paper import published as printed
from groc.paper.open_tables import OPEN_TABLES
from groc.paper.runs import Job, Results, Run
from groc.paper.table import Cell, Row, Table, measured, origin
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


def _losses(runs: list[Run], key: str) -> dict[str, float]:
    """The loss of each bin of the test text, averaged over runs."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for figures in filter(None, (run.test() for run in runs)):
        for row in figures["bins"]:
            if row["from"] and key in row:
                found[BIN_NAMES[BINS.index(row["from"]) - 1]].append(row[key])
    return {name: sum(values) / len(values) for name, values in found.items()}


def _frequency(results: Results, cell: Cell) -> Row:
    runs, groc = (
        [run for run in results.of(Job(cell.keys["dataset"], model)) if run.test()]
        for model in (cell.keys["model"], "groc")
    )
    for kind, key in (("median", "median_loss"), ("mean", "loss")):
        ours, theirs = _losses(groc, key), _losses(runs, key)
        if gains := {name: theirs[name] - ours[name] for name in theirs if name in ours}:
            return {**dict.fromkeys(BIN_NAMES), **gains, "of": kind, **origin(runs)}
    return {**dict.fromkeys(BIN_NAMES), "of": None, **origin([])}


def _ablation_cells() -> list[Cell]:
    cells = []
    for dataset, figures in printed.ABLATIONS.items():
        for network, row in figures.items():
            start = "groc" if network else "groc-no-out"
            for without, (dev, test) in zip(printed.WITHOUT, row, strict=True):
                variant = f"{start}-without-{without}" if without else start
                left_out = {"": (), "both": ("relations", "definitions")}.get(without, (without,))
                keys = {
                    "dataset": dataset,
                    "model": "groc",
                    "output network": "yes" if network else "no",
                    "without": without,
                }
                cells.append(
                    Cell(keys, {"dev": dev, "test": test}, Job(dataset, variant, (("forms.without", left_out),)))
                )
    return cells


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


def _speed(results: Results, cell: Cell) -> Row:
    """Seconds are those of the timed step: runs are made side by side, where each takes longer."""
    assert cell.job is not None
    timed, device = results.timings(cell.job.dataset)
    changes, tied = dict(cell.job.changes), timed.get("tied")
    step = timed.get(cell.job.variant)
    if step and "training.full_updates" in changes:
        p, frozen = changes["training.full_updates"], timed.get("groc, frozen")
        step = p * step + (1 - p) * frozen if frozen else None
    size = results.data.get(f"data/{cell.job.dataset}", printed.DATA[cell.job.dataset])
    steps = size["tokens"] / (20 * 35)
    row = {**measured(results, cell), "seconds": step and step * steps / 1000, "ratio": step and tied and step / tied}
    return {**row, "device": device if step else ""}


def _speed_cells() -> list[Cell]:
    cells = []
    for place, dataset in enumerate(printed.DATASETS):
        rows: list[tuple[str, Any, Job, float | None]] = [
            (model, seconds, Job(dataset, model), printed.MAIN[dataset][model][2])
            for model, seconds in printed.SPEED.items()
        ]
        for p, seconds in printed.SPARSE.items():
            test = printed.SPARSE_TEST if (dataset, p) == ("penn", 0.3) else None
            rows.append((f"groc, p = {p}", seconds, Job(dataset, "groc", (("training.full_updates", p),)), test))
        for model, seconds, job, test in rows:
            paper = {"seconds": seconds[place], "ratio": seconds[place] / printed.SPEED["tied"][place], "test": test}
            cells.append(Cell({"dataset": dataset, "model": model}, paper, job))
    return cells


def _size_cells() -> list[Cell]:
    rows: list[tuple[str, str, float | None, float | None, Job | None, tuple[str, ...]]] = [
        *(("penn", name, millions, test, None, ()) for name, millions, test in printed.SIZES),
        ("penn", "tied", 10, 86.2, Job("penn", "tied"), ()),
        ("penn", "groc", 9.7, 69.5, Job("penn", "groc"), ()),
    ]
    for dataset, model in ((dataset, model) for dataset in printed.DATASETS for model in ("tied", "groc")):
        job = Job(dataset, model, set="-best")
        rows.append((dataset, f"{model}, best recipe", None, None, job, ()))
        rows.append((dataset, f"{model}, best recipe, dynamic evaluation", None, None, job, ("dynamic",)))
    return [
        Cell({"dataset": dataset, "model": name}, {"parameters": m and m * 1e6, "test": test}, job, extras)
        for dataset, name, m, test, job, extras in rows
    ]


def _hyper(results: Results, cell: Cell) -> Row:
    dataset, model = cell.keys["dataset"], cell.keys["model"]
    job = Job(dataset, model)
    runs = results.of(job)
    trials = sum(len(search["trials"]) for search in _searches(results, job))
    row: Row = {"output": None, "training": None, "trials": trials, **origin(runs)}
    if runs:
        own = runs[0].settings
        named = {name: own[f"output.{name}"] for one in printed.HYPER.values() for name in one[model]}
        dropouts = "/".join(f"{own[f'prefix.{site}_dropout']:g}" for site in ("input", "hidden", "output"))
        rates = f"rate {own['training.rate']:g}, encoder x{own['training.encoder_rate']:g}"
        row["output"] = _settings(named)
        row["training"] = f"{rates}, clip {own['training.clip']:g}, dropout {dropouts}, {own['training.epochs']} epochs"
    return row


def different_budgets(results: Results) -> list[str]:
    """For each dataset whose models were searched with different budgets, a line that says so."""
    lines = []
    for dataset in printed.DATASETS:
        searches = {name: _searches(results, Job(dataset, name)) for name in printed.MODELS}
        budgets = {name: " and ".join(map(_budget, found)) or "none" for name, found in searches.items()}
        if len(set(budgets.values())) > 1:
            listed = ", ".join(f"{name} {budget}" for name, budget in budgets.items())
            lines.append(f"{dataset}: budgets differ: {listed}")
    return lines


def _searches(results: Results, job: Job) -> list[Row]:
    """The recorded searches for a model's settings on a corpus. Another corpus may have the same name, so the sizes
    must agree where they are known."""
    size = results.data.get(f"data/{job.dataset}", {}).get("tokens")
    found = []
    for search in results.searches:
        fixed = search.get("fixed", {})
        recipe, _, variant = search["name"].partition("/")
        corpus = search.get("corpus", {"name": fixed.get("corpus", job.dataset)})
        named = recipe, variant or fixed.get("output.kind"), corpus["name"]
        tokens = corpus.get("tokens", size)
        if named == (job.recipe, job.variant, job.dataset) and size in (None, tokens):
            found.append(search)
    return found


def _budget(search: Row) -> str:
    epochs = search.get("budget", {}).get("epochs")
    return f"{len(search['trials'])} trials" + (f" of {epochs} epochs" if epochs else "")


def _settings(values: Row) -> str:
    return ", ".join(f"{k} {'/'.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in values.items())


_MODEL = ("dataset", "model")
_ALL = (
    Table(
        "data", "The corpora, and the share of their words that WordNet covers (%)", "Table 1", ("dataset",),
        tuple(printed.DATA["penn"]),
        tuple(Cell({"dataset": name}, printed.DATA[name], Job(name, "groc")) for name in printed.DATASETS), _data,
        note="Tokens of the training text, ours with `<eos>`; forms by the paper's rules.", shown=(),
    ),
    Table(
        "main", "Output embeddings with a closed vocabulary (perplexity)", "Tables 2 and 9", _MODEL,
        ("parameters", "dev", "test"), tuple(_main_cells()), measured,
    ),
    Table(
        "frequency", "Test loss of each rival above GroC's, by how often training had the word (nats)", "Figure 3",
        _MODEL, BIN_NAMES, tuple(Cell({"dataset": d, "model": m}, {}, Job(d, m)) for d, m in PAIRS if m != "groc"),
        _frequency, shown=("of", "runs", "seeds", "device"),
        note="The difference of the median losses, or of the means where a record has no medians. Above 0, GroC is "
        "better. The paper draws it and prints no numbers.",
    ),
    Table(
        "ablations", "GroC with and without its output network, relations and definitions (perplexity)", "Table 3",
        ("dataset", "output network", "without"), ("dev", "test"), tuple(_ablation_cells()), measured,
    ),
    Table(
        "coverage", "GroC on penn with a part of WordNet (test perplexity)", "Table 4", ("model", "coverage"),
        ("test",), tuple(_coverage_cells()), measured,
        note="Coverage is the share of WordNet's entries that is left. With surface forms alone the paper has 73.1.",
    ),
    Table(
        "speed", "Seconds an epoch, their ratio to tied, and what sparse updates cost (test perplexity)", "Table 10",
        _MODEL, ("seconds", "ratio", "test"), tuple(_speed_cells()), _speed,
        note="p is the probability of a full update of the output embedding. The paper's device is an RTX 2080 Ti, and "
        "its groc has characters where that of our recipes has n-grams. "
        "Our seconds are the median step of `groc bench`, 20 x 35 words without dropout of words and weights, as often "
        "as the text has them; with p, the mean of full and other steps. Perplexities are those of the recipes.",
    ),
    Table(
        "size", "Models of comparable size on penn, and our best recipes (test perplexity)", "Table 11", _MODEL,
        ("parameters", "test"), tuple(_size_cells()), measured,
        note="The best recipes have at most 24 million parameters; those of wikitext-2 are not in the paper's table.",
    ),
    Table(
        "hyper-parameters", "The settings behind the main comparison, chosen on dev", "Tables 7 and 8", _MODEL,
        ("output", "training"),
        tuple(
            Cell({"dataset": d, "model": m}, {"output": _settings(printed.HYPER[d][m])}, Job(d, m)) for d, m in PAIRS
        ),
        _hyper, shown=("trials", "runs", "seeds"),
        note="Dropout behind `training` is that of the prefix network: input, hidden, output. Trials are those of "
        "recorded searches.",
    ),
)  # fmt: skip
TABLES = {one.name: one for one in (*_ALL, *OPEN_TABLES)}
"""By name, in the paper's order."""
