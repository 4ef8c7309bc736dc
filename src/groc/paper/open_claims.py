"""The claims of the open-vocabulary part: models of news on other domains, text by text, and words held out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from groc.adaptation.online import KINDS
from groc.paper.domains import DOMAINS, FAR, FIRST, LATER_YEARS
from groc.paper.judging import Claim, Verdict, judge
from groc.paper.records import Results
from groc.paper.table import Row
from groc.paper.tables import TABLES

PART = f"first {FIRST:,} tokens"
"""Of a long text, what dynamic evaluation reads."""
OWN = ("relations", "definition", "relations and definition")
"""What a model is told of a word that was held out."""


def open_claims(results: Results) -> list[Claim]:
    rows = TABLES["cross-domain"].rows(results)
    tests = {(row["domain"], row["model"]): row["test"] for row in rows}
    seeds = ["one seed"] if max((row["runs"] for row in rows if row["runs"]), default=0) == 1 else []
    told = [row for row in TABLES["held-out"].rows(results) if row["gain"] is not None and row["low"] is not None]
    cut = [f"{domain}, {PART}" if (f"{domain}, {PART}", "groc+dynamic") in tests else domain for domain in DOMAINS]

    def against(one: str, others: Sequence[str], domains: Sequence[str]) -> dict[str, Verdict]:
        """Whether a row is below all of some others on each text."""
        return {
            domain: all(tests[domain, one] < tests[domain, other] for other in others)
            for domain in domains
            if all(tests.get((domain, model)) for model in (one, *others))
        }

    tuned_texts = [*LATER_YEARS, *FAR]
    claims = []
    for text, one, others, domains in (
        ("With no training GroC beats tied", "groc", ["tied"], DOMAINS),
        ("A local cache makes GroC better", "groc+local", ["groc"], DOMAINS),
        ("A local cache makes tied better", "tied+local", ["tied"], DOMAINS),
        ("With a local cache GroC beats tied", "groc+local", ["tied+local"], DOMAINS),
        ("An unbounded cache makes GroC better than a local one", "groc+unbounded", ["groc+local"], DOMAINS),
        ("An unbounded cache makes tied better than a local one", "tied+unbounded", ["tied+local"], DOMAINS),
        ("With an unbounded cache GroC beats tied", "groc+unbounded", ["tied+unbounded"], DOMAINS),
        ("Dynamic evaluation makes GroC better than any cache", "groc+dynamic", [f"groc+{c}" for c in KINDS], cut),
        ("Dynamic evaluation makes tied better than any cache", "tied+dynamic", [f"tied+{c}" for c in KINDS], cut),
        ("GroC with dynamic evaluation beats tied with it or with any cache", "groc+dynamic",
         ["tied", *(f"tied+{way}" for way in (*KINDS, "dynamic"))], cut),
        ("Fine-tuned GroC beats fine-tuned tied", "groc+finetuned", ["tied+finetuned"], tuned_texts),
    ):  # fmt: skip
        claims.append(judge(text, against(one, others, domains), len(domains), seeds))
    new = [row for row in TABLES["unseen"].rows(results) if row["both"] and row["tied"] and row["domain"] in DOMAINS]
    for rival, text in (
        ("closed share", "the paper's share for them, a hundredth spread evenly, would give them"),
        ("even share", "an even share as large as the text has new words would"),
        ("tied", "tied does, whose weight of them is tuned likewise"),
    ):
        less: dict[str, Verdict] = {row["domain"]: row["both"] < row[rival] for row in new}
        claims.append(judge(f"On words never seen GroC loses less than {text}", less, len(DOMAINS), seeds))
    for where, some in (
        ("all texts", new),
        ("news", [row for row in new if row["domain"] not in FAR]),
        ("far texts", [row for row in new if row["domain"] in FAR]),
    ):
        claims.append(_margin(where, [row["oov"] for row in some], [1 - ratio(tests, row["domain"]) for row in some]))
    models = ", ".join(sorted({row["model"] for row in told}))
    helps: dict[str, Verdict] = {_held_out(row): row["low"] > 0 for row in told if row["told"] in OWN}
    misleads: dict[str, Verdict] = {
        _held_out(row): row["gain"] <= 0 for row in told if row["told"].startswith("another")
    }
    cells = len(OWN) * max(len({_model(row) for row in told}), 1)
    claims.append(judge(f"What a lexicon says of a word that was held out helps ({models or 'GroC'})", helps, cells))
    claims.append(judge(f"What it says of another word does not ({models or 'GroC'})", misleads, cells))
    return claims


def _held_out(row: Row) -> str:
    return f"{row['told']}, {_model(row)}"


def _model(row: Row) -> str:
    return f"{row['model']} on {row['dataset']}, seeds {row['seeds']}"


def ratio(tests: Mapping[tuple[str, str], float], domain: str) -> float:
    return tests[domain, "groc"] / tests[domain, "tied"]


def _margin(where: str, shares: Sequence[float], margins: Sequence[float]) -> Claim:
    """Spearman's rank correlation; no verdict, since the texts are few."""
    ranks = [
        [sum(other < one for other in values) + sum(other == one for other in values) / 2 for one in values]
        for values in (shares, margins)
    ]
    is_defined = len(shares) > 2 and all(len(set(values)) > 1 for values in ranks)
    rho = f"{statistics.correlation(*ranks):.2f} ({len(shares)})" if is_defined else "not run"
    return Claim(f"Rank correlation of GroC's margin over tied with the share of words that are new, {where}", "", rho)
