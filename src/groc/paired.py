"""Two models on one text, word by word: how much more one loses than the other, and on which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from groc.report import bin_name, frequency_bins, table
from groc.scoring import Scores

BLOCK = 100
"""Tokens that the bootstrap draws together: neighbours are hard or easy together, so single ones would promise more."""
DRAWS, SEED = 1000, 1
"""Of the bootstrap: the same figures every time."""


def compare(mine: Scores, theirs: Scores) -> dict[str, Any]:
    """How much more the second model loses on each word than the first, in nats: above 0, the first is better.

    Of all tokens, with a 95% interval of the mean, and by how often the first model's training had the word.
    """
    gains = mine.log_prob - theirs.log_prob
    low, high = interval(gains)
    bins = [{"from": start, "to": end, **_figures(gains[inside])} for start, end, inside in frequency_bins(mine.counts)]
    return {**_figures(gains), "low": low, "high": high, "bins": bins}


def interval(gains: npt.NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
    """Where the mean lies with 95%, by a bootstrap over blocks of tokens that follow each other (the last may be
    shorter). One block alone says nothing of it."""
    starts = np.arange(0, len(gains), BLOCK)
    if len(starts) < 2:
        return None, None
    sums, sizes = np.add.reduceat(gains, starts), np.diff(starts, append=len(gains))
    random = np.random.default_rng(SEED)
    means = np.empty(DRAWS)
    for i in range(DRAWS):  # one after the other, so that a long text takes no more memory
        drawn = random.integers(len(starts), size=len(starts))
        means[i] = sums[drawn].sum() / sizes[drawn].sum()
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def _figures(gains: npt.NDArray[np.float64]) -> dict[str, Any]:
    return {
        "tokens": len(gains),
        "lower": float((gains > 0).mean()),
        "mean": float(gains.mean()),
        "median": float(np.median(gains)),
    }


def describe(summary: dict[str, Any]) -> str:
    """The same for a person."""
    named = [("all", summary), *((bin_name(row), row) for row in summary["bins"])]
    rows = [
        [name, f"{row['tokens']:,}", f"{row['lower']:.1%}", f"{row['mean']:+.3f}", f"{row['median']:+.3f}"]
        for name, row in named
    ]
    known = summary["low"] is not None
    within = f", 95% interval {summary['low']:+.3f} to {summary['high']:+.3f}" if known else ""
    return "\n".join(
        [
            f"mean difference {summary['mean']:+.3f} nats a token{within} (above 0: {summary['run']} is better), "
            f"vocabulary of {summary['vocabulary']:,} words",
            "",
            table(["seen in training", "tokens", f"{summary['run']} is better", "mean (nats)", "median (nats)"], rows),
        ]
    )
