"""An executor without processes, for tests of what uses one: jobs are done here, the last first."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from graphdrop.executors import Executor, Job
from graphdrop.executors.local import Outcome, attempt


class LastFirst(Executor):
    """Does all jobs in this process, in the reverse order."""

    at_once = 1

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(attempt(job))
        return future

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[str, Any]]:
        return super().run(reversed(list(jobs)))

    def close(self) -> None:
        pass
