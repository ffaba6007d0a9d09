"""An executor without processes, for tests of what uses one: jobs are done here, the last first."""

from collections.abc import Generator, Iterable

from graphdrop.executors import Event, Executor, Job
from graphdrop.executors.jobs import done


class LastFirst(Executor):
    """Does all jobs in this process, in the reverse order."""

    def at_once(self) -> int:
        return 1

    def run(self, jobs: Iterable[Job], total: int) -> Generator[Event | None]:
        for job in reversed(list(jobs)):
            yield Event(job.key, "started")
            yield done(job, lambda number: None)
            yield None
