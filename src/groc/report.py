"""What a person wants to know of scores: perplexity, and where it comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from groc.scoring import Scores

BINS = (0, 1, 10, 100, 1000, 10000)
"""Training frequencies where a bin begins; the first bin holds the words never seen."""
HUGE = 1e9
"""A perplexity that no list of words explains."""


def summarise(scores: Scores, as_unk: npt.NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """The figures of a scored text. `loss` is in nats a word, over every token, `<eos>` included, nothing dropped.

    `as_unk` says which tokens were read as `<unk>`. They have figures of their own: what they were scored as has a
    training frequency that is not theirs.
    """
    counts = scores.counts
    themselves = np.ones(len(counts), np.bool_) if as_unk is None else ~as_unk
    unseen = themselves & (counts == 0)
    return {
        **_figures(scores.log_prob),
        "vocabulary": len(scores.vocabulary),
        "oov_share": float(unseen.mean()),
        "unseen": _figures(scores.log_prob[unseen]),
        **({} if themselves.all() else {"as_unk": _figures(scores.log_prob[~themselves])}),
        "bins": [
            {"from": start, "to": end, **_figures(scores.log_prob[inside])}
            for start, end, inside in frequency_bins(np.where(themselves, counts, -1))  # below every bin
        ],
    }


def frequency_bins(
    counts: npt.NDArray[np.int64],
) -> Iterator[tuple[int, int | None, npt.NDArray[np.bool_]]]:
    """Each bin that holds any of these training frequencies: where it begins and ends, and which of them are inside."""
    for start, end in zip(BINS, [*(start - 1 for start in BINS[1:]), None], strict=True):
        inside = (counts >= start) & (counts <= (end if end is not None else np.inf))
        if inside.any():
            yield start, end, inside


def _figures(log_prob: Any) -> dict[str, Any]:
    if not len(log_prob):
        return {"tokens": 0, "loss": None, "median_loss": None, "perplexity": None, "bits_per_word": None}
    loss = -float(log_prob.mean())
    return {
        "tokens": len(log_prob),
        "loss": loss,
        "median_loss": -float(np.median(log_prob)),
        "perplexity": perplexity(loss),
        "bits_per_word": loss / math.log(2),
    }


def perplexity(loss: float) -> float:
    """exp(loss), infinite where it is too large for a number."""
    return math.exp(loss) if loss < 700 else math.inf


def to_json(figures: Any, indent: int | None = None) -> str:
    """Figures as strict JSON: what is infinite or not a number becomes null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(figures), indent=indent, allow_nan=False)


def describe(summary: dict[str, Any]) -> str:
    """The same for a person."""
    named = [(bin_name(row), row) for row in summary["bins"]]
    if "as_unk" in summary:
        named.append(("read as <unk>", summary["as_unk"]))
    rows = [
        [name, f"{row['tokens']:,}", f"{row['tokens'] / summary['tokens']:.1%}", f"{row['loss']:.2f}",
         f"{row['bits_per_word']:.2f}"]
        for name, row in named
    ]  # fmt: skip
    return "\n".join(
        [
            f"perplexity {_shown(summary['perplexity'])}   {summary['bits_per_word']:.3f} bits a word   "
            f"over all {summary['tokens']:,} tokens (with <eos>), vocabulary of {summary['vocabulary']:,} words, "
            f"{summary['oov_share']:.2%} of the tokens never seen in training",
            "",
            table(["seen in training", "tokens", "share", "loss (nats)", "bits a word"], rows),
        ]
    )


def _shown(perplexity: float) -> str:
    """With two digits, unless it is huge, as that of a cache that weighs far too much is."""
    return f"{perplexity:.2f}" if perplexity < HUGE else f"{perplexity:.3g}"


def bin_name(row: dict[str, Any]) -> str:
    """A bin of training frequency for a person."""
    if row["to"] == 0:
        return "never"
    return f"{row['from']:,}-{row['to']:,} times" if row["to"] else f"{row['from']:,} times or more"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown that is also readable as it is: the first columns, which are names, left, others right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ("-" if i < names else ":") for i, width in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])
