"""Train several models at the same time on one machine, evaluate each on its test text, and gather their records.

    python tools/side_by_side.py JOBS.json --out FOLDER [--at-once 5] [--seconds 500]

JOBS.json: {"NAME": ["RECIPE", "VARIANT", "CORPUS", "key=value", ...], ...}; options of `groc eval` behind the settings
(["penn-best", "groc", "CORPUS", "--dynamic", "--gradients", "CORPUS"]) are for a second evaluation, with them; a job
that begins with "groc" is that command itself: ["groc", "paper", "cross-domain", "--run", ...].

A word-level model keeps a small part of a large GPU busy: it waits for one word after the other. NVIDIA's multi-process
service, which is started if the machine has it, lets the steps of several processes run between each other; eight tied
models on one H200 take 2.6 times less time than one after the other; with the LSTM in bfloat16 two at once do as much
as five (EXPERIMENTS.md). With `--at-once` the others wait in the order of the file until one has ended. When the time
is up, by Ctrl-C or a polite kill all runs are stopped with their state saved; the same command goes on with them, and
leaves alone those that were done. As with `groc train --resume`, a number of epochs that a job no longer has stays what
it was in its run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from groc.compute import Group
from groc.errors import GrocError
from groc.metrics import read_metrics
from groc.report import table
from groc.results import RESULT
from groc.running import may_resume

DONE, STOPPED, FAILED = "done", "stopped", "failed: see its log"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, help="runs at the same time (default: all)")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    try:
        jobs = read_jobs(options.jobs)
    except (OSError, ValueError) as error:
        parser.error(f"{options.jobs} is no file of jobs: {error}")
    if options.at_once is not None and options.at_once < 1:
        parser.error(f"--at-once is how many runs there are at the same time, not {options.at_once}")
    options.out.mkdir(parents=True, exist_ok=True)
    time_left = TimeLeft(options.seconds)
    pool = ThreadPoolExecutor(options.at_once or len(jobs))
    with multi_process_service(), time_left.ended_by_signals(), pool:
        states = list(pool.map(lambda name: run(jobs[name], options.out / name, time_left), jobs))
    rows = [[*summary(name, options.out / name, state), state] for name, state in zip(jobs, states, strict=True)]
    print(table(["run", "epochs", "train", "valid", "best", "test", "s an epoch", "state"], rows))
    sys.exit(128 + time_left.signal if time_left.signal else FAILED in states)


class TimeLeft:
    """For all runs together; a signal ends it, so that none is left behind and none of those that wait begins."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.signal = 0
        self.saving: list[subprocess.Popen[bytes]] = []
        """Those that save what they did when they are told to stop."""

    @property
    def is_over(self) -> bool:
        return bool(self.signal) or time.monotonic() >= self.end

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self.signal = number

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait_for(self, process: subprocess.Popen[bytes], saves: bool) -> int | None:
        """The exit status; None if time was over before, and the process was told to stop. One that does not save is
        told last: where processes share a GPU, the end of one amid its work can break the others' before they saved."""
        if saves:
            self.saving.append(process)
        while not self.is_over:
            try:
                return process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                pass
        while not saves and any(other.poll() is None for other in self.saving):
            time.sleep(0.1)
        process.terminate()
        process.wait()
        return None


def read_jobs(path: Path) -> dict[str, list[str]]:
    jobs = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(jobs, dict) or not jobs:
        raise ValueError("it must hold an object with at least one job")
    for name, job in jobs.items():
        if name != Path(name).name:
            raise ValueError(f"{name!r} cannot be the name of a folder")
        if not isinstance(job, list) or not all(isinstance(part, str) for part in job):
            raise ValueError(f"{name} is no list of texts")
        if len(job) < (2 if job[:1] == ["groc"] else 3):
            raise ValueError(f"{name} has too few parts")
    return jobs


@contextmanager
def multi_process_service() -> Iterator[None]:
    """NVIDIA's service that lets processes share a GPU, if it is there."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        subprocess.run([control, "-d"], check=True)
        try:
            yield
        finally:
            subprocess.run([control], input=b"quit\n", check=True)


def run(job: list[str], folder: Path, time_left: TimeLeft) -> str:
    """Train, or go on training, and then evaluate; what is said goes into a file beside the run. How it ended."""
    done = folder.with_name(f"{folder.name}.done")
    there = job[0] == "groc" or (folder / RESULT).exists()
    if there and done.exists() and done.read_text(encoding="utf-8") == json.dumps(job):
        return DONE
    with folder.with_name(f"{folder.name}.log").open("ab") as log:
        try:
            steps = commands(job, folder)
        except GrocError as error:
            log.write(f"{error}\n".encode())
            return FAILED
        for command in steps:
            if time_left.is_over:
                return STOPPED
            # A session of its own, or a terminal's Ctrl-C would reach it too, and two signals stop it without a save.
            process = subprocess.Popen(
                [sys.executable, "-m", "groc", *command], stdout=log, stderr=log, start_new_session=True
            )
            status = time_left.wait_for(process, saves=command[0] != "eval")
            if status is None:
                return STOPPED
            if status:
                return FAILED
    done.write_text(json.dumps(job), encoding="utf-8")
    return DONE


def commands(job: list[str], folder: Path) -> list[list[str]]:
    """What is done for a job, as arguments of `groc`."""
    if job[0] == "groc":
        return [job[1:]]
    recipe, variant, corpus, *rest = job
    first = next((place for place, part in enumerate(rest) if part.startswith("--")), len(rest))
    settings, options = rest[:first], rest[first:]
    resume = ["--resume"] if may_resume(folder, Group()) else []
    train = ["train", recipe, "--variant", variant, *settings, "--corpus", corpus, "--out", str(folder), *resume]
    evaluate = ["eval", str(folder), corpus, "--record"]
    return [train, evaluate, *([[*evaluate, *options]] if options else [])]


def summary(name: str, run: Path, state: str) -> list[str]:
    """What became of a run; nothing of one that failed, whose folder may hold another."""
    try:
        epochs = read_metrics(run)
    except GrocError as error:
        print(error, file=sys.stderr)
        epochs = []
    if not epochs or state == FAILED:
        return [name, "0", *[""] * 5]
    last = epochs[-1]
    return [
        name,
        shown(lambda: f"{last['epoch']:d}"),
        shown(lambda: f"{last['train_perplexity']:.1f}"),
        shown(lambda: f"{last['valid_perplexity']:.2f}"),
        shown(lambda: f"{min(epoch['valid_perplexity'] for epoch in epochs):.2f}"),
        shown(lambda: f"{first_test(run):.2f}"),
        shown(lambda: f"{last['seconds'] / last['epoch']:.1f}"),
    ]


def first_test(run: Path) -> float:
    evaluations = json.loads((run / RESULT).read_text(encoding="utf-8"))["evaluations"]
    tests: list[float] = [figures["perplexity"] for figures in evaluations.values() if "perplexity" in figures]
    return tests[0]


def shown(figure: Callable[[], str]) -> str:
    """A figure of a file that may be damaged: that costs its cell, and not the table, which comes after hours."""
    try:
        return figure()
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return ""


if __name__ == "__main__":
    main()
