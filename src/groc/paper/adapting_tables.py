"""The tables of how models are adapted, and of words held out of training: caches, fine-tuning, what is told."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from groc.adaptation.online import CacheSettings
from groc.paper.domains import SOURCE, place_of
from groc.paper.records import Results
from groc.paper.runs import Run, best
from groc.paper.table import NONE, Row, Table, origin
from groc.results import HELD_OUT


def _fine_tuning(results: Results) -> list[Row]:
    """What fine-tuning took and what it cost: updates, those to where tied ends, the source before and after."""
    runs: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results.counted:
        if run.adapted and run.recipe == SOURCE:
            runs[run.dataset, run.variant].append(run)
    chosen = {key: best(some)[0] for key, some in runs.items()}
    rows = []
    for (dataset, variant), run in sorted(chosen.items(), key=lambda item: place_of(*item[0])):
        tied = chosen.get((dataset, "tied"))
        goal = min((row["valid_loss"] for row in tied.curve), default=-math.inf) if tied else -math.inf
        source = next((row for row in run.figures["texts"] if row["text"] == "source valid"), None)
        rows.append(
            {
                "domain": dataset,
                "model": variant,
                "rate": run.settings["training.rate"],
                "tried": sorted({one.settings["training.rate"] for one in runs[dataset, variant]}),
                "dev": run.dev,
                "updates": min(run.curve, key=lambda row: row["valid_loss"])["step"],
                "to_tied": next((row["step"] for row in run.curve if row["valid_loss"] <= goal), "never"),
                "source_before": source and source["before"]["perplexity"],
                "source_after": source and source["after"]["perplexity"],
                **origin([run]),
            }
        )
    return rows


def _said_of_rates(rows: Sequence[Row]) -> str:
    """From which rates one was chosen, and whether a larger one may be better."""
    told = []
    for row in (row for row in rows if len(row["tried"]) > 1):
        of = ", the largest of" if row["rate"] == row["tried"][-1] else " of"
        tried = ", ".join(f"{rate:g}" for rate in row["tried"])
        told.append(f"{row['model']} on {row['domain']} {row['rate']:g}{of} {tried}")
    return f"Rates were chosen by dev, for the other texts too: {'; '.join(told)}." if told else ""


def _held_out(results: Results) -> list[Row]:
    """What models lose on words that were taken out of their training, by what they are told of them."""
    rows = []
    for run in results.counted:
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
    """The best values of each cache of states that was tuned, and all that were tried."""
    rows = []
    for run in results.counted:
        for _, _, figures in run.evaluations():
            for place, tried in figures.get("tuning", {}).items():
                if all("lambda" in row and "theta" in row for row in tried):
                    number = int(place.split()[0]) - 1
                    used = CacheSettings.of(figures["caches"][number]).facts()
                    names = {"text": figures["tuned_on"], "model": run.variant, "cache": used["kind"], "tried": tried}
                    found = min(tried, key=lambda row: row["loss"])
                    rows.append(
                        names
                        | {"last": NONE, **used}
                        | {key: found[key] for key in ("lambda", "theta")}
                        | origin([run])
                    )
                    rows[-1]["dev"] = found["perplexity"]
    return rows


CACHES = Table(
    "caches", "Caches: the best values of lambda and theta (perplexity)", "Figures 6 and 7",
    ("text", "model", "cache"), ("likeness", "size", "recency", "last", "lambda", "theta", "dev"), find=_caches,
    note="lambda is the model's share, or learned; docs/caches.md says what the others are. The paper draws its "
    "local cache; on its valid text of 2008 it finds 0.966 and theta 0.5. Its search on the valid text of penn "
    "(Figure 7) was not run with ours.",
)  # fmt: skip
FINE_TUNING = Table(
    "fine-tuning", "Fine-tuning of models of news on other texts (perplexity)", "Table 12", ("domain", "model"),
    ("rate", "dev", "updates", "to_tied", "source_before", "source_after"), find=_fine_tuning,
    note="`rate`: the learning rate. `updates`: to the best valid loss, and `to tied` to that of tied; `source`: "
    "the valid text of news. The figure has four of the texts.",
    remark=_said_of_rates,
)  # fmt: skip
HELD_OUT_WORDS = Table(
    "held-out", "Loss on words held out of training, by what the model is told of them (nats)", "",
    ("dataset", "model", "told"), ("loss", "gain", "low", "high", "seen_loss", "even_odds", "closed_share"),
    find=_held_out,
    note="`gain`: over the first row, `low` to `high` its 95% interval; `seen loss`: on words that training saw as "
    "often, in the same lines; `even odds`: of all words of the list; `closed share`: what a closed model gives a "
    "word that it has no row for, a hundredth of the probability spread evenly.",
)  # fmt: skip
