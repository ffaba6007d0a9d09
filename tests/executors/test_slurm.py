"""SLURM jobs by submitit, here without SLURM in processes of this machine."""

import sys

import pytest

from contracts.cluster_jobs import double, killed_once
from graphdrop.executors import Job
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
    with pytest.raises(ValueError, match=r"run `pip install 'graphdrop\[distributed\]'`"):
        list(SlurmExecutor(tmp_path).run(jobs, 1))
