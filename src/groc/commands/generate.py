"""groc generate: a text that the model goes on with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from groc.commands.opening import open_model
from groc.context import words_of
from groc.generate import detokenise, generate, lines
from groc.report import to_json


def show_generated(
    run: str | None, text: str, glossary: str | None, tokenised: bool, as_json: bool, **options: Any
) -> None:
    """`options` are those of `groc.generate.generate`."""
    model = open_model(run, glossary)
    generated = list(generate(model, text, tokenised=tokenised, **options))
    words = [*words_of(model, text, tokenised), *(one.word for one in generated)]
    whole = "\n".join(map(" ".join, lines(words))) if tokenised else detokenise(words)
    if as_json:
        print(to_json({"text": whole, "words": [asdict(one) for one in generated]}))
    else:
        print(whole)
