"""`GroupedExecutor`: jobs in groups, one task of a cluster each; lost ones are done again.

A task streams its events. When its worker is killed, jobs whose results have arrived are done, and
the rest is handed out again.
"""

from __future__ import annotations

import os
import pickle
import platform
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from graphdrop.executors.jobs import LOOK_AGAIN, THREAD_VARIABLES, Event, Executor, Job, events_of

GROUP_SECONDS = 20.0
"""Short jobs are grouped into tasks of about this length."""
ATTEMPTS = 3
"""A job during which so many workers were lost is given up."""
HANDED_ON = ("GRAPHDROP_DATA",)
"""Variables that a worker takes from the main process, where it has none of its own."""


@dataclass(frozen=True)
class Resources:
    """What a job needs: processors, GPUs, and GiB of memory if it is to be reserved."""

    cpus: int = 1
    gpus: float = 0.0
    memory: float | None = None

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise ValueError(f"cpus is {self.cpus}; it takes 1 or more processors for a run.")
        if self.gpus < 0:
            raise ValueError(f"gpus is {self.gpus}; it takes 0 or more GPUs for a run.")
        if self.memory is not None and not self.memory > 0:
            raise ValueError(f"memory is {self.memory}; it takes GiB for a run, above 0.")


@dataclass(eq=False)
class Task:
    """A group of jobs that was submitted."""

    jobs: dict[str, Job]
    """Those whose result has not come yet, in their order."""
    handle: Any
    over: bool = False
    lost: str = ""
    """Why it ended before its time."""
    read: int = 0
    """How far its events were read, where they come by a file."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to do a group of jobs."""

    jobs: Sequence[tuple[str, bytes]]
    threads: int
    variables: dict[str, str]
    version: str

    def events(self) -> Iterator[Event]:
        """Do the jobs, one after the other; call it before torch is imported."""
        here = version("graphdrop")
        if here != self.version:
            reason = (
                f"{platform.node()} has graphdrop {here}, and the main process {self.version}: "
                "install the same version on every node"
            )
            yield from (Event(key, "failed", reason) for key, _ in self.jobs)
            return
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(self.threads)))
        for name, value in self.variables.items():
            os.environ.setdefault(name, value)
        for key, pickled in self.jobs:
            yield from events_of(key, pickled)


class GroupedExecutor(Executor):
    """Base class of executors on a cluster.

    Args:
        jobs: how many tasks at once; by default as many as there is room for.
        resources: what each job needs.
        group: jobs per task; by default as many as take `GROUP_SECONDS` together.
    """

    def __init__(
        self,
        jobs: int | None = None,
        resources: Resources | None = None,
        group: int | None = None,
    ) -> None:
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs is {jobs}; it takes 1 or more tasks at once.")
        if group is not None and group < 1:
            raise ValueError(f"group is {group}; it takes 1 or more runs per task.")
        self.jobs, self.group = jobs, group
        self.resources = resources or Resources()

    @abstractmethod
    def submit(self, work: Work) -> Any:
        """Submit a task; returns its handle."""

    @abstractmethod
    def poll(self, tasks: Sequence[Task], seconds: float) -> Iterator[tuple[Task, Event]]:
        """New events; waits so long for one. Sets ``over`` and ``lost`` of tasks that ended."""

    @abstractmethod
    def cancel(self, task: Task) -> None:
        """End a task."""

    def run(self, jobs: Iterable[Job], total: int) -> Generator[Event | None]:
        """Do all jobs; those of a worker that was killed are done again by another."""
        if not total:
            return
        at_work = _AtWork(iter(jobs), total)
        try:
            while True:
                while len(at_work.tasks) < (room := self.at_once()):
                    group = at_work.next_group(self._size(at_work, room))
                    if not group:
                        break
                    at_work.tasks.append(self._submitted(group))
                if not at_work.tasks:
                    return
                for task, event in self.poll(at_work.tasks, LOOK_AGAIN):
                    if at_work.is_news(task, event):
                        yield event
                for task in [task for task in at_work.tasks if task.over]:
                    at_work.tasks.remove(task)
                    yield from at_work.taken_back(task)
                yield None
        finally:
            for task in at_work.tasks:
                self.cancel(task)

    def _size(self, at_work: _AtWork, room: int) -> int:
        """Jobs of the next task: enough for `GROUP_SECONDS`, and no more than leaves all busy."""
        if self.group is not None:
            return self.group
        if not at_work.times:
            return 1
        mean = max(sum(at_work.times) / len(at_work.times), 1e-3)
        return max(1, min(int(GROUP_SECONDS / mean), at_work.left // (2 * room)))

    def _submitted(self, group: Sequence[Job]) -> Task:
        work = Work(
            [(job.key, pickle.dumps(job)) for job in group],
            self.resources.cpus,
            {name: os.environ[name] for name in HANDED_ON if name in os.environ},
            version("graphdrop"),
        )
        return Task({job.key: job for job in group}, self.submit(work))


@dataclass
class _AtWork:
    """The tasks of an executor, and the jobs that are still to be handed out."""

    source: Iterator[Job]
    left: int
    """How many jobs may still come."""
    tasks: list[Task] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Seconds of finished jobs."""
    again: deque[Job] = field(default_factory=deque)
    losses: Counter[str] = field(default_factory=Counter)

    def next_group(self, size: int) -> list[Job]:
        """The next jobs to hand out; those of lost workers first."""
        group = [self.again.popleft() for _ in range(min(size, len(self.again)))]
        group = group or [job for _, job in zip(range(size), self.source, strict=False)]
        self.left -= len(group)
        return group

    def is_news(self, task: Task, event: Event) -> bool:
        """Note an event; returns whether it is the first of its kind that ends its job."""
        if event.what not in {"finished", "failed"}:
            return True
        if event.what == "finished":
            self.times.append(event.seconds)
        return task.jobs.pop(event.key, None) is not None

    def taken_back(self, task: Task) -> Iterator[Event]:
        """Take the jobs back that a task has not done; those that lost too many workers fail."""
        for number, job in enumerate(task.jobs.values()):
            self.losses[job.key] += number == 0  # the one that was being done
            if self.losses[job.key] < ATTEMPTS:
                self.again.append(job)
                self.left += 1
            else:
                yield Event(job.key, "failed", _given_up(task.lost))


def _given_up(reason: str) -> str:
    return (
        f"its worker was lost {ATTEMPTS} times, at last because: {reason or 'not known'}. If "
        "memory ran out, reserve more for a run with --memory-per-run. What is finished is kept: "
        "the same command goes on from there"
    )
