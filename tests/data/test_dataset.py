"""One door for every graph: checked, with its split, its checksums and a summary that is true."""

import hashlib
import subprocess
import sys
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
import torch
from torch_geometric.data import Data

import graphdrop
from graphdrop.data.dataset import load_dataset
from graphdrop.data.splits import Split, SplitSizes, random_per_class

# Nodes, undirected edges, self-loops, features, classes, isolated nodes, sizes of the split.
STATISTICS = {
    "cora": (2708, 5278, 0, 1433, 7, 0, (140, 500, 1000)),
    "citeseer": (3327, 4552, 124, 3703, 6, 48, (120, 500, 1000)),
    "pubmed": (19717, 44324, 3, 500, 3, 0, (60, 500, 1000)),
    "cora_ml": (2995, 8158, 0, 2879, 7, 0, (140, 500, 1000)),
}


def ring(nodes: int = 2000, classes: int = 4, **more: object) -> Data:
    here = torch.arange(nodes)
    edge_index = torch.stack([here, (here + 1) % nodes])
    x = torch.eye(classes)[here % classes]
    return Data(x=x, edge_index=edge_index, y=here % classes, **more)


def masks(nodes: int, *parts: range, splits: int = 0) -> dict[str, torch.Tensor]:
    made = {}
    for name, part in zip(("train_mask", "val_mask", "test_mask"), parts, strict=True):
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[list(part)] = True
        shifted = [mask.roll(shift) for shift in range(splits)]
        made[name] = torch.stack(shifted, dim=1) if splits else mask
    return made


def split_of(train: int, val: int, test: int, *, nodes: int) -> Split:
    """A split with a node in each part."""
    parts = masks(nodes, *(range(node, node + 1) for node in (train, val, test)))
    return Split(*parts.values(), name="by hand")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A ring of 100 nodes with 3 stored splits, one self-loop and one repeated edge."""
    data = ring(100)
    edges = [*data.edge_index.T.tolist(), [5, 5], [0, 1]]
    stored = masks(100, range(10), range(10, 20), range(20, 40), splits=3)
    path = tmp_path / "small.npz"
    np.savez(
        path,
        node_features=data.x,
        node_labels=data.y,
        edges=np.array(edges),
        **{f"{name}s": mask.T.numpy() for name, mask in stored.items()},
    )
    return path


@pytest.mark.parametrize("name", STATISTICS)
def test_the_statistics_of_the_benchmarks_are_exact(load_benchmark, name):
    dataset = load_benchmark(name)
    summary, data = dataset.summary, dataset.data
    nodes, edges, self_loops, features, classes, isolated, sizes = STATISTICS[name]
    assert (summary.nodes, data.num_nodes, len(data.y)) == (nodes, nodes, nodes)
    assert (summary.edges, data.num_edges, summary.directed) == (edges, 2 * edges, False)
    assert dataset.changes.self_loops == self_loops
    assert (summary.features, data.num_features) == (features, features)
    assert (summary.classes, dataset.num_classes, int(data.y.max()) + 1) == (classes,) * 3
    assert summary.isolated == isolated
    assert data.has_isolated_nodes() == (isolated > 0)
    assert summary.split_sizes == dataset.split.sizes == sizes


def test_cora_ml_is_split_20_per_class_500_and_1000_by_seed(benchmark_root, load_benchmark):
    first = load_benchmark("cora_ml")
    other = load_dataset("cora_ml", benchmark_root("cora_ml"), seed=1)
    for dataset in (first, other):
        train = dataset.data.y[dataset.split.train]
        assert train.bincount().tolist() == [20] * 7
        assert dataset.split.name == "random-per-class"
    assert not torch.equal(first.split.train, other.split.train)
    again = random_per_class(first.data.y, 20, 500, 1000, seed=1)
    assert torch.equal(other.split.test, again.test)
    assert torch.equal(first.data.edge_index, other.data.edge_index)


def test_synthetic_needs_no_file_and_no_network(no_files, no_network):
    first, other = load_dataset("synthetic"), load_dataset("synthetic", seed=1)
    assert first.summary.nodes == 2708
    assert first.split.sizes == (140, 500, 1000)
    assert first.checksums == {}
    assert torch.equal(first.data.edge_index, other.data.edge_index)
    assert not torch.equal(first.split.train, other.split.train)


def test_a_data_object_keeps_its_edges_and_is_not_changed():
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 1, 0]], dtype=torch.int32)
    given = Data(
        x=torch.eye(3), edge_index=edge_index, y=torch.tensor([0, 1, 1], dtype=torch.int32)
    )
    before = given.clone()
    dataset = load_dataset(given, split=split_of(0, 1, 2, nodes=3))
    assert dataset.data.edge_index.tolist() == edge_index.tolist()
    assert dataset.data.edge_index.dtype == dataset.data.y.dtype == torch.long
    assert dataset.changes is None
    assert (dataset.summary.edges, dataset.summary.directed) == (4, True)
    assert set(given.keys()) == set(before.keys())
    assert all(torch.equal(given[key], before[key]) for key in before.keys())  # noqa: SIM118
    assert given.y.dtype == torch.int32


def test_the_seed_chooses_among_stored_splits(archive):
    for seed in range(3):
        split = load_dataset(archive, seed=seed).split
        assert split.train.nonzero().flatten().tolist() == list(range(seed, seed + 10))
        assert (split.name, split.seed) == ("public", seed)
    with pytest.raises(ValueError, match=r"small: seed is 3 but 3 splits are stored: give 0\.\.2"):
        load_dataset(archive, seed=3)


def test_a_file_is_loaded_by_its_path_made_undirected_and_checksummed(archive):
    for name in (archive, str(archive)):
        dataset = load_dataset(name)
        assert dataset.name == "small"
        assert dataset.data.edge_index.shape == (2, 200)
        assert (dataset.changes.self_loops, dataset.changes.duplicates) == (1, 1)
        assert dataset.checksums == {"small.npz": hashlib.sha256(archive.read_bytes()).hexdigest()}


def test_an_error_in_a_file_names_the_file(tmp_path):
    np.savez(
        tmp_path / "wrong.npz",
        node_features=np.eye(3),
        node_labels=np.array([0, 1, 0]),
        edges=np.array([[0, 3]]),
    )
    with pytest.raises(ValueError, match=r"wrong: data\.edge_index has the edge \(0, 3\)"):
        load_dataset(tmp_path / "wrong.npz")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("corra", "dataset 'corra' is not known: give one of cora, .*Did you mean 'cora'"),
        ("", "dataset '' is not known: give one of"),
        (7, "dataset of type int is not known: give one of"),
        ("/nowhere/some.npz", r"/nowhere/some.npz cannot be read \(No such file or directory\)"),
    ],
)
def test_a_name_that_is_nothing_is_refused_with_what_there_is(name, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(name)


@pytest.mark.parametrize(
    ("graph", "reader"),
    [
        (networkx.path_graph(3), "from_networkx"),
        (pandas.DataFrame({"id": [1, 2]}), "from_pandas"),
        ([Data(), Data()], "Batch.from_data_list"),
    ],
)
def test_a_graph_of_another_kind_is_sent_to_what_reads_it(graph, reader):
    with pytest.raises(TypeError, match=reader):
        load_dataset(graph)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (60, "class 0 has 15 usable nodes but per_class is 20.*split='random-fractions'"),
        (200, "val=500 and test=1000 .*split='random-fractions'"),
    ],
)
def test_a_graph_too_small_for_the_usual_split_says_what_to_do(nodes, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(ring(nodes), split="random-per-class")
    for split in ("random-fractions", "public"):  # nobody asked for the usual draw
        assert load_dataset(ring(nodes), split=split).split.sizes.train == 0.6 * nodes


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("publik", "split is 'publik': give 'default', 'public'"),
        (split_of(0, 1, 2, nodes=3), "split covers 3 nodes but the graph has 100"),
        (split_of(0, 1, 99, nodes=100), "split contains node 99, which has no label"),
    ],
)
def test_a_split_that_does_not_fit_is_refused(split, message):
    data = ring(100)
    data.y[99] = -1
    with pytest.raises(ValueError, match=message):
        load_dataset(data, split=split)


def test_the_summary_prints_every_figure():
    edges = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 3, 4]])
    data = Data(x=torch.ones(6, 2), edge_index=edges, y=torch.tensor([0, 0, 1, 1, 1, -1]))
    parts = torch.eye(6, dtype=torch.bool)
    dataset = load_dataset(data, split=Split(parts[0], parts[1], parts[2], "by hand", seed=4))
    assert str(dataset).splitlines() == [
        "data",
        "  nodes           6",
        "  edges           6 directed",
        "  features        2",
        "  classes         2",
        "  split           1 train / 1 val / 1 test (by hand, seed 4)",
        "  homophily       0.6000, adjusted 0.3333 (0 by chance)",
        "  isolated nodes  1",
        "  no label        1 nodes, in no part of the split",
    ]
    assert dataset.summary.split_sizes == SplitSizes(1, 1, 1)
    assert str(dataset.summary) == str(dataset)
    assert repr(dataset).startswith("Dataset(name='data', data=Data(x=[6, 2]")


def test_the_package_imports_without_torch_until_a_name_is_used():
    program = (
        "import sys, graphdrop, graphdrop.cli\n"
        "assert graphdrop.__version__ and 'load_dataset' in dir(graphdrop)\n"
        "assert not {'torch', 'torch_geometric', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert graphdrop.load_dataset is load_dataset
    with pytest.raises(AttributeError, match="no attribute 'load_datasets'"):
        graphdrop.load_datasets  # noqa: B018
