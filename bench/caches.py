"""Time each cache on whole pieces of a text, and against a loop over single words.

    python bench/caches.py [--device cpu] [--size 10000] [--dim 300] [--words 2560] [--json]

States and words are random; each cache has read `size` words when the clock starts. With `--words 1000000` it shows
what a long stream takes. The loop does for each word what the formula says and nothing else: it knows all states
beforehand, so that it has nothing to copy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from groc.adaptation.caches import Cache, ExactNeighbours, LocalCache, UnboundedCache, Unigram, Weights
from groc.adaptation.caches.correction import ANGLE
from groc.adaptation.online import USUAL_LAST, USUAL_RECENCY, USUAL_SIZE, USUAL_THETA
from groc.compute import choose, full_float32
from groc.config import Compute
from groc.report import table
from groc.results import circumstances
from groc.scoring import UNROLL, ScoredAmongNew, Segment

NEIGHBOURS, LAST = USUAL_SIZE["unbounded"], USUAL_LAST[ANGLE]
THETA, RECENCY = USUAL_THETA[ANGLE]["local"], USUAL_RECENCY[ANGLE]
SETTINGS = {"theta": THETA, "recency": RECENCY, "likeness": ANGLE, "nearest": NEIGHBOURS, "last": LAST}
VOCABULARY = 10_000
LOOP = 200
"""Words that the loop is timed on, at most: from all parts of the stream, since the past grows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--words", type=int, default=10 * UNROLL)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    policy = choose(Compute(device=options.device))
    torch.manual_seed(1)
    states = (torch.randn(options.size + options.words, options.dim) / options.dim**0.25).to(policy.device)
    # As words are: few of them often, most of them seldom.
    words = (VOCABULARY ** torch.rand(len(states))).long().clamp(max=VOCABULARY - 1).to(policy.device)
    with torch.inference_mode(), full_float32():
        rows = [
            measured(name, cache, step, states, words, options.size)
            for name, cache, step in (
                ("unigram", Unigram(), unigram),
                ("local", LocalCache(THETA, options.size, RECENCY, ANGLE), local(options.size)),
                ("unbounded", UnboundedCache(THETA, NEIGHBOURS, None, RECENCY, ANGLE, LAST), unbounded),
            )
        ]
    if options.json:
        print(
            json.dumps({**circumstances(policy), "size": options.size, "dim": options.dim, **SETTINGS, "caches": rows})
        )
        return
    print(
        f"{policy.describe()}: {options.size:,} words read before, {options.dim} dimensions, pieces of {UNROLL} words"
    )
    keys = ("words_per_s", "loop_words_per_s", "ratio", "megabytes")
    cells = [[row["cache"], *(f"{row[key]:,.0f}" for key in keys)] for row in rows]
    print(table(["cache", "words/s", "loop, words/s", "ratio", "MB held at the end"], cells))


Step = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""From all states and words, and the number of one, to the logarithms of its own and of all weights."""


def unigram(states: Tensor, words: Tensor, t: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return (words[:t] == words[t]).sum().log(), torch.tensor(t).log()


def local(size: int) -> Step:
    def step(states: Tensor, words: Tensor, t: int) -> tuple[Tensor, Tensor]:
        first = max(t - size, 0)
        ago = torch.arange(t - first, 0, -1, device=words.device)
        cosines = F.cosine_similarity(states[first:t], states[t], dim=1)
        return of(THETA * cosines - (1 + ago / RECENCY).log(), words[first:t] == words[t])

    return step


def unbounded(states: Tensor, words: Tensor, t: int) -> tuple[Tensor, Tensor]:
    cosines = F.cosine_similarity(states[:t], states[t], dim=1)
    ago = torch.arange(t, 0, -1, device=words.device)
    counted = (ago <= LAST).scatter(0, cosines.topk(min(NEIGHBOURS, t)).indices, value=True)
    weights = (THETA * cosines - (1 + ago / RECENCY).log()).masked_fill(~counted, -torch.inf)
    return of(weights, words[:t] == words[t])


def of(weights: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    return weights.masked_fill(~same, -torch.inf).logsumexp(0), weights.logsumexp(0)


def measured(name: str, cache: Cache, step: Step, states: Tensor, words: Tensor, size: int) -> dict[str, Any]:
    read(cache, states[:size], words[:size])
    fast, seconds = timed(lambda: read(cache, states[size:], words[size:]), states.device)
    step(states, words, size)  # warm
    number = min(len(words) - size, LOOP)
    places = torch.linspace(0, len(words) - size - 1, number, dtype=torch.float64).long()
    slow, loop_seconds = timed(lambda: [step(states, words, size + i) for i in places.tolist()], states.device)
    twins = (torch.stack([row[column] for row in slow]).to(states) for column in (0, 1))
    for one, other in zip(fast, twins, strict=True):
        torch.testing.assert_close(one[places.to(one.device)], other, atol=1e-3, rtol=1e-3)
    speed, loop_speed = (len(words) - size) / seconds, number / loop_seconds
    return {
        "cache": name,
        "words_per_s": speed,
        "loop_words_per_s": loop_speed,
        "ratio": speed / loop_speed,
        "words": len(words),
        "megabytes": held(cache) / 1e6,
    }


def held(cache: Cache) -> int:
    """The bytes of all that a cache remembers."""
    tensors = [value for value in vars(cache).values() if isinstance(value, Tensor)]
    if isinstance(cache, UnboundedCache) and isinstance(cache.neighbours, ExactNeighbours):
        tensors += cache.neighbours.blocks
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def read(cache: Cache, states: Tensor, words: Tensor) -> Weights:
    pieces = []
    for some, targets in zip(torch.split(states, UNROLL), torch.split(words, UNROLL), strict=True):
        nothing = some.new_zeros(len(targets))
        sums = (nothing, nothing, nothing, nothing)
        among_new = ScoredAmongNew(nothing[:, None], targets)
        pieces.append(cache.read(Segment(targets, some, *sums, targets < 0, among_new, VOCABULARY, 0, 0)))
    return Weights(*(torch.cat(column) for column in zip(*pieces, strict=True)))


def timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    start = now()
    result = work()
    return result, now() - start


if __name__ == "__main__":
    main()
