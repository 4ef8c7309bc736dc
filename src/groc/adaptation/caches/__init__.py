"""What a model's scores of a text gain from the text itself: words that were read come again.

A cache remembers the words of a text as they are read, and says how much each speaks for the next one. It is for one
text: what it has read stays with it. It corrects the scores of any model:

    correction = Chain(NewWords(1.0, 0.2), Learned(LocalCache(10.0, 10_000, recency=100, likeness="angle")))
    score(model, ids, correction=correction)
"""

from groc.adaptation.caches.correction import Cache, Chain, Interpolated, Joined, Learned, NewWords, Weights
from groc.adaptation.caches.local import LocalCache
from groc.adaptation.caches.neighbours import ExactNeighbours, FaissNeighbours, Neighbours
from groc.adaptation.caches.unbounded import UnboundedCache
from groc.adaptation.caches.unigram import Unigram

__all__ = [
    "Cache",
    "Chain",
    "ExactNeighbours",
    "FaissNeighbours",
    "Interpolated",
    "Joined",
    "Learned",
    "LocalCache",
    "Neighbours",
    "NewWords",
    "UnboundedCache",
    "Unigram",
    "Weights",
]
