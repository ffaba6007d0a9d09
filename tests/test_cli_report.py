"""`graphdrop report` turns folders of runs into one page, and says what it cannot compare."""

from pathlib import Path

import pytest

from contracts.small_runs import train, write_graph


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on one graph; do not change them."""
    folder = tmp_path_factory.mktemp("runs")
    graph = write_graph(folder / "mine.npz")
    return [train(folder / "a", graph), train(folder / "b", graph, "GCN-DO")]


def test_runs_become_one_file(run, runs, tmp_path):
    output = tmp_path / "report.html"
    code, printed, _ = run("report", *runs, "-o", output)
    assert code == 0
    assert f"Wrote {output}" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = output.read_text()
    assert f"graphdrop report {runs[0]} {runs[1]} -o {output}" in text


def test_runs_on_different_data_are_refused(run, runs, tmp_path):
    other = train(tmp_path / "c", write_graph(tmp_path / "other.npz", seed=1))
    split = train(tmp_path / "d", write_graph(tmp_path / "mine.npz", rotate=1))
    for foreign, message in ((other, "on other"), (split, "on another split or version of mine")):
        code, _, error = run("report", runs[0], foreign, "-o", tmp_path / "report.html")
        assert code == 2
        assert f"{runs[0]} was trained on mine and {foreign} {message}" in error
        assert len(error.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_runs_on_other_columns_of_the_same_tables_are_compared(run, tmp_path):
    folder = Path(__file__).parents[1] / "examples" / "data" / "houses"
    few = ["--set", "model.hidden=8", "--set", "predict.samples=2", "--epochs", "3"]
    for name, columns in (("all", []), ("two", ["--features", "area_m2,rooms"])):
        words = ["--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv"]
        words += ["--label", "price", "--recipe", "paper", *few, *columns]
        assert run("train", *words, "--method", "GCN-DO", "--out", tmp_path / name)[0] == 0
    output = tmp_path / "report.html"
    code, _, error = run("report", tmp_path / "all", tmp_path / "two", "-o", output)
    assert (code, error) == (0, "")
    assert "but not the same features" in output.read_text()


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda runs, _: [runs[0], runs[0]], "is given twice"),
        (lambda runs, _: runs * 5, "10 runs are given: a report compares up to 8"),
        (lambda runs, folder: [*runs, "-o", folder], "--output is"),
        (lambda runs, folder: [*runs, "-o", folder / "absent" / "r.html"], "--output is"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(run, runs, tmp_path, choose, message):
    code, _, error = run("report", *choose(runs, tmp_path))
    assert code == 2
    assert message in error


def test_a_run_on_a_file_that_was_moved_takes_it_again(run, tmp_path):
    graph, elsewhere, out = tmp_path / "mine.npz", tmp_path / "there.npz", tmp_path / "run"
    words = ["--architecture", "gat", "--method", "BBGDC", "--epochs", "3", "--dataset"]
    small = ["--set", "model.hidden=8", "--set", "predict.samples=2"]
    assert run("train", *words, write_graph(graph), *small, "--out", out)[0] == 0
    assert run("report", out, "-o", tmp_path / "a.html")[0] == 0
    graph.rename(elsewhere)
    code, _, error = run("report", out, "-o", tmp_path / "b.html")
    assert (code, "mine.npz cannot be read" in error) == (2, True)
    given = ["--dataset", elsewhere]
    assert run("report", out, "-o", tmp_path / "b.html", *given)[0] == 0
    assert f"--dataset {elsewhere}" in (tmp_path / "b.html").read_text()
    for verb in (["evaluate", out], ["predict", out, "-o", tmp_path / "p.csv"]):
        code, _, error = run(*verb, *given)
        assert (code, "other data" in error) == (0, False)


def test_other_data_is_noted_and_a_report_refuses_it(run, runs, tmp_path):
    other = ["--dataset", write_graph(tmp_path / "mine.npz", rotate=1)]
    for verb in (["evaluate", runs[0]], ["predict", runs[0], "-o", tmp_path / "p.csv"]):
        code, _, error = run(*verb, *other)
        assert code == 0
        assert f"Note: the data given is not what {runs[0]} was trained on" in error
    code, _, error = run("report", runs[0], "-o", tmp_path / "report.html", *other)
    assert code == 2
    assert f"the data given is not what {runs[0]} was trained on" in error
    assert not (tmp_path / "report.html").exists()
