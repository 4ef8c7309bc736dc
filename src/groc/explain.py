"""What a model makes of a word: its forms, the words nearest to it, and what each form contributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.compute import full_float32
from groc.context import Context, as_read, read_context, with_words
from groc.errors import GrocError
from groc.lexicon import Empty
from groc.model import LanguageModel
from groc.nn.dropout import evaluating
from groc.nn.embeddings import WordVectors
from groc.nn.input import GroundedInput, PreparedForms
from groc.rules import Selected, rules_named
from groc.scoring import in_bits
from groc.suggest import nearest_known
from groc.text import check_text
from groc.vocabulary import SEPARATOR


@dataclass(frozen=True, slots=True)
class Part:
    """A form of the word, and what changes when it is left out."""

    form: str
    """surface, relation or definition."""
    word: str
    """What is left out: one word, or all relations or the whole definition with spaces between their words."""
    change: float
    """1 - cosine of the output embeddings with it and without it: 0 where it changes nothing."""
    bits: float | None
    """By how much the word's surprisal in the context is larger without it (below 0: smaller). None without a
    context."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All there is to say of a word."""

    word: str
    seen: bool
    """Whether training had the word."""
    relations: tuple[str, ...]
    definition: tuple[str, ...]
    """The words that it is composed from, besides its characters."""
    nearest: list[tuple[str, float]]
    """The trained words most like it, the best first, with the cosines of their output embeddings."""
    parts: list[Part]
    """The surface, all relations, each of them, the whole definition, each of its words."""
    probability: float | None
    surprisal: float | None
    rank: int | None
    """In the context; surprisal in bits, rank 1 if no word is more probable. None without a context."""
    context: str | None


def explain(model: LanguageModel, word: str, *, context: str | None = None, limit: int = 10) -> Explanation:
    """What the model makes of any word, known or new, and of its place behind a context ("": at the start of a text).

    Each form is left out in turn; the context is read with all of them. A closed model composes nothing, so there are
    no forms and parts, and a word that it has no row for is like no other. Nor are there parts where a word's vector
    came with the model and the lexicon it was composed from is not here.
    """
    check_text(word, "The word")
    word = model.taught.spelt(word.lower() if model.compiler.lower else word)
    if not word or SEPARATOR.search(word):
        raise GrocError(f"{word!r} is not one word: give one, with the parts of a longer term joined, as in hot_dog.")
    [word] = as_read(model, [word])
    place = None if context is None else read_context(model, context, words=[word])
    model = with_words(model, [word]) if place is None else place.model
    forms = _forms(model, word) if model.is_open else Selected()
    composed_here = model.is_open and (forms != Selected() or not model.in_lexicon(word))
    log_prob = rank = None
    if place is not None:
        log_probs = place.log_probs()
        log_prob = float(log_probs[model.vocabulary.index[word]])
        rank = 1 + int((log_probs > log_prob).sum())
    return Explanation(
        word=word,
        seen=word in model.trained.seen,
        relations=forms.relations,
        definition=forms.definition,
        nearest=nearest_known(model, [word], limit)[0],
        parts=_parts(model, word, forms, place) if composed_here else [],
        probability=None if log_prob is None else math.exp(log_prob),
        surprisal=None if log_prob is None else in_bits(log_prob),
        rank=rank,
        context=context,
    )


def _forms(model: LanguageModel, word: str) -> Selected:
    """The words that the model reads of the word's entry."""
    compiler, rules = model.teller, rules_named(model.compiler.rules)
    selected = compiler.select(word)
    relations, definition = (
        tuple(form for form in words if rules.allows(form, model.vocabulary))
        for words in (selected.relations, selected.definition)
    )
    return Selected(relations[: compiler.max_relations], definition[: compiler.max_definition])


def _parts(model: LanguageModel, word: str, forms: Selected, place: Context | None) -> list[Part]:
    """The surface is form 0, then come the relations, then the words of the definition."""
    names = [word, *forms.relations, *forms.definition]
    first = 1 + len(forms.relations)
    left_out: list[tuple[str, range]] = [("surface", range(1))]
    for form, group in (("relation", range(1, first)), ("definition", range(first, len(names)))):
        left_out += [(form, group)] if len(group) > 1 else []
        left_out += [(form, range(one, one + 1)) for one in group]
    kept = torch.ones(1 + len(left_out), len(names))  # one row a variant, the first with all forms
    for variant, (_, gone) in enumerate(left_out, 1):
        kept[variant, list(gone)] = 0.0
    e_out, bias = _compose(model, names, first, kept.to(model.device))
    changes = 1 - F.cosine_similarity(e_out[:1], e_out[1:])
    bits = [None] * len(left_out) if place is None else _bits(place, word, e_out, bias)
    return [
        Part(form, " ".join(names[i] for i in gone), *change)
        for (form, gone), *change in zip(left_out, changes.tolist(), bits, strict=True)
    ]


@torch.inference_mode()
@full_float32()
def _compose(model: LanguageModel, names: list[str], first: int, kept: Tensor) -> tuple[Tensor, Tensor]:
    """E^out and b of all variants of a word in one batch. Shape: [variants, forms] -> [variants, d], [variants]"""
    grounded, compiler = model.input, model.compiler
    assert isinstance(grounded, GroundedInput)
    strings = {name: i for i, name in enumerate(dict.fromkeys(names))}
    characters = replace(compiler, lexicon=Empty()).compile_words(strings)
    surface = grounded.surface(model.prepare_forms(list(strings), characters).strings)  # [strings, d]
    vectors = surface[[strings[name] for name in names]]  # [forms, d]

    def mean(some: slice, limit: int) -> Tensor:
        count = kept[:, some].sum(1, keepdim=True).clamp(min=1)
        return kept[:, some] @ vectors[some] / (max(limit, 1) if rules_named(compiler.rules).mean_over_limit else count)

    spans = slice(1, first), slice(first, None)
    entries: Sequence[Tensor] = [
        mean(some, limit) for some, limit in zip(spans, (compiler.max_relations, compiler.max_definition), strict=True)
    ]
    if grounded.usual is not None:
        there = [kept[:, some].any(1, keepdim=True) for some in spans]
        entries = grounded.usual(entries, there, grounded.surface.basis)
    e_in = grounded.combination(torch.cat([kept[:, :1] @ vectors[:1], *entries], -1))
    with evaluating(model):
        shares = model.log_shares(names[:1])
        forms = PreparedForms(len(e_in), log_shares=None if shares is None else shares.expand(len(e_in)))
        e_out, bias = model.output(forms.to(model.device), e_in)
    return e_out, bias


@torch.inference_mode()
@full_float32()
def _bits(place: Context, word: str, e_out: Tensor, bias: Tensor) -> list[float]:
    """How much larger the word's surprisal is by each variant than by the first, among the same other words."""
    model, index = place.model, place.model.vocabulary.index[word]
    variants = _Variants(model.embeddings, index, e_out, bias)
    scores = model.prefix.softmax.scores(place.prefix.expand(len(e_out), -1), variants)
    log_prob = scores.log_softmax(-1)[:, index]
    bits: list[float] = ((log_prob[0] - log_prob[1:]) / math.log(2)).tolist()
    return bits


@dataclass(frozen=True)
class _Variants:
    """The vectors of a word list, in which one word has another vector and bias behind each of the prefixes."""

    vectors: WordVectors
    index: int
    output: Tensor
    bias: Tensor

    def logits(self, prefixes: Tensor) -> Tensor:
        own = (prefixes * self.output).sum(-1) + self.bias
        return self.vectors.logits(prefixes).index_copy(1, torch.tensor([self.index]).to(own.device), own[:, None])
