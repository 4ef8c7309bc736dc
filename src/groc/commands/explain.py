"""groc explain: what the model makes of a word, and what each form of it contributes."""

from __future__ import annotations

from dataclasses import asdict

from groc.commands.columns import bar, columns, percentage
from groc.commands.opening import open_model
from groc.commands.shading import shown
from groc.context import words_of
from groc.explain import Explanation, Part, explain
from groc.model import LanguageModel
from groc.report import to_json


def show_explanation(
    run: str | None, word: str, context: str | None, limit: int, glossary: str | None, as_json: bool
) -> None:
    model = open_model(run, glossary)
    explanation = explain(model, word, context=context, limit=limit)
    print(to_json(asdict(explanation)) if as_json else shown("\n\n".join(_blocks(explanation, model))))


def _blocks(explanation: Explanation, model: LanguageModel) -> list[str]:
    facts = [["nearest", ", ".join(f"{near} {cosine:.2f}" for near, cosine in explanation.nearest) or "(none)"]]
    if model.is_open:
        relations, definition = ", ".join(explanation.relations), " ".join(explanation.definition)
        facts = [["relations", relations or "(none)"], ["definition", definition or "(none)"], *facts]
    seen = "seen in training" if explanation.seen else "never seen in training"
    blocks = [f"{explanation.word}: {seen}", columns(facts)]
    as_text = words_of(model, explanation.word, tokenised=False)
    if as_text and as_text != [explanation.word] and not explanation.seen:
        blocks.insert(1, f"In a text it is read as: {' '.join(as_text)}. A glossary can make it one word.")
    if explanation.probability is not None:
        where = f"Behind {explanation.context!r}" if explanation.context else "At the start of a text"
        blocks.append(
            f"{where}: probability {percentage(explanation.probability)}, {explanation.surprisal:.2f} bits, "
            f"rank {explanation.rank:,}"
        )
    if explanation.parts:
        blocks.append(_table(explanation.parts))
    elif model.is_open:
        blocks.append("Its vector came with the model, and the lexicon that it was composed from is not here.")
    else:
        blocks.append("The model is closed: it has a row of parameters for each word of training, and composes none.")
    return blocks


VISIBLE = 5e-4
"""A change that the table's three decimals show: one that they do not is no full bar, even if no other is larger."""


def _table(parts: list[Part]) -> str:
    """One row a form: what its absence changes. A group of forms stands over its members."""
    largest = max(*(part.change for part in parts), VISIBLE)
    rows = [["without", "change", "", "" if parts[0].bits is None else "surprisal"]]
    rows += [
        [
            _label(part),
            f"{max(part.change, 0.0):.3f}",  # a cosine may be above 1 by its rounding
            bar(max(part.change, 0.0) / largest),
            "" if part.bits is None else f"{part.bits:+.2f} bits",
        ]
        for part in parts
    ]
    return columns(rows, right=(1, 3))


def _label(part: Part) -> str:
    if " " in part.word:
        return {"relation": "all relations", "definition": "the definition"}[part.form]
    return "the characters" if part.form == "surface" else f"  {part.form} {part.word}"
