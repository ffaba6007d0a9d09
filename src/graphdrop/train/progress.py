"""Progress display: a live bar in a terminal or notebook, occasional lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
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
    """Progress display on stderr: epochs, remaining time, validation scores, drop rates.

    In a notebook it is one HTML output that is updated, which needs no ipywidgets.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._bar: Bar | None = None
        self._html: Any = None
        """The handle of the output in a notebook."""
        self._epochs = self._first = 0
        self._done, self._note = 0.0, ""
        self._shown = self._started = 0.0

    def start(self, epochs: int, done: int) -> None:
        """Start the display of a run, some epochs of which may be done already."""
        self._epochs, self._first, self._done, self._note = epochs, done, done, ""
        self._shown = self._started = time.monotonic()
        if self._console.is_jupyter:
            ipython: Any = import_module("IPython.display")
            self._html = ipython.display(ipython.HTML(self._describe_html()), display_id=True)
        elif self._console.is_terminal:
            # In a narrow terminal the bar gives way first, then the end of the note.
            self._bar = Bar(
                BarColumn(None, table_column=Column(ratio=1)),
                MofNCompleteColumn(table_column=Column(min_width=2 * len(str(epochs)) + 1)),
                TimeRemainingColumn(table_column=Column(min_width=len("0:00:00"))),
                TextColumn(
                    "{task.description}",
                    markup=False,
                    table_column=Column(no_wrap=True, overflow="ellipsis"),
                ),
                console=self._console,
                transient=True,
                expand=True,
            )
            self._bar.start()
            self._bar.add_task("", total=epochs, completed=done)

    def update(self, line: Mapping[str, Any], selection: Selection) -> None:
        """Show the epoch of this line of metrics."""
        if "validation" in line:
            self._note = describe(line, selection)
        self._show(line["epoch"], self._note if "validation" in line else "")

    def batch(self, epoch: int, number: int, count: int) -> None:
        """Show that a mini-batch of an epoch is done."""
        self._show(epoch - 1 + number / count, f"batch {number} of {count}")

    def _show(self, done: float, event: str) -> None:
        """Show that so many epochs are done; without a bar, an event is a line now and then."""
        self._done = done
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, description=self._note)
        elif self._html is not None:
            if now - self._shown >= UPDATE_SECONDS:
                self._shown = now
                self._draw_html()
        elif event and now - self._shown >= LINE_SECONDS:
            self._shown, left, new = now, "", done - self._first
            if new > 0:  # a run may stop before its last epoch
                rest = (now - self._started) * (self._epochs - done) / new
                left = f", at most {format_duration(rest)} left"
            self.say(f"epoch {math.ceil(done)} of {self._epochs}: {event}{left}")

    def _draw_html(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._html.update(ipython.HTML(self._describe_html()))

    def _describe_html(self) -> str:
        bar = f'<progress value="{self._done}" max="{self._epochs}"></progress>'
        return f"{bar} epoch {int(self._done)} of {self._epochs} {escape(self._note)}"

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        self._console.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line that nobody needs in a batch of runs, such as the settings chosen."""
        self.say(text)

    def stop(self) -> None:
        """Remove the bar; in a notebook its last state stays."""
        if self._bar is not None:
            self._bar.stop()
        if self._html is not None:
            self._draw_html()
        self._bar = self._html = None


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
    """The latest evaluation as a short text, such as `validation 0.710 (best 0.750), drop 0.42`."""
    now, best = line["validation"]["accuracy"], selection.accuracy
    scores = f"{now:.3f} (best {best:.3f})"
    if now < 0:  # of numbers it is minus the RMSE, in the unit of the data
        scores = f"RMSE {-now:.4g} (best {-best:.4g})"
    rates = ("none" if rate is None else f"{rate:.2f}" for rate in line["drop_rates"])
    return f"validation {scores}, drop {' '.join(rates)}"
