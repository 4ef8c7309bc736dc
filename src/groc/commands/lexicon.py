"""`groc lexicon`: install WordNet, and show what a lexicon knows about a word."""

from __future__ import annotations

import json
from dataclasses import asdict

from groc.building import build_lexicon
from groc.config import Config
from groc.errors import GrocError
from groc.lexicon import Entry, Sense
from groc.lexicon import install as installer
from groc.rules import Selected, rules_named

_PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}
_SHOWN_HYPONYMS = 8


def install() -> None:
    """Make sure that there is a WordNet on this machine, and say where."""
    installer.install(print)


def show(word: str, lexicon_path: str | None, rules: str, as_json: bool) -> None:
    """Print the word's entry, and which of its words the rules choose as relations and definition."""
    config = Config().replace({"forms.lexicon": lexicon_path or "wordnet"})
    entry = build_lexicon(config).entry(word)
    if entry is None:
        raise GrocError(f"The lexicon has no entry for {word!r}: check the spelling, or give it one in a glossary.")
    chosen = rules_named(rules).select(word, entry)
    told = Selected(chosen.relations[: config.forms.relations], chosen.definition[: config.forms.definition])
    print(_as_json(word, entry, rules, told) if as_json else _for_a_person(word, entry, rules, told))


def _as_json(word: str, entry: Entry, rules: str, selected: Selected) -> str:
    record = {"word": word, **asdict(entry), "rules": rules, **asdict(selected)}
    return json.dumps(record, ensure_ascii=False, indent=2)


def _for_a_person(word: str, entry: Entry, rules: str, selected: Selected) -> str:
    blocks = [f"{word}: {len(entry.senses)} {'sense' if len(entry.senses) == 1 else 'senses'}"]
    blocks += [_sense_lines(number, sense) for number, sense in enumerate(entry.senses, 1)]
    blocks.append(f"What the model is told, by the rules {rules!r}:")
    blocks.append(f"    relations   {' '.join(selected.relations) or '(none)'}")
    blocks.append(f"    definition  {' '.join(selected.definition) or '(none)'}")
    return "\n".join(blocks)


def _sense_lines(number: int, sense: Sense) -> str:
    notes = [_PARTS_OF_SPEECH[sense.part_of_speech]] if sense.part_of_speech else []
    notes += [f"seen {sense.count} {'time' if sense.count == 1 else 'times'}"] if sense.count else []
    head = f"{number:3}. " + (f"({', '.join(notes)}) " if notes else "") + sense.definition
    lines = [head.rstrip()]
    if sense.synonyms:
        lines.append(f"     words     {_listed(sense.synonyms)}")
    if sense.hyponyms:
        more = len(sense.hyponyms) - _SHOWN_HYPONYMS
        lines.append(
            f"     narrower  {_listed(sense.hyponyms[:_SHOWN_HYPONYMS])}" + (f" and {more} more" if more > 0 else "")
        )
    return "\n".join(lines)


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)
