"""Progress display: a live bar in a terminal or notebook, occasional lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from graphdrop.io.visible import Console, format_duration
from graphdrop.train.selection import Selection

LINE_SECONDS = 30.0
"""Without a terminal, a line is printed no more often than this."""
UPDATE_SECONDS = 0.2
"""In a notebook, the bar is drawn no more often than this."""


class Progress:
    """Progress display on stderr: epochs, remaining time, validation scores, drop rates."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._bar: Bar | None = None
        self._notebook: NotebookBar | None = None
        self._epochs = 0
        self._note = ""
        self._printed = self._started = 0.0
        self._first = 0

    def start(self, epochs: int, done: int) -> None:
        """Start the display of a run, some epochs of which may be done already."""
        self._epochs, self._first = epochs, done
        self._printed = self._started = time.monotonic()
        if self._console.is_jupyter:
            self._notebook = NotebookBar(epochs, done)
        elif self._console.is_terminal:
            # In a narrow terminal the bar gives way first, then the end of the note.
            bar = BarColumn(None, table_column=Column(ratio=1))
            columns = [
                MofNCompleteColumn(table_column=Column(min_width=2 * len(str(epochs)) + 1)),
                TimeRemainingColumn(table_column=Column(min_width=len("0:00:00"))),
            ]
            note = TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            )
            self._bar = Bar(bar, *columns, note, console=self._console, transient=True, expand=True)
            self._bar.start()
            self._bar.add_task("", total=epochs, completed=done)

    def update(self, line: Mapping[str, Any], selection: Selection) -> None:
        """Show the epoch of this line of metrics."""
        if "validation" in line:
            self._note = describe(line, selection)
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=line["epoch"], description=self._note)
        elif self._notebook is not None:
            self._notebook.update(line["epoch"], self._note)
        elif time.monotonic() - self._printed >= LINE_SECONDS and "validation" in line:
            self._printed = time.monotonic()
            self.say(
                f"epoch {line['epoch']} of {self._epochs}: {self._note}"
                f"{self._describe_rest(line['epoch'])}"
            )

    def batch(self, epoch: int, number: int, count: int) -> None:
        """Show that a mini-batch of an epoch is done."""
        if self._bar is not None:
            done = epoch - 1 + number / count
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif time.monotonic() - self._printed >= LINE_SECONDS:
            self._printed = time.monotonic()
            left = self._describe_rest(epoch - 1 + number / count)
            self.say(f"epoch {epoch} of {self._epochs}: batch {number} of {count}{left}")

    def _describe_rest(self, epochs: float) -> str:
        """How long the epochs that are left take at most; a run may stop before the last one."""
        done = epochs - self._first
        if done <= 0:
            return ""
        spent = time.monotonic() - self._started
        return f", at most {format_duration(spent * (self._epochs - epochs) / done)} left"

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        self._console.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line that nobody needs in a batch of runs, such as the settings chosen."""
        self.say(text)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._notebook is not None:
            self._notebook.stop()
            self._notebook = None


class Silent(Progress):
    """No display; messages are still printed."""

    def start(self, epochs: int, done: int) -> None:
        """Show nothing."""

    def update(self, line: Mapping[str, Any], selection: Selection) -> None:
        """Show nothing."""

    def batch(self, epoch: int, number: int, count: int) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


class Mute(Silent):
    """No display and no messages, for all ranks but the first."""

    def say(self, text: str) -> None:
        """Show nothing."""


def describe(line: Mapping[str, Any], selection: Selection) -> str:
    """The latest evaluation as a short text."""
    now, best = line["validation"]["accuracy"], selection.accuracy
    scores = f"{now:.3f} (best {best:.3f})"
    if now < 0:  # of numbers it is minus the RMSE, in the unit of the data
        scores = f"RMSE {-now:.4g} (best {-best:.4g})"
    return f"validation {scores}, drop {describe_rates(line['drop_rates'])}"


def describe_rates(drop_rates: Sequence[float | None]) -> str:
    """The drop rate of every layer, such as `0.42 0.31`."""
    return " ".join("none" if rate is None else f"{rate:.2f}" for rate in drop_rates)


class NotebookBar:
    """A bar of epochs with a note below it, as one HTML output of a notebook that is updated.

    It needs no ipywidgets, which rich would need there and many kernels lack.
    """

    def __init__(self, epochs: int, done: int) -> None:
        self._epochs, self._done, self._note = epochs, done, ""
        self._drawn = time.monotonic()
        self._ipython: Any = import_module("IPython.display")
        self._handle = self._ipython.display(self._html(), display_id=True)

    def update(self, done: int, note: str) -> None:
        """Show that so many epochs are done."""
        self._done, self._note = done, note
        if time.monotonic() - self._drawn >= UPDATE_SECONDS:
            self._draw()

    def stop(self) -> None:
        """Show the last state, which stays."""
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._handle is not None:  # a kernel may have no displays
            self._handle.update(self._html())

    def _html(self) -> Any:
        bar = f'<progress value="{self._done}" max="{self._epochs}"></progress>'
        words = f"epoch {self._done} of {self._epochs}"
        return self._ipython.HTML(f"{bar} {words} {escape(self._note)}")
