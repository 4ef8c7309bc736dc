"""From prefix states and output embeddings to log-probabilities."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.nn.embeddings import WordVectors


def loss(prefixes: Tensor, embeddings: WordVectors, targets: Tensor) -> Tensor:
    """-log p(target | prefix) of each. Shape: [N, d], [N] -> [N]"""
    return F.cross_entropy(embeddings.logits(prefixes), targets, reduction="none")


def with_uniform(log_probs: Tensor, share: float, words: int) -> Tensor:
    """Log-probabilities after mixing in a uniform distribution over `words`; `share` of the mass stays the model's."""
    model, uniform = torch.tensor([share, (1 - share) / words], dtype=torch.float64).log().tolist()  # log 0 is -inf
    return torch.logaddexp(log_probs + model, log_probs.new_tensor(uniform))
