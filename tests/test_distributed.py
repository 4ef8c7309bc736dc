"""Several processes under torchrun do what one does."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import as_pairs, tiny_settings

from groc import Glossary, checkpoint
from groc.building import build
from groc.cli import main
from groc.compute import Group
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.running import saying_how_to_go_on
from groc.sharing import PartOfForms

NO_DROPOUT = {
    "output.dropout": 0.0,
    "output.bias_dropout": 0.0,
    "prefix.input_dropout": 0.0,
    "prefix.hidden_dropout": 0.0,
    "prefix.output_dropout": 0.0,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "groc with sparse updates": (
        "groc",
        {
            "training.full_updates": 0.5,
            "training.random_unroll": True,
            "training.average": 0.9,
            "training.rotate_streams": True,
        },
    ),
    "groc with characters": ("groc", {"surface.kind": "cnn", "forms.centred": True, "training.seed": 20261116181600}),
    "convolutional": ("convolutional", {}),
    "tied": ("tied", {"training.activation": 2.0, "training.temporal": 1.0}),
}


@pytest.fixture(params=CASES)
def arguments(request: pytest.FixtureRequest, corpus_folder: Path, glossary_file: Path) -> list[str]:
    kind, changes = CASES[request.param]
    settings = {**tiny_settings(kind), **NO_DROPOUT, "forms.lexicon": str(glossary_file), **changes}
    return ["train", "tiny", *as_pairs(settings), "--corpus", str(corpus_folder)]


def curve(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / checkpoint.METRICS).read_text().splitlines()]


def test_two_processes_give_the_loss_of_one_with_the_same_total_batch(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "--out", str(tmp_path / "one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "groc"]
    done = subprocess.run(
        [*launcher, *arguments, "--out", str(tmp_path / "two"), "--json"], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == len(two) == 2
    for row, other in zip(one, two, strict=True):
        for key in ("epoch", "step", "valid_streams"):
            assert other[key] == row[key]
        for key in ("train_loss", "valid_loss", "train_perplexity", "valid_perplexity", "rate"):
            assert other[key] == pytest.approx(row[key], rel=1e-5), key
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["run"] == str(tmp_path / "two"), "one process speaks for all"


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1)])
def test_a_run_goes_on_with_another_number_of_processes(
    numbers: tuple[int, int], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without dropout as if there had been one all the time; and it is said that draws differ."""
    settings = as_pairs({**tiny_settings("tied"), **NO_DROPOUT})

    def train(name: str, processes: int, *more: str) -> str:
        arguments = ["train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(tmp_path / name), *more]
        if processes == 1:
            assert main(arguments) == 0
            return capsys.readouterr().err
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
        done = subprocess.run([*launcher, "-m", "groc", *arguments], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stderr

    said = ""
    for name, processes in (("one", (1, 1)), ("other", numbers)):
        train(name, processes[0], "training.epochs=1")
        said = train(name, processes[1], "training.epochs=2", "--resume")
    assert f"made by {numbers[0]} process" in said
    assert f"goes on with {numbers[1]} process" in said
    losses = [[row["valid_loss"] for row in curve(tmp_path / name)] for name in ("one", "other")]
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_late_process_does_not_take_what_the_first_began_for_another_run(corpus_folder: Path, tmp_path: Path) -> None:
    script, run = tmp_path / "late.py", tmp_path / "run"
    script.write_text(LATE)
    arguments = ["train", "tiny", *as_pairs(tiny_settings("tied")), "--corpus", str(corpus_folder), "--out", str(run)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run([*launcher, *arguments], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert len(curve(run)) == 2


LATE = """
import os, sys, time
from groc import running

check_folder = running.check_folder

def late(*arguments):
    time.sleep(2 * int(os.environ["RANK"]))
    check_folder(*arguments)

running.check_folder = late
from groc.cli import main
sys.exit(main())
"""


def start_together(*commands: Sequence[str], **options: Any) -> list[subprocess.Popen[str]]:
    """Processes that train together as those of torchrun do, but nobody stops the others when one ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",  # where files may not be long, Python would keep what was cut off
        "WORLD_SIZE": str(len(commands)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "groc", *command],
            stderr=subprocess.PIPE,
            text=True,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            **options,
        )
        for rank, command in enumerate(commands)
    ]


def test_where_the_first_process_cannot_go_on_each_says_so_in_a_line(corpus_folder: Path, tmp_path: Path) -> None:
    settings = as_pairs(tiny_settings("tied"))
    command = ["train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(tmp_path / "run")]
    both = start_together(
        command, command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    )
    first, second = (process.communicate(timeout=180)[1] for process in both)
    assert [process.returncode for process in both] == [1, 1]
    assert "No room on the disk" in first.splitlines()[-1]
    said = "groc: Another of the processes that train together has ended: see what that one says."
    assert said in second.splitlines()
    assert "Traceback" not in first + second


def test_processes_that_train_together_stop_after_the_same_step(corpus_folder: Path, tmp_path: Path) -> None:
    """The second is told, and each would wait for ever for the others' share of what is saved if they did not."""
    settings = as_pairs({**tiny_settings("tied"), "training.epochs": 1_000_000, "training.stop_after": 0})
    command = ["train", "tiny", *settings, "--corpus", str(corpus_folder), "--out", str(tmp_path / "run")]
    both = start_together(command, command)
    while not (tmp_path / "run" / checkpoint.METRICS).exists():
        assert [process.poll() for process in both] == [None, None]
        time.sleep(0.01)
    both[1].terminate()
    try:
        said, nothing = (process.communicate(timeout=60)[1] for process in both)
    finally:
        for process in both:
            process.kill()
    assert "Stopped. Go on with the same command and --resume" in said.splitlines()[-1]
    assert "Stopped" not in nothing  # one process speaks for all
    assert [process.returncode for process in both] == [-signal.SIGINT, -signal.SIGTERM]
    _, metadata = checkpoint.read_tensors(tmp_path / "run" / checkpoint.STATE)
    stopped, epochs = json.loads(metadata["position"]), len(curve(tmp_path / "run"))
    assert (stopped["epoch"], stopped["step"] > 0) == (epochs, True)


def test_a_store_that_has_gone_is_another_process_that_has_ended(tmp_path: Path) -> None:
    """A real error of PyTorch's own kind, of which NCCL's are, too; gloo's are of no kind."""
    script = "import torch.distributed as d\ns = d.TCPStore('127.0.0.1', 0, None, True)\nprint(s.port), input()"
    group, alone = Group(), Group()
    group.size = 2
    with subprocess.Popen([sys.executable, "-u", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        store = dist.TCPStore("127.0.0.1", int(other.stdout.readline()))
        other.kill()
    with pytest.raises(dist.DistError), saying_how_to_go_on(tmp_path, alone):
        store.get("key")
    lost = pytest.raises(GrocError, match="has ended, or cannot be reached: see what the others say")
    with lost as error, saying_how_to_go_on(tmp_path, group):
        store.get("key")
    assert "\n" not in str(error.value)


def test_what_else_nccl_says_is_passed_on(tmp_path: Path) -> None:
    """It uses the same type for a wrong set-up, of which no other process has ended."""
    group = Group()
    group.size = 2
    said = "NCCL error in: NCCLUtils.cpp:94, invalid usage\nLast error:\nDuplicate GPU detected"
    passed_on = pytest.raises(GrocError, match=r"NCCL error .* Last error: Duplicate GPU detected")
    with passed_on, saying_how_to_go_on(tmp_path, group):
        raise dist.DistBackendError(said)


@pytest.mark.parametrize("processes", [3, 7])
def test_no_entry_is_counted_twice_where_words_do_not_divide(
    processes: int, corpus_folder: Path, glossary_file: Path
) -> None:
    """The last word stands in for words that the last process lacks; means over entries must not see that."""
    config = Config().replace({**tiny_settings("groc"), "forms.lexicon": str(glossary_file)})
    words = Corpus(str(corpus_folder)).vocabulary()
    last = next(word for word in Glossary.read(glossary_file) if word in words)
    words = words.without([last]).union([last])  # the last word has an entry
    forms = build(config, words).forms
    parts = []
    for rank in range(processes):
        group = Group()
        group.size, group.rank = processes, rank
        parts.append(PartOfForms(forms, group.share(forms.words), group))
    assert sum(part.words for part in parts) > forms.words
    for whole, *shares in zip(forms.entries_there, *(part.entries_there for part in parts), strict=True):
        assert whole[-1]
        assert torch.equal(torch.cat(shares)[: forms.words], whole)
        assert sum(int(share.sum()) for share in shares) == whole.sum()


def test_one_mask_for_all_words_in_all_processes(corpus_folder: Path, glossary_file: Path, tmp_path: Path) -> None:
    """Dropout of whole dimensions must not differ between the words that different processes encode."""
    settings = {**tiny_settings("groc"), "forms.lexicon": str(glossary_file), "output.dropout": 0.5}
    script = tmp_path / "masks.py"
    script.write_text(MASKS.format(settings=settings, corpus=str(corpus_folder), out=str(tmp_path)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run(launcher, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    (one, mine, strings), (two, others, _) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == two
    assert strings <= mine + others <= strings + 1, "each string is encoded once"
    dropped = [all(row[i] == 0 for row in one) for i in range(len(one[0]))]
    assert 0 < sum(dropped) < len(dropped)
    assert all(row[i] != 0 for row in one for i in range(len(dropped)) if not dropped[i])


MASKS = """
import json, torch
from pathlib import Path
from groc.building import build
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus
from groc.training import Trainer

config, corpus, group = Config().replace({settings}), Corpus({corpus!r}), Group()
torch.manual_seed(1)
model = build(config, corpus.vocabulary())
torch.manual_seed(group.rank)
ids = corpus.text("train").ids(model.vocabulary)
trainer = Trainer(model, config, ids, corpus.text("valid"), Path({out!r}), choose(config.compute), group, True)
model.train()
vectors, strings = trainer.encode().input.tolist(), trainer.shared.forms.strings
numbers = len(strings.scale), len(model.forms.strings.scale)
Path({out!r}, f"{{group.rank}}.json").write_text(json.dumps([vectors, *numbers]))
group.close()
"""
