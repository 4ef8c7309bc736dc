"""What a search tries: the combinations of a grid, or what Optuna proposes after the trials so far."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from groc.config import Config, known_keys
from groc.errors import GrocError
from groc.paper.runs import unused

Changes = dict[str, Any]
"""Settings by dotted key."""
Essence = frozenset[tuple[str, Any]]
"""Of changes, what the model makes use of."""


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


Space = dict[str, list[Any] | Range]
NOT_SEARCHED = ("corpus", "name", "compute.device")
"""What is no part of a model: perplexities of other texts cannot be compared, and names and devices change nothing."""
MOST_LISTED = 10_000
"""Combinations of a space that are listed, to know when all have been tried."""
DECIDING = (
    "output.kind", "output.depth", "output.mixtures", "prefix.gate_rounds", "surface.kind", "training.schedule"
)  # fmt: skip
"""The settings that decide of which others a model makes use."""


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


def distinct(config: Config, space: Space) -> dict[Essence, Changes]:
    """The grid without combinations that differ from an earlier one in nothing that the model makes use of."""
    combinations = grid(space)
    settings = config.flat()
    converted = {key: _converted(config, key, values) for key, values in space.items()}
    found: dict[Essence, Changes] = {}
    for changes in combinations:
        found.setdefault(_essence(settings, {key: converted[key][value] for key, value in changes.items()}), changes)
    return found


def spelt_out(space: Space) -> Space | None:
    """The space with lists in place of ranges of whole numbers; None where it has too many combinations to list."""
    lists: dict[str, Sequence[Any]] = {}
    for key, values in space.items():
        if not isinstance(values, Range):
            lists[key] = values
        elif values.whole:
            lists[key] = range(int(values.low), int(values.high) + 1)
        else:
            return None
    few = prod(map(len, lists.values())) <= MOST_LISTED
    return {key: [*values] for key, values in lists.items()} if few else None


def essence(config: Config, changes: Changes) -> Essence:
    """The same for two changes that make the same model."""
    return _essence_of(config, tuple(changes.items()))


@lru_cache(maxsize=100_000)  # a search asks again and again for those of all its trials
def _essence_of(config: Config, changes: tuple[tuple[str, Any], ...]) -> Essence:
    return _essence(config.flat(), {key: config.replace({key: value}).flat()[key] for key, value in changes})


def _essence(settings: Mapping[str, Any], chosen: Mapping[str, Any]) -> Essence:
    of_no_use = _of_no_use({**settings, **chosen}, chosen)
    return frozenset((key, None if key in of_no_use else value) for key, value in chosen.items())


def check_searched(config: Config, space: Space) -> None:
    """Refuse keys that are not for a search, and those that make no difference."""
    if key := next((key for key in space if key in NOT_SEARCHED), ""):
        raise GrocError(f"{key} cannot be searched, since it is no part of a model: give it one value.")
    if keys := idle(config, space):
        raise GrocError(
            f"{keys[0]} makes no difference to {config.name} (output.kind={config.output.kind}) with these settings: "
            "leave it out of the search."
        )


def idle(config: Config, space: Space) -> list[str]:
    """What no model of the space makes use of."""
    settings, found = config.flat(), set(space)
    deciding = {key: _converted(config, key, space[key]) for key in DECIDING if key in space}
    for chosen in product(*(values.values() for values in deciding.values())):
        found &= _of_no_use({**settings, **dict(zip(deciding, chosen, strict=True))}, space)
    return [key for key in space if key in found]


def ends_of(values: list[Any] | Range) -> list[Any]:
    """What is possible for these is so for all of them."""
    return [values.low, values.high] if isinstance(values, Range) else values


def has(values: list[Any] | Range, value: Any) -> bool:
    """Whether a value, which may have been read from a record, is one of these."""
    if isinstance(values, Range):
        is_number = isinstance(value, int if values.whole else int | float) and not isinstance(value, bool)
        return is_number and bool(values.low <= value <= values.high)
    return json.dumps(value) in map(json.dumps, values)


def _converted(config: Config, key: str, values: list[Any] | Range) -> dict[Any, Any]:
    """Of each value as it was written the setting that it stands for."""
    return {value: config.replace({key: value}).flat()[key] for value in ends_of(values)}


def _of_no_use(settings: Mapping[str, Any], keys: Iterable[str]) -> set[str]:
    """Those of the keys that a model with these settings makes no use of."""
    found = unused(settings)
    if settings["output.depth"] == 0:
        found.add("output.activation")
    if settings["output.mixtures"] == 1:
        found.add("output.mixture_dropout")
    is_cosine = settings["training.schedule"] == "cosine"
    found |= {"training.patience", "training.decay"} if is_cosine else {"training.final_rate"}
    return found & set(keys)


@dataclass(frozen=True)
class Outcome:
    """What Optuna is told of a trial."""

    changes: Changes
    value: float | None
    """None: it was not brought to its end."""
    curve: Mapping[int, float]


def check_optuna() -> None:
    """Whether ranges can be searched here."""
    if importlib.util.find_spec("optuna") is None:
        raise GrocError(
            "Ranges are searched by Optuna, which is not here: pip install -c constraints.txt '.[search]'. Lists need "
            "none."
        )


def ask_optuna(space: Space, outcomes: Iterable[Outcome], seed: int, by_chance: bool = False) -> Changes:
    """What the tree-structured Parzen estimator would try next, or whatever the space has. The same trials and seed
    give the same answer, so it does not matter whether a search was stopped in between."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    def distribution(values: list[Any] | Range) -> BaseDistribution:
        if isinstance(values, list):
            return CategoricalDistribution(values)
        if values.whole:
            return IntDistribution(int(values.low), int(values.high), log=values.log)
        return FloatDistribution(values.low, values.high, log=values.log)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {key: distribution(values) for key, values in space.items()}
    sampler = optuna.samplers.RandomSampler if by_chance else optuna.samplers.TPESampler
    study = optuna.create_study(sampler=sampler(seed=seed % 2**32))
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
