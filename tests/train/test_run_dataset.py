"""What a run takes: settings, graphs, features as stored or with rows that sum to 1."""

import copy
import math

import networkx
import numpy as np
import pandas
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from graphdrop import (
    GCN,
    Config,
    GraphDropConnect,
    Trainer,
    from_networkx,
    from_pandas,
    load_dataset,
    load_tables,
    predict,
)
from graphdrop.config import DataSettings
from graphdrop.data.features import row_normalized
from graphdrop.data.splits import random_fractions
from graphdrop.data.store import convert
from graphdrop.train.progress import Silent
from graphdrop.train.run_dataset import load_named_dataset, resolve_dataset

X = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 0.5, 0.0]])
EXPECTED = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_rows_are_divided_by_their_sum():
    assert torch.equal(row_normalized(X), EXPECTED)
    sparse = row_normalized(X.to_sparse_csr())
    assert sparse.layout is torch.sparse_csr
    assert torch.equal(sparse.to_dense(), EXPECTED)
    assert torch.equal(row_normalized(X.to_sparse_coo()).to_dense(), EXPECTED)


def test_the_dataset_is_the_one_that_is_named():
    dataset = load_named_dataset(
        DataSettings(dataset="synthetic", split="random-fractions", split_seed=3)
    )
    assert dataset.name == "synthetic"
    assert (dataset.split.name, dataset.split.seed) == ("random-fractions", 3)


def test_by_default_three_fifths_of_each_class_train_whatever_the_way_in(tmp_path):
    classes, count = [*"xxxy"] * 450, 1800  # enough for 20 of each class, 500 and 1000
    nodes = pandas.DataFrame({"id": range(count), "size": range(count), "label": classes})
    edges = pandas.DataFrame({"source": range(count - 1), "target": range(1, count)})
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    graph = networkx.path_graph(count)
    for node in graph:
        graph.nodes[node].update(size=node, label=classes[node])
    frame = from_pandas(nodes, edges, id="id")
    data = Data(x=frame.data.x, edge_index=frame.data.edge_index, y=frame.data.y)
    features, pairs = frame.data.x.numpy(), edges.to_numpy()
    archive = {"node_features": features, "node_labels": data.y.numpy(), "edges": pairs}
    np.savez(tmp_path / "mine.npz", **archive)
    small = {"model": {"hidden": 4}, "recipe": "paper"}
    trainer = Trainer(Config(**small), data, progress=Silent())
    files = [Config(data={"dataset": str(tmp_path / name)}) for name in ("nodes.csv", "mine.npz")]
    stored = Config(data={"dataset": str(convert(data, tmp_path / "store"))})
    found = [
        frame,
        load_tables(tmp_path),
        from_networkx(graph),
        load_dataset(data),
        trainer.run.dataset,
        *(resolve_dataset(config, None)[1] for config in (*files, stored)),
    ]
    expected = random_fractions(frame.data.y)
    assert expected.sizes == (1080, 360, 360)
    for dataset in found:
        assert torch.equal(dataset.split.train, expected.train)
        assert torch.equal(dataset.split.test, expected.test)
        assert dataset.notes[-1].startswith("Split: 1,080 train, 360 validation and 360 test nodes")
    assert trainer.config.data.split == "random-fractions"
    assert resolve_dataset(Config(), frame)[0].data.split == "random-fractions"


@pytest.mark.parametrize("y", [torch.rand(50), torch.rand(50, 3).round()])
def test_targets_that_are_no_classes_are_divided_at_random(tiny, y):
    y[7] = math.nan
    data = Data(x=torch.rand(50, 2), edge_index=torch.tensor([[0, 1], [1, 0]]), y=y)
    config, dataset = resolve_dataset(Config(), data)
    assert dataset.split.sizes == (29, 10, 10)
    assert not dataset.split.used[7]
    assert torch.equal(dataset.data.test_mask, dataset.split.test)
    assert (config.data.split, "train_mask" in data) == ("random-fractions", False)


def test_a_graph_is_refused_by_the_settings_of_another(tiny):
    with pytest.raises(ValueError, match=r"dataset is 'data' and data\.dataset 'cora'"):
        resolve_dataset(Config(recipe="paper", data={"dataset": "cora"}), tiny)


def refused(build, error=TypeError):
    with pytest.raises(error) as caught:
        build()
    return str(caught.value)


def test_what_is_no_graph_or_no_setting_gets_the_remedy(tiny):
    graph = tiny.data
    kinds = HeteroData({"a": {"x": graph.x}})
    assert "Trainer(Config(), data)" in refused(lambda: Trainer(graph))
    assert "Batch.from_data_list" in refused(lambda: Trainer(Config(), [graph, graph]))
    assert "to_homogeneous()" in refused(lambda: load_dataset(kinds))
    network = GCN(graph.num_features, 4, 2, 3, GraphDropConnect())
    assert "to_homogeneous()" in refused(lambda: predict(network, kinds))
    assert "give its .data" in refused(lambda: predict(network, tiny))
    trainer = Trainer(Config(train={"epochs": 1}), tiny, progress=Silent())
    assert "predict(trainer.model, data)" in refused(lambda: trainer.predict(graph))


@pytest.mark.parametrize("recipe", ["auto", "paper"])
def test_negative_edge_weights_are_refused_in_every_recipe(tiny, recipe):
    data = copy.copy(tiny.data)
    data.edge_weight = torch.ones(data.edge_index.shape[1])
    data.edge_weight[3] = -0.5
    with pytest.raises(ValueError, match=r"edge_weight is -0\.5 for edge 3; Trainer takes"):
        Trainer(Config(recipe=recipe), data, progress=Silent())
