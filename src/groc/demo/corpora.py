"""Two corpora that need nothing but WordNet and Python: usage examples, and the docstrings of the standard library."""

from __future__ import annotations

import ast
import random
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from groc.errors import GrocError
from groc.files import write_text
from groc.lexicon import WordNet
from groc.progress import Progress
from groc.text import tokeniser

HELD_OUT = 0.05
"""The share of the usage examples that is valid text, and the share that is test text."""
AT_LEAST = 4
"""An example is used if each of its words occurs at least so often in all examples. Half of their 34,000 words occur
once; with those the softmax alone would take a laptop longer than the whole demo may."""
AWAY_TOKENS = 50_000
"""About so many tokens of docstrings: enough for steady figures, and scored in seconds."""
LEFT_OUT = frozenset("test tests idlelib lib2to3 turtledemo pydoc_data site-packages dist-packages".split())
"""Folders in the standard library's that hold tests, applications or other people's packages."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z])")
_PARAGRAPH_START = re.compile(r"\s*(?:[-*+•]|\d+[.)]|[\w.]+\s*(?:--|:\s|\s{3,}))")
_DOCTEST = re.compile(r"\s*(?:>>>|\.\.\.)")


def write_home(wordnet: WordNet, folder: Path, seed: int, at_least: int = AT_LEAST) -> None:
    """WordNet's usage examples, as far as they are made of common words, as train, valid and test text."""
    write_common(usage_examples(wordnet), folder, seed, at_least)


def write_common(lines: Iterable[str], folder: Path, seed: int, at_least: int = AT_LEAST) -> None:
    """The lines whose words all occur at least so often, each once, in random order, as train, valid and test text.

    Examples come in the order of the synsets, neighbours alike, so they are shuffled; a line that occurs twice counts
    once, or a test line could be a training line.
    """
    distinct = list(dict.fromkeys(lines))
    counts = Counter(word for line in distinct for word in line.split())
    common = [line for line in distinct if all(counts[word] >= at_least for word in line.split())]
    random.Random(seed).shuffle(common)
    held_out = max(1, round(HELD_OUT * len(common)))
    if len(common) <= 2 * held_out:
        raise GrocError(f"There are only {len(common)} usage examples of common words: use WordNet 3.0.")
    _write(folder / "test.txt", common[:held_out])
    _write(folder / "valid.txt", common[held_out : 2 * held_out])
    _write(folder / "train.txt", common[2 * held_out :])


def write_away(folder: Path, seed: int, library: Path | None = None) -> None:
    """Docstrings of the standard library (or of another folder with Python files) in random order, as test text."""
    lines: list[str] = []
    tokens = 0
    for line in library_prose(seed, library):
        lines.append(line)
        tokens += line.count(" ") + 2  # one more than spaces, and the line's end
        if tokens >= AWAY_TOKENS:
            break
    _write(folder / "test.txt", lines)


def usage_examples(wordnet: WordNet) -> Iterator[str]:
    """WordNet's usage examples, tokenised and lower-cased."""
    examples = list(wordnet.examples())
    progress = Progress("tokenising usage examples", len(examples))
    yield from _tokenised(examples, progress)
    progress.close()


def library_prose(seed: int, library: Path | None = None) -> Iterator[str]:
    """The sentences of the standard library's docstrings, tokenised and lower-cased, one docstring after the other in
    random order."""
    library = library or Path(sysconfig.get_paths()["stdlib"])
    files = list(python_files(library))
    progress = Progress("reading docstrings", len(files))
    found: dict[str, None] = {}  # in order, each once: what is inherited is often copied
    for number, path in enumerate(files, 1):
        found |= dict.fromkeys(docstrings(path))
        progress(number)
    progress.close()
    if not found:
        raise GrocError(f"There are no docstrings in {library}: the demo needs Python's standard library as source.")
    sample = random.Random(seed).sample(list(found), len(found))
    yield from _tokenised(sentence for docstring in sample for sentence in sentences(docstring))


def python_files(library: Path) -> Iterator[Path]:
    """The Python files of a library, in an order that is the same on every machine."""
    for path in sorted(library.rglob("*.py")):
        if LEFT_OUT.isdisjoint(path.relative_to(library).parts):
            yield path


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions. A file that cannot be parsed has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own odd escapes are not our user's business
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def sentences(docstring: str) -> Iterator[str]:
    """The sentences of a docstring: prose alone, without doctests, signatures and drawings."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if any(_DOCTEST.match(line) for line in paragraph.splitlines()):
            continue
        blocks: list[str] = []
        for line in paragraph.splitlines():
            if not blocks or _PARAGRAPH_START.match(line):
                blocks.append(line)
            else:
                blocks[-1] += " " + line.strip()
        for block in blocks:
            yield from (sentence for sentence in _SENTENCE_END.split(block.strip()) if _is_prose(sentence))


def _is_prose(sentence: str) -> bool:
    """At least three words, and most of all characters that are not spaces are letters."""
    letters = sum(character.isalpha() for character in sentence)
    solid = sum(not character.isspace() for character in sentence)
    return len(sentence.split()) >= 3 and letters >= 0.8 * solid


def _tokenised(lines: Iterable[str], progress: Callable[[int], None] = lambda done: None) -> Iterator[str]:
    tokenise = tokeniser(lower=True)
    for number, line in enumerate(lines, 1):
        if tokens := tokenise(line):
            yield " ".join(tokens)
        progress(number)


def _write(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
