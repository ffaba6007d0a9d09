"""A report holds what its runs say, as text that no name can turn into markup."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from contracts.single_layers import one_pass
from contracts.small_runs import CLASSES, NODES, train, write_graph
from graphdrop import GCN, metrics
from graphdrop.graph import Graph
from graphdrop.report import html
from graphdrop.report.collect import MEANS, _measure_smoothing, _read_course
from graphdrop.report.html import embed_json, name_runs, page
from graphdrop.report.runs import gather
from graphdrop.train import load

HOSTILE = '</script><img src=x onerror="window.hacked=1">{{script}}&amp;\u2028'


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs, one sampled and one not, and their data; do not change them."""
    folder = tmp_path_factory.mktemp("runs")
    graph = write_graph(folder / "mine.npz")
    folders = [train(folder / "a", graph), train(folder / "b", graph, "GCN", seed=1)]
    evidence, data = gather(folders)
    return evidence, data


def content(text: str) -> dict:
    """The JSON inside a page."""
    (inside,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL
    )
    return json.loads(inside)


def unpacked(value: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(value["base64"]), value["kind"])


def test_the_figures_are_those_of_the_runs(runs):
    evidence, data = runs
    shown = content(page(evidence, data))
    for run, one in zip(shown["runs"], evidence, strict=True):
        result = json.loads((one.folder / "result.json").read_text())
        for name, value in result["test"].items():
            assert run["scores"][name] == pytest.approx(value, abs=1e-5), name
        assert run["drop_rates"] == pytest.approx(result["drop_rates"])
        assert run["seconds"] == result["seconds"]
        assert run["selected_epoch"] == result["selected_epoch"]
        test = data.test_mask
        aurc = metrics.aurc(
            one.prediction.probabilities[test], data.y[test], predictions=one.decided[test]
        )
        assert run["scores"]["aurc"] == pytest.approx(float(aurc))
        assert run["versions"] == result["versions"]
        assert run["sha256"] == result["data"]["sha256"]
    assert shown["dataset"]["files"] == result["data"]["files"]


def test_every_node_has_its_prediction(runs):
    evidence, data = runs
    shown = content(page(evidence, data))
    for run, one in zip(shown["runs"], evidence, strict=True):
        stored = unpacked(run["probability"]).reshape(NODES, CLASSES) / 65535
        assert np.abs(stored - one.prediction.probabilities.numpy()).max() <= 0.51 / 65535
        assert (unpacked(run["entropy"]) == one.prediction.entropy.numpy()).all()
        members = one.prediction.sets(0.9).members
        assert (unpacked(run["sets"]).reshape(members.shape) == members.numpy()).all()
        assert run["sets_approximate"]
        assert (unpacked(run["predicted"]) == one.decided.numpy()).all()
    graph = shown["graph"]
    assert (unpacked(graph["label"]) == data.y.numpy()).all()
    part = unpacked(graph["part"])
    for number, mask in enumerate((data.train_mask, data.val_mask, data.test_mask), 1):
        assert ((part == number) == mask.numpy()).all()
    pairs = {tuple(sorted(edge)) for edge in data.edge_index.T.tolist()}
    assert {tuple(pair) for pair in unpacked(graph["pairs"]).reshape(-1, 2).tolist()} == pairs
    assert shown["dataset"]["edges"] == len(pairs)


def test_a_large_graph_is_shown_by_some_of_its_nodes(runs, monkeypatch):
    monkeypatch.setattr(html, "MOST_NODES", 40)
    monkeypatch.setattr(html, "SAMPLED_NODES", 10)
    evidence, data = runs
    shown = content(page(evidence, data))
    graph = shown["graph"]
    nodes = np.array([int(name) for name in graph["ids"]])
    assert shown["dataset"]["nodes"] == NODES  # and scores are of all
    assert len(nodes) <= 40
    assert (unpacked(graph["label"]) == data.y.numpy()[nodes]).all()
    assert (unpacked(graph["part"]) == 3).sum() >= 10
    pairs = nodes[unpacked(graph["pairs"]).reshape(-1, 2)]
    edges = {tuple(edge) for edge in data.edge_index.T.tolist()}
    assert len(pairs)
    assert all(tuple(pair) in edges for pair in pairs.tolist())
    for run, one in zip(shown["runs"], evidence, strict=True):
        assert (unpacked(run["entropy"]) == one.prediction.entropy.numpy()[nodes]).all()


def test_a_long_course_is_averaged_and_a_torn_line_left_out(tmp_path):
    line = '{{"epoch": {0}, "loss": {0}, "nll": {0}, "kl": 0, "l2": 0}}\n'
    text = "".join(line.format(epoch) for epoch in range(1, 10 * MEANS + 1))
    (tmp_path / "metrics.jsonl").write_text(text + '{"epoch": 10')
    course = _read_course(tmp_path)
    assert len(course["nll"]) == MEANS
    assert course["epoch"][:2] == [10, 20]
    assert course["nll"][:2] == [5.5, 15.5]


def test_smoothness_is_measured_on_the_output_of_every_hidden_layer(runs):
    evidence, data = runs
    plain = evidence[1]  # a GCN without sampling, whose layers can be run one by one
    model = load(plain.folder)
    with torch.no_grad():
        graph = Graph.from_edge_index(data.edge_index, NODES, normalization=model.normalization)
        hidden, expected = model.defaults.inputs(data).x, []
        for layer in list(model.layers)[:2]:
            hidden = torch.relu(one_pass(layer, hidden, graph, None))
            expected.append(float(metrics.total_variation(hidden, data.edge_index)))
    assert plain.smoothing["total variation"] == pytest.approx(expected, rel=1e-5)
    assert [len(values) for values in plain.smoothing.values()] == [2, 2, 2]


def test_a_run_that_is_not_finished_has_no_duration(runs, tmp_path):
    evidence, data = runs
    for name in ("config.toml", "best.safetensors"):
        (tmp_path / name).write_bytes((evidence[0].folder / name).read_bytes())
    unfinished, _ = gather([tmp_path])
    shown = content(page(unfinished, data))["runs"][0]
    assert shown["seconds"] is None
    assert shown["training"]["epoch"] == []
    assert shown["scores"] == pytest.approx(evidence[0].scores)


def test_runs_on_other_data_are_refused(runs):
    evidence, data = runs
    foreign = replace(
        evidence[1],
        graph_sha256="0",
        config=evidence[1].config.model_copy(
            update={"data": evidence[1].config.data.model_copy(update={"dataset": "cora"})}
        ),
    )
    with pytest.raises(ValueError, match=r"on mine and .*b on cora: .* so write one for each"):
        page([evidence[0], foreign], data)
    with pytest.raises(ValueError, match="on another split or version of mine"):
        page([evidence[0], replace(evidence[1], graph_sha256="0")], data)
    with pytest.raises(ValueError, match="at least one run"):
        page([], data)


def test_embedded_json_cannot_end_its_element():
    text = f"{HOSTILE}<!--<script>\u2028\u2029]]>é"
    inside = embed_json({text: [text]})
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {text: [text]}


class Elements(HTMLParser):
    """The tags of a page, and the text of its title."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.title = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "href") or value.startswith(("#", "data:")), value

    def handle_data(self, text):
        if self.tags and self.tags[-1] == "title":
            self.title += text


def test_hostile_names_stay_text(runs):
    evidence, data = runs
    plain = Elements()
    plain.feed(page(evidence, data))
    hostile = replace(
        evidence[0],
        folder=Path("runs") / HOSTILE.replace("/", "\u2215"),
        versions={HOSTILE: HOSTILE},
        data_files={HOSTILE: HOSTILE},
        config=evidence[0].config.model_copy(
            update={
                "data": evidence[0].config.data.model_copy(update={"dataset": f"{HOSTILE}.npz"})
            }
        ),
    )
    text = page([hostile, evidence[1]], data, command=HOSTILE)
    parsed = Elements()
    parsed.feed(text)
    assert parsed.tags == plain.tags
    assert "<img" not in text
    assert content(text)["command"] == HOSTILE
    assert "{{script}}" in parsed.title


def test_nothing_is_loaded_from_elsewhere(runs):
    text = page(*runs)
    addresses = set(re.findall(r"https?://[^\s\"'`]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "default-src 'none'" in text


def test_folders_of_the_same_name_are_told_apart():
    assert name_runs([Path("x/a"), Path("x/b")]) == ["a", "b"]
    assert name_runs([Path("x/a"), Path("y/a")]) == ["x/a", "y/a"]


def test_settings_in_which_runs_differ_are_listed(runs):
    listed = {row[0]: row[1:] for row in content(page(*runs))["differences"]}
    assert listed["model.method"] == ["GCN-BBGDC", "GCN"]
    assert listed["seed"] == ["0", "1"]
    assert "model.hidden" not in listed


def test_a_directed_chain_has_no_total_variation_and_a_report_all_the_same():
    chain = torch.stack([torch.arange(5), torch.arange(1, 6)])
    data = Data(x=torch.rand(6, 3), edge_index=chain)
    found = _measure_smoothing(GCN(3, 4, 2, 2, seed=1), data)
    assert found["total variation"] == [None]
    assert found["Dirichlet energy"][0] is not None
