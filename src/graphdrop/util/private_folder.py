"""A folder for what will be run: nobody else can put anything there.

Numba keeps compiled functions as pickles, and whoever can write such a file decides what this
process runs. So the folder is the user's own, closed to others, and on a path that they cannot
change.
"""

import logging
import os
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

_logger = logging.getLogger(__name__)
_UNMAPPED: Final = 65534
"""How a container without privileges sees the owner of folders that are the system's."""


@cache
def private_folder(wanted: Path, name: str) -> Path:
    """The folder `wanted`, made where it is missing, that only this user can enter.

    Where that cannot be had, one of this user in the system's folder of temporary files, by `name`;
    and where not even that, a new one for this process. A line of the log then says why.
    """
    if os.name != "posix":
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    by_user = Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"
    faults = []
    for folder in (wanted, by_user):
        try:
            chosen = _closed(folder.absolute())
        except OSError as error:
            faults.append(f"{folder}: {error.strerror or error}")
        else:
            break
    else:
        chosen = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    if faults:
        _logger.warning(
            "compiled functions are kept in %s, as they cannot be where they should (%s). Set "
            "NUMBA_CACHE_DIR to a folder of your own to keep them there",
            chosen,
            "; ".join(faults),
        )
    return chosen


def _closed(folder: Path) -> Path:
    """The folder with its links followed, made and closed to others, or an `OSError`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder = folder.parent.resolve() / folder.name
    _check_path_to(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    if _is_open_to_others(folder):
        # What others may have put there is not run, now or later.
        folder.rename(folder.with_name(f"{folder.name}.untrusted-{uuid4().hex[:8]}"))
        folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
        raise OSError("it belongs to another user, or is a link")
    folder.chmod(0o700)
    tempfile.TemporaryFile(dir=folder).close()
    return folder


def _is_open_to_others(folder: Path) -> bool:
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        return False
    return state.st_uid == os.geteuid() and bool(state.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _check_path_to(folder: Path) -> None:
    """Whoever can rename a folder on the way can put another in its place."""
    for parent in folder.parents:
        state = parent.stat()
        if state.st_uid not in (0, os.geteuid(), _UNMAPPED):
            raise OSError(f"{parent} belongs to another user")
        # Many systems give every user a group, which may write what the user may.
        others = stat.S_IWOTH | (0 if state.st_gid == os.getegid() else stat.S_IWGRP)
        if state.st_mode & others and not state.st_mode & stat.S_ISVTX:
            raise OSError(f"other users can write to {parent}")
