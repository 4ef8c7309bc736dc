"""Model work in a few threads, away from the event loop, with a bounded queue before them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
from starlette.exceptions import HTTPException

from groc.playground.limits import Limits

T = TypeVar("T")
Check = Callable[[object], None]
"""Work in a thread calls it now and then: it ends the work, by an exception, when nobody waits for it any more."""


class Abandoned(Exception):
    """Nobody waits for this work any more."""


class Workers:
    """Threads that read models, and one that writes glossaries, so that no two changes cross."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = threading.BoundedSemaphore(limits.threads + limits.waiting)

    def open(self) -> None:
        # Each thread computes alone: with more threads for a single product, requests would wait for each other.
        self._readers = ThreadPoolExecutor(self._limits.threads, "reader", torch.set_num_threads, (1,))
        self._writer = ThreadPoolExecutor(1, "writer", torch.set_num_threads, (1,))

    def close(self) -> None:
        """Let the threads end; what waits is not begun."""
        for pool in (self._readers, self._writer):
            pool.shutdown(wait=False, cancel_futures=True)

    async def read(self, work: Callable[[Check], T]) -> T:
        """The result of the work. Whoever stops waiting for it, stops it."""
        return await self._do(self._readers, work)

    async def write(self, work: Callable[[], T]) -> T:
        return await self._do(self._writer, lambda check: work())

    async def stream(self, work: Callable[[Check], Iterator[T]]) -> AsyncGenerator[T]:
        """The items of an iterator, each made when the one before was taken: without a reader the work stands still."""
        self._take_place()
        gone = threading.Event()
        make_item = partial(self._readers.submit, next, work(partial(_check, gone)), None)
        future = make_item()
        try:
            while (item := await asyncio.wrap_future(future)) is not None:
                yield item
                future = make_item()
        finally:
            gone.set()
            self._release_after(future)

    async def _do(self, pool: ThreadPoolExecutor, work: Callable[[Check], T]) -> T:
        self._take_place()
        gone = threading.Event()
        future: Future[T] = pool.submit(work, partial(_check, gone))
        self._release_after(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            gone.set()

    def _take_place(self) -> None:
        if not self._places.acquire(blocking=False):
            raise HTTPException(429, "The service is busy: try again in a moment.", {"Retry-After": "1"})

    def _release_after(self, future: Future[T]) -> None:
        """Give the place back when the thread has done, and not before: abandoned work is still work."""
        future.add_done_callback(lambda _: self._places.release())


def _check(gone: threading.Event, _: object = None) -> None:
    if gone.is_set():
        raise Abandoned
