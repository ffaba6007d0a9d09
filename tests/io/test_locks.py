"""A folder has one writer, known by name, and a killed one is no longer one."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphdrop.io import locks
from graphdrop.io.locks import LOCK, LockedError, folder_lock, list_folder

HOLD = """
import sys
from graphdrop.io.locks import folder_lock
with folder_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_and_told_who_has_the_folder(tmp_path: Path):
    with (
        other_writer(tmp_path) as other,
        pytest.raises(LockedError) as raised,
        folder_lock(tmp_path),
    ):
        pytest.fail("two writers")
    message = str(raised.value)
    assert message.startswith(f"{tmp_path} is in use by process {other.pid} on ")
    assert socket.gethostname() in message
    assert "give another folder" in message


def test_a_killed_process_leaves_a_file_and_no_lock(tmp_path: Path):
    with other_writer(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert str(other.pid) in (tmp_path / LOCK).read_text()
        assert list_folder(tmp_path) == []
        with folder_lock(tmp_path):
            assert (tmp_path / LOCK).read_text().split()[0] == str(os.getpid())
    assert not (tmp_path / LOCK).exists()


def test_a_second_lock_in_the_same_process_is_refused(tmp_path: Path):
    with folder_lock(tmp_path):
        with pytest.raises(LockedError, match="is in use by this process"), folder_lock(tmp_path):
            pytest.fail("two writers")
        # and the first is not lost by that
        with pytest.raises(LockedError), folder_lock(tmp_path):
            pytest.fail("two writers")
    with folder_lock(tmp_path):
        pass


def test_a_missing_folder_is_made_and_the_lock_is_not_in_its_contents(tmp_path: Path):
    folder = tmp_path / "a" / "b"
    assert list_folder(folder) == []
    with folder_lock(folder) as held:
        assert held == folder
        (folder / "some").touch()
        assert list_folder(folder) == [folder / "some"]
    assert list(folder.iterdir()) == [folder / "some"]


def test_a_forked_child_that_unwinds_leaves_the_lock_to_its_parent(tmp_path: Path):
    script = (
        "import os, sys\n"
        "from graphdrop.io.locks import LockedError, folder_lock\n"
        "with folder_lock(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        os.waitpid(child, 0)\n"
        "        try:\n"
        "            with folder_lock(sys.argv[1]): print('lost')\n"
        "        except LockedError: print('kept')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "kept\n"


def test_a_lock_file_that_its_writer_takes_away_meanwhile_is_not_mistaken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lock, calls = locks._lock, []

    def too_late(descriptor: int) -> bool:
        if not calls:
            (tmp_path / LOCK).unlink()  # the writer before ends between our open and our lock
        calls.append(descriptor)
        return lock(descriptor)

    monkeypatch.setattr(locks, "_lock", too_late)
    with folder_lock(tmp_path):
        assert len(calls) == 2
        assert (tmp_path / LOCK).exists()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path):
    precious = tmp_path / "precious"
    precious.write_text("text")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / LOCK).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), folder_lock(folder):
        pytest.fail("it followed the link")
    assert precious.read_text() == "text"


def test_a_file_system_without_locks_gets_a_warning(tmp_path: Path, monkeypatch):
    def none(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", none)
    with pytest.warns(UserWarning, match="has no locks"), folder_lock(tmp_path):
        pass
