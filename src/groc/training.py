"""The training loop. Stopped anywhere and resumed, it ends as if it had never been stopped."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from groc import checkpoint, resuming
from groc.compute import Group, Policy, seed_apart
from groc.config import Config
from groc.corpus import Ids, Text
from groc.divergence import Diverged, diverged, what_diverged
from groc.drawn import DrawnWords
from groc.errors import GrocError
from groc.files import append_line
from groc.graphs import launcher
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings
from groc.nn.input import UsualEntries
from groc.nn.prefix import Prefixes, State, overwrite
from groc.nn.sampling import check_sample
from groc.optimisation import AveragedWeights, make_optimiser, make_schedule, set_rate
from groc.progress import Progress
from groc.report import perplexity, to_json
from groc.resuming import Position, Saves
from groc.scoring import Scores, score
from groc.sharing import SharedEncoder
from groc.signals import Interrupted, StopSignals
from groc.streams import cut_streams, random_offsets, rotated


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
        self.options = config.training
        if config.compute.graphs == "yes" and policy.device.type != "cuda":
            raise GrocError("compute.graphs=yes needs a GPU, whose launches are recorded: leave it at auto on a CPU.")
        whole = not self.options.sample  # else what encodes words has shapes of its own in every step
        self.group = group
        self.policy = replace(policy, compile=policy.compile and whole, graphs=policy.graphs and group.size == 1)
        self.cut = cut_streams(train, model.vocabulary.end, self.options.batch, group).to(policy.device)
        self.streams = self.cut
        """As they are read in this epoch."""
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
        shares = group.size > 1 and model.composes and not self.options.sample
        self.shared = SharedEncoder(model, group, self.options.seed) if shares else None
        forms = self.shared.forms if self.shared else model.forms
        if not self.options.sample:
            with self.policy.autocast():
                forms.make_ready()  # before it is compiled
        model.prefix.fuse(policy.compile and (whole or self.policy.graphs))
        self.embed: Callable[[], Embeddings] = self.policy.compiled(
            lambda: model.embed_forms(forms).mapped(Tensor.float)
        )
        self.frozen: Embeddings | None = None
        """With sparse updates, the embeddings of the last full one."""
        self.means = [b for part in model.modules() if isinstance(part, UsualEntries) for b in part.buffers()]
        """What processes find out together besides gradients."""
        self.draws = torch.Generator().manual_seed(self.options.seed)
        """Random choices all processes must make alike: unroll lengths, which steps are full updates."""
        # What a step reads and writes stays in its place, so that steps can be recorded and replayed.
        self.window = self.streams.new_zeros(self._longest_unroll + 1, self.streams.shape[1])
        self.drawn: DrawnWords | None = None
        if draws := self.options.sample:
            check_sample(draws, len(model.vocabulary))
            self.drawn = DrawnWords(model, draws, self.window.numel(), self.policy)
        self.state: State = model.prefix.start(self.streams.shape[1])
        self.losses = torch.zeros(self.streams.shape[1], dtype=torch.float64, device=policy.device)
        """Of each stream in this epoch so far. A stream that stands out has gone wrong."""
        self.launch = launcher(self.policy.graphs, policy.device)
        text = hashlib.sha256(train.tobytes()).hexdigest()
        self.position = Position(text, sources=resuming.sources_of(model, valid), planned=self.options.epochs)
        self.kept_step: int | None = None
        """The step of the state in the run folder, where there is one."""
        self.unsaved_best: dict[str, Tensor] | None = None
        """The weights of the best epoch, where the run folder does not have them yet."""
        self.saves = Saves()
        self.quiet = quiet or not group.leads
        self.signals = StopSignals()
        self.stop = False
        """Whether any process was told to stop, as all of them found in the last step."""

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train until the last epoch or until nothing is gained any more."""
        self.model.train()
        try:
            with self.signals.heeded():
                while not (self.stop or self._is_done()):
                    self._epoch()
            if self.stop or self.group.any(self.signals.told):  # after the last step: its epoch has saved the state
                raise Interrupted(self.signals.number)
        finally:  # where it went wrong: no state can be saved, but the best weights can
            self.write_best()

    def _is_done(self) -> bool:
        position, patience = self.position, self.options.stop_after
        waited = position.epoch - position.best_epoch
        return position.epoch >= self.options.epochs or bool(patience and waited >= patience)

    def _epoch(self) -> None:
        if self.options.rotate_streams:
            seed = seed_apart(self.options.seed, self.position.epoch + 1)  # so that a resumed epoch finds the same
            self.streams = rotated(self.cut, random_offsets(self.cut, seed, self.group))
        position, length = self.position, len(self.streams) - 1
        title = f"epoch {position.epoch + 1}/{self.options.epochs}"
        progress = Progress(title, length, shown=not self.quiet, first=position.at)
        started, words_before = time.monotonic(), position.words

        def details() -> str:
            loss = self._mean_losses().mean().item()
            speed = (position.words - words_before) / max(time.monotonic() - started, 1e-9)
            return f"loss {loss:.3f}  perplexity {perplexity(loss):.1f}  {speed:,.0f} words/s"

        while position.at < length:
            self.step()
            progress(position.at, details)
            if self.stop or (self.group.size == 1 and self.saves.seconds_ago > 60 * self.options.save_minutes):
                position.seconds += time.monotonic() - started
                self.save_state()
                if self.stop:
                    progress.close()
                    return
                started, words_before = time.monotonic(), position.words
        position.seconds += time.monotonic() - started
        self._end_epoch(progress)

    def step(self) -> None:
        """One update of the weights. Nothing waits for the device, unless words are drawn."""
        position, options, length = self.position, self.options, len(self.streams) - 1
        unroll = min(self._unroll(), length - position.at)
        full = self._is_full()
        self.window[: unroll + 1].copy_(self.streams[position.at : position.at + unroll + 1])
        set_rate(self.optimiser, self._rate() * unroll / options.unroll)
        window = self.window[: unroll + 1]
        if self.drawn:
            window.copy_(self.drawn.draw(window))
            self.launch(unroll, lambda: self._learn_of_drawn(window))
            self.drawn.pass_on()
            self._move()
        else:
            self.launch((unroll, full), lambda: self._work(window, full))
        # A replay writes weights behind PyTorch's back; the model's kept vectors go by this count.
        torch.autograd.graph.increment_version(self.model.parameters())
        if self.averaged:
            self.averaged.update()

        self.stop = self.group.must_stop(self.signals.told)
        position.at += unroll
        position.step += 1
        position.words += unroll * options.batch

    def _work(self, window: Tensor, full: bool) -> None:
        """What the device does in a step: read the window, update weights, state and losses in place."""
        self.optimiser.zero_grad(set_to_none=True)
        self._learn(window, self._embeddings(full))
        self._move()

    def _learn_of_drawn(self, window: Tensor) -> None:
        """The same with words that are drawn and encoded, up to their gradients."""
        assert self.drawn is not None
        assert self.drawn.placed is not None
        self.drawn.forget()
        self._learn(window, self.drawn.placed)

    def _learn(self, window: Tensor, embeddings: Embeddings) -> None:
        """Read the window, and find gradients, state and losses."""
        with self.policy.autocast_prefix():
            prefixes, state = self.model.read(embeddings, window[:-1], self.state)
            losses = self.model.prefix.softmax.loss(prefixes.dropped.flatten(0, 1), embeddings, window[1:].flatten())
        (losses.mean() + self._regularisation(prefixes)).backward()  # type: ignore[no-untyped-call]
        overwrite(self.state, state)
        with torch.no_grad():
            self.losses += losses.view(len(window) - 1, -1).sum(0, dtype=torch.float64)

    def _move(self) -> None:
        """Move the weights along what all processes found."""
        self.group.average_gradients(self.model.parameters())
        self.group.average(self.means)
        self.update()

    def update(self) -> None:
        """Move the weights along their gradients."""
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimiser.step()

    def _is_full(self) -> bool:
        """Whether this step encodes the words; with sparse updates only some do."""
        p = self.options.full_updates
        return p == 1 or self.frozen is None or bool(torch.rand((), generator=self.draws) < p)

    def _embeddings(self, full: bool) -> Embeddings:
        """Of the whole vocabulary, as they are now or as they were at the last full update."""
        if not full:
            assert self.frozen is not None
            return self.frozen
        embeddings = self.encode()
        if self.options.full_updates < 1:
            if self.frozen is None:
                self.frozen = embeddings.mapped(torch.empty_like)
            with torch.no_grad():
                for name, place in vars(self.frozen).items():
                    place.copy_(getattr(embeddings, name))
        return embeddings

    def encode(self) -> Embeddings:
        """E^in, E^out and b of all words."""
        return self.shared.whole(self._encode, self.position.step) if self.shared else self._encode()

    def _encode(self) -> Embeddings:
        with self.policy.autocast():
            return self.embed()

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
        length = mean + 5 * float(torch.randn((), generator=self.draws))
        # In fives: a few lengths come again and again, each a step to be recorded.
        return min(max(5, 5 * round(length / 5)), self._longest_unroll)

    @property
    def _longest_unroll(self) -> int:
        return self.options.unroll + (20 if self.options.random_unroll else 0)

    def _rate(self) -> float:
        position, options = self.position, self.options
        done = (position.epoch + position.at / (len(self.streams) - 1)) / options.epochs
        warm = min(1.0, (position.step + 1) / options.warmup) if options.warmup else 1.0
        return options.rate * warm * self.schedule.factor(done)

    def _mean_losses(self) -> Tensor:
        """The mean loss of each stream of this process in this epoch so far."""
        means = self.losses / max(self.position.words / self.options.batch, 1)
        if not means.isfinite().all():
            raise self._diverged("the loss is not finite any more")
        return means

    def _diverged(self, what: str) -> Diverged:
        return diverged(what, self.options, self.position, self.folder, self.kept_step)

    def _end_epoch(self, progress: Progress) -> None:
        position = self.position
        losses = torch.cat(self.group.gather(self._mean_losses()))
        train_loss = losses.mean().item()
        if what := what_diverged(train_loss, position.epoch, len(self.model.vocabulary)):
            raise self._diverged(what)
        valid_loss = self._valid_loss()
        if not math.isfinite(perplexity(valid_loss)):
            raise self._diverged("the valid perplexity is not finite any more")
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
            "worst_stream_loss": losses.max().item(),
            "rate": rate,
            "seconds": round(position.seconds, 2),
        }
        self.schedule.observe(gained)
        position.at, position.words = 0, 0
        self.losses.zero_()
        for layer in self.state:
            for tensor in layer:
                tensor.zero_()
        is_due = self._is_done() or self.group.any(self.saves.are_due(60 * self.options.save_minutes))
        if self.group.leads:
            if gained:
                self._keep_best()
            if is_due:
                self.write_best()  # before there is a line that says how good they are
            self._append_metrics(row)
        if is_due:
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
            progress = Progress("valid text", len(self.valid_ids), shown=not self.quiet)
            scores = self.score_valid(streams=self.options.valid_streams, progress=progress)
            progress.close()
        finally:
            if self.averaged:
                self.averaged.swap()
        # All processes must agree on whether something was gained, to the last bit: the first one's figure counts.
        loss = -float(scores.log_prob.mean()) if self.group.leads else 0.0
        return self.group.total(torch.tensor(loss, dtype=torch.float64, device=self.policy.device)).item()

    def score_valid(self, streams: int, progress: Callable[[int], None] = lambda done: None) -> Scores:
        """Score the valid text with the weights of the moment."""
        with self.model.using(self.valid_vocabulary, self.valid_forms):
            return score(self.model, self.valid_ids, streams=streams, progress=progress, recorded=self.policy.graphs)

    # --- saving and resuming --------------------------------------------------------------------------------------

    def _keep_best(self) -> None:
        """Set the weights of the moment aside: they are written with the next state."""
        if self.averaged:
            self.averaged.swap()
        self.unsaved_best = {name: tensor.to("cpu", copy=True) for name, tensor in self.model.state_dict().items()}
        if self.averaged:
            self.averaged.swap()

    def write_best(self) -> None:
        """Put the best weights into the run folder, if it does not have them yet."""
        if self.unsaved_best is not None:
            checkpoint.save_weights(self.folder, self.unsaved_best)
            self.unsaved_best = None

    def _append_metrics(self, row: dict[str, Any]) -> None:
        # What a run that was cut off wrote after its last save is dropped.
        path, keep = self.folder / checkpoint.METRICS, self.position.metrics_bytes
        self.position.metrics_bytes = append_line(path, keep, to_json(row))

    def save_state(self) -> None:
        """Everything needed to go on, in one file that replaces the last one in one step."""
        self._mean_losses()
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise self._diverged("weights are not finite any more")
        with self.saves.timed():
            resuming.save(self)
        self.kept_step = self.position.step

    def restore(self) -> None:
        """Go on from the state in the run folder."""
        resuming.restore(self)
        self.kept_step = self.position.step
