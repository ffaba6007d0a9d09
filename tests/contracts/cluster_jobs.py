"""Jobs without torch that leave marks in a folder, so that a test finds them and kills them.

The folder is the variable MARKS, which the processes of a cluster inherit.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from contracts import patience
from graphdrop.executors.local import THREAD_VARIABLES


def marks(name: str) -> list[list[str]]:
    """The lines of a file of marks, in words."""
    path = Path(os.environ["MARKS"]) / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def mark(name: str, *words: object) -> None:
    """Add a line; lines this short are written at once."""
    with (Path(os.environ["MARKS"]) / name).open("a") as stream:
        stream.write(" ".join(map(str, words)) + "\n")


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + patience.SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)


def pretend_run(config: Any, _options: Any, key: str, _data: Any) -> dict[str, Any]:
    """In place of `checked_run`: with an odd seed it waits for a file that lets it go."""
    seed = config.seed
    mark("begun", seed, os.getpid(), os.getppid())
    folder = Path(os.environ["MARKS"])
    if seed % 2:
        wait_until((folder / f"go-{seed}").exists, f"go-{seed}")
    return {"key": key, "seed": seed, "seconds": 0.1}


def double(number: int) -> int:
    return 2 * number


def wait_for_ever() -> None:
    mark("begun", os.getpid())
    while True:
        time.sleep(1)


def threads() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in THREAD_VARIABLES}


def refuse() -> None:
    raise ValueError("this cannot be had")


def fail() -> None:
    raise KeyError("a defect")


def killed_once(number: int) -> int:
    """A job whose first worker is killed."""
    mark("begun", number)
    if sum(words == [str(number)] for words in marks("begun")) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
