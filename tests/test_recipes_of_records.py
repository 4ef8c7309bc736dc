"""Whoever runs a recipe gets what the tables show: the settings behind each shown row are those of its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from groc.paper import TABLES, Results
from groc.paper.runs import Job, identity
from groc.recipe import load_recipe

RECORDS = Path(__file__).parents[1] / "results"
JOBS = list(dict.fromkeys(cell.job for table in TABLES.values() for cell in table.cells if cell.job))


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(RECORDS)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.recipe}/{job.variant}{dict(job.changes) or ''}")
def test_a_row_is_what_its_recipe_gives(results: Results, job: Job) -> None:
    runs = results.of(job)
    if not runs:
        pytest.skip("not run")
    recipe = load_recipe(job.recipe, job.variant, []).replace(dict(job.changes))
    assert identity(recipe.flat()) == identity(runs[0].settings)
