"""The command line: a table of commands, and nothing but the parsing of their arguments.

Each command's work is a function in `groc.commands`, imported when it is called.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from groc import __version__
from groc.errors import GrocError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status comes back."""
    # PyTorch's threads wait for each other by spinning; beside any other busy process that makes them 30 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = build_parser()
    options, rest = parser.parse_known_args(arguments)
    # key=value pairs may stand anywhere among the options, which argparse cannot say.
    options.settings = [argument for argument in rest if "=" in argument and not argument.startswith("-")]
    if strangers := [a for a in rest if a not in options.settings or not getattr(options, "takes_settings", False)]:
        parser.error(f"unrecognized arguments: {' '.join(strangers)}")
    if sys.stderr.isatty() and options.command != "lexicon":
        print("groc: loading PyTorch ...", file=sys.stderr)  # the import alone takes seconds
    try:
        options.run(options)
    except GrocError as error:
        print(f"groc: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader (head, less) went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="groc", description="A language model whose vocabulary is data, not parameters."
    )
    parser.add_argument("--version", action="version", version=f"groc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _demo(commands.add_parser("demo", help="the whole story in minutes on a laptop CPU"))
    _train(commands.add_parser("train", usage=f"groc train RECIPE {SETTINGS}", help="train a recipe on a corpus"))
    _evaluate(commands.add_parser("eval", help="perplexity of a text, and where it comes from"))
    _info(commands.add_parser("info", usage=f"groc info RECIPE|RUN {SETTINGS}", help="sizes before a step is trained"))
    _serve(commands.add_parser("serve", help="an HTTP service and a page in the browser"))
    _lexicon(commands.add_parser("lexicon", help="WordNet: install it, look at a word, measure coverage"))
    return parser


SETTINGS = "[--variant NAME] [key=value ...] [options]"


def _demo(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.demo import demo

        demo(options.out, options.epochs, options.seed, options.json)

    parser.add_argument("--out", default="demo", metavar="DIR", help="where runs, table and plot go (default: demo)")
    parser.add_argument("--epochs", type=int, help="train each model for so many epochs (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=1)
    _json(parser)
    parser.set_defaults(run=run)


def _train(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.train import train

        train(
            options.recipe,
            options.variant,
            [*options.settings, *([f"forms.glossary={options.glossary}"] if options.glossary else [])],
            options.corpus,
            options.out,
            options.resume,
            options.json,
        )

    parser.add_argument("recipe", metavar="RECIPE", help="tiny, penn, wikitext2, or the path of a .toml file")
    parser.add_argument("--variant", metavar="NAME", help="a variant of the recipe, such as tied; see groc info RECIPE")
    parser.add_argument("--corpus", metavar="DIR", help="a folder with train, valid and test (.txt, .txt.gz, .txt.xz)")
    parser.add_argument("--out", metavar="RUN", help="the run's folder (default: runs/RECIPE-VARIANT)")
    _glossary(parser)
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    _json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.evaluate import evaluate

        evaluate(
            options.model,
            options.corpus,
            options.split,
            options.vocabulary,
            options.glossary,
            options.device,
            options.record,
            options.json,
        )

    parser.add_argument("model", metavar="RUN", help="a folder that groc train wrote")
    parser.add_argument("corpus", metavar="CORPUS", help="a corpus folder, or one text file")
    parser.add_argument("--split", default="test", help="of a corpus folder: train, valid or test (default)")
    parser.add_argument(
        "--vocabulary",
        default="union",
        metavar="train|union|FILE",
        help="the words among which the model chooses: those of training, those and the text's (default), or a list",
    )
    _glossary(parser)
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    parser.add_argument("--record", action="store_true", help="add the figures to the run's result.json")
    _json(parser)
    parser.set_defaults(run=run)


def _info(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.info import info

        info(options.target, options.variant, options.settings, options.corpus, options.json)

    parser.add_argument("target", metavar="RECIPE|RUN", help="a recipe, or a folder that groc train wrote")
    parser.add_argument("--variant", metavar="NAME", help="a variant of the recipe")
    parser.add_argument("--corpus", metavar="DIR", help="whose words to count with")
    _json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def _serve(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.serve import serve

        serve(options.runs, options.glossary, options.host, options.port, options.token)

    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="folders that groc train wrote (default: the small model that comes along)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0 takes any that is free")
    parser.add_argument("--token", help="who asks must have it; made up where the host is not this machine alone")
    parser.add_argument("--glossary", metavar="FILE", help="terms that the models know from the start")
    parser.set_defaults(run=run)


def _lexicon(parser: argparse.ArgumentParser) -> None:
    def run_install(options: argparse.Namespace) -> None:  # noqa: ARG001
        from groc.commands.lexicon import install

        install()

    def run_show(options: argparse.Namespace) -> None:
        from groc.commands.lexicon import show

        show(options.word, options.lexicon, options.rules, options.json)

    def run_coverage(options: argparse.Namespace) -> None:
        from groc.commands.coverage import show_coverage

        show_coverage(options.corpus, options.rules, options.lexicon, options.lower, options.json)

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="put WordNet into the user's cache, unless it is there already")
    install.set_defaults(run=run_install)
    show = actions.add_parser("show", help="what the lexicon says about a word, and what the model is told of it")
    show.add_argument("word", metavar="WORD")
    show.set_defaults(run=run_show)
    coverage = actions.add_parser("coverage", help="how many words of a corpus have relations and definitions")
    coverage.add_argument("corpus", metavar="CORPUS", help="a corpus folder")
    coverage.add_argument("--lower", action="store_true", help="lower-case related and defining words")
    coverage.set_defaults(run=run_coverage)
    for action in (show, coverage):
        action.add_argument("--rules", default="default", choices=("default", "paper"), help="how forms are chosen")
        action.add_argument("--lexicon", metavar="PATH", help="a WordNet folder or a glossary file (default: WordNet)")
        _json(action)


def _glossary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--glossary", metavar="FILE", help="words with definitions and related words (.tsv, .csv, .jsonl) to add"
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result for a program")
