"""What the pages quote is what the committed results say."""

import json
import re
from pathlib import Path

import pytest

from graphdrop.experiments import recipe as recipes
from graphdrop.experiments.contest import outcome
from graphdrop.experiments.search import read_search

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"(?<![\d.])-?\d+\.\d+ ± \d+\.\d+(?!\d)")


def quoted(page: Path) -> set[str]:
    """Every mean and deviation on a page."""
    return set(FIGURE.findall(page.read_text("utf-8").replace("\N{MINUS SIGN}", "-")))


RESULTS = {
    figure
    for folder in ("paper", "tuned")
    for page in (ROOT / "results" / folder).glob("*.md")
    for figure in quoted(page)
}


@pytest.mark.parametrize(
    "page", ["README.md", "docs/evidence.md", "docs/general-form.md", "docs/local-rates.md"]
)
def test_every_mean_and_deviation_on_a_page_is_in_a_table_of_the_results(page):
    figures = quoted(ROOT / page)
    assert figures, f"{page} quotes no result"
    assert figures - RESULTS == set()


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
    lines = ROOT / "results" / "searches" / f"{recipe.found}.jsonl"
    if not lines.exists():  # a search that was not made has found nothing
        assert recipes.winners(name, recipe.found) == []
        return
    read = map(json.loads, lines.read_text("utf-8").splitlines())
    records = {record["key"]: record for record in read}
    cells = {cell.name: cell for cell in recipe.cells()}
    outcomes = [outcome(search, cell, records) for cell in search.cells()]
    winners = {one.cell.name: one.winner for one in outcomes if one.winner is not None}
    rules = recipes.winners(name, recipe.found)
    assert len(rules) == len(winners) > 0
    for cell, winner in winners.items():
        assert kept(cells[cell].configs[0]) == kept(winner.trial.configs[0])
