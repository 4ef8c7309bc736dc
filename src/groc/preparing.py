"""From raw text to a corpus: lines are shuffled, tokenised and dealt out to train, valid and test text.

A line's place is a hash of the line and a seed. So the shuffle does not depend on the order in which the lines stand,
and a line that stands twice counts once: it cannot be in the training and in the test text.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path

from groc.corpus import LONGEST_LINE, SPLITS, raw_lines
from groc.errors import GrocError
from groc.files import Writer, write_together
from groc.text import SEPARATED, tokeniser

YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")

Tokenise = Callable[[bytes], list[str]]


def find_sources(sources: Sequence[Path]) -> dict[str, Path]:
    """The files to be prepared, by the names of their sets: a year that a file's name holds, or the name itself."""
    found: dict[str, Path] = {}
    for source in sources:
        if not source.exists():
            raise GrocError(f"There is no file or folder {source}: give raw text, or a folder with one file a year.")
        if not source.is_dir() and not source.is_file():
            raise GrocError(
                f"{source} is a pipe or a device: give a file of raw text (.gz and .xz are read as they are)."
            )
        for path in files_in(source) if source.is_dir() else [source]:
            year = YEAR.search(path.name)
            name = year[0] if year else re.sub(r"(\.txt)?(\.gz|\.xz)?$", "", path.name)
            if name in found:
                raise GrocError(
                    f"{found[name]} and {path} would both become the set {name}: give them one at a time, with --name."
                )
            found[name] = path
    if not found:
        raise GrocError(f"There is no file in {sources[0]}: give a folder with one file of raw text a year.")
    return found


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def prepare(source: Path, folder: Path, budgets: Mapping[str, int], tokenise: Tokenise, seed: int | None = 1) -> None:
    """Make a corpus folder of a file. Each text gets lines until it has as many tokens as its budget says, with the
    `<eos>` of each line; one with a budget of 0 is not written. The seed shuffles; None leaves lines in their order."""
    try:
        source.open("rb").close()
    except OSError as error:
        raise GrocError(f"{source} cannot be read ({error.strerror}): check its permissions.") from None
    lines = raw_lines(source)
    texts: dict[str, list[str]] = {split: [] for split in SPLITS if budgets[split]}
    chosen = in_order(lines, sys.maxsize, tokenise) if seed is None else shuffled(lines, budgets, tokenise, seed)
    for split, line in deal(chosen, budgets):
        texts[split].append(line)
    if empty := [split for split, text in texts.items() if not text]:
        tokens = sum(size(line) for text in texts.values() for line in text)
        if not tokens:
            raise GrocError(f"{source} holds no words: give a file with text.")
        if (different := sum(map(len, texts.values()))) < len(texts):
            raise GrocError(
                f"{source} has only {different} different lines (nothing is left for {empty[0]}.txt), and each text "
                "needs one of its own: give more text, or 0 tokens with --train, --valid or --test for no such text."
            )
        smaller = {split: max(tokens * (8 if split == "train" else 1) // 10, 1) for split in texts}
        if all(number >= budgets[split] for split, number in smaller.items()):
            raise GrocError(
                f"{source} has too little text ({tokens:,} tokens in {different} lines), nothing is left for "
                f"{empty[0]}.txt: a text ends with the line that reaches its number, so give more or shorter lines."
            )
        raise GrocError(
            f"{source} has too little text ({tokens:,} tokens), nothing is left for {empty[0]}.txt: give smaller "
            f"numbers of tokens, such as {' '.join(f'--{split} {number}' for split, number in smaller.items())} (0: no "
            "such text)."
        )
    write_together({folder / f"{split}.txt": lines_writer(text) for split, text in texts.items()})


def lines_writer(lines: Iterable[str]) -> Writer:
    def write(temporary: Path) -> None:
        with open(temporary, "wb") as handle:
            handle.writelines(line.encode() + b"\n" for line in lines)

    return write


def line_tokeniser(source: Path, *, lower: bool, tokenised: bool, language: str = "en") -> Tokenise:
    """From a raw line to its tokens: by Moses's rules, or at its ASCII white space if it is tokenised already."""

    def at_spaces(line: str) -> list[str]:
        return SEPARATED.findall(line.lower() if lower else line)

    split = at_spaces if tokenised else tokeniser(language, lower)

    def tokenise(raw: bytes) -> list[str]:
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode()[-40:]
            raise GrocError(
                f"{source} is not UTF-8 (byte {error.start + 1} of a line, behind {before!r}): convert it, for example "
                "with iconv -t UTF-8."
            ) from None
        if len(words := split(line)) > LONGEST_LINE:
            raise GrocError(
                f"{source} has a line of {len(words):,} words ({line[:40]!r} ...; at most {LONGEST_LINE:,}): put one "
                "sentence or paragraph on a line."
            )
        return words

    return tokenise


def shuffled(lines: Iterable[bytes], budgets: Mapping[str, int], tokenise: Tokenise, seed: int) -> list[str]:
    """The first lines of the shuffled text, tokenised: all that the budgets take, and few more.

    One pass. No more than these lines are ever held, and only lines that may be among them are tokenised.
    """
    heap: list[tuple[int, str]] = []  # the last of the lines first: a line's negative place, and its tokens
    places: set[int] = set()
    tokens, salt = 0, str(seed).encode()
    # Each text may go beyond its budget, by less than a line. A line put between others only makes texts end sooner, so
    # whatever is too late once is too late for ever, even if the longest line is yet to come.
    budget, texts, longest = sum(budgets.values()), sum(map(bool, budgets.values())), 0

    def enough(tokens: int) -> bool:
        return tokens >= budget + (texts - 1) * longest  # behind the last nothing comes

    for line in lines:
        place = int.from_bytes(hashlib.blake2b(line.strip(), digest_size=8, key=salt).digest(), "big")
        if place in places or (enough(tokens) and place > -heap[0][0]):
            continue
        if words := tokenise(line):
            heappush(heap, (-place, " ".join(words)))
            places.add(place)
            tokens += len(words) + 1
            longest = max(longest, len(words) + 1)
            while enough(tokens - size(heap[0][1])):
                last, text = heappop(heap)
                places.remove(-last)
                tokens -= size(text)
    return [text for _, text in sorted(heap, reverse=True)]


def in_order(lines: Iterable[bytes], budget: int, tokenise: Tokenise) -> Iterator[str]:
    """The first lines of the text as it stands, as many as the budget takes, tokenised."""
    tokens = 0
    for line in lines:
        if tokens >= budget:
            break
        if words := tokenise(line):
            yield " ".join(words)
            tokens += len(words) + 1


def deal(lines: Iterable[str], budgets: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Which text each line belongs to. A text ends with the line that reaches its budget, and there the next begins;
    nothing is read that belongs to none."""
    rest = iter(lines)
    for split in SPLITS:
        tokens = 0
        while tokens < budgets[split] and (line := next(rest, None)) is not None:
            yield split, line
            tokens += size(line)


def size(line: str) -> int:
    """The tokens of a line whose words are separated by single spaces, with its `<eos>`."""
    return line.count(" ") + 2  # one word more than spaces, and the line's end
