"""The figures, drawn with matplotlib (an optional extra)."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from groc.errors import GrocError
from groc.files import check_folder, write_atomically
from groc.paper import published as printed
from groc.paper.domains import SOURCE
from groc.paper.records import LARGE, Results
from groc.paper.runs import BEST, Job, Run, best
from groc.paper.tables import BIN_NAMES, TABLES

COLOURS = {
    "tied": "tab:blue",
    "groc": "tab:orange",
    "lookup": "tab:gray",
    "convolutional": "tab:green",
    "bilinear": "tab:red",
    "deep-residual": "tab:purple",
    "adaptive": "tab:brown",
}
"""Of the models of the main comparison, the same in all figures; others take what is left."""
FAR_OFF = 1.5
"""Times the best perplexity: all above have one colour in a heat map."""
TOP, HEADROOM = 1.5, 1.1
"""Times the best and the worst last perplexity: learning curves are shown from there down, so that their ends can be
told apart. What the first epochs gain would take the whole axis."""
UNLIKE = {"median": "difference of medians", "mean": "difference of means"}
"""What a bar is that is no median of differences, and so cannot be compared with one that is."""
CROWDED = 20
"""Million parameters: from there on models are so many that the names of others stand on the right, and ours left."""
RIGHT = ("tied",)
"""Smaller models whose names stand on the right all the same: on the left is that of GroC, which is about as large."""
MIXTURE = "MoS"
"""What a mixture of softmaxes is called."""
LEFT = (f"AWD-LSTM {MIXTURE}",)
"""Of the others among the crowded, whose name would lie on those of ours."""
WIDTH = 220
"""Of the lines below a figure, in characters."""


def check_figure(name: str, file: str) -> None:
    """Whether a table has a figure, and this file can take it."""
    if name not in FIGURES:
        raise GrocError(f"The table {name} has no figure: choose from {', '.join(FIGURES)}.")
    formats = _blank().canvas.get_supported_filetypes()
    if (ending := Path(file).suffix[1:]) and ending.lower() not in formats:
        raise GrocError(f"{file} cannot be drawn: choose a format of {', '.join(sorted(formats))}.")
    if file.endswith(os.sep) or os.path.isdir(file):
        raise GrocError(f"{file} is a folder: name a file for the figure, such as {Path(file) / name}.png.")
    check_folder(Path(file).parent)


def draw(name: str, results: Results, path: Path) -> Path:
    """Draw the figure of a table into a file, whose name has an ending then."""
    picture = _blank()
    FIGURES[name](picture, results)
    if not any(axes.has_data() for axes in picture.axes):
        raise GrocError(f"There is nothing to draw: no record has what the figure of {name} shows (--results DIR).")
    for axes in picture.axes:
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(edgecolor="none", framealpha=0.8, fontsize=7)
        elif not axes.has_data():
            axes.set_axis_off()
            axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes)
    path = path if path.suffix else path.with_suffix(".png")
    try:
        write_atomically(path, lambda temporary: picture.savefig(temporary, format=path.suffix[1:]))
    except ValueError as error:  # matplotlib names the formats that it knows
        raise GrocError(f"{path} cannot be drawn: {error}.") from None
    return path


def _blank() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise GrocError("Drawing needs matplotlib: pip install -c constraints.txt '.[plot]'.") from None
    return Figure(figsize=(10, 4.2), dpi=140, layout="constrained")


def _curves(picture: Any, results: Results) -> None:
    """Of the main comparison, and below it of the best recipes."""
    picture.set_size_inches(10, 7.6)
    marked = _marked(("main", "size"), picture, results)
    sizes = ((printed.MODELS, "", "published size"), (("tied", "groc"), "-best", LARGE))
    for (models, behind, size), row in zip(sizes, picture.subplots(2, 2), strict=True):
        for axes, dataset in zip(row, printed.DATASETS, strict=True):
            runs = {model: results.of(Job(dataset, model, set=behind)) for model in models}
            name = f"{{}}{BEST if behind else ''}"
            _plot_ends(axes, runs, {model for model in models if (dataset, name.format(model)) in marked})
            axes.set_title(f"{dataset}, {size}")
    _say_what_curves_are(picture)


def _sizes(picture: Any, results: Results) -> None:
    """Test perplexity by parameters: grey of others, squares in the paper, in colour of ours; open dots with dynamic
    evaluation."""
    picture.set_size_inches(10, 7)
    marked = _marked(("size",), picture, results)
    rows = TABLES["size"].rows(results)
    is_run = any(row["runs"] for row in rows)
    for axes, dataset in zip(picture.subplots(1, 2), printed.DATASETS, strict=True):
        for row in (row for row in rows if row["dataset"] == dataset and is_run):
            name = row["model"].partition(" (")[0].removesuffix(", dynamic evaluation").removesuffix(BEST)
            name = name.replace("with a mixture of softmaxes", MIXTURE)
            mixed = f" {MIXTURE}" if (row["softmaxes"] or 1) > 1 else ""
            mark = " *" if (dataset, row["model"]) in marked else ""
            ours = row["runs"] is not None
            for figures, label, colour in (
                (row["paper"], f"{name}, paper" if ours else name, "#777777"),
                (row, name + mixed + mark, COLOURS.get(name.removesuffix(" with characters"))),
            ):
                if figures["parameters"] and figures["test"]:
                    place = (figures["parameters"] / 1e6, figures["test"])
                    face = "none" if "dynamic" in row["model"] else colour
                    shape = "s" if ours and figures is row["paper"] else "o"
                    axes.scatter(*place, s=24, marker=shape, facecolors=face, edgecolors=colour)
                    is_left = (ours or name in LEFT) if place[0] >= CROWDED else name not in RIGHT
                    looks = {"fontsize": 6, "va": "center", "color": colour, "ha": "right" if is_left else "left"}
                    axes.annotate(label, place, (-5 if is_left else 5, 0), textcoords="offset points", **looks)
        axes.set(title=dataset, xlabel="million parameters", ylabel="test perplexity")
        axes.margins(x=0.35)
        axes.grid(alpha=0.3)
    picture.suptitle(
        "Ours in colour; open dots: with dynamic evaluation; squares: the paper's own; "
        f"{MIXTURE}: a mixture of softmaxes",
        fontsize=9,
    )


def _say_what_curves_are(picture: Any) -> None:
    told = "Learning curves of the first seed: perplexity of the valid text, read in streams"
    picture.suptitle(f"{told} (after each name: where it ends)", fontsize=9)


def _marked(names: Sequence[str], picture: Any, results: Results) -> set[tuple[str, str]]:
    """Dataset and model of the rows of tables that cannot be compared with the others; why is said below."""
    rows = {name: TABLES[name].rows(results) for name in names}
    told = filter(None, (TABLES[name].said_of_differences(found) for name, found in rows.items()))
    if said := " ".join(dict.fromkeys(told)).replace("Rows marked `*`", "Models marked *"):
        picture.supxlabel(textwrap.fill(said, WIDTH), fontsize=6, x=0.01, ha="left")
    return {(row["dataset"], row["model"]) for found in rows.values() for row in found if row["differs"]}


def _plot_ends(axes: Any, runs: Mapping[str, Sequence[Run]], marked: Collection[str]) -> None:
    """The lower part of the learning curves of each model's first run."""
    first = {model: found[0] for model, found in runs.items() if found}
    _plot_curves(axes, first, marked)
    curves = [[row["valid_perplexity"] for row in run.curve] for run in first.values() if run.curve]
    if curves:
        last = [curve[-1] for curve in curves]
        axes.set_ylim(0.98 * min(map(min, curves)), max(TOP * min(last), HEADROOM * max(last)))
        axes.grid(axis="y", alpha=0.3)
        _name_missing(axes, [model for model in runs if model not in first])


def _plot_curves(axes: Any, runs: Mapping[str, Run], marked: Collection[str] = ()) -> None:
    """Perplexity of the valid text by epoch, models named in the order in which their curves end."""
    axes.set(xlabel="epoch", ylabel="valid perplexity")
    with_curve = {name: run for name, run in runs.items() if run.curve}
    for name, run in sorted(with_curve.items(), key=lambda item: -item[1].curve[-1]["valid_perplexity"]):
        valid = [row["valid_perplexity"] for row in run.curve]
        label, line = (f"{name} * {valid[-1]:.1f}", "--") if name in marked else (f"{name} {valid[-1]:.1f}", "-")
        axes.plot([row["epoch"] for row in run.curve], valid, line, color=COLOURS.get(name), label=label)


def _name_missing(axes: Any, models: Iterable[str]) -> None:
    """Say at the end of the legend which models are not in the figure."""
    for model in models:
        axes.bar(1, 0, 0, color="none", label=f"{model}: not run")  # bars are listed last, and this one has no size


def _frequency(picture: Any, results: Results) -> None:
    rows = TABLES["frequency"].rows(results)
    marked = _marked(("frequency",), picture, results)
    for axes, dataset in zip(picture.subplots(1, 2), printed.DATASETS, strict=True):
        there = [row for row in rows if row["dataset"] == dataset]
        mine = [row for row in there if row["runs"]]
        for i, row in enumerate(mine):
            places = [x + 0.8 * (i + 0.5) / len(mine) - 0.4 for x in range(len(BIN_NAMES))]
            gains = [row[name] if row[name] is not None else 0.0 for name in BIN_NAMES]
            is_marked, unlike = (dataset, row["model"]) in marked, UNLIKE.get(row["of"], "")
            label = row["model"] + (" *" if is_marked else "") + (f" ({unlike})" if unlike else "")
            looks = {"color": COLOURS.get(row["model"]), "edgecolor": "white", "linewidth": 0}
            hatch = "//////" if is_marked else "oooo" if unlike else None
            axes.bar(places, gains, 0.8 / len(mine), label=label, hatch=hatch, **looks)
        if mine:
            axes.axhline(0, color="#555555", linewidth=1)
            _name_missing(axes, [row["model"] for row in there if not row["runs"]])
        axes.set_xticks(range(len(BIN_NAMES)), BIN_NAMES, fontsize=8)
        axes.set(title=f"{dataset}: test loss above GroC's", xlabel="seen in training")
        axes.set_ylabel("nats (median of the differences, if nothing else is said)", fontsize=8)


def _domains(picture: Any, results: Results) -> None:
    """Perplexity of each text, from the model alone (open) to that with a local cache (filled)."""
    rows = [row for row in TABLES["cross-domain"].rows(results) if row["runs"] and "," not in row["domain"]]
    found = {(row["domain"], row["model"]): row["test"] for row in rows}
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    picture.set_size_inches(10, 1.5 + 0.27 * max(len(domains), 10))
    axes = picture.subplots()
    for i, model in enumerate(("tied", "groc")):
        colour = COLOURS[model]
        places = [-place + 0.15 - 0.3 * i for place in range(len(domains))]
        alone, helped = ([found.get((domain, f"{model}{way}")) for domain in domains] for way in ("", "+local"))
        for place, *ends in zip(places, alone, helped, strict=True):
            if None not in ends:
                axes.plot(ends, [place, place], color=colour, linewidth=1, alpha=0.5)
        for values, face, what in ((alone, "none", ""), (helped, colour, " with a local cache")):
            dots = [(x, y) for x, y in zip(values, places, strict=True) if x is not None]
            if dots:
                axes.scatter(*zip(*dots, strict=True), s=22, facecolors=face, edgecolors=colour, label=model + what)
    if domains:
        axes.set_yticks([-place for place in range(len(domains))], domains, fontsize=8)
        axes.set(xlabel="test perplexity", xscale="log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(axis="x", alpha=0.3)


def _fine_tuning(picture: Any, results: Results) -> None:
    """Of four texts on which models were fine-tuned, those first on which several were."""
    tuned = [run for run in results.counted if run.adapted and run.recipe == SOURCE]
    models_of = {text: {run.variant for run in tuned if run.dataset == text} for text in (r.dataset for r in tuned)}
    texts = sorted(models_of, key=lambda text: -len(models_of[text]))[:4] or [""]
    for axes, text in zip(picture.subplots(1, len(texts), squeeze=False)[0], texts, strict=True):
        there = [run for run in tuned if run.dataset == text]
        models = sorted({run.variant for run in there}, reverse=True)
        _plot_curves(axes, {model: best(run for run in there if run.variant == model)[0] for model in models})
        axes.set_title(text)
    _say_what_curves_are(picture)


def _heat_maps(picture: Any, results: Results) -> None:
    """Perplexity by lambda and theta, the first two local caches that were tuned; a star at the best."""
    rows = [row for row in TABLES["caches"].rows(results) if row["cache"] == "local"][:2]
    for axes, row in zip(picture.subplots(1, max(len(rows), 1), squeeze=False)[0], rows, strict=False):
        values = {(one["theta"], one["lambda"]): one["perplexity"] for one in row["tried"]}
        thetas = sorted({theta for theta, _ in values})
        shares = sorted({share for _, share in values}, key=lambda share: (isinstance(share, str), share))
        # What is far off the best would take all the colours.
        image = axes.imshow(
            [[values[theta, share] for share in shares] for theta in thetas],
            aspect="auto",
            vmax=FAR_OFF * min(values.values()),
        )
        picture.colorbar(image, ax=axes, extend="max", label="perplexity")
        theta, share = min(values, key=lambda key: values[key])
        axes.plot(shares.index(share), thetas.index(theta), "*", color="white", markersize=12)
        axes.set_xticks(
            range(len(shares)), list(map(str, shares)), fontsize=8, rotation=45, ha="right", rotation_mode="anchor"
        )
        axes.set_yticks(range(len(thetas)), [f"{theta:g}" for theta in thetas], fontsize=8)
        axes.set(title=f"{row['model']} on {row['text']}", xlabel="lambda", ylabel="theta")


FIGURES = {
    "main": _curves,
    "frequency": _frequency,
    "size": _sizes,
    "caches": _heat_maps,
    "cross-domain": _domains,
    "fine-tuning": _fine_tuning,
}
CAPTIONS = {
    "main": "Learning curves of the seven models, and of the best recipes",
    "frequency": TABLES["frequency"].title,
    "size": "Test perplexity by the number of parameters, of others and of ours",
    "caches": "Perplexity by the settings of a local cache",
    "cross-domain": "Perplexity of each text, tied and GroC, alone and with a local cache",
    "fine-tuning": "Learning curves of fine-tuning on four texts",
}
"""What a figure shows."""
