"""Tables of scores over several runs: in the terminal and as Markdown."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table as RichTable
from scipy import stats

LEVEL = 0.95
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Summary:
    """Mean, sample standard deviation and confidence interval of a score over runs.

    With a single run there is neither a deviation nor an interval: they are NaN.
    """

    count: int
    mean: float
    deviation: float
    low: float
    high: float


def summarise(values: Sequence[float], level: float = LEVEL) -> Summary:
    """Summary with Student's interval of the mean, `mean ± t_(n-1) * deviation / sqrt(n)`."""
    count = len(values)
    if count == 0:
        raise ValueError("values is empty: give the figure of at least one run")
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if count > 1 else math.nan
    reach = float(stats.t.ppf((1 + level) / 2, count - 1)) * deviation / math.sqrt(count)
    return Summary(count, mean, deviation, mean - reach, mean + reach)


def beside_paper(
    values: Sequence[float], paper: Sequence[float] = (), digits: int = 2
) -> tuple[str, ...]:
    """The lines of a cell: mean ± deviation, interval and seeds, the paper's and the difference.

    `paper` has its mean and, if it prints one, its standard deviation.
    """
    if not values:
        lines = ["no run yet"]
    else:
        ours = summarise(values)
        seeds = f"{ours.count} seed{'s' * (ours.count > 1)}"
        if ours.count > 1:
            interval = f"[{ours.low:.{digits}f}, {ours.high:.{digits}f}]".replace("-", MINUS)
            lines = [
                f"{ours.mean:.{digits}f} ± {ours.deviation:.{digits}f}".replace("-", MINUS),
                f"95 % CI {interval}, {seeds}",
            ]
        else:
            lines = [f"{ours.mean:.{digits}f}", seeds]
    if paper:
        printed = " ± ".join(f"{value:.{digits}f}" for value in paper)
        away = f" ({signed(ours.mean - paper[0], digits)})" if values else ""
        lines.append(f"paper {printed}{away}")
    return tuple(lines)


def signed(value: float, digits: int) -> str:
    """The number with its sign, and a typographic minus."""
    return f"{value:+.{digits}f}".replace("-", MINUS)


@dataclass(frozen=True)
class Table:
    """Rows of cells, each of one or more lines of text; the first column has the rows' names."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, ...]]]]
    note: str = ""

    def __post_init__(self) -> None:
        for name, cells in self.rows:
            if len(cells) != len(self.columns):
                raise ValueError(
                    f"the row {name!r} has {len(cells)} cells for {len(self.columns)} columns: "
                    "give one for each"
                )

    def to_rich(self) -> RichTable:
        """For the terminal."""
        table = RichTable(
            box=box.SIMPLE_HEAD,
            title=self.title,
            title_justify="left",
            caption=self.note,
            caption_justify="left",
            show_lines=True,
        )
        table.add_column("")
        for column in self.columns:
            table.add_column(column, justify="right")
        for name, cells in self.rows:
            table.add_row(name, *("\n".join(lines) for lines in cells))
        return table

    def to_markdown(self) -> str:
        """A table of GitHub's Markdown, under its title."""
        lines = [
            f"**{_markdown(self.title)}**",
            "",
            _markdown_row(["", *map(_markdown, self.columns)]),
            _markdown_row(["---", *["---:"] * len(self.columns)]),
        ]
        for name, cells in self.rows:
            joined = ["<br>".join(map(_markdown, cell)) for cell in cells]
            lines.append(_markdown_row([_markdown(name), *joined]))
        if self.note:
            lines += ["", _markdown(self.note)]
        return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", text)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
