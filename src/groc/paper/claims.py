"""What holds of the paper's claims, and of ours: a line each, with its verdict, from the records."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from groc.adaptation.online import KINDS
from groc.paper.crossing import FIRST
from groc.paper.domains import DOMAINS, FAR, LATER_YEARS
from groc.paper.published import DATASETS, ELSEWHERE
from groc.paper.runs import Job, Results
from groc.paper.searches import not_tuned_alike
from groc.paper.table import Row
from groc.paper.tables import TABLES, by_bin

Verdict = bool | str
"""Whether a comparison speaks for a claim, or why it says nothing."""
NEAR, ONE_SEED, OTHERWISE, UNPAIRED = "too near", "with one seed only", "trained otherwise", "not word by word"
UNEQUAL = "not tuned equally, see what is open"
PART = f"first {FIRST:,} tokens"
"""Of a long text, what dynamic evaluation reads."""
FEW = 10
"""Exceptions to a claim that are named."""
RARE, MIDDLE, FREQUENT = ("1-9", "10-99"), ("100-999",), ("1,000-9,999", "10,000+")
"""Bins of training frequency."""
SPREADS = 2
"""Of a model over its seeds, the larger of two: what differs by no more is not told apart."""
LOSSES_APART = 0.08
"""Nats. What GroC gains on rare words less what it gains on frequent ones has a spread of .04 over three seeds, in the
median; in the mean of .02 at most, so that this is cautious there."""
_MIXED = "AWD-LSTM with a mixture of softmaxes"
_TESTS = {name.rpartition(" (")[0]: test for name, _, test in ELSEWHERE}
MARKS = {
    "": {"AWD-LSTM": _TESTS["AWD-LSTM, fine-tuned"], _MIXED: _TESTS[_MIXED]},
    ", dynamic evaluation": {
        "AWD-LSTM": _TESTS["AWD-LSTM, dynamic evaluation"],
        _MIXED: _TESTS[f"{_MIXED}, dynamic evaluation"],
    },
}
"""What others have on penn's test text with at most 24 million parameters. Our models of that size mix softmaxes."""
SHARING = ("bilinear", "deep-residual", "adaptive")
"""Rivals that share more between words than a tied table does."""
ALIKE = 1.05
"""Perplexities that differ by no more are taken as alike where a claim says so."""


def closed_claims(results: Results) -> list[str]:
    """Each claim of the closed-vocabulary part, and what our runs say of it."""
    rows = {name: table.rows(results) for name, table in TABLES.items()}
    lines: list[str] = []
    for dataset in DATASETS:
        main, gains, cut = (
            [row for row in rows[name] if row["dataset"] == dataset] for name in ("main", "frequency", "ablations")
        )
        tuned_alike = dataset not in not_tuned_alike(rows["hyper-parameters"])
        lines += _of_perplexities(dataset, {row["model"]: row for row in main}, tuned_alike)
        lines += _of_rare_words(dataset, gains, results)
        lines += _of_parts(dataset, cut)
    lines += _of_large_models({row["model"]: row for row in rows["size"] if row["dataset"] == "penn"})
    return [*lines, *_of_coverage(rows["coverage"])]


def _of_perplexities(dataset: str, main: Mapping[str, Row], tuned_alike: bool) -> Iterator[str]:
    groc, tied = main["groc"], main["tied"]
    for split in ("test", "dev"):
        ran = [row for model, row in main.items() if model != "groc" and row[split] and groc[split]]
        figures = [f"{row['model']} {row[split]:.1f}" for row in (groc, *ran)] if ran else []
        figures += [UNEQUAL] if ran and not tuned_alike else []
        claim = f"On {dataset} GroC has the lowest perplexity of the seven on the {split} text"
        yield _line(claim, [_is_lower(groc, row, split) for row in ran], 6, figures)
    ran = [main[model] for model in SHARING if main[model]["test"] and tied["test"]]
    figures = [f"{row['model']} {row['test']:.1f}" for row in (tied, *ran)] if ran else []
    figures += [UNEQUAL] if ran and not tuned_alike else []
    claim = f"On {dataset} {', '.join(SHARING[:-1])} and {SHARING[-1]} have a lower perplexity than tied"
    yield _line(claim, [_is_lower(row, tied, "test") for row in ran], len(SHARING), figures)


def _of_rare_words(dataset: str, gains: Sequence[Row], results: Results) -> Iterator[str]:
    """In the median, as the paper's figure has it, and in the mean: few words on which a model loses much count there
    alone."""

    def verdict(row: Row, losses: Mapping[str, float | None]) -> Verdict:
        more = _mean(losses, RARE) - _mean(losses, FREQUENT)
        if abs(more) <= LOSSES_APART:
            return NEAR
        return OTHERWISE if more > 0 and row["differs"] else more > 0  # see _is_lower

    ran = {row["model"]: row for row in gains if row["runs"]}
    medians = {name: verdict(row, row) if row["of"] == "paired" else UNPAIRED for name, row in ran.items()}
    means = {}
    for model, row in ran.items():
        groc, rival = (
            by_bin((run.test() for run in results.of(Job(dataset, name))), "loss") for name in ("groc", model)
        )
        means[model] = verdict(row, {name: rival[name] - groc[name] for name in rival if name in groc})
    for measure, found in (("median", medians), ("mean", means)):
        claim = f"On {dataset} GroC gains more on words seen less than 100 times than on those seen 1,000 times or more"
        told = _where_not({model: verdict is not False for model, verdict in found.items()}, "against")
        told += _where_not({model: verdict is not NEAR for model, verdict in found.items()}, "clear against")
        yield _line(f"{claim}, in the {measure}", [*found.values()], 6, told)


def _of_parts(dataset: str, cut: Sequence[Row]) -> Iterator[str]:
    """What relations, definitions and the output network are worth."""
    full = {row["output network"]: row for row in cut if not row["without"]}
    spread = max((row["test_spread"] for row in cut if row["test_spread"] is not None), default=None)
    """Of any row: most have one seed."""
    found: list[Verdict] = []
    near = []
    for row in (row for row in cut if row["without"]):
        whole = full[row["output network"]]
        if row["test"] and whole["test"]:
            verdict = _is_apart(whole, row, spread)
            found.append(verdict)
            if verdict == NEAR:
                network = "" if row["output network"] == "yes" else " and the output network"
                near.append(f"without {row['without']}{network} {row['test']:.1f}, with them {whole['test']:.1f}")
    yield _line(f"On {dataset} leaving out relations, definitions or both makes GroC worse", found, 6, near)
    helps = dataset == "wikitext-2"
    network = "makes GroC better" if helps else "does not make GroC better"
    ran = full["yes"]["test"] and full["no"]["test"]
    better = _is_apart(full["yes"], full["no"], spread) if ran else NEAR
    verdict = better == helps if isinstance(better, bool) else better
    yield _line(f"On {dataset} an output network {network}", [verdict] if ran else [], 1)


def _is_apart(better: Row, worse: Row, spread: float | None) -> Verdict:
    """Whether the second of two rows of ablations has the higher perplexity."""
    if better["differs"] or worse["differs"]:
        return OTHERWISE
    if spread is None:
        return ONE_SEED
    difference: float = worse["test"] - better["test"]
    return difference > 0 if abs(difference) > SPREADS * spread else NEAR


def _of_large_models(sized: Mapping[str, Row]) -> Iterator[str]:
    for way, marks in MARKS.items():
        groc, tied = (sized[f"{model}, best recipe{way}"] for model in ("groc", "tied"))
        ran = bool(groc["test"] and tied["test"])
        figures = [f"{name} {_with_seeds(row)}" for name, row in (("GroC", groc), ("tied", tied))] if ran else []
        told = f"On penn with at most 24 million parameters{way.replace(', ', ' and ')} GroC"
        found = [_is_lower(groc, tied, "test")] if ran else []
        yield _line(f"{told} has a lower perplexity than tied", found, 1, figures)
        figures = [_with_seeds(groc)] if groc["test"] else []
        for name, mark in marks.items():
            known = {"test": mark, "test_spread": None, "differs": None}
            found = [_is_lower(groc, known, "test")] if groc["test"] else []
            yield _line(f"{told}, with a mixture of softmaxes, is below {name} ({mark})", found, 1, figures)


def _with_seeds(row: Row) -> str:
    return f"{row['test']:.1f} with {row['test_runs']} seed{'s' * (row['test_runs'] > 1)}"


def _of_coverage(coverage: Sequence[Row]) -> Iterator[str]:
    within = f"within {100 * (ALIKE - 1):.0f}% of what it has with all of WordNet"
    for how, claim in (
        ("groc, retrained", f"Retrained with any part of WordNet, GroC stays {within}"),
        ("groc, at inference", f"Trained with all of WordNet and read with a part of it, GroC does not stay {within}"),
        (
            "groc with forms dropout, at inference",
            f"Trained with forms dropout, GroC stays {within} with any part of it (our claim, not the paper's)",
        ),
    ):
        mine = [row for row in coverage if row["model"] == how]
        tests = {row["coverage"]: row["test"] for row in mine if row["differs"] in (None, mine[-1]["differs"])}
        stays: list[Verdict] = [
            test <= ALIKE * tests[1.0] for share, test in tests.items() if share < 1 and test and tests[1.0]
        ]
        ran = [*filter(None, tests.values())]
        figures = [f"{min(ran):.1f} to {max(ran):.1f}"] if len(ran) > 1 else []
        if how == "groc, at inference":
            yield _line(claim, [not all(stays)] if len(stays) == 5 else [], 1, figures)
        else:
            yield _line(claim, stays, 5, figures)


def _is_lower(one: Row, other: Row, figure: str) -> Verdict:
    """Whether a perplexity is lower than another, where they differ by more than seeds do (one seed tells nothing of
    that, so the other row's spread is taken for both). A rival with another course of training can speak against a
    model, but not for it."""
    spreads = [row[f"{figure}_spread"] for row in (one, other) if row[f"{figure}_spread"] is not None]
    if not spreads:
        return ONE_SEED
    if abs(one[figure] - other[figure]) <= SPREADS * max(spreads):
        return NEAR
    return OTHERWISE if one[figure] < other[figure] and other["differs"] else bool(one[figure] < other[figure])


def open_claims(results: Results) -> list[str]:
    """The same of the models of news that are moved to other domains, text by text, and of words held out."""
    tests = {(row["domain"], row["model"]): row["test"] for row in TABLES["cross-domain"].rows(results)}
    told = [row for row in TABLES["held-out"].rows(results) if row["gain"] is not None]
    cut = [f"{domain}, {PART}" if (f"{domain}, {PART}", "groc+dynamic") in tests else domain for domain in DOMAINS]

    def against(one: str, others: Sequence[str], domains: Sequence[str]) -> tuple[list[Verdict], list[str]]:
        """Whether a row is below all of some others on each text, and on which few it is not."""
        found = {
            domain: all(tests[domain, one] < tests[domain, other] for other in others)
            for domain in domains
            if all(tests.get((domain, model)) for model in (one, *others))
        }
        return list(found.values()), _where_not(found)

    tuned_texts = [*LATER_YEARS, *FAR]
    lines = []
    for claim, one, others, domains in (
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
        found, where_not = against(one, others, domains)
        lines.append(_line(claim, found, len(domains), where_not))
    new = [row for row in TABLES["unseen"].rows(results) if row["both"] and row["tied"]]
    for rival, claim in (
        ("closed share", "the paper's share for them, a hundredth spread evenly, would give them"),
        ("even share", "an even share as large as the text has new words would"),
        ("tied", "tied does, whose weight of them is tuned likewise"),
    ):
        less = {row["domain"]: row["both"] < row[rival] for row in new}
        lines.append(
            _line(f"On words never seen GroC loses less than {claim}", [*less.values()], len(DOMAINS), _where_not(less))
        )
    for where, some in (
        ("all texts", new),
        ("news", [row for row in new if row["domain"] not in FAR]),
        ("far texts", [row for row in new if row["domain"] in FAR]),
    ):
        lines.append(_margin(where, [row["oov"] for row in some], [1 - ratio(tests, row["domain"]) for row in some]))
    models = ", ".join(sorted({row["model"] for row in told}))
    own = [row["low"] > 0 for row in told if row["told"] in ("relations", "definition", "relations and definition")]
    cells = 3 * max(len({row["model"] for row in told}), 1)
    lines.append(_line(f"What a lexicon says of a word that was held out helps ({models or 'GroC'})", own, cells))
    wrong = [row["gain"] <= 0 for row in told if row["told"].startswith("another")]
    lines.append(_line(f"What it says of another word does not ({models or 'GroC'})", wrong, cells))
    return lines


def _where_not(found: Mapping[str, bool], word: str = "on") -> list[str]:
    """The texts, or models, of which a claim is not true, if they are few."""
    exceptions = [name.partition(", ")[0] for name, holds in found.items() if not holds]
    return [f"not {word} {', '.join(exceptions)}"] if 1 <= len(exceptions) <= FEW else []


def ratio(tests: Mapping[tuple[str, str], float], domain: str) -> float:
    return tests[domain, "groc"] / tests[domain, "tied"]


def _margin(where: str, shares: Sequence[float], margins: Sequence[float]) -> str:
    """Spearman's rank correlation; no verdict, since the texts are few."""
    ranks = [
        [sum(other < one for other in values) + sum(other == one for other in values) / 2 for one in values]
        for values in (shares, margins)
    ]
    is_defined = len(shares) > 2 and all(len(set(values)) > 1 for values in ranks)
    rho = f"{statistics.correlation(*ranks):.2f} ({len(shares)})" if is_defined else "not run"
    return f"Rank correlation of GroC's margin over tied with the share of words that are new, {where}: {rho}."


def _line(claim: str, found: Sequence[Verdict], cells: int, figures: Sequence[str] = ()) -> str:
    """A claim and its verdict: it fails with one comparison that speaks against it, and holds when all speak for it."""
    told = [verdict for verdict in found if isinstance(verdict, bool)]
    verdict = "does not hold in these runs" if not all(told) else "holds" if len(told) == cells else "open"
    silent = Counter(verdict for verdict in found if isinstance(verdict, str))
    counted = [f"true in {sum(told)} of {len(told)} comparisons", f"{cells - len(found)} not run"]
    counted += [f"{number} {why}" for why, number in silent.items()]
    return f"{claim}: **{verdict}** ({'; '.join([', '.join(counted), *([', '.join(figures)] if figures else [])])})."


def _mean(row: Mapping[str, float | None], names: tuple[str, ...]) -> float:
    known = [value for name in names if (value := row.get(name)) is not None]
    return sum(known) / max(len(known), 1)
