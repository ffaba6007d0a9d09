"""What the pages quote is what the committed results say."""

import itertools
from pathlib import Path

import pytest

from experiments import recipe as recipes
from experiments.evidence_page import BEGIN, END, PASSAGE, passages, with_passages
from experiments.goals import KINDS, TABLES
from experiments.search import read_search
from experiments.search_ranking import outcome
from experiments.store import Store
from experiments.target_runs import stored

ROOT = Path(__file__).parents[2]


def test_the_passages_that_are_made_are_what_the_lines_give():
    said = (ROOT / "docs/evidence.md").read_text("utf-8")
    made = with_passages(said, passages(ROOT / "results"))
    assert said == made, "python -m experiments.evidence_page results docs/evidence.md"


def test_the_page_on_the_evidence_has_every_passage():
    said = (ROOT / "docs/evidence.md").read_text("utf-8")
    assert {found["name"] for found in PASSAGE.finditer(said)} == {*passages(ROOT / "results")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.target)
def test_rows_with_and_without_dropout_are_of_runs_with_and_without_it(table, kind):
    found = stored(f"{table.target}-{kind.recipe}", Store(ROOT / "results"))
    for row, column in itertools.product(table.rows, table.columns):
        for config in (record["config"] for record in found.at(row, column).records):
            assert (config["model"]["dropout"] > 0.0) is kind.dropout
            assert not kind.sampled or config["predict"]["masks"] in ("relaxed", "hard")


def test_a_passage_within_a_line_stays_within_it():
    mark = BEGIN.format(name="claim-arm")
    cell = f"| ARM | {mark}what was said before{END} |"
    made = passages(ROOT / "results")["claim-arm"]()
    assert with_passages(cell, passages(ROOT / "results")) == f"| ARM | {mark}{made}{END} |"


def kept(config):
    """The settings of a run but for what its seed decides."""
    values = config.model_dump(exclude={"seed"})
    del values["data"]["split_seed"]
    return values


@pytest.mark.parametrize(
    "name", [name for name in recipes.names() if recipes.read_recipe(name).found is not None]
)
def test_what_a_tuned_recipe_runs_is_what_won_its_search(name):
    recipe = recipes.read_recipe(name)
    assert recipe.found is not None
    search = read_search(recipe.found)
    records = Store(ROOT / "results" / "searches", f"{recipe.found}.jsonl").records()
    if not records:  # a search that was not made has found nothing
        assert recipes.winners(name, recipe.found) == []
        return
    cells = {cell.name: cell for cell in recipe.cells()}
    outcomes = [outcome(search, cell, records) for cell in search.cells()]
    winners = {one.cell.name: one.winner for one in outcomes if one.winner is not None}
    rules = recipes.winners(name, recipe.found)
    assert len(rules) == len(winners) > 0
    for cell, winner in winners.items():
        assert kept(cells[cell].configs[0]) == kept(winner.trial.configs[0])
