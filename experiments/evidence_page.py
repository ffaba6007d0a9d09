"""The passages of docs/evidence.md that are made from the committed records.

    python -m experiments.evidence_page results docs/evidence.md

writes them between their marks; a test compares them with the records.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path

from experiments import worth_page
from experiments.goals import goals, paper_cells
from experiments.published import beside_published
from experiments.rivals_page import pavpu_standing, uncertainty
from experiments.splits import passage as splits
from experiments.store import Store, search_lines
from experiments.target_runs import stored
from experiments.worth_claims import (
    CLAIMS,
    advice,
    claims,
    compare_masks_after_normalization,
    sensitivity,
    words_of,
)
from graphdrop.io.files import replace_file

END = "<!-- made: end -->"
BEGIN = "<!-- made by experiments.evidence_page: {name} -->"
PASSAGE = re.compile(
    re.escape(BEGIN).replace(r"\{name\}", "(?P<name>[a-z-]+)") + "(?P<text>.*?)" + re.escape(END),
    re.DOTALL,
)


def core_hours(folder: Path) -> float:
    """Processor time of all lines that have it."""
    records = list(Store(folder).records().values())
    for lines in search_lines(folder).values():
        records += lines
    return float(sum(record.get("cpu_seconds", 0.0) for record in records)) / 3600.0


def looks(folder: Path) -> str:
    """How many lines every search and look on validation nodes has."""
    counts = {name: len(lines) for name, lines in search_lines(folder).items()}
    by_file = ", ".join(f"`{name}` {count:,}" for name, count in counts.items())
    return f"`results/searches` has {sum(counts.values()):,} lines in all: {by_file}."


@lru_cache(maxsize=1)
def passages(folder: Path) -> Mapping[str, Callable[[], str]]:
    """Every passage by its name."""
    made, store = worth_page.committed(folder), Store(folder)
    rivals = stored("rivals-auto", store)
    return {
        "summary": lambda: worth_page.summary(made),
        "uncertainty": lambda: uncertainty(rivals),
        "splits": lambda: splits(stored("splits-tuned", store)),
        "published": lambda: beside_published(store, search_lines(folder)["auto-looks"]),
        "sensitivity": lambda: sensitivity(made),
        "comparisons": lambda: worth_page.tables(made),
        "advice": lambda: advice(made, rivals),
        "claims": lambda: claims(made),
        "goals": lambda: goals(store),
        "cells": lambda: paper_cells(store),
        "cost": lambda: (
            "All runs whose processor time is recorded, those of unfinished parts too, took "
            f"{core_hours(folder):.1f} core-hours; older runs of the paper's tables have no such "
            "record."
        ),
        "looks": lambda: looks(folder),
        "pavpu": lambda: pavpu_standing(rivals),
        "normalization": lambda: compare_masks_after_normalization(made),
        **{f"claim-{one.name}": partial(words_of, made, one.name) for one in CLAIMS},
    }


def with_passages(page: str, made: Mapping[str, Callable[[], str]]) -> str:
    """A page with every passage between its marks, which stand on lines of their own or in one."""

    def renewed(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in made:
            raise ValueError(
                f"the page has a mark for {name!r}; it takes one of {', '.join(made)}."
            )
        space = "\n" if "\n" in found["text"] else ""  # within a line, such as a cell, none
        return f"{BEGIN.format(name=name)}{space}{made[name]()}{space}{END}"

    return PASSAGE.sub(renewed, page)


def main(results: str, *pages: str) -> None:
    """Write the passages into pages."""
    for path in map(Path, pages):
        text = with_passages(path.read_text(encoding="utf-8"), passages(Path(results)))
        replace_file(path, text.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
