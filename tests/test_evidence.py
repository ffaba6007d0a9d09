"""What the pages quote is what the committed results say."""

import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest

from contracts import committed
from graphdrop.experiments import recipe as recipes
from graphdrop.experiments.evidence_page import BEGIN, END, PASSAGE, passages, with_passages
from graphdrop.experiments.paper_cells import KINDS, TABLES
from graphdrop.experiments.search import read_search
from graphdrop.experiments.search_ranking import outcome
from graphdrop.experiments.store import Store
from graphdrop.experiments.target_runs import stored
from graphdrop.experiments.worth_claims import on_claims
from graphdrop.experiments.worth_page import Made
from graphdrop.experiments.worth_page import committed as worth_runs
from graphdrop.report.tables import Summary

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
NUMBER = r"(?<![\w.])[+-]?\d+\.\d+(?!\w|\.\d)"
FIGURE = re.compile(rf"{NUMBER}|(?<![\w.])\d+(?=(?: to \d+)? %)")
"""A decimal number, or a whole one in percent."""
MEAN_AND_DEVIATION = re.compile(r"(?<![\w.])-?[\d.]+ ± \d+(?:\.\d+)?")
QUOTED = tomllib.loads((ROOT / "tests/quoted_figures.toml").read_text("utf-8"))["figure"]
ELSEWHERE = ("paper", "published", "setting", "example", "timing", "check")


def plain(text: str) -> str:
    """The words of a page in one line: no code, no addresses of links, no emphasis."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = PASSAGE.sub("", text)  # made from the lines, see below
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = text.replace("**", "").replace("<br>", " ").replace("\N{MINUS SIGN}", "-")
    return " ".join(text.split())


def rounds_to(value: float, quoted: str) -> bool:
    """Whether a number is what is quoted, at the digits it is quoted with."""
    digits = len(quoted.partition(".")[2])
    return abs(value - float(quoted)) <= 0.5 * 10**-digits + 1e-9


RENDERED = {
    tuple(map(float, pair.split(" ± ")))
    for page in (ROOT / "results").rglob("*.md")
    for pair in MEAN_AND_DEVIATION.findall(plain(page.read_text("utf-8")))
}
PRINTED = {
    figures[0]
    for target, rows in committed.paper().items()
    if target != "table4"
    for columns in rows.values()
    for figures in columns.values()
}


def in_a_table(pair: str) -> bool:
    mean, deviation = pair.split(" ± ")
    return any(rounds_to(m, mean) and rounds_to(d, deviation) for m, d in RENDERED)


def explained(page: str) -> str:
    """A page without the figures of which it is known where they come from."""
    text = plain((ROOT / page).read_text("utf-8"))
    for entry in QUOTED:
        if entry["page"] in (page, "*"):
            quote = plain(entry["quote"])
            assert entry["page"] == "*" or quote in text, f"{page} no longer says: {quote}"
            # What stands between is kept: means with deviations are looked up in the tables.
            text = text.replace(quote, " ".join(MEAN_AND_DEVIATION.findall(quote)))
    text = MEAN_AND_DEVIATION.sub(lambda pair: "" if in_a_table(pair[0]) else pair[0], text)
    # A figure of the paper says so, or stands in a cell of its own in a column of that name.
    return re.sub(
        rf"(?:paper |\| )({NUMBER})(?= |$)",
        lambda found: "| " if float(found[1]) in PRINTED else found[0],
        text,
    )


def test_every_figure_on_a_page_is_a_result_that_is_kept_or_known_to_be_something_else():
    unknown = []
    for page in PAGES:
        text = explained(page)
        at = [*MEAN_AND_DEVIATION.finditer(text), *FIGURE.finditer(text)]
        unknown += [f"{page}: {text[max(0, a.start() - 60) : a.end() + 30]}" for a in at]
    assert not unknown, "\n".join(["not in results nor in quoted_figures.toml:", *unknown])


@pytest.mark.parametrize("page", ["docs/evidence.md", "README.md"])
def test_the_passages_that_are_made_are_what_the_lines_give(page):
    said = (ROOT / page).read_text("utf-8")
    made = with_passages(said, ROOT / "results")
    assert said == made, f"python -m graphdrop.experiments.evidence_page results {page}"


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
    assert with_passages(cell, ROOT / "results") == f"| ARM | {mark}{made}{END} |"


def test_guides_say_that_learned_masks_are_not_shown_to_gain_while_that_is_so():
    found = {one.claim.name: one for one in on_claims(Made(worth_runs(ROOT / "results")))}
    assert not found["dropout"].holds
    assert not found["dropedge"].holds
    guides = {
        "choose-sampler": "Beside DropOut, and beside one draw per edge, it is not shown to gain",
        "comparison": "Learned masks are not shown to beat DropOut",
        "faq": "Is it more accurate than DropOut? Not shown.",
    }
    for name, said in guides.items():
        assert said in plain((ROOT / "docs" / f"{name}.md").read_text("utf-8")), name


def flat(value) -> list[float]:
    """The numbers of a value; a summary gives its mean and the ends of its interval."""
    if isinstance(value, Summary):
        return [value.mean, value.low, value.high]
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in flat(part)]
    return [value]


def fault(entry) -> str:
    """What is wrong with an entry of quoted_figures.toml, or nothing."""
    quote = MEAN_AND_DEVIATION.sub("", plain(entry["quote"]))
    quoted = FIGURE.findall(quote)
    if not quoted:
        return "the passage has no decimal number: take the entry out"
    if "from" in entry:
        if entry["from"] not in ELSEWHERE:
            return f"from is {entry['from']}; it takes one of {ELSEWHERE}"
        other = {float(one) for one in quoted} - PRINTED
        return f"the paper does not print {other}" if other and entry["from"] == "paper" else ""
    names = vars(committed)
    found = flat([eval(expression, dict(names)) for expression in entry["is"]])
    same = len(found) == len(quoted) and all(map(rounds_to, found, quoted))
    return "" if same else f"{quoted}, but the lines say {found}"


def test_quoted_figures_are_what_the_lines_say():
    faults = [f"{e['page']}: {e['quote'][:60]}: {wrong}" for e in QUOTED if (wrong := fault(e))]
    assert not faults, "\n".join(faults)


def test_looks_at_learned_rates_are_as_many_as_the_pages_say():
    looks = committed.looks().values()
    learned = [one for one in looks if "BB" in one[0]["config"]["model"]["method"]]
    said = plain((ROOT / "docs/evidence.md").read_text("utf-8"))
    assert f"Of the {len(looks)} settings looked at {len(learned)} were of learned rates" in said
    said = plain((ROOT / "README.md").read_text("utf-8"))
    assert f"of the {len(looks)} single settings looked at beside the search {len(learned)}" in said


def test_winners_of_learned_rates_have_the_dropout_and_the_prediction_that_the_pages_say():
    rules = [one for one in recipes.winners("", "table1") if one["methods"][0].startswith("GCN-BB")]
    dropouts = {rule["set"]["model"]["dropout"] for rule in rules}
    off = [rule for rule in rules if rule["set"]["predict"]["masks"] == "off"]
    assert (min(dropouts), max(dropouts)) == (0.5, 0.8)
    said = plain((ROOT / "README.md").read_text("utf-8"))
    assert f"all {len(rules)} winners of learned rates have DropOut of 0.5 to 0.8" in said
    assert f"and {len(off)} of them predict with masks off" in said
    cells = {(rule["datasets"][0], rule["layers"][0]) for rule in off}
    assert cells == {("cora", 2), ("cora", 4), ("citeseer", 2)}


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
