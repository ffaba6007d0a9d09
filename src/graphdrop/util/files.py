"""Files that are whole or not there, and paths as a person types them."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside, wait until the disk has it, and give it its name at once.

    What goes wrong, a full disk for instance, is an `OSError` that names the file; the old file
    is then as it was, and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        try:
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
    """Wait until the disk has the names in a folder, where the system can tell."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` written out."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"{path} begins with the home folder of a user that this system does not know: "
            "give the whole path, or ./ before a name that begins with ~"
        ) from error
