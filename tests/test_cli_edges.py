"""`graphdrop edges`, and what people see elsewhere of edges that are not to be trusted."""

import csv
import json

import pytest

from graphdrop import load, predict
from graphdrop.cli import main
from graphdrop.data.example import write_example
from graphdrop.report.collect import RunEvidence
from graphdrop.report.html import page
from graphdrop.report.runs import gather

FEW = ["--epochs", "4", "--set", "model.hidden=8", "--set", "predict.samples=3", "--layers", "2"]


def run(*words: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, words)])
    assert stopped.value.code in (0, None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The dirty pair of tables, and a run on it with fitted rates."""
    folder = tmp_path_factory.mktemp("dirty")
    write_example(folder, dirty=True)
    tables = ["--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv"]
    words = ["--label", "paper_class", "--weight", "confidence", "--edges", "fitted", *FEW]
    run("train", *tables, *words, "--out", folder / "run")
    return folder, tables


def test_edges_of_tables_are_ranked_with_the_names_of_their_nodes(trained, capsys):
    folder, tables = trained
    run("edges", folder / "run", "-o", folder / "ranked.csv", "--json")
    told = json.loads(capsys.readouterr().out)
    with open(folder / "ranked.csv") as file:
        rows = list(csv.DictReader(file))
    with open(folder / "edges.csv") as file:
        given = {frozenset((row["source"], row["target"])) for row in csv.DictReader(file)}
    with open(folder / "bad_edges.csv") as file:
        bad = {frozenset((row["source"], row["target"])) for row in csv.DictReader(file)}
    listed = [frozenset((row["source"], row["target"])) for row in rows]
    assert len(listed) == len(given)
    assert set(listed) == given
    keep = [float(row["keep_probability"]) for row in rows]
    assert keep == sorted(keep)
    assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
    assert told["doubtful"] == sum(value < 0.5 for value in keep)
    assert {"cosine", "common_neighbours", "edge_weight"} <= set(rows[0])
    assert sum(edge in bad for edge in listed[:100]) >= 80  # 29 of 100 by chance
    # the same tables as another graph have the same edges
    run("edges", folder / "run", "-o", folder / "again.csv", *tables)
    assert (folder / "again.csv").read_bytes() == (folder / "ranked.csv").read_bytes()


def test_an_answer_and_the_report_have_the_edges_of_the_command(trained):
    evidence, data = gather([trained[0] / "run"])
    (made,) = evidence
    assert isinstance(made, RunEvidence)
    edges = predict(load(trained[0] / "run"), data, samples=1).edges
    assert edges.keep.tolist() == made.edges.keep.tolist()
    text = page(evidence, data)
    assert edges.summary() in text
    content = json.loads(text.split('id="data">')[1].split("</script>")[0])["runs"][0]["edges"]
    assert content["count"] == len(edges)
    assert content["below"][50] == edges.doubtful
    assert [tuple(edge["ends"]) for edge in content["first"]] == [edges.ends(i) for i in range(10)]


def test_training_names_the_most_doubtful_edges_and_takes_both_kinds_of_edges(tmp_path, capsys):
    write_example(tmp_path, dirty=True)
    tables = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv"]
    words = ["--label", "paper_class", "--weight", "confidence", *FEW, "--out", tmp_path / "run"]
    run("train", *tables, "--edges", "fitted", *words, "--show-config")
    shown = capsys.readouterr()
    assert "edges look doubtful" in shown.err
    assert shown.err.count(" (kept ") == 4  # the line on how many there are, and three edges
    assert 'edges = "fitted"' in shown.out
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--edges", "fitted", "--edges", "auto", "--out", str(tmp_path / "run")])
    assert stopped.value.code == 2


def test_a_run_with_one_rate_says_how_to_get_a_list(tmp_path, capsys):
    words = ["--dataset", "synthetic", "--edges", "one-rate", "--recipe", "paper", *FEW]
    run("train", *words, "--set", "train.evaluate_every=2", "--out", tmp_path / "run")
    with pytest.raises(SystemExit) as stopped:
        main(["edges", str(tmp_path / "run")])
    assert stopped.value.code == 2
    assert "--edges fitted" in capsys.readouterr().err
    answer = predict(load(tmp_path / "run"), gather([tmp_path / "run"])[1], samples=1)
    with pytest.raises(ValueError, match="fitted"):
        answer.edges  # noqa: B018
