"""Atomic writing of files, expansion of paths, and the refusal to open pipes and devices."""

import errno
import os
import stat
from pathlib import Path


def check_regular(path: Path) -> Path:
    """Raise an `OSError` if the path is a pipe, a device, a socket or a folder; else return it.

    Opening a pipe waits for a writer, and reading `/dev/zero` never ends. So this is called before
    any file that somebody else may have made is opened. Links are followed.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a pipe or a device, not a regular file", str(path))
    return path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: to a temporary file, synced to disk, then renamed.

    A failure, such as a full disk, is an `OSError` that names the file; the old file is then
    unchanged and the temporary one is removed.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        try:
            if beside.exists():
                check_regular(beside)
            with beside.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        # A write that fails does not know its file. OSError chooses its subclass by the number.
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, if the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def expand_path(path: str | Path) -> Path:
    """Expand `~` and `~user` at the beginning of a path."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"{path} begins with the home folder of a user that this system does not know: "
            "give the whole path, or ./ before a name that begins with ~"
        ) from error
