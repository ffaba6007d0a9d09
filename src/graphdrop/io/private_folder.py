"""Private folders for compiled code: only the user has access.

Numba caches compiled functions as pickles: write access to such a file means control over this
process. The folder therefore belongs to the user, is closed to others, and is on a path that others
cannot change.
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
"""The owner of system folders as seen in an unprivileged container."""


@cache
def private_folder(wanted: Path, name: str) -> Path:
    """The folder `wanted`, created if missing, that only this user can access.

    If that is not possible, a folder `name` of this user in the system's temporary folder, or else
    a new one for this process; the reason is logged.
    """
    if os.name != "posix":
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    by_user = Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"
    faults = []
    for folder in (wanted, by_user):
        try:
            chosen = _make_closed(folder.absolute())
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


def _make_closed(folder: Path) -> Path:
    """The resolved folder, created and closed to others; raises `OSError` on failure."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder = folder.parent.resolve() / folder.name
    for parent in folder.parents:  # others must not be able to replace a folder on the path
        state = parent.stat()
        if state.st_uid not in (0, os.geteuid(), _UNMAPPED):
            raise OSError(f"{parent} belongs to another user")
        # Many systems give every user a group, which may write what the user may.
        others = stat.S_IWOTH | (0 if state.st_gid == os.getegid() else stat.S_IWGRP)
        if state.st_mode & others and not state.st_mode & stat.S_ISVTX:
            raise OSError(f"other users can write to {parent}")
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    mine = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
    if mine and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # What others may have put there is not run, now or later.
        folder.rename(folder.with_name(f"{folder.name}.untrusted-{uuid4().hex[:8]}"))
        folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
        raise OSError("it belongs to another user, or is a link")
    folder.chmod(0o700)
    tempfile.TemporaryFile(dir=folder).close()
    return folder
