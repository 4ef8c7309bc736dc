"""What a training step costs: the models side by side on made-up words, and where the time of each goes."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groc.building import build
from groc.compute import Group, Policy, choose
from groc.corpus import Text
from groc.forms import Lists, WordForms
from groc.lexicon import Empty
from groc.naive import embed_naively
from groc.nn.embeddings import Embeddings
from groc.nn.prefix import detach
from groc.recipe import load_recipe
from groc.training import Trainer
from groc.vocabulary import END, Vocabulary

WARM_UP = {"cpu": 2, "cuda": 6}
"""Steps of each model before the clock runs; the first ones fill caches, and on a GPU compile and are recorded."""


Endings = tuple[tuple[float, str], ...]
"""Characters besides a to z, and the share of the longer made-up strings that end in one of them: how many characters
there are, and how many strings have seldom ones, is part of what strings cost."""
FEW_ENDINGS: Endings = ((0.025, "0123456789.,-'&$/*#\\NA"),)
"""As in Penn's words."""
_ASCII = "".join(map(chr, range(0x21, 0x61)))
MANY_ENDINGS: Endings = ((0.4, _ASCII[:35]), (0.026, 60 * _ASCII[35:] + "".join(map(chr, range(0x80, 0x800)))))
"""As in WikiText-2's words, with characters of two bytes."""


@dataclass(frozen=True)
class Size:
    """A job to time: a recipe with a vocabulary of so many words, and how many of them a step draws (0: all)."""

    recipe: str
    words: int
    strings: int
    """Distinct strings to encode: the words, and those that occur in their relations and definitions alone."""
    sample: int = 0
    endings: Endings = FEW_ENDINGS
    """Characters that some strings end in."""


SIZES = {
    "penn": Size("penn", 10_000, 18_078),  # as many as with WordNet
    "penn, words alone": Size("penn", 10_000, 10_000),  # the published rules: forms that are words of the vocabulary
    "wikitext2": Size("wikitext2", 33_278, 46_662, endings=MANY_ENDINGS),
    "wikitext2, words alone": Size("wikitext2", 33_278, 33_278, endings=MANY_ENDINGS),
    "100k": Size("penn", 100_000, 140_000, 8192, MANY_ENDINGS),
    "1m": Size("penn", 1_000_000, 1_400_000, 8192, MANY_ENDINGS),
    "100k, all": Size("penn", 100_000, 140_000, endings=MANY_ENDINGS),  # with no sample, to see what one saves
}
MODELS: dict[str, tuple[str, ...]] = {
    "tied": ("tied",),
    "convolutional": ("convolutional",),
    "groc, characters": ("groc-characters",),
    "groc, n-grams": ("groc", "output.depth=0"),
}
"""The models by name, each a variant of the recipe with settings. The first is what the others are compared with. GroC
has no output network here: what is timed is how words are encoded, and the network costs the same for all surfaces."""
OTHERS: dict[str, tuple[str, ...]] = {
    "lookup": ("lookup",),
    "bilinear": ("bilinear",),
    "deep-residual": ("deep-residual",),
    "adaptive": ("adaptive",),
    "groc": ("groc",),
    "groc, frozen": ("groc", "training.full_updates=0"),
    "groc, characters, naive": MODELS["groc, characters"],
    "groc, n-grams, naive": MODELS["groc, n-grams"],
}
"""More models, timed only where they are asked for: the other output embeddings; GroC as its recipe has it, and that
with an output embedding that stays as it is (the steps between the full ones of sparse updates); GroC with an encoder
as one would first write it."""
WHOLE = ("groc, frozen", "groc, characters, naive", "groc, n-grams, naive")
"""Models that have no step with a sample of the words."""
PARTS = ("encoder", "prefix", "softmax", "optimiser")
"""Of a step."""
PUBLISHED = (
    "training.batch=20", "training.unroll=35", "training.average=0", "prefix.weight_dropout=0", "prefix.word_dropout=0",
)  # fmt: skip
"""The step of the paper, whatever a recipe has since been found to learn best with."""


@dataclass(frozen=True)
class Timing:
    """Medians of one model, in milliseconds."""

    model: str
    device: str
    """On what, and how: with a sample what encodes words and what updates weights are neither compiled nor recorded."""
    step: float
    ratio: float
    """To the first model's step."""
    words_per_second: float
    held: float
    """Memory on the device between steps: weights, their gradients and average, the optimiser's state, forms, an output
    embedding that was frozen; in MB."""
    memory: float
    """The most that a step took beyond that. The peak is the sum of both."""
    encoder: float
    prefix: float
    softmax: float
    optimiser: float
    config: dict[str, Any]
    """All settings of the model and its training, by dotted key: what a recipe's name stands for changes."""


def time_models(
    size: Size,
    models: list[str],
    steps: int,
    device: str,
    settings: list[str],
    progress: Callable[[int], None] = lambda done: None,
) -> list[Timing]:
    """Time the models in turns, so that a busy moment of the machine hits all of them. `progress` is told how much is
    done, of `work_of` them."""
    torch.compiler.reset()
    with ExitStack() as stack:
        # PyTorch compiles the same function a few times and then no more: here it is one of every model.
        limit = max(torch._dynamo.config.recompile_limit, 4 * len(models))
        stack.enter_context(torch._dynamo.config.patch(recompile_limit=limit))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainers = {name: stack.enter_context(made_trainer(size, name, device, settings, folder)) for name in models}
        times: dict[str, list[float]] = {name: [] for name in trainers}
        memory = dict.fromkeys(trainers, 0.0)
        warm_up = WARM_UP[next(iter(trainers.values())).policy.device.type]
        done = 0

        def tick(work: int) -> None:
            nonlocal done
            done += work
            progress(done)

        for turn in range(warm_up + steps):
            for name, trainer in trainers.items():
                rewind(trainer)
                if turn >= warm_up:
                    times[name].append(timed(trainer.step, trainer.policy))
                elif turn == 0:
                    trainer.step()  # makes what stays
                    if trainer.policy.device.type == "cpu" and not trainer.drawn:
                        trainer.optimiser.zero_grad()  # the profiler cannot count what was taken before and is let go
                else:  # also when it is recorded: it then takes what it took there
                    memory[name] = max(memory[name], peak_memory(trainer.step, trainer.policy))
                tick(len(PARTS))
        held = {name: held_memory(trainer) for name, trainer in trainers.items()}  # parts leave more
        parts = {name: time_parts(trainer, steps, partial(tick, 1)) for name, trainer in trainers.items()}
        medians = {name: statistics.median(values) for name, values in times.items()}
        words = next(iter(trainers.values())).options
        return [
            Timing(
                model=name,
                device=trainers[name].policy.describe(),
                step=median,
                ratio=median / medians[models[0]],
                words_per_second=1000 * words.batch * words.unroll / median,
                held=held[name],
                memory=memory[name],
                **parts[name],
                config=trainers[name].config.flat(),
            )
            for name, median in medians.items()
        ]


def work_of(models: int, steps: int, device: str) -> int:
    """How much work it is to time models: a step is as much as all of its parts together."""
    return 2 * len(PARTS) * models * (WARM_UP[device] + steps)


def time_parts(trainer: Trainer, steps: int, tick: Callable[[], None]) -> dict[str, float]:
    """Encoder, prefix network, softmax and optimiser on their own, forwards and backwards.

    They are run as the step is, recorded where it is. What never encodes has nothing for the encoder."""
    model, policy, options = trainer.model, trainer.policy, trainer.options
    window = trainer.streams[: options.unroll + 1]
    drawn = trainer.drawn
    sample = drawn.sampler.draw(window) if drawn else None

    def encode() -> Embeddings:
        return drawn.encode(sample) if drawn and sample else trainer.encode()

    def encoder() -> None:
        model.input.zero_grad()  # as a step does, which makes gradients anew
        model.output.zero_grad()
        embeddings = encode()
        sum(part.sum() for part in (embeddings.input, embeddings.output, embeddings.bias)).backward()  # type: ignore[union-attr]

    fixed = (drawn.place(encode()) if drawn else encode()).mapped(Tensor.detach)
    inputs = window[:-1] if sample is None else sample.places(window[:-1])
    targets = (window[1:] if sample is None else sample.places(window[1:])).flatten()
    read = fixed.rows(inputs).requires_grad_()

    def prefix() -> None:
        model.prefix.zero_grad()
        read.grad = None
        with policy.autocast_prefix():
            dropped = model.prefix(read, detach(trainer.state))[0].dropped
        dropped.sum().backward()

    with torch.no_grad(), policy.autocast_prefix():
        prefixes = model.prefix(read, trainer.state)[0].dropped.flatten(0, 1)
    prefixes.requires_grad_()
    table = Embeddings(fixed.input, fixed.output.requires_grad_(), fixed.bias.requires_grad_())

    def chances() -> None:
        prefixes.grad = table.output.grad = table.bias.grad = None
        with policy.autocast_prefix():
            losses = model.prefix.softmax.loss(prefixes, table, targets)
        losses.mean().backward()  # type: ignore[no-untyped-call]

    parts = dict(zip(PARTS, (encoder, prefix, chances, trainer.update), strict=True))
    if not options.full_updates:
        del parts["encoder"]
    medians = {"encoder": 0.0}
    for name, part in parts.items():
        recorded = drawn is None or name in ("prefix", "softmax")
        launch, warm_up = partial(trainer.launch, name, part) if recorded else part, WARM_UP[policy.device.type]
        times = []
        for _ in range(warm_up + steps):
            times.append(timed(launch, policy))
            tick()
        medians[name] = statistics.median(times[warm_up:])
    return medians


@contextmanager
def made_trainer(size: Size, name: str, device: str, settings: list[str], folder: Path) -> Iterator[Trainer]:
    """A trainer of a model on made-up words that occur as often as words do."""
    variant, *own = {**MODELS, **OTHERS}[name]
    config = load_recipe(size.recipe, variant, [f"training.sample={size.sample}", *PUBLISHED, *own, *settings])
    config = config.replace({"compute.device": device})
    policy, group = choose(config.compute), Group()
    draw = np.random.default_rng(1)
    forms = made_forms(size.words, size.strings, draw, size.endings)
    words = (END, *(forms.string(i) for i in range(1, size.words)))
    expected = 1e6 / np.arange(1, size.words + 1)
    vocabulary = Vocabulary(words, np.maximum(expected, 1).astype(int).tolist())
    tokens = config.training.batch * (config.training.unroll * 50 + 2)
    ids = draw.choice(size.words, tokens, p=expected / expected.sum()).astype(np.int32)
    model = build(config, vocabulary, Empty(), calibrate=False).to(policy.device)
    with model.using(vocabulary, model.prepare_forms(words, forms if model.composes else None)):
        trainer = Trainer(
            model, config, ids, Text("made up", (END,), np.zeros(1, np.int32)), folder, policy, group, quiet=True
        )
        if name.endswith("naive"):
            trainer.embed = lambda: embed_naively(model, model.forms).mapped(Tensor.float)
        model.train()
        yield trainer


def made_forms(words: int, strings: int, draw: np.random.Generator, endings: Endings = FEW_ENDINGS) -> WordForms:
    """Made-up strings of some 8 letters, the first of them words, each with 2 related and 6 defining ones."""
    sizes = draw.integers(5, 12, strings)
    sizes[-1] = 31  # one word is always very long
    boundaries = np.concatenate([[0], np.cumsum(sizes)])
    characters = draw.integers(ord("a"), ord("z") + 1, boundaries[-1]).astype(np.uint8)
    # Words must differ: each begins with its own number, written in letters.
    for place in range(5):
        characters[boundaries[:-1] + place] = ord("a") + np.arange(strings) // 26**place % 26
    for share, some in endings:
        for string in np.flatnonzero((sizes >= 7) & (draw.random(strings) < share)):
            last = some[draw.integers(len(some))].encode()
            characters[boundaries[string + 1] - len(last) : boundaries[string + 1]] = list(last)

    def lists(length: int) -> Lists:
        index = draw.integers(0, strings, words * length).astype(np.int32)
        offsets = np.arange(0, words * length + 1, length).astype(np.int32)
        return Lists(index, offsets, np.full(words, 1 / length, np.float32))

    return WordForms(words, characters, boundaries, lists(2), lists(6))


def rewind(trainer: Trainer) -> None:
    """So that there is another step to make."""
    if trainer.position.at + trainer.options.unroll + 1 >= len(trainer.streams):
        trainer.position.at = 0  # the text again from its start


def timed(work: Callable[[], object], policy: Policy) -> float:
    """Milliseconds that some work takes."""
    _wait_for(policy.device)
    start = time.perf_counter()
    work()
    _wait_for(policy.device)
    return 1000 * (time.perf_counter() - start)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def held_memory(trainer: Trainer) -> float:
    """What lies in memory between the steps of a model, in MB."""
    weights = list(trainer.model.parameters())
    states = [value for values in trainer.optimiser.state.values() for value in values.values()]
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    tensors = [*weights, *gradients, *states, *trainer.model.buffers()]  # forms are among them
    if trainer.averaged is not None:
        tensors += trainer.averaged.average
    if trainer.frozen is not None:
        tensors += vars(trainer.frozen).values()
    if trainer.drawn is not None and trainer.drawn.placed is not None:
        tensors += [part for leaf in vars(trainer.drawn.placed).values() for part in (leaf, leaf.grad)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    sizes: dict[int, int] = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return sum(sizes.values()) / 1e6


def peak_memory(work: Callable[[], object], policy: Policy) -> float:
    """The most memory that some work takes at a time, beyond what is held before it (or, if it takes that anew, behind
    it), in MB."""
    if policy.device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler says when it starts and stops
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes: list[int] = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return (max(accumulate(changes), default=0) - sum(changes)) / 1e6


def to_record(size: Size, timings: list[Timing]) -> dict[str, Any]:
    endings = sum(len(set(some)) for _, some in size.endings)
    return {**asdict(size), "endings": endings, "models": [asdict(timing) for timing in timings]}
