"""A Planetoid graph is what its eight files say, node by node."""

import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.io import read_planetoid_data

from graphdrop.data.planetoid import read_planetoid
from graphdrop.data.sources import SOURCES, find

NAMES = ["cora", "citeseer", "pubmed"]


def test_rows_of_the_test_files_go_to_the_nodes_of_the_test_index(small_planetoid):
    data = read_planetoid(small_planetoid(), "ring")
    present = [node for node in range(512) if node not in (507, 510)]
    assert data.x[present, 0].tolist() == [node + 1 for node in present]
    assert data.y[present].tolist() == [node % 3 for node in present]


def test_a_node_in_no_file_has_no_features_no_label_and_no_part_in_the_split(small_planetoid):
    data = read_planetoid(small_planetoid(), "ring")
    missing = torch.tensor([507, 510])
    assert not data.x[missing].any()
    assert data.y[missing].tolist() == [-1, -1]
    assert not (data.train_mask | data.val_mask | data.test_mask)[missing].any()


def test_the_public_split_is_the_first_rows_the_next_500_and_the_test_index(small_planetoid):
    data = read_planetoid(small_planetoid(), "ring")
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert data.val_mask.nonzero().flatten().tolist() == list(range(4, 504))
    assert data.test_mask.nonzero().flatten().tolist() == [506, 508, 509, 511]


def test_edges_are_handed_on_as_stored(small_planetoid):
    data = read_planetoid(small_planetoid(), "ring")
    assert data.edge_index[:, :4].tolist() == [[0, 0, 1, 1], [1, 511, 2, 0]]
    assert data.edge_index.shape == (2, 1024)


def matrix(rows: int, columns: int) -> csr_matrix:
    return csr_matrix(np.ones((rows, columns), np.float32))


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("tx", lambda p: p.csr(matrix(4, 3)), "tx has 3 features and ind.ring.allx 2"),
        ("tx", lambda p: p.csr(matrix(5, 2)), "tx has 5 rows but there are labels for 4"),
        ("x", lambda p: p.csr(matrix(5, 2)), "x has 5 rows but there are labels for 4"),
        ("ty", lambda p: p.array(np.eye(4, dtype=np.int32)), "ty has 4 classes and .*ally 3"),
        ("y", lambda p: p.array(np.zeros(4, np.int32)), r"y has shape \(4,\)"),
        ("y", lambda p: p.array(np.eye(4, 3, dtype=np.float32)), "type float32"),
        ("ty", lambda p: p.array(np.ones((4, 3), np.int32)), "more than one class"),
        ("graph", lambda p: p.adjacency({0: [0]}), "test nodes must lie between"),
    ],
    ids=[
        "other features",
        "more test rows than labels",
        "more training rows than labels",
        "other classes",
        "flat labels",
        "labels of floats",
        "two classes at once",
        "graph too small",
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    small_planetoid, python2, part, content, message
):
    files = small_planetoid() | {f"ind.ring.{part}": python2.file(content(python2))}
    with pytest.raises(ValueError, match=message):
        read_planetoid(files, "ring")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ind.ring.test.index is empty"),
        (b"506\nabc\n508\n509", "not a list of node ids"),
        (b"506\n507\n508\n", "tx has 4 rows and ind.ring.test.index 3"),
        (b"506\n506\n508\n509", "lists a node twice"),
        (b"505\n506\n508\n509", "test nodes must lie between"),
        (b"506\n508\n509\n99999999999", "test nodes must lie between"),
        (b"506\n508\n509\n" + b"9" * 30, "not a list of node ids"),
    ],
)
def test_a_test_index_that_does_not_fit_is_refused(small_planetoid, content, message):
    with pytest.raises(ValueError, match=message):
        read_planetoid(small_planetoid() | {"ind.ring.test.index": content}, "ring")


def test_too_few_rows_for_the_public_validation_set_are_refused(small_planetoid, python2):
    files = small_planetoid()
    files["ind.ring.allx"] = python2.file(python2.csr(matrix(100, 2)))
    files["ind.ring.ally"] = python2.file(
        python2.array(np.eye(3, dtype=np.int32)[np.zeros(100, int)])
    )
    with pytest.raises(ValueError, match="allx has 100 rows: 4 training and 500 validation"):
        read_planetoid(files, "ring")


def test_a_missing_file_is_named(small_planetoid):
    files = small_planetoid()
    del files["ind.ring.ty"]
    with pytest.raises(
        ValueError, match=r"ring lacks ind\.ring\.ty: a Planetoid graph has 8 files"
    ):
        read_planetoid(files, "ring")


@pytest.mark.parametrize("name", NAMES)
def test_the_public_split_is_index_exact(load_benchmark, benchmark_root, name):
    split, source = load_benchmark(name).split, SOURCES[name]
    train = {"cora": 140, "citeseer": 120, "pubmed": 60}[name]
    (index,) = [file for file in source.files if file.name.endswith("test.index")]
    test_nodes = np.loadtxt(find(source, index, benchmark_root(name)), dtype=int)
    assert split.train.nonzero().flatten().tolist() == list(range(train))
    assert split.val.nonzero().flatten().tolist() == list(range(train, train + 500))
    assert split.test.nonzero().flatten().tolist() == sorted(test_nodes)
    assert len(test_nodes) == 1000


def test_citeseers_15_nodes_without_label_are_neither_trained_nor_scored_on(load_benchmark):
    dataset = load_benchmark("citeseer")
    unlabelled = dataset.data.y < 0
    assert int(unlabelled.sum()) == 15
    assert not dataset.data.x[unlabelled].any()
    assert not ((dataset.split.train | dataset.split.val | dataset.split.test) & unlabelled).any()


@pytest.mark.parametrize("name", NAMES)
def test_the_benchmarks_agree_with_the_reader_of_torch_geometric(
    load_benchmark, benchmark_root, name
):
    data, source = load_benchmark(name).data, SOURCES[name]
    folder = find(source, source.files[0], benchmark_root(name)).parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = read_planetoid_data(str(folder), name)
    labelled = data.y >= 0
    assert torch.equal(data.x, other.x)
    assert torch.equal(data.y[labelled], other.y[labelled])
    assert torch.equal(data.edge_index, other.edge_index.flip(0))  # it sorts by target
    for mask in ("train_mask", "val_mask", "test_mask"):
        assert torch.equal(data[mask], other[mask])
