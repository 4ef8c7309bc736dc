"""From prefix states and output embeddings to log-probabilities: by one softmax, or by a mixture of several."""

from __future__ import annotations

from functools import reduce
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.nn.cross_entropy import cross_entropy
from groc.nn.dropout import checked_rate
from groc.nn.embeddings import Embeddings


class Logits(Protocol):
    """All that a softmax needs of a word list (see `WordVectors`)."""

    def logits(self, prefixes: Tensor) -> Tensor:
        """The score of every word behind each prefix. Shape: [N, d] -> [N, V]"""
        ...


def loss(prefixes: Tensor, embeddings: Logits, targets: Tensor, compiled: bool = False) -> Tensor:
    """-log p(target | prefix) of each, by one softmax. Shape: [N, d], [N] -> [N]"""
    if _in_bfloat16(prefixes.device.type) and isinstance(embeddings, Embeddings):
        return cross_entropy(prefixes, embeddings.output, embeddings.bias, targets, compiled)
    return F.cross_entropy(embeddings.logits(prefixes), targets, reduction="none")


def _in_bfloat16(device: str) -> bool:
    return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16


class Softmax(nn.Module):
    """p = softmax(E^out h + b)."""

    at_once = 1
    """How many scores a loss makes of a word behind a prefix."""
    compiled = False
    """Whether the loss in bfloat16 is compiled."""

    def loss(self, prefixes: Tensor, embeddings: Logits, targets: Tensor) -> Tensor:
        """-log p(target | prefix) of each. Shape: [N, d], [N] -> [N]"""
        return loss(prefixes, embeddings, targets, self.compiled)

    def scores(self, prefixes: Tensor, embeddings: Logits) -> Tensor:
        """A score of every word behind each prefix, of which the softmax is p. Shape: [N, d] -> [N, V]"""
        return embeddings.logits(prefixes)


class Mixture(Softmax):
    """p = sum over k of pi_k(h) softmax(E^out tanh(W_k h + a_k) + b) (Yang et al. 2018).

    All softmaxes have the same words, so that nothing here depends on the vocabulary.
    """

    def __init__(self, dim: int, softmaxes: int, dropout: float) -> None:
        super().__init__()
        self.weights = nn.Linear(dim, softmaxes, bias=False)
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(softmaxes))
        self.at_once = softmaxes
        self.dropout = nn.Dropout(checked_rate(dropout))

    def loss(self, prefixes: Tensor, embeddings: Logits, targets: Tensor) -> Tensor:
        """All softmaxes at once: one product with the words instead of many small ones."""
        views = torch.cat([self._view(each, prefixes) for each in self.maps])
        losses = loss(views, embeddings, targets.repeat(len(self.maps)), self.compiled).view(len(self.maps), -1)
        return -(self._log_weights(prefixes).T - losses).logsumexp(0)

    def scores(self, prefixes: Tensor, embeddings: Logits) -> Tensor:
        """These scores are log-probabilities themselves. One softmax after the other, so that what is held at once does
        not grow with their number."""
        parts = (
            embeddings.logits(self._view(each, prefixes)).log_softmax(-1) + log_weight[:, None]
            for each, log_weight in zip(self.maps, self._log_weights(prefixes).unbind(1), strict=True)
        )
        return reduce(_log_add, parts)

    def _log_weights(self, prefixes: Tensor) -> Tensor:
        """log pi. Shape: [N, d] -> [N, k]"""
        log_weights: Tensor = self.weights(prefixes).log_softmax(-1)
        return log_weights

    def _view(self, each: nn.Module, prefixes: Tensor) -> Tensor:
        view: Tensor = self.dropout(torch.tanh(each(prefixes)))
        return view


def _log_add(one: Tensor, other: Tensor) -> Tensor:
    """log(exp(one) + exp(other)), of which the gradient is 0 where both are -inf, as for a word that a closed model has
    no row for. That of `torch.logaddexp` is not a number there."""
    neither = one.isneginf() & other.isneginf()
    both = torch.logaddexp(one.masked_fill(neither, 0.0), other.masked_fill(neither, 0.0))
    return both.masked_fill(neither, float("-inf"))


def with_uniform(log_probs: Tensor, share: float, words: int) -> Tensor:
    """Log-probabilities after mixing in a uniform distribution over `words`; `share` of the mass stays the model's."""
    model, uniform = torch.tensor([share, (1 - share) / words], dtype=torch.float64).log().tolist()  # log 0 is -inf
    return torch.logaddexp(log_probs + model, log_probs.new_full((), uniform))  # `new_tensor` could not be recorded
