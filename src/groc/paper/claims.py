"""What holds of the paper's claims, and of ours: one by one, from the records. Those of open vocabularies are in
`groc.paper.open_claims`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from groc.paper.courses import comparable, made_otherwise
from groc.paper.judging import NEAR, OTHERWISE, SPREADS, UNPAIRED, Claim, Verdict, is_lower, judge, largest_spread
from groc.paper.open_claims import open_claims
from groc.paper.published import ABLATIONS, DATASETS, ELSEWHERE, MAIN
from groc.paper.records import LARGE, Results
from groc.paper.runs import AS_GOOD, BEST, Job, by_settings
from groc.paper.searches import not_tuned_alike, settings_as_long
from groc.paper.table import Row, figures_of
from groc.paper.tables import CHARACTERS, TABLES, by_bin

TITLE = "What holds of the paper's claims, and of ours"
UNEQUAL = "not tuned equally, see what is open"
RARE, MIDDLE, FREQUENT = ("1-9", "10-99"), ("100-999",), ("1,000-9,999", "10,000+")
"""Bins of training frequency."""
LOSSES_APART = 0.08
"""Nats. What GroC gains on rare words less what it gains on frequent ones has a spread of .04 over three seeds, in the
median; in the mean of .02 at most, so that this is cautious there."""
HOW_NEAR = (
    f"Perplexities of penn and wikitext-2 are too near to be told apart where they differ by no more than {SPREADS} "
    "times the spread over seeds, the largest that is known of any row of the table on that text and of the row itself "
    f"(of models with {LARGE}: of all settings that were run). Of settings within {AS_GOOD - 1:.0%} of the best on dev "
    "those with most seeds are shown, and that can be more than this margin. Where no row of the table on that text "
    "has two seeds, a claim is open. What GroC gains on rare words must differ from what it gains on frequent ones by "
    f"more than {LOSSES_APART} nats. Parts of WordNet, and texts of other domains, times and sizes, are compared as "
    "they are, by single seeds too."
)
NO_SUCH_WORDS = "no such words"
SHARING = ("bilinear", "deep-residual", "adaptive")
"""Rivals that share more between words than a tied table does."""
SPARSE = "groc, p = 0.3"
"""Of the p that the paper tried, the one whose perplexity it prints."""
ALIKE = 1.05
"""Perplexities that differ by no more are taken as alike where a claim says so."""


def marks(dataset: str, way: str) -> dict[str, tuple[float | None, float]]:
    """What AWD-LSTM has on a test text, with one softmax and with a mixture: millions of parameters, perplexity."""
    published = {name.rpartition(" (")[0]: (millions, test) for name, millions, test in ELSEWHERE[dataset]}
    mixed = "AWD-LSTM with a mixture of softmaxes"
    return {"AWD-LSTM": published[f"AWD-LSTM{way or ', fine-tuned'}"], mixed: published[f"{mixed}{way}"]}


def all_claims(results: Results) -> list[Claim]:
    return [*closed_claims(results), *open_claims(results)]


def closed_claims(results: Results) -> list[Claim]:
    rows = {name: table.rows(results) for name, table in TABLES.items()}
    claims: list[Claim] = []
    for dataset in DATASETS:
        main, gains, cut, times, sized = (
            [row for row in rows[name] if row["dataset"] == dataset]
            for name in ("main", "frequency", "ablations", "speed", "size")
        )
        by_name = {row["model"]: row for row in main}
        tuned_alike = dataset not in not_tuned_alike(rows["hyper-parameters"])
        tried = {model: settings_as_long(results, Job(dataset, model)) for model in by_name}
        claims += _of_perplexities(dataset, by_name, tried, tuned_alike)
        claims += _of_characters(dataset, by_name, results)
        claims += _of_cost(dataset, by_name, {row["model"]: row for row in times})
        claims += _of_rare_words(dataset, gains, results)
        claims += _of_parts(dataset, cut)
        claims += _of_large_models(dataset, {row["model"]: row for row in sized}, results)
    return [*claims, *_of_coverage(rows["coverage"])]


def _of_perplexities(
    dataset: str, main: Mapping[str, Row], tried: Mapping[str, int], tuned_alike: bool
) -> Iterator[Claim]:
    groc, tied = main["groc"], main["tied"]
    doubt = [] if tuned_alike else [UNEQUAL]
    settings = f"settings run as long: {', '.join(f'{model} {number}' for model, number in tried.items())}"
    for split in ("test", "dev"):
        text = f"On {dataset} GroC has the lowest perplexity of the seven on the {split} text"
        yield _lowest(text, groc, main, split, [settings, *doubt])
    text = f"On {dataset} {', '.join(SHARING[:-1])} and {SHARING[-1]} have a lower perplexity than tied"
    ran = [main[model] for model in SHARING if main[model]["test"] and tied["test"]]
    spread = largest_spread(main.values(), "test")
    found = {row["model"]: is_lower(row, tied, "test", spread) for row in ran}
    yield judge(text, found, len(SHARING), [*_listed([tied, *ran]), *doubt] if ran else [])
    lookup, convolutional = main["lookup"], main["convolutional"]
    pair = [lookup, convolutional] if lookup["test"] and convolutional["test"] else []
    found = {"lookup": is_lower(lookup, convolutional, "test", spread)} if pair else {}
    yield judge(f"On {dataset} convolutional lags behind lookup", found, 1, _listed(pair))


def _of_characters(dataset: str, main: Mapping[str, Row], results: Results) -> Iterator[Claim]:
    """GroC with the paper's encoder, where it was trained as GroC was."""
    groc = results.of(Job(dataset, "groc"))[:1]
    of_characters = results.of(Job(dataset, "groc-characters"))
    runs = [run for run in of_characters if [comparable(run)] == [comparable(one) for one in groc]]
    row = {**figures_of(runs), "model": "with characters", "differs": None}
    text = f"On {dataset} GroC with the paper's encoder of characters has a lower perplexity than all six rivals"
    tried = settings_as_long(results, Job(dataset, "groc-characters"))
    network = "" if runs and runs[0].has_network else ", no output network"
    doubt = [f"with characters: seeds {len(runs)}, settings run as long {tried}{network}"]
    yield _lowest(text, row, main, "test", doubt)


def _lowest(text: str, row: Row, main: Mapping[str, Row], split: str, doubt: Sequence[str] = ()) -> Claim:
    """Whether a row is below all rivals; GroC's own row of the table, too, says how far apart seeds can be."""
    rivals = [rival for model, rival in main.items() if model != "groc"]
    ran = [rival for rival in rivals if rival[split] and row[split]]
    spread = largest_spread([row, *main.values()], split)
    found = {rival["model"]: is_lower(row, rival, split, spread) for rival in ran}
    return judge(text, found, len(rivals), [*_listed([row, *ran], split), *doubt] if ran else [])


def _listed(rows: Sequence[Row], split: str = "test") -> list[str]:
    figures = ", ".join(f"{row['model']} {row[split]:.1f}" for row in rows)
    return [figures] if figures else []


def _of_cost(dataset: str, main: Mapping[str, Row], times: Mapping[str, Row]) -> Iterator[Claim]:
    """What GroC takes: parameters, time, and what is lost where its outputs are seldom updated."""
    rivals = [row for model, row in main.items() if model != "groc"]
    sizes = {model: row["parameters"] / 1e6 for model, row in main.items() if row["parameters"]}
    as_large = [row["model"] for row in rivals if MAIN[dataset][row["model"]][0] >= MAIN[dataset]["groc"][0]]
    less: dict[str, Verdict] = {
        model: sizes["groc"] <= sizes[model] for model in as_large if "groc" in sizes and model in sizes
    }
    text = f"On {dataset} GroC has no more parameters than {', '.join(as_large)}"
    yield judge(text, less, len(as_large), [", ".join(f"{model} {size:.1f}M" for model, size in sizes.items())])
    for model, called in ((CHARACTERS, "with the paper's encoder of characters"), ("groc", "with our n-grams")):
        mine, theirs = (times[name]["seconds"] for name in (model, "convolutional"))
        slower: dict[str, Verdict] = {"convolutional": mine > theirs} if mine and theirs else {}
        seconds = [f"{model} {mine:.1f} s an epoch, convolutional {theirs:.1f}"] if slower else []
        yield judge(f"On {dataset} GroC {called} takes longer to train than convolutional", slower, 1, seconds)
    if times[SPARSE]["paper"]["test"]:
        text = f"On {dataset} GroC with a full update in three of ten steps is still below all six"
        yield _lowest(text, times[SPARSE], main, "test")


def _of_rare_words(dataset: str, gains: Sequence[Row], results: Results) -> Iterator[Claim]:
    """In the median, as the paper's figure has it, and in the mean: few words on which a model loses much count there
    alone."""

    def verdict(row: Row, losses: Mapping[str, float | None]) -> Verdict:
        rare, frequent = _mean(losses, RARE), _mean(losses, FREQUENT)
        if rare is None or frequent is None:
            return NO_SUCH_WORDS
        more = rare - frequent
        if abs(more) <= LOSSES_APART:
            return NEAR
        is_other = made_otherwise(row["differs"]) or (more > 0 and row["differs"])  # see is_lower
        return OTHERWISE if is_other else more > 0

    ran = {row["model"]: row for row in gains if row["runs"]}
    medians = {name: verdict(row, row) if row["of"] == "paired" else UNPAIRED for name, row in ran.items()}
    means = {model: verdict(row, mean_losses(dataset, model, results)) for model, row in ran.items()}
    for measure, found in (("median", medians), ("mean", means)):
        text = f"On {dataset} GroC gains more on words seen less than 100 times than on those seen 1,000 times or more"
        yield judge(f"{text}, in the {measure}", found, len(gains))


def mean_losses(dataset: str, model: str, results: Results) -> dict[str, float]:
    """What a rival's mean loss is above GroC's by how often training had the words, all seeds of both."""
    groc, rival = (by_bin((run.test() for run in results.of(Job(dataset, name))), "loss") for name in ("groc", model))
    return {name: rival[name] - groc[name] for name in rival if name in groc}


def _of_parts(dataset: str, cut: Sequence[Row]) -> Iterator[Claim]:
    """What relations, definitions and the output network are worth."""
    full = {row["output network"]: row for row in cut if not row["without"]}
    spread = largest_spread(cut, "test")
    found: dict[str, Verdict] = {}
    figures = []
    for row in (row for row in cut if row["without"]):
        whole = full[row["output network"]]
        if row["test"] and whole["test"]:
            network = "" if row["output network"] == "yes" else " and the output network"
            left_out = f"without {row['without']}{network}"
            found[left_out] = is_lower(whole, row, "test", spread)
            figures.append(f"{left_out} {row['test']:.1f}, with them {whole['test']:.1f}")
    text = f"On {dataset} leaving out relations, definitions or both makes GroC worse"
    yield judge(text, found, len(cut) - len(full), figures)
    helps = ABLATIONS[dataset][True][0] < ABLATIONS[dataset][False][0]
    text, found, figures = f"On {dataset} GroC is better {'with' if helps else 'without'} an output network", {}, []
    if full["yes"]["test"] and full["no"]["test"]:
        better = is_lower(full["yes"], full["no"], "test", spread)
        found["without"] = better == helps if isinstance(better, bool) else better
        figures.append(f"with it {full['yes']['test']:.1f}, without {full['no']['test']:.1f}")
    yield judge(text, found, 1, figures)


def _of_large_models(dataset: str, sized: Mapping[str, Row], results: Results) -> Iterator[Claim]:
    jobs = {model: Job(dataset, model, set="-best") for model in ("groc", "tied")}
    by_model = {model: by_settings(run for run in results.counted if job.wants(run)) for model, job in jobs.items()}
    for way, extras in (("", ()), (", dynamic evaluation", ("dynamic",))):
        groc, tied = (sized[f"{model}{BEST}{way}"] for model in jobs)
        told = f"On {dataset} with {LARGE}{way.replace(', ', ' and ')} GroC"
        both = {"groc": groc, "tied": tied} if groc["test"] and tied["test"] else {}
        # Few settings have seeds enough to know their own spread.
        spread = largest_spread((figures_of(runs, extras) for each in by_model.values() for runs in each), "test")
        found = {"tied": is_lower(groc, tied, "test", spread)} if both else {}
        figures = [
            f"{_with_seeds(row)}, settings run, however long: {len(by_model[model])}" for model, row in both.items()
        ]
        yield judge(f"{told} has a lower perplexity than tied", found, 1, figures)
        for name, (millions, mark) in marks(dataset, way).items():
            known = {"test": mark, "differs": None}
            found = {name: is_lower(groc, known, "test", spread)} if groc["test"] else {}
            figures = [_with_seeds(groc)] if groc["test"] else []
            if figures and groc["softmaxes"] > 1 and "mixture" not in name:
                figures.append(f"groc mixes {groc['softmaxes']} softmaxes, {name} has one")
            yield judge(f"{told} is below {name} ({mark} with {millions} million)", found, 1, figures)


def _with_seeds(row: Row) -> str:
    model = row["model"].partition(",")[0]
    return f"{model} {row['test']:.1f} with {row['test_runs']} seed{'s' * (row['test_runs'] > 1)}"


def _of_coverage(coverage: Sequence[Row]) -> Iterator[Claim]:
    within = f"within {100 * (ALIKE - 1):.0f}% of what it has with all of WordNet"
    for how, text in (
        ("groc, retrained", f"Retrained with any part of WordNet, GroC stays {within}"),
        ("groc, at inference", f"Trained with all of WordNet and read with a part of it, GroC does not stay {within}"),
        (
            "groc with forms dropout, at inference",
            f"Trained with forms dropout, GroC stays {within} with any part of it (our claim, not the paper's)",
        ),
    ):
        mine = [row for row in coverage if row["model"] == how]
        tests = {row["coverage"]: row["test"] for row in mine if row["differs"] in (None, mine[-1]["differs"])}
        stays: dict[str, Verdict] = {
            f"{share:.0%}": test <= ALIKE * tests[1.0]
            for share, test in tests.items()
            if share < 1 and test and tests[1.0]
        }
        ran = [*filter(None, tests.values())]
        seeds = max(row["runs"] for row in mine)
        figures = [f"{min(ran):.1f} to {max(ran):.1f}, seeds: {seeds}"] if len(ran) > 1 else []
        if how == "groc, at inference":
            leaves: dict[str, Verdict] = {"": not all(stays.values())} if len(stays) == len(mine) - 1 else {}
            yield judge(text, leaves, 1, figures)
        else:
            yield judge(text, stays, len(mine) - 1, figures)


def _mean(row: Mapping[str, float | None], names: tuple[str, ...]) -> float | None:
    known = [value for name in names if (value := row.get(name)) is not None]
    return sum(known) / len(known) if known else None
