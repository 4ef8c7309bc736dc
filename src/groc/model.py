"""The language model: an input embedding, a prefix network and an output embedding over a vocabulary of the moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from groc.compute import full_float32
from groc.forms import FormsCompiler, WordForms
from groc.kept import KeptVectors, Noted
from groc.nn import softmax
from groc.nn.dropout import evaluating
from groc.nn.embeddings import Embeddings, WordVectors
from groc.nn.input import GroundedInput, PreparedForms, WordTable, grow_tables
from groc.nn.output import Grounded
from groc.nn.prefix import Prefixes, PrefixNetwork, State
from groc.nn.segments import Segments
from groc.nn.surface import Surface
from groc.vocabulary import UNKNOWN, Vocabulary
from groc.words import HasWords

if TYPE_CHECKING:
    from groc.explain import Explanation
    from groc.generate import Generated
    from groc.suggest import Suggestion
    from groc.surprisal import WordScore


class LanguageModel(HasWords):
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
        super().__init__(vocabulary, compiler)
        self.input = input_embedding
        self.prefix = prefix
        self.output = output_embedding
        self.uniform = uniform
        self._surface = [surface]  # in a list: the module that uses it owns its parameters
        self._noted = Noted([])

    # --- words and their forms ------------------------------------------------------------------------------------

    def copy(self) -> LanguageModel:
        """A model with the same weights, not copied but shared, and a word list of its own. Takes no time."""
        twin = copy(self)
        twin._modules = dict(self._modules)
        return twin

    @contextmanager
    def using(self, vocabulary: Vocabulary, forms: PreparedForms) -> Iterator[None]:
        """For a while another vocabulary, whose forms were made by `prepare`."""
        names = "_vocabulary", "_forms", "_noted", "_kept", "_grounded", "mixes_uniform"
        before = {name: getattr(self, name) for name in names}
        self._vocabulary, self._forms, self._noted, self._kept = vocabulary, forms, Noted(self._beside_weights()), None
        self.mixes_uniform = self._has_unscored(vocabulary)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def prepare(self, vocabulary: Vocabulary) -> PreparedForms:
        """The vocabulary's forms as tensors. Nothing of the model changes."""
        return self.prepare_forms(vocabulary.words, self._compiled(vocabulary) if self._surface[0] else None)

    def prepare_forms(self, words: Sequence[str], forms: WordForms | None) -> PreparedForms:
        """Compiled forms of these words as the tensors that the embeddings take."""
        surface = self._surface[0]
        strings = surface.features(forms) if surface is not None and forms is not None else None
        if strings is not None and not isinstance(self.input, GroundedInput):
            # The characters of the words are all that is read, so strings of entries are not encoded either.
            strings, forms = strings.take(torch.arange(len(words))), None
        return PreparedForms(
            words=len(words),
            strings=strings,
            relations=_segments(forms, "relations"),
            definition=_segments(forms, "definition"),
            log_shares=self.log_shares(words),
            **self._rows(words),
        ).to(self.device)

    def remember_strings(self) -> None:
        """Note the strings of the words of training, and of what is said of them."""
        if self._surface[0] is not None:
            forms = self._compiled(self.trained)
            self._surface[0].remember(forms)
            self._forms = None
            if self.vocabulary is self.trained:
                self._forms, self._noted = self.prepare_forms(self.trained.words, forms), Noted(self._beside_weights())

    def _compiled(self, vocabulary: Vocabulary) -> WordForms:
        forms = self.teller.compile(vocabulary)
        told = forms.relations.present | forms.definition.present
        self.warn_of_loss(word for word, anything in zip(vocabulary, told.tolist(), strict=True) if not anything)
        return forms

    def log_shares(self, words: Sequence[str]) -> Tensor | None:
        """The logarithm of each word's share of the training text, if the model's biases know of it. A word that it did
        not have counts for half of one."""
        if not isinstance(self.output, Grounded) or self.output.frequency is None:
            return None
        counts = self.trained.counts_of(words)
        return torch.from_numpy(np.log((counts + 0.5) / max(self.trained.counts.sum(), 1))).float()

    @property
    def forms(self) -> PreparedForms:
        """The forms of the vocabulary, made when they are first needed; and made anew where what strings training had,
        which comes with the weights, is another since (else kept, since a million of them take a while)."""
        if self._forms is None or not self._noted.holds(self._beside_weights()):
            self._forms, self._noted = self.prepare(self.vocabulary), Noted(self._beside_weights())
        return self._forms

    @property
    def composes(self) -> bool:
        """Whether characters of words are encoded."""
        return self._surface[0] is not None

    def _grow(self, trained: Vocabulary) -> None:
        # In tables of its own: other models may share these, whose words stay as many as they are.
        self.input, self.output, self._surface = deepcopy((self.input, self.output, self._surface))
        grow_tables(self, len(trained) - len(self.trained))
        self.trained = trained

    def _rows(self, words: Sequence[str]) -> dict[str, Tensor | None]:
        if self.is_open or words == self.trained.words:
            return {}
        fallback = self.trained.index.get(UNKNOWN, len(self.trained))  # past the end: the mean of all rows
        rows = torch.tensor([self.trained.index.get(word, fallback) for word in words])
        unscored = torch.tensor([word not in self.trained for word in words])
        return {"rows": rows, "unscored": unscored if unscored.any() else None}

    # --- probabilities --------------------------------------------------------------------------------------------

    def embed(self) -> Embeddings:
        """E^in, E^out and b of the vocabulary, with gradients. Words that the model cannot score have the bias -inf."""
        return self.embed_forms(self.forms)

    def embed_forms(self, forms: PreparedForms) -> Embeddings:
        """E^in, E^out and b of the words that have these forms."""
        e_in = self.input(forms)
        e_out, bias = self.output(forms, e_in)
        if forms.unscored is not None:
            bias = bias.masked_fill(forms.unscored, float("-inf"))
        return Embeddings(e_in, e_out, bias)

    @property
    def embeddings(self) -> WordVectors:
        """E^in, E^out and b of the vocabulary, for reading: without gradients or dropout, and kept until weights or
        words change. (Writes into a weight's `.data` go unnoticed: write to the weight itself under `torch.no_grad()`.)
        """
        kept = self._still_kept()
        if kept is None:
            with torch.inference_mode(False), torch.no_grad(), evaluating(self), full_float32():
                kept = KeptVectors.of(self._stamp(), self.vocabulary, self.embed(), self.taught)
            self._kept, self._grounded = kept, frozenset()
        return kept.vectors

    def keep(self, e_in: Tensor, grounded: Sequence[bool]) -> None:
        """Take these input embeddings as those of the vocabulary, in place of composing them; `grounded` says which of
        them a lexicon's entry went into."""
        with torch.no_grad(), evaluating(self), full_float32():
            forms = PreparedForms(len(e_in), log_shares=self.log_shares(self.vocabulary.words)).to(self.device)
            table = Embeddings(e_in, *self.output(forms, e_in))
        self._kept = KeptVectors.of(self._stamp(), self.vocabulary, table)
        self._grounded = frozenset(word for word, entry in zip(self.vocabulary, grounded, strict=True) if entry)

    def _compose(self, words: Sequence[str]) -> Embeddings:
        forms = self.teller.compile_words(words) if self._surface[0] else None
        with torch.no_grad(), evaluating(self), full_float32():
            return self.embed_forms(self.prepare_forms(words, forms))

    def _beside_weights(self) -> list[Tensor]:
        """What the surface encoder keeps beside its weights."""
        surface: Any = self._surface[0]
        return [] if surface is None else list(surface.buffers())

    def read(self, embeddings: WordVectors, ids: Tensor, state: State) -> tuple[Prefixes, State]:
        """Read words. Shape: [T, B] -> [T, B, d], and the state behind them."""
        rows = self.prefix.word_dropout(embeddings.rows(ids), ids, len(embeddings))
        result: tuple[Prefixes, State] = self.prefix(rows, state)
        return result

    def log_prob(self, embeddings: WordVectors, prefixes: Tensor, targets: Tensor) -> Tensor:
        """log p(target | prefix). Shape: [N, d], [N] -> [N]"""
        return self._mixed(-self.prefix.softmax.loss(prefixes, embeddings, targets))

    def log_probs(self, embeddings: WordVectors, prefixes: Tensor) -> Tensor:
        """log p of every word of the vocabulary. Shape: [N, d] -> [N, V]"""
        return self._mixed(self.prefix.softmax.scores(prefixes, embeddings).log_softmax(-1))

    def _mixed(self, log_probs: Tensor) -> Tensor:
        if not self.mixes_uniform:
            return log_probs
        return softmax.with_uniform(log_probs, self.uniform, len(self.vocabulary))

    # --- daily use: each a module of its own ----------------------------------------------------------------------

    @overload
    def score(self, text: str, **options: Any) -> list[WordScore]: ...

    @overload
    def score(self, text: Sequence[str], **options: Any) -> list[list[WordScore]]: ...

    def score(self, text: str | Sequence[str], **options: Any) -> list[WordScore] | list[list[WordScore]]:
        """Surprisal and more of each word of a text, or of each of several texts: see `groc.surprisal.score_texts`."""
        from groc.surprisal import score_texts

        return score_texts(self, [text], **options)[0] if isinstance(text, str) else score_texts(self, text, **options)

    def next(self, text: str = "", limit: int = 10, **options: Any) -> list[Suggestion]:
        """The words that may come next: see `groc.suggest.next_words`."""
        from groc.suggest import next_words

        return next_words(self, text, limit, **options)

    def generate(self, text: str = "", **options: Any) -> Iterator[Generated]:
        """Go on with a text, word by word: see `groc.generate.generate`."""
        from groc.generate import generate

        return generate(self, text, **options)

    def explain(self, word: str, **options: Any) -> Explanation:
        """What the model knows of a word, and what each form contributes: see `groc.explain.explain`."""
        from groc.explain import explain

        return explain(self, word, **options)

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def vocabulary_parameter_count(self) -> int:
        """How many parameters belong to single words."""
        return sum(module.weight.numel() for module in self.modules() if isinstance(module, WordTable))


def _segments(forms: WordForms | None, name: str) -> Segments | None:
    if forms is None:
        return None
    lists = getattr(forms, name)
    return Segments.of(lists.index, lists.offsets, lists.scale, len(forms))
