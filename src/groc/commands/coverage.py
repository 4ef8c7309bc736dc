"""groc lexicon coverage: how many words of a corpus a lexicon knows something about."""

from __future__ import annotations

import json

from groc.building import build_lexicon
from groc.config import Config
from groc.corpus import Corpus
from groc.forms import FormsCompiler, coverage
from groc.report import table


def show_coverage(corpus: str, rules: str, lexicon: str | None, lower: bool, as_json: bool) -> None:
    vocabulary = Corpus(corpus).vocabulary()
    source = build_lexicon(Config().replace({"forms.lexicon": lexicon or "wordnet"}))
    forms = FormsCompiler(source, rules, lower=lower).compile(vocabulary)
    relations, definitions = coverage(forms)
    tokens = vocabulary.counts / vocabulary.counts.sum()
    summary = {
        "words": len(vocabulary),
        "relations": relations,
        "definitions": definitions,
        "relations_of_tokens": 100 * float(tokens[forms.relations.present].sum()),
        "definitions_of_tokens": 100 * float(tokens[forms.definition.present].sum()),
        "strings": len(forms),
        "rules": rules,
    }
    if as_json:
        print(json.dumps(summary))
        return
    print(f"{corpus}: {len(vocabulary):,} words, {rules} rules, {len(forms):,} distinct strings to encode")
    print(
        table(
            ["have", "% of words", "% of tokens"],
            [
                ["relations", f"{relations:.1f}", f"{summary['relations_of_tokens']:.1f}"],
                ["a definition", f"{definitions:.1f}", f"{summary['definitions_of_tokens']:.1f}"],
            ],
        )
    )
