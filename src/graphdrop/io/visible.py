"""Text for a terminal: control characters from files are shown and not obeyed; durations."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TextIO

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and line feed
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # order of writing, and no width
    "\ud800-\udfff\U000e0000-\U000e007f]"  # bytes that are no UTF-8, and tags
)


def visible(text: str) -> str:
    r"""Return the text with control and invisible characters written out, such as ``\x1b``.

    Example:
        >>> print(visible("red \x1b[31m"))
        red \x1b[31m
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: object = "", *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print a line that may have names from files in it; the standard output by default."""
    print(visible(str(text)), file=sys.stdout if file is None else file, end=end, flush=True)


class Console(rich.console.Console):
    """A console whose text may come from files; only its own styles reach the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with visible text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def format_duration(seconds: float) -> str:
    """Write a duration as text, such as `2 h 05 min`, `3 min` or `40 s`."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"
