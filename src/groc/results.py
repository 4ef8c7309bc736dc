"""Records of runs: one small JSON each, with everything needed to know what a figure means."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from groc import __version__
from groc.compute import Policy
from groc.config import Config
from groc.errors import GrocError
from groc.files import in_turn, write_text
from groc.report import to_json

RESULT = "result.json"
PAIRED = "paired"
"""Where a record has the comparisons with other models, word by word; missing if there is none."""
PRUNED = "pruned_after_epochs"
"""Among the figures of a trial that was given up, and is no finished run."""
HELD_OUT = "held-out"
"""The kind of vocabulary of an evaluation that is no score of a text: of words held out of training."""


def write_result(
    path: Path, config: Config, policy: Policy, figures: dict[str, Any], curve: list[dict[str, Any]]
) -> None:
    """Write the record of a run: settings, seed, commit, device, figures and the learning curve."""
    record = {
        "name": config.name,
        **circumstances(policy),
        "seed": config.training.seed,
        "figures": figures,
        "curve": curve,
        "config": settings(config),
        **_earlier_evaluations(path, figures),
    }
    write_text(path, to_json(record, indent=1) + "\n")


def settings(config: Config) -> dict[str, Any]:
    """Where files lay on one machine is nobody's business; their names are."""
    places = {"corpus": config.corpus, "forms.lexicon": config.forms.lexicon, "forms.glossary": config.forms.glossary}
    return config.replace({key: Path(place).name for key, place in places.items()}).to_dict()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def circumstances(policy: Policy) -> dict[str, Any]:
    """When, with what and on what something was measured."""
    return {
        "date": _today(),
        "version": __version__,
        "commit": commit(),
        "device": policy.describe(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        **({"threads": torch.get_num_threads()} if policy.device.type == "cpu" else {}),
    }


def _earlier_evaluations(path: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """What was evaluated before, and with what compared, if the run has not been trained further since."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["figures"]["steps"] == figures["steps"]:
            compared = {PAIRED: record[PAIRED]} if PAIRED in record else {}
            return {"evaluations": dict(record["evaluations"]), **compared}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {"evaluations": {}}


SETTINGS = ("caches", "dynamic", "memory", "novelty", "sharpness", "uniform_mixed_in", "glossary", "tokens")
"""Of an evaluation: what its figures depend on besides the model, its words and, by its length, the text."""


def add_evaluation(path: Path, summary: dict[str, Any]) -> str:
    """Add the figures of an evaluation to the record of a run. What it is called there comes back if it replaces
    figures that were taken with other settings, or empty."""
    name = evaluation_name(summary)
    with in_turn(path.parent):
        record = _record_to_add_to(path)
        kept = _kept({key: value for key, value in summary.items() if key not in ("run", "text")}, record)
        if kept.get("tuned_on"):
            kept["tuned_on"] = text_name(kept["tuned_on"])
        before = record["evaluations"].get(name)
        record["evaluations"][name] = kept
        write_text(path, to_json(record, indent=1) + "\n")
    now = json.loads(to_json(kept))  # as a record has it
    return name if before and any(before.get(key) != now.get(key) for key in SETTINGS) else ""


TRAINING = ("seed", "valid_perplexity")
"""Of a comparison: what tells the other model from others of its name."""


def add_paired(path: Path, summary: dict[str, Any]) -> str:
    """Add a comparison with another model to the record of a run. What it is called there comes back if it replaces
    one with another model of that name, or empty."""
    name = paired_name(text_name(summary["text"]), summary["against"], summary["seed"])
    left_out = ("run", "other", "text", "notes")
    with in_turn(path.parent):
        record = _record_to_add_to(path)
        kept = _kept({key: value for key, value in summary.items() if key not in left_out}, record)
        compared = record.setdefault(PAIRED, {})
        before = compared.get(name)
        compared[name] = kept
        write_text(path, to_json(record, indent=1) + "\n")
    return name if before and any(before.get(key) != kept[key] for key in TRAINING) else ""


def paired_name(text: str, against: str, seed: int) -> str:
    """What the record of a run calls a comparison on a text with a model."""
    return f"{text}, against {against}, seed {seed}"


def _record_to_add_to(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not (isinstance(record, dict) and isinstance(record.get("evaluations"), dict)):
        raise GrocError(
            f"{path} is not the record of a run, so the figures cannot be added to it: evaluate without --record."
        )
    return record


def _kept(figures: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Figures as a record keeps them: with when they were taken, and where, unless the run was trained there."""
    kept = {**figures, "date": _today(), "commit": commit()}  # a run may be evaluated long after it was trained
    if kept.get("device", "").partition(",")[0] == record.get("device", "").partition(",")[0]:
        kept.pop("device", None)
    return kept


def evaluation_name(summary: dict[str, Any]) -> str:
    """What the record of a run calls an evaluation."""
    return ", ".join([text_name(summary["text"]), f"{summary['vocabulary_kind']} vocabulary", *extras(summary)])


def text_name(path: str) -> str:
    """A text by its name and its folder's, wherever that lies: penn/test."""
    return f"{Path(path).parent.name}/{Path(path).name.partition('.')[0]}"


def extras(summary: dict[str, Any]) -> tuple[str, ...]:
    """What a model was evaluated with, besides its vocabulary: caches by their kind, word memory, dynamic evaluation,
    another weight of new words, less told of them, a part of its lexicon, a part of the text. Nothing in older records.
    """
    share, novelty, counted = summary.get("coverage", 1.0), summary.get("novelty"), summary.get("new_words_as")
    sharpness = summary.get("sharpness")
    sharp = "" if sharpness is None else f" at {sharpness:g}"  # new words of a closed model share evenly
    without, first = summary.get("without", ()), summary.get("first")
    return (
        *(str(cache["kind"]) for cache in summary.get("caches", ())),
        *(["memory"] if summary.get("memory") else []),
        *(["dynamic"] if summary.get("dynamic") else []),
        *([f"new words {novelty:g}{sharp}"] if novelty is not None else []),
        *([f"new words as {counted:,g}"] if counted is not None else []),  # in older records
        *([f"without {'both' if len(without) > 1 else without[0]}"] if without else []),
        *([f"coverage {share:g}"] if share != 1 else []),
        *([f"first {first:,} tokens"] if first else []),
    )


def commit() -> str | None:
    """The commit of the code that runs, if it runs from a checkout (or as GROC_COMMIT says)."""
    if "GROC_COMMIT" in os.environ:
        return os.environ["GROC_COMMIT"]
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)  # else GroC is installed inside somebody else's checkout
        changed = "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.SubprocessError):
        return None
