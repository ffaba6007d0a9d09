"""Makes the tables in this folder: two hundred papers that cite each other, all made up.

    python examples/data/make.py [FOLDER]

Every paper has a field, which one in eight lacks (nobody has read it yet); a venue, a country and
numbers, some of them missing; a title; and citations, most of them within its field.
`new_nodes.csv` and `new_edges.csv` are eighty papers of a later year, none of them with a field.
The package has copies of the four files, which `graphdrop data example` writes.

The dirty pair (`graphdrop data example --dirty`) is eight hundred papers whose citations were read
by a machine: two sevenths of these join papers of different fields that never cited each other.
The column `confidence` of the edges says how sure the machine was. `bad_edges.csv` lists the wrong
ones.
"""

import csv
import io
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
DIRTY_PAPERS, DIRTY_WORDS = 800, 4
"""The number of papers of the dirty pair, and of the words of each field that are counted."""
GOOD_CITATIONS, BAD_CITATIONS, MISTAKEN_PAPERS = 1600, 640, 200
"""Citations of the dirty pair; the first papers are those that bad citations are taken for."""
COLUMNS = ("paper_id", "title", "year", "pages", "references", "venue", "country", "paper_class")


def _papers(random: Random, count: int, prefix: str, years: tuple[int, int]) -> list[list[str]]:
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


def _citations(random: Random, rows: list[list[str]], each: float) -> list[tuple[str, str]]:
    """Pairs of papers, about two thirds of them of one field."""
    by_field = {field: [row[0] for row in rows if row[-1] == field] for field in FIELDS}
    every = [row[0] for row in rows]
    pairs: set[tuple[str, str]] = set()
    while len(pairs) < each * len(rows):
        paper = random.choice(rows)
        cited = random.choice(by_field[paper[-1]] if random.random() < 0.6 else every)
        if cited != paper[0] and (cited, paper[0]) not in pairs:
            pairs.add((paper[0], cited))
    return sorted(pairs)


def _as_csv(header: tuple[str, ...], rows: list[list[str]] | list[tuple[str, str]]) -> bytes:
    """A CSV file in UTF-8."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue().encode("utf-8")


def example_files() -> dict[str, bytes]:
    """The four files by their names; always the same bytes."""
    random = Random(20)  # noqa: S311 - a story, not a secret
    known = _papers(random, 200, "p", (2005, 2020))
    edges = _citations(random, known, 2.5)
    read = [row if random.random() > 0.125 else [*row[:-1], ""] for row in known]
    later = _papers(random, 80, "q", (2021, 2022))
    later_edges = _citations(random, later, 2.5)
    return {
        "nodes.csv": _as_csv(COLUMNS, read),
        "edges.csv": _as_csv(("source", "target"), edges),
        "new_nodes.csv": _as_csv(COLUMNS[:-1], [row[:-1] for row in later]),
        "new_edges.csv": _as_csv(("source", "target"), later_edges),
    }


def dirty_files() -> dict[str, bytes]:
    """The dirty pair of tables, and the list of its bad edges; always the same bytes."""
    random = Random(24)  # noqa: S311 - a story, not a secret
    rows, field_of = list[list[str]](), dict[str, str]()
    for i in range(DIRTY_PAPERS):
        field, paper = FIELDS[i % len(FIELDS)], f"p{i + 1:03d}"
        field_of[paper] = field
        chances = [0.3 if known == field else 0.2 for known in FIELDS for _ in range(DIRTY_WORDS)]
        counts = [str(sum(random.random() < chance for _ in range(5))) for chance in chances]
        rows.append([paper, *counts, field])
    papers = list(field_of)
    confidence = dict[tuple[str, str], float]()
    while len(confidence) < GOOD_CITATIONS:
        pair = (random.choice(papers), random.choice(papers))
        same = field_of[pair[0]] == field_of[pair[1]] or random.random() < 0.03
        if same and pair[0] > pair[1]:
            confidence[pair] = random.triangular(0.3, 1.0, 0.95)
    good = set(confidence)
    while len(confidence) < GOOD_CITATIONS + BAD_CITATIONS:
        pair = (random.choice(papers), random.choice(papers[:MISTAKEN_PAPERS]))
        if field_of[pair[0]] != field_of[pair[1]] and pair[0] > pair[1]:
            confidence.setdefault(pair, random.triangular(0.1, 0.9, 0.3))
    words = [word for field in FIELDS for word in WORDS[field][:DIRTY_WORDS]]
    edges = [[*pair, f"{confidence[pair]:.2f}"] for pair in sorted(confidence)]
    return {
        "nodes.csv": _as_csv(("paper_id", *words, "paper_class"), rows),
        "edges.csv": _as_csv(("source", "target", "confidence"), edges),
        "bad_edges.csv": _as_csv(("source", "target"), sorted(set(confidence) - good)),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, content in example_files().items():
        (folder / name).write_bytes(content)
