"""A run from start to end: a model is trained in a folder, which then holds a checkpoint and the record of the run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from groc import checkpoint
from groc.compute import Group, Policy
from groc.config import Config
from groc.corpus import Corpus
from groc.errors import GrocError
from groc.files import NoRoom, alone, is_temporary
from groc.files import check_folder as check_writable
from groc.metrics import read_metrics
from groc.model import LanguageModel
from groc.progress import Progress
from groc.report import summarise
from groc.results import RESULT, write_result
from groc.signals import Interrupted, signal_of
from groc.training import Trainer

LOCK = "run.lock"
START = (checkpoint.CONFIG, checkpoint.VOCABULARY, checkpoint.LEXICON, checkpoint.CARD)
"""What is written of a run before its first state."""
LOST = ("by peer", "gloo/transport")
"""What gloo says of other processes in errors that have no type of their own."""
MAY_CHANGE = ("compute.", "training.epochs", "training.save_minutes", "corpus")
"""What may differ between a run and its resumption."""

Measure = Callable[[LanguageModel], dict[str, Any]]


class Busy(GrocError):
    """Another process is training in a run folder."""

    def __init__(self, folder: Path, what_to_do: str = "stop it, and then give the same command again") -> None:
        super().__init__(f"Another process is training in {folder}: wait for its end, or {what_to_do}.")
        self.folder = folder


class Begun(GrocError):
    """There is a run already in a folder in which one was to begin."""

    def __init__(
        self, folder: Path, what_to_do: str = "another process has trained there: give the same command again"
    ) -> None:
        super().__init__(f"{folder} is not empty: {what_to_do}.")
        self.folder = folder


def check_folder(config: Config, folder: Path, resume: bool) -> None:
    """Whether a run with these settings can begin, or go on, in the folder."""
    if folder.exists() and not folder.is_dir():
        raise GrocError(f"{folder} is a file, so no run can be kept there: choose another --out.")
    if not resume and _holds_something(folder):
        raise Begun(folder)
    if resume:
        _check_there(folder)
        _check_same(config, folder)


def check_start(config: Config, folder: Path, resume: bool, group: Group) -> None:
    """The same in all processes, and whether the first can write there, before it does."""
    check_folder(config, folder, resume)
    group.wait()  # else a late process takes what the first one has begun for another run
    if group.leads:
        check_writable(folder)


def with_own_settings(config: Config, folder: Path, given: Container[str], group: Group) -> Config:
    """Settings to go on with the run in a folder: those that may change are its own, unless they were given by name.
    Nobody who left one out asked for another."""
    _check_there(folder)
    now, own = config.flat(), checkpoint.load_config(folder).flat()
    kept = {
        key: value
        for key, value in own.items()
        if key.startswith(MAY_CHANGE) and key not in given and now[key] != value
    }
    if group.leads and (said := [f"{key}={value}" for key, value in kept.items() if key != "corpus"]):
        print(f"What is not given stays as the run in {folder} has it: {', '.join(said)}.", file=sys.stderr)
    return config.replace(kept)


def _check_there(folder: Path) -> None:
    if not _holds_something(folder):
        raise GrocError(
            f"There is no run in {folder} to go on with: leave out --resume, or name its folder with --out."
        )


def _holds_something(folder: Path) -> bool:
    """Whether there is more in it than the mark of a process that came to nothing."""
    return folder.is_dir() and any(path.name != LOCK for path in folder.iterdir())


def may_resume(folder: Path, group: Group) -> bool:
    """Whether a run in the folder can go on, for commands that see to it themselves. What is left of one that had not
    come to its first state, since it was killed or the disk was full, is removed, so that it can be begun anew."""
    if group.leads and not _has_state(folder) and _holds_something(folder):
        _check_begun(folder)  # before there is a lock in it
        with alone_in(folder):
            if not _has_state(folder):  # else another process came so far in the meantime
                _check_begun(folder)
                for path in folder.iterdir():
                    if path.name != LOCK:
                        path.unlink()
    group.wait()
    return _has_state(folder)


def _check_begun(folder: Path) -> None:
    """Whether there is nothing in it but what this program writes at the start of a run."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    own = {LOCK, *START, *(name for name in names if is_temporary(name, (*START, checkpoint.STATE)))}
    if not (names <= own and names & {LOCK, checkpoint.VOCABULARY}):
        raise GrocError(f"{folder} holds no state to go on from: delete it, or move it elsewhere, and run again.")


@contextmanager
def saying_how_to_go_on(folder: Path, group: Group, always: bool = False) -> Iterator[None]:
    """For commands with --resume. Where a run is stopped by Ctrl-C or a full disk, say what is left of it. If there is
    nothing yet, that is left to the caller. `always` is for a command that goes on even if there is no state yet."""

    def can_go_on() -> bool:
        return always or _has_state(folder)

    try:
        yield
    except KeyboardInterrupt as stop:
        if not _holds_something(folder):
            raise
        if group.leads:
            go_on = f"Go on with the same command and --resume; what is done is in {folder}."
            anew = f"There is no state to go on from yet: delete {folder} and start again."
            print(f"Stopped. {go_on if can_go_on() else anew}", file=sys.stderr)
        raise Interrupted(signal_of(stop)) from None
    except Busy as error:
        go_on = "stop it and then go on with --resume; for another run choose another --out"
        raise Busy(error.folder, go_on) from None
    except Begun as error:
        raise Begun(error.folder, "add --resume to go on with that run, or choose another --out") from None
    except NoRoom as error:
        if not _holds_something(folder):
            raise
        go_on = f"go on with the same command and --resume; the last good state is in {folder}"
        anew = f"start again when you have deleted {folder}, which holds no state to go on from yet"
        raise NoRoom(error.path, go_on if can_go_on() else anew) from None
    except RuntimeError as error:
        if group.size == 1:
            raise
        if any(words in str(error) for words in LOST):
            raise GrocError("Another of the processes that train together has ended: see what that one says.") from None
        if isinstance(error, torch.distributed.DistError):  # as NCCL says it, but a wrong set-up, too
            why = " ".join(str(error).partition("Exception raised from")[0].split())
            raise GrocError(
                "Another of the processes that train together has ended, or cannot be reached: see what the "
                f"others say. This one heard: {why}"
            ) from None
        raise


def _has_state(folder: Path) -> bool:
    return (folder / checkpoint.STATE).is_file()


def evaluation_command(run: str, corpus: str) -> str:
    """What to say next with a new run: its test text is read, or the valid one where there is none."""
    split = "" if Corpus.find(Path(corpus), "test") else " --split valid"
    return f"groc eval {shlex.quote(run)} {shlex.quote(corpus)}{split}"


def train_model(
    model: LanguageModel,
    config: Config,
    folder: Path,
    policy: Policy,
    group: Group,
    *,
    resume: bool,
    quiet: bool = False,
    trainer_class: type[Trainer] = Trainer,
    sources: Mapping[str, str] = MappingProxyType({}),
    measure: Measure = lambda model: {},
) -> dict[str, Any]:
    """Train a model on the corpus of its settings and leave a checkpoint with a record of the run.

    The figures of the run come back (from the first of several processes), with those that `measure` takes of the
    model with the kept weights. `sources` is what the run depends on besides settings, texts and lexicon: a hash of
    each, by its name.
    """
    corpus = Corpus(config.corpus)
    train = corpus.text("train")
    torch.manual_seed(config.training.seed + group.rank)  # start values alike everywhere, dropout not
    trainer = trainer_class(
        model, config, train.ids(model.vocabulary), corpus.text("valid"), folder, policy, group, quiet
    )
    trainer.position.sources |= sources
    with alone_in(folder) if group.leads else nullcontext():
        if group.leads:
            check_folder(config, folder, resume)  # another process may have trained there in the meantime
        if resume:
            trainer.restore()
            if not trainer.quiet:
                _tell_of_other_epochs(trainer)
            if group.leads and config != checkpoint.load_config(folder):  # what it goes on with the next time
                checkpoint.save_facts(folder, model, config, checkpoint.load_facts(folder))
        elif group.leads:
            checkpoint.save_start(folder, model, config)
        group.wait()
        if not resume:
            trainer.save_state()  # so that there is always something to go on from
        if not trainer.quiet:
            print(
                f"{config.name}: {model.parameter_count():,} parameters, {len(model.vocabulary):,} words, "
                f"{len(train):,} training tokens, {trainer.policy.describe()}",
                file=sys.stderr,
            )
        trainer.run()
        figures = _finish(trainer, folder, measure) if group.leads else {}
        group.wait()
        return figures


def alone_in(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes from training in a run folder; who comes second is told that it is busy."""
    return alone(folder / LOCK, Busy(folder))


def _finish(trainer: Trainer, folder: Path, measure: Measure) -> dict[str, Any]:
    """The strict valid figure of the kept weights, written into the checkpoint and the record of the run."""
    model, config = trainer.model, trainer.config
    model.load_state_dict(checkpoint.read_weights(folder / checkpoint.WEIGHTS))
    progress = Progress("strict valid perplexity", len(trainer.valid_ids), shown=not trainer.quiet)
    summary = summarise(trainer.score_valid(streams=1, progress=progress))
    progress.close()
    figures = {
        "valid_perplexity": summary["perplexity"],
        "valid_tokens": summary["tokens"],
        "best_epoch": trainer.position.best_epoch,
        "epochs": trainer.position.epoch,
        "steps": trainer.position.step,
        "training_seconds": round(trainer.position.seconds, 1),
        "parameters": model.parameter_count(),
        "vocabulary_parameters": model.vocabulary_parameter_count(),
        **({"replanned": trainer.position.replanned} if trainer.position.replanned else {}),
        **measure(model),
    }
    checkpoint.save_facts(folder, model, config, figures)
    write_result(folder / RESULT, config, trainer.policy, figures, read_metrics(folder))
    return figures


def _tell_of_other_epochs(trainer: Trainer) -> None:
    before, now = checkpoint.load_config(trainer.folder).training.epochs, trainer.options.epochs
    changes = trainer.position.replanned
    if now != before:
        epochs, rate = _epochs(now), ""
        if trainer.schedule.follows_length:
            recorded = ", and its record will say so" if changes else ""
            rate = f": its learning rate follows the new length{recorded}"
        said = f"The run in {trainer.folder} now has {epochs} where it had {before} before{rate}."
        print(said, file=sys.stderr)
    elif changes:  # a run that was always to have so many has another curve
        last = changes[-1]
        print(
            f"The learning rate of the run in {trainer.folder} followed a length of {_epochs(last['epochs_before'])} "
            f"up to step {last['after_step']:,}, and not that of {_epochs(now)} throughout: its record will say so.",
            file=sys.stderr,
        )


def _epochs(number: int) -> str:
    return "1 epoch" if number == 1 else f"{number} epochs"


def _check_same(config: Config, folder: Path) -> None:
    flat_before, flat_now = checkpoint.load_config(folder).flat(), config.flat()
    for key, value in flat_now.items():
        if flat_before[key] != value and not key.startswith(MAY_CHANGE):
            raise GrocError(
                f"{folder} was started with {key}={flat_before[key]}, not {value}: resume with the same settings, "
                "or choose another --out."
            )
