"""Write docs/results.md and its images from the records in results/: python docs/results.py"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from textwrap import fill

from groc.paper import TABLES, Results
from groc.paper.claims import FREQUENT, HOW_NEAR, MIDDLE, RARE, TITLE, all_claims, marks, mean_losses
from groc.paper.courses import DEFINITION, comparable, course
from groc.paper.domains import DOMAINS, SOURCE
from groc.paper.figures import CAPTIONS, FIGURES, draw
from groc.paper.judging import markdown
from groc.paper.open_claims import ratio
from groc.paper.published import DATASETS, MODELS
from groc.paper.records import LARGE
from groc.paper.runs import BEST, Job, Run
from groc.paper.searches import TUNED, as_long, in_a_list, values_tried
from groc.paper.table import Row, figures_of
from groc.report import table as laid_out

PAGE = Path(__file__).with_name("results.md")
IMAGES = PAGE.with_name("images")
RECORDS = PAGE.parents[1] / "results"
MARKED = (
    f"{DEFINITION} A `*`, in tables and figures, marks models with another course of training than GroC has on the "
    "same corpus, or with gates or a mixture of softmaxes that GroC's row has not (or the other way round): where they "
    "differ from GroC, the model is not the only reason."
)
HEAD = f"""# Results

The tables of the paper (Pappas, Mulcaire and Smith, EMNLP 2020), its numbers beside ours, from the records in
[results/](../results). Ours are strict: one stream, every token, the state carried from the first word to the last. A
mean over seeds has its standard deviation after ±. Of several settings those with the lowest dev perplexity are shown
(of those within 1%, the ones with most seeds; runs that are recorded together in one file fill no cell): test texts
have no say in which row is shown. They were read many times all the same, and while methods for other domains were made
some defaults followed test texts of news ([experiments](../EXPERIMENTS.md) 8, 10 to 12). `groc paper TABLE` prints a
table, `docs/results.py` makes this page.

{fill(MARKED, 120)}
"""
OLDER_ABLATIONS = "../results/penn-ablations-fixed-streams-h200.json"
FEW_MISSING = 3
"""Cells of a table that were not run and are named; of more their number is."""
EARLY = 0.8
"""A model that is best before this share of its epochs would have done with fewer, or wants more dropout."""
OTHERS_DEFINITION = "another word's definition"


def page(results: Results) -> str:
    blocks = [HEAD, "## In plain words\n", *plain_words(results)]
    blocks += ["## What is open\n", *(f"- {line}" for line in open_questions(results)), "", settings_run(results)]
    blocks += [f"## {TITLE}\n", f"{fill(HOW_NEAR, 120)}\n"]
    blocks += [markdown(all_claims(results))]
    for table in TABLES.values():
        rows = table.rows(results)
        blocks += [f"\n## {table.title}\n", f"{table.place or 'Not'} of the paper; `groc paper {table.name}`.\n"]
        blocks += [table.markdown(table.usual(rows), rows)]
        if table.name in FIGURES and any(row["runs"] for row in rows):
            blocks += [f"\n![{CAPTIONS[table.name]}](images/{image(table.name)})"]
    return "\n".join(blocks) + "\n"


def image(name: str) -> str:
    return f"results-{name}.png"


def open_questions(results: Results) -> list[str]:
    """What the records leave open, so that a new one closes it; little of it is not in them."""
    rows = {name: table.rows(results) for name, table in TABLES.items() if table.cells}
    lines = []
    if TABLES["hyper-parameters"].remark and (said := TABLES["hyper-parameters"].remark(rows["hyper-parameters"])):
        lines.append(
            f"{said} The table below says how many settings each was trained with. (On a small text all were given six "
            "settings by Optuna, see [searching](search.md).)"
        )
    main = {(row["dataset"], row["model"]): row for row in rows["main"] if row["runs"]}
    large = [row for row in rows["size"] if row["model"].endswith(BEST) and row["runs"]]
    jobs = {key: Job(*key) for key in main}
    for row in large:
        jobs[row["dataset"], in_a_list(row["model"])] = Job(
            row["dataset"], row["model"].removesuffix(BEST), set="-best"
        )
    curves = {key: results.of(job)[0].curve for key, job in jobs.items()}
    gaining = [
        key
        for key, curve in curves.items()
        if curve and min(curve, key=lambda row: row["valid_perplexity"]) is curve[-1]
    ]
    overfitting = [
        key
        for key, curve in curves.items()
        if curve
        and min(curve, key=lambda row: row["valid_perplexity"])["epoch"] < EARLY * max(row["epoch"] for row in curve)
    ]
    for told, some in (
        ("To be trained again, with the course of training that GroC has", [k for k in main if main[k]["differs"]]),
        ("Run with one seed alone", [key for key in main if main[key]["runs"] == 1]),
        ("Best at the last epoch, so that longer training may help", gaining),
        (f"Best before {EARLY:.0%} of their epochs, so that they overfit", overfitting),
    ):
        lines += [f"{told}: {_by_dataset(some)}."] if some else []
    for dataset in DATASETS:
        if best := [row for row in rows["size"] if BEST in row["model"] and row["dataset"] == dataset and row["runs"]]:
            seeds = "; ".join(f"{row['model'].replace(BEST, '')} {row['runs']}" for row in best)
            lines.append(f"Seeds that were run on {dataset} with {LARGE}: {seeds}.")
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
    """How many settings each model of the main comparison was trained with, in the course that is shown and in all, and
    which values of what was varied for all of them."""
    lines = []
    for dataset, model in ((dataset, model) for dataset in DATASETS for model in MODELS):
        job = Job(dataset, model)
        shown = results.of(job)[:1]
        courses = {run.repeated[0]: course(run) for run in as_long(results, job)}
        same = sum(one == course(run) for one in courses.values() for run in shown)
        tried = list(values_tried(results, job).values()) or [""] * len(TUNED)
        lines.append([dataset, model, str(len(courses)), str(same), *tried])
    head = ["dataset", "model", "settings", "same course", *TUNED.values()]
    told = (
        "How many settings each model was trained with for as many epochs as its row in the tables, or more, seeds not "
        "counted; `same course`: how many of them had the course of training of that row; and what values these had of "
        "what was varied for all models, that of the row in bold (`dropout of prefixes`: of what the prefix network "
        "reads, along with which its other dropouts were varied). Where only two values were tried, a "
        "third may be better. Shorter probes and runs with settings that no longer exist are not counted, most of them "
        "GroC's, nor is what is too large for its row, or was worse at its last epoch than at its first."
    )
    return f"{told}\n\n{laid_out(head, lines, names=2)}\n"


def _by_dataset(keys: Sequence[tuple[str, str]]) -> str:
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for dataset, name in keys:
        found[dataset][name] = None
    return "; ".join(f"on {dataset} {', '.join(names)}" for dataset, names in found.items())


def plain_words(results: Results) -> list[str]:
    """What a reader should know before the tables, with the figures of the day."""
    rows = {name: table.rows(results) for name, table in TABLES.items()}
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
            f"{groc['paper']['test']:.1f} and {tied['paper']['test']:.1f} on the test text." + _told_of_rivals(main)
        )
        blocks += [*_told_of_characters(results, dataset, main), *_told_of_rare_words(results, dataset, rows, main)]
        cut = {(row["output network"], row["without"]): row for row in rows["ablations"] if row["dataset"] == dataset}
        whole, bare, plain = (cut[key] for key in (("yes", ""), ("yes", "both"), ("no", "")))
        if bare["test"] and not bare["differs"]:
            blocks.append(
                f"**What the lexicon is worth for words that training has** ({dataset}): without relations "
                f"and definitions GroC has {bare['test']:.1f} on the test text (runs: {bare['runs']}), with them "
                f"{groc['test']:.1f} ({groc['runs']}; tied {tied['test']:.1f}); in the paper "
                f"{bare['paper']['test']:.1f} and {whole['paper']['test']:.1f}."
            )
        if plain["test"] and not plain["differs"]:
            blocks.append(
                f"**What the output network is worth** ({dataset}): without it GroC has {plain['test']:.1f} on the "
                f"test text (runs: {plain['runs']}), with it {groc['test']:.1f} ({groc['runs']}; tied "
                f"{tied['test']:.1f}); "
                f"in the paper {plain['paper']['test']:.1f} and {whole['paper']['test']:.1f}. Models that lack a part "
                "were not tuned anew."
            )
    blocks += [*_told_of_large(rows["size"]), *_told_of_coverage(rows["coverage"])]
    told = {row["told"]: row for row in rows["held-out"] if row["gain"] is not None}
    if "definition" in told:
        blocks.append(
            f"**For words that training has not**: with its definition the loss of a held-out word changes by "
            f"{-told['definition']['gain']:+.2f} nats, with that of another word by "
            f"{-told[OTHERS_DEFINITION]['gain']:+.2f}."
        )
    news = {(row["domain"], row["model"]): row["test"] for row in rows["cross-domain"]}
    margins = [
        1 - ratio(news, domain)
        for domain in DOMAINS
        if domain != SOURCE and news.get((domain, "groc")) and news.get((domain, "tied"))
    ]
    if margins:
        blocks.append(
            f"**On new domains** GroC, with no training, is below tied by {100 * min(margins):.0f} "
            f"to {100 * max(margins):.0f}% ({len(margins)} texts)."
        )
    return [block + "\n" for block in blocks]


def _has_characters(results: Results, dataset: str) -> bool:
    """Whether GroC with characters was trained as long, and in such steps, as GroC."""
    courses = [[comparable(run) for run in results.of(Job(dataset, name))[:1]] for name in ("groc-characters", "groc")]
    return courses[0] != [] and courses[0] == courses[1]


def _told_of_rivals(main: Mapping[str, Row]) -> str:
    """The rivals other than tied, the nearest first."""
    rivals = sorted((row for row in main.values() if row["test"]), key=lambda row: row["test"])
    others = [f"{row['model']} {row['test']:.1f}" for row in rivals if row["model"] not in ("groc", "tied")]
    return f" The other rivals: {', '.join(others)}." if others else ""


def _told_of_characters(results: Results, dataset: str, main: Mapping[str, Row]) -> Iterator[str]:
    """How GroC does with the paper's encoder, which the figures above are not of."""
    if not _has_characters(results, dataset):
        return
    runs, bare = results.of(Job(dataset, "groc-characters")), results.of(Job(dataset, "groc-no-out"))
    row, first = figures_of(runs), runs[0]
    ahead = [name for name, rival in main.items() if name != "groc" and rival["test"] and rival["test"] < row["test"]]
    beside = ""
    if bare and not first.has_network:
        beside = f"; n-grams without that network, {_steps_of(bare[0])}: {figures_of(bare)['test']:.1f}"
    yield (
        "**With the paper's encoder**, a convolution over characters in place of n-grams, "
        f"{'' if first.has_network else 'without the output network, '}{_steps_of(first)}, GroC has {row['test']:.1f} "
        f"on {dataset} (runs: {row['runs']}{beside}). Ahead of it: {', '.join(ahead) or 'none of the six rivals'}. "
        "What this page says of GroC is said of GroC with n-grams."
    )


def _steps_of(run: Run) -> str:
    """How what composes words is trained, which tables do not show."""
    rate = run.settings["training.matrix_rate"]
    steps = f"orthogonalised steps (`training.matrix_rate` {rate:g})" if rate else "Adam's steps"
    return f"with {steps} and a start of {run.settings['model.start']:g}"


def _told_of_rare_words(
    results: Results, dataset: str, rows: Mapping[str, Sequence[Row]], main: Mapping[str, Row]
) -> Iterator[str]:
    """By how often training had a word, in the median and in the mean: they can differ in their sign."""
    gains = next(row for row in rows["frequency"] if row["dataset"] == dataset and row["model"] == "tied")
    means = mean_losses(dataset, "tied", results)
    known = [name for name in (*RARE, *MIDDLE, *FREQUENT) if gains[name] is not None and name in means]
    lines = [[name, f"{means[name]:z.2f}", f"{gains[name]:z.2f}"] for name in known]
    median = {"paired": "median of the differences", "mean": "difference of the means"}.get(
        gains["of"], "difference of the medians"
    )
    seeds = " and ".join(f"{main[model]['runs']} of {model}" for model in ("groc", "tied"))
    yield (
        f"How much more tied loses than GroC on words of {dataset}, by how often training had them (nats; in the "
        f"mean: all runs, {seeds}; last column: tied of seed {', '.join(map(str, gains['seeds']))}):\n\n"
        f"{laid_out(['seen in training', 'in the mean', median], lines)}"
    )


def _told_of_large(size: Sequence[Row]) -> Iterator[str]:
    for dataset, way in product(DATASETS, ("", ", dynamic evaluation")):
        sized = {row["model"]: row for row in size if row["dataset"] == dataset and row["test"]}
        groc, tied = (sized.get(f"{model}{BEST}{way}") for model in ("groc", "tied"))
        if groc and tied:
            seeds = ", ".join(f"{row['model'].partition(',')[0]} {row['test_runs']}" for row in (groc, tied))
            others = (
                f"{name} has {test} with {millions} million" for name, (millions, test) in marks(dataset, way).items()
            )
            softmaxes = "".join(
                f"; {row['model'].partition(',')[0]} mixes {row['softmaxes']} softmaxes"
                for row in (groc, tied)
                if row["softmaxes"] > 1
            )
            course = (
                f"; tied with {', '.join(f'{k} {v}' for k, v in tied['differs'].items())}" if tied["differs"] else ""
            )
            yield (
                f"**With {LARGE}{way.replace(', ', ' and ')}** ({dataset}) GroC has {groc['test']:.1f}, tied "
                f"{tied['test']:.1f} (seeds: {seeds}{softmaxes}{course}). {', '.join(others)}."
            )


def _told_of_coverage(coverage: Sequence[Row]) -> Iterator[str]:
    """With all of WordNet, and with none of it."""
    tests = {(row["model"], row["coverage"]): row["test"] for row in coverage if row["test"] and not row["differs"]}
    plain, robust = (
        [tests.get((f"groc{how}, at inference", share)) for share in (1.0, 0.0)] for how in ("", " with forms dropout")
    )
    if all((*plain, *robust)):
        paper = {row["coverage"]: row["paper"]["test"] for row in coverage if row["model"] == "groc, at inference"}
        yield (
            f"**With WordNet taken away at inference** (penn) GroC goes from {plain[0]:.1f} to {plain[1]:.1f}; trained "
            f"with forms dropout from {robust[0]:.1f} to {robust[1]:.1f}; in the paper from {paper[1.0]:.1f} to "
            f"{paper[0.0]:.1f}."
        )


if __name__ == "__main__":
    found = Results(RECORDS)
    if found.damaged:
        sys.exit("The page would lack what these records hold.")
    PAGE.write_text(page(found), encoding="utf-8")
    for name in FIGURES:
        if any(row["runs"] for row in TABLES[name].rows(found)):
            draw(name, found, IMAGES / image(name))
