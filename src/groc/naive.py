"""GroC's word encoder as one would first write it: the twin that the fast one must agree with, and is timed against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.model import LanguageModel
from groc.nn.characters import Characters
from groc.nn.cnn import CharacterCNN
from groc.nn.embeddings import Embeddings
from groc.nn.input import GroundedInput, PreparedForms
from groc.nn.ngrams import HashedNgrams
from groc.nn.segments import Segments


def embed_naively(model: LanguageModel, forms: PreparedForms) -> Embeddings:
    """E^in, E^out and b of words: with gathers, one convolution a width, and all strings padded alike."""
    encoder = model.input
    assert isinstance(encoder, GroundedInput)
    strings = _surface(encoder.surface, forms)
    assert forms.relations is not None
    assert forms.definition is not None
    entries: Sequence[Tensor] = [_sums(strings, forms.relations), _sums(strings, forms.definition)]
    if encoder.usual is not None:
        entries = encoder.usual(entries, forms.entries_there, encoder.surface.basis)
    joined = torch.cat(encoder.forms_dropout([strings[: forms.words], *entries], forms), -1)
    e_in: Tensor = encoder.dropout(encoder.combination(joined))
    e_out, bias = model.output(forms, e_in)
    return Embeddings(e_in, e_out, bias)


def _surface(surface: object, forms: PreparedForms) -> Tensor:
    if isinstance(surface, CharacterCNN):
        assert isinstance(forms.strings, Characters)
        return _convolved(surface, forms.strings)
    assert isinstance(surface, HashedNgrams)
    assert isinstance(forms.strings, Segments)
    out: Tensor = surface.projection(_sums(surface.table, forms.strings))
    return out


def _convolved(cnn: CharacterCNN, strings: Characters) -> Tensor:
    table = F.pad(cnn.characters, (0, 0, 1, 0))
    x = F.pad(table[strings.codes.long()].transpose(1, 2), (0, len(cnn.kernels) - 1))  # [S, c, L + widest - 1]
    outside = torch.arange(strings.codes.shape[1], device=x.device) >= strings.lengths[:, None]
    maxima = []
    for width, kernel in zip(cnn.widths, cnn.kernels, strict=True):
        weight = kernel.view(width, x.shape[1], -1).permute(2, 1, 0)  # [filters, c, width]
        scores = F.conv1d(x[:, :, : strings.codes.shape[1] + width - 1], weight)
        maxima.append(scores.masked_fill(outside[:, None], float("-inf")).amax(-1))
    hidden = F.relu(torch.cat(maxima, 1) + cnn.shifts)
    for highway in cnn.highways:
        hidden = highway(hidden)
    out: Tensor = cnn.projection(hidden)
    return out


def _sums(rows: Tensor, lists: Segments) -> Tensor:
    owner = torch.arange(len(lists.scale), device=rows.device).repeat_interleave(lists.offsets.diff())
    sums = rows.new_zeros(len(lists.scale), rows.shape[1]).index_add(0, owner, rows[lists.index.long()])
    return sums * lists.scale[:, None]
