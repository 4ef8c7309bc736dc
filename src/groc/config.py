"""Settings: frozen dataclasses. A key that does not exist is an error that names the nearest one that does."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from groc.errors import GrocError


@dataclass(frozen=True)
class Forms:
    """What the model is told about words."""

    rules: str = "default"
    """default, or paper (as published)."""
    relations: int = 3
    """At most so many related words."""
    definition: int = 10
    """At most so many words of the definition."""
    lower: bool = False
    """Lower-case related and defining words, for text that is lower-cased."""
    lexicon: str = "wordnet"
    """wordnet, none, or the path of a WordNet folder or a glossary file."""
    without: tuple[str, ...] = ()
    """Leave out: relations, definitions, or both."""
    coverage: float = 1.0
    """The share of words that keep their lexicon entry."""
    coverage_seed: int = 0
    glossary: str = ""
    """The path of a glossary that is asked before the lexicon; empty: none."""
    surface_dropout: float = 0.0
    """The share of words whose characters are left out in a training step, of those with an entry."""
    relations_dropout: float = 0.0
    """The share of words whose relations are left out in a training step."""
    definition_dropout: float = 0.0
    """The share of words whose definition is left out in a training step."""
    centred: bool = False
    """Take off relations and definitions what they all have in common, so that an entry counts by what it says and not
    by being there."""


@dataclass(frozen=True)
class Surface:
    """The encoder of characters."""

    kind: str = "cnn"
    """cnn (characters, convolutions, highway) or ngrams (hashed character n-grams)."""
    characters: int = 16
    """cnn: size of a character's vector."""
    filters: tuple[int, ...] = (32, 32, 64, 128, 256, 512)
    """cnn: number of filters of width 1, 2, 3, ..."""
    highway: int = 1
    """cnn: highway layers."""
    longest: int = 48
    """cnn: bytes of a word that are looked at."""
    buckets: int = 20000
    """ngrams: rows of the hash table."""
    rank: int = 64
    """ngrams: columns of the hash table."""
    shortest_ngram: int = 1
    longest_ngram: int = 6
    hashes: int = 2
    """ngrams: rows that an n-gram adds up. Two n-grams that share a row are unlikely to share both."""
    familiar: bool = False
    """ngrams: whether those that no string of training had are left out of new words."""


@dataclass(frozen=True)
class Output:
    """The output embedding."""

    kind: str = "groc"
    """groc, lookup, convolutional, tied, bilinear, deep-residual or adaptive."""
    dropout: float = 0.0
    """r: dimensions of the embedding dropped for all words at once."""
    depth: int = 0
    """k: layers of the output network (groc, deep-residual)."""
    activation: str = "relu"
    """Of the output network: relu, selu or tanh."""
    bias: str = "tanh"
    """groc: activation of the predicted bias: tanh, relu, selu or none."""
    bias_dropout: float = 0.2
    correction: int = 128
    """convolutional: size of a word's own correction."""
    cutoffs: tuple[int, ...] = (2000, 7000)
    """adaptive: ranks where the next band of rarer words begins."""
    factor: int = 4
    """adaptive: each band has so many times fewer dimensions than the one before."""
    count_bias: bool = False
    """Whether biases start at the log of the words' training counts; groc, which predicts its biases, adds that log to
    them with a learned weight."""
    mixtures: int = 1
    """So many softmaxes are mixed, each with a view of its own on the prefix; 1: one plain softmax."""
    mixture_dropout: float = 0.0
    """Of these views of the prefix, where there are several."""


@dataclass(frozen=True)
class Prefix:
    """The prefix network: LSTM layers d -> hidden -> ... -> d, with one dropout mask a sequence at each site."""

    hidden: int = 1024
    layers: int = 2
    input_dropout: float = 0.0
    hidden_dropout: float = 0.65
    output_dropout: float = 0.0
    weight_dropout: float = 0.0
    """The share of each layer's hidden-to-hidden weights that are left out in a training step (AWD-LSTM: 0.5)."""
    word_dropout: float = 0.0
    """The share of words that are left out of the input in a training step, wherever they stand (AWD-LSTM: 0.1)."""
    gate_rounds: int = 0
    """How often input and state of a layer gate each other before each word (Mogrifier LSTM: 5); 0: a plain LSTM."""
    gate_rank: int = 80
    """The rank of the matrices of these gates; at most the smaller of a layer's sizes."""


@dataclass(frozen=True)
class Model:
    dim: int = 300
    """d: the size of word vectors and of the last layer."""
    start: float = 0.05
    """The standard deviation of word vectors at the start, looked up or composed."""
    uniform: float = 0.99
    """Closed models that meet new words: the share of the probability that stays the model's."""


@dataclass(frozen=True)
class Training:
    epochs: int = 100
    batch: int = 20
    """Streams read side by side, over all processes together."""
    unroll: int = 35
    """Words of each stream in one step."""
    random_unroll: bool = False
    """Vary the number of words a step around `unroll`, in fives, with the learning rate in proportion."""
    rotate_streams: bool = False
    """Begin each stream at another, random place in every epoch, and read it round (Press 2019)."""
    rate: float = 1e-3
    """Adam's learning rate."""
    encoder_rate: float = 1.0
    """Multiplies the rate for what composes all words alike (not for rows of words or n-grams, or the LSTMs)."""
    matrix_rate: float = 0.0
    """Above 0: matrices that compose words move in orthogonalised steps (Muon), of the rate times this times their own
    size; 0: they are Adam's, with `encoder_rate`. On Penn, at a rate of .002, GroC with its output network diverged
    with .25 and with .6 (EXPERIMENTS.md)."""
    clip: float = 0.1
    """The largest norm of the gradient; 0: no clipping."""
    weight_decay: float = 0.0
    schedule: str = "plateau"
    """plateau (as published) or cosine."""
    warmup: int = 0
    """Steps over which the rate rises from 0."""
    patience: int = 4
    """plateau: epochs without gain before the rate falls."""
    decay: float = 0.1
    """plateau: what the rate is multiplied by."""
    final_rate: float = 0.01
    """cosine: the last rate, as a share of `rate`."""
    stop_after: int = 8
    """Stop after so many epochs without gain; 0: never."""
    activation: float = 0.0
    """Weight of the squared activations (AWD-LSTM: 2)."""
    temporal: float = 0.0
    """Weight of the squared change of the activations over time (AWD-LSTM: 1)."""
    average: float = 0.0
    """Decay a step of the running average of weights that is evaluated and kept; 0: the weights themselves."""
    full_updates: float = 1.0
    """p: the probability that a step encodes the words anew and learns from it; else their vectors, input and output,
    stay as they are for that step."""
    sample: int = 0
    """Draw so many words a step for the softmax, and encode no others than these and the step's own; 0: all words."""
    valid_streams: int = 10
    """Streams in which the valid text is read after each epoch (the final figure is strict: one stream)."""
    save_minutes: float = 10.0
    """The longest time between two saves of the training state. (At the ends of epochs there are more.)"""
    seed: int = 1


@dataclass(frozen=True)
class Compute:
    """How to compute; never what."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:0, ..."""
    bf16: str = "auto"
    """Matrix products in bfloat16: auto (on a GPU) or yes: those of the word encoder, and on a GPU the others in TF32;
    all: those of LSTM layers and softmax too; no: all in float32."""
    compile: str = "auto"
    """Compile the encoder, gates of input and state, and the loss in bfloat16, with torch.compile: auto (on a GPU), yes
    or no."""
    graphs: str = "auto"
    """Record a training step, or reading of valid text, and replay it as one CUDA graph: auto (on a GPU), yes or no."""


@dataclass(frozen=True)
class Config:
    name: str = "custom"
    corpus: str = ""
    """The folder with the training text."""
    forms: Forms = field(default_factory=Forms)
    surface: Surface = field(default_factory=Surface)
    model: Model = field(default_factory=Model)
    output: Output = field(default_factory=Output)
    prefix: Prefix = field(default_factory=Prefix)
    training: Training = field(default_factory=Training)
    compute: Compute = field(default_factory=Compute)

    def replace(self, changes: Mapping[str, Any]) -> Config:
        """A copy with changed values, by dotted key: {"training.rate": 0.002}."""
        config = self
        for key, value in changes.items():
            kind = known_keys().get(key)
            if kind is None:
                raise GrocError(f"There is no setting {key!r}.{nearest_hint(key, known_keys())}")
            section, _, name = key.rpartition(".")
            value = convert(key, value, kind)
            if section:
                part = dataclasses.replace(getattr(config, section), **{name: value})
                config = dataclasses.replace(config, **{section: part})
            else:
                config = dataclasses.replace(config, **{name: value})
        return check(config)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def flat(self) -> dict[str, Any]:
        """Every setting by dotted key."""
        return flatten(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        return cls().replace(flatten(values))


def known_keys() -> dict[str, type]:
    """Every setting by dotted key, with its type."""
    keys: dict[str, type] = {}
    for name, kind in get_type_hints(Config).items():
        if dataclasses.is_dataclass(kind):
            keys |= {f"{name}.{inner}": inner_kind for inner, inner_kind in get_type_hints(kind).items()}
        else:
            keys[name] = kind
    return keys


def of_this_version(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of saved settings by dotted key those that there still are, and those that are gone, but were in use."""
    known = known_keys()
    return (
        {key: value for key, value in settings.items() if key in known},
        {key: value for key, value in settings.items() if key not in known and value},
    )


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def nearest_hint(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest of the known words; empty if none is near."""
    known = list(known)
    # A user may forget the section: compare with the last part of each key too.
    by_last = {key.rpartition(".")[2]: key for key in reversed(known)}
    last = difflib.get_close_matches(word.rpartition(".")[2], by_last, 1, 0.8)
    whole = difflib.get_close_matches(word, known, 1, 0.6)
    nearest = whole or [by_last[name] for name in last]
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def convert(key: str, value: Any, kind: Any) -> Any:
    """A value of the setting's type, from TOML, JSON or the command line (where everything is text)."""
    try:
        if kind is bool:
            return value if isinstance(value, bool) else {"true": True, "yes": True, "false": False, "no": False}[value]
        if kind in (int, float):
            if isinstance(value, bool) or (kind is int and isinstance(value, float)):
                raise ValueError
            number = kind(value)
            if not math.isfinite(number):
                raise ValueError
            return number
        if kind is str:
            if not isinstance(value, str):
                raise ValueError
            return value
        inner = int if kind == tuple[int, ...] else str
        items = value.split(",") if isinstance(value, str) else value
        return tuple(inner(item) for item in items if item != "")
    except (ValueError, KeyError, TypeError, OverflowError):
        expected = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
        raise GrocError(f"{key}={value} is not possible: it must be {expected.get(kind, 'a list: a,b,c')}.") from None


CHOICES = {
    "forms.rules": ("default", "paper"),
    "surface.kind": ("cnn", "ngrams"),
    "output.kind": ("groc", "lookup", "convolutional", "tied", "bilinear", "deep-residual", "adaptive"),
    "output.activation": ("relu", "selu", "tanh"),
    "output.bias": ("tanh", "relu", "selu", "none"),
    "training.schedule": ("plateau", "cosine"),
    "compute.bf16": ("auto", "yes", "no", "all"),
    "compute.compile": ("auto", "yes", "no"),
    "compute.graphs": ("auto", "yes", "no"),
}
AT_LEAST_ONE = (
    "model.dim", "prefix.hidden", "prefix.layers", "surface.characters", "surface.longest", "surface.buckets",
    "surface.rank", "surface.shortest_ngram", "surface.hashes", "output.correction", "output.factor", "output.mixtures",
    "prefix.gate_rank", "training.batch", "training.unroll", "training.epochs", "training.valid_streams",
)  # fmt: skip
NOT_NEGATIVE = (
    "forms.relations", "forms.definition", "surface.highway", "output.depth", "training.clip",
    "prefix.gate_rounds", "training.encoder_rate", "training.matrix_rate", "training.weight_decay", "training.warmup",
    "training.activation", "training.temporal", "training.stop_after", "training.patience", "training.sample",
    "training.save_minutes", "model.start",
)  # fmt: skip
SHARES = (
    "forms.coverage", "forms.surface_dropout", "forms.relations_dropout", "forms.definition_dropout",
    "training.full_updates", "training.average", "training.decay", "training.final_rate",
    "model.uniform", "output.dropout", "output.bias_dropout", "output.mixture_dropout", "prefix.input_dropout",
    "prefix.hidden_dropout", "prefix.output_dropout", "prefix.weight_dropout", "prefix.word_dropout",
)  # fmt: skip

STACKED = ("prefix.layers", "prefix.gate_rounds", "output.depth", "output.mixtures", "surface.highway")
"""Each of these has weights and steps of its own: thousands of them would be built for hours."""

AT_ONCE = ("training.batch", "training.unroll", "training.sample", "training.valid_streams")
"""Those numbers of training that memory is needed for: epochs and patience may be as large as somebody likes."""
LARGEST = 10**9
"""Of anything that is held: more fits into no memory, and into no number of PyTorch's either."""
LARGEST_SEED = 10**18 - 1
"""What is added to a seed still leaves it a number that PyTorch takes."""


def check(config: Config) -> Config:
    """Refuse values that no part could work with."""
    flat = config.flat()
    sizes = [key for key, kind in known_keys().items() if kind is int and not key.startswith("training.")]
    for key, choices in CHOICES.items():
        if flat[key] not in choices:
            raise GrocError(
                f"{key}={flat[key]} is not possible: choose from {', '.join(choices)}."
                f"{nearest_hint(flat[key], choices)}"
            )
    for keys, lowest, highest, wanted in (
        (AT_LEAST_ONE, 1, math.inf, "at least 1"),
        (NOT_NEGATIVE, 0, math.inf, "0 or more"),
        (("training.rate",), math.ulp(0.0), math.inf, "above 0"),
        (SHARES, 0, 1, "between 0 and 1"),
        (("training.seed",), -LARGEST_SEED, LARGEST_SEED, "a number of at most 18 digits"),
        ([*sizes, *AT_ONCE], -math.inf, LARGEST, f"at most {LARGEST:,}"),
        (STACKED, 0, 1000, "at most 1,000"),
    ):
        for key in keys:
            if not lowest <= flat[key] <= highest:  # false for "nan" too
                raise GrocError(f"{key}={flat[key]} is not possible: it must be {wanted}.")
    for key in SHARES:
        if key.startswith(("prefix.", "output.")) and flat[key] == 1:
            raise GrocError(f"{key}=1 is not possible: nothing would be left.")
    if config.training.sample and config.training.full_updates < 1:
        raise GrocError("training.sample and training.full_updates exclude each other: leave one at its default.")
    if not config.surface.filters or not all(1 <= filters <= LARGEST for filters in config.surface.filters):
        raise GrocError("surface.filters must be a list of numbers from 1: how many filters of width 1, 2, 3, ...")
    if list(config.output.cutoffs) != sorted({rank for rank in config.output.cutoffs if rank >= 1}):
        raise GrocError("output.cutoffs must be a list of ranks from 1 that rise: where the next band of words begins.")
    if config.surface.longest_ngram < config.surface.shortest_ngram:
        raise GrocError("surface.longest_ngram must not be smaller than surface.shortest_ngram.")
    if unknown := set(config.forms.without) - {"relations", "definitions"}:
        raise GrocError(f"forms.without={unknown.pop()} is not possible: choose from relations, definitions.")
    return config
