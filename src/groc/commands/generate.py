"""groc generate: a text that the model goes on with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import Any

from groc.commands.opening import open_model
from groc.context import words_of
from groc.generate import detokenise, generate, lines
from groc.report import to_json
from groc.vocabulary import END


def show_generated(
    run: str | None, text: str, glossary: str | None, tokenised: bool, as_json: bool, **options: Any
) -> None:
    """`options` are those of `groc.generate.generate`."""
    model = open_model(run, glossary)
    drawing = generate(model, text, tokenised=tokenised, **options)
    before = words_of(model, text, tokenised)
    if not as_json:
        print_lines(chain(before, (one.word for one in drawing)), tokenised)
        return
    generated = list(drawing)
    words = [*before, *(one.word for one in generated)]
    whole = "\n".join(map(" ".join, lines(words))) if tokenised else detokenise(words)
    print(to_json({"text": whole, "words": [asdict(one) for one in generated]}))


def print_lines(words: Iterable[str], tokenised: bool) -> None:
    """Each line as soon as it is there; what is there of the last one, too, if the user has seen enough."""
    line: list[str] = []
    try:
        for word in words:
            if word == END:
                print(" ".join(line) if tokenised else detokenise(line), flush=True)
                line = []
            else:
                line.append(word)
    finally:
        if line:
            print(" ".join(line) if tokenised else detokenise(line), flush=True)
