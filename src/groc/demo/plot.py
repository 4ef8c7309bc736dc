"""The picture of the demo: perplexity at home and away, and the loss by how often training had a word."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from groc.demo.figures import Figures

COLOURS = {"GroC": "#1b6ca8", "tied": "#e08e45"}
GREY = "#555555"


def draw(figures: Figures, path: Path) -> None:
    """Write the picture. Raises ImportError where matplotlib is not installed."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(11, 5), dpi=150, layout="constrained")
    left, right = picture.subplots(1, 2, width_ratios=(2, 3))
    models = {"GroC": figures.groc, "tied": figures.tied}
    for i, (name, model) in enumerate(models.items()):
        shift = 0.4 * (i - 0.5)
        style = {"width": 0.38, "color": COLOURS[name], "label": f"{name} ({model.parameters / 1e6:.2f}M parameters)"}
        values = [model.home.perplexity, model.away.perplexity]
        bars = left.bar([x + shift for x in range(2)], values, **style)
        left.bar_label(bars, [f"{value:,.0f}" for value in values], padding=2)
        losses = [row["loss"] for row in model.away.bins]
        bars = right.bar([x + shift for x in range(len(losses))], losses, **style)
        right.bar_label(bars, [f"{loss:.1f}" for loss in losses], padding=2, fontsize=8)

    left.set_title("Perplexity, every token")
    left.set_ylabel("perplexity (lower is better)")
    left.yaxis.set_major_formatter("{x:,.0f}")
    left.set_xticks(range(2), ["home\n(usage examples)", "away, no training\n(docstrings)"])

    right.set_title("Loss on the docstrings, by how often training had the word")
    right.set_ylabel("nats a word (lower is better)")
    rows = figures.groc.away.bins
    names = [f"{_name(row)}\n{row['tokens'] / figures.groc.away.tokens:.0%}" for row in rows]
    right.set_xticks(range(len(rows)), names, fontsize=8)
    right.set_xlabel("seen in training; below it the share of the docstrings' tokens", color=GREY)
    even = math.log(figures.groc.away.vocabulary)
    right.axhline(even, color=GREY, linestyle="--", linewidth=1)
    right.annotate("even odds", (1, even), (-4, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                   ha="right", color=GREY, fontsize=8)  # fmt: skip
    picture.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.margins(y=0.1)
    picture.savefig(path)


def _name(row: dict[str, Any]) -> str:
    if row["to"] == 0:
        return "never"
    return f"{row['from']:,}-{row['to']:,}" if row["to"] else f"{row['from']:,}+"
