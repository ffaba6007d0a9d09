"""Tests that are collected once and run many times, each time in a fork with a changed module.

The imports and the collection take most of the time of a short test. Here a process has done both
and waits; for every mutant it forks, gives the functions concerned their new code, and runs the
tests that reach the changed lines, the fastest first, until one fails.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from torture.changes import Mutant, mutated

ROOT = Path(__file__).parents[2]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no", "--tb=no"]
_SOURCE = str(ROOT / "src" / "graphdrop")
CANNOT = 9
"""The exit code of a child that could not put the new code in place."""
OUTCOMES = {0: "survived", 1: "killed", CANNOT: "cannot"}
MORE_BYTES = 4 << 30
OPTIMIZED = 1
"""The flag of code that belongs to a function, not to a module or to the body of a class."""


def forked(work: Callable[[Path], int], processor_seconds: float) -> str:
    """What becomes of a child with limits on processor time, memory and waiting."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                os.setpgid(0, 0)
                _limited(processor_seconds)
                code = work(Path(folder))
            os._exit(code)
        polls = 0  # a clock would also run while all processes are frozen
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            if (polls := polls + 1) > 50 * (10 * processor_seconds + 120):
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir(exist_ok=True)
    code = os.waitstatus_to_exitcode(done[1])
    return OUTCOMES.get(code, "timeout" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "killed")


def _limited(processor_seconds: float) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    seconds = int(processor_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def functions(code: CodeType) -> list[CodeType]:
    """The functions of a module and of its classes, without those inside of others."""
    found = []
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found += [one] if one.co_flags & OPTIMIZED else functions(one)
    return found


def _key(code: CodeType) -> tuple[str, str, int]:
    return os.path.realpath(code.co_filename), code.co_qualname, code.co_firstlineno


class Server:
    """A plugin of pytest that answers requests instead of running the tests."""

    def __init__(self, requests: Any, answers: Any, sources: list[Path]) -> None:
        self.requests, self.answers, self.sources = requests, answers, sources
        self.items: dict[str, pytest.Item] = {}
        self.failed: list[str] = []
        self.stop = True
        self.culprit = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        """The names of tests that failed in forks."""
        self.at_import: set[tuple[str, str, int]] = set()
        """Functions that were called before any test: new code of theirs would change nothing."""

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_SOURCE):
            self.at_import.add(_key(frame.f_code))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.stop:
            self.culprit.write(f"{report.nodeid}\n")
            self.culprit.flush()
            os._exit(1)
        if report.failed or report.skipped:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests could not be collected")
        sys.setprofile(None)
        self.items = {item.nodeid: item for item in session.items}
        self.code = self._loaded()
        for line in self.requests:
            request = json.loads(line)
            answer = getattr(self, request.pop("do"))(**request)
            self.answers.write(json.dumps(answer) + "\n")
            self.answers.flush()
        return True

    def _loaded(self) -> dict[tuple[str, str, int], list[FunctionType]]:
        """The functions of the sources by where they are defined."""
        found: dict[tuple[str, str, int], list[FunctionType]] = {}
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename.startswith(_SOURCE):
                found.setdefault(_key(one.__code__), []).append(one)
        gc.collect()
        gc.freeze()
        return found

    def run(self, names: list[str], folder: Path, most_seconds: float = math.inf) -> None:
        items = [self.items[name] for name in names]
        factory = items[0].config._tmp_path_factory  # type: ignore[attr-defined]
        factory._given_basetemp, factory._basetemp = folder / "tests", None
        start = time.process_time()
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if time.process_time() - start > most_seconds:
                break

    def mutant(
        self, change: list[Any] | None, names: list[str], seconds: float, limit: float
    ) -> str:
        """`killed`, `survived`, `timeout`, or `cannot` if another way must be taken."""

        def work(folder: Path) -> int:
            if change is not None and not self._put(Mutant(Path(change[0]), *change[1:])):
                return CANNOT
            self.run(names, folder, seconds)
            return 0

        return forked(work, limit)

    def _put(self, mutant: Mutant) -> bool:
        new = functions(compile(mutated(mutant), str(mutant.path), "exec", dont_inherit=True))
        old = functions(compile(mutant.path.read_text(), str(mutant.path), "exec"))
        changed = [one for one, other in zip(new, old, strict=True) if one != other]
        if len(changed) != 1 or sum(_key(one) == _key(changed[0]) for one in new) != 1:
            return False
        if _key(changed[0]) in self.at_import:
            return False
        targets = self.code.get(_key(changed[0]), [])
        try:
            for target in targets:
                target.__code__ = changed[0]
        except ValueError:  # other variables of the functions around it
            return False
        return bool(targets)

    def reach(self, path: str, known: dict[str, str]) -> str:
        """Add a line for each test: which lines of the sources it reaches, in how many seconds."""
        wanted = [name for name, item in self.items.items() if known.get(name) != sha(item.path)]

        def work(folder: Path) -> int:
            import coverage  # noqa: PLC0415

            files = [str(one) for one in self.sources]
            self.stop = False
            caches = [
                one
                for one in gc.get_objects()
                if type(one) is _lru_cache_wrapper and one.__module__.startswith("graphdrop")
            ]
            for number, name in enumerate(wanted):
                for one in caches:  # else only the first test would reach what is cached
                    one.cache_clear()
                counter = coverage.Coverage(data_file=None, include=files, config_file=False)
                # a warning is an error here, and a test may well reach none of the files
                counter.set_option("run:disable_warnings", ["no-data-collected"])
                start = time.process_time()
                counter.start()
                self.run([name], folder / str(number))
                counter.stop()
                data = counter.get_data()
                lines = {file: data.lines(file) for file in data.measured_files()}
                found = {
                    "name": name,
                    "seconds": round(time.process_time() - start, 3),
                    "sha256": sha(self.items[name].path),
                    "passed": name not in self.failed,
                    "lines": {
                        str(Path(file).relative_to(ROOT)): sorted(some or [])
                        for file, some in lines.items()
                    },
                }
                with open(path, "a") as stream:
                    stream.write(json.dumps(found) + "\n")
            return 0

        return forked(work, 36_000) if wanted else "survived"

    def last_failed(self) -> str:
        """The test that failed last in a fork."""
        self.culprit.seek(0)
        return (self.culprit.read().splitlines() or ["none"])[-1]

    def names(self) -> dict[str, str]:
        """The tests, each with the checksum of its file."""
        sums = {path: sha(path) for path in {item.path for item in self.items.values()}}
        return {name: sums[item.path] for name, item in self.items.items()}


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Client:
    """The other end: starts the server in a fork and asks it."""

    def __init__(self, tests: list[str], sources: list[Path]) -> None:
        to_server, from_client = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(to_server[1])
            os.close(from_client[0])
            code = 1
            with (
                contextlib.suppress(BaseException),
                os.fdopen(to_server[0]) as requests,
                os.fdopen(from_client[1], "w") as answers,
            ):
                server = Server(requests, answers, sources)
                sys.setprofile(server.note)
                code = int(pytest.main([*OPTIONS, "--rootdir", str(ROOT), *tests], [server]))
            os._exit(code)
        os.close(to_server[0])
        os.close(from_client[1])
        self.requests = os.fdopen(to_server[1], "w")
        self.answers = os.fdopen(from_client[0])

    def ask(self, do: str, **request: Any) -> Any:
        self.requests.write(json.dumps({"do": do, **request}) + "\n")
        self.requests.flush()
        line = self.answers.readline()
        if not line:
            raise RuntimeError("the process that runs the tests has ended")
        return json.loads(line)

    def close(self) -> None:
        self.requests.close()
        self.answers.close()
        os.waitpid(self.process, 0)
