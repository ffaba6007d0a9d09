"""Memory limits, checked before memory is allocated."""

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "GRAPHDROP_MAX_BYTES"
RATIO: Final = 400
"""A file that takes more memory than so many times its size is refused: zeros pack 1000 to 1."""
ALWAYS: Final = 2**29
"""So many bytes any file may take."""
_MEMINFO: Final = Path("/proc/meminfo")
# The limit of a container and what it uses of it, in version 2 and version 1 of Linux's cgroups.
_CGROUPS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def check_bytes(what: str, needed: int, limit: int | None = None) -> None:
    """Raise if `what` would take more memory than `limit`, by default `most_bytes()`.

    `what` is the subject of the error, with the size that makes it large, such as
    `"model.hidden is 1000000000: the network"`.
    """
    most = most_bytes(limit)
    if needed > most:
        raise ValueError(
            f"{what} would take {format_bytes(needed)} of memory, and {format_bytes(most)} may be "
            f"taken: make it smaller, or allow more bytes by --max-bytes or {VARIABLE} if there is "
            "room"
        )


def most_bytes(limit: int | None = None, file: Path | None = None) -> int:
    """The largest number of bytes that may be allocated at once.

    By default the value of the environment variable `GRAPHDROP_MAX_BYTES`, or half of the free
    memory, and for what is read from a file `RATIO` times its size or `ALWAYS`.
    """
    if limit is not None:
        if limit < 0:
            raise ValueError(f"the limit is {limit} bytes: give 0 or more")
        return limit
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        half = free_bytes() // 2
        return half if file is None else min(half, max(ALWAYS, RATIO * file.stat().st_size))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(
            f"{VARIABLE} is {text[:40]!r}: give a whole number of bytes, such as 8000000000"
        )
    return int(text)


def free_bytes() -> int:
    """The free memory of the system or of the container."""
    return min(_free_in_system(), _free_in_container())


def format_bytes(size: int) -> str:
    """Write a number of bytes as text, such as `1.5 GiB`."""
    if size < 1024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    # Integers to one decimal: a size that a file declares may have any number of digits.
    tenths = size * 10 // 1024**power
    if tenths >= 10**7:
        return f"more than a million {_UNITS[-1]}"
    return f"{tenths // 10}.{tenths % 10} {_UNITS[power]}"


def _free_in_system() -> int:
    try:
        return _numbers(_MEMINFO)["MemAvailable:"] * 1024
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**33  # a system that does not tell, such as Windows


def _free_in_container() -> int:
    for limit, used in _CGROUPS:
        try:
            # Copies of files count as used, but the system gives them up when asked.
            cached = _numbers(Path(used).with_name("memory.stat")).get("inactive_file", 0)
            taken = int(Path(used).read_text()) - cached
            return max(0, int(Path(limit).read_text()) - taken)  # "max" where there is no limit
        except (OSError, ValueError):
            continue
    return 2**63


def _numbers(path: Path) -> dict[str, int]:
    """The first number of every line, by the word before it."""
    words = (line.split() for line in path.read_text().splitlines())
    return {name: int(number) for name, number, *_ in words}
