"""A WordNet of two dozen synsets, written as database files in WordNet's own format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE_NAMES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
KIND_NUMBERS = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
HEADER = "  1 A small database, made up for tests.  \n  2 Not a word of it comes from a real one.  \n"


@dataclass(frozen=True)
class MiniSynset:
    name: str
    kind: str
    words: str
    gloss: str
    pointers: str = ""
    """Pairs of symbol and name, as in `~ puppy`."""
    word_id: int = 0
    count: int = 0
    """Of each of its words."""

    @property
    def letter(self) -> str:
        return "a" if self.kind == "s" else self.kind

    @property
    def lemmas(self) -> list[str]:
        """In lower case, without markers, each once."""
        return list(dict.fromkeys(word.lower().partition("(")[0] for word in self.words.split()))


SYNSETS = (
    MiniSynset("animal", "n", "animal beast", 'what moves and eats; "an animal slept"', "~ dog ~ cat"),
    MiniSynset(
        "dog", "n", "dog domestic_dog", 'barks; "a dog barked"; "my dog"', "@ animal ~ puppy ~ cur ~i rex", 0, 42
    ),
    MiniSynset("cad", "n", "cad dog", "behaves badly; often without knowing", "", 1),
    MiniSynset("cat", "n", "cat", 'purrs; "the cat of the house', "@ animal", 0, 7),
    MiniSynset("puppy", "n", "puppy pup", "a young one", "@ dog"),
    MiniSynset("cur", "n", "cur pup", "a rough one", "@ dog", 2),
    MiniSynset("rex", "n", "Rex", "a dog in a story", "@i dog"),
    MiniSynset("mouse", "n", "mouse", "is small and grey", "", 0, 3),
    MiniSynset("box", "n", "box", "has a lid"),
    MiniSynset("tool", "n", "ax axis", "two spellings of one thing, for once"),
    MiniSynset("line", "n", "axis", "a line to turn about", "", 1),
    MiniSynset("utopia", "n", "Utopia utopia", "a good place", "", 0, 13),
    MiniSynset("trail", "v", "trail dog", 'walk behind; "they dog her steps"', "", 10, 2),
    MiniSynset("go", "v", "go", "move away"),
    MiniSynset("bake", "v", "bake", "make bread"),
    MiniSynset("afraid", "a", "afraid(p)", "full of fear", "& scared ! brave", 2),
    MiniSynset("scared", "s", "scared(p) aghast(p)", "in fear of something", "& afraid", 0, 5),
    MiniSynset("brave", "a", "brave", "without fear", "! afraid"),
    MiniSynset("fine", "a", "fine good", 'as it should be; "a good day"', "", 0, 9),
    MiniSynset("large", "a", "large", "of great size"),
    MiniSynset("well", "r", "well", 'in a good way; "well done"', "", 0, 4),
)

EXCEPTIONS = {
    "n": "axes ax axis\nmice mouse\n",
    "v": "went go\n",
    "a": "better good\n",
    "r": "better well\n",
}


def build(folder: Path, counts: str | None = "index.sense") -> Path:
    """Write the database; `counts` names the file for sense counts, or is None for a database without."""
    folder.mkdir(parents=True, exist_ok=True)
    offsets = _offsets()
    for letter, name in FILE_NAMES.items():
        synsets = [synset for synset in SYNSETS if synset.letter == letter]
        data = "".join(_data_line(synset, offsets) for synset in synsets)
        lemmas = sorted({lemma for synset in synsets for lemma in synset.lemmas})
        index = "".join(_index_line(lemma, synsets, offsets) for lemma in lemmas)
        (folder / f"data.{name}").write_bytes((HEADER + data).encode())
        (folder / f"index.{name}").write_bytes((HEADER + index).encode())
        (folder / f"{name}.exc").write_bytes(EXCEPTIONS[letter].encode())
    if counts == "index.sense":
        (folder / counts).write_bytes("".join(sorted(_index_sense_lines(offsets))).encode())
    elif counts == "cntlist.rev":
        (folder / counts).write_bytes("".join(sorted(_cntlist_lines())).encode())
    return folder


def _offsets() -> dict[str, str]:
    """A line is as long with these offsets as with any others, so they can be found by writing it with zeros."""
    zeros = {synset.name: "0" * 8 for synset in SYNSETS}
    position = dict.fromkeys(FILE_NAMES, len(HEADER.encode()))
    offsets = {}
    for synset in SYNSETS:
        offsets[synset.name] = f"{position[synset.letter]:08}"
        position[synset.letter] += len(_data_line(synset, zeros).encode())
    return offsets


def _data_line(synset: MiniSynset, offsets: dict[str, str]) -> str:
    words = [f"{word} {synset.word_id:x}" for word in synset.words.split()]
    names = synset.pointers.split()
    pointers = [
        f"{symbol} {offsets[target]} {_by_name(target).letter} {'0101' if symbol == '!' else '0000'}"
        for symbol, target in zip(names[::2], names[1::2], strict=True)
    ]
    frames = ["02 + 02 00 + 08 01"] if synset.kind == "v" else []
    head = [offsets[synset.name], "05", synset.kind, f"{len(words):02x}"]
    return " ".join([*head, *words, f"{len(pointers):03}", *pointers, *frames, "|", synset.gloss]) + "  \n"


def _index_line(lemma: str, synsets: list[MiniSynset], offsets: dict[str, str]) -> str:
    found = [synset for synset in synsets if lemma in synset.lemmas]
    symbols = sorted({symbol for synset in found for symbol in synset.pointers.split()[::2]})
    tagged = sum(synset.count > 0 for synset in found)
    head = [lemma, found[0].letter, str(len(found)), str(len(symbols)), *symbols, str(len(found)), str(tagged)]
    return " ".join([*head, *(offsets[synset.name] for synset in found)]) + "  \n"


def _by_name(name: str) -> MiniSynset:
    return next(synset for synset in SYNSETS if synset.name == name)


def _sense_key(lemma: str, synset: MiniSynset, with_marker: bool) -> str:
    head = ":"
    if synset.kind == "s":
        centre = _by_name(synset.pointers.split()[1])
        word = centre.words.split()[0]
        head = f"{word if with_marker else word.partition('(')[0]}:{centre.word_id:02}"
    return f"{lemma}%{KIND_NUMBERS[synset.kind]}:05:{synset.word_id:02}:{head}"


def _index_sense_lines(offsets: dict[str, str]) -> list[str]:
    return [
        f"{_sense_key(lemma, synset, with_marker=False)} {offsets[synset.name]} 1 {synset.count}\n"
        for synset in SYNSETS
        for lemma in synset.lemmas
    ]


def _cntlist_lines() -> list[str]:
    """As in WordNet 3.0: with markers in the keys, and with keys and sense numbers of another version."""
    lines = [
        f"{_sense_key(lemma, synset, with_marker=True)} 99 {synset.count}\n"
        for synset in SYNSETS
        for lemma in synset.lemmas
        if synset.count
    ]
    return [*lines, "dog%1:27:03:: 1 77\n"]
