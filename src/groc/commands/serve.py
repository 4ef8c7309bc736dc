"""groc serve: models over HTTP, and a page for them."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from groc import checkpoint
from groc.errors import GrocError
from groc.lexicon import Glossary


def serve(runs: Sequence[str], glossary: str | None, host: str, port: int, token: str | None) -> None:
    try:
        import uvicorn

        from groc.playground.app import create_app
        from groc.playground.guard import is_loopback
        from groc.playground.limits import DEFAULT
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("groc"):
            raise
        raise GrocError(f"groc serve needs {error.name}: pip install -c constraints.txt '.[serve]'.") from None
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token or not token):
        raise GrocError("A token is made of letters, digits and signs, without spaces: give another to --token.")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(16)
    listening = listen(host, port)  # before models are loaded: a port that is taken is known at once
    opened = open_runs(runs, glossary)
    app = create_app(
        {name: run.model for name, run in opened.items()},
        token,
        DEFAULT,
        {name: run.warning for name, run in opened.items()},
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses may hold the token
        server_header=False,
        timeout_keep_alive=75,  # longer than clients keep connections, so that none is closed as a request comes
        timeout_graceful_shutdown=round(DEFAULT.seconds),
    )
    print(f"Open {address(host, listening.getsockname()[1], token)} (Ctrl-C stops)", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # uvicorn handles them while it runs; then it raises them once more
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise GrocError(f"There is no port {port}: choose one up to 65535, or 0 for any that is free.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0].lower()
        raise GrocError(
            f"Cannot listen at {host}, port {port} ({reason}): choose another --host or --port (0: any that is free)."
        ) from None
    # Connections inherit it. Without it the system holds back the end of an answer for some 40 milliseconds.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def open_runs(runs: Sequence[str], glossary: str | None) -> dict[str, checkpoint.Checkpoint]:
    """Runs by the names of their folders, or by their paths where two have one name; none: the small model that comes
    along. All on the CPU: its threads would take the precision of products on a GPU, a setting of the whole process,
    away from each other."""
    folders = [Path(run) for run in dict.fromkeys(runs)] or [checkpoint.POCKET]
    names = [folder.resolve().name for folder in folders]
    terms = Glossary.read(glossary) if glossary is not None else None
    opened = {}
    for folder, name in zip(folders, names, strict=True):
        opened[name if names.count(name) == 1 else str(folder)] = loaded = checkpoint.load(folder, "cpu")
        if terms is not None:
            loaded.model.add_words(terms)
    return opened


def address(host: str, port: int, token: str | None) -> str:
    """Where a browser finds the page."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    query = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/{query}"
