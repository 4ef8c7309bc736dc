"""Training that leads nowhere: how it is told, and what is said of it."""

from __future__ import annotations

import math
from pathlib import Path

from groc.config import Training
from groc.errors import GrocError
from groc.report import perplexity
from groc.resuming import Position

EVEN_GUESSES = 10
"""A training has diverged if its perplexity, in the mean of an epoch, is above so many times that of an even guess
among all words. The first epoch does not count: it holds the start."""


class Diverged(GrocError):
    """Training with these settings leads nowhere."""


def what_diverged(train_loss: float, epochs_before: int, words: int) -> str:
    """What is wrong with the mean loss of an epoch; empty if nothing is."""
    if not math.isfinite(perplexity(train_loss)):
        return "the perplexity is not finite any more"
    limit = EVEN_GUESSES * words
    if epochs_before and train_loss > math.log(limit):
        return f"the training perplexity is above {limit:,}, {EVEN_GUESSES} times an even guess,"
    return ""


def diverged(what: str, options: Training, position: Position, folder: Path, kept_step: int | None) -> Diverged:
    """The error that says what went wrong and where, what to do, and what is kept, where that has a state."""
    kept = ""
    if kept_step is not None:
        state = "the last state before that" if kept_step else "nothing but the start of the run"
        kept = f"; {state} is kept in {folder}"
        if position.best_epoch:
            kept += f", besides the best weights, those of epoch {position.best_epoch}"
    other = "training.clip" if options.clip else "clip gradients (training.clip, where 0 is no clipping)"
    if options.matrix_rate:  # such steps are as large whatever the gradient is
        other = "leave out training.matrix_rate"
    return Diverged(
        f"Training diverged: {what} in epoch {position.epoch + 1}, at or before step {position.step}: lower "
        f"training.rate or {other} and start again{kept}."
    )
