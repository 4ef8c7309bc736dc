"""Load a served model with many clients at once, and time a single one before.

    python bench/load.py [--words 10000] [--clients 50] [--seconds 60] [--requests 200] [--json]

A model of the tiny recipe with made-up words is served by a process of its own. Clients ask for next words, score
sentences and add terms to glossaries of their own, each as fast as it is answered. A glossary that has grown is given
up for a new one, so that a service that lets go of what is not used has no reason to grow. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from groc.building import build
from groc.checkpoint import save
from groc.lexicon import Glossary
from groc.recipe import load_recipe
from groc.report import table
from groc.vocabulary import Vocabulary

TERMS = 50
"""Terms of a glossary before it is given up."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=200, help="of each kind by the single client")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    words = make_words(options.words)
    with tempfile.TemporaryDirectory() as folder, served(words, Path(folder)) as (address, process):
        figures = asyncio.run(measure(address, process, words, options))
    print(json.dumps(figures) if options.json else described(figures, options))


def described(figures: dict[str, Any], options: argparse.Namespace) -> str:
    rows = [
        [f"{who}, {kind}", f"{row['requests']:,}", *(f"{row[key]:.1f}" for key in ("p50", "p95", "longest"))]
        for who in ("one client", "all clients")
        for kind, row in figures[who].items()
    ]
    head = [f"{options.words:,} words, {options.clients} clients, {options.seconds:g} s", "requests"]
    memory = ", ".join(f"{megabytes:.0f}" for megabytes in figures["memory_mb"])
    return "\n".join(
        [
            table([*head, "p50 ms", "p95 ms", "longest ms"], rows),
            "",
            f"errors: {figures['errors']}",
            f"memory of the service in MB, from start to end: {memory}",
        ]
    )


def make_words(number: int) -> list[str]:
    draw = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < number:
        words["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 12)))] = None
    return list(words)


@contextmanager
def served(words: list[str], folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A service of a model with these words: its address and process."""
    draw = random.Random(2)
    glossary = Glossary({word: (" ".join(draw.choices(words, k=8)), draw.choices(words, k=3)) for word in words})
    config = load_recipe("tiny", None, ["forms.lexicon=none"])
    save(folder / "model", build(config, Vocabulary.from_counts(dict.fromkeys(words, 1)), glossary), config)
    command = [sys.executable, "-m", "groc", "serve", str(folder / "model"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield re.findall(r"http://\S+", process.stdout.readline())[0], process
        finally:
            process.terminate()


class Client:
    """Asks, and keeps the time."""

    def __init__(self, http: httpx.AsyncClient, words: list[str], seed: int) -> None:
        self.http = http
        self.words = words
        self.draw = random.Random(seed)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.glossary, self.terms = "", 0

    async def ask(self, kind: str, path: str, body: dict[str, Any]) -> Any:
        start = time.perf_counter()
        try:
            answer = await self.http.post(path, json=body)
        except httpx.HTTPError as error:
            self.errors.append(repr(error))
            return None
        self.times[kind].append(1000 * (time.perf_counter() - start))
        if not answer.is_success:
            self.errors.append(f"{answer.status_code} {answer.text}")
            return None
        return answer.json()

    def text(self) -> str:
        return " ".join(self.draw.choices(self.words, k=self.draw.randint(5, 30)))

    async def next(self) -> None:
        known = {"glossary": self.glossary} if self.glossary else {}
        await self.ask("next word", "api/next", {"text": self.text(), **known})

    async def score(self) -> None:
        await self.ask("score a sentence", "api/score", {"text": self.text()})

    async def add_term(self) -> None:
        if not self.glossary or self.terms == TERMS:
            made = await self.ask("new glossary", "api/glossaries", {"terms": []})
            self.glossary, self.terms = (made or {}).get("id", ""), 0
        term = {"word": f"{self.draw.choice(self.words)}{self.draw.randrange(10**6)}", "definition": self.text()}
        await self.ask("add a term", f"api/glossaries/{self.glossary}/terms", {"terms": [term]})
        self.terms += 1

    async def any(self) -> None:
        [act] = self.draw.choices([self.next, self.score, self.add_term], [70, 15, 15])
        await act()


async def measure(
    address: str, process: subprocess.Popen[str], words: list[str], options: argparse.Namespace
) -> dict[str, Any]:
    clients, seconds = options.clients, options.seconds
    async with httpx.AsyncClient(
        base_url=address, timeout=60, limits=httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    ) as http:
        single = Client(http, words, 0)
        for _ in range(options.requests):
            for act in (single.next, single.score, single.add_term):
                await act()
        memory = [megabytes(process)]
        many = [Client(http, words, seed) for seed in range(1, clients + 1)]
        end = time.perf_counter() + seconds

        async def load(client: Client) -> None:
            while time.perf_counter() < end:
                await client.any()

        async def watch() -> None:
            for _ in range(4):
                await asyncio.sleep(seconds / 4)
                memory.append(megabytes(process))

        await asyncio.gather(watch(), *map(load, many))
    errors = [error for client in (single, *many) for error in client.errors]
    for error in sorted(set(errors))[:5]:
        print(error, file=sys.stderr)
    return {
        "one client": summary([single]),
        "all clients": summary(many),
        "errors": len(errors),
        "memory_mb": memory,
    }


def summary(clients: list[Client]) -> dict[str, dict[str, float]]:
    """Milliseconds of each kind of request."""
    times: dict[str, list[float]] = defaultdict(list)
    for client in clients:
        for kind, values in client.times.items():
            times[kind] += values
    return {
        kind: {
            "requests": len(values),
            "p50": statistics.median(values),
            "p95": sorted(values)[int(0.95 * len(values))],
            "longest": max(values),
        }
        for kind, values in sorted(times.items())
    }


def megabytes(process: subprocess.Popen[str]) -> float:
    """Memory that the process holds."""
    [resident] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8"))
    return int(resident) / 1024


if __name__ == "__main__":
    main()
