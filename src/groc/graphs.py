"""Work on a GPU recorded once and then replayed as one launch, where it would else be hundreds of small ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

import torch

WARM_UP = 3
"""Runs of each kind of work before it is recorded: they compile, choose kernels and make the optimiser's state."""


Launch = Callable[[Hashable, Callable[[], None]], None]
"""Is given work and its kind, and does it."""


def launcher(recorded: bool, device: torch.device) -> Launch:
    """What does work of several kinds again and again: recorded, if that is wanted and the device is a GPU, or as it
    stands."""
    return Replayed(device) if recorded and device.type == "cuda" else _at_once


def _at_once(kind: Hashable, work: Callable[[], None]) -> None:  # noqa: ARG001
    work()


class Replayed:
    """Runs work of several kinds. What a kind of work reads and writes must lie at the same place every time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        """Work is recorded on the current device, so it is made that while there is something to do."""
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.runs: Counter[Hashable] = Counter()
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        """One pool for all: no two kinds of work run at the same time, and none needs what another left there."""

    def __call__(self, kind: Hashable, work: Callable[[], None]) -> None:
        with torch.cuda.device(self.device):
            if self.runs[kind] < WARM_UP:
                self.runs[kind] += 1
                self._run(work)
                return
            if kind not in self.graphs:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):  # runs nothing yet
                    work()
                self.graphs[kind] = graph
            self.graphs[kind].replay()

    def _run(self, work: Callable[[], None]) -> None:
        # Not on the default stream, or gradients would belong to it and could not be recorded later.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work()
        torch.cuda.current_stream().wait_stream(self.stream)
