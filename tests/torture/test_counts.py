"""The counts on the page about reliability are those of the files in `results/torture`."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "reliability.md").read_text("utf-8").split())
ENTRIES = {
    "planetoid": "Planetoid pickles",
    "npz": ".npz",
    "csv": "CSV",
    "parquet": "Parquet",
    "toml": "TOML settings",
    "checkpoint": "networks, checkpoints",
    "jsonlines": "JSON lines, results",
    "run": "run folders",
    "store": "graph stores",
    "arrays": "arrays, OGB folders",
    "arguments": "words of commands",
    "border": "files at the border of what is valid",
    "special": "special files",
    "changed": "changed stores",
    "shuffled": "shuffled tables",
    "few-nodes": "few validation nodes",
}
COMMANDS = {
    "train": "train",
    "train-batches": "train, mini-batches",
    "convert": "data convert",
    "fetch": "data fetch",
    "report": "report",
    "reproduce": "reproduce",
    "search": "search",
    "ddp": "train by torchrun, 2 ranks",
    "ray": "train with Ray, 2 seeds",
}


def read(name: str) -> dict:
    return json.loads((ROOT / "results" / "torture" / f"{name}.json").read_text("utf-8"))


def test_the_cases_of_the_fuzz_are_as_many_as_the_page_says():
    counts = read("fuzz")
    rows = {ENTRIES[name]: one for name, one in counts["entries"].items()} | {
        "all": counts["total"]
    }
    assert len(rows) == len(ENTRIES) + 1
    for title, one in rows.items():
        cells = [f"{one[what]:,}" for what in ("cases", "mutations", "read", "refused", "failed")]
        assert f"| {title} | {' | '.join(cells)} |" in PAGE
    assert f"Counted in {read('loader-coverage')['cases']:,} cases" in PAGE


def test_the_kills_are_as_many_as_the_page_says():
    counts = read("kills")
    for name, one in counts["commands"].items():
        title = COMMANDS[name]
        assert one["errors"] == 0
        cells = (one["kills"], one["done_before"], one["different"], round(one["seconds"]))
        assert f"| {title} | {' | '.join(map(str, cells))} |" in PAGE
    total = counts["total"]
    early = sum(one["done_before"] for one in counts["commands"].values())
    assert total["kills"] == sum(one["kills"] for one in counts["commands"].values())
    assert f"| all | {total['kills']} | {early} | {total['different']} | |" in PAGE


@pytest.mark.parametrize("what", ["mutants", "killed", "there_are"])
def test_the_mutants_are_as_many_as_the_page_says(what):
    assert f"{read('mutants')[what]:,} " in PAGE.partition("## Mutants")[2].partition("## ")[0]


def test_the_fits_in_one_process_are_as_many_as_the_page_says():
    said = PAGE.partition("## Endurance")[2].partition("## ")[0]
    found = read("endurance")
    assert f"{found['fits']:,} times" in said
    for when in ("before", "after"):
        assert f" {found[when]['kilobytes'] / 1024:.0f} " in said
        assert found[when]["threads"] == found["before"]["threads"]
        assert found[when]["files"] == found["before"]["files"]
