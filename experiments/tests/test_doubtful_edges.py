"""Graphs with wrong edges: what is added, which labels fit what, what lines and tables keep."""

from pathlib import Path

import pytest
import torch

from experiments import doubtful_edges
from experiments.doubtful_edges import FOLDS, Answer, Cell, Noisy, make_runs, read_graph
from experiments.doubtful_edges_page import render, write_page
from experiments.rendering import Rendering
from graphdrop.data import load_dataset

ROOT = Path(__file__).parents[2]
GRAPH = "cora, Metattack 25 %"


@pytest.fixture(autouse=True)
def synthetic(monkeypatch):
    monkeypatch.setattr(doubtful_edges, "GRAPHS", {GRAPH: Noisy("synthetic", 0.5)})
    parts = {"attack": ([GRAPH], "ab", doubtful_edges.RIVALS)}
    monkeypatch.setattr(doubtful_edges, "PARTS", parts)
    doubtful_edges._graph.cache_clear()


def test_edges_are_added_at_random_each_once_and_in_both_directions():
    data, before = read_graph(GRAPH, seed=0), load_dataset("synthetic").data.edge_index
    added = data.edge_index[:, data.planted]
    assert torch.equal(data.edge_index[:, ~data.planted], before)
    assert added.shape[1] == 2 * round(0.5 * before.shape[1] / 2)
    keys = data.edge_index[0] * data.num_nodes + data.edge_index[1]
    assert len(keys.unique()) == len(keys)
    assert torch.isin(data.edge_index[1] * data.num_nodes + data.edge_index[0], keys).all()
    assert not torch.equal(read_graph(GRAPH, seed=1).edge_index, data.edge_index)


def test_each_label_is_for_validation_once_and_for_training_else(monkeypatch):
    seen = []

    def model(data, seed, settings):
        seen.append((data.train_mask, data.val_mask, settings))
        share = 1.0 if len(seen) == 1 else 0.0
        found = torch.tensor([share, 1.0 - share] + [0.0] * 5).clamp_min(1e-6)
        return Answer((found / found.sum()).expand(data.num_nodes, -1), settings="chosen")

    monkeypatch.setattr(doubtful_edges, "MODELS", {"own": model})
    record = doubtful_edges.run_cell(Cell(GRAPH, "b", "own", 0))
    split = load_dataset("synthetic").split
    assert len(seen) == FOLDS
    assert torch.equal(
        torch.stack([val for _, val, _ in seen]).sum(0) == 1, split.train | split.val
    )
    for train, val, _ in seen:
        assert torch.equal(train, (split.train | split.val) & ~val)
    assert [settings for *_, settings in seen] == [None, "chosen", "chosen"]
    y = load_dataset("synthetic").data.y[split.test]
    assert record["test"]["accuracy"] == pytest.approx(float((y == 1).double().mean()), abs=1e-4)
    assert record["chosen"] == "chosen"


def test_runs_are_kept_and_their_tables_stand_in_the_page(tmp_path):
    models = ["closed form, one rate", "closed form, fitted rates"]
    records = make_runs(tmp_path, ["attack"], 1, models, "a")
    assert [record["model"] for record in records] == models[::-1]
    assert 0.0 < records[0]["planted_auroc"] < 1.0
    before = (tmp_path / "runs.jsonl").read_bytes()
    make_runs(tmp_path, ["attack"], 1, models, "a")
    assert (tmp_path / "runs.jsonl").read_bytes() == before
    page = tmp_path / "page.md"
    page.write_text("<!-- made by experiments.evidence_page: attack-a -->\n\n<!-- made: end -->\n")
    write_page(page, render(tmp_path))
    accuracy = f"{100 * records[0]['test']['accuracy']:.1f}"
    assert f"| {GRAPH}: closed form, fitted rates | {accuracy} |" in page.read_text()


def test_the_page_has_the_tables_of_the_committed_lines(tmp_path, monkeypatch):
    monkeypatch.undo()
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs/wrong-edges.md").read_text("utf-8"), "utf-8")
    tables = render(ROOT / "results/edges").tables
    write_page(page, Rendering(tables))
    command = "python -m experiments edges --render-only --page docs/wrong-edges.md"
    assert page.read_text("utf-8") == (ROOT / "docs/wrong-edges.md").read_text("utf-8"), command
