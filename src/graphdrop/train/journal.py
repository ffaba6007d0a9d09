"""What happened in every epoch: JSON lines, and TensorBoard where it is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from graphdrop.train.archive import replace_file
from graphdrop.train.records import metrics_lines

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"


class Journal:
    """The lines of a run, in memory and, if it has a folder, in its `metrics.jsonl`.

    Lines after `epoch`, which a killed run has written beyond its checkpoint, are dropped.
    """

    def __init__(self, folder: Path | None, epoch: int = 0, *, tensorboard: bool = False) -> None:
        self.lines: list[dict[str, Any]] = []
        self._stream: IO[str] | None = None
        self._board: Any = None
        if folder is None:
            return
        if tensorboard:
            self._board = summary_writer()(str(folder / TENSORBOARD), purge_step=epoch + 1)
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
        if self._board is not None:
            for name, value in _scalars(line):
                self._board.add_scalar(name, value, line["epoch"])

    def flush(self) -> None:
        """Wait until the disk has every line: a checkpoint must not be ahead of them."""
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Flush, and let go of the files."""
        try:
            self.flush()
        finally:
            for file in (self._stream, self._board):
                if file is not None:
                    file.close()
            self._stream = self._board = None


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"


def _scalars(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in line.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", number) for inner, number in value.items())
        elif isinstance(value, list):
            numbers = [(f"{name}/layer {i}", v) for i, v in enumerate(value, 1) if v is not None]
            yield from numbers
        elif name != "epoch":
            yield name, value


def summary_writer() -> Any:
    """TensorBoard's class of that name, or an error that says how to get it."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - not installed with us
    except ImportError as error:
        raise ValueError(
            "train.tensorboard is true and TensorBoard is not installed: run `pip install "
            "tensorboard`, or set it to false"
        ) from error
    return SummaryWriter
