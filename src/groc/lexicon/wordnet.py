"""WordNet as a lexicon, read straight from its database files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from groc.errors import GrocError
from groc.lexicon.base import Entry, Sense
from groc.lexicon.counts import parse_counts
from groc.lexicon.database import PARTS_OF_SPEECH, PartOfSpeech, Synset, damaged, read_bytes
from groc.lexicon.fingerprint import fingerprint
from groc.lexicon.locate import find_folder

_KIND_NUMBERS = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
_HYPONYM, _INSTANCE_HYPONYM, _SIMILAR = "~", "~i", "&"


class WordNet:
    """The WordNet in a folder with `data.noun`, `index.noun` and their like.

    Reads Princeton's files and Debian's. Irregular forms (`*.exc`) and sense counts (`index.sense`, else
    `cntlist.rev`) are used where the folder has them.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._parts = {letter: PartOfSpeech(self.folder, letter) for letter in PARTS_OF_SPEECH}
        candidates = (self.folder / "index.sense", self.folder / "cntlist.rev")
        self._counts_path = next((path for path in candidates if path.is_file()), None)
        self._counts_content = read_bytes(self._counts_path) if self._counts_path else b""

    @classmethod
    def find(cls, path: str | Path | None = None) -> WordNet:
        """The WordNet at the path, or the one GROC_WORDNET names, or the first in the usual places."""
        folder = find_folder(path)
        if folder is None:
            raise GrocError(
                "No WordNet found: run 'groc lexicon install', or set GROC_WORDNET to a folder with data.noun and "
                "index.noun."
            )
        return cls(folder)

    @cached_property
    def fingerprint(self) -> str:
        files = [content for part in self._parts.values() for content in part.content]
        return fingerprint("WordNet", *files, self._counts_content)

    def entry(self, word: str) -> Entry | None:
        """The senses of the word and of its base forms: nouns first, then verbs, adjectives and adverbs."""
        lemma = word.lower().replace(" ", "_")
        senses: dict[tuple[str, str], Sense] = {}
        for letter, part in self._parts.items():
            for form in part.base_forms(lemma):
                for offset in part.offsets(form):
                    if (letter, offset) not in senses:
                        senses[letter, offset] = self._sense(form, part, offset)
        return Entry(tuple(senses.values())) if senses else None

    def lemmas(self) -> Iterator[str]:
        """All lemmas, each once: lower-case, with underscores for spaces."""
        return iter(dict.fromkeys(lemma for part in self._parts.values() for lemma in part.lemmas))

    def examples(self) -> Iterator[str]:
        """All usage examples, in the order of the files."""
        for part in self._parts.values():
            yield from part.examples()

    def _sense(self, lemma: str, part: PartOfSpeech, offset: str) -> Sense:
        synset = part.synset(offset)
        try:
            narrower = synset.targets(_HYPONYM, _INSTANCE_HYPONYM)
            hyponyms = dict.fromkeys(word for letter, target in narrower for word in self._parts[letter].words(target))
            return Sense(
                definition=synset.definition,
                synonyms=synset.words,
                hyponyms=tuple(hyponyms),
                part_of_speech=part.letter,
                count=self._count(lemma, synset),
            )
        except (KeyError, ValueError, IndexError):
            raise damaged(part.data_path, f"at byte {offset}") from None

    def _count(self, lemma: str, synset: Synset) -> int:
        counts = self._counts.get(lemma)
        if counts is None:
            return 0
        head = ":"
        if synset.kind == "s":
            letter, offset = synset.targets(_SIMILAR)[0]
            centre = self._parts[letter].synset(offset)
            head = f"{centre.words[0].lower()}:{int(centre.word_ids[0], 16):02}"
        kind = f"{_KIND_NUMBERS[synset.kind]}:{synset.fields[1]}"
        # A synset can hold a word twice, as Utopian and utopian; that is one sense.
        ids = (word_id for word, word_id in zip(synset.words, synset.word_ids, strict=True) if word.lower() == lemma)
        return max((counts.get(f"{kind}:{int(word_id, 16):02}:{head}", 0) for word_id in ids), default=0)

    @cached_property
    def _counts(self) -> dict[str, dict[str, int]]:
        return parse_counts(self._counts_content, self._counts_path) if self._counts_path else {}
