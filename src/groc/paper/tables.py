"""Every table and figure of the paper."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from groc.paper import published as printed
from groc.paper.domains import DOMAINS, SOURCE
from groc.paper.runs import Job, Results, Run, best
from groc.paper.table import Cell, Row, Table, mean, measured, origin, shown
from groc.report import BINS, table
from groc.results import HELD_OUT

UNSEEN = {
    "tied": "tied",
    "characters": "groc+without both",
    "and definition": "groc+without relations",
    "and relations": "groc+without definitions",
    "both": "groc",
}
"""Rows of the cross-domain table by what a model is told of words that it never saw."""
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
    runs, groc = (results.of(Job(cell.keys["dataset"], model)) for model in (cell.keys["model"], "groc"))
    for kind, key in (("median", "median_loss"), ("mean", "loss")):
        ours, theirs = _losses(groc, key), _losses(runs, key)
        if gains := {name: theirs[name] - ours[name] for name in theirs if name in ours}:
            return {**dict.fromkeys(BIN_NAMES), **gains, "of": kind, **origin(runs)}
    return {**dict.fromkeys(BIN_NAMES), "of": None, **origin([])}


def _ablation_cells() -> list[Cell]:
    cells = []
    for dataset, figures in printed.ABLATIONS.items():
        usual = dataset == "wikitext-2"  # whether the main row has the output network
        for network, row in figures.items():
            start = "groc-out" if network else "groc-no-out" if usual else "groc"
            for without, (dev, test) in zip(printed.WITHOUT, row, strict=True):
                variant = f"{start}-without-{without}" if without else "groc" if network == usual else start
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
    assert cell.job is not None
    tied = results.of(Job(cell.job.dataset, "tied"))
    row = {**measured(results, cell), **mean("seconds", (run.epoch_seconds for run in results.of(cell.job)))}
    of_tied = mean("seconds", (run.epoch_seconds for run in tied))["seconds"]
    alike = row["seconds"] and of_tied and origin(tied)["device"] == row["device"]
    return {**row, "ratio": row["seconds"] / of_tied if alike else None}


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
    rows: list[tuple[str, float | None, float | None, Job | None, tuple[str, ...]]] = [
        *((name, millions, test, None, ()) for name, millions, test in printed.SIZES),
        ("tied", 10, 86.2, Job("penn", "tied"), ()),
        ("groc", 9.7, 69.5, Job("penn", "groc"), ()),
    ]
    for model in ("tied", "groc"):
        job = Job("penn", model, set="-best")
        rows.append((f"{model}, best recipe", None, None, job, ()))
        rows.append((f"{model}, best recipe, dynamic evaluation", None, None, job, ("dynamic",)))
    return [
        Cell({"dataset": "penn", "model": name}, {"parameters": m and m * 1e6, "test": test}, job, extras)
        for name, m, test, job, extras in rows
    ]


def _hyper(results: Results, cell: Cell) -> Row:
    dataset, model = cell.keys["dataset"], cell.keys["model"]
    job = Job(dataset, model)
    runs = results.of(job)
    trials = [len(search["trials"]) for search in results.searches if search["name"] == f"{job.recipe}/{model}"]
    row: Row = {"output": None, "training": None, "trials": sum(trials), **origin(runs)}
    if runs:
        own = runs[0].settings
        named = {name: own[f"output.{name}"] for one in printed.HYPER.values() for name in one[model]}
        dropouts = "/".join(f"{own[f'prefix.{site}_dropout']:g}" for site in ("input", "hidden", "output"))
        rates = f"rate {own['training.rate']:g}, encoder x{own['training.encoder_rate']:g}"
        row["output"] = _settings(named)
        row["training"] = f"{rates}, clip {own['training.clip']:g}, dropout {dropouts}, {own['training.epochs']} epochs"
    return row


def _settings(values: Row) -> str:
    return ", ".join(f"{k} {'/'.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in values.items())


def _cross_domain(results: Results) -> list[Row]:
    """A row for each text and model: every evaluation of a news model, and of such as were fine-tuned on the text."""
    candidates: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results.runs:
        if run.recipe == SOURCE and (run.adapted or run.dataset == SOURCE):
            candidates[run.variant, run.dataset if run.adapted else ""].append(run)
    found: defaultdict[tuple[str, str], dict[Run, Row]] = defaultdict(dict)
    for run in (run for runs in candidates.values() for run in best(runs)):
        for domain, model, figures in run.by_domain():
            found[domain, model][run] = figures  # the last evaluation of a kind counts
    return [
        {
            "domain": domain,
            "model": model,
            **mean("test", (figures["perplexity"] for figures in each.values())),
            **mean("unseen_loss", (figures["unseen"]["loss"] for figures in each.values())),
            "oov": mean("oov", (100 * figures["oov_share"] for figures in each.values()))["oov"],
            "tokens": next(iter(each.values())).get("tokens"),
            "vocabulary": next(iter(each.values())).get("vocabulary"),
            **origin(list(each)),
        }
        for (domain, model), each in sorted(found.items(), key=_place)
    ]


def _place(item: tuple[tuple[str, str], Any]) -> tuple[int, str, bool, str]:
    """Domains in their order, and of each the closed models first."""
    (domain, model), _ = item
    name = domain.partition(", ")[0]
    return DOMAINS.index(name) if name in DOMAINS else len(DOMAINS), domain, model.startswith("groc"), model


def _domains(results: Results) -> list[Row]:
    """The texts of the comparison, and how much of them is new to the source."""
    figures = results.data.get("data/cross-domain", {"texts": [], "unseen": []})
    sizes = {(row["set"], row["text"]): row for row in figures["texts"]}
    train = sizes.get((SOURCE, "train"))
    rows = [(f"{SOURCE}, training text", train, {"oov": "", "new words": "", "known": ""})] if train else []
    for row in sorted(figures["unseen"], key=lambda row: _place(((row["test"], ""), None))):
        new = {"oov": row["of_tokens"], "new words": row["of_words"], "known": row["with_entry"]}
        rows.append((row["test"], sizes[row["test"], "test"], {name: 100 * share for name, share in new.items()}))
    return [
        {"domain": domain, "tokens": text["tokens"], "words": text["words"], **new, "runs": 1}
        for domain, text, new in rows
    ]


def _unseen(results: Results) -> list[Row]:
    """Of each domain what models lose on words never seen, by what they are told of them."""
    found: defaultdict[str, Row] = defaultdict(dict)
    for row in _cross_domain(results):
        if row["model"] in UNSEEN.values() and row["unseen_loss"] is not None:
            found[row["domain"]][row["model"]] = row
    return [
        {
            "domain": domain,
            "oov": rows["groc"]["oov"],
            "even odds": math.log(rows["groc"]["vocabulary"]),
            **{name: rows[model]["unseen_loss"] if model in rows else None for name, model in UNSEEN.items()},
            "runs": rows["groc"]["runs"],
        }
        for domain, rows in found.items()
        if "groc" in rows and "," not in domain
    ]


def _fine_tuning(results: Results) -> list[Row]:
    """What fine-tuning took and what it cost: updates, those to where tied ends, the source before and after."""
    runs: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results.runs:
        if run.adapted and run.recipe == SOURCE:
            runs[run.dataset, run.variant].append(run)
    chosen = {key: best(some)[0] for key, some in runs.items()}
    rows = []
    for (dataset, variant), run in sorted(chosen.items(), key=_place):
        tied = chosen.get((dataset, "tied"))
        goal = min((row["valid_loss"] for row in tied.curve), default=-math.inf) if tied else -math.inf
        source = next((row for row in run.figures["texts"] if row["text"] == "source valid"), None)
        rows.append(
            {
                "domain": dataset,
                "model": variant,
                "rate": run.settings["training.rate"],
                "dev": run.dev,
                "updates": min(run.curve, key=lambda row: row["valid_loss"])["step"],
                "to_tied": next((row["step"] for row in run.curve if row["valid_loss"] <= goal), "never"),
                "source_before": source and source["before"]["perplexity"],
                "source_after": source and source["after"]["perplexity"],
                **origin([run]),
            }
        )
    return rows


def _held_out(results: Results) -> list[Row]:
    """What models lose on words that were taken out of their training, by what they are told of them."""
    rows = []
    for run in results.runs:
        for figures in run.record.get("evaluations", {}).values():
            if figures.get("vocabulary_kind") == HELD_OUT:
                for row in figures["rows"]:
                    measures = {
                        "loss": row["loss"]["mean"],
                        "gain": row["gain"]["mean"],
                        "low": row["gain"]["low"],
                        "high": row["gain"]["high"],
                        "seen_loss": row["seen_loss"]["mean"],
                        **{name: figures[name] for name in ("even_odds", "closed_share", "words", "tokens")},
                    }
                    named = {"dataset": run.dataset, "model": run.variant, "told": row["condition"]}
                    rows.append(named | measures | origin([run]))
    return rows


def _caches(results: Results) -> list[Row]:
    """The best values of each local cache that was tuned, and all that were tried."""
    rows = []
    for run in results.runs:
        for _, _, figures in run.evaluations():
            for tried in (rows for name, rows in figures.get("tuning", {}).items() if name.endswith(" local")):
                if all("lambda" in row for row in tried):
                    names = {"text": figures["tuned_on"], "model": run.variant, "tried": tried}
                    found = min(tried, key=lambda row: row["loss"])
                    rows.append(names | {key: found[key] for key in ("lambda", "theta")} | origin([run]))
                    rows[-1]["dev"] = found["perplexity"]
    return rows


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
        _frequency, shown=("of", "runs", "device"),
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
        note="p is the probability of a full update of the output embedding. The paper's device is an RTX 2080 Ti.",
    ),
    Table(
        "size", "Models of comparable size on penn (test perplexity)", "Table 11", ("model",), ("parameters", "test"),
        tuple(_size_cells()), measured,
    ),
    Table(
        "hyper-parameters", "The settings behind the main comparison, chosen on dev", "Tables 7 and 8", _MODEL,
        ("output", "training"),
        tuple(
            Cell({"dataset": d, "model": m}, {"output": _settings(printed.HYPER[d][m])}, Job(d, m)) for d, m in PAIRS
        ),
        _hyper, shown=("trials", "runs"),
        note="Dropout behind `training` is that of the prefix network: input, hidden, output. Trials are those of "
        "recorded searches.",
    ),
    Table(
        "caches", "The local cache: the best values of lambda and theta (perplexity)", "Figures 6 and 7",
        ("text", "model"), ("lambda", "theta", "dev"), find=_caches,
        note="lambda is the model's share. The paper draws it; on its valid text of 2008 it finds 0.966 and theta 0.5.",
    ),
    Table(
        "cross-domain", "Models of news on other texts, with an open vocabulary (perplexity)", "Tables 5, 6 and 12",
        ("domain", "model"), ("oov", "test", "unseen_loss"), find=_cross_domain,
        note="`oov`: percent of the tokens that training never had; `unseen_loss`: loss on these, in nats.\n\n"
        "The paper's figures, on texts that are not at hand here:\n\n"
        + table(
            ["", *printed.DOMAINS],
            [[name, *(shown(value, "test") for value in row)] for name, row in printed.CROSS_DOMAIN.items()],
        ),
    ),
    Table(
        "domains", "The texts of the cross-domain comparison", "Tables 5 and 12", ("domain",),
        ("tokens", "words", "oov", "new words", "known"), find=_domains, shown=(),
        note="`oov`: percent of the tokens that the training text of news does not have; `new words`: percent of the "
        "words; `known`: percent of those tokens of which the lexicon says something.",
    ),
    Table(
        "unseen", "Loss on words never seen in training, by what the model is told of them (nats)", "Not", ("domain",),
        ("oov", "even odds", *UNSEEN), find=_unseen, shown=("runs",),
        note="`tied` knows nothing of them: its share of even odds, tuned. GroC is told their characters, or these and "
        "their relations, definition or both. No weight of new words is tuned here.",
    ),
    Table(
        "fine-tuning", "Fine-tuning of models of news on other texts (perplexity)", "Table 6", ("domain", "model"),
        ("rate", "dev", "updates", "to_tied", "source_before", "source_after"), find=_fine_tuning,
        note="`updates`: to the best valid loss, and `to_tied` to that of tied; `source`: the valid text of news.",
    ),
    Table(
        "held-out", "Loss on words held out of training, by what the model is told of them (nats)", "Not",
        ("dataset", "model", "told"), ("loss", "gain", "low", "high", "seen_loss"), find=_held_out,
        note="`gain`: over the first row, `low` to `high` its 95% interval; `seen_loss`: on words that training saw as "
        "often, in the same lines.",
    ),
)  # fmt: skip
TABLES = {one.name: one for one in _ALL}
"""By name, in the paper's order."""
