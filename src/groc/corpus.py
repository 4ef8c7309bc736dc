"""Corpora: folders with train, valid and test text. A text is read once and kept as memory-mapped codes."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import lzma
import shutil
import zlib
from collections import defaultdict
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from groc.cache import cache_folder
from groc.errors import GrocError
from groc.files import replace_folder
from groc.progress import Progress
from groc.vocabulary import END, UNKNOWN, Vocabulary

SPLITS = ("train", "valid", "test")
ENDINGS = (".txt", ".txt.gz", ".txt.xz")
LONGEST_LINE = 100_000
"""Words. A longer line is a file that lost its line ends, and would be a stream without a single <eos>."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Text:
    """One text: its distinct words, and for each token (with `<eos>` at each line's end) which of them it is.

    The codes belong to the text, not to a vocabulary, so one cached file serves every vocabulary.
    """

    name: str
    types: tuple[str, ...]
    codes: Ids

    @cached_property
    def type_counts(self) -> dict[str, int]:
        counts = np.bincount(self.codes, minlength=len(self.types)).tolist()
        return dict(zip(self.types, counts, strict=True))

    @cached_property
    def digest(self) -> str:
        """The same for the same words, however the file is packed."""
        hasher = hashlib.sha256("\n".join(self.types).encode())
        hasher.update(self.codes.data)
        return hasher.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.codes)

    def ids(self, vocabulary: Vocabulary) -> Ids:
        """The text as ids of a vocabulary; words it does not have become `<unk>` if it has that, else an error."""
        fallback = vocabulary.index.get(UNKNOWN, -1)
        mapping = np.array([vocabulary.index.get(word, fallback) for word in self.types], np.int32)
        ids: Ids = mapping[self.codes]
        if fallback < 0 and (missing := int((ids < 0).sum())):
            raise GrocError(
                f"{missing:,} of {len(ids):,} tokens of {self.name} are not in the vocabulary, which has no {UNKNOWN}: "
                "use the union of both vocabularies (--vocabulary union)."
            )
        return ids

    def outside(self, vocabulary: Container[str]) -> int:
        """How many tokens are not among these words."""
        return sum(count for word, count in self.type_counts.items() if word not in vocabulary)


class Corpus:
    """A folder with train, valid and test text (.txt, .txt.gz or .txt.xz), one sentence or paragraph a line."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise GrocError(
                f"There is no corpus folder {self.folder}: give a folder that holds train.txt and valid.txt, and "
                "test.txt where a test text is to be read (.gz and .xz are read too)."
            )

    @staticmethod
    def find(folder: Path, split: str) -> Path | None:
        """The file of a text in a folder, if both are there."""
        return next((path for ending in ENDINGS if (path := folder / (split + ending)).is_file()), None)

    def path(self, split: str) -> Path:
        if path := self.find(self.folder, split):
            return path
        raise GrocError(
            f"{self.folder} has no file with a {split} text: add {split}.txt (or {split}.txt.gz, {split}.txt.xz), "
            "one sentence a line with spaces between words."
        )

    def text(self, split: str) -> Text:
        return read_text(self.path(split))

    def vocabulary(self) -> Vocabulary:
        """The words of the training text, the most frequent first."""
        return Vocabulary.from_counts(self.text("train").type_counts)


def read_text(path: Path) -> Text:
    """Read a text, from the cache if these very bytes were read before."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise GrocError(f"{path} cannot be read ({error.strerror}): check the path.") from None
    cached = cache_folder() / "texts" / digest
    if (text := _read_cached(path, cached)) is not None:
        return text
    shutil.rmtree(cached, ignore_errors=True)  # if it is there, it is damaged
    types, codes = _parse(path)
    with suppress(GrocError), replace_folder(cached) as folder:  # a cache that cannot be written is only slower
        np.save(folder / "codes.npy", codes)
        (folder / "types.json").write_text(json.dumps(types, ensure_ascii=False), encoding="utf-8")
    return _read_cached(path, cached) or Text(str(path), tuple(types), codes)


def _read_cached(path: Path, cached: Path) -> Text | None:
    try:
        types = json.loads((cached / "types.json").read_text(encoding="utf-8"))
        return Text(str(path), tuple(types), np.load(cached / "codes.npy", mmap_mode="r"))
    except (OSError, ValueError, EOFError):
        return None  # not there, or damaged: it is only a cache


def _parse(path: Path) -> tuple[list[str], Ids]:
    # Bytes are split, not characters: only ASCII white space separates tokens, a no-break space stays in its word.
    index: defaultdict[bytes, int] = defaultdict(lambda: len(index))
    end = END.encode()
    codes: list[npt.NDArray[np.int32]] = []
    for number, line in enumerate(raw_lines(path), 1):
        tokens = line.split()
        if len(tokens) > LONGEST_LINE:
            raise GrocError(
                f"{path}, line {number} has {len(tokens):,} words (at most {LONGEST_LINE:,}): "
                "put one sentence or paragraph on a line."
            )
        known = len(index)
        codes.append(np.array([index[token] for token in (*tokens, end)], np.int32))
        if len(index) > known:
            _check_utf8(path, number, line)
    if len(index) <= 1:
        raise GrocError(f"{path} holds no words: a split must have at least one line of text.")
    return [word.decode() for word in index], np.concatenate(codes)


def _check_utf8(path: Path, number: int, line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise GrocError(
            f"{path}, line {number} is not UTF-8 (byte {error.start + 1} of the line): convert the file, "
            "for example with iconv -t UTF-8."
        ) from None


def raw_lines(path: Path) -> Iterator[bytes]:
    progress = Progress(f"reading {path.name}", path.stat().st_size)
    try:
        with open(path, "rb") as raw, _unpacked(raw, path.suffix) as handle:
            for number, line in enumerate(handle):
                yield line if number else line.removeprefix(codecs.BOM_UTF8)
                progress(raw.tell())
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise GrocError(f"{path} is damaged ({error}): fetch or compress it again.") from None
    progress.close()


def _unpacked(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(raw))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.open(raw))
    return raw
