"""A file is replaced whole or not at all, and whatever goes wrong names it."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from graphdrop.io.files import expand_path, replace_file


def test_a_file_gets_its_new_content_and_nothing_is_left_beside_it(tmp_path: Path):
    path = tmp_path / "some"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "some"
    replace_file(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        replace_file(path, b"new")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_beyond_the_largest_size_is_named(tmp_path: Path):
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from graphdrop.io.files import replace_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: replace_file(Path(sys.argv[1]), bytes(5000))\n"
        "except OSError as error: print(error.strerror, error.filename)"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] != 0
    path = tmp_path / "some"
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"File too large {path}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_still_a_file_not_found(tmp_path: Path):
    with pytest.raises(FileNotFoundError) as raised:
        replace_file(tmp_path / "no" / "some", b"")
    assert raised.value.filename == str(tmp_path / "no" / "some")


def test_the_home_folder_is_written_out(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_path("~/x.npz") == tmp_path / "x.npz"
    assert expand_path(Path("x.npz")) == Path("x.npz")


def test_the_home_of_nobody_is_refused():
    with pytest.raises(ValueError, match=r"~nosuch/x\.npz begins with the home folder of a user"):
        expand_path("~nosuch/x.npz")
