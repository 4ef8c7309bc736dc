"""groc adapt: fine-tune a trained model on a new domain, new words welcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groc import checkpoint
from groc.adaptation import adapting
from groc.compute import Group
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.recipe import given_settings
from groc.report import table, to_json
from groc.running import evaluation_command, saying_how_to_go_on, with_own_settings
from groc.text_statistics import texts_of


def adapt(
    run: str,
    corpus: str,
    out: str,
    epochs: int | None,
    assignments: Sequence[str],
    source: str | None,
    resume: bool,
    as_json: bool,
) -> None:
    recorded = checkpoint.load_config(Path(run))
    changes = given_settings(assignments)
    if "training.epochs" in changes:
        raise GrocError("How often the new text is read is --epochs here: leave out training.epochs.")
    config = adapting.adapted_settings(recorded, corpus, adapting.EPOCHS if epochs is None else epochs, changes)
    if source is None and Path(recorded.corpus).is_dir() and texts_of(Corpus(recorded.corpus), ["valid"]):
        source = recorded.corpus
    group = Group()
    if resume:
        given = {*changes, "corpus", *([] if epochs is None else ["training.epochs"])}
        config = with_own_settings(config, Path(out), given, group)
    with saying_how_to_go_on(Path(out), group):
        figures = adapting.adapt(Path(run), config, Path(out), resume, group, source)
        if group.leads:
            if as_json:
                print(to_json({"run": out, **figures}))
            else:
                print(_describe(figures))
                if source is None:
                    print(f"\nThe corpus of {run} is not here: give --source CORPUS to see what was forgotten.")
                print(f"\n{out}: next, {evaluation_command(out, corpus)}")
        group.close()


def _describe(figures: dict[str, Any]) -> str:
    def nats(loss: float | None) -> str:
        return "-" if loss is None else f"{loss:.2f}"

    rows = [
        [
            row["text"],
            f"{row['tokens']:,}",
            f"{row['new_share']:.1%}",
            *(f"{row[when]['perplexity']:,.2f}" for when in ("before", "after")),
            *(nats(row[when]["new_words_loss"]) for when in ("before", "after")),
        ]
        for row in figures["texts"]
    ]
    head = ["", "tokens", "new words", "perplexity before", "after", "loss on new words before", "after"]
    return (
        f"After epoch {figures['best_epoch']} of {figures['epochs']}, strict (one stream, every token), in the union "
        f"of the words of both trainings and the text:\n\n{table(head, rows)}"
    )
