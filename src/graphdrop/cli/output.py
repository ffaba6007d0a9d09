"""What a command leaves for machines: with `--json` one document on stdout, and nothing else.

Everything that commands print for people then goes to stderr. `--quiet` keeps progress and notes
away; an error is still one line on stderr.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, is_dataclass
from typing import Any

JSON, QUIET = "--json", "--quiet"
_document: dict[str, Any] = {}


def result(**values: Any) -> None:
    """Add to the document of this command."""
    _document.update(values)


@contextmanager
def for_machines(*, as_json: bool, quiet: bool) -> Iterator[None]:
    """Context of a command: its output goes where the options say."""
    _document.clear()
    held, shown = io.StringIO(), sys.stderr
    with ExitStack() as stack:
        if quiet:
            stack.enter_context(redirect_stderr(held))
        if as_json:
            stack.enter_context(redirect_stdout(held if quiet else shown))
        try:
            yield
        except SystemExit as stop:
            # Words that are no command's own are found before anything is printed.
            if quiet and stop.code == 2:
                shown.write(held.getvalue())
            raise


def document(code: int, error: str | None = None) -> str:
    """The document of the command that was run last, as JSON."""
    failed = {} if error is None else {"error": error}
    return json.dumps(plain({"exit_code": code, **failed, **_document}), allow_nan=False, indent=2)


def plain(value: Any) -> Any:
    """Values that JSON has; a number that is not finite is null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return plain(dict(value)) if hasattr(value, "keys") else str(value)
