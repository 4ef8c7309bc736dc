"""The tables of open vocabularies: models moved to other domains, and words that training never had."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from groc.paper import published as printed
from groc.paper.adapting_tables import CACHES, FINE_TUNING, HELD_OUT_WORDS
from groc.paper.domains import DOMAINS, EARLIER_YEARS, FAR, LATER_YEARS, SOURCE, place_of
from groc.paper.records import Results
from groc.paper.runs import Run, best
from groc.paper.table import NONE, NOT_RUN, Row, Table, mean, origin, ours, shown
from groc.report import table

FINE_TUNED_FOR = (*LATER_YEARS, *FAR)
"""All other texts have nothing of their own kind to be fine-tuned on."""
CLOSED_SHARE = 0.01
"""What the paper's tied model spreads evenly over all words."""
UNSEEN = {
    "tied": "tied",
    "characters": "groc+without both",
    "and definition": "groc+without relations",
    "and relations": "groc+without definitions",
    "both": "groc",
}
"""Rows of the cross-domain table by what a model is told of words that it never saw."""


def _cross_domain(results: Results) -> list[Row]:
    """A row for each text and model: every evaluation of a news model, and of such as were fine-tuned for the text."""
    candidates: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results.counted:
        if run.recipe == SOURCE and (run.adapted or run.dataset == SOURCE):
            candidates[run.variant, run.dataset if run.adapted else ""].append(run)
    found: defaultdict[tuple[str, str], dict[Run, Row]] = defaultdict(dict)
    for run in (run for runs in candidates.values() for run in best(runs)):
        for domain, model, figures in run.by_domain():
            if not run.adapted or _is_tuned_for(run, domain.partition(", ")[0]):
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
        for (domain, model), each in sorted(found.items(), key=lambda item: place_of(*item[0]))
    ]


def _is_tuned_for(run: Run, domain: str) -> bool:
    return run.dataset == domain or (run.dataset == EARLIER_YEARS and domain in LATER_YEARS)


def _by_domain(rows: Sequence[Row]) -> str:
    """A line a domain and a column a model; first for whole texts, then for their first tokens, where others are."""
    parts = []
    for whole in (True, False):
        some = [row for row in rows if (", " not in row["domain"]) == whole]
        models = list(dict.fromkeys(row["model"] for row in sorted(some, key=lambda row: place_of("", row["model"]))))
        cells = {(row["domain"], row["model"]): ours(row, "test") for row in some}
        new = {row["domain"]: f"{row['oov']:.1f}" for row in some}
        lines = [
            [domain, oov, *(cells.get((domain, model), _missing(domain, model)) for model in models)]
            for domain, oov in new.items()
        ]
        if lines:
            parts.append(table(["domain", "oov", *models], lines))
    runs: dict[str, int] = {}
    for row in rows:
        runs.setdefault(row["model"].partition("+")[0], row["runs"])
    devices = "; ".join(sorted({row["device"] for row in rows}))
    counts = ", ".join(f"{model} {number}" for model, number in runs.items())
    return "\n\n".join([*parts, f"Runs: {counts} ({devices})."])


def _missing(domain: str, model: str) -> str:
    """What stands where there is no figure: texts that no model is fine-tuned for will never have one."""
    return NONE if model.endswith("+finetuned") and domain not in FINE_TUNED_FOR else NOT_RUN


def _domains(results: Results) -> list[Row]:
    """The texts of the comparison, and how much of them is new to the source."""
    figures = results.data.get("data/cross-domain", {"texts": [], "unseen": []})
    sizes = {(row["set"], row["text"]): row for row in figures["texts"]}
    train = sizes.get((SOURCE, "train"))
    nothing_new = dict.fromkeys(("oov", "new words", "known"), math.nan)
    rows = [(f"{SOURCE}, training text", train, nothing_new)] if train else []
    for row in sorted(figures["unseen"], key=lambda row: place_of(row["test"])):
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
            "closed share": math.log(rows["groc"]["vocabulary"] / CLOSED_SHARE),
            "even share": math.log(rows["groc"]["vocabulary"] / (rows["groc"]["oov"] / 100)),
            **{name: rows[model]["unseen_loss"] if model in rows else None for name, model in UNSEEN.items()},
            "runs": rows["groc"]["runs"],
        }
        for domain, rows in found.items()
        if "groc" in rows and "," not in domain
    ]


def _memory(results: Results) -> list[Row]:
    """What GroC loses on new words with and without memory of them, all texts together, by how often they were read."""
    found: defaultdict[str, dict[str, list[Row]]] = defaultdict(dict)
    chosen = best(run for run in results.counted if run.recipe == run.dataset == SOURCE and run.variant == "groc")
    for domain, model, figures in (one for run in chosen[:1] for one in run.by_domain()):
        if domain in DOMAINS and model in ("groc", "groc+memory") and figures.get("new_by_occurrence"):
            found[domain][model] = figures["new_by_occurrence"]
    pairs: defaultdict[int, list[tuple[Row, Row]]] = defaultdict(list)
    for both in found.values():
        if len(both) == 2:
            with_memory = {row["from"]: row for row in both["groc+memory"]}
            for row in both["groc"]:
                other = with_memory[row["from"]]
                if 0 < row["tokens"] == other["tokens"]:  # else the two are not of the same words
                    pairs[row["from"]].append((row, other))
    rows = []
    for _, some in sorted(pairs.items()):
        tokens = sum(plain["tokens"] for plain, _ in some)
        plain, helped = (sum(pair[i]["loss"] * pair[i]["tokens"] for pair in some) / tokens for i in (0, 1))
        better = sum(helped["loss"] < plain["loss"] for plain, helped in some)
        losses = {"tokens": tokens, "groc": plain, "groc+memory": helped, "gain": plain - helped}
        rows.append(
            {"read before": _times(some[0][0]), **losses, "better on": f"{better} of {len(some)}", **origin(chosen[:1])}
        )
    return rows


def _times(row: Row) -> str:
    first, last = row["from"], row["to"]
    return f"{first}+" if last is None else f"{first}" if first == last else f"{first}-{last}"


OPEN_TABLES = (
    CACHES,
    Table(
        "cross-domain", "Models of news on other texts, with an open vocabulary (perplexity)", "Table 5",
        ("domain", "model"), ("oov", "test", "unseen_loss"), find=_cross_domain, layout=_by_domain,
        on_demand=lambda row: "+without " in row["model"],  # for the table of unseen words
        note="`oov`: percent of the tokens that training never had; the loss on these is in `groc paper unseen`. All "
        "models choose among the words of the source's training and the text's. Whatever a row has to tune is tuned on "
        "the valid text of 2008, what new words get included; the share of a cache is learned from each text as it is "
        "read, unless a fixed one was better on that of 2008; how each weighs words is in `groc paper caches`. "
        "WikiText-2's new tokens are mostly its marks (`<unk>`, `@-@`). Models are fine-tuned for the years after "
        "2013 and for texts other than news; elsewhere is `-`.\n\n"
        "The paper's figures, on other texts:\n\n"
        + table(
            ["", *printed.DOMAINS],
            [[name, *(shown(value, "test") or NONE for value in row)] for name, row in printed.CROSS_DOMAIN.items()],
        ),
    ),
    Table(
        "domains", "The texts of the cross-domain comparison", "Table 6", ("domain",),
        ("tokens", "words", "oov", "new words", "known"), find=_domains, shown=(),
        note="`oov`: percent of the tokens that the training text of news does not have; `new words`: percent of the "
        "words; `known`: percent of those tokens of which the lexicon says something.",
    ),
    Table(
        "unseen", "Loss on words never seen in training, by what the model is told of them (nats)", "", ("domain",),
        ("oov", "closed share", "even share", *UNSEEN), find=_unseen, shown=("runs",),
        note="What an even share of the probability would give them: `closed share`, a hundredth, as the paper's tied "
        "model has it; `even share`, as much as the text has new words. `tied` is told nothing of them, GroC their "
        "characters, or these and their definition, their relations, or both. What new words weigh is tuned on the "
        "valid text of 2008, for both.",
    ),
    Table(
        "memory", "Loss on new words of all texts, by how often they were read before (nats)", "", ("read before",),
        ("tokens", "groc", "groc+memory", "gain", "better on"), find=_memory,
        note="`groc+memory` blends a new word's vector with what the contexts say in which it was read (`--memory`): "
        "words that were read are expected again, at the price of those that come for the first time.",
    ),
    FINE_TUNING,
    HELD_OUT_WORDS,
)  # fmt: skip
