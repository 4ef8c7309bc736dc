"""The command line of data, adapt and heldout: nothing but the parsing of arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from groc.cli.options import add_json
from groc.errors import GrocError

if TYPE_CHECKING:
    from groc.adaptation.heldout import Choice


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    usage = "groc adapt RUN CORPUS --out RUN [key=value ...] [options]"
    _data(commands.add_parser("data", help="raw text into corpora"))
    _adapt(commands.add_parser("adapt", usage=usage, help="go on training on a new domain"))
    _heldout(commands.add_parser("heldout", help="words kept out of training, scored by what is told of them"))


def _data(parser: argparse.ArgumentParser) -> None:
    def run_prepare(options: argparse.Namespace) -> None:
        from groc.commands.data import prepare_data

        if options.tokenised and options.language:
            raise GrocError("--language is for text that is not tokenised: leave it out, or --tokenised.")
        if options.in_order and options.seed is not None:
            raise GrocError("--seed is for a shuffle of the lines: leave it out, or --in-order.")
        prepare_data(
            options.sources,
            options.out,
            options.name,
            {"train": options.train, "valid": options.valid, "test": options.test},
            options.lower,
            options.tokenised,
            options.language or "en",
            None if options.in_order else 1 if options.seed is None else options.seed,
            options.json,
        )

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="raw text into corpus folders with train, valid and test text")
    prepare.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file of raw text (.gz and .xz too), or a folder of one a year"
    )
    prepare.add_argument("--out", required=True, metavar="DIR", help="each file becomes a corpus folder in there")
    prepare.add_argument("--name", help="of the corpus folder (default: the year in the file's name, or that name)")
    # As in the paper's cross-domain experiments.
    for split, tokens in (("train", 2_000_000), ("valid", 200_000), ("test", 10_000_000)):
        prepare.add_argument(
            f"--{split}", type=int, default=tokens, metavar="N", help=f"tokens, with <eos> (default: {tokens:,})"
        )
    prepare.add_argument("--lower", action="store_true", help="lower-case the text")
    prepare.add_argument("--tokenised", action="store_true", help="the text's words are separated by spaces already")
    prepare.add_argument("--language", help="whose abbreviations Moses's rules know (default: en)")
    prepare.add_argument("--seed", type=int, help="another number, another shuffle of the lines (default: 1)")
    prepare.add_argument("--in-order", action="store_true", help="do not shuffle: the text runs on from line to line")
    add_json(prepare)
    prepare.set_defaults(run=run_prepare)


def _adapt(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.adapt import adapt

        adapt(
            options.model,
            options.corpus,
            options.out,
            options.epochs,
            options.settings,
            options.source,
            options.resume,
            options.json,
        )

    parser.add_argument("model", metavar="RUN", help="a folder that groc train wrote; it stays as it is")
    parser.add_argument("corpus", metavar="CORPUS", help="the new domain: a folder with train, valid and test text")
    parser.add_argument("--out", required=True, metavar="RUN", help="the folder of the new run")
    parser.add_argument(
        "--epochs", type=int, help="how often the new text is read (default: 3; with --resume as before)"
    )
    parser.add_argument(
        "--source",
        metavar="CORPUS",
        help="whose valid text shows what was forgotten (default: the run's, if it is there)",
    )
    parser.add_argument("--resume", action="store_true", help="go on with an adaptation that was stopped")
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def _heldout(parser: argparse.ArgumentParser) -> None:
    def choice(options: argparse.Namespace) -> Choice:
        from groc.adaptation.heldout import Choice

        return Choice(options.words, options.least, options.most, options.lines, options.seed)

    def run_prepare(options: argparse.Namespace) -> None:
        from groc.commands.heldout import prepare

        prepare(options.corpus, options.out, choice(options), options.lexicon, options.rules, options.json)

    def run_score(options: argparse.Namespace) -> None:
        from groc.commands.heldout import score

        score(options.model, options.folder, options.device, options.seed, options.record, options.json)

    def run_all(options: argparse.Namespace) -> None:
        from groc.commands.heldout import whole

        whole(
            options.corpus,
            options.recipe,
            options.variant,
            options.settings,
            options.out,
            choice(options),
            options.resume,
            options.json,
        )

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="a corpus without the lines that have the words, and those lines")
    prepare.add_argument("corpus", metavar="CORPUS", help="a corpus folder")
    prepare.add_argument("--out", required=True, metavar="DIR", help="the folder of the new corpus")
    prepare.add_argument("--lexicon", default="wordnet", metavar="PATH", help="a WordNet folder or a glossary file")
    prepare.add_argument("--rules", default="default", choices=("default", "paper"), help="how forms are chosen")
    prepare.set_defaults(run=run_prepare)
    score = actions.add_parser("score", help="the loss on the words, with and without relations and definitions")
    score.add_argument("model", metavar="RUN", help="a folder that groc train wrote, its corpus being DIR")
    score.add_argument("folder", metavar="DIR", help="a folder that groc heldout prepare wrote")
    score.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    score.add_argument("--record", action="store_true", help="add the figures to the run's result.json")
    score.set_defaults(run=run_score)
    whole = actions.add_parser(
        "run",
        usage="groc heldout run CORPUS RECIPE --out DIR [--variant NAME] [key=value ...] [options]",
        help="all at once: prepare, train, score",
    )
    whole.add_argument("corpus", metavar="CORPUS", help="a corpus folder")
    whole.add_argument("recipe", metavar="RECIPE", help="what to train, as for groc train")
    whole.add_argument("--variant", metavar="NAME", help="a variant of the recipe")
    whole.add_argument("--out", required=True, metavar="DIR", help="where the corpus and the run go")
    whole.add_argument("--resume", action="store_true", help="go on with training that was stopped")
    whole.set_defaults(run=run_all, takes_settings=True)
    for action in (prepare, whole):
        action.add_argument("--words", type=int, default=300, help="how many words are held out (default: 300)")
        action.add_argument("--least", type=int, default=20, help="times a word is trained on, at least (default: 20)")
        action.add_argument("--most", type=int, default=200, help="and at most (default: 200)")
        action.add_argument("--lines", type=int, default=20, help="of a word that are scored, at most (default: 20)")
    for action in (prepare, score, whole):
        action.add_argument("--seed", type=int, default=1, help="of whatever is chosen at random")
        add_json(action)
