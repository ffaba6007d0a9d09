"""`SlurmExecutor`: jobs as SLURM jobs, submitted by submitit; their events go through files."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from graphdrop.executors.groups import GroupedExecutor, Resources, Task, Work
from graphdrop.executors.jobs import Event

AT_ONCE = 32
"""SLURM jobs at once, unless another number is given."""


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
                task.lost = str(job.exception() or "") if task.jobs else ""
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
                "'graphdrop[distributed]'`, or take --executor local"
            ) from error
        given = dict(self.parameters)
        cluster = given.pop("cluster", "slurm")
        self.folder.mkdir(parents=True, exist_ok=True)
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


def _spooled(work: Work, path: str) -> None:
    """The SLURM job: every event is in the file before the next begins."""
    with open(path, "ab") as stream:
        for event in work.events():
            pickle.dump(event, stream)
            stream.flush()


def _read(spool: Path, task: Task) -> Iterator[Event]:
    """Events that were written since; the last one may have no end yet."""
    if not spool.exists():
        return
    with spool.open("rb") as stream:
        stream.seek(task.read)
        while True:
            try:
                event: Event = pickle.load(stream)  # noqa: S301 - by our own jobs
            except (EOFError, pickle.UnpicklingError):
                return
            task.read = stream.tell()
            yield event
