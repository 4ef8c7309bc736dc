"""The training text, cut into streams that are read side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from groc.compute import Group
from groc.corpus import Ids
from groc.errors import GrocError


def cut_streams(ids: Ids, end: int, batch: int, group: Group) -> Tensor:
    """The text, after an `<eos>`, cut into `batch` streams of equal length; this process's share of them.

    Shape: [words of a stream + 1, streams]. Fewer than `batch` words at the text's end are left out.
    """
    if batch % group.size:
        raise GrocError(
            f"training.batch={batch} cannot be shared by {group.size} processes: use a multiple of {group.size}."
        )
    length = len(ids) // batch
    if length < 2:
        raise GrocError(
            f"The training text has {len(ids):,} tokens, too few for training.batch={batch} streams: "
            "use more text or a smaller batch."
        )
    stream = torch.cat([torch.tensor([end]), torch.from_numpy(ids[: batch * length].astype("int64"))])
    starts = torch.arange(batch) * length
    streams = stream[starts + torch.arange(length + 1)[:, None]]  # [length + 1, batch]; streams overlap by one word
    share = batch // group.size
    return streams[:, group.rank * share : (group.rank + 1) * share].contiguous()


def random_offsets(streams: Tensor, seed: int, group: Group) -> Tensor:
    """Where each of this process's streams begins: every process draws for all of them."""
    share = streams.shape[1]
    draws = torch.Generator().manual_seed(seed)
    offsets = torch.randint(len(streams) - 1, (share * group.size,), generator=draws)
    return offsets[group.rank * share :][:share].to(streams.device)


def rotated(streams: Tensor, offsets: Tensor) -> Tensor:
    """Each stream begun so many words later and read round to there: other words meet in a step.

    Where the end meets the beginning, one word of a stream has another before it than in the text.
    """
    body = streams[1:]
    places = (torch.arange(len(body), device=body.device)[:, None] + offsets) % len(body)
    before = streams.gather(0, offsets[None])  # the word that the first one follows in the text
    return torch.cat([before, body.gather(0, places)])
