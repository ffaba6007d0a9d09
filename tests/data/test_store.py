"""A graph store opens as the graph that was converted, or says what is wrong."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.data.graph_store import EdgeLayout

from contracts.changed_stores import sign
from graphdrop import GCN, Graph, GraphDropConnect, load_dataset, predict
from graphdrop.data.store import Store, convert
from graphdrop.data.store.converting import read_array
from graphdrop.graph import sorting
from graphdrop.loading import NeighborLoader
from graphdrop.train.run_dataset import fingerprint


def some_data(*, weights: bool = False, sparse: bool = False, nodes: int = 40) -> Data:
    """A directed graph with parallel edges, self-loops and nodes without a label."""
    made = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, nodes, (2, 150), generator=made)
    x = torch.randn(nodes, 6, generator=made)
    y = torch.arange(nodes) % 3
    y[5] = -1
    data = Data(x=x.relu().to_sparse_csr() if sparse else x, edge_index=edge_index, y=y)
    if weights:
        data.edge_weight = torch.rand(150, generator=made)
    return data


@pytest.mark.parametrize("options", [{}, {"weights": True}, {"sparse": True}], ids=str)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_store_is_the_graph_that_was_converted(tmp_path: Path, options: dict[str, Any]) -> None:
    source = load_dataset(some_data(**options))
    opened = load_dataset(convert(some_data(**options), tmp_path / "store"))
    assert fingerprint(opened.data) == fingerprint(source.data)
    assert opened.num_classes == source.num_classes
    assert opened.split.name == source.split.name
    weight = source.data.get("edge_weight")
    for kind in ("sym", "row", "paper"):
        whole = Graph.from_edge_index(source.data.edge_index, 40, weight, normalization=kind)
        found = Graph.from_data(opened.data, normalization=kind)
        for name in ("indptr", "indices", "value", "weight", "t_indptr", "t_indices", "t_edge"):
            assert torch.equal(getattr(found, name), getattr(whole, name)), name
        assert torch.equal(found.rank, whole.rank)  # type: ignore[arg-type]
    Store(tmp_path / "store").verify()


def test_a_stored_graph_is_not_sorted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GCN(6, 8, 2, 3, GraphDropConnect(0.3), seed=0)
    expected = predict(model, load_dataset(some_data()).data, 3).probabilities
    opened = load_dataset(convert(some_data(), tmp_path / "store")).data
    monkeypatch.delattr(sorting, "sorted_edges")
    for layerwise in (False, True):
        answer = predict(model, opened, 3, layerwise=layerwise)
        torch.testing.assert_close(answer.probabilities, expected)
    changed = opened.edge_index.clone()
    with pytest.raises(AttributeError, match="sorted_edges"):  # other edges are another graph
        Graph.from_edge_index(changed, 40)


def test_a_known_dataset_converts_with_its_split_and_the_history_of_its_edges(
    benchmark_root: Any, tmp_path: Path
) -> None:
    root = benchmark_root("cora")
    source = load_dataset("cora", root)
    opened = load_dataset(convert("cora", tmp_path / "cora", root=root))
    assert fingerprint(opened.data) == fingerprint(source.data)
    assert opened.changes == source.changes
    assert Store(tmp_path / "cora").manifest.origin == source.checksums


def test_a_store_of_a_table_knows_its_rows(tmp_path: Path) -> None:
    rows = [f"p{(7 * i) % 12:02},{i},{'xy'[i % 2]}" for i in range(12)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,size,label", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\np01,p02\n")
    store = Store(convert(tmp_path, tmp_path / "store")).data()
    read = load_dataset(tmp_path, split="random-fractions").data
    assert torch.equal(store.x, read.x)
    assert [store.names.node(node) for node in store.names.order] == [str(i) for i in range(12)]
    assert [read.names.node(node) for node in store.names.order] == [row[:3] for row in rows]


def test_all_stored_splits_convert(tmp_path: Path) -> None:
    data = some_data()
    part = (torch.arange(40)[:, None] + torch.arange(2)) % 3
    part[data.y < 0] = 3
    data.train_mask, data.val_mask, data.test_mask = (part == number for number in range(3))
    folder = convert(data, tmp_path / "store")
    for seed in range(2):
        assert torch.equal(load_dataset(folder, seed=seed).split.val, data.val_mask[:, seed])
    with pytest.raises(ValueError, match="seed is 2 but 2 splits are stored"):
        load_dataset(folder, seed=2)


KILLED = """
import os, signal, sys
from pathlib import Path
from graphdrop.data.store import convert, converting
kept, calls = os.fsync, [0]
def fsync(descriptor):
    calls[0] += 1
    if calls[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    kept(descriptor)
converting.os.fsync = fsync
convert("synthetic", sys.argv[1])
"""


@pytest.mark.parametrize("call", [2, 9])  # between arrays, and before the manifest has its name
def test_a_killed_conversion_leaves_no_store_and_can_be_repeated(tmp_path: Path, call: int) -> None:
    target = tmp_path / "store"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(target), str(call)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not target.exists()
    partial = tmp_path / ".store.partial"
    assert partial.is_dir()
    with pytest.raises(ValueError, match="manifest"):
        Store(partial)
    convert(some_data(), target)
    Store(target).verify()
    assert not partial.exists()


def _edit(folder: Path, change: Any) -> None:
    path = folder / "manifest.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "y.npy").write_bytes((f / "y.npy").read_bytes()[:-8]), r"y.npy.*bytes"),
        (lambda f: np.save(f / "y.npy", np.array([{}] * 40, dtype=object)), r"y.npy.*header"),
        (lambda f: (f / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff("), r"x.npy"),
        (lambda f: _edit(f, lambda m: m.update(version=1)), "version is 1"),
        (lambda f: _edit(f, lambda m: m.update(nodes=2**60)), "nodes is"),
        (lambda f: _edit(f, lambda m: m["arrays"]["y"].update(shape=[41])), "y has shape"),
        (lambda f: _edit(f, lambda m: m["arrays"].update({"../y": m["arrays"]["y"]})), "'../y'"),
        (lambda f: _edit(f, lambda m: m["arrays"].pop("indptr")), "no indptr"),
        (lambda f: _edit(f, lambda m: m.update(changes={"stored": 1})), "manifest"),
        (lambda f: (f / "manifest.json").write_text("[" * 100_000), "manifest"),
        (lambda f: (f / "manifest.json").write_bytes(b" " * (1 << 21)), "too large"),
    ],
)
def test_a_damaged_store_is_named(tmp_path: Path, change: Any, message: str) -> None:
    folder = convert(some_data(), tmp_path / "store")
    change(folder)
    with pytest.raises(ValueError, match=message):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("name", "number"),
    [("indices", 1_000_000), ("t_edge", -7), ("indptr", -7), ("edge_index", 1_000_000)],
)
def test_entries_outside_of_the_graph_are_found_before_a_kernel_reads_them(
    tmp_path: Path, name: str, number: int
) -> None:
    folder = convert(some_data(), tmp_path / "store")
    array = np.load(folder / f"{name}.npy", mmap_mode="r+")
    array.reshape(-1)[3] = number
    array.flush()
    sign(folder)
    with pytest.raises(ValueError, match=rf"{name}\.npy has entries outside"):
        Graph.from_data(load_dataset(folder).data)
    data = load_dataset(folder).data
    if name == "edge_index":  # batches read no other
        with pytest.raises(ValueError, match=str(number)):
            NeighborLoader(data, [2])
        with pytest.raises(ValueError, match="has entries outside"):
            Store(folder).get_edge_index(edge_type=None, layout=EdgeLayout.COO)


@pytest.mark.parametrize("name", ["x", "edge_index", "t_indices"])
def test_a_store_that_was_changed_does_not_open(tmp_path: Path, name: str) -> None:
    folder = convert(load_dataset("synthetic").data, tmp_path / "store")
    array = np.load(folder / f"{name}.npy", mmap_mode="r+")
    array[:] = array[..., ::-1].copy()  # the shape and the range are kept
    array.flush()
    with pytest.raises(ValueError, match=rf"{name}\.npy .*changed or damaged"):
        Graph.from_data(load_dataset(folder).data)


def test_verify_reads_more_of_a_large_store_than_opening(tmp_path: Path) -> None:
    folder = convert(load_dataset("synthetic").data, tmp_path / "store")
    array = np.load(folder / "x.npy", mmap_mode="r+")
    array[1300, 5:50] += 1.0  # beside the parts that opening reads
    array.flush()
    store = Store(folder)
    assert store.x[1300, 5:50].min() >= 1.0
    with pytest.raises(ValueError, match=r"x\.npy has sha256 .* changed or damaged"):
        store.verify()


def _write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def test_ogb_folders_and_edge_lists_convert(tmp_path: Path) -> None:
    data = some_data()
    edges = [f"{a},{b}" for a, b in data.edge_index.t().tolist()]
    features = [",".join(map(str, row)) for row in data.x.tolist()]
    labels = ["nan" if y < 0 else f"{y}.0" for y in data.y.tolist()]
    ogb = tmp_path / "ogbn_some"
    _write(ogb / "raw/edge.csv.gz", edges)
    _write(ogb / "raw/node-feat.csv.gz", features)
    _write(ogb / "raw/node-label.csv.gz", labels)
    for part, nodes in (("train", "0 1 2 5"), ("valid", "10 11"), ("test", "12 13 14")):
        _write(ogb / f"split/time/{part}.csv.gz", nodes.split())
    first = load_dataset(convert(ogb, tmp_path / "a"))
    assert first.split.sizes == (3, 2, 3)  # node 5 has no label
    assert first.data.is_undirected()
    np.save(tmp_path / "x.npy", data.x.numpy())
    second = load_dataset(
        convert(
            _write(tmp_path / "edges.csv", edges),
            tmp_path / "b",
            features=tmp_path / "x.npy",
            labels=_write(tmp_path / "labels.csv", labels),
            directed=True,
        )
    )
    torch.testing.assert_close(first.data.x, second.data.x)
    assert torch.equal(second.data.edge_index, data.edge_index)
    assert torch.equal(second.data.y, data.y)
    with pytest.raises(ValueError, match=r"not a table of numbers.*without a header"):
        convert(
            _write(tmp_path / "bad.csv", ["source,target", *edges]),
            tmp_path / "c",
            features=tmp_path / "x.npy",
            labels=tmp_path / "labels.csv",
        )
    with pytest.raises(ValueError, match="exists already"):
        convert(ogb, tmp_path / "a")


def test_a_line_that_unpacks_beyond_the_limit_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"1," * (20 << 20) + b"1\n"))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a line of \d+ characters or more would take"):
        read_array(path, np.int64, 20_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000  # of 40 MiB of text


def test_a_store_is_a_feature_store_and_a_graph_store(tmp_path: Path) -> None:
    data = some_data()
    store = Store(convert(data, tmp_path / "store"))
    index = torch.tensor([7, 3])
    found = store.get_tensor(group_name=None, attr_name="x", index=index)
    assert torch.equal(found, data.x[index])
    assert store.get_tensor_size(store.get_all_tensor_attrs()[0]) == (40, 6)
    source, destination = store.get_edge_index(edge_type=None, layout=EdgeLayout.COO)
    assert torch.equal(torch.stack([source, destination]), data.edge_index)
    row, pointer = store.get_edge_index(edge_type=None, layout=EdgeLayout.CSC)
    order = torch.argsort(destination * 40 + source, stable=True)
    assert torch.equal(row, source[order])
    assert torch.equal(pointer.diff(), torch.bincount(destination, minlength=40))
    with pytest.raises(ValueError, match="read-only"):
        store.put_tensor(data.x, group_name=None, attr_name="x", index=None)


def test_labels_and_edges_outside_of_the_graph_are_refused(tmp_path: Path) -> None:
    data = some_data()
    part = torch.arange(40) % 3
    data.train_mask, data.val_mask, data.test_mask = (
        (part == number) & (data.y >= 0) for number in range(3)
    )
    folder = convert(data, tmp_path / "store")
    for name in ("y", "edge_index"):
        stored = np.load(folder / f"{name}.npy")
        np.save(folder / f"{name}.npy", np.full_like(stored, 77))
        sign(folder)
        opening = load_dataset if name == "y" else lambda path: Store(path).verify()
        with pytest.raises(ValueError, match=rf"{name}\.npy has entries outside"):
            opening(folder)
        np.save(folder / f"{name}.npy", stored)
