"""Arguments of the commands for daily use: score, next, generate, explain, serve."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from groc.cli.options import add_glossary, add_json
from groc.errors import GrocError

RUN = "a folder that groc train wrote (default: the bundled model)"


def add_score(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.score import show_scores

        show_scores(
            options.arguments,
            options.format,
            options.documents,
            options.glossary,
            options.tokenised,
            options.ends,
            options.unknown,
            options.device,
        )

    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="[RUN] FILE",
        help=f"{RUN}, and texts (.gz and .xz too; - or none: standard input)",
    )
    parser.add_argument(
        "--format", default="tsv", choices=("tsv", "jsonl", "text"), help="rows (default: tsv), or the text in colour"
    )
    parser.add_argument(
        "--documents",
        default="file",
        choices=("file", "line", "all"),
        help="what is read as one stream: a file (default), a line, or all files; rows name their file and line",
    )
    parser.add_argument("--tokenised", action="store_true", help="the text's words are separated by spaces already")
    parser.add_argument("--ends", action="store_true", help="rows for the <eos> at the ends of lines, too")
    parser.add_argument("--unknown", action="store_true", help="read new words as <unk>")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    add_glossary(parser)
    parser.set_defaults(run=run)


def add_next(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.next_words import show_next

        model, text = _run_and(options.arguments, "TEXT")
        show_next(
            model,
            text,
            options.limit,
            options.words,
            options.glossary,
            options.tokenised,
            options.unknown,
            options.json,
        )

    parser.add_argument(
        "arguments", nargs="*", metavar="[RUN] TEXT", help=f"{RUN}, and what stands before; '' is the start of a text"
    )
    parser.add_argument("--limit", type=int, default=10, help="how many words to show (default: 10)")
    parser.add_argument("--words", metavar="FILE", help="choose among these alone, known or new: one word a line")
    add_glossary(parser)
    _reading(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def add_generate(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.generate import show_generated

        if len(options.arguments) > 1:
            raise GrocError("groc generate takes one RUN; what to go on with is given as --text 'words'.")
        show_generated(
            next(iter(options.arguments), None),
            options.text,
            options.glossary,
            options.tokenised,
            options.json,
            length=options.length,
            seed=options.seed,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            unknown=options.unknown,
        )

    parser.add_argument("arguments", nargs="*", metavar="[RUN]", help=RUN)
    parser.add_argument("--text", default="", help="what to go on with (default: nothing)")
    parser.add_argument("--length", type=int, default=50, help="how many words, ends of lines counted (default: 50)")
    parser.add_argument("--seed", type=int, help="the same number gives the same text")
    parser.add_argument("--temperature", type=float, default=1.0, help="below 1 plainer, above 1 wilder, 0 no chance")
    parser.add_argument(
        "--top-k", type=int, default=0, metavar="K", help="draw from the K most probable words alone (0: all)"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="P", help="draw from the fewest words that hold the share P"
    )
    add_glossary(parser)
    _reading(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def add_explain(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.explain import show_explanation

        model, word = _run_and(options.arguments, "WORD")
        show_explanation(model, word, options.context, options.limit, options.glossary, options.json)

    parser.add_argument("arguments", nargs="*", metavar="[RUN] WORD", help=f"{RUN}, and any word, known or new")
    parser.add_argument("--context", metavar="TEXT", help="what stands before it; '' is the start of a text")
    parser.add_argument("--limit", type=int, default=10, help="how many of the nearest words (default: 10)")
    add_glossary(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def _run_and(arguments: Sequence[str], name: str) -> tuple[str | None, str]:
    """What `[RUN] NAME` was given."""
    if len(arguments) not in (1, 2):
        raise GrocError(
            f"One {name} is needed, in quotes if it holds spaces, and before it the folder of a run or none."
        )
    if len(arguments) == 2:
        return arguments[0], arguments[1]
    from groc.checkpoint import CONFIG

    if os.path.isfile(os.path.join(arguments[0], CONFIG)):  # a pathlib.Path of a long text would raise an error
        raise GrocError(f"{arguments[0]} is the folder of a run: give a {name} after it, in quotes if it holds spaces.")
    return None, arguments[0]


def _reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokenised", action="store_true", help="the text's words are separated by spaces already")
    parser.add_argument("--unknown", action="store_true", help="<unk> may be among the words")


def add_serve(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.serve import serve

        serve(options.arguments, options.glossary, options.host, options.port, options.token)

    parser.add_argument("arguments", nargs="*", metavar="RUN", help="run folders (default: the bundled model)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0 takes any that is free")
    parser.add_argument("--token", help="who asks must have it; made up where the host is not this machine alone")
    add_glossary(parser)
    parser.set_defaults(run=run)
