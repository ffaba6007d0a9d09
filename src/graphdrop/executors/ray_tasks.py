"""`RayExecutor`: jobs as Ray tasks, on a cluster that is there or on one of this machine alone."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from graphdrop.executors.groups import GroupedExecutor, Resources, Task, Work
from graphdrop.executors.jobs import Event

LOOPBACK = "127.0.0.1"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray then takes the loopback address for that of the node, on every system.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_STORE_BYTES = 100 * 2**20
"""Ray's shared memory on a cluster of one's own: only results go through it."""


class RayExecutor(GroupedExecutor):
    """Jobs as Ray tasks with explicit resources.

    Args:
        address: ``host:port`` of a cluster, or ``auto`` for the one that runs on this machine; by
            default the variable RAY_ADDRESS, and without it a cluster of this machine alone, which
            listens on 127.0.0.1 only and ends with this process.
        jobs: how many tasks at once; by default as many as the cluster has room for.
        resources: what each job needs.
        group: jobs per task; by default as many as take some 20 seconds together.
    """

    def __init__(
        self,
        address: str | None = None,
        jobs: int | None = None,
        resources: Resources | None = None,
        group: int | None = None,
    ) -> None:
        super().__init__(jobs, resources, group)
        self.address = address or os.environ.get("RAY_ADDRESS") or None
        if self.address and self.address.startswith("ray://"):
            raise ValueError(
                f"the Ray address is {self.address}; it takes host:port or auto. Run the command "
                "on a node of the cluster: Ray's client does not stream results."
            )
        self._ray: Any = None
        self._task: Any = None
        self._folder = ""
        self._joined = False

    def at_once(self) -> int:
        """As many tasks as the cluster has room for now, but at least one."""
        room = self._room()
        return max(1, room if self.jobs is None else min(self.jobs, room))

    def submit(self, work: Work) -> Any:
        """Submit a task that streams its events."""
        self._connect()
        return self._task.remote(work)

    def poll(self, tasks: Sequence[Task], seconds: float) -> Iterator[tuple[Task, Event]]:
        """The events that have arrived."""
        ray = self._ray
        of = {task.handle: task for task in tasks}
        ready, _ = ray.wait(list(of), timeout=seconds, fetch_local=False)
        if ready:  # and whatever else is there
            ready, _ = ray.wait(list(of), num_returns=len(of), timeout=0, fetch_local=False)
        for handle in ready:
            task = of[handle]
            try:
                event: Event = ray.get(next(handle))
            except StopIteration:
                task.over = True
            except ray.exceptions.RayTaskError as error:
                task.over = True
                for key in list(task.jobs):
                    yield task, Event(key, "failed", str(error))
            except ray.exceptions.RayError as error:
                task.over, task.lost = True, " ".join(str(error).split())[:300]
            else:
                yield task, event

    def cancel(self, task: Task) -> None:
        """Kill the task's worker."""
        if self._ray is not None and self._ray.is_initialized():
            self._ray.cancel(task.handle, force=True)

    def close(self) -> None:
        """Leave the cluster, and end it if it is our own."""
        if self._ray is not None and not self._joined:
            self._ray.shutdown()
        self._ray = self._task = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _room(self) -> int:
        """For how many tasks the nodes that are alive have resources in all."""
        self._connect()
        needs = {"CPU": float(self.resources.cpus), "GPU": self.resources.gpus}
        if self.resources.memory is not None:
            needs["memory"] = self.resources.memory * 2**30
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return sum(
            int(min(node.get(name, 0.0) // need for name, need in needs.items() if need))
            for node in nodes
        )

    def _connect(self) -> None:
        if self._ray is not None:
            return
        imported = "ray" in sys.modules
        with _environment(_QUIET if self.address is None else {}), _own_signals():
            self._ray = _ray()
            self._joined = bool(self._ray.is_initialized())
            if not self._joined:
                self._start(imported)
        resources = self.resources
        memory = None if resources.memory is None else int(resources.memory * 2**30)
        options = {"num_cpus": resources.cpus, "num_gpus": resources.gpus, "memory": memory}
        # A task that is lost is done again here, without the jobs that were done.
        self._task = self._ray.remote(**options, max_retries=0, num_returns="streaming")(_events)
        if not self._room():
            has = dict(self._ray.cluster_resources())
            self.close()
            raise ValueError(
                f"a run needs {resources.cpus} processors, {resources.gpus:g} GPUs and "
                f"{resources.memory or 0:g} GiB, and no node of the Ray cluster has them (in all: "
                f"{has.get('CPU', 0):g} processors, {has.get('GPU', 0):g} GPUs): ask for less with "
                "--cpus-per-run, --gpus-per-run and --memory-per-run"
            )

    def _start(self, imported: bool) -> None:
        ray = self._ray
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is not None:
            try:
                ray.init(self.address, **quiet)
            except ConnectionError as error:
                self._ray = None
                raise ValueError(
                    f"the Ray address is {self.address}, and no cluster answers there: start one "
                    "with `ray start --head`, or give another with --ray-address"
                ) from error
            return
        self._folder = tempfile.mkdtemp(prefix="gd-ray-", dir=_short_folder())
        ray.init(
            "local",
            num_cpus=self.jobs * self.resources.cpus if self.jobs else _cores(),
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _node_ip_address=LOOPBACK,
            _temp_dir=self._folder,
            **quiet,
        )
        if ray.util.get_node_ip_address() != LOOPBACK:
            self.close()
            raise ValueError(
                "a Ray cluster of this machine would listen to others, since ray was imported "
                f"before ({imported}): import graphdrop first, or call ray.init yourself"
            )


def _events(work: Work) -> Iterator[Event]:
    yield from work.events()


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise ValueError(
            "the executor is ray, and Ray is not installed: run `pip install "
            "'.[distributed]'` in a checkout of graphdrop, or take --executor local"
        ) from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _short_folder() -> str | None:
    """A folder whose name is short enough for the names of sockets, 107 bytes in all."""
    return "/tmp" if len(tempfile.gettempdir()) > 20 and os.path.isdir("/tmp") else None  # noqa: S108


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Context with these environment variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _own_signals() -> Iterator[None]:
    """Context after which SIGTERM does what it did before: Ray takes it to itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
