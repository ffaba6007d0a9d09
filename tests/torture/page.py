"""The tables of docs/reliability.md, made from the counts: `python -m torture.page`."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
MARKS = re.compile(r"(<!-- made by torture.page: (\w+) -->\n).*?(<!-- made: end -->)", re.DOTALL)
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
    "special": "pipes, devices and links in the place of files",
    "changed": "stores changed on disk",
    "shuffled": "tables in another order",
    "few-nodes": "calibrators with few validation nodes",
}
COMMANDS = {
    "train": "train",
    "train-batches": "train, mini-batches",
    "convert": "data convert",
    "fetch": "data fetch",
    "report": "report",
    "reproduce": "`python -m experiments`",
    "search": "`python -m experiments search`",
    "ddp": "train by torchrun, 2 ranks",
    "ray": "train with Ray, 2 seeds",
}


def read_counts(name: str) -> dict[str, Any]:
    path = ROOT / "results" / "torture" / f"{name}.json"
    return dict(json.loads(path.read_text("utf-8")))


def table(name: str) -> str:
    """Return the table of a part: of the fuzz by entry, of the kills by command."""
    counts = read_counts(name)
    if name == "fuzz":
        head = ["entry", "cases", "mutations of valid files", "read", "refused by name", "failed"]
        keys = ("cases", "mutations", "read", "refused", "failed")
        rows = [(ENTRIES[entry], own) for entry, own in counts["entries"].items()]
    else:
        head = ["command", "kills", "done before its moment", "another result", "errors"]
        keys = ("kills", "done_before", "different", "errors")
        rows = [(COMMANDS[command], own) for command, own in counts["commands"].items()]
    total = {key: sum(own[key] for _, own in rows) for key in keys}
    lines = [[title, *(f"{own[key]:,}" for key in keys)] for title, own in [*rows, ("all", total)]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def renew(page: str) -> str:
    """Return a page with its tables made anew."""
    return MARKS.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(renew(PAGE.read_text("utf-8")), "utf-8")
