"""Jobs are grouped by how long they take; lost ones are done again, but not for ever."""

import pickle

import pytest

from graphdrop.executors import Event, Job
from graphdrop.executors.groups import ATTEMPTS, GroupedExecutor, Resources, Task, Work


class InMemory(GroupedExecutor):
    """Tasks that do nothing: each job takes `seconds`, and those of `lost` lose their worker."""

    def __init__(self, seconds: float = 1.0, lost: frozenset[str] = frozenset(), **options):
        super().__init__(**options)
        self.seconds, self.lost = seconds, lost
        self.submitted, self.cancelled = [], []

    def at_once(self) -> int:
        return self.jobs or 1

    def submit(self, work: Work) -> list[str]:
        keys = [pickle.loads(pickled).key for _, pickled in work.jobs]
        self.submitted.append(keys)
        return keys

    def poll(self, tasks: list[Task], seconds: float):
        for task in tasks:
            task.over = True
            for key in task.handle:
                yield task, Event(key, "started")
                if key in self.lost:
                    task.lost = "killed"
                    break
                yield task, Event(key, "finished", key, self.seconds)
                yield task, Event(key, "finished", key, self.seconds)  # heard twice

    def cancel(self, task: Task) -> None:
        self.cancelled.append(task.handle)


def ends(executor: GroupedExecutor, count: int) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in executor.run((Job(str(n), max) for n in range(count)), count):
        if event is not None and event.what in {"finished", "failed"}:
            found.setdefault(event.key, []).append(event)
    return found


def test_short_jobs_are_grouped_and_long_ones_are_not():
    short, long = InMemory(seconds=1.0), InMemory(seconds=60.0)
    for executor in (short, long):
        assert {key: len(events) for key, events in ends(executor, 100).items()} == {
            str(number): 1 for number in range(100)
        }
    # The first task tells how long a job takes: 20 of them fill one. Towards the end, fewer.
    assert [len(keys) for keys in short.submitted[:4]] == [1, 20, 20, 20]
    assert len(short.submitted[-1]) == 1
    assert {len(keys) for keys in long.submitted} == {1}


def test_a_group_of_a_given_size_has_it():
    executor = InMemory(group=3)
    ends(executor, 7)
    assert [len(keys) for keys in executor.submitted] == [3, 3, 1]


def test_a_job_that_loses_every_worker_is_given_up_and_the_others_are_not():
    executor = InMemory(group=4, lost=frozenset({"1"}))
    found = ends(executor, 4)
    assert executor.submitted == [
        ["0", "1", "2", "3"],
        *[["1", "2", "3"]] * (ATTEMPTS - 1),
        ["2", "3"],
    ]
    assert [event.what for events in found.values() for event in events].count("finished") == 3
    (failed,) = found["1"]
    assert failed.what == "failed"
    assert f"its worker was lost {ATTEMPTS} times, at last because: killed" in failed.value


def test_jobs_are_taken_only_when_there_is_room_and_cancelled_at_a_stop():
    taken = []

    def jobs():
        for number in range(10):
            taken.append(number)
            yield Job(str(number), max)

    executor = InMemory(jobs=2, group=2)
    events = executor.run(jobs(), 10)
    assert next(events).what == "started"
    assert len(taken) == 4
    events.close()
    assert executor.cancelled == [["0", "1"], ["2", "3"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0}, "cpus is 0; it takes 1 or more"),
        ({"gpus": -1.0}, "gpus is -1.0; it takes 0 or more"),
        ({"memory": 0.0}, "memory is 0.0; it takes GiB"),
    ],
)
def test_resources_that_no_job_can_have_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Resources(**options)


def test_another_version_on_a_worker_is_an_error():
    (event,) = Work([("a", b"")], 1, {}, "0.0").events()
    assert event.what == "failed"
    assert "install the same version on every node" in event.value
