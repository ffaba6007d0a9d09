"""``NotebookBar``: progress in a notebook, as one HTML output that is updated.

Without ipywidgets, which rich would need there and many kernels lack.
"""

from __future__ import annotations

import time
from html import escape
from importlib import import_module
from typing import Any

UPDATE_SECONDS = 0.2
"""The bar is drawn no more often than this."""


class NotebookBar:
    """A bar of epochs with a note below it."""

    def __init__(self, epochs: int, done: int) -> None:
        self._epochs, self._done, self._note = epochs, done, ""
        self._drawn = time.monotonic()
        self._ipython: Any = import_module("IPython.display")
        self._handle = self._ipython.display(self._html(), display_id=True)

    def update(self, done: int, note: str) -> None:
        """Show so many epochs."""
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
