"""Running the tables of open vocabularies: the texts, models moved to other domains, words held out of training."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from groc.adaptation.heldout import RECORD, Choice, hold_out
from groc.building import build_lexicon
from groc.commands.heldout import score as score_held_out
from groc.compute import choose
from groc.config import Compute, Config
from groc.errors import GrocError
from groc.files import write_text
from groc.forms import FormsCompiler
from groc.paper.announcing import announce
from groc.paper.crossing import Moved, is_open, possible_rows, row_name, run_cross_domain, ways_of
from groc.paper.domains import DOMAINS, HELD_OUT, MODELS, SOURCE, TUNING
from groc.paper.place import Place, chosen, recorded, run_name, timed, train_once
from groc.recipe import load_recipe, variant_names
from groc.report import to_json
from groc.results import HELD_OUT as KIND
from groc.results import circumstances
from groc.rules import Selected
from groc.text_statistics import find_sets, statistics

DATA = "data-cross-domain.json"


def run_open(
    table: str, place: Place, domains: Collection[str], rows: Collection[str], seeds: int, settings: Sequence[str]
) -> None:
    """Run what a table lacks; of these domains and rows, if any are named (`groc+*`: all rows of a model)."""
    place.need(SOURCE, "train", "the text of the source")
    there = [name for name in DOMAINS if place.has(name, "test")]
    possible = {row_name(model, way): model for model in variant_names(SOURCE) for way in ways_of(model)}
    if table == "held-out":  # what is said of a word is of use to open models alone, which score it in one way
        possible = {model: model for model in possible.values() if is_open(model)}
    of_model = {f"{model}+*": [row for row, other in possible.items() if other == model] for model in possible.values()}
    rows = [row for name in rows for row in of_model.get(name, [name])]
    for wrong, right in ((set(domains) - set(there), there), (set(rows) - possible.keys(), possible)):
        if wrong:
            raise GrocError(f"There is no {min(wrong)!r} to run here: choose from {', '.join(right)}.")
    rows = rows or [row for row, model in possible.items() if model in MODELS]
    wanted = [name for name in there if not domains or name in domains]
    if table == "cross-domain":
        place.need(TUNING, "valid", "on which all rows are tuned")
        rows = possible_rows(rows, wanted, place)
    models = sorted({possible[row] for row in rows}, reverse=True)  # tied first: all others are compared with it
    if table == "held-out":
        run_held_out(place, models, seeds, settings)
    else:
        record_domains(place, settings, anew=table == "domains")
    if table == "cross-domain":
        moved = [[Moved(place, model, seed, settings, rows) for model in models] for seed in range(1, seeds + 1)]
        announce({name: config for some in moved for one in some for name, config in one.planned(wanted)}, place.runs)
        for some in moved:
            run_cross_domain(some, wanted)


def run_held_out(place: Place, variants: Sequence[str], seeds: int, settings: Sequence[str]) -> None:
    """Train on the source without the lines of some words, and score these."""
    text = place.runs / HELD_OUT
    configs = [
        chosen(SOURCE, variant, settings).replace({"training.seed": seed, "corpus": str(text)})
        for seed in range(1, seeds + 1)
        for variant in variants
    ]
    planned = {f"{HELD_OUT}-{run_name(config)}": config for config in configs}
    if configs and not (text / RECORD).is_file():
        hold_out(place.corpus(SOURCE), text, compiler_of(configs[0]), Choice())
    announce(planned, place.runs)
    for name, config in planned.items():
        folder = place.runs / name
        with timed(f"{name}: train"):
            train_once(config, folder)
        evaluations = recorded(folder).record["evaluations"].values()
        if not any(figures["vocabulary_kind"] == KIND for figures in evaluations):
            with timed(f"{name}: score"):
                score_held_out(str(folder), str(text), config.compute.device, seed=1, record=True, as_json=False)
        place.publish(folder)


def record_domains(place: Place, settings: Sequence[str], anew: bool) -> None:
    """Measure the texts, how much of them is new to the source, and of how much of that the lexicon says something.

    Unless it is done anew, texts that are recorded with the sizes that they have now are left alone. What is recorded
    of texts that are not at hand stays, as long as the source's training text is the same.
    """
    sets = find_sets(place.corpora)
    figures = statistics(sets)
    before = recorded_domains(place)
    if not anew and all(text in before["texts"] for text in figures["texts"]):
        return
    compiler, trained = compiler_of(load_recipe(SOURCE, "groc", settings)), set(sets[SOURCE]["train"].types)
    figures["unseen"] = [row for row in figures["unseen"] if row["train"] == SOURCE]
    for row in figures["unseen"]:
        counts = sets[row["test"]]["test"].type_counts
        new = {word: count for word, count in counts.items() if word not in trained}
        known = (count for word, count in new.items() if compiler.select(word) != Selected())
        row["with_entry"] = sum(known) / max(sum(new.values()), 1)
    source = next(text for text in figures["texts"] if (text["set"], text["text"]) == (SOURCE, "train"))
    if source in before["texts"]:
        figures["texts"] += [row for row in before["texts"] if row["set"] not in sets]
        figures["unseen"] += [row for row in before["unseen"] if row["test"] not in sets]
    record = {"kind": "data", "name": "data/cross-domain", **circumstances(choose(Compute(device="cpu")))}
    write_text(place.results / DATA, to_json({**record, "figures": figures}, indent=1) + "\n")


def recorded_domains(place: Place) -> dict[str, list[Any]]:
    """The texts that were measured, if any were."""
    try:
        figures = json.loads((place.results / DATA).read_text(encoding="utf-8"))["figures"]
        return {name: list(figures[name]) for name in ("texts", "unseen")}
    except (OSError, ValueError, KeyError, TypeError):
        return {"texts": [], "unseen": []}


def compiler_of(config: Config) -> FormsCompiler:
    return FormsCompiler(build_lexicon(config), config.forms.rules, lower=config.forms.lower)
