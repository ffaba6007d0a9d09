"""What no case may do: run code, touch files elsewhere, use the network, take long or much memory.

Python tells an audit hook whatever it opens, starts, connects to or unpickles. A limit on the
address space makes memory that a file asks for in vain an error, and a timer on processor time,
which does not run while other processes have the core, ends a case that hangs.
"""

import os
import resource
import signal
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 20.0
"""Of processor time, for one case; most take a few milliseconds."""
WAITS = 20 * SECONDS
"""Of real time: a case that waits for a pipe takes no processor time."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = frozenset(
    {
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "os.chown",
        "shutil.rmtree",
        "shutil.move",
        "shutil.copyfile",
        "tempfile.mkstemp",
        "tempfile.mkdtemp",
    }
)
NEVER = frozenset(
    {
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "urllib.Request",
        "pickle.find_class",
        "ctypes.dlopen",
        "webbrowser.open",
    }
)
HARMLESS = ("/dev/null", "/proc/self/")


class HangsError(BaseException):
    """A case takes too long."""


class _Watch:
    """What happened since the watch began, as far as it is forbidden."""

    def __init__(self) -> None:
        self.active = False
        self.allowed: tuple[str, ...] = ()
        self.evaluates = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in (mode or "") for letter in "wax+") or (flags or 0) & WRITES
            if writes and not self._may_change(path):
                self.seen.append(f"opened {path!r} for writing")
        elif event in CHANGES:
            if event == "os.symlink":  # which changes the folder of the link alone
                arguments = arguments[1:]
            if event in ("os.remove", "os.rmdir") and arguments[1] >= 0:  # in an open folder
                arguments = (f"{os.readlink(f'/proc/self/fd/{arguments[1]}')}/{arguments[0]}",)
            if not all(
                self._may_change(path) for path in arguments if isinstance(path, (str, bytes, Path))
            ):
                self.seen.append(f"{event} {arguments!r}")
        elif event == "pickle.find_class" and self.evaluates:
            pass  # a compiled kernel of ours, from the folder that only the user can write to
        elif event == "exec" and sys._getframe(1).f_code.co_filename == typing.__file__:
            pass  # an annotation of ours, which a typed model evaluates
        elif event in NEVER or (
            event == "exec" and not self.evaluates and _is_made_up(arguments[0])
        ):
            self.seen.append(f"{event} {str(arguments)[:200]}")

    def _may_change(self, path: Any) -> bool:
        if isinstance(path, int):
            return True  # of a file that was opened, which was seen
        whole = os.path.abspath(os.fsdecode(path))
        return whole.startswith((*self.allowed, *HARMLESS))


def _is_made_up(code: Any) -> bool:
    """Whether code comes from no file, as that of `eval` does; modules are imported late.

    Commands evaluate the annotations of their own options so, and are not asked.
    """
    name = getattr(code, "co_filename", "")
    return name.startswith("<") and not name.startswith(
        ("<frozen", "<attrs", "<__array_function__")
    )


_watch = _Watch()


def install(megabytes: int) -> None:
    """Limit the memory that this process may still take, and begin to listen."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_watch)

    def hangs(_number: int, _frame: object) -> None:
        raise HangsError

    signal.signal(signal.SIGPROF, hangs)
    signal.signal(signal.SIGALRM, hangs)


@contextmanager
def watched(*folders: Path, evaluates: bool = False) -> Iterator[list[str]]:
    """Context of one case, which may change files in these folders and the cache of downloads.

    `evaluates` is for commands, no file of which is changed: they evaluate the annotations of their
    options, and load compiled kernels that were not needed before.
    """
    from graphdrop.data.sources import cache_folder  # noqa: PLC0415

    _watch.seen, _watch.evaluates = [], evaluates
    _watch.allowed = tuple(f"{folder}/" for folder in (*folders, cache_folder()))
    _watch.active = True
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITS)
    try:
        yield _watch.seen
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _watch.active = False


def is_named(error: BaseException) -> bool:
    """Whether an error is one of the project's: raised by its own code, with its own words."""
    kind = type(error)
    ours = kind in (ValueError, FloatingPointError) or issubclass(kind, OSError)
    if not ours and not kind.__module__.startswith("graphdrop"):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = trace.tb_frame.f_code.co_filename if trace is not None else ""
    ours = any(f"{os.sep}{name}{os.sep}" in where for name in ("graphdrop", "experiments"))
    return ours and bool(str(error).strip())
