"""Makes `nodes.csv` and `edges.csv`: two hundred papers that cite each other, all made up.

    python examples/data/make.py [FOLDER]

Every paper has a field, which one in eight lacks (nobody has read it yet); a venue, a country and
numbers, some of them missing; a title; and citations, most of them within its field.
`new_nodes.csv` and `new_edges.csv` are eighty papers of a later year, none of them with a field.
"""

import csv
import sys
from pathlib import Path
from random import Random

FIELDS = ("biology", "chemistry", "physics")
VENUES = {
    "biology": ("Cell Notes", "Open Letters", "Field Studies"),
    "chemistry": ("Bench", "Open Letters", "Reactions"),
    "physics": ("Waves", "Open Letters", "Reactions"),
}
COUNTRIES = ("BR", "DE", "IN", "JP", "KE", "US")
PAGES = {"biology": 14.0, "chemistry": 9.0, "physics": 7.0}
WORDS = {
    "biology": ("cells", "growth", "rivers", "genes", "mice"),
    "chemistry": ("acids", "salts", "catalysts", "bonds", "solvents"),
    "physics": ("waves", "lasers", "spins", "plasma", "fields"),
}
COLUMNS = ("paper_id", "title", "year", "pages", "references", "venue", "country", "paper_class")


def papers(random: Random, count: int, prefix: str, years: tuple[int, int]) -> list[list[str]]:
    """A row for each paper, its class in the last cell."""
    rows = []
    for number in range(count):
        field = FIELDS[number % len(FIELDS)]
        pages = max(2, round(random.gauss(PAGES[field], 4)))
        references = max(0, round(random.gauss(25, 9)))
        one, other = random.sample(WORDS[field] + WORDS[random.choice(FIELDS)], 2)
        venue = random.choice(VENUES[field] if random.random() < 0.75 else ("Open Letters",))
        rows.append(
            [
                f"{prefix}{number + 1:03d}",
                f"On {one} and {other}, part {number + 1}",
                str(random.randint(*years)),
                "" if random.random() < 0.06 else str(pages),
                str(references),
                "" if random.random() < 0.04 else venue,
                random.choice(COUNTRIES),
                field,
            ]
        )
    return rows


def citations(random: Random, rows: list[list[str]], each: float) -> list[tuple[str, str]]:
    """Pairs of papers, about two thirds of them of one field."""
    by_field = {field: [row[0] for row in rows if row[-1] == field] for field in FIELDS}
    every = [row[0] for row in rows]
    pairs = set()
    while len(pairs) < each * len(rows):
        paper = random.choice(rows)
        cited = random.choice(by_field[paper[-1]] if random.random() < 0.6 else every)
        if cited != paper[0] and (cited, paper[0]) not in pairs:
            pairs.add((paper[0], cited))
    return sorted(pairs)


def write(
    path: Path, header: tuple[str, ...], rows: list[list[str]] | list[tuple[str, str]]
) -> None:
    """A CSV file in UTF-8."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


def main(folder: Path) -> None:
    """Write the four files."""
    random = Random(20)  # noqa: S311 - a story, not a secret
    known = papers(random, 200, "p", (2005, 2020))
    write(folder / "edges.csv", ("source", "target"), citations(random, known, 2.5))
    read = [row if random.random() > 0.125 else [*row[:-1], ""] for row in known]
    write(folder / "nodes.csv", COLUMNS, read)
    later = papers(random, 80, "q", (2021, 2022))
    write(folder / "new_edges.csv", ("source", "target"), citations(random, later, 2.5))
    write(folder / "new_nodes.csv", COLUMNS[:-1], [row[:-1] for row in later])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
