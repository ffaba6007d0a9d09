"""Locks for folders with one writer; the system releases them when the process ends."""

from __future__ import annotations

import errno
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphdrop.io.files import check_regular

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"
"""The lock file of a folder, with the process id and host of the writer."""

_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_PAST_THE_TEXT = 2**30  # Windows lets nobody else read the bytes that are locked


class LockedError(ValueError):
    """Another writer has locked the folder."""


@contextmanager
def folder_lock(folder: str | Path) -> Iterator[Path]:
    """Context with an exclusive lock on a folder, which is created if missing.

    It raises `LockedError` at once if the folder is locked, also by the same process. The lock
    belongs to an open file and ends with the process; a lock file that a killed process left is
    ignored. On a file system without locks there is a warning instead.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    descriptor = _open_locked(path)
    owner = os.getpid()
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{owner} {socket.gethostname()}\n".encode())
        yield folder
    finally:
        # A forked child that comes by here lets go of its copy; the lock stays its parent's.
        if os.getpid() == owner:
            with suppress(OSError):  # Windows keeps it, as what is open: a leftover does no harm
                path.unlink()  # while it is held: later it may be somebody else's
        os.close(descriptor)


def list_folder(folder: str | Path) -> list[Path]:
    """List what a folder holds without the lock file; empty if the folder does not exist."""
    folder = Path(folder)
    return sorted(p for p in folder.iterdir() if p.name != LOCK) if folder.is_dir() else []


def _open_locked(path: Path) -> int:
    """The descriptor of the lock file, locked."""
    while True:
        with suppress(FileNotFoundError):
            check_regular(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            if not _lock(descriptor):
                raise LockedError(_describe_writer(path))
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its writer took the file away just now: lock the next one


def _lock(descriptor: int) -> bool:
    """Whether the lock was acquired."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _PAST_THE_TEXT, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        warnings.warn(
            f"this file system has no locks ({error.strerror}): see to it that no other process "
            "writes to the same folder",
            stacklevel=2,
        )
    return True


def _describe_writer(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as stream:
            process, host = stream.read(300).split()
        me = process == str(os.getpid()) and host == socket.gethostname()
        holder = "this process" if me else f"process {int(process)} on {host}"
    except (OSError, ValueError):  # it is about to write its name
        holder = "another process"
    return (
        f"{path.parent} is in use by {holder}, and a folder has one writer at a time: "
        "wait until that one ends or stop it, or give another folder"
    )
