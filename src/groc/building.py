"""From settings to a model: here, and nowhere else, settings become plain arguments."""

from __future__ import annotations

from torch import nn

from groc import config as settings
from groc.forms import FormsCompiler
from groc.lexicon import Chain, Coverage, Empty, Glossary, Lexicon, Without, WordNet
from groc.model import LanguageModel
from groc.nn import output as outputs
from groc.nn.cnn import CharacterCNN
from groc.nn.dropout import SharedDropout
from groc.nn.input import AdaptiveInput, FormsDropout, GroundedInput, WordTable
from groc.nn.ngrams import HashedNgrams
from groc.nn.prefix import PrefixNetwork
from groc.nn.softmax import Mixture, Softmax
from groc.nn.surface import Surface
from groc.vocabulary import Vocabulary

USES_CHARACTERS = ("groc", "convolutional")
USES_LEXICON = ("groc",)
USES_NETWORK = ("groc", "deep-residual")
"""The kinds of output embedding that look at the words' characters, at what a lexicon says of them, and that have a
network behind the words' vectors."""


def build(
    config: settings.Config, vocabulary: Vocabulary, lexicon: Lexicon | None = None, calibrate: bool = True
) -> LanguageModel:
    """A fresh model with start values drawn from torch's random numbers.

    `calibrate` fits start values of composed embeddings and of biases to the vocabulary; needless where weights are
    loaded.
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
        config.prefix.weight_dropout,
        config.prefix.word_dropout,
        _softmax(config),
        config.prefix.gate_rounds,
        config.prefix.gate_rank,
    )
    embeddings = _embeddings(config, len(vocabulary), surface)
    model = LanguageModel(*embeddings, prefix, vocabulary, compiler, surface, config.model.uniform)
    if calibrate and surface is not None:
        model.remember_strings()
        surface.calibrate(model.forms.strings, config.model.start)
    if calibrate and config.output.count_bias:
        for part in model.output.modules():
            if isinstance(part, outputs.BiasTable):
                part.calibrate(vocabulary.counts)
    return model


def _embeddings(config: settings.Config, words: int, surface: Surface | None) -> tuple[nn.Module, nn.Module]:
    """The input and the output embedding of the kind that the settings name."""
    dim, start, part = config.model.dim, config.model.start, config.output
    dropout = SharedDropout(part.dropout)

    def network() -> outputs.ResidualNetwork:
        return outputs.ResidualNetwork(dim, part.depth, part.activation, dropout)

    match part.kind, surface:
        case "groc", Surface():
            # The dropped matrix is the input embedding too, so its dropout belongs to the input.
            over = network()
            bias = outputs.PredictedBias(dim, part.bias, part.bias_dropout)
            forms_dropout = FormsDropout(
                config.forms.surface_dropout, config.forms.relations_dropout, config.forms.definition_dropout
            )
            grounded = GroundedInput(surface, dim, forms_dropout, dropout, config.forms.centred)
            return grounded, outputs.Grounded(over, bias, part.count_bias)
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
            output = outputs.DeepResidual(words, network())
        case _:
            output = outputs.Tied(words, dropout)
    return WordTable(words, dim, start), output


def _surface(config: settings.Config) -> Surface:
    part, dim = config.surface, config.model.dim
    if part.kind == "cnn":
        return CharacterCNN(dim, part.characters, part.filters, part.highway, part.longest)
    return HashedNgrams(
        dim, part.buckets, part.rank, part.shortest_ngram, part.longest_ngram, part.hashes, part.familiar
    )


def _softmax(config: settings.Config) -> Softmax:
    part = config.output
    return Mixture(config.model.dim, part.mixtures, part.mixture_dropout) if part.mixtures > 1 else Softmax()


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
    if part.glossary:
        lexicon = Chain(Glossary.read(part.glossary).as_words(part.lower), lexicon)
    if part.coverage < 1:
        lexicon = Coverage(lexicon, part.coverage, part.coverage_seed)
    if part.without:
        lexicon = Without(lexicon, relations="relations" in part.without, definitions="definitions" in part.without)
    return lexicon
