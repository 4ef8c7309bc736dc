"""Input embeddings E^in: a table, a table with fewer dimensions for rarer words, or composed from the words' forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groc.nn.aligned import linear
from groc.nn.dropout import SharedDropout
from groc.nn.segments import Segments
from groc.nn.surface import TINY, Features, Surface, in_chunks, needs_chunks

RECENT = 0.01
"""How far a running mean moves in a step."""


class PreparedForms(nn.Module):
    """A vocabulary as the model sees it: tensors that are made once for a word list and move with the model."""

    rows: Tensor | None
    """For closed models: each word's row in the trained tables, one past the last row if it has none.
    None where the vocabulary is the trained one."""
    unscored: Tensor | None
    """For closed models: which words have no row. None where all have one."""
    log_shares: Tensor | None
    """For open models whose biases know it: the logarithm of each word's share of the training text."""

    def __init__(
        self,
        words: int,
        strings: Features | None = None,
        relations: Segments | None = None,
        definition: Segments | None = None,
        rows: Tensor | None = None,
        unscored: Tensor | None = None,
        log_shares: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.words = words
        self.strings = strings
        self.relations = relations
        self.definition = definition
        self._context: Segments | None = None
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("unscored", unscored, persistent=False)
        self.register_buffer("log_shares", log_shares, persistent=False)

    def encoded(self, surface: Surface) -> Tensor:
        """The reduced vectors of all strings. Shape: [S, k]"""
        assert self.strings is not None
        return surface.reduced(self.strings)

    def own(self, strings: Tensor) -> Tensor:
        """Of all strings those of the words themselves, which are the first. Shape: [S, k] -> [V, k]"""
        return strings[: self.words]

    def make_ready(self) -> None:
        """Make now what is else made when the first gradient is asked for."""
        if self.strings is not None:
            self.strings.make_ready()
        if self.relations is not None:
            self._lists_of_context().make_ready()

    def context(self, strings: Tensor) -> tuple[Tensor, Tensor]:
        """The means of each word's related words and of its definition. Shape: [S, k] -> [V, k] twice"""
        both = self._lists_of_context()(strings)
        return both[: self.words], both[self.words :]

    @property
    def entries_there(self) -> tuple[Tensor, Tensor]:
        """Which words have relations, and which a definition. Shape: [V, 1] twice"""
        assert self.relations is not None
        assert self.definition is not None
        return self.relations.filled, self.definition.filled

    def _lists_of_context(self) -> Segments:
        """Relations and definitions behind each other, since one large sum is faster than two small ones."""
        if self._context is None:
            assert self.relations is not None
            assert self.definition is not None
            with torch.inference_mode(False):  # else gradients could not use what is made here
                self._context = self.relations.followed_by(self.definition)
        return self._context

    def entries_of(self, which: Tensor) -> PreparedForms:
        """The relations and definitions of some of the words, in numbers of the same strings."""
        assert self.relations is not None
        assert self.definition is not None
        return PreparedForms(len(which), None, self.relations.take(which), self.definition.take(which))

    def take(self, which: Tensor) -> PreparedForms:
        """The forms of some of the words (ids in rising order), with no string that none of them needs."""
        rows = which if self.rows is None else self.rows[which]
        unscored = None if self.unscored is None else self.unscored[which]
        if self.strings is None or self.relations is None or self.definition is None:
            own = None if self.strings is None else self.strings.take(which)
            return PreparedForms(len(which), own, rows=rows, unscored=unscored)
        relations, relation_ends = self.relations.lists(which)
        definition, definition_ends = self.definition.lists(which)
        others = torch.unique(torch.cat([relations, definition]))
        others = others[which[torch.searchsorted(which, others).clamp(max=len(which) - 1)] != others]

        def renumbered(strings: Tensor) -> Tensor:
            own = torch.searchsorted(which, strings).clamp(max=len(which) - 1)
            return torch.where(which[own] == strings, own, len(which) + torch.searchsorted(others, strings)).int()

        strings = torch.cat([which, others])
        return PreparedForms(
            len(which),
            self.strings.take(strings),
            Segments(renumbered(relations), relation_ends, self.relations.scale[which], len(strings)),
            Segments(renumbered(definition), definition_ends, self.definition.scale[which], len(strings)),
            rows=rows,
            unscored=unscored,
            log_shares=None if self.log_shares is None else self.log_shares[which],
        )


class WordTable(nn.Module):
    """One row of parameters a word. The only kind of parameter that depends on the vocabulary.

    A word that has no row of its own gets the mean of all rows.
    """

    def __init__(self, words: int, dim: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.randn(words, dim) * scale)

    def forward(self, forms: PreparedForms) -> Tensor:
        if forms.rows is None:
            return self.weight
        if forms.unscored is None:  # every word has a row
            return self.weight[forms.rows]
        return torch.cat([self.weight, self.weight.mean(0, keepdim=True)])[forms.rows]

    @torch.no_grad()
    def grow(self, words: int) -> None:
        """Add random rows for new words."""
        fresh = torch.randn(words, self.weight.shape[1]).to(self.weight) * self.scale
        self.weight = nn.Parameter(torch.cat([self.weight, fresh]))


def has_words(part: nn.Module) -> bool:
    """Whether any parameter of a part belongs to a word."""
    return any(isinstance(module, WordTable) for module in part.modules())


class AdaptiveInput(nn.Module):
    """Adaptive embedding: words in bands of falling frequency, each band with a quarter of the dimensions of the one
    before it, projected to d. Shared with the output, and so is its dropout.

    The published factor sqrt(d) behind the projections is left out: it would add nothing but the same factor to their
    rate, since Adam moves a weight by the rate whatever its size.
    """

    def __init__(
        self, words: int, dim: int, cutoffs: Sequence[int], factor: int, scale: float, dropout: SharedDropout
    ) -> None:
        super().__init__()
        self.cutoffs = tuple(end for end in cutoffs if end < words)
        ends = [*self.cutoffs, words]
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        dims = [max(dim // factor**band, 1) for band in range(len(sizes))]
        self.tables = nn.ModuleList(WordTable(size, width, scale) for size, width in zip(sizes, dims, strict=True))
        self.projections = nn.ModuleList(nn.Linear(width, dim, bias=False) for width in dims)
        for projection, width in zip(self.projections, dims, strict=True):
            assert isinstance(projection, nn.Linear)
            nn.init.orthogonal_(projection.weight, (dim / width) ** 0.5)  # every band starts at the scale of a table
        self.dropout = dropout

    def forward(self, forms: PreparedForms) -> Tensor:
        words = sum(len(table.weight) for table, _ in self._bands())
        if forms.rows is not None and forms.unscored is None and len(forms.rows) < words:
            vectors = self._some(forms.rows)
        else:
            vectors = torch.cat([projection(table.weight) for table, projection in self._bands()])
            if forms.rows is not None:
                vectors = torch.cat([vectors, vectors.mean(0, keepdim=True)])[forms.rows]
        out: Tensor = self.dropout(vectors)
        return out

    def _some(self, rows: Tensor) -> Tensor:
        """The vectors of a few words, each projected as if it were in any band, so that all shapes are known."""
        vectors, start = rows.new_zeros(()), 0
        for table, projection in self._bands():
            own = F.embedding((rows - start).clamp(0, len(table.weight) - 1), table.weight)
            vectors = torch.where((rows >= start)[:, None], projection(own), vectors)
            start += len(table.weight)
        return vectors

    def _bands(self) -> Iterator[tuple[WordTable, nn.Linear]]:
        for table, projection in zip(self.tables, self.projections, strict=True):
            assert isinstance(table, WordTable)
            assert isinstance(projection, nn.Linear)
            yield table, projection

    def grow(self, words: int) -> None:
        rarest = self.tables[-1]
        assert isinstance(rarest, WordTable)
        rarest.grow(words)


class FormsDropout(nn.Module):
    """In training, leaves out a word's surface, relations or definition at random, each word on its own.

    So the model learns to do with whatever is known of a word: one without an entry, or one it has never read and
    knows by its definition alone. The surface goes only where something else stays.
    """

    def __init__(self, surface: float, relations: float, definition: float) -> None:
        super().__init__()
        self.rates = (surface, relations, definition)

    def forward(self, parts: Sequence[Tensor], forms: PreparedForms) -> Sequence[Tensor]:
        if not self.training or not any(self.rates):
            return parts
        relations, definition = forms.entries_there
        drop_surface, drop_relations, drop_definition = (
            torch.rand(forms.words, 1, device=parts[0].device) < rate for rate in self.rates
        )
        others = (relations & ~drop_relations) | (definition & ~drop_definition)
        dropped = (drop_surface & others, drop_relations, drop_definition)
        return [part.masked_fill(gone, 0.0) for part, gone in zip(parts, dropped, strict=True)]


def grow_tables(module: nn.Module, words: int) -> None:
    """Grow every table below the module; a part that has its own way of growing is asked itself."""
    for child in module.children():
        if isinstance(child, WordTable | AdaptiveInput):
            child.grow(words)
        else:
            grow_tables(child, words)


class UsualEntries(nn.Module):
    """What relations have in common, and what definitions have, taken off them: running means over words of training.

    A word without an entry is then taken for one with the usual entry. Else any entry, that of another word too, would
    say something: that the word is in the lexicon, as names are not.
    """

    sums: Tensor
    """Running means of sums over words, and of how many words they are. So means over the parts of a vocabulary that
    several processes encode can be put together. Shape: [2, k]"""
    counts: Tensor
    """Shape: [2, 1]"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(2, width))
        self.register_buffer("counts", torch.zeros(2, 1))

    @property
    def means(self) -> Tensor:
        """Shape: [2, k]"""
        return self.sums / self.counts.clamp(min=TINY)

    def observe(self, entries: Sequence[Tensor], there: Sequence[Tensor]) -> None:
        """Take in these words' relations and definitions. Shape: [V, k] twice, [V, 1] twice"""
        with torch.no_grad():
            sums = torch.stack([(rows * some).sum(0) for rows, some in zip(entries, there, strict=True)])
            counts = torch.stack([some.sum(0) for some in there])
            self.sums.lerp_(sums.to(self.sums), RECENT)
            self.counts.lerp_(counts.to(self.counts), RECENT)

    def forward(
        self, entries: Sequence[Tensor], there: Sequence[Tensor], basis: Tensor | None = None
    ) -> Sequence[Tensor]:
        """Relations and definitions without it, where they are there; whole vectors if the basis is given.
        Shape: [V, k] twice, [V, 1] twice -> [V, k] twice"""
        means = self.means if basis is None else self.means @ basis.T
        return [(rows - mean.to(rows)) * some for rows, mean, some in zip(entries, means, there, strict=True)]


class GroundedInput(nn.Module):
    """e_x: the surface, relations and definition of a word, concatenated and projected to d.

    The projection starts as the identity on the surface, so a composed vector starts as good as a lookup row.
    """

    def __init__(
        self, surface: Surface, dim: int, forms_dropout: FormsDropout, dropout: SharedDropout, centred: bool = False
    ) -> None:
        super().__init__()
        self.surface = surface
        self.usual = UsualEntries(dim if surface.basis is None else surface.basis.shape[1]) if centred else None
        self.forms_dropout = forms_dropout
        self.combination = nn.Linear(3 * dim, dim, bias=False)
        with torch.no_grad():
            self.combination.weight.copy_(torch.cat([torch.eye(dim), torch.zeros(dim, 2 * dim)], 1))
        self.dropout = dropout

    def forward(self, forms: PreparedForms) -> Tensor:
        strings = forms.encoded(self.surface)
        own = forms.own(strings)
        if self.training or not needs_chunks(forms.words):
            return self._combined(own, strings, forms)
        words = torch.arange(forms.words, device=strings.device)
        return in_chunks(lambda some: self._combined(own[some], strings, forms.entries_of(some)), words)

    def _combined(self, own: Tensor, strings: Tensor, forms: PreparedForms) -> Tensor:
        """Vectors of words from their own strings and those of their entries. Shape: [V, k], [S, k] -> [V, d]"""
        entries: Sequence[Tensor] = forms.context(strings)
        if self.usual is not None:
            found, entries = entries, self.usual(entries, forms.entries_there)
            if self.training:  # from the next step on, so that all processes have used the same means
                self.usual.observe(found, forms.entries_there)
        parts = self.forms_dropout([own, *entries], forms)
        weight, basis = self.combination.weight, self.surface.basis
        if basis is not None:  # all that follows is linear: project the three blocks of the weight, not the words
            weight = (weight.view(-1, len(basis)) @ basis).view(len(weight), -1)  # [d, 3k]
        out: Tensor = self.dropout(linear(torch.cat(parts, -1), weight))  # [V, d]
        return out
