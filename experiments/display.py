"""Progress display of many runs: a live table in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.live import Live
from rich.table import Table

from graphdrop.io.visible import Console, format_duration

LINE_SECONDS = 30.0
"""Without a terminal, a line is printed no more often than this."""


class Display:
    """Hooks that are called with the key of a run; this one shows nothing."""

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Context in which the display is active."""
        yield

    def at_once(self, count: int) -> None:
        """So many runs are made at once."""

    def started(self, key: str) -> None:
        """A worker has started this run."""

    def postponed(self, key: str) -> None:
        """Another process is making this run."""

    def finished(self, key: str, record: dict[str, Any]) -> None:
        """The run is finished and stored."""

    def refresh(self) -> None:
        """Called regularly."""


@dataclass
class Line:
    """The line of one cell: its runs, finished and in progress."""

    keys: Sequence[str]
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    later: int = 0
    """Runs that follow, of which it is not known yet which."""

    @property
    def total(self) -> int:
        """All its runs, those that follow among them."""
        return len(self.keys) + self.later

    @property
    def seconds(self) -> list[float]:
        """The duration of its finished runs."""
        return [record["seconds"] for record in self.done.values()]

    @property
    def accuracy(self) -> float | None:
        """Mean test accuracy of what is done."""
        scores = [r["test"]["accuracy"] for r in self.done.values() if "test" in r]
        return sum(scores) / len(scores) if scores else None


class LiveTable(Display):
    """A table with one line per cell: runs done, runs being made, time left.

    Args:
        title: what is being made.
        lines: by the name of each cell; runs that were there before are among the done.
        jobs: how many runs are made at once.
        console: where it is shown; stderr by default.
        column: what the `accuracy` of a line is called.
    """

    def __init__(
        self,
        title: str,
        lines: Mapping[str, Line],
        jobs: int,
        console: Console | None = None,
        column: str = "mean accuracy",
    ) -> None:
        self.title, self.lines, self.jobs, self.column = title, lines, jobs, column
        self._console = console or Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._names = {key: name for name, line in lines.items() for key in line.keys}
        self._live: Live | None = None
        self._printed = time.monotonic()
        self._elsewhere: set[str] = set()

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Context in which the table is live."""
        if not self._console.is_terminal:
            self._print_line()
            yield
            return
        with Live(self.table(), console=self._console, transient=True, auto_refresh=False) as live:
            self._live = live
            yield
        self._live = None

    def at_once(self, count: int) -> None:
        """The time left depends on it."""
        self.jobs = count

    def started(self, key: str) -> None:
        """It counts as being made, also when another process turns out to make it."""
        self._line(key).running.add(key)
        self.refresh()

    def postponed(self, key: str) -> None:
        """It is made elsewhere."""
        self._line(key).running.discard(key)
        self._elsewhere.add(key)

    def finished(self, key: str, record: dict[str, Any]) -> None:
        """It is done."""
        line = self._line(key)
        line.running.discard(key)
        self._elsewhere.discard(key)
        line.done[key] = record
        self.refresh()

    def refresh(self) -> None:
        """Show the present state."""
        if self._live is not None:
            self._live.update(self.table(), refresh=True)
        elif time.monotonic() - self._printed >= LINE_SECONDS:
            self._printed = time.monotonic()
            self._print_line()

    def _line(self, key: str) -> Line:
        return self.lines[self._names[key]]

    def summary(self) -> str:
        """The progress in one line."""
        done = sum(len(line.done) for line in self.lines.values())
        total = sum(line.total for line in self.lines.values())
        others = f"; {len(self._elsewhere)} made by another process" if self._elsewhere else ""
        return f"{self.title}: {done} of {total} runs, {self._time_left()}{others}"

    def _print_line(self) -> None:
        running = [name for name, line in self.lines.items() if line.running]
        now = f"; now {' and '.join(running)}" if running else ""
        self._console.print(self.summary() + now, soft_wrap=True)

    def table(self) -> Table:
        """One line per cell."""
        table = Table(box=box.SIMPLE_HEAD, title=self.summary(), title_justify="left")
        table.add_column("cell")
        for column in ("runs", self.column, "now"):
            table.add_column(column, justify="right")
        for name, line in self.lines.items():
            accuracy = "" if line.accuracy is None else f"{100 * line.accuracy:.2f}"
            running = str(len(line.running) or "")
            table.add_row(name, f"{len(line.done)}/{line.total}", accuracy, running)
        return table

    def seconds_left(self) -> float | None:
        """From what runs of the same cell took, or where there are none, all runs."""
        everything = [s for line in self.lines.values() for s in line.seconds]
        if not everything:
            return None
        left = 0.0
        for line in self.lines.values():
            times = line.seconds or everything
            left += (line.total - len(line.done)) * sum(times) / len(times)
        return left / self.jobs

    def _time_left(self) -> str:
        left = self.seconds_left()
        return "time left not known yet" if left is None else f"{format_duration(left)} left"
