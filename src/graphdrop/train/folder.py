"""A run's folder: who may write to it, its settings and its lines of metrics."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import IO, Any

from graphdrop import config as settings
from graphdrop.config import Config, toml
from graphdrop.io.files import replace_file
from graphdrop.io.locks import list_folder
from graphdrop.train.records import metrics_lines

CONFIG, RESULT, METRICS = "config.toml", "result.json", "metrics.jsonl"


def stored_config(folder: str | Path) -> Config:
    """The settings of the run in a folder."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise ValueError(f"{folder} has no {CONFIG}: give the folder of a run (--out of train)")
    return settings.settle(toml.read(path))


def check_folder(folder: str | Path, *, resume: bool) -> Config | None:
    """The settings of the run to resume, or `None` if there is none yet.

    Refuses a path that cannot become a folder, and without ``resume`` a folder that has something
    in it.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder that is new or empty")
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not os.access(there, os.W_OK | os.X_OK):  # said before hours of computing
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    # what a run that was killed in its first moment left behind is nothing
    empty = not [path for path in list_folder(folder) if path != folder / f".{CONFIG}.tmp"]
    if empty:
        return None
    if not resume:
        raise ValueError(
            f"{folder} is not empty: to go on with the run in it pass --resume (resume=True), "
            "else give another folder"
        )
    return stored_config(folder)


def claim_folder(folder: str | Path, config: Config, *, resume: bool) -> Path:
    """Reserve a folder for this run, or check that it belongs to it; nothing is overwritten.

    Call it within `folder_lock(folder)`: a run is its folder's only writer.
    """
    folder, stored = Path(folder), check_folder(folder, resume=resume)
    if stored is None:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / CONFIG, toml.to_toml(config).encode())
    elif changed := toml.differences(stored, config):
        raise ValueError(
            f"{folder} has a run with another {', '.join(changed)}: a run goes on with its own "
            "settings, so leave these out, or give another folder"
        )
    return folder


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
            replace_file(path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())
        self._stream = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        """Add the line of one epoch."""
        self.lines.append(line)
        if self._stream is not None:
            self._stream.write(json.dumps(line) + "\n")

    def flush(self) -> None:
        """Write all lines to disk; a checkpoint must not be newer than they are."""
        if self._stream is None:
            return
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:  # such as of a full disk, which does not know its file
            raise OSError(error.errno, error.strerror, self._stream.name) from error

    def close(self) -> None:
        """Flush and close the file."""
        try:
            self.flush()
        finally:
            if self._stream is not None:
                self._stream.close()
            self._stream = None
