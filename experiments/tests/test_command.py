"""`python -m experiments`: what it takes, what it refuses, and that it renders without running."""

import re

import pytest

from experiments import targets_of, usual_recipe
from experiments.__main__ import main
from experiments.targets import TARGETS
from graphdrop.executors import LocalExecutor


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "TARGET is 'table9': give one of table1, "),
        (["table1", "--recipe", "best"], "--recipe is 'best', which table1 does not have"),
        (["table1", "--dataset", "coro"], "--dataset is 'coro': give one of cora, "),
        (["table1", "--method", "DX"], "--method is 'DX': give one of GCN, GCN-DO, "),
        (["worth", "--method", "DX"], ", or a row: 'base', 'none', 'node', "),
        (["worth", "--factor", "x"], "--factor is 'x'; it takes one of sharing, rate, "),
        (["fig-pavpu", "--axis", "x"], "--axis is 'x': give one of fraction-of-largest, "),
        (["table1", "--executor", "x"], "--executor is 'x': give one of local, ray"),
        (["table1", "--gpus-per-run", "1"], "--gpus-per-run is given, and --executor is local"),
    ],
)
def test_bad_input_says_what_it_takes(capsys, tmp_path, arguments, message):
    error = refused(capsys, *arguments, "--out", str(tmp_path))
    assert error.startswith("experiments: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("verb", [[], ["search"]])
def test_the_device_reaches_every_run(verb, tmp_path, monkeypatch):
    def run(self, jobs):
        assert {job.arguments[1]["device"] for job in jobs} == {"mps"}
        raise SystemExit(7)

    monkeypatch.setattr(LocalExecutor, "run", run)
    only = ["--dataset", "cora", "--method", "GCN-DO"]
    folder = ["--results" if verb else "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as stopped:
        main([*verb, "table1", *only, "--device", "mps", *folder])
    assert stopped.value.code == 7


def test_every_target_is_in_the_help_and_has_a_recipe_that_need_not_be_given(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    words = " ".join(re.findall(r"[\w,.-]+", capsys.readouterr().out))  # without frames and folds
    (listed,) = re.findall(r"\b(table1, .*), or all\.", words)
    assert set(listed.split(", ")) == set(TARGETS)
    for target in TARGETS:
        assert targets_of(target, usual_recipe(target)) == [target]


def test_rendering_runs_nothing_and_says_where_the_files_are(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["table2", "--render-only", "--out", str(tmp_path)])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "no run yet" in out
    assert "paper 82.40 ± 0.60" in out
    path = tmp_path / "paper" / "table2.md"
    assert str(path) in out
    assert path.read_text(encoding="utf-8")
    assert not (tmp_path / "runs.jsonl").exists()
