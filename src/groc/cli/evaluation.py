"""The command line of eval: nothing but the parsing of arguments."""

from __future__ import annotations

import argparse
from typing import Any

from groc.cli.options import Once, add_glossary, add_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        if options.against is not None:
            _compare(parser, options)
            return
        from groc.adaptation.dynamic import Dynamic
        from groc.commands.evaluate import evaluate

        of_dynamic = (options.rate, options.decay, options.every, options.prefix_only or None, options.gradients)
        if not options.dynamic and any(value is not None for value in of_dynamic):
            parser.error("--rate, --decay, --every, --prefix-only and --gradients belong to --dynamic: add it")
        if options.sharpness is not None and options.new_words is None and options.tune is None:
            parser.error("--sharpness belongs to --new-words: add it")
        every = Dynamic.every if options.every is None else options.every
        dynamic = Dynamic(options.rate, options.decay, every, options.prefix_only) if options.dynamic else None
        evaluate(
            options.model,
            options.corpus,
            options.split,
            options.vocabulary,
            options.glossary,
            options.device,
            options.record,
            options.json,
            caches=options.caches,
            novelty=options.new_words,
            sharpness=options.sharpness,
            uniform=options.uniform,
            memory=options.memory,
            dynamic=dynamic,
            gradients=options.gradients,
            tune=options.tune,
            without=options.without,
            first=options.first,
        )

    parser.add_argument("model", metavar="RUN", help="a folder that groc train wrote")
    parser.add_argument("corpus", metavar="CORPUS", help="a corpus folder, or one text file")
    parser.add_argument("--split", help="of a corpus folder: train, valid or test (default)")
    parser.add_argument(
        "--vocabulary",
        default="union",
        metavar="train|union|FILE",
        help="the words among which the model chooses: those of training, those and the text's (default), or a list "
        "(how often training had them is what the model knows, whatever the list says)",
    )
    parser.add_argument("--first", type=int, metavar="N", help="score the first N tokens of the text alone")
    add_glossary(parser)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=("relations", "definitions"),
        help="tell an open model nothing of these of words that training did not have (repeatable)",
    )
    parser.add_argument(
        "--against",
        action=Once,
        metavar="OTHER_RUN",
        help="compare with this run on the same words, word by word: by training frequency of RUN, how often its loss "
        "is lower, and mean and median of the differences (above 0: RUN is better)",
    )
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    parser.add_argument("--record", action="store_true", help="add the figures to the run's result.json")
    add_json(parser)
    parser.set_defaults(run=run)
    _caches(parser.add_argument_group("what the text itself teaches, with no training"))
    _dynamic(parser.add_argument_group("dynamic evaluation"))


NOT_BESIDE_AGAINST = {
    "vocabulary": "--vocabulary",
    "first": "--first",
    "glossary": "--glossary",
    "without": "--without",
    "caches": "--cache",
    "new_words": "--new-words",
    "sharpness": "--sharpness",
    "memory": "--memory",
    "uniform": "--uniform",
    "tune": "--tune",
    "dynamic": "--dynamic",
    "rate": "--rate",
    "decay": "--decay",
    "every": "--every",
    "prefix_only": "--prefix-only",
    "gradients": "--gradients",
}
"""Options that change how one model reads, by where their values are."""


def _compare(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from groc.commands.against import evaluate_against
    from groc.errors import GrocError

    for key, name in NOT_BESIDE_AGAINST.items():
        if getattr(options, key) != parser.get_default(key):
            raise GrocError(f"--against compares two models as they are, on all words of a text: leave out {name}.")
    evaluate_against(
        options.model,
        options.against,
        options.corpus,
        options.split,
        options.device,
        options.record,
        options.json,
    )


def _caches(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--cache",
        dest="caches",
        action=_Cache,
        default=[],
        choices=("unigram", "local", "unbounded"),
        help="words that were read come again; may be repeated, and the options below belong to the cache before them",
    )

    def option(name: str, key: str, help: str, **more: Any) -> None:
        group.add_argument(name, dest=key, action=_OfCache, default=argparse.SUPPRESS, help=help, **more)

    option(
        "--lambda",
        "share",
        "the share of the probability that stays the model's (default: learned from the text as it is read)",
        type=_number_or_learned,
        metavar="SHARE|learned",
    )
    option("--theta", "theta", "how much the likeness of states counts (default: 10; see --likeness)", type=float)
    option(
        "--cache-size",
        "size",
        "how many words are weighed: the last (local, 10000), or those with the nearest states, besides --last "
        "(unbounded, 1024)",
        type=int,
        metavar="WORDS",
    )
    option(
        "--last",
        "last",
        "how many of the last words an unbounded cache weighs, near or not (default: 10000; see --likeness)",
        type=int,
        metavar="WORDS",
    )
    option(
        "--recency",
        "recency",
        "after how many words a word counts half as much (default: 100; 0: none fades; see --likeness)",
        type=float,
        metavar="WORDS",
    )
    option(
        "--likeness",
        "likeness",
        "what of states is compared: their angle (default), or all as published (theta is then 0.5 for local and 1 for "
        "unbounded, --recency and --last are 0)",
        choices=("angle", "published"),
    )
    option(
        "--alpha",
        "alpha",
        "in place of --lambda: the cache joins the softmax (global normalisation), with its weights times exp(ALPHA)",
        type=_number_or_tune,
        metavar="ALPHA|tune",
    )
    option("--faiss", "faiss", "find most of the nearest states, by FAISS: sooner among millions", nargs=0, const=True)
    group.add_argument(
        "--new-words",
        type=float,
        metavar="WEIGHT",
        help="all words never seen in training are together WEIGHT times as probable as the rarest of training; try 1 "
        "(default: each as probable as the model says)",
    )
    group.add_argument(
        "--sharpness",
        type=float,
        help="how much an open model's scores tell new words apart with --new-words: from 0, even odds, to 1, as they "
        "are (default: 0.2)",
    )
    group.add_argument("--memory", action="store_true", help="remember the contexts of words never seen in training")
    group.add_argument(
        "--uniform",
        type=float,
        metavar="SHARE",
        help="what a closed model spreads evenly over all words, if some are new (default: 0.01)",
    )
    group.add_argument(
        "--tune",
        action=Once,
        metavar="CORPUS",
        help="a text, or a folder with a valid text: there find good values for what is not given, rate and decay too",
    )


def _dynamic(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--dynamic", action="store_true", help="go on learning from what was just scored")
    group.add_argument("--rate", type=float, help="how large a step is (default: 0.03, with --gradients 1)")
    group.add_argument(
        "--decay", type=float, help="the part of the way back to the trained weights at each step (default: 0.003)"
    )
    group.add_argument("--every", type=int, metavar="WORDS", help="words between two steps (default: 20)")
    group.add_argument("--prefix-only", action="store_true", help="words keep their vectors: much faster for GroC")
    group.add_argument(
        "--gradients",
        action=Once,
        metavar="CORPUS",
        help="the training corpus, or a text like it: measure there how large gradients are, to match steps to them",
    )


def _number_or_learned(text: str) -> float | str:
    try:
        return text if text == "learned" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number between 0 and 1, or learned, not {text!r}") from None


def _number_or_tune(text: str) -> float | None:
    try:
        return None if text == "tune" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number, or tune, not {text!r}") from None


class _Cache(argparse.Action):
    """One more cache."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:  # noqa: ARG002
        namespace.caches = [*namespace.caches, {"kind": values}]


class _OfCache(argparse.Action):
    """A value for the cache named last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        if not namespace.caches:
            parser.error(f"{option} belongs to a cache: write --cache before it")
        *others, last = namespace.caches
        namespace.caches = [*others, last | {self.dest: self.const if self.nargs == 0 else values}]
