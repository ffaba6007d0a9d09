"""The metrics of every epoch, as JSON lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from graphdrop.io.files import replace_file
from graphdrop.train.records import metrics_lines

METRICS = "metrics.jsonl"


class Journal:
    """The lines of a run, in memory and, if it has a folder, in its `metrics.jsonl`.

    Lines after `epoch`, the last checkpoint of a killed run, are dropped.
    """

    def __init__(self, folder: Path | None, epoch: int = 0) -> None:
        self.lines: list[dict[str, Any]] = []
        self._stream: IO[str] | None = None
        if folder is None:
            return
        path = folder / METRICS
        if path.exists():
            self.lines = [line for line in metrics_lines(path) if line["epoch"] <= epoch]
            replace_file(path, "".join(map(_text, self.lines)).encode())
        self._stream = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        """Add the line of one epoch."""
        self.lines.append(line)
        if self._stream is not None:
            self._stream.write(_text(line))

    def flush(self) -> None:
        """Write all lines to disk; a checkpoint must not be newer than them."""
        if self._stream is None:
            return
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:  # such as of a full disk, which does not know its file
            raise OSError(error.errno, error.strerror, self._stream.name) from error

    def close(self) -> None:
        """Flush and close the files."""
        try:
            self.flush()
        finally:
            if self._stream is not None:
                self._stream.close()
            self._stream = None


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"
