"""The progress of many runs: a bar for every cell in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graphdrop.io.visible import Console

LINE_SECONDS = 30.0
"""Without a terminal, a line is printed no more often than this."""


@dataclass
class Display:
    """What is shown of the runs of some cells; without a title nothing is.

    Args:
        title: what is being made.
        cells: the keys of the runs of each cell, by its name.
        console: where it is shown; stderr by default.
    """

    title: str = ""
    cells: Mapping[str, list[str]] = field(default_factory=dict)
    console: Console = field(
        default_factory=lambda: Console(stderr=True, markup=False, highlight=False, emoji=False)
    )
    _printed: float = 0.0

    @contextmanager
    def showing(self, records: Mapping[str, dict[str, Any]]) -> Iterator[None]:
        """Context in which progress is shown; `records` are the runs that are there already."""
        self._missing = {
            name: {key for key in keys if key not in records} for name, keys in self.cells.items()
        }
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.title or not self.console.is_terminal,
        )
        self._tasks = {
            name: self._progress.add_task(
                name, total=len(keys), completed=len(keys) - len(self._missing[name])
            )
            for name, keys in self.cells.items()
        }
        self._print_line()
        with self._progress:
            yield

    def finished(self, key: str) -> None:
        """Count a run, which is finished and stored."""
        for name, missing in self._missing.items():
            if key in missing:
                missing.remove(key)
                self._progress.advance(self._tasks[name])
        if time.monotonic() - self._printed >= LINE_SECONDS:
            self._print_line()

    def _print_line(self) -> None:
        self._printed = time.monotonic()
        if self.title and not self.console.is_terminal:
            total = sum(map(len, self.cells.values()))
            left = sum(map(len, self._missing.values()))
            self.console.print(f"{self.title}: {total - left} of {total} runs", soft_wrap=True)
