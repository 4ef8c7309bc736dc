"""The training loop. Stopped anywhere and resumed, it ends as if it had never been stopped."""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from groc import checkpoint
from groc.compute import Group, Policy
from groc.config import Config
from groc.corpus import Ids, Text
from groc.errors import GrocError
from groc.files import append_line
from groc.model import LanguageModel
from groc.nn import softmax
from groc.nn.input import Embeddings
from groc.nn.prefix import Prefixes, State, detach
from groc.optimisation import AveragedWeights, make_optimiser, make_schedule, set_rate
from groc.progress import Progress
from groc.report import perplexity, to_json
from groc.scoring import Scores, score


class Interrupted(KeyboardInterrupt):
    """Training was stopped from outside, and its state is saved."""


@dataclass
class Position:
    """Where training stands: everything but tensors."""

    epoch: int = 0
    """Epochs finished."""
    at: int = 0
    """Words of each stream read in this epoch."""
    step: int = 0
    loss_sum: float = 0.0
    """Of this epoch so far, over all words."""
    words: int = 0
    worst_step: float = 0.0
    """The highest mean loss of a step in this epoch: a spike here is a step that went wrong."""
    best: float = math.inf
    """The lowest valid loss."""
    best_epoch: int = 0
    seconds: float = 0.0
    metrics_bytes: int = 0
    text: str = ""
    """A hash of the training text."""
    schedule: dict[str, Any] = field(default_factory=dict)
    average_steps: int = 0


class Trainer:
    """Trains one model on one text, in a run folder that always holds a state to go on from."""

    def __init__(
        self,
        model: LanguageModel,
        config: Config,
        train: Ids,
        valid: Text,
        folder: Path,
        policy: Policy,
        group: Group,
        quiet: bool = False,
    ) -> None:
        self.model, self.config, self.folder = model, config, folder
        self.policy, self.group = policy, group
        self.options = config.training
        self.streams = _streams(train, model.vocabulary.end, self.options.batch, group).to(policy.device)
        # Words of the valid text that training does not have are scored too, in the union of both vocabularies.
        self.valid_vocabulary = model.vocabulary.union(valid.types)
        self.valid_ids = valid.ids(self.valid_vocabulary)
        self.valid_forms = (
            model.forms
            if self.valid_vocabulary is model.vocabulary
            else model.prepare(self.valid_vocabulary).to(policy.device)
        )
        self.optimiser = make_optimiser(model, self.options)
        self.schedule = make_schedule(self.options)
        self.averaged = AveragedWeights(model, self.options.average) if self.options.average else None
        self.embed = policy.compiled(model.embed)
        self.frozen: Embeddings | None = None
        self.draws = torch.Generator().manual_seed(self.options.seed)
        """Random choices all processes must make alike: unroll lengths, which steps are full updates."""
        self.state: State = self._fresh_state()
        self.position = Position(text=hashlib.sha256(train.tobytes()).hexdigest())
        self.quiet = quiet or not group.leads
        self.stop = False

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train until the last epoch or until nothing is gained any more."""
        self.model.train()
        with self._signals():
            while not self._is_done():
                self._epoch()

    def _is_done(self) -> bool:
        position, patience = self.position, self.options.stop_after
        waited = position.epoch - position.best_epoch
        return position.epoch >= self.options.epochs or bool(patience and waited >= patience)

    def _epoch(self) -> None:
        position, length = self.position, len(self.streams) - 1
        progress = Progress(f"epoch {position.epoch + 1}/{self.options.epochs}", length, shown=not self.quiet)
        started, words_before = time.monotonic(), position.words
        saved = started
        loss_sum = torch.tensor(position.loss_sum, dtype=torch.float64, device=self.policy.device)
        worst = torch.tensor(position.worst_step, dtype=torch.float64, device=self.policy.device)

        def details() -> str:
            self._read_loss(loss_sum, worst)
            loss = position.loss_sum / max(position.words, 1)
            speed = (position.words - words_before) / max(time.monotonic() - started, 1e-9)
            return f"loss {loss:.3f}  perplexity {perplexity(loss):.1f}  {speed:,.0f} words/s"

        def pause(interrupted: bool) -> None:
            self._read_loss(loss_sum, worst)
            position.seconds += time.monotonic() - started
            self.save_state()
            if interrupted:
                progress.close()
                raise Interrupted

        while position.at < length:
            words = position.words
            loss = self.step()
            loss_sum += loss
            # Each process sees its own share of the words only.
            worst = torch.maximum(worst, loss * self.group.size / (position.words - words))
            progress(position.at, details)
            now = time.monotonic()
            if self.stop or (self.group.size == 1 and now - saved > 60 * self.options.save_minutes):
                pause(interrupted=self.stop)
                started, words_before, saved = now, position.words, now
        self._read_loss(loss_sum, worst)
        position.seconds += time.monotonic() - started
        self._end_epoch(progress)

    def step(self) -> Tensor:
        """One update of the weights. The summed loss of all words of this process comes back, still on the device."""
        position, options, length = self.position, self.options, len(self.streams) - 1
        unroll = min(self._unroll(), length - position.at)
        window = self.streams[position.at : position.at + unroll + 1]
        inputs, targets = window[:-1], window[1:]

        embeddings = self._embeddings()
        prefixes, state = self.model.read(embeddings, inputs, self.state)
        losses = softmax.loss(prefixes.dropped.flatten(0, 1), embeddings, targets.flatten())
        self.optimiser.zero_grad(set_to_none=True)
        (losses.mean() + self._regularisation(prefixes)).backward()  # type: ignore[no-untyped-call]
        self.stop = self.group.average_gradients(self.model.parameters(), self.stop)
        if options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        set_rate(self.optimiser, self._rate() * unroll / options.unroll)
        self.optimiser.step()
        if self.averaged:
            self.averaged.update()

        self.state = detach(state)
        position.at += unroll
        position.step += 1
        position.words += unroll * options.batch
        return losses.detach().sum(dtype=torch.float64)

    def _embeddings(self) -> Embeddings:
        """Of the whole vocabulary; with sparse updates, most of the time those of the last full update."""
        p = self.options.full_updates
        if p == 1:
            return self._encode()
        if self.frozen is None or torch.rand((), generator=self.draws) < p:
            full = self._encode()
            self.frozen = Embeddings(full.input.detach(), full.output.detach(), full.bias.detach())
            return full
        return self.frozen

    def _encode(self) -> Embeddings:
        with self.policy.autocast():
            embeddings = self.embed()
        return Embeddings(embeddings.input.float(), embeddings.output.float(), embeddings.bias.float())

    def _regularisation(self, prefixes: Prefixes) -> Tensor | float:
        penalty: Tensor | float = 0.0
        if self.options.activation:
            penalty = penalty + self.options.activation * prefixes.dropped.square().mean()
        if self.options.temporal and len(prefixes.raw) > 1:
            penalty = penalty + self.options.temporal * prefixes.raw.diff(dim=0).square().mean()
        return penalty

    def _unroll(self) -> int:
        base = self.options.unroll
        if not self.options.random_unroll:
            return base
        mean = base if torch.rand((), generator=self.draws) < 0.95 else base / 2
        return max(5, round(mean + 5 * float(torch.randn((), generator=self.draws))))

    def _rate(self) -> float:
        position, options = self.position, self.options
        done = (position.epoch + position.at / (len(self.streams) - 1)) / options.epochs
        warm = min(1.0, (position.step + 1) / options.warmup) if options.warmup else 1.0
        return options.rate * warm * self.schedule.factor(done)

    def _read_loss(self, loss_sum: Tensor, worst: Tensor) -> None:
        self.position.loss_sum, self.position.worst_step = float(loss_sum), float(worst)
        if not math.isfinite(self.position.loss_sum):
            raise self._diverged("the loss is")

    def _diverged(self, what: str) -> GrocError:
        kept = f"; the last good state is kept in {self.folder}" if (self.folder / checkpoint.STATE).exists() else ""
        return GrocError(
            f"Training diverged: {what} not a number any more in epoch {self.position.epoch + 1}, at or before step "
            f"{self.position.step}: lower training.rate or training.clip and start again{kept}."
        )

    def _end_epoch(self, progress: Progress) -> None:
        position = self.position
        total = self.group.total(torch.tensor(position.loss_sum, dtype=torch.float64, device=self.policy.device))
        train_loss = float(total) / position.words
        valid_loss = self._valid_loss()
        if not math.isfinite(valid_loss):
            raise self._diverged("the valid loss is")
        gained = valid_loss < position.best
        rate = self._rate()
        position.epoch += 1
        if gained:
            position.best, position.best_epoch = valid_loss, position.epoch
        row = {
            "epoch": position.epoch,
            "step": position.step,
            "train_loss": train_loss,
            "train_perplexity": perplexity(train_loss),
            "valid_loss": valid_loss,
            "valid_perplexity": perplexity(valid_loss),
            "valid_streams": self.options.valid_streams,
            "worst_step_loss": position.worst_step,
            "rate": rate,
            "seconds": round(position.seconds, 2),
        }
        self.schedule.observe(gained)
        position.at, position.loss_sum, position.words, position.worst_step = 0, 0.0, 0, 0.0
        self.state = self._fresh_state()
        if self.group.leads:
            if gained:
                self._save_best()
            self._append_metrics(row)
        self.save_state()
        progress.close(
            f"epoch {position.epoch}/{self.options.epochs}  train {row['train_perplexity']:.2f}  "
            f"valid {row['valid_perplexity']:.2f}{' *' if gained else ''}  rate {row['rate']:.2g}  "
            f"{position.seconds:.0f} s"
        )

    def _valid_loss(self) -> float:
        if self.averaged:
            self.averaged.swap()
        try:
            scores = self.score_valid(streams=self.options.valid_streams)
        finally:
            if self.averaged:
                self.averaged.swap()
        return -float(scores.log_prob.mean())

    def score_valid(self, streams: int, progress: Callable[[int], None] = lambda done: None) -> Scores:
        """Score the valid text with the weights of the moment."""
        with self.model.using(self.valid_vocabulary, self.valid_forms):
            return score(self.model, self.valid_ids, streams=streams, progress=progress)

    def _fresh_state(self) -> State:
        return self.model.prefix.start(self.streams.shape[1])

    # --- saving and resuming --------------------------------------------------------------------------------------

    def _save_best(self) -> None:
        if self.averaged:
            self.averaged.swap()
        checkpoint.save_weights(self.folder, self.model.state_dict())
        if self.averaged:
            self.averaged.swap()

    def _append_metrics(self, row: dict[str, Any]) -> None:
        # What a run that was cut off wrote after its last save is dropped.
        path, keep = self.folder / checkpoint.METRICS, self.position.metrics_bytes
        self.position.metrics_bytes = append_line(path, keep, to_json(row))

    def save_state(self) -> None:
        """Everything needed to go on, in one file that replaces the last one in one step."""
        position = self.position
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise self._diverged("weights are")
        position.schedule = self.schedule.state()
        position.average_steps = self.averaged.steps if self.averaged else 0
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for i, values in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{name}": value for name, value in values.items()}
        for i, layer in enumerate(self.state):
            for name, tensor in zip(("hidden", "cell"), layer, strict=True):
                tensors[f"state.{i}.{name}"] = torch.cat(self.group.gather(tensor), 1)
        if self.averaged:
            tensors |= {f"average.{name}": tensor for name, tensor in self.averaged.state().items()}
        if self.frozen:  # copies: the parts of a tied model's embeddings are one and the same tensor
            tensors |= {f"frozen.{name}": getattr(self.frozen, name).clone() for name in ("input", "output", "bias")}
        tensors["random.draws"] = self.draws.get_state()
        for name, source in self._random_states().items():
            gathered = self.group.gather(source.to(self.policy.device))
            tensors |= {f"random.{name}.{rank}": value for rank, value in enumerate(gathered)}
        if self.group.leads:
            metadata = {"format": str(checkpoint.FORMAT), "position": json.dumps(position.__dict__)}
            checkpoint.write_tensors(self.folder / checkpoint.STATE, tensors, metadata)
        self.group.wait()

    def restore(self) -> None:
        """Go on from the state in the run folder."""
        path = self.folder / checkpoint.STATE
        if not path.is_file():
            raise GrocError(
                f"{self.folder} has no {checkpoint.STATE} to resume from: delete the folder or choose another --out, "
                "and start without --resume."
            )
        tensors, metadata = checkpoint.read_tensors(path)
        try:
            position = Position(**json.loads(metadata["position"]))
            if position.text != self.position.text:
                raise GrocError(
                    f"The run in {self.folder} was started with another training text: resume it with that."
                )
            if tensors["state.0.hidden"].shape[1] != self.options.batch:
                raise ValueError
            self.position = position
            self.model.load_state_dict(_below(tensors, "model"))
            self._restore_optimiser(_below(tensors, "optimiser"))
            columns = slice(self.group.rank * self.streams.shape[1], (self.group.rank + 1) * self.streams.shape[1])
            device = self.policy.device
            self.state = tuple(
                (
                    tensors[f"state.{i}.hidden"][:, columns].contiguous().to(device),
                    tensors[f"state.{i}.cell"][:, columns].contiguous().to(device),
                )
                for i in range(len(self.state))
            )
            if self.averaged:
                self.averaged.restore(_below(tensors, "average"), self.position.average_steps)
            if frozen := _below(tensors, "frozen"):
                self.frozen = Embeddings(**{name: tensor.to(device) for name, tensor in frozen.items()})
            self.draws.set_state(tensors["random.draws"])
            torch.set_rng_state(tensors[f"random.cpu.{self.group.rank}"])
            if device.type == "cuda" and f"random.cuda.{self.group.rank}" in tensors:
                torch.cuda.set_rng_state(tensors[f"random.cuda.{self.group.rank}"], device)
        except (KeyError, RuntimeError, TypeError, ValueError):
            raise GrocError(
                f"The state in {self.folder} does not fit this model or this number of processes: "
                "resume with the settings the run was started with."
            ) from None
        self.schedule.restore(self.position.schedule)

    def _random_states(self) -> dict[str, Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.policy.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.policy.device)
        return states

    def _restore_optimiser(self, tensors: dict[str, Tensor]) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and a polite kill stop training at the next step, after a save. A second Ctrl-C stops at once."""

        def request(number: int, frame: FrameType | None) -> None:
            if self.stop and number == signal.SIGINT:
                signal.default_int_handler(number, frame)
            self.stop = True

        if threading.current_thread() is not threading.main_thread():
            yield  # Python allows signal handlers in the main thread alone
            return
        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _streams(ids: Ids, end: int, batch: int, group: Group) -> Tensor:
    """The text, after an `<eos>`, cut into `batch` streams of equal length; this process's share of them.

    Shape: [words of a stream + 1, streams]. Fewer than `batch` words at the text's end are left out.
    """
    if batch % group.size:
        raise GrocError(
            f"training.batch={batch} cannot be shared by {group.size} processes: use a multiple of {group.size}."
        )
    length = len(ids) // batch
    if length < 2:
        raise GrocError(
            f"The training text has {len(ids):,} tokens, too few for training.batch={batch} streams: "
            "use more text or a smaller batch."
        )
    stream = torch.cat([torch.tensor([end]), torch.from_numpy(ids[: batch * length].astype("int64"))])
    starts = torch.arange(batch) * length
    streams = stream[starts + torch.arange(length + 1)[:, None]]  # [length + 1, batch]; streams overlap by one word
    share = batch // group.size
    return streams[:, group.rank * share : (group.rank + 1) * share].contiguous()


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix + "."): tensor for name, tensor in tensors.items() if name.startswith(prefix + ".")
    }
