"""What fuzzing has found, each as the smallest file that shows it."""

import gzip
import json

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest
import torch

from contracts.changed_stores import sign
from contracts.small_runs import train, write_graph
from graphdrop import GCN, DropEdge, load, load_dataset, load_tables, save
from graphdrop.data.store import Store, convert
from graphdrop.report.card import model_card
from graphdrop.train import records
from torture import valid_files


@pytest.fixture
def store(tmp_path):
    valid_files.stores(tmp_path)
    return tmp_path


def test_an_archive_of_big_endian_numbers_is_read(tmp_path):
    valid_files.npz(tmp_path)
    path = tmp_path / "shchur" / "graph.npz"
    arrays = dict(np.load(path))
    swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in arrays.items()}
    expected = load_dataset(path).data
    np.savez(path, **swapped)
    found = load_dataset(path).data
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.edge_index, expected.edge_index)


@pytest.mark.parametrize("kind", ["name", "text"])
def test_a_parquet_file_whose_text_is_no_utf8_is_refused(tmp_path, kind):
    valid_files.parquet_tables(tmp_path)
    table = arrow.parquet.read_table(tmp_path / "plain" / "nodes.parquet")
    column = table.column_names.index("note")
    binary = arrow.array([b"ab\x80"] * table.num_rows, arrow.binary())
    if kind == "text":
        text = arrow.Array.from_buffers(arrow.string(), len(binary), binary.buffers())
        table = table.set_column(column, "note", text)
        arrow.parquet.write_table(table, tmp_path / "plain" / "nodes.parquet")
    else:
        path = tmp_path / "plain" / "nodes.parquet"
        path.write_bytes(path.read_bytes().replace(b"note", b"no\x80e"))
    with pytest.raises(ValueError, match="is not a whole Parquet file"):
        load_tables(tmp_path / "plain")


def test_weights_in_a_parquet_file_are_read_without_a_warning(tmp_path):
    valid_files.parquet_tables(tmp_path)
    data = load_tables(tmp_path / "plain", weight="weight", split="random-fractions").data
    assert data.edge_weight.max() == 2.5


def test_a_header_of_an_array_that_python_cannot_tokenize_is_refused(store):
    path = store / "dense" / "y.npy"
    path.write_bytes(path.read_bytes().replace(b"(12,)", b"(12, "))
    with pytest.raises(ValueError, match=r"y\.npy is not the array that the store describes"):
        load_dataset(store / "dense")


def test_columns_of_sparse_features_outside_of_the_matrix_are_refused(store):
    columns = np.load(store / "sparse" / "x_indices.npy")
    np.save(store / "sparse" / "x_indices.npy", columns + 99)
    sign(store / "sparse")
    with pytest.raises(ValueError, match=r"x_indices\.npy has entries outside of the graph"):
        load_dataset(store / "sparse")


def test_a_huge_label_in_a_store_takes_no_memory(store):
    labels = np.load(store / "dense" / "y.npy")
    labels[3] = 2**56
    np.save(store / "dense" / "y.npy", labels)
    sign(store / "dense")
    with pytest.raises(ValueError, match=r"y\.npy has entries outside of the graph"):
        load_dataset(store / "dense", split="random-fractions")


def test_the_summary_of_a_store_with_edges_outside_of_the_graph_is_an_error(store):
    edges = np.load(store / "dense" / "edge_index.npy")
    edges[0, 0] = 2**40
    np.save(store / "dense" / "edge_index.npy", edges)
    sign(store / "dense")
    with pytest.raises(ValueError, match="edge_index"):
        str(load_dataset(store / "dense"))
    with pytest.raises(ValueError, match="has entries outside"):
        Store(store / "dense").verify()


def test_a_compressed_table_with_a_broken_stream_is_refused(tmp_path):
    valid_files.arrays(tmp_path)
    path = tmp_path / "ogb" / "raw" / "edge.csv.gz"
    content = bytearray(gzip.compress(b"0,1\n" * 999))
    content[12:20] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"edge\.csv\.gz is not a table of numbers"):
        convert(tmp_path / "ogb", tmp_path / "new")


def test_a_label_beyond_all_integers_is_refused_without_a_warning(tmp_path):
    valid_files.arrays(tmp_path)
    folder = tmp_path / "npy"
    np.save(folder / "labels.npy", np.full(valid_files.NODES, 1e300))
    files = {"features": folder / "features.npy", "labels": folder / "labels.npy"}
    with pytest.raises(ValueError, match="a label is 1e"):
        convert(folder / "edges.npy", tmp_path / "new", **files)


def test_a_network_with_an_option_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    save(GCN(3, 4, 2, 3, DropEdge(0.25)), path)
    tensors, header = records.read_tensors(path)
    header["gcn"]["init"] = {"class": "LearnedRate"}
    records.write_tensors(path, tensors, header)
    with pytest.raises(ValueError, match="does not describe a network"):
        load(path)


@pytest.mark.parametrize("test", [None, 1.5, {"accuracy": "high"}])
def test_a_model_card_of_a_changed_result_is_refused(tmp_path, test):
    run = train(tmp_path / "run", write_graph(tmp_path / "graph.npz"))
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {"test": test}))
    with pytest.raises(ValueError, match=r"result\.json or .* was damaged or changed|has no"):
        model_card(run)
