"""groc next: the words that may come next, and what the model takes them for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from groc.commands.columns import bar, columns, percentage
from groc.commands.opening import open_model
from groc.commands.shading import shown
from groc.report import to_json
from groc.suggest import Suggestion, next_words
from groc.vocabulary import END, Vocabulary


def show_next(
    run: str | None,
    text: str,
    limit: int,
    words: str | None,
    glossary: str | None,
    tokenised: bool,
    unknown: bool,
    as_json: bool,
) -> None:
    choice = None if words is None else [word for word in Vocabulary.read(Path(words)) if word != END]
    model = open_model(run, glossary)
    suggestions = next_words(model, text, limit, words=choice, tokenised=tokenised, unknown=unknown)
    if as_json:
        print(to_json({"text": text, "suggestions": [asdict(suggestion) for suggestion in suggestions]}))
    else:
        print(shown(_for_a_person(suggestions)))


def _for_a_person(suggestions: list[Suggestion]) -> str:
    best = suggestions[0].probability
    rows = [
        [
            one.word if one.seen else f"{one.word} (new)",
            percentage(one.probability),
            f"{one.surprisal:.1f} bits",
            bar(one.probability / best),
            f"like {', '.join(one.nearest)}" if one.nearest else "",
        ]
        for one in suggestions
    ]
    return columns(rows, right=(1, 2))
