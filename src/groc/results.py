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
from groc.files import write_text

RESULT = "result.json"


def write_result(
    path: Path, config: Config, policy: Policy, figures: dict[str, Any], curve: list[dict[str, Any]]
) -> None:
    """Write the record of a run: settings, seed, commit, device, figures and the learning curve."""
    record = {
        "name": config.name,
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "commit": commit(),
        "device": policy.describe(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "seed": config.training.seed,
        "figures": figures,
        "curve": curve,
        "config": config.replace({"corpus": Path(config.corpus).name}).to_dict(),
    }
    write_text(path, json.dumps(record, indent=1) + "\n")


def commit() -> str | None:
    """The commit of the code that runs, if it runs from a checkout (or as GROC_COMMIT says)."""
    if "GROC_COMMIT" in os.environ:
        return os.environ["GROC_COMMIT"]
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True, timeout=10).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
