"""A run's folder: who may write to it, its settings, its metrics and its result."""

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


def read_stored(folder: str | Path | None, *, resume: bool) -> Config | None:
    """The settings of the run to resume, or `None`; without `resume` a used folder is refused."""
    if folder is None:
        return None
    if not resume:
        check_free(folder)
        return None
    return stored_config(folder) if (Path(folder) / CONFIG).is_file() else None


def check_path(folder: str | Path) -> Path:
    """The path of a folder that exists or can be created."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder that is new or empty")
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not os.access(there, os.W_OK | os.X_OK):  # said before hours of computing
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    return folder


def check_free(folder: str | Path) -> None:
    """Refuse a folder that has something in it; what a killed run left at its start is nothing."""
    folder = check_path(folder)
    if _list_contents(folder):
        raise ValueError(
            f"{folder} is not empty: to go on with the run in it pass --resume (resume=True), "
            "else give another folder"
        )


def _list_contents(folder: Path) -> list[Path]:
    # All that a run killed in its first moment can leave behind.
    leftover = folder / f".{CONFIG}.tmp"
    return [path for path in list_folder(folder) if path != leftover]


def claim(folder: str | Path, config: Config, *, resume: bool) -> Path:
    """Reserve a folder for this run, or check that it belongs to it; nothing is overwritten.

    Call it within `folder_lock(folder)`: a run is its folder's only writer.
    """
    folder = check_path(folder)
    if not resume:
        check_free(folder)
    if _list_contents(folder):
        changed = toml.differences(stored_config(folder), config)
        if changed:
            raise ValueError(
                f"{folder} has a run with another {', '.join(changed)}: a run goes on with its own "
                "settings, so leave these out, or give another folder"
            )
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / CONFIG, toml.to_toml(config).encode())
    return folder


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write `result.json`."""
    replace_file(folder / RESULT, (json.dumps(result, indent=2) + "\n").encode())


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
