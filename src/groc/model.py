"""The language model: an input embedding, a prefix network and an output embedding over a vocabulary of the moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from groc import config as settings
from groc.errors import GrocError
from groc.forms import FormsCompiler, WordForms
from groc.lexicon import Coverage, Empty, Glossary, Lexicon, Without, WordNet
from groc.nn import output as outputs
from groc.nn import softmax
from groc.nn.dropout import SharedDropout
from groc.nn.input import AdaptiveInput, Embeddings, GroundedInput, PreparedForms, WordTable
from groc.nn.prefix import Prefixes, PrefixNetwork, State
from groc.nn.segments import Segments
from groc.nn.surface import CharacterCNN, HashedNgrams, Surface
from groc.vocabulary import UNKNOWN, Vocabulary


class LanguageModel(nn.Module):
    """p(word | words before it), over any vocabulary.

    An open model (GroC) composes its embeddings from the words' forms and takes any word list as it is. A closed model
    has a row of parameters for each word it was trained on; a word it has no row for gets a probability only through a
    uniform distribution that is mixed in, unless `set_vocabulary` is told to grow random rows to be trained.
    """

    def __init__(
        self,
        input_embedding: nn.Module,
        output_embedding: nn.Module,
        prefix: PrefixNetwork,
        vocabulary: Vocabulary,
        compiler: FormsCompiler,
        surface: Surface | None,
        uniform: float,
    ) -> None:
        super().__init__()
        self.input = input_embedding
        self.prefix = prefix
        self.output = output_embedding
        self.compiler = compiler
        self.uniform = uniform
        self.vocabulary = vocabulary
        self.trained = vocabulary
        """The vocabulary whose words have rows in the tables (for a closed model)."""
        self._surface = [surface]  # in a list: the module that uses it owns its parameters
        self.set_vocabulary(vocabulary)

    # --- the vocabulary -------------------------------------------------------------------------------------------

    def set_vocabulary(self, vocabulary: Vocabulary, *, grow: bool = False) -> None:
        """Use this vocabulary from now on. `grow` gives a closed model random rows for its new words."""
        if not isinstance(vocabulary, Vocabulary):
            raise GrocError("A model takes a Vocabulary: write model.vocabulary.union(words) to add words to its own.")
        device = self.device
        if grow and not self.is_open:
            grown = self.trained.union(vocabulary)
            _grow(self, len(grown) - len(self.trained))
            self.trained = grown
        self.forms = self.prepare(vocabulary).to(device)
        self.vocabulary = vocabulary

    @contextmanager
    def using(self, vocabulary: Vocabulary, forms: PreparedForms) -> Iterator[None]:
        """For a while another vocabulary, whose forms were made by `prepare`."""
        before = self.vocabulary, self.forms
        self.vocabulary, self.forms = vocabulary, forms
        try:
            yield
        finally:
            self.vocabulary, self.forms = before

    def prepare(self, vocabulary: Vocabulary) -> PreparedForms:
        """The vocabulary's forms as tensors. Nothing of the model changes."""
        surface, forms = self._surface[0], None
        if surface is not None:
            forms = self.compiler.compile(vocabulary)
        return PreparedForms(
            words=len(vocabulary),
            strings=surface.features(forms) if surface is not None and forms is not None else None,
            relations=_segments(forms, "relations"),
            definition=_segments(forms, "definition"),
            **self._rows(vocabulary),
        )

    @property
    def is_open(self) -> bool:
        """Whether no parameter belongs to a word."""
        return not any(isinstance(module, WordTable) for module in self.modules())

    def _rows(self, vocabulary: Vocabulary) -> dict[str, Tensor | None]:
        if self.is_open or vocabulary.words == self.trained.words:
            return {}
        fallback = self.trained.index.get(UNKNOWN, len(self.trained))  # past the end: the mean of all rows
        rows = torch.tensor([self.trained.index.get(word, fallback) for word in vocabulary])
        unscored = torch.tensor([word not in self.trained for word in vocabulary])
        return {"rows": rows, "unscored": unscored if unscored.any() else None}

    # --- probabilities --------------------------------------------------------------------------------------------

    def embed(self) -> Embeddings:
        """E^in, E^out and b of the vocabulary. Words that the model cannot score have the bias -inf."""
        e_in = self.input(self.forms)
        e_out, bias = self.output(self.forms, e_in)
        if self.forms.unscored is not None:
            bias = bias.masked_fill(self.forms.unscored, float("-inf"))
        return Embeddings(e_in, e_out, bias)

    def read(self, embeddings: Embeddings, ids: Tensor, state: State) -> tuple[Prefixes, State]:
        """Read words. Shape: [T, B] -> [T, B, d], and the state behind them."""
        result: tuple[Prefixes, State] = self.prefix(embeddings.input[ids], state)
        return result

    def log_prob(self, embeddings: Embeddings, prefixes: Tensor, targets: Tensor) -> Tensor:
        """log p(target | prefix). Shape: [N, d], [N] -> [N]"""
        log_probs = -softmax.loss(prefixes, embeddings, targets)
        return self._mixed(log_probs)

    def log_probs(self, embeddings: Embeddings, prefixes: Tensor) -> Tensor:
        """log p of every word of the vocabulary. Shape: [N, d] -> [N, V]"""
        return self._mixed(softmax.logits(prefixes, embeddings).log_softmax(-1))

    def _mixed(self, log_probs: Tensor) -> Tensor:
        if self.forms.unscored is None:
            return log_probs
        return softmax.with_uniform(log_probs, self.uniform, len(self.vocabulary))

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def vocabulary_parameter_count(self) -> int:
        """How many parameters belong to single words."""
        return sum(module.weight.numel() for module in self.modules() if isinstance(module, WordTable))


def _grow(module: nn.Module, words: int) -> None:
    """Grow every table below the module; a part that has its own way of growing is asked itself."""
    for child in module.children():
        if isinstance(child, WordTable | AdaptiveInput):
            child.grow(words)
        else:
            _grow(child, words)


def _segments(forms: WordForms | None, name: str) -> Segments | None:
    if forms is None:
        return None
    lists = getattr(forms, name)
    return Segments(lists.index, lists.offsets, lists.scale, len(forms))


# --- building ---------------------------------------------------------------------------------------------------------


USES_CHARACTERS = ("groc", "convolutional")
USES_LEXICON = ("groc",)
"""The kinds of output embedding that look at the words' characters, and at what a lexicon says of them."""


def build(
    config: settings.Config, vocabulary: Vocabulary, lexicon: Lexicon | None = None, calibrate: bool = True
) -> LanguageModel:
    """A fresh model with start values drawn from torch's random numbers. Here settings become plain arguments.

    `calibrate` fits the start values of a composed embedding to the vocabulary; needless where weights are loaded.
    """
    surface = _surface(config) if config.output.kind in USES_CHARACTERS else None
    if config.output.kind not in USES_LEXICON:
        lexicon = Empty()
    compiler = FormsCompiler(
        lexicon if lexicon is not None else build_lexicon(config),
        config.forms.rules,
        config.forms.relations,
        config.forms.definition,
        config.forms.lower,
    )
    prefix = PrefixNetwork(
        config.model.dim,
        config.prefix.hidden,
        config.prefix.layers,
        config.prefix.input_dropout,
        config.prefix.hidden_dropout,
        config.prefix.output_dropout,
    )
    embeddings = _embeddings(config, len(vocabulary), surface)
    model = LanguageModel(*embeddings, prefix, vocabulary, compiler, surface, config.model.uniform)
    if calibrate and surface is not None and model.forms.strings is not None:
        surface.calibrate(model.forms.strings, config.model.start)
    return model


def _embeddings(config: settings.Config, words: int, surface: Surface | None) -> tuple[nn.Module, nn.Module]:
    """The input and the output embedding of the kind that the settings name."""
    dim, start, part = config.model.dim, config.model.start, config.output
    dropout = SharedDropout(part.dropout)
    network = outputs.ResidualNetwork(dim, part.depth, part.activation, dropout)
    match part.kind, surface:
        case "groc", Surface():
            # The dropped matrix is the input embedding too, so its dropout belongs to the input.
            bias = outputs.PredictedBias(dim, part.bias, part.bias_dropout)
            return GroundedInput(surface, dim, dropout), outputs.Grounded(network, bias)
        case "adaptive", _:
            adaptive = AdaptiveInput(words, dim, part.cutoffs, part.factor, start, dropout)
            return adaptive, outputs.Tied(words, SharedDropout(0.0))
        case "convolutional", Surface():
            output: nn.Module = outputs.Convolutional(surface, words, dim, part.correction, dropout)
        case "lookup", _:
            output = outputs.Lookup(words, dim, start, dropout)
        case "bilinear", _:
            output = outputs.Bilinear(words, dim, dropout)
        case "deep-residual", _:
            output = outputs.DeepResidual(words, network)
        case _:
            output = outputs.Tied(words, dropout)
    return WordTable(words, dim, start), output


def _surface(config: settings.Config) -> Surface:
    part, dim = config.surface, config.model.dim
    if part.kind == "cnn":
        return CharacterCNN(dim, part.characters, part.filters, part.highway, part.longest)
    return HashedNgrams(dim, part.buckets, part.rank, part.shortest_ngram, part.longest_ngram)


def build_lexicon(config: settings.Config) -> Lexicon:
    """The lexicon that the settings name."""
    part = config.forms
    lexicon: Lexicon
    if part.lexicon == "none":
        lexicon = Empty()
    elif part.lexicon == "wordnet":
        lexicon = WordNet.find()
    elif part.lexicon.endswith((".jsonl", ".tsv", ".csv")):
        lexicon = Glossary.read(part.lexicon)
    else:
        lexicon = WordNet.find(part.lexicon)
    if part.coverage < 1:
        lexicon = Coverage(lexicon, part.coverage, part.coverage_seed)
    if part.without:
        lexicon = Without(lexicon, relations="relations" in part.without, definitions="definitions" in part.without)
    return lexicon
