"""`SlurmExecutor`: jobs as SLURM jobs, submitted by submitit; their events go through files.

Events are lines of JSON. submitit itself passes the job as a pickle in the same folder, which the
SLURM job unpickles: who can write there can run code as this user. The folder is therefore the
user's alone; this process reads no pickle from it.
"""

from __future__ import annotations

import json
import os
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from graphdrop.executors.groups import GroupedExecutor, Resources, Task, Work
from graphdrop.executors.jobs import Event
from graphdrop.io.files import check_regular

AT_ONCE = 32
"""SLURM jobs at once, unless another number is given."""
_KINDS = ("started", "progressed", "finished", "failed")
_LOG_BYTES = 4000
"""So much of the end of a job's log is read where it was lost."""


class SlurmExecutor(GroupedExecutor):
    """Jobs as SLURM jobs; this process stays until all are done.

    Args:
        folder: for scripts, logs and results on their way; every node must see it.
        jobs: how many SLURM jobs at once.
        resources: what each job needs.
        group: jobs per SLURM job; by default as many as take some 20 seconds together.
        parameters: options of sbatch, such as ``partition`` and ``time``; ``cluster=local`` does
            without SLURM, in processes of this machine, to try it.
    """

    def __init__(
        self,
        folder: str | Path,
        jobs: int | None = None,
        resources: Resources | None = None,
        group: int | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(AT_ONCE if jobs is None else jobs, resources, group)
        self.folder = Path(folder).resolve()
        self.parameters = dict(parameters or {})
        self._submitit: Any = None

    def at_once(self) -> int:
        """The number of SLURM jobs."""
        assert self.jobs is not None  # noqa: S101 - set above
        return self.jobs

    def submit(self, work: Work) -> Any:
        """Submit a SLURM job that writes its events into a file."""
        if self._submitit is None:
            self._submitit = self._opened()
        spool = self.folder / f"{uuid.uuid4().hex}.events"
        return self._submitit.submit(_spooled, work, str(spool)), spool

    def poll(self, tasks: Sequence[Task], seconds: float) -> Iterator[tuple[Task, Event]]:
        """The events that are in the files."""
        heard = False
        for task in tasks:
            job, spool = task.handle
            over = job.done()  # asked first: what the file has afterwards is all
            for event in _read(spool, task):
                heard = True
                yield task, event
            if over:
                task.over, heard = True, True
                task.lost = _last_words(job) if task.jobs else ""
                spool.unlink(missing_ok=True)
        if not heard:
            time.sleep(seconds)

    def cancel(self, task: Task) -> None:
        """Cancel the SLURM job."""
        job, spool = task.handle
        job.cancel(check=False)
        spool.unlink(missing_ok=True)

    def _opened(self) -> Any:
        try:
            submitit = import_module("submitit")
        except ImportError as error:
            raise ValueError(
                "the executor is slurm, and submitit is not installed: run `pip install "
                "'.[distributed]'` in a checkout of graphdrop, or take --executor local"
            ) from error
        given = dict(self.parameters)
        cluster = given.pop("cluster", "slurm")
        _private(self.folder)
        try:
            executor = submitit.AutoExecutor(self.folder, cluster=cluster)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"the executor is slurm, and submitit says: {error}. Run the command where sbatch "
                "can be called, or take --executor local"
            ) from error
        resources = self.resources
        executor.update_parameters(
            name="graphdrop",
            cpus_per_task=resources.cpus,
            **({"gpus_per_node": int(resources.gpus)} if resources.gpus else {}),
            **({"mem_gb": resources.memory} if resources.memory else {}),
            **({f"slurm_{name}": value for name, value in given.items()}),
        )
        return executor


def _private(folder: Path) -> None:
    """Make the folder, closed to others; raise if others could write to one that is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.stat()
    if os.name == "posix" and (
        state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise ValueError(
            f"{folder} belongs to another user, or others may write to it; jobs on their way to "
            f"SLURM take a folder of your own, as they are run. Say `chmod go-w {folder}`, or give "
            "other --results."
        )


def _spooled(work: Work, path: str) -> None:
    """The SLURM job: every event is in the file before the next begins."""
    with open(path, "ab") as stream:
        for event in work.events():
            stream.write(_line(event))
            stream.flush()


def _line(event: Event) -> bytes:
    try:
        return json.dumps([event.key, event.what, event.value, event.seconds]).encode() + b"\n"
    except (TypeError, ValueError) as error:
        return _line(Event(event.key, "failed", f"its result cannot be written as JSON ({error})"))


def _read(spool: Path, task: Task) -> Iterator[Event]:
    """Events that were written since; the last one may have no end yet."""
    if not spool.exists():
        return
    with check_regular(spool).open("rb") as stream:
        stream.seek(task.read)
        for line in stream:
            if not line.endswith(b"\n"):
                return
            task.read += len(line)
            yield _event(line, spool)


def _event(line: bytes, spool: Path) -> Event:
    try:
        key, what, value, seconds = json.loads(line)
        if not isinstance(key, str) or what not in _KINDS or type(seconds) not in (int, float):
            raise ValueError("no event has such fields")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{spool} has a line that is no event of a job ({error}): see to it that nobody else "
            "writes there, and start the command again"
        ) from error
    return Event(key, what, value, seconds)


def _last_words(job: Any) -> str:
    """The state of a job that was lost and the end of its log; submitit's result is a pickle."""
    try:
        with open(job.paths.stderr, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LOG_BYTES))
            log = stream.read().decode(errors="replace")
    except OSError:
        log = ""
    return " ".join([f"state {job.state}", *log.split()])[-300:]
