"""Draw the learning curves of recorded runs: python docs/curves.py OUT.png RESULT.json ..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt


def main(out: str, *records: str) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for path in records:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        epochs = [row["epoch"] for row in record["curve"]]
        valid, train = ([row[f"{split}_perplexity"] for row in record["curve"]] for split in ("valid", "train"))
        (line,) = axes.plot(epochs, valid, label=f"{record['name']}, valid")
        axes.plot(epochs, train, color=line.get_color(), linestyle=":", label=f"{record['name']}, train (with dropout)")
    axes.set(xlabel="epoch", ylabel="perplexity", yscale="log", title="Learning curves")
    ticks = [50, 70, 100, 150, 200, 300, 500]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(out, dpi=140)


if __name__ == "__main__":
    main(*sys.argv[1:])
