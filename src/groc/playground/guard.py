"""What stands before every route: who may ask, how large a request may be, how long it may take, who still listens."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from contextlib import suppress
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groc.playground.answers import NDJSON, json_line
from groc.playground.limits import Limits

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the page's address may hold the token
}
OPEN = ("/health", "/openapi.json")
"""What tells no secret, and needs no token."""
PARTING = 1.0
"""Seconds for the last line of a stream whose time is up: its client may not be reading."""


class Guard:
    """Without a token the service answers to names of this machine alone, so that no web page can reach it by giving
    its own name this machine's address. With one, whoever has the token may ask."""

    def __init__(self, app: ASGIApp, token: str | None, limits: Limits) -> None:
        self.app = app
        self.token = token
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = streaming = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started, streaming
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["Cache-Control"] = "no-cache" if _is_page(scope["path"]) else "no-store"
                streaming = headers.get("content-type", "").startswith(NDJSON)
            elif not message.get("more_body", False):
                streaming = False
            await send(message)

        try:
            async with asyncio.timeout(self.limits.seconds):
                refusal = self._refusal(scope)
                body = await _read(receive, self.limits.body if refusal is None else 0)
                if body is None and refusal is None:
                    refusal = _refuse(
                        413, f"At most {self.limits.body:,} bytes fit into a request: send less at a time."
                    )
                if refusal is not None:
                    await refusal(scope, receive, send_with_headers)
                else:
                    await _while_listening(self.app, scope, body or b"", receive, send_with_headers)
        except TimeoutError:
            sentence = f"This took more than {self.limits.seconds:g} seconds: ask for less at a time."
            if not started:
                await _refuse(503, sentence)(scope, receive, send_with_headers)
            elif streaming:  # the lines that were sent are whole
                with suppress(TimeoutError):
                    async with asyncio.timeout(PARTING):
                        last = json_line({"error": sentence, "done": False})
                        await send({"type": "http.response.body", "body": last, "more_body": False})
        except Exception:
            if not started:
                sentence = "The service has a fault: its log, where groc serve runs, says more."
                await _refuse(500, sentence, {"Connection": "close"})(scope, receive, send_with_headers)
            raise  # into the log of the server, which then closes the connection

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if self.token is None:
            if is_loopback(_host_name(headers.get("host", ""))):
                return None
            return _refuse(400, "This service answers to this machine alone: use the address 127.0.0.1 or localhost.")
        if scope["path"] in OPEN or scope["path"].startswith("/static/") or self._has_token(scope, headers):
            return None
        return _refuse(
            401,
            "A token is needed: open the address that groc serve printed, or send 'Authorization: Bearer TOKEN'.",
            {"WWW-Authenticate": "Bearer"},
        )

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = ""
            if scope["path"] == "/":  # the page alone: addresses are kept in histories
                given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.strip().encode(), (self.token or "").encode())


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The body, or None if it is too large. It is read to its end all the same, though not kept: who still sends hears
    no answer."""
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        if size <= limit:
            pieces.append(message.get("body", b""))
        else:
            pieces.clear()
        more = message.get("more_body", False)
    return b"".join(pieces) if size <= limit else None


async def _while_listening(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Run the app until it has answered, or until the client hangs up."""
    hung_up = asyncio.ensure_future(receive())  # behind the body nothing comes but the end
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await asyncio.shield(hung_up)

    answering = asyncio.ensure_future(app(scope, replay, send))
    hung_up.add_done_callback(lambda _: answering.cancel())
    try:
        await answering
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():  # it is this task that was cancelled
            raise
    finally:
        hung_up.cancel()


def _refuse(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/static/")


def _host_name(host: str) -> str:
    """Of a Host header, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
