"""The glossaries of the service's clients, and the models that know them."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.lexicon.terms import Term
from groc.model import LanguageModel
from groc.playground.limits import Limits, check_glossary

Terms = Mapping[str, Term]


@dataclass(frozen=True)
class Taught:
    """A glossary and, for each run, a model with its terms. Never changed: readers may hold on to it."""

    terms: Terms
    models: Mapping[str, LanguageModel]


class Glossaries:
    """From unguessable ids to glossaries. To change one is to put another in its place, by one thread at a time."""

    def __init__(
        self,
        models: Mapping[str, LanguageModel],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._limits = limits
        self._clock = clock
        self._kept: OrderedDict[str, tuple[Taught, float]] = OrderedDict()  # with the time of last use, oldest first
        self._lock = threading.Lock()

    def get(self, key: str) -> Taught:
        with self._lock:
            return self._use(key)

    def create(self, terms: Iterable[Term]) -> tuple[str, Taught]:
        key, taught = secrets.token_urlsafe(16), self._teach(_distinct(terms))
        with self._lock:
            self._put(key, taught)
            self._forget()
        return key, taught

    def replace(self, key: str, terms: Iterable[Term]) -> Taught:
        self.get(key)
        return self._change(key, self._teach(_distinct(terms)))

    def add(self, key: str, terms: Iterable[Term]) -> Taught:
        """Add terms, or give terms that are there another meaning."""
        before, new = self.get(key), _distinct(terms)
        return self._change(key, self._teach({**before.terms, **new}, before.models, new))

    def remove(self, key: str, word: str) -> Taught:
        before = self.get(key).terms
        if word not in before:
            raise HTTPException(404, f"The glossary has no term {word!r}.")
        # Taught from the start: a word of training that the glossary redefined means again what it meant.
        return self._change(key, self._teach({name: term for name, term in before.items() if name != word}))

    def delete(self, key: str) -> None:
        with self._lock:
            self._use(key)
            del self._kept[key]

    def _teach(
        self, terms: Terms, models: Mapping[str, LanguageModel] | None = None, new: Terms | None = None
    ) -> Taught:
        """Models that know these terms; `models` may know all but the `new` ones already."""
        check_glossary(terms.values())
        glossary, fresh = _glossary(terms), _glossary(terms if new is None else new)
        taught = {name: model.copy() for name, model in (models or self._models).items()}
        for model in taught.values():
            glossary.as_words(model.compiler.lower)  # refuses terms that are one word to this model
            model.add_words(fresh)
        return Taught(terms, taught)

    def _change(self, key: str, taught: Taught) -> Taught:
        with self._lock:
            self._use(key)  # it may have gone while the models were taught
            self._put(key, taught)
        return taught

    # Whoever calls what follows holds the lock.

    def _use(self, key: str) -> Taught:
        self._forget()
        if key not in self._kept:
            raise HTTPException(404, "There is no such glossary, or no longer: make it with POST /api/glossaries.")
        taught, _ = self._kept[key]
        self._put(key, taught)
        return taught

    def _put(self, key: str, taught: Taught) -> None:
        self._kept[key] = taught, self._clock()
        self._kept.move_to_end(key)

    def _forget(self) -> None:
        oldest = self._clock() - self._limits.idle
        while self._kept:
            key, (_, used) = next(iter(self._kept.items()))
            if used >= oldest and len(self._kept) <= self._limits.glossaries:
                break
            del self._kept[key]


def _distinct(terms: Iterable[Term]) -> dict[str, Term]:
    by_word: dict[str, Term] = {}
    for term in terms:
        if term.word in by_word:
            raise GrocError(f"The term {term.word!r} stands twice in the glossary: remove one of the two.")
        by_word[term.word] = term
    return by_word


def _glossary(terms: Terms) -> Glossary:
    return Glossary({term.word: (term.definition, term.related) for term in terms.values()})
