"""Every epoch has one line, and lines beyond a checkpoint do not survive a resume."""

import json
from pathlib import Path

from graphdrop.train.folder import METRICS, Journal


def written(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def write(folder: Path, epochs: range, after: int = 0) -> None:
    journal = Journal(folder, after)
    for epoch in epochs:
        journal.write({"epoch": epoch, "loss": epoch / 7})
    journal.close()


def test_lines_are_written_in_order(tmp_path):
    write(tmp_path, range(1, 4))
    assert written(tmp_path) == [{"epoch": n, "loss": n / 7} for n in (1, 2, 3)]


def test_lines_after_the_checkpoint_are_dropped_and_written_anew(tmp_path):
    write(tmp_path, range(1, 9))
    write(tmp_path, range(6, 8), after=5)
    assert [line["epoch"] for line in written(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_line_that_was_cut_short_is_dropped(tmp_path):
    write(tmp_path, range(1, 4))
    path = tmp_path / METRICS
    path.write_text(path.read_text()[:-9])
    journal = Journal(tmp_path, 3)
    journal.close()
    assert [line["epoch"] for line in written(tmp_path)] == [1, 2]


def test_the_lines_of_a_resumed_run_are_all_there(tmp_path):
    write(tmp_path, range(1, 4))
    journal = Journal(tmp_path, 3)
    journal.write({"epoch": 4, "loss": 0.5})
    assert [line["epoch"] for line in journal.lines] == [1, 2, 3, 4]
    journal.close()


def test_flush_puts_every_line_on_the_disk(tmp_path):
    journal = Journal(tmp_path)
    journal.write({"epoch": 1})
    journal.flush()
    assert written(tmp_path) == [{"epoch": 1}]
    journal.close()


def test_without_a_folder_lines_stay_in_memory():
    journal = Journal(None)
    journal.write({"epoch": 1})
    journal.close()
    assert journal.lines == [{"epoch": 1}]
