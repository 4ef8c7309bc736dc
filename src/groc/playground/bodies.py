"""Bodies of requests: JSON in which nothing is overwritten unseen."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from groc.lexicon.terms import first_repeated

LONGEST = 100
"""Characters of a client's own key in a sentence to it."""


class EachKeyOnce(APIRoute):
    """A route that refuses a body in which a key stands twice: JSON would let the last one win."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_body(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handle_body


class _Request(Request):
    async def json(self) -> Any:
        return json.loads(await self.body(), object_pairs_hook=_fields)


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (key := first_repeated(key for key, _ in pairs)) is not None:
        raise HTTPException(400, f"The key {key[:LONGEST]!r} stands twice in one object of the body: leave one out.")
    return dict(pairs)
