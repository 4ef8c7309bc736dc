"""The word list of a model: which words it chooses among, which it was trained on, and what it is told of each."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from groc.errors import GrocError
from groc.forms import FormsCompiler
from groc.keeping import KeepsVectors
from groc.lexicon import Chain, Glossary, Lexicon
from groc.nn.embeddings import Embeddings
from groc.nn.input import PreparedForms, has_words
from groc.rules import Selected
from groc.vocabulary import Vocabulary


class HasWords(KeepsVectors):
    """Words can be set, added, redefined and removed. Nothing is trained, and kept vectors of other words stay."""

    def __init__(self, vocabulary: Vocabulary, compiler: FormsCompiler) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._forms: PreparedForms | None = None
        self.trained = vocabulary
        self._taught = Glossary({}, exact=True)
        self._compiler = compiler
        self._grounded: frozenset[str] = frozenset()
        """Words with vectors that came with the model, into which entries went that no lexicon here may have."""
        self.mixes_uniform = False
        """Whether the vocabulary holds words that a closed model can give nothing but even odds."""

    def _compose(self, words: Sequence[str]) -> Embeddings:
        """The vectors of these words."""
        raise NotImplementedError

    def _grow(self, trained: Vocabulary) -> None:
        """Give words of training that have no rows yet random ones."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model chooses among. To assign others is to call `set_vocabulary`."""
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary) -> None:
        self.set_vocabulary(vocabulary)

    @property
    def taught(self) -> Glossary:
        """The terms that `add_words` was given with what they mean."""
        return self._taught

    @property
    def trained(self) -> Vocabulary:
        """The vocabulary of training, whose words have rows in the tables of a closed model."""
        return self._trained

    @trained.setter
    def trained(self, vocabulary: Vocabulary) -> None:
        self._trained = vocabulary
        self._forms = self._kept = None  # counts go into biases

    @property
    def compiler(self) -> FormsCompiler:
        """What says of each word what the model is told of it, unless it was taught something else: see `teller`."""
        return self._compiler

    @compiler.setter
    def compiler(self, compiler: FormsCompiler) -> None:
        if compiler != self._compiler:  # else vectors that came with the model, and no lexicon here could give, stay
            self._compiler = compiler
            self._forms = self._kept = None
            self._grounded = frozenset()  # whoever takes another lexicon has chosen what is known

    @property
    def teller(self) -> FormsCompiler:
        """The compiler, behind what was taught: what says of each word what the model is told of it, all in all."""
        if not len(self.taught):
            return self.compiler
        return replace(self.compiler, lexicon=Chain(self.taught, self.compiler.lexicon))

    def set_vocabulary(self, vocabulary: Vocabulary, *, grow: bool = False) -> None:
        """Use this vocabulary from now on. `grow` gives a closed model random rows for its new words."""
        if not isinstance(vocabulary, Vocabulary):
            raise GrocError(
                "A model takes a Vocabulary: write model.vocabulary.union(words) to add words to its own, or "
                "groc.Vocabulary(['<eos>', *words]) for these alone."
            )
        if grow and not self.is_open:
            self._grow(self.trained.union(vocabulary))
        self._change(vocabulary)

    def add_words(self, words: Iterable[str] | Glossary) -> None:
        """Add words to the list, with what a glossary says of them or else what the lexicon knows.

        Only these words are composed; nothing is trained. A word that is there already takes its new meaning from a
        glossary. Terms of several words become one (see `Glossary.as_words`).
        """
        if isinstance(words, Mapping):
            raise GrocError("Words with definitions are a Glossary: write Glossary({word: (definition, [related])}).")
        if isinstance(words, Glossary):
            words = words.as_words(self.compiler.lower)
            vocabulary = self.vocabulary.union(words)
            redefined = [word for word in words if word in self.vocabulary]
            self._taught = self.taught.joined(words)
            self._change(vocabulary, redefined)
        else:
            self._change(self.vocabulary.union(self._as_read(words)))

    def remove_words(self, words: Iterable[str]) -> None:
        """Take words off the list, and forget what was taught of them."""
        words = self._as_read(words)
        vocabulary = self.vocabulary.without(words)
        self._taught = self.taught.without(words)
        self._change(vocabulary)

    def _as_read(self, words: Iterable[str]) -> list[str]:
        if isinstance(words, str):
            raise GrocError(f"{words!r} is one word where a list of words belongs: write [{words!r}].")
        if not isinstance(words, Iterable):
            raise GrocError(f"{words!r} is no list of words.")
        words = list(words)
        if wrong := [word for word in words if not isinstance(word, str)]:
            raise GrocError(f"{wrong[0]!r} is no word: words are texts.")
        return [self.taught.spelt(word.lower() if self.compiler.lower else word) for word in words]

    def in_lexicon(self, word: str) -> bool:
        """Whether the lexicon or a glossary says anything of the word."""
        if self.teller.select(word) != Selected():
            return True
        return word in self._grounded and word not in self.taught and self._still_kept() is not None

    def tell_of_new_words(self, lexicon: Lexicon, taught: Glossary | None = None) -> None:
        """Take another lexicon for words that are added from now on, and if they are given, other terms as what was
        taught. They must say the same of the words that are there: these are not composed anew."""
        self._compiler = replace(self.compiler, lexicon=lexicon)
        self._taught = self.taught if taught is None else taught
        self._grounded = self._grounded.intersection(self.vocabulary)
        if self._kept is not None:
            self._kept = self._kept.with_another_lexicon()

    def warn_of_loss(self, words: Iterable[str]) -> None:
        """Warn if words of which nothing is told have vectors that came with the model and know what a lexicon said of
        them: composed anew, now or from where they are saved, they are known by their characters alone."""
        if lost := sum(word in self._grounded and word not in self.taught for word in words):
            warnings.warn(
                f"{lost:,} words lose what a lexicon said of them. It went into vectors that came with the model; the "
                "lexicon is not here, so composed anew these words are known by their characters alone. Load the model "
                "with the lexicon of its training (WordNet: 'groc lexicon install').",
                stacklevel=2,
            )

    @property
    def is_open(self) -> bool:
        """Whether no parameter belongs to a word."""
        return not has_words(self)

    def _change(self, vocabulary: Vocabulary, redefined: Collection[str] = ()) -> None:
        kept = self._still_kept()
        if kept is not None and not self.compiler.needs_vocabulary:
            with torch.inference_mode(False):  # whoever asks: what is kept may be read where gradients are wanted
                self._kept = kept.change(vocabulary, self._compose, redefined, self.taught)
        else:
            self._kept = None
        self._vocabulary = vocabulary
        self._forms = None
        self.mixes_uniform = self._has_unscored(vocabulary)

    def _has_unscored(self, vocabulary: Vocabulary) -> bool:
        return not self.is_open and any(word not in self.trained for word in vocabulary)
