"""Writing so that a failure leaves what was there: into a temporary neighbour first, then one rename."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from groc.errors import GrocError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Replace `path` by what `write` puts into the temporary file it is given; on any failure nothing changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _explained(path):
            write(temporary)
            _flush(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(text.encode())

    write_atomically(path, write)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """A fresh folder that becomes `target` when the block ends well. If another process was first, its result stays."""
    with _explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            yield temporary
            try:
                os.rename(temporary, target)
            except OSError:
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _flush(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise GrocError(
                f"No room on the disk to write {path}: free some space and run again; what was there is unchanged."
            ) from None
        raise GrocError(
            f"{path} cannot be written ({error.strerror or error}): check the folder's permissions."
        ) from None
