"""Finished runs survive whatever happens to the processes that write them."""

import json
import lzma
import multiprocessing
import os
import signal
import time

import pytest

from experiments.archive import archive
from experiments.store import Store

SPAWN = multiprocessing.get_context("spawn")
KEY, OTHER = "0123456789abcdef01234567", "fedcba9876543210fedcba98"


def test_a_reader_sees_what_others_add_later(tmp_path):
    reader, writer = Store(tmp_path), Store(tmp_path)
    writer.append({"key": KEY})
    assert set(reader.records()) == {KEY}
    writer.append({"key": OTHER})
    assert set(reader.records()) == {KEY, OTHER}


@pytest.mark.parametrize("length", [1, 30, 20_000])
def test_a_line_without_its_end_is_passed_over_and_cut_off_by_the_next_writer(tmp_path, length):
    store = Store(tmp_path)
    store.append({"key": KEY})
    with store.path.open("ab") as stream:
        stream.write((json.dumps({"key": "torn", "x": "y" * 20_000})[:length]).encode())
    reader = Store(tmp_path)
    assert set(reader.records()) == {KEY}
    store.append({"key": OTHER})
    assert set(reader.records()) == set(Store(tmp_path).records()) == {KEY, OTHER}
    assert store.path.read_bytes().count(b"\n") == 2


def test_a_damaged_line_in_the_middle_is_an_error_that_says_where(tmp_path):
    store = Store(tmp_path)
    store.path.write_bytes(b'{"key": "a"}\nnot a run\n{"key": "b"}\n')
    with pytest.raises(ValueError, match="not a run, at byte 13: take that line out"):
        store.records()


def test_archived_runs_read_as_before_and_the_same_lines_give_the_same_bytes(tmp_path):
    graphs = {KEY: "cora", OTHER: "dev/photo.npz"}
    for folder in (tmp_path / "one", tmp_path / "two"):
        store = Store(folder)
        for key, graph in graphs.items():
            store.append({"key": key, "config": {"data": {"dataset": graph}}})
        before = dict(store.records())
        names = [path.name for path in archive(store, "first")]
        assert names == ["runs.first-cora.jsonl.xz", "runs.first-photo.jsonl.xz"]
        assert store.path.read_bytes() == b""
        store.append({"key": KEY, "seed": 7})  # made again by a process that had not looked
        store.append({"key": "new", "config": {"data": {"dataset": "cora"}}})
        assert Store(folder).records() == before | {"new": Store(folder).records()["new"]}
        archive(Store(folder), "first")
        assert list(Store(folder).records()) == [KEY, "new", OTHER]
        assert Store(folder).records()[KEY] == before[KEY]
    one, two = (sorted((tmp_path / name / "archive").iterdir()) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_an_archive_that_unpacks_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "runs.first-cora.jsonl.xz").write_bytes(lzma.compress(b" " * (8 << 20)))
    monkeypatch.setenv("GRAPHDROP_MAX_BYTES", str(4 << 20))
    with pytest.raises(
        ValueError, match=r"runs.first-cora\.jsonl\.xz: its lines would take 6\.0 MiB"
    ):
        Store(tmp_path).records()


def _append_many(folder: str, writer: int) -> None:
    store = Store(folder)
    for number in range(20):
        store.append({"key": f"{writer}-{number}", "text": "x" * 5000})


def test_several_processes_append_whole_lines(tmp_path):
    writers = [SPAWN.Process(target=_append_many, args=(str(tmp_path), n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    expected = {f"{writer}-{number}" for writer in range(3) for number in range(20)}
    assert set(Store(tmp_path).records()) == expected


def _hold_claim(folder: str, ready) -> None:
    with Store(folder).claims() as claims:
        ready.send(claims.take(KEY))
        time.sleep(60)


def test_a_claim_is_one_process_at_a_time_and_free_when_it_is_killed(tmp_path):
    ours, theirs = SPAWN.Pipe()
    holder = SPAWN.Process(target=_hold_claim, args=(str(tmp_path), theirs))
    holder.start()
    assert ours.recv()
    with Store(tmp_path).claims() as claims:
        assert not claims.take(KEY)
        assert claims.take(OTHER)
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
        assert claims.take(KEY)
