"""The command line of the paper's tables and of searches: nothing but the parsing of arguments."""

from __future__ import annotations

import argparse

from groc.cli.options import add_json

CORPUS = "a folder with train and valid text; nothing else is read"


def add_paper(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.paper import paper

        paper(
            options.table,
            options.results,
            options.figure,
            options.run_missing,
            options.corpus_root,
            options.runs,
            options.seeds,
            {"dataset": options.dataset, "model": options.model},
            options.settings,
            options.json,
        )

    parser.add_argument("table", nargs="?", metavar="TABLE", help="which table, or claims (default: list them all)")
    parser.add_argument("--results", default="results", metavar="DIR", help="the records of runs (default: results)")
    parser.add_argument(
        "--figure", metavar="FILE", help="draw it into FILE (.png, .pdf, .svg), where the table has a figure"
    )
    parser.add_argument(
        "--run",
        dest="run_missing",
        action="store_true",
        help="train and evaluate what is missing (times are not taken here, but by groc bench)",
    )
    parser.add_argument("--corpus-root", metavar="DIR", help="for --run: the folder above the corpora")
    parser.add_argument("--runs", metavar="DIR", help="for --run: where run folders go (default: runs)")
    parser.add_argument("--seeds", type=int, metavar="N", help="for --run: train with seeds 1 to N (default: 1)")
    for key in ("dataset", "model"):
        parser.add_argument(
            f"--{key}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"show this {'dataset or domain' if key == 'dataset' else key} alone, or with --run train no other "
            "(repeatable)",
        )
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)


def add_search(parser: argparse.ArgumentParser) -> None:
    def run(options: argparse.Namespace) -> None:
        from groc.commands.search import show_search

        show_search(
            options.recipe,
            options.variant,
            options.settings,
            options.corpus,
            options.out,
            options.trials,
            options.method,
            options.paper_ranges,
            not options.no_pruning,
            options.seed,
            options.json,
        )

    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name, or the path of a .toml file")
    parser.add_argument("--variant", metavar="NAME", help="a variant of the recipe, such as tied")
    parser.add_argument("--corpus", required=True, metavar="DIR", help=CORPUS)
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="where trials go; go on there with the same command"
    )
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="the budget (default: 20)")
    parser.add_argument("--method", choices=("grid", "tpe"), help="all combinations (default for lists), or Optuna's")
    parser.add_argument(
        "--paper-ranges", action="store_true", help="the lists that the paper searched for such a model"
    )
    parser.add_argument("--no-pruning", action="store_true", help="let hopeless trials go on to their end")
    parser.add_argument("--seed", type=int, default=1, help="of the search (the models': training.seed)")
    add_json(parser)
    parser.set_defaults(run=run, takes_settings=True)
