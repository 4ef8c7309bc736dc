"""Whoever runs a recipe gets what the tables show: the settings behind each shown row are those of its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from groc.paper import TABLES, Results
from groc.paper.runs import Job, identity
from groc.recipe import load_recipe

RESULTS = Results(Path(__file__).parents[1] / "results")
CELLS = [cell for table in TABLES.values() for cell in table.cells if cell.job and RESULTS.of(cell.job)]
JOBS = list(dict.fromkeys(cell.job for cell in CELLS))


def test_some_rows_were_run() -> None:
    assert {job.variant for job in JOBS if job} >= {"tied", "groc"}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.recipe}/{job.variant}{dict(job.changes) or ''}")
def test_a_row_is_what_its_recipe_gives(job: Job) -> None:
    recipe = load_recipe(job.recipe, job.variant, []).replace(dict(job.changes))
    assert identity(recipe.flat()) == identity(RESULTS.of(job)[0].settings)
