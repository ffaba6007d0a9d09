"""Store of finished runs: a file of JSON lines that several processes may append to.

A line is written at once, under a lock, and waited for until the disk has it. A process that is
killed in the middle leaves at most a last line without its end: readers pass over it and the next
writer cuts it off. A claim is a lock on one byte of a file beside it, which the system takes back
from a process that ends, however it ends.

Runs that are kept for good may lie compressed beside it: those of ``runs.jsonl`` in
``archive/runs.*.jsonl.xz``, written by ``experiments.archive``.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphdrop.io.files import check_regular, sync_folder
from graphdrop.io.memory import check_bytes, most_bytes

RUNS, CLAIMS, ARCHIVE = "runs.jsonl", ".claims", ".jsonl.xz"

Record = dict[str, Any]
Scores = dict[str, float | None]
Course = dict[str, Any]


class RunLine(BaseModel):
    """The types of a stored record; `run_config` writes it."""

    model_config = ConfigDict(extra="allow", strict=True)

    key: Annotated[str, Field(min_length=1)]
    seed: int = 0
    config: dict[str, dict[str, Any] | bool | float | int | str | None] = {}
    versions: dict[str, str] = {}
    error: str | None = None
    epochs: int = 0
    selected_epoch: int = 0
    drop_rates: list[float | None] = []
    train: Scores = {}
    validation: Scores = {}
    test: Scores = {}
    sampled: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    detection: dict[str, Scores] = {}
    kl: Course | None = None
    total_variation: Course | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    seconds_per_epoch: float | None = None
    peak_megabytes: float | None = None


class Store:
    """The runs in a folder, by key; `file` is the name of the file they are in."""

    def __init__(self, folder: str | Path, file: str = RUNS) -> None:
        self.folder = Path(folder)
        self.path = self.folder / file
        self._records: dict[str, Record] = {}
        self._read = 0
        self._archives_read = False

    @property
    def archives(self) -> list[Path]:
        """The compressed files of finished runs, in the order of their names."""
        return sorted((self.folder / "archive").glob(f"{self.path.stem}.*{ARCHIVE}"))

    def records(self) -> dict[str, Record]:
        """Every finished run by its key; lines that others have added since are read now."""
        if not self._archives_read:
            for path in self.archives:
                self._read_archive(path)
            self._archives_read = True
        if not self.path.exists():
            return self._records
        with check_regular(self.path).open("rb") as stream:
            stream.seek(self._read)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # it is being written, or its writer was killed
                self._add(line, self.path, self._read)
                self._read += len(line)
        return self._records

    def _read_archive(self, path: Path) -> None:
        at = 0
        for line in unpacked(path).splitlines(keepends=True):
            self._add(line, path, at)
            at += len(line)

    def _add(self, line: bytes, path: Path, at: int) -> None:
        try:
            record = json.loads(line)
            RunLine.model_validate(record)
        except (ValueError, RecursionError) as error:
            wrong = error.errors()[0] if isinstance(error, ValidationError) else None
            field = ".".join(map(str, wrong["loc"])) if wrong else ""
            what = f" ({field}: {wrong['msg'].lower()})" if wrong and field else ""
            raise ValueError(
                f"{path} has a line that is not a run, at byte {at}{what}: take that "
                "line out, and its run is made again"
            ) from error
        self._records.setdefault(record["key"], record)

    def append(self, record: Record) -> None:
        """Add a finished run; when this returns, the disk has it."""
        line = (json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n").encode()
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            check_regular(self.path)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _cut_off_what_has_no_end(descriptor)
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self.path} took only a part of a line: is the disk full?")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(self.folder)

    @contextmanager
    def claims(self) -> Iterator[Claims]:
        """Context in which this process can claim runs; at its end it gives them all back."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / CLAIMS
        if path.exists():
            check_regular(path)
        with path.open("ab") as stream:
            yield Claims(stream)


def search_lines(folder: Path) -> dict[str, list[Record]]:
    """Return the lines of every search in a folder of results, by the name of the search."""
    found = {
        path.name.partition(".")[0]: unpacked(path).splitlines()
        for path in sorted((folder / "searches" / "archive").glob(f"*{ARCHIVE}"))
    }
    for path in sorted((folder / "searches").glob("*.jsonl")):
        found[path.stem] = found.get(path.stem, []) + path.read_bytes().splitlines()
    return {name: [json.loads(line) for line in lines] for name, lines in sorted(found.items())}


def unpacked(path: Path) -> bytes:
    """The lines of a compressed file of runs."""
    parts, size, most = list[bytes](), 0, most_bytes()
    try:
        with lzma.open(check_regular(path)) as stream:
            while part := stream.read(1 << 20):
                size += len(part)
                check_bytes(f"{path}: its lines", 2 * size, most)
                parts.append(part)
    except (EOFError, lzma.LZMAError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): take it from its origin again, or remove it, and its "
            "runs are made again"
        ) from error
    return b"".join(parts)


class Claims:
    """The claims of this process.

    They are locks on bytes of one open file: a process that opens it twice loses all its claims
    when it closes either.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def take(self, key: str) -> bool:
        """Claim a run; returns whether no other process has it."""
        try:
            fcntl.lockf(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
        except OSError:
            return False
        return True

    def give_back(self, key: str) -> None:
        """Leave the run to others."""
        fcntl.lockf(self._stream, fcntl.LOCK_UN, 1, _byte(key))


def _byte(key: str) -> int:
    return int(key[:15], 16)


def _cut_off_what_has_no_end(descriptor: int) -> None:
    size = end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        end = _line_start(descriptor, end)
    if end < size:
        os.ftruncate(descriptor, end)


def _line_start(descriptor: int, end: int) -> int:
    """The offset of the line before `end`, or of the part that was searched."""
    start = max(0, end - 4096)
    return start + os.pread(descriptor, end - start, start).rfind(b"\n") + 1
