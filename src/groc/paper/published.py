"""What the paper prints: facts, cell by cell. Parameters are in millions, figures perplexities unless it says else."""

from __future__ import annotations

from typing import Any

DATASETS = ("penn", "wikitext-2")
MODELS = ("lookup", "convolutional", "tied", "bilinear", "deep-residual", "adaptive", "groc")

DATA: dict[str, dict[str, Any]] = {
    "penn": {"vocabulary": 10_000, "tokens": 929_000, "relations": 78.0, "definitions": 86.0},
    "wikitext-2": {"vocabulary": 33_000, "tokens": 2_000_000, "relations": 73.0, "definitions": 76.0},
}
"""Table 1. Which of the two coverages is that of relations is not said there; it follows from recomputing them."""

MAIN: dict[str, dict[str, tuple[float, float, float]]] = {
    "penn": {
        "lookup": (13, 93.5, 90.8), "convolutional": (13, 104.0, 101.6), "tied": (10, 88.6, 86.2),
        "bilinear": (10, 87.0, 83.7), "deep-residual": (10, 84.0, 80.5), "adaptive": (8, 84.0, 79.3),
        "groc": (9, 72.5, 69.5),
    },
    "wikitext-2": {
        "lookup": (23, 113.8, 108.3), "convolutional": (23, 121.2, 116.6), "tied": (15, 101.0, 97.3),
        "bilinear": (15, 101.3, 95.9), "deep-residual": (15, 100.1, 94.7), "adaptive": (9, 95.8, 90.7),
        "groc": (9, 87.0, 82.5),
    },
}  # fmt: skip
"""Tables 2 and 9: parameters, dev, test."""

WITHOUT = ("", "relations", "definitions", "both")
ABLATIONS: dict[str, dict[bool, tuple[tuple[float, float], ...]]] = {
    "penn": {
        True: ((75.0, 71.4), (77.1, 72.7), (75.6, 72.0), (79.8, 75.8)),
        False: ((72.5, 69.5), (74.2, 70.8), (74.4, 71.1), (76.3, 73.2)),
    },
    "wikitext-2": {
        True: ((87.0, 82.5), (90.2, 85.3), (88.6, 84.3), (94.3, 89.8)),
        False: ((88.7, 84.1), (93.0, 88.0), (87.6, 83.1), (94.5, 89.5)),
    },
}
"""Table 3: dev and test with and without the output network, in the order of WITHOUT."""

COVERAGE = (
    (0.0, 187.8, 72.4), (0.2, 159.3, 70.0), (0.4, 128.5, 70.4), (0.6, 102.6, 69.6), (0.8, 83.5, 70.7), (1.0, 69.5, 69.5)
)  # fmt: skip
"""Table 4 (penn): the share of WordNet's entries that is left, test at inference, test retrained. The paper prints the
share of all words: 0, 16, 32, 48, 64 and 82%."""

SPEED: dict[str, tuple[float, float]] = {
    "lookup": (19.5, 59.5), "convolutional": (201.2, 1301.9), "tied": (18.6, 53.6), "bilinear": (35.0, 120.1),
    "deep-residual": (61.2, 114.5), "adaptive": (27.2, 77.6), "groc": (259.8, 1813.5),
}  # fmt: skip
"""Table 10: seconds an epoch on penn and wikitext-2 (one RTX 2080 Ti)."""
SPARSE: dict[float, tuple[float, float]] = {
    0.9: (236.3, 1627.7), 0.7: (173.5, 1262.9), 0.5: (131.5, 936.4), 0.3: (95.2, 669.0), 0.1: (46.0, 299.0)
}  # fmt: skip
"""The same for GroC with a full update with probability p. The paper's rows say which share of the steps is frozen."""
SPARSE_TEST = 75.3
"""Of p = 0.3 on penn."""

HYPER: dict[str, dict[str, dict[str, Any]]] = {
    "penn": {
        "lookup": {"dropout": 0.1},
        "convolutional": {"dropout": 0.1, "correction": 128},
        "tied": {"dropout": 0.0},
        "bilinear": {"dropout": 0.5},
        "deep-residual": {"dropout": 0.5, "depth": 4, "activation": "selu"},
        "adaptive": {"dropout": 0.3, "cutoffs": (2000, 7000)},
        "groc": {"dropout": 0.2, "depth": 0},
    },
    "wikitext-2": {
        "lookup": {"dropout": 0.2},
        "convolutional": {"dropout": 0.1, "correction": 182},
        "tied": {"dropout": 0.0},
        "bilinear": {"dropout": 0.4},
        "deep-residual": {"dropout": 0.6, "depth": 1, "activation": "selu"},
        "adaptive": {"dropout": 0.2, "cutoffs": (6000, 21000)},
        "groc": {"dropout": 0.2, "depth": 1, "activation": "relu"},
    },
}
HYPER_WITHOUT: dict[str, dict[str, dict[str, Any]]] = {
    "penn": {
        "relations": {"dropout": 0.3, "depth": 0},
        "definitions": {"dropout": 0.2, "depth": 0},
        "both": {"dropout": 0.3, "depth": 0},
    },
    "wikitext-2": {
        "relations": {"dropout": 0.3, "depth": 1, "activation": "selu"},
        "definitions": {"dropout": 0.3, "depth": 2, "activation": "relu"},
        "both": {"dropout": 0.3, "depth": 1, "activation": "selu"},
    },
}
"""Table 8, by the names of the settings: of each model, and of GroC without some of what is told of words."""

DROPOUTS = "output.dropout=" + ",".join(f"0.{tenth}" for tenth in range(10))
NETWORK = "output.activation=relu,selu,tanh"
RANGES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lookup", "tied", "bilinear", "adaptive"), (DROPOUTS,)),
    "convolutional": (DROPOUTS, "output.correction=32,64,128"),
    "deep-residual": (DROPOUTS, "output.depth=1,2,3,4", NETWORK),
    "groc": (DROPOUTS, "output.depth=0,1,2,3,4", NETWORK),
}
"""Table 7: what the paper searched for each kind, in the notation of `groc search`."""
BANDS = ((2, 5, 3), (7, 2, 1), (1, 1, 8), (2, 2, 6), (4, 2, 4), (3, 3, 4))
"""And for adaptive: tenths of the vocabulary in each band."""

SIZES: tuple[tuple[str, float | None, float], ...] = (
    ("RNN-LDA (Mikolov and Zweig 2012)", 9, 92.0),
    ("LSTM (Zaremba et al. 2014)", 20, 82.7),
    ("variational LSTM (Gal and Ghahramani 2016)", 20, 78.6),
    ("CharCNN (Kim et al. 2016)", 19, 78.9),
    ("pointer sentinel LSTM (Merity et al. 2017)", 21, 70.9),
    ("LSTM + continuous cache (Grave et al. 2017)", None, 72.1),
    ("tied variational LSTM (Inan et al. 2017)", 24, 73.2),
    ("variational RHN (Zilly et al. 2017)", 23, 65.4),
    ("NAS cell (Zoph and Le 2017)", 25, 64.0),
    ("AWD-LSTM (Merity et al. 2018)", 24, 58.8),
)
"""Table 11 (penn): models of others, parameters, test."""
ELSEWHERE: dict[str, tuple[tuple[str, float | None, float], ...]] = {
    "penn": (
        ("AWD-LSTM, fine-tuned (Merity et al. 2018)", 24, 57.3),
        ("AWD-LSTM, dynamic evaluation (Krause et al. 2018)", 24, 51.1),
        ("AWD-LSTM with a mixture of softmaxes (Yang et al. 2018)", 22, 54.4),
        ("AWD-LSTM with a mixture of softmaxes, dynamic evaluation (Yang et al. 2018)", 22, 47.7),
        ("Mogrifier LSTM (Melis et al. 2020)", 24, 50.1),
        ("Mogrifier LSTM, dynamic evaluation (Melis et al. 2020)", 24, 44.8),
        ("Mogrifier RLSTM (Melis 2022)", 24, 47.9),
        ("Mogrifier RLSTM, dynamic evaluation (Melis 2022)", 24, 42.9),
    ),
    "wikitext-2": (
        ("AWD-LSTM, fine-tuned (Merity et al. 2018)", 33, 65.8),
        ("AWD-LSTM, dynamic evaluation (Krause et al. 2018)", 33, 44.3),
        ("AWD-LSTM with a mixture of softmaxes (Yang et al. 2018)", 35, 61.5),
        ("AWD-LSTM with a mixture of softmaxes, dynamic evaluation (Yang et al. 2018)", 35, 40.7),
        ("Mogrifier LSTM (Melis et al. 2020)", 35, 55.1),
        ("Mogrifier LSTM, dynamic evaluation (Melis et al. 2020)", 35, 38.6),
        ("Mogrifier RLSTM (Melis 2022)", None, 55.0),
        ("Mogrifier RLSTM, dynamic evaluation (Melis 2022)", None, 38.0),
    ),
}
"""The same of what the paper's table leaves out; None: a size that we do not know."""

DOMAINS = ("2007", "2008", "2009", "2010", "2011", "web", "wiki")
CROSS_DOMAIN: dict[str, tuple[float | None, ...]] = {
    "base": (220.9, 237.6, 256.2, 259.7, 268.8, 689.3, 1003.2),
    "base+unigram": (220.3, 235.9, 252.6, 256.1, 264.3, 581.1, 609.4),
    "base+local": (218.9, 234.5, 250.5, 256.2, 265.2, 593.4, 316.5),
    "base+unbounded": (166.5, 191.4, 202.6, 204.8, 214.3, 383.4, 337.4),
    "tied": (184.3, 199.8, 217.3, 221.6, 229.9, 660.6, 841.1),
    "tied+unigram": (187.8, 203.6, 221.5, 225.9, 234.3, 577.5, 819.7),
    "tied+local": (181.8, 196.5, 212.0, 217.7, 225.9, 501.7, 406.9),
    "groc": (158.6, 171.0, 186.7, 192.5, 200.4, 637.9, 753.9),
    "groc+unigram": (155.2, 167.3, 183.1, 189.5, 196.4, 533.6, 689.2),
    "groc+local": (152.6, 164.1, 179.0, 185.1, 192.3, 493.0, 408.8),
    "tied+finetuned": (None, 172.8, 177.9, 180.7, 185.4, 212.7, 242.6),
    "groc+finetuned": (None, 153.7, 162.2, 167.0, 170.6, 239.5, 216.9),
    "tied+finetuned, dev": (None, 167.44, 175.95, 177.46, 180.63, 144.13, 232.06),
    "groc+finetuned, dev": (None, 146.84, 152.29, 155.27, 158.21, 212.99, 188.25),
    "new tokens (%)": (2.0, 2.3, 2.5, 2.4, 2.5, 5.8, 5.4),
    "words of the training text (thousands)": (81, 82, 81, 78, 80, 75, 67),
    "words of the test text (thousands)": (188, 197, 195, 181, 184, 174, 109),
}
"""Tables 5, 6 and 12, by domain. `base` are the figures that the paper takes from Grave et al. (2017)."""
