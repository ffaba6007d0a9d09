"""What is written down of rates per edge is theirs, kind by kind."""

import pytest
import torch

from experiments.edge_rates import (
    BETWEEN,
    KINDS,
    LOOPS,
    WITHIN,
    edge_rates,
    kinds_of_edges,
    separation,
)
from experiments.single_run import run_config
from graphdrop.data import load_dataset
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent


def test_kinds_of_edges_go_by_the_labels_of_both_ends():
    labels = torch.tensor([0, 0, 1, -1])
    destination = torch.tensor([0, 1, 0, 2, 3, 3, 1])
    source = torch.tensor([1, 0, 2, 2, 3, 0, 3])
    kinds = kinds_of_edges(destination, source, labels)
    assert kinds[WITHIN].tolist() == [True, True, False, False, False, False, False]
    assert kinds[BETWEEN].tolist() == [False, False, True, False, False, False, False]
    assert kinds[LOOPS].tolist() == [False, False, False, True, True, False, False]


def test_separation_is_the_chance_of_being_kept_more():
    assert separation(torch.tensor([0.3, 0.5]), torch.tensor([0.2, 0.4])) == 0.75
    assert separation(torch.tensor([0.3]), torch.tensor([0.3])) == 0.5
    assert separation(torch.tensor([0.3]), torch.tensor([])) is None


@pytest.mark.parametrize("method", ["GCN-BBGDC-AMORTISED", "GCN-BBDE-LOCAL"])
def test_a_record_has_the_rates_of_the_selected_network(tiny_config, method):
    config = tiny_config(model={"method": method, "layers": 2, "hidden": 4})
    found = run_config(config)["edge_rates"]
    dataset = load_dataset("synthetic")
    trainer = Trainer(config, dataset, progress=Silent())
    trainer.fit()
    graph, labels = dataset.graph, dataset.data.y
    pairs = list(zip(graph.edge_dst.tolist(), graph.indices.tolist(), strict=True))
    within = torch.tensor([v != u and bool(labels[v] == labels[u]) for v, u in pairs])
    assert found["edges"][WITHIN] == int(within.sum())
    assert sum(found["edges"].values()) == len(pairs)
    for layer, written in zip(trainer.model.layers, found["layers"], strict=True):
        rates = layer.sampler.rate.mean().detach()[within]
        assert written[WITHIN]["mean"] == pytest.approx(float(rates.mean()), rel=1e-4)
        ends = [float(rates.min()), float(rates.max())]
        assert [written[WITHIN]["quantiles"][k] for k in (0, -1)] == pytest.approx(ends, rel=1e-4)
        assert set(written) == {*KINDS, "separation"}


def test_one_rate_for_all_edges_has_no_kinds(tiny_config):
    trainer = Trainer(tiny_config(), load_dataset("synthetic"), progress=Silent())
    assert edge_rates(trainer) is None
    assert "edge_rates" not in run_config(tiny_config())
