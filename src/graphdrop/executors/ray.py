"""`RayExecutor`: runs jobs as tasks of a Ray cluster, each with the resources that it asks for."""

from __future__ import annotations

import os
import pickle
import platform
import signal
import threading
from concurrent.futures import Future
from importlib import import_module
from importlib.metadata import version
from typing import Any

from graphdrop.executors.local import THREAD_VARIABLES, Executor, Job, Outcome, attempt

_RETRIES = 2
"""How often Ray starts a job again whose worker or node was lost."""
_DATA = "GRAPHDROP_DATA"


class RayExecutor(Executor):
    """Runs jobs as tasks of a Ray cluster that is there.

    Args:
        address: ``host:port`` of the cluster, or ``auto`` for one that runs on this machine; by
            default the variable RAY_ADDRESS, and without it ``auto``.
        jobs: how many jobs at once; by default as many as the cluster has room for.
        cpus: processors for each job, which has as many threads.
        gpus: GPUs for each job, or a share of one.
    """

    def __init__(
        self, address: str | None = None, jobs: int | None = None, cpus: int = 1, gpus: float = 0.0
    ) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS") or "auto"
        if self.address.startswith("ray://"):
            raise ValueError(
                f"the Ray address is {self.address}; it takes host:port or auto. Run the command "
                "on a node of the cluster."
            )
        self._jobs, self._cpus, self._gpus = jobs, cpus, gpus
        self._ray: Any = None

    @property
    def at_once(self) -> int:
        """As many jobs as the cluster has room for now, or fewer if so many were asked for."""
        if self._ray is None:
            self._connect()
        there = self._ray.cluster_resources()
        needs = {"CPU": self._cpus, "GPU": self._gpus}
        room = min(int(there.get(name, 0.0) // need) for name, need in needs.items() if need)
        if not room:
            raise ValueError(
                f"a run needs {self._cpus} processors and {self._gpus:g} GPUs, and the Ray cluster "
                f"has {there.get('CPU', 0):g} and {there.get('GPU', 0):g}: ask for less with "
                "--cpus-per-run and --gpus-per-run"
            )
        return min(room, self._jobs or room)

    def submit(self, job: Job) -> Future[Outcome]:
        """Start a task. Ray starts it again if its worker is lost."""
        if self._ray is None:
            self._connect()
        options = {"num_cpus": self._cpus, "num_gpus": self._gpus, "max_retries": _RETRIES}
        task = self._ray.remote(**options)(_attempt_on_node)
        data = os.environ.get(_DATA)
        future: Future[Outcome] = task.remote(
            pickle.dumps(job), self._cpus, data, version("graphdrop")
        ).future()
        return future

    def close(self) -> None:
        """Leave the cluster, which ends the tasks of this process."""
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None

    def _connect(self) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise ValueError(
                "the executor is ray, and Ray is not installed: run `pip install "
                "'.[distributed]'` in a checkout of graphdrop, or take --executor local"
            ) from error
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(self.address, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise ValueError(
                f"the Ray address is {self.address}, and no cluster answers there: start one "
                "with `ray start --head`, or give another with --ray-address"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray takes this signal to itself
        self._ray = ray


def _attempt_on_node(pickled: bytes, threads: int, data: str | None, expected: str) -> Outcome:
    """Run a job on a node of the cluster; the job is unpickled here, before torch is imported."""
    if (here := version("graphdrop")) != expected:
        return None, (
            f"{platform.node()} has graphdrop {here}, and the main process {expected}: install the "
            "same version on every node"
        )
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    if data is not None:
        os.environ.setdefault(_DATA, data)
    return attempt(pickle.loads(pickled))  # noqa: S301 - by the process that started this one
