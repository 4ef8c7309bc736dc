"""Writing so that a failure leaves what was there: into a temporary neighbour first, then one rename."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from groc.errors import GrocError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoRoom(GrocError):
    """The disk is full."""

    def __init__(self, path: Path, what_to_do: str = "run again; what was there is unchanged") -> None:
        super().__init__(f"No room on the disk to write {path}: free some space and {what_to_do}.")
        self.path = path


Writer = Callable[[Path], None]
"""Puts a file's content into the (temporary) path it is given."""


def write_atomically(path: Path, write: Writer) -> None:
    """Replace one file; on any failure it stays as it was."""
    write_together({path: write})


def write_together(writers: Mapping[Path, Writer]) -> None:
    """Replace several files. All are written before the first is replaced, so a failure leaves all as they were."""
    temporaries = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in writers}
    try:
        for path, temporary in temporaries.items():
            with explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                writers[path](temporary)
                temporary.chmod(0o666 & ~_umask())  # some libraries write files that their owner alone may read
                _flush(temporary)
        for path, temporary in temporaries.items():
            with explained(path):
                os.replace(temporary, path)
    finally:
        for temporary in temporaries.values():
            with suppress(OSError):
                temporary.unlink()


def is_temporary(name: str, of: Collection[str]) -> bool:
    """Whether a file is what a process that was killed left of writing one of these."""
    found = re.fullmatch(r"\.(.+)\.\d+\.tmp", name)
    return found is not None and found[1] in of


def text_writer(text: str) -> Writer:
    def write(temporary: Path) -> None:
        temporary.write_bytes(text.encode())

    return write


def write_text(path: Path, text: str) -> None:
    write_atomically(path, text_writer(text))


def check_folder(folder: Path) -> None:
    """Whether files can be written there: better known before hours of work than after. One is, and nothing is left of
    it: the system tells root that it may write anywhere, even in /proc."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))  # a link may lead nowhere
    if not os.path.isdir(there):
        raise GrocError(f"{there} is no folder that can be written to: choose another one.")
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        if error.errno in FULL:
            raise NoRoom(folder) from None
        raise GrocError(
            f"{there} is no folder that can be written to: make it writable, or choose another one."
        ) from None


def check_file(path: Path) -> None:
    """The same of one file."""
    if os.path.isdir(path):
        raise GrocError(f"{path} is a folder: name a file.")
    check_folder(path.parent)


def append_line(path: Path, keep: int, line: str) -> int:
    """Cut a file to its first `keep` bytes and add a line. Its new size comes back."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    cut(path, keep)
    with explained(path), open(path, "ab") as handle:
        handle.write(line.encode() + b"\n")
        return handle.tell()


def cut(path: Path, keep: int) -> None:
    """Cut a file to its first `keep` bytes, if it is there and has more."""
    with explained(path):
        if path.exists() and path.stat().st_size > keep:
            os.truncate(path, keep)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """A fresh folder that becomes `target` when the block ends well. If another process was first, its result stays."""
    with explained(target):
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


@contextmanager
def alone(lock: Path, otherwise: GrocError) -> Iterator[None]:
    """Keep other processes out of a folder by a lock on a file in it; who comes second gets the error `otherwise`.

    The system lifts the lock with the process, however that ends. The file stays: if it were removed, two later
    processes could each hold a lock on a file of that name.
    """
    with explained(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = open(lock, "ab")  # noqa: SIM115
    with handle:
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise otherwise from None
        except OSError:
            pass  # a file system without locks
        yield


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Let one process after the other change a folder, by a lock on the folder itself, so that no file is left. Who has
    it must not ask for it again: that would wait for ever."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if fcntl is not None:
            with explained(folder):
                handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _umask() -> int:
    mask = os.umask(0)  # the only way to ask for it is to set it
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system says about writing a file into a sentence for the user."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise NoRoom(path) from None
        in_the_way = next(filter(os.path.isfile, path.parents), None)  # unlike Path.is_file it takes any name
        advice = f"{in_the_way} is a file" if in_the_way else "choose another folder, or check its permissions"
        raise GrocError(f"{path} cannot be written ({error.strerror or error}): {advice}.") from None
