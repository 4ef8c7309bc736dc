"""The command line: a table of commands, and nothing but the parsing of their arguments.

Each command's work is a function in `groc.commands`, imported when it is called.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from groc import __version__
from groc.cli import adaptation, daily, evaluation, paper
from groc.cli.options import add_glossary, add_json
from groc.cli.output import printing
from groc.errors import GrocError
from groc.signals import signal_of

NO_MEMORY = ("out of memory", "allocate memory", "not enough memory")
"""What PyTorch says in errors that have no type of their own."""


STOPPED = {128 + number: number for number in (signal.SIGINT, signal.SIGTERM)}
"""What shells make of a process that Ctrl-C or a polite kill ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status comes back. But a process of that command that was stopped ends by the signal:
    shells go on with a script whose command returns 130 after Ctrl-C, as if it had dealt with it."""
    status = printing(lambda: _run(arguments))
    if status in STOPPED and arguments is None and os.name == "posix":
        sys.stderr.flush()
        signal.signal(STOPPED[status], signal.SIG_DFL)
        signal.raise_signal(STOPPED[status])
    if arguments is None and "groc.compute" in sys.modules:
        sys.modules["groc.compute"].end_in_group(status)
    return status


def _run(arguments: Sequence[str] | None) -> int:
    # PyTorch's threads wait for each other by spinning; beside any other busy process that makes them 30 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    options, rest = build_parser().parse_known_args(arguments)
    # key=value pairs, and arguments of which some may be missing, may stand anywhere among the options, which argparse
    # cannot say.
    loose = [argument for argument in rest if argument == "-" or not argument.startswith("-")]
    if hasattr(options, "arguments"):
        options.arguments = [*options.arguments, *loose]
    elif getattr(options, "takes_settings", False):
        options.settings = loose = [argument for argument in loose if "=" in argument]
    else:
        loose = []
    if strangers := [argument for argument in rest if argument not in loose]:
        options.parser.error(f"unrecognized arguments: {' '.join(strangers)}")
    if sys.stderr.isatty() and options.command != "lexicon":
        print("groc: loading PyTorch ...", file=sys.stderr)  # the import alone takes seconds
    try:
        options.run(options)
    except GrocError as error:
        print(f"groc: {error}", file=sys.stderr)
        return 1
    except PermissionError as error:  # whether there is such a file at all may be what nobody is told
        if error.filename is None:
            raise
        print(f"groc: {error.filename} is out of reach ({error.strerror}): check the permissions.", file=sys.stderr)
        return 1
    except (MemoryError, RuntimeError) as error:  # PyTorch has one of its own for GPUs and none for CPUs
        if not (isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)):
            raise
        print(
            "groc: There is not enough memory for this: choose smaller sizes, or fewer words at once.", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt as stop:
        return 128 + signal_of(stop)
    return 0


class _Parser(argparse.ArgumentParser):
    """What it has parsed names it: whatever is wrong is said with the usage of the command that was called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.set_defaults(parser=self)  # a command's own comes after that of `groc`


def build_parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="groc", description="A language model whose vocabulary is data, not parameters."
    )
    parser.add_argument("--version", action="version", version=f"groc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _demo(commands.add_parser("demo", help="the whole story in minutes on a laptop CPU"))
    _train(commands.add_parser("train", usage=f"groc train RECIPE {SETTINGS}", help="train a recipe on a corpus"))
    evaluation.add_arguments(commands.add_parser("eval", help="perplexity of a text, and where it comes from"))
    _info(commands.add_parser("info", usage=f"groc info RECIPE|RUN {SETTINGS}", help="sizes before a step is trained"))
    daily.add_score(
        commands.add_parser("score", usage="groc score [RUN] [FILE ...] [options]", help="surprisal of each word")
    )
    daily.add_next(
        commands.add_parser("next", usage="groc next [RUN] TEXT [options]", help="the words that may come next")
    )
    daily.add_generate(commands.add_parser("generate", help="go on with a text"))
    daily.add_explain(
        commands.add_parser("explain", usage="groc explain [RUN] WORD [options]", help="what the model makes of a word")
    )
    _bench(
        commands.add_parser("bench", usage="groc bench [key=value ...] [options]", help="what a training step costs")
    )
    daily.add_serve(commands.add_parser("serve", help="an HTTP service and a page in the browser"))
    adaptation.add_commands(commands)
    paper.add_paper(
        commands.add_parser(
            "paper",
            usage="groc paper [TABLE] [--run [key=value ...]] [options]",
            help="the paper's tables and figures: its numbers and ours",
        )
    )
    paper.add_search(
        commands.add_parser("search", usage=f"groc search RECIPE {SETTINGS}", help="try settings, choose on valid text")
    )
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
    add_json(parser)
    parser.set_defaults(run=run)


def _train(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        try:
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
        except KeyboardInterrupt as stop:
            if type(stop) is KeyboardInterrupt:  # else the command has said what it left behind
                print("Stopped before training began: there is nothing to go on with.", file=sys.stderr)
            raise

    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="tiny, penn, penn-best, wikitext2, wikitext2-best, news, pocket, or a .toml file",
    )
    parser.add_argument("--variant", metavar="NAME", help="a variant of the recipe, such as tied; see groc info RECIPE")
    parser.add_argument("--corpus", metavar="DIR", help="a folder with train, valid and test (.txt, .txt.gz, .txt.xz)")
    parser.add_argument("--out", metavar="RUN", help="the run's folder (default: runs/RECIPE-VARIANT)")
    add_glossary(parser)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was stopped, with its own epochs and device unless others are given",
    )
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def _info(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.info import info

        info(options.target, options.variant, options.settings, options.corpus, options.json)

    parser.add_argument("target", metavar="RECIPE|RUN", help="a recipe, or a folder that groc train wrote")
    parser.add_argument("--variant", metavar="NAME", help="a variant of the recipe")
    parser.add_argument("--corpus", metavar="DIR", help="whose words to count with")
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def _bench(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.bench import bench

        bench(
            options.size,
            options.model,
            options.steps,
            options.device,
            options.settings,
            options.out,
            options.json,
        )

    parser.add_argument(
        "--size",
        action="append",
        default=[],
        help="penn, wikitext2, 100k, 1m, ... (default: all, on a CPU penn); a wrong name is answered with all",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a model to time beside tied (default: convolutional and GroC); a wrong name is answered with all",
    )
    parser.add_argument("--steps", type=int, default=20, help="how many steps are timed (default: 20)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    parser.add_argument("--out", metavar="FILE", help="write the record there")
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)


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
        add_json(action)
