"""From prefix states and output embeddings to log-probabilities."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.nn.input import Embeddings


def logits(prefixes: Tensor, embeddings: Embeddings) -> Tensor:
    """Shape: [N, d] -> [N, V]"""
    return torch.addmm(embeddings.bias, prefixes, embeddings.output.T)


def loss(prefixes: Tensor, embeddings: Embeddings, targets: Tensor) -> Tensor:
    """-log p(target | prefix) of each. Shape: [N, d], [N] -> [N]"""
    return F.cross_entropy(logits(prefixes, embeddings), targets, reduction="none")


def with_uniform(log_probs: Tensor, share: float, words: int) -> Tensor:
    """Log-probabilities after mixing in a uniform distribution over `words`; `share` of the mass stays the model's."""
    model, uniform = torch.tensor([share, (1 - share) / words], dtype=torch.float64).log().tolist()  # log 0 is -inf
    return torch.logaddexp(log_probs + model, log_probs.new_tensor(uniform))
