"""What a search tries next: the next combination of a grid, or what Optuna proposes after the trials so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from groc.config import known_keys
from groc.errors import GrocError

Changes = dict[str, Any]
"""Settings by dotted key."""


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, by their logarithm if they span ten times or more."""

    low: float
    high: float
    whole: bool

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high >= 10 * self.low

    def rounded(self, value: float) -> float:
        """To four digits, which a person can type again."""
        return value if self.whole else min(max(float(f"{value:.4g}"), self.low), self.high)


Space = dict[str, list[str] | Range]


def parse_space(assignments: Sequence[str]) -> tuple[list[str], Space]:
    """key=value pairs: those that are fixed, and what is searched: `rate=1e-3,2e-3` or `rate=1e-4..1e-2`. Alternatives
    of a setting that is a list itself are separated by colons: `output.cutoffs=2000,7000:1000,5000`."""
    fixed: list[str] = []
    space: Space = {}
    keys: set[str] = set()
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        if key in keys:
            raise GrocError(f"{key} is given twice: give it once, with all its values.")
        keys.add(key)
        kind: Any = known_keys().get(key, str)
        values = value.split("," if kind in (int, float, str, bool) else ":")
        if ".." in value and kind in (int, float):
            space[key] = _range(assignment, kind, *value.split("..", 1))
        elif len(values) > 1:
            space[key] = values
        else:
            fixed.append(assignment)
    return fixed, space


def _range(assignment: str, kind: Any, low: str, high: str) -> Range:
    try:
        found = Range(kind(low), kind(high), kind is int)
    except ValueError:
        raise GrocError(f"{assignment} is no range: write its lowest and highest number, as in 0.1..0.5.") from None
    if not found.low < found.high:
        raise GrocError(f"{assignment} is no range: the first number must be below the second.")
    return found


def grid(space: Space) -> list[Changes]:
    """All combinations, the last list running fastest."""
    lists = [values for values in space.values() if isinstance(values, list)]
    if len(lists) < len(space):
        raise GrocError("A grid needs lists: write training.rate=1e-3,2e-3, or search ranges with --method tpe.")
    return [dict(zip(space, values, strict=True)) for values in product(*lists)]


@dataclass(frozen=True)
class Outcome:
    """What Optuna is told of a trial."""

    changes: Changes
    value: float | None
    """None: it was not brought to its end."""
    curve: Mapping[int, float]


def ask_optuna(space: Space, outcomes: Iterable[Outcome], seed: int) -> Changes:
    """What the tree-structured Parzen estimator would try next. The same trials and seed give the same answer, so it
    does not matter whether a search was stopped in between."""
    try:
        import optuna
    except ImportError:
        raise GrocError("--method tpe needs Optuna: pip install 'groc-lm[search]'.") from None
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    def distribution(values: list[str] | Range) -> BaseDistribution:
        if isinstance(values, list):
            return CategoricalDistribution(values)
        if values.whole:
            return IntDistribution(int(values.low), int(values.high), log=values.log)
        return FloatDistribution(values.low, values.high, log=values.log)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {key: distribution(values) for key, values in space.items()}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
    for outcome in outcomes:
        unfinished = TrialState.PRUNED if outcome.curve else TrialState.FAIL
        study.add_trial(
            create_trial(
                params=outcome.changes,
                distributions=distributions,
                state=unfinished if outcome.value is None else TrialState.COMPLETE,
                value=outcome.value,
                intermediate_values=dict(outcome.curve),
            )
        )
    asked = study.ask(distributions).params
    return {
        key: values.rounded(asked[key]) if isinstance(values, Range) else asked[key] for key, values in space.items()
    }
