"""The state of a training run on disk: written so that a stopped run goes on as if it had never been stopped."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from groc import checkpoint
from groc.compute import seed_apart
from groc.errors import GrocError
from groc.metrics import cut_metrics
from groc.nn.embeddings import Embeddings

if TYPE_CHECKING:
    from groc.corpus import Text
    from groc.model import LanguageModel
    from groc.training import Trainer


SHARE_OF_TIME = 0.05
"""What saves at the ends of epochs may take. An epoch on a GPU may be shorter than the writing of its state."""


class Saves:
    """When the state was last saved, how long that took, and so when to save it again."""

    def __init__(self) -> None:
        self._ended, self._took = time.monotonic(), 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._ended = time.monotonic()
        self._took = self._ended - started

    @property
    def seconds_ago(self) -> float:
        return time.monotonic() - self._ended

    def are_due(self, at_least_every: float) -> bool:
        """Whether it is time at the end of an epoch: in seconds, at least so often."""
        return self.seconds_ago >= min(at_least_every, self._took / SHARE_OF_TIME)


@dataclass
class Position:
    """Where training stands: everything but tensors."""

    text: str
    """A hash of the training text."""
    epoch: int = 0
    """Epochs finished."""
    at: int = 0
    """Words of each stream read in this epoch."""
    words: int = 0
    """Words of all streams read in this epoch."""
    step: int = 0
    best: float = math.inf
    """The lowest valid loss."""
    best_epoch: int = 0
    seconds: float = 0.0
    metrics_bytes: int = 0
    average_steps: int = 0
    schedule: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """What else training depends on besides its settings: a hash of each, by its name. Empty in older states."""
    planned: int = 0
    """The epochs that the run was to have so far; 0 in older states."""
    replanned: list[dict[str, int]] = field(default_factory=list)
    """Where the learning rate began to follow another number of epochs: such a run is none that was planned so from
    the start."""


def sources_of(model: LanguageModel, valid: Text) -> dict[str, str]:
    """Settings name files, and this is what is in them: no other may take their place in the midst of a run."""
    sources = {"vocabulary": model.vocabulary.digest, "valid text": valid.digest}
    return {**sources, "lexicon or glossary": model.compiler.lexicon.fingerprint} if model.is_open else sources


def save(trainer: Trainer) -> None:
    """Replace the state in the run folder, in one step, behind the best weights so far. Every process takes part, the
    first one writes."""
    group, position = trainer.group, trainer.position
    position.schedule = trainer.schedule.state()
    position.average_steps = trainer.averaged.steps if trainer.averaged else 0
    tensors = {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()}
    for i, values in trainer.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{i}.{name}": value for name, value in values.items()}
    for i, layer in enumerate(trainer.state):
        for name, tensor in zip(("hidden", "cell"), layer, strict=True):
            tensors[f"state.{i}.{name}"] = torch.cat(group.gather(tensor), 1)
    tensors["losses"] = torch.cat(group.gather(trainer.losses))
    if trainer.averaged:
        tensors |= {f"average.{name}": tensor for name, tensor in trainer.averaged.state().items()}
    if trainer.frozen:
        tensors |= {f"frozen.{name}": tensor for name, tensor in vars(trainer.frozen).items()}
    tensors["random.draws"] = trainer.draws.get_state()
    for name, source in _random_states(trainer).items():
        everyones = group.gather(source.to(trainer.policy.device))
        tensors |= {f"random.{name}.{rank}": state for rank, state in enumerate(everyones)}
    if group.leads:
        trainer.write_best()
        metadata = {"format": str(checkpoint.FORMAT), "position": json.dumps(asdict(position))}
        checkpoint.write_tensors(trainer.folder / checkpoint.STATE, tensors, metadata)
    group.wait()


def restore(trainer: Trainer) -> None:
    """Put a fresh trainer where the state in its run folder left off."""
    folder = trainer.folder
    if not (folder / checkpoint.STATE).is_file():
        raise GrocError(
            f"{folder} has no {checkpoint.STATE} to resume from: delete the folder or choose another --out, "
            "and start without --resume."
        )
    tensors, metadata = checkpoint.read_tensors(folder / checkpoint.STATE)
    try:
        saved = json.loads(metadata["position"])
        if unknown := {*saved} - {known.name for known in fields(Position)}:
            raise GrocError(
                f"The state in {folder} was made by a newer version of GroC, which keeps {', '.join(sorted(unknown))}, "
                "too: resume with that one, or upgrade this one."
            )
        position = Position(**saved)
        _check_sources(folder, position, trainer.position)
        position.sources = trainer.position.sources
        _plan_anew(trainer, position)
        if position.epoch > trainer.options.epochs:
            raise GrocError(
                f"The run in {folder} has finished {position.epoch} epochs already, more than the "
                f"{trainer.options.epochs} that are asked for: resume with {position.epoch} or more."
            )
        if tensors["state.0.hidden"].shape[1] != trainer.options.batch:
            raise ValueError
        trainer.position = position
        trainer.schedule.restore(position.schedule)
        _restore_tensors(trainer, tensors)
    except (KeyError, RuntimeError, TypeError, ValueError):
        raise GrocError(
            f"The state in {folder} does not fit this model: resume with the settings the run was started with."
        ) from None
    if trainer.group.leads:  # not before: what does not fit leaves the folder as it was
        position.metrics_bytes = cut_metrics(folder, position.metrics_bytes)


def _check_sources(folder: Path, started: Position, now: Position) -> None:
    before, found = ({"training text": position.text, **position.sources} for position in (started, now))
    for what, content in found.items():
        if before.get(what, content) != content:
            raise GrocError(
                f"The run in {folder} was started with another {what}: resume it with that, or start a new run with "
                "another --out."
            )


def _plan_anew(trainer: Trainer, position: Position) -> None:
    before = position.planned or checkpoint.load_config(trainer.folder).training.epochs
    position.planned = trainer.options.epochs
    if before != position.planned and position.step and trainer.schedule.follows_length:
        position.replanned.append({"after_step": position.step, "epochs_before": before, "epochs": position.planned})


def _restore_tensors(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    device, rank, streams = trainer.policy.device, trainer.group.rank, trainer.streams.shape[1]
    mine = slice(rank * streams, (rank + 1) * streams)
    trainer.model.load_state_dict(_below(tensors, "model"))
    trainer.optimiser.load_state_dict(
        {**trainer.optimiser.state_dict(), "state": _by_parameter(_below(tensors, "optimiser"))}
    )
    for i, layer in enumerate(trainer.state):
        for name, tensor in zip(("hidden", "cell"), layer, strict=True):
            tensor.copy_(tensors[f"state.{i}.{name}"][:, mine])
    trainer.losses.copy_(tensors["losses"][mine])
    if trainer.averaged:
        trainer.averaged.restore(_below(tensors, "average"), trainer.position.average_steps)
    if frozen := _below(tensors, "frozen"):
        trainer.frozen = Embeddings(**{name: tensor.to(device) for name, tensor in frozen.items()})
    trainer.draws.set_state(tensors["random.draws"])
    before, now = len(_below(tensors, "random.cpu")), trainer.group.size
    if before == now:
        torch.set_rng_state(tensors[f"random.cpu.{rank}"])
        if device.type == "cuda" and f"random.cuda.{rank}" in tensors:
            torch.cuda.set_rng_state(tensors[f"random.cuda.{rank}"], device)
        return
    torch.manual_seed(seed_apart(trainer.options.seed + rank, trainer.position.step))  # not those of the start
    if trainer.group.leads:
        print(
            f"The run was made by {_processes(before)} so far and goes on with {_processes(now)}: dropout and samples "
            f"are drawn otherwise than if it had not been stopped.",
            file=sys.stderr,
        )


def _processes(number: int) -> str:
    return f"{number} process{'es' * (number > 1)}"


def _random_states(trainer: Trainer) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if trainer.policy.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(trainer.policy.device)
    return states


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _by_parameter(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    return state
