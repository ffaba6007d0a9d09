"""Compiled functions are kept where nobody else can put one."""

import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphdrop.io.private_folder import private_folder


@pytest.fixture(autouse=True)
def nothing_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """The system's folder of temporary files is one of this test."""
    caplog.set_level(logging.WARNING)
    system = tmp_path / "tmp"
    system.mkdir()
    system.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(system))
    private_folder.cache_clear()
    yield
    private_folder.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def by_user(tmp_path: Path) -> Path:
    return tmp_path / "tmp" / f"some-{os.geteuid()}"


def test_a_new_folder_is_closed_to_others(tmp_path: Path, caplog):
    folder = private_folder(tmp_path / "a" / "b", "some")
    assert folder == tmp_path / "a" / "b"
    assert mode(folder) == 0o700
    assert not caplog.records


@pytest.mark.parametrize("bits", [0o775, 0o702])
def test_what_others_could_have_put_there_is_set_aside(tmp_path: Path, bits):
    wanted = tmp_path / "a"
    wanted.mkdir()
    (wanted / "planted").touch()
    wanted.chmod(bits)
    assert private_folder(wanted, "some") == wanted
    assert mode(wanted) == 0o700
    assert list(wanted.iterdir()) == []
    assert len(list(tmp_path.glob("a.untrusted-*/planted"))) == 1


def test_the_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch, caplog):
    wanted = tmp_path / "a"
    wanted.mkdir(mode=0o755)
    me = os.geteuid()
    lstat = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        values = list(lstat(path))
        values[stat.ST_UID] = me + 1 if path == wanted else values[stat.ST_UID]
        return os.stat_result(values)

    monkeypatch.setattr(Path, "lstat", of_another)
    assert private_folder(wanted, "some") == by_user(tmp_path)
    assert mode(by_user(tmp_path)) == 0o700
    (record,) = caplog.records
    assert f"{wanted}: it belongs to another user" in record.getMessage()
    assert "NUMBA_CACHE_DIR" in record.getMessage()


def test_a_folder_on_a_path_that_others_can_change_is_not_used(tmp_path: Path, caplog):
    wanted = tmp_path / "a" / "b"
    wanted.parent.mkdir()
    wanted.parent.chmod(0o777)
    assert private_folder(wanted, "some") == by_user(tmp_path)
    assert f"other users can write to {wanted.parent}" in caplog.text


def test_a_link_is_not_followed(tmp_path: Path, caplog):
    (tmp_path / "elsewhere").mkdir()
    wanted = tmp_path / "a"
    wanted.symlink_to(tmp_path / "elsewhere")
    assert private_folder(wanted, "some") == by_user(tmp_path)
    assert "is a link" in caplog.text


def test_a_folder_that_cannot_be_made_is_replaced_and_kept_from_process_to_process(
    tmp_path, caplog
):
    (tmp_path / "file").touch()
    chosen = private_folder(tmp_path / "file" / "b", "some")
    assert chosen == by_user(tmp_path)
    assert f"{tmp_path / 'file' / 'b'}: " in caplog.text
    private_folder.cache_clear()
    assert private_folder(tmp_path / "file" / "b", "some") == chosen


def test_both_compiled_rooms_keep_their_functions_in_such_a_folder(tmp_path: Path):
    script = (
        "from graphdrop.kernels import loops; from graphdrop.loading import loops as loading\n"
        "for f in (loading.count_edges, loops.sum_rows): print(f._cache._cache_path)"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for path in done.stdout.splitlines():
        assert path.startswith(str(tmp_path / "numba" / "kernels"))
    assert len(done.stdout.splitlines()) == 2
    assert mode(tmp_path / "numba" / "kernels") == 0o700
