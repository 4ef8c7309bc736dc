"""The texts of the cross-domain comparison by their names: the source, near and far domains, what serves for what."""

from __future__ import annotations

SOURCE = "news"
"""The corpus of the models that are moved, and the name of their recipe."""
MODELS = ("tied", "groc")
"""The variants of the recipe that are compared, if no others are named."""
LM1B = "news-lm1b-2007-2011"
YEAR = "news-wmt-"
YEARS = tuple(f"{YEAR}{year}" for year in range(2008, 2019))
TUNING = YEARS[0]
"""Its valid text is the one of another domain on which anything is tuned."""
EARLIER_YEARS = f"{YEAR}2008-2013"
"""No year has a training text of its own: models are fine-tuned on these for the years behind them."""
LATER_YEARS = tuple(year for year in YEARS if year > f"{YEAR}2013")
FAR = (
    "wikitext-2", "biomed-mtl", "tweets-tweeteval", "talks-ted", "science-acl", "reviews-movie", "europarl-v7",
    "web-ewt", "web-nltk",
)  # fmt: skip
FIRST = 20_000
"""Dynamic evaluation reads so many tokens of a text, on which other ways are measured too."""
HELD_OUT = "news-held-out"
"""The source without the lines that have some words."""
DOMAINS = (SOURCE, LM1B, *YEARS, *FAR)
"""Those with a test text, in the order of the table."""
WAYS = ("", "unigram", "local", "unbounded", "memory", "dynamic", "finetuned")
"""What a model may have, in the order of the table's columns."""


def place_of(domain: str, model: str = "") -> tuple[int, str, bool, int, str]:
    """Where a row stands: domains in their order, tied before GroC, without help before caches and learning."""
    name, (variant, _, way) = domain.partition(", ")[0], model.partition("+")
    place = DOMAINS.index(name) if name in DOMAINS else len(DOMAINS)
    return place, domain, variant != "tied", WAYS.index(way) if way in WAYS else len(WAYS), model
