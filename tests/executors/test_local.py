"""Jobs in processes of this machine: results, failures, and a clean end."""

import os

import pytest

from contracts.cluster_jobs import (
    double,
    fail,
    killed_once,
    marks,
    refuse,
    threads,
    wait_for_ever,
    wait_until,
)
from graphdrop.executors import Job, LocalExecutor
from graphdrop.executors.local import THREAD_VARIABLES


def test_results_come_with_their_keys_and_jobs_are_taken_when_there_is_room():
    taken = []

    def jobs():
        for number in range(5):
            taken.append(number)
            yield Job(str(number), f"job {number}", double, (number,))

    with LocalExecutor(2) as executor:
        results = executor.run(jobs())
        found = dict([next(results)])
        assert len(taken) == 2
        assert found | dict(results) == {str(number): 2 * number for number in range(5)}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (refuse, "^job x failed: this cannot be had$"),
        (fail, "^job x failed: Traceback(.|\n)*KeyError: 'a defect'"),
        (killed_once, r"^job x failed: its worker process was lost \(.*give fewer --jobs"),
    ],
)
def test_a_job_that_fails_is_an_error_with_its_name(function, message, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    arguments = (7,) if function is killed_once else ()
    with LocalExecutor() as executor, pytest.raises(ValueError, match=message):
        list(executor.run([Job("x", "job x", function, arguments)]))


def test_what_runs_ends_with_the_executor(tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path))
    with LocalExecutor() as executor:
        executor.submit(Job("x", "job x", wait_for_ever))
        wait_until(lambda: marks("begun"), "the start of the job")
    with pytest.raises(ProcessLookupError):
        os.kill(int(marks("begun")[0][0]), 0)


@pytest.mark.parametrize(("jobs", "expected"), [(1, ["7", None, None]), (2, ["1", "1", "1"])])
def test_several_workers_have_one_thread_each_and_one_has_all(jobs, expected, monkeypatch):
    first, *others = THREAD_VARIABLES
    monkeypatch.setenv(first, "7")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    with LocalExecutor(jobs) as executor:
        ((_, found),) = executor.run([Job("x", "job x", threads)])
    assert list(found.values()) == expected
    assert threads() == {first: "7"} | dict.fromkeys(others)


def test_jobs_must_be_positive():
    with pytest.raises(ValueError, match="jobs is 0"):
        LocalExecutor(0)
