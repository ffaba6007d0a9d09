"""SLURM jobs by submitit, here without SLURM in processes of this machine."""

import os
import pickle
import sys

import pytest

from contracts.cluster_jobs import double, killed_once
from graphdrop.executors import Event, Job, slurm_jobs
from graphdrop.executors.groups import Task
from graphdrop.executors.slurm_jobs import SlurmExecutor


def test_jobs_come_back_and_killed_ones_are_done_again(tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    jobs = [Job("double", double, (21,)), Job("once", killed_once, (7,))]
    ends = {}
    with SlurmExecutor(
        tmp_path / "slurm", jobs=3, group=1, parameters={"cluster": "local"}
    ) as executor:
        for event in executor.run(jobs, len(jobs)):
            if event is not None and event.what in {"finished", "failed"}:
                assert event.key not in ends
                ends[event.key] = event
    assert ends["double"].value == 42
    assert ends["once"].value == 7
    assert (tmp_path / "begun").read_text() == "7\n7\n"
    assert list((tmp_path / "slurm").glob("*.events")) == []


def test_without_slurm_or_submitit_the_error_says_what_to_do(tmp_path, monkeypatch):
    jobs = [Job("double", double, (21,))]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"Run the command where sbatch can be called"):
        list(SlurmExecutor(tmp_path).run(jobs, 1))
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ValueError, match=r"run `pip install '\.\[distributed\]'` in a checkout"):
        list(SlurmExecutor(tmp_path).run(jobs, 1))


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    "line", [b"[]\n", b"{}\n", b'["a", "eaten", 1, 0]\n', b'[1, "started", null, 0]\n', b"[" * 9999]
)
def test_a_line_that_is_no_event_is_refused(tmp_path, line):
    spool = tmp_path / "a.events"
    spool.write_bytes(line.rstrip(b"\n") + b"\n")
    with pytest.raises(ValueError, match=r"a\.events has a line that is no event of a job"):
        list(slurm_jobs._read(spool, Task({}, None)))


def test_a_pickle_in_the_place_of_events_does_not_run(tmp_path):
    spool, trace = tmp_path / "a.events", tmp_path / "it-ran"
    spool.write_bytes(pickle.dumps(Runs(trace)) + b"\n")
    with pytest.raises(ValueError, match="no event of a job"):
        list(slurm_jobs._read(spool, Task({}, None)))
    assert not trace.exists()


def test_events_are_read_as_far_as_they_are_whole(tmp_path):
    spool, task = tmp_path / "a.events", Task({}, None)
    events = [Event("a", "started"), Event("a", "finished", {"seconds": 0.1, "list": [None]}, 2.5)]
    lines = [slurm_jobs._line(event) for event in events]
    spool.write_bytes(lines[0] + lines[1][:9])
    assert list(slurm_jobs._read(spool, task)) == events[:1]
    spool.write_bytes(lines[0] + lines[1])
    assert list(slurm_jobs._read(spool, task)) == events[1:]
    assert b"cannot be written as JSON" in slurm_jobs._line(Event("a", "finished", object()))


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are those of POSIX")
def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    folder = tmp_path / "slurm"
    slurm_jobs._private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(ValueError, match=r"slurm belongs to another user, or others may write"):
        SlurmExecutor(folder, parameters={"cluster": "local"}).submit(None)
