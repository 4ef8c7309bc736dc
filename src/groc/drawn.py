"""The words of a step where they are drawn: encoded as they come, then put where a recorded step finds them."""

from __future__ import annotations

import torch
from torch import Tensor

from groc.compute import Policy
from groc.model import LanguageModel
from groc.nn.embeddings import Embeddings
from groc.nn.sampling import Sample, Sampler


class DrawnWords:
    """Samples of the vocabulary, one for each step.

    No two samples have the same strings and lists, so what encodes them cannot be recorded. What reads their vectors
    can, if these lie in one place with room for any sample: so a step has two halves, and gradients stop in between.
    """

    def __init__(self, model: LanguageModel, draws: int, tokens: int, policy: Policy) -> None:
        """`tokens` is how many a step reads at most."""
        self.model, self.policy = model, policy
        self.sampler = Sampler(model.vocabulary.counts, draws, policy.device)
        self.most = min(len(model.vocabulary), draws + tokens)
        self.readers = list(model.prefix.parameters())
        read = set(map(id, self.readers))
        self.encoders = [parameter for parameter in model.parameters() if id(parameter) not in read]
        for parameter in self.readers:
            parameter.grad = torch.zeros_like(parameter)  # in one place too, whatever the length of a step
        self.encoded: Embeddings | None = None
        self.placed: Embeddings | None = None
        """The same vectors, as leaves: what is learned of them stays there until it is passed on."""

    def draw(self, window: Tensor) -> Tensor:
        """Draw and encode the words of a step. Returns the window in their numbers."""
        for parameter in self.encoders:
            parameter.grad = None
        sample = self.sampler.draw(window)
        self.encoded = self.encode(sample)
        self.place(self.encoded)
        return sample.places(window)

    def encode(self, sample: Sample) -> Embeddings:
        """E^in, E^out and b of the words of a sample; no other word is encoded."""
        with self.policy.autocast():
            return sample.weighted(self.model.embed_forms(self.model.forms.take(sample.ids)).mapped(Tensor.float))

    def place(self, encoded: Embeddings) -> Embeddings:
        """Put vectors where a recorded step finds them."""
        words = len(encoded)
        if self.placed is None:
            rows = self.most if self.policy.graphs else words
            self.placed = encoded.mapped(lambda part: part.new_zeros(rows, *part.shape[1:]).requires_grad_())
            for part in vars(self.placed).values():
                part.grad = torch.zeros_like(part)
        with torch.no_grad():
            for name, part in vars(self.placed).items():
                part[:words] = getattr(encoded, name)
            self.placed.bias[words:] = float("-inf")  # there is no such word
        return self.placed

    def forget(self) -> None:
        """Begin with no gradients, in the places where they are."""
        assert self.placed is not None
        for part in (*self.readers, *vars(self.placed).values()):
            assert part.grad is not None
            part.grad.zero_()

    def pass_on(self) -> None:
        """Bring what was learned of the vectors to the weights that made them."""
        assert self.encoded is not None
        assert self.placed is not None
        words = len(self.encoded)
        made = {name: part for name, part in vars(self.encoded).items() if part.requires_grad}
        torch.autograd.backward(list(made.values()), [getattr(self.placed, name).grad[:words] for name in made])
        self.encoded = None
        if not self.policy.graphs:
            self.placed = None
