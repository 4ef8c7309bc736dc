"""Write docs/results.md and its images from the records in results/: python docs/results.py"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from groc.adaptation.online import KINDS
from groc.paper import TABLES, Results
from groc.paper.courses import DEFINITION, course
from groc.paper.crossing import FIRST
from groc.paper.domains import DOMAINS, FAR, LATER_YEARS
from groc.paper.figures import FIGURES, draw
from groc.paper.published import DATASETS, ELSEWHERE, MODELS
from groc.paper.runs import Job
from groc.paper.table import Row
from groc.paper.tables import by_bin, unequally_searched
from groc.report import table as laid_out

PAGE = Path(__file__).with_name("results.md")
IMAGES = PAGE.with_name("images")
RECORDS = PAGE.parents[1] / "results"
MARKED = (
    f"{DEFINITION} Rows with another one than GroC on the same corpus are marked `*`, in the figures too: what is "
    "compared with them is not one model with another alone."
)
HEAD = f"""# Results

The tables of the paper (Pappas, Mulcaire and Smith, EMNLP 2020), its numbers beside ours, from the records in
[results/](../results). Ours are strict: one stream, every token, the state carried from the first word to the last. A
mean over seeds has its standard deviation behind ±. Of several settings those with the lowest dev perplexity are shown
(of those within 1%, the ones with most seeds); test texts decide nothing. `groc paper TABLE` prints a table,
`docs/results.py` makes this page.

{fill(MARKED, 120)}
"""
OLDER_ABLATIONS = "../results/penn-ablations-fixed-streams-h200.json"
FEW_MISSING = 3
"""Cells of a table that were not run and are named; of more their number is."""
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
"""Nats. What GroC gains on rare words less what it gains on frequent ones has a spread of .04 over three seeds."""
MARKS = {
    way: next(test for name, _, test in ELSEWHERE if name.startswith(f"AWD-LSTM, {told}"))
    for way, told in (("", "fine-tuned"), (", dynamic evaluation", "dynamic evaluation"))
}
"""What AWD-LSTM has on penn's test text with 24 million parameters after fine-tuning, and with dynamic evaluation."""
SHARING = ("bilinear", "deep-residual", "adaptive")
"""Rivals that share more between words than a tied table does."""
OTHERS_DEFINITION = "another word's definition"
ALIKE = 1.05
"""Perplexities that differ by no more are taken as alike where a claim says so."""


def page(results: Results) -> str:
    lines = [*closed_claims(results), *open_claims(results)]
    blocks = [HEAD, "## In plain words\n", *plain_words(results)]
    blocks += ["## What is open\n", *(f"- {line}" for line in open_questions(results)), "", settings_run(results)]
    blocks += ["## What holds of the paper's claims, and of ours\n", *(f"- {line}" for line in lines)]
    for table in TABLES.values():
        rows = table.rows(results)
        blocks += [f"\n## {table.title}\n", f"{table.place or 'Not'} of the paper; `groc paper {table.name}`.\n"]
        blocks += [table.markdown(rows)]
        if table.name in FIGURES and any(row["runs"] for row in rows):
            blocks += [f"\n![{table.title}](images/{image(table.name)})"]
    return "\n".join(blocks) + "\n"


def image(name: str) -> str:
    return f"results-{name}.png"


def open_questions(results: Results) -> list[str]:
    """What the records leave open, so that a new one closes it; little of it is not in them."""
    rows = {name: table.rows(results) for name, table in TABLES.items() if table.cells}
    lines = []
    if TABLES["hyper-parameters"].remark and (said := TABLES["hyper-parameters"].remark(rows["hyper-parameters"])):
        lines.append(
            f"{said} The table below says how many settings each was trained with. (On a small text there is one, of "
            "six settings each, see [searching](search.md): GroC is 11% ahead there.)"
        )
    main = {(row["dataset"], row["model"]): row for row in rows["main"] if row["runs"]}
    curves = {key: results.of(Job(*key))[0].curve for key in main}
    gaining = [
        key
        for key, curve in curves.items()
        if curve and min(curve, key=lambda row: row["valid_perplexity"]) is curve[-1]
    ]
    for told, some in (
        ("To be trained again, with the course of training that GroC has", [k for k in main if main[k]["differs"]]),
        ("Run with one seed alone", [key for key in main if main[key]["runs"] == 1]),
        ("Best at the last epoch, so that longer training may help", gaining),
    ):
        lines += [f"{told}: {_by_dataset(some)}."] if some else []
    for dataset in DATASETS:
        tied = next(row for row in rows["frequency"] if (row["dataset"], row["model"]) == (dataset, "tied"))
        rarest = [
            by_bin((run.test() for run in results.of(Job(dataset, model))), "loss").get(RARE[0])
            for model in ("tied", "groc")
        ]
        if tied[RARE[0]] is not None and None not in rarest:
            by_seeds = ", ".join(f"{model} {main[dataset, model]['runs']}" for model in ("groc", "tied"))
            lines.append(
                f"On words of {dataset} that training had {RARE[0]} times tied loses {tied[RARE[0]]:+.2f} nats against "
                f"GroC in the median and {rarest[0] - rarest[1]:+.2f} in the mean (seeds: {by_seeds})."
            )
    large = {row["model"]: row for row in rows["size"] if row["dataset"] == "penn" and row["runs"]}
    if pair := [large[name] for name in ("groc, best recipe", "tied, best recipe") if name in large]:
        seeds = ", ".join(f"{row['model'].partition(',')[0]} {row['runs']}" for row in pair)
        devices = list(dict.fromkeys(row["device"] for row in pair))
        lines.append(
            f"Seeds that were run with 24 million parameters: {seeds}"
            + (f" (on {' and '.join(devices)})" if len(devices) > 1 else "")
            + ". More dropout may help tied; other rates of dynamic evaluation were tried for GroC alone, and were no "
            "better."
        )
    for name in ("main", "ablations", "coverage", "speed", "size"):
        if missing := [row for row in rows[name] if row["runs"] == 0]:
            few = [(row["dataset"], TABLES[name].named(row)) for row in missing]
            counted = Counter(row["dataset"] for row in missing)
            told = ", ".join(f"{number} on {dataset}" for dataset, number in counted.items())
            lines.append(f"Not run of `groc paper {name}`: {_by_dataset(few) if len(few) <= FEW_MISSING else told}.")
    if any(row["runs"] == 0 for row in rows["ablations"] if row["dataset"] == "penn"):
        lines.append(f"Ablations of penn are recorded with an [older course of training]({OLDER_ABLATIONS}) too.")
    unpaired = [(row["dataset"], row["model"]) for row in rows["frequency"] if row["runs"] and row["of"] != "paired"]
    lines += [f"Not compared with GroC word by word: {_by_dataset(unpaired)}."] if unpaired else []
    return lines


def settings_run(results: Results) -> str:
    """How many settings each model of the main comparison was trained with, in the course that is shown and in all."""
    lines = []
    for model in MODELS:
        line = [model]
        for job in (Job(dataset, model) for dataset in DATASETS):
            shown = [course(run) for run in results.of(job)[:1]]
            courses = {run.repeated[0]: course(run) for run in results.counted if job.wants(run)}
            line += [str(len(courses)), str(sum(one in shown for one in courses.values()))]
        lines.append(line)
    head = ["model", *(name for dataset in DATASETS for name in (dataset, f"{dataset}, same course"))]
    return (
        "How many settings each model was trained with, seeds not counted. `same course`: how many of them had the "
        "course of training of the model's row in the tables. Short probes, runs with settings that are no more and "
        f"those without a test figure are not counted; most of them are GroC's.\n\n{laid_out(head, lines)}\n"
    )


def _by_dataset(keys: Sequence[tuple[str, str]]) -> str:
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for dataset, name in keys:
        found[dataset][name] = None
    return "; ".join(f"on {dataset} {', '.join(names)}" for dataset, names in found.items())


def closed_claims(results: Results) -> list[str]:
    """Each claim of the closed-vocabulary part, and what our runs say of it."""
    rows = {name: table.rows(results) for name, table in TABLES.items()}
    lines = []
    for dataset in DATASETS:
        main, gains, cut = (
            [row for row in rows[name] if row["dataset"] == dataset] for name in ("main", "frequency", "ablations")
        )
        groc = next(row for row in main if row["model"] == "groc")
        for split in ("test", "dev"):
            ran = [row for row in main if row["model"] != "groc" and row[split] and groc[split]]
            figures = [f"{row['model']} {row[split]:.1f}" for row in (groc, *ran)] if ran else []
            figures += [UNEQUAL] if ran and dataset in unequally_searched(rows["hyper-parameters"]) else []
            verdicts = [_is_lower(groc, row, split) for row in ran]
            wins = [verdict for verdict in verdicts if verdict is not None]
            claim = f"On {dataset} GroC has the lowest perplexity of the seven on the {split} text"
            lines.append(_line(claim, wins, 6, figures, verdicts.count(None)))
        tied = next(row for row in main if row["model"] == "tied")
        better = [row for row in main if row["model"] in SHARING and row["test"] and tied["test"]]
        verdicts = [_is_lower(row, tied, "test") for row in better]
        below = [verdict for verdict in verdicts if verdict is not None]
        figures = [f"{row['model']} {row['test']:.1f}" for row in (tied, *better)] if better else []
        claim = f"On {dataset} {', '.join(SHARING[:-1])} and {SHARING[-1]} have a lower perplexity than tied"
        lines.append(_line(claim, below, len(SHARING), figures, verdicts.count(None)))
        more = {row["model"]: _mean(row, RARE) - _mean(row, FREQUENT) for row in gains if row["runs"]}
        rare = {model: nats > 0 for model, nats in more.items() if abs(nats) > LOSSES_APART}
        otherwise = [row["model"] for row in gains if row["differs"]]  # see _is_lower
        rare = {model: more_there for model, more_there in rare.items() if not (more_there and model in otherwise)}
        told = "words seen less than 100 times than on those seen 1,000 times or more"
        found = [*rare.values()], 6, _where_not(rare, "against"), len(more) - len(rare)
        lines.append(_line(f"On {dataset} GroC gains more on {told}", *found))
        unlike = sum(bool(row["without"] and row["differs"]) for row in cut)
        cut = [{**row, "test": None} if row["differs"] else row for row in cut]  # not to be compared
        full = {row["output network"]: row["test"] for row in cut if not row["without"]}
        spread = max((row["test_spread"] or 0.0 for row in cut), default=0.0)  # of any row: most have one seed
        worse, near = [], []
        for row in cut:
            whole = full[row["output network"]]
            if row["without"] and row["test"] and whole:
                if abs(row["test"] - whole) > SPREADS * spread:
                    worse.append(row["test"] > whole)
                else:
                    near.append(f"without {row['without']} {row['test']:.1f} within {SPREADS} spreads of {whole:.1f}")
        claim = f"On {dataset} leaving out relations, definitions or both makes GroC worse"
        lines.append(_line(claim, worse, 6, near, len(near) + unlike))
        apart = all(full.values()) and abs(full["yes"] - full["no"]) > SPREADS * spread
        helps = [(full["yes"] < full["no"]) == (dataset == "wikitext-2")] if apart else []
        network = "makes GroC better" if dataset == "wikitext-2" else "does not make GroC better"
        lines.append(_line(f"On {dataset} an output network {network}", helps, 1))
    sized = {row["model"]: row for row in rows["size"] if row["dataset"] == "penn"}
    for way, mark in MARKS.items():
        groc, tied = (sized[f"{model}, best recipe{way}"] for model in ("groc", "tied"))
        figures = [f"GroC {groc['test']:.1f}, tied {tied['test']:.1f}"] if groc["test"] and tied["test"] else []
        told = f"On penn with at most 24 million parameters{way.replace(', ', ' and ')} GroC"
        lower = _is_lower(groc, tied, "test") if figures else None
        apart = [] if lower is None else [lower]
        lines.append(_line(f"{told} has a lower perplexity than tied", apart, 1, figures, len(figures) - len(apart)))
        runs = groc["test_runs"]
        seeds = [f"{groc['test']:.1f} with {runs} seed{'s' * (runs > 1)}"] if groc["test"] else []
        apart = groc["test_spread"] is not None and abs(groc["test"] - mark) > SPREADS * groc["test_spread"]
        below = [groc["test"] < mark] if apart else []
        lines.append(_line(f"{told} is below AWD-LSTM's {mark}", below, 1, seeds, len(seeds) - len(below)))
    for how, claim in (
        ("groc, retrained", "Retrained with any part of WordNet, GroC stays within 5%"),
        ("groc, at inference", "Without retraining, it does not"),
        ("groc with forms dropout, at inference", "Trained with forms dropout, it does (our claim, not the paper's)"),
    ):
        mine = [row for row in rows["coverage"] if row["model"] == how]
        tests = {row["coverage"]: row["test"] for row in mine if row["differs"] in (None, mine[-1]["differs"])}
        known = [test <= ALIKE * tests[1.0] for share, test in tests.items() if share < 1 and test and tests[1.0]]
        if how == "groc, at inference" and len(known) == 5:
            lines.append(_line(claim, [not all(known)], 1))
        else:
            lines.append(_line(claim, known if how != "groc, at inference" else [], 5))
    return lines


def _is_lower(one: Row, other: Row, figure: str) -> bool | None:
    """Whether a perplexity is lower than another; None where they differ by no more than seeds do (one seed tells
    nothing of that, so the other row's spread is taken for both). A rival with another course of training can speak
    against a model, but not for it."""
    spreads = [row[f"{figure}_spread"] for row in (one, other) if row[f"{figure}_spread"] is not None]
    if not spreads or abs(one[figure] - other[figure]) <= SPREADS * max(spreads):
        return None
    return None if one[figure] < other[figure] and other["differs"] else bool(one[figure] < other[figure])


def plain_words(results: Results) -> list[str]:
    """What a reader should know before the tables, with the figures of the day."""
    rows = {name: TABLES[name].rows(results) for name in ("main", "frequency", "ablations", "held-out", "cross-domain")}
    blocks = []
    for dataset in DATASETS:
        main = {row["model"]: row for row in rows["main"] if row["dataset"] == dataset}
        groc, tied = main["groc"], main["tied"]
        if not (groc["test"] and tied["test"]):
            continue
        blocks.append(
            f"**On {dataset}** GroC, with {groc['parameters'] / 1e6:.1f} million parameters and none of them for a "
            f"single word, has {groc['test']:.1f} on the test and {groc['dev']:.1f} on the dev text; tied, with "
            f"{tied['parameters'] / 1e6:.1f} million, {tied['test']:.1f} and {tied['dev']:.1f}. The paper has "
            f"{groc['paper']['test']:.1f} and {tied['paper']['test']:.1f} on the test text."
        )
        gains = next(row for row in rows["frequency"] if row["dataset"] == dataset and row["model"] == "tied")
        known = [name for name in (*RARE, *MIDDLE, *FREQUENT) if gains[name] is not None]
        nats = {name: f"{gains[name]:.2f}".replace("-0.00", "0.00") for name in known}
        bins = ", ".join(f"{nats[name]} on words seen {name} times" for name in known)
        paired = "Word by word tied loses more than GroC there, in the median by"
        apart = paired if gains["of"] == "paired" else "GroC's median loss is below that of tied there by"
        blocks.append(f"{apart} {bins} (nats; with other seeds some of these differ by .05 and more).")
        cut = {
            (row["output network"], row["without"]): row["test"]
            for row in rows["ablations"]
            if row["dataset"] == dataset and not row["differs"]
        }
        paper = {
            (row["output network"], row["without"]): row["paper"]["test"]
            for row in rows["ablations"]
            if row["dataset"] == dataset
        }
        if bare := cut.get(("yes", "both")):
            blocks.append(
                f"**What the lexicon is worth for words that training has** ({dataset}): without relations "
                f"and definitions GroC has {bare:.1f} on the test text, with them {groc['test']:.1f} (tied "
                f"{tied['test']:.1f}); in the paper {paper['yes', 'both']:.1f} and {paper['yes', '']:.1f}."
            )
        if plain := cut.get(("no", "")):
            blocks.append(
                f"**What the output network is worth** ({dataset}): without it GroC has {plain:.1f} on the test text, "
                f"with it {groc['test']:.1f} (tied {tied['test']:.1f}); in the paper {paper['no', '']:.1f} and "
                f"{paper['yes', '']:.1f}. Models that lack a part were not tuned anew."
            )
    told = {row["told"]: row for row in rows["held-out"] if row["gain"] is not None}
    if "definition" in told:
        blocks.append(
            f"**For words that training has not**: with its definition the loss of a held-out word changes by "
            f"{-told['definition']['gain']:+.2f} nats, with that of another word by "
            f"{-told[OTHERS_DEFINITION]['gain']:+.2f}."
        )
    news = {(row["domain"], row["model"]): row["test"] for row in rows["cross-domain"]}
    margins = [
        1 - _ratio(news, domain) for domain in DOMAINS if news.get((domain, "groc")) and news.get((domain, "tied"))
    ]
    if margins:
        blocks.append(
            f"**On new domains** GroC, with no training, is below tied by {100 * min(margins):.0f} "
            f"to {100 * max(margins):.0f}% ({len(margins)} texts)."
        )
    return [block + "\n" for block in blocks]


def open_claims(results: Results) -> list[str]:
    """The same of the models of news that are moved to other domains, text by text, and of words held out."""
    tests = {(row["domain"], row["model"]): row["test"] for row in TABLES["cross-domain"].rows(results)}
    told = [row for row in TABLES["held-out"].rows(results) if row["gain"] is not None]
    cut = [f"{domain}, {PART}" if (f"{domain}, {PART}", "groc+dynamic") in tests else domain for domain in DOMAINS]

    def against(one: str, others: Sequence[str], domains: Sequence[str]) -> tuple[list[bool], list[str]]:
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
        lines.append(_margin(where, [row["oov"] for row in some], [1 - _ratio(tests, row["domain"]) for row in some]))
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


def _ratio(tests: Mapping[tuple[str, str], float], domain: str) -> float:
    return tests[domain, "groc"] / tests[domain, "tied"]


def _margin(where: str, shares: Sequence[float], margins: Sequence[float]) -> str:
    """Spearman's rank correlation; no verdict, since the texts are few."""
    ranks = [
        [sum(other < one for other in values) + sum(other == one for other in values) / 2 for one in values]
        for values in (shares, margins)
    ]
    rho = f"{np.corrcoef(ranks)[0, 1]:.2f} ({len(shares)})" if len(shares) > 2 else "not run"
    return f"Rank correlation of GroC's margin over tied with the share of words that are new, {where}: {rho}."


def _line(claim: str, found: list[bool], cells: int, figures: Sequence[str] = (), near: int = 0) -> str:
    """A claim and its verdict: it fails with one comparison that speaks against it, and holds when all speak for it.
    So many more are too near, have too few seeds or were trained otherwise."""
    verdict = "does not hold in these runs" if not all(found) else "holds" if len(found) == cells else "open"
    counted = f"true in {sum(found)} of {len(found)} comparisons, {cells - len(found) - near} not run"
    counted += f", {near} too near, of too few seeds or trained otherwise" if near else ""
    return f"{claim}: **{verdict}** ({'; '.join([counted, ', '.join(figures)]) if figures else counted})."


def _mean(row: Row, names: tuple[str, ...]) -> float:
    known = [row[name] for name in names if row[name] is not None]
    return sum(known) / max(len(known), 1)


if __name__ == "__main__":
    found = Results(RECORDS)
    PAGE.write_text(page(found), encoding="utf-8")
    for name in FIGURES:
        if any(row["runs"] for row in TABLES[name].rows(found)):
            draw(name, found, IMAGES / image(name))
