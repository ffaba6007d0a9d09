"""A figure to reach, what was measured, and whether it was reached; printed and kept as JSON."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numba
import torch
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass
class Row:
    """One measured figure; ``limit`` is the least or the most it may be."""

    what: str
    figure: float
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.limit is None:
            return None
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


@dataclass
class Report:
    """The rows of one benchmark."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    part: str | None = None
    """Of a benchmark whose parts are measured one by one: the others stay in the file."""

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def finish(self, *, write: bool = True) -> bool:
        """Print the table, write ``results/NAME.json``, and say whether every limit was kept."""
        reached = all(row.reached is not False for row in self.rows)
        table = Table(title=self.title, title_justify="left")
        table.add_column("what")
        table.add_column("figure", justify="right")
        table.add_column("to reach", justify="right")
        table.add_column("")
        table.add_column("note")
        for row in self.rows:
            sign = "≥" if row.at_least else "≤"
            limit = "" if row.limit is None else f"{sign} {row.limit:g}"
            mark = {True: "yes", False: "NO", None: ""}[row.reached]
            table.add_row(row.what, f"{row.figure:.3g}", limit, mark, row.note)
        Console(width=130).print(table)
        if write:
            self._write()
        return reached

    def _write(self) -> None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        record: dict[str, Any] = {
            "title": self.title,
            "machine": {
                "processor": processor(),
                "threads": torch.get_num_threads(),
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numba": numba.__version__,
            },
            "rows": [asdict(row) | {"reached": row.reached} for row in self.rows],
        }
        if self.part is not None:
            record["command"] = f"python benchmarks/bench_{self.name}.py {self.part}"
            others = json.loads(path.read_text())["parts"] if path.exists() else {}
            record = {"parts": others | {self.part: record}}
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def processor() -> str:
    """The name of this machine's processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
