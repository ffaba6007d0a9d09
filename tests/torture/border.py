"""Files at the border of what is valid: other types, widths, separators, sizes and mixtures.

Some are read and some refused as they are; the mutations of both reach what those of ordinary files
seldom do.
"""

from __future__ import annotations

import decimal
import gzip
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from contracts.python2_pickle import Python2Pickle, planetoid_files
from torture import valid_files
from torture.valid_files import NODES

MANY_COLUMNS = 20_001
TABLE = """;node;class;Größe;kind;blank;part;text
0;1;3;1,5;x;;training;a b
1;2;1;2,25;y;;valid;b c

2;3;3;1_000;x;;testing;c d
3;4;1;nan;;;;d e
4;5;2;-7;y;;dev;e f
5;6;2;0;x;;train;f g
"""
LINKS = "src\tdst\tweight\n1\t2\t1\n2\t3\t0.5\n3\t4\t2\n5\t6\t1\n6\t1\t1\n"


def make(folder: Path) -> None:
    for part in (_archives, _tables, _parquet, _arrays, _stores, _planetoid, _others):
        part(folder)


def _archives(folder: Path) -> None:
    given = valid_files.graph_arrays()
    ends = given["edges"].T
    links = csr_matrix((np.ones(NODES), (ends[0], ends[1])), shape=(NODES, NODES))
    narrow = csr_matrix(given["node_features"])
    wide = csr_matrix((narrow.data, narrow.indices, narrow.indptr), shape=(NODES, 2_000_000))
    whole = csr_matrix(np.arange(4 * NODES, dtype=np.int16).reshape(NODES, 4))
    for name, features in (("wide", wide), ("whole", whole)):
        arrays = {}
        for prefix, matrix in (("adj_matrix", links), ("attr_matrix", features)):
            for part in ("data", "indices", "indptr", "shape"):
                arrays[f"{prefix}.{part}"] = np.asarray(getattr(matrix, part))
        place = _new(folder, f"npz-{name}")
        np.savez(place / "border.npz", **arrays, labels=given["node_labels"])
    np.savez(_new(folder, "npz-masks") / "border.npz", **given)


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def _tables(folder: Path) -> None:
    place = _new(folder, "table-semicolons")
    (place / "nodes.txt").write_text(TABLE)
    (place / "edges.tsv").write_text(LINKS)
    (place / "notes.md").write_text("none")
    for name, content in (
        ("many", ",".join(f"c{number}" for number in range(MANY_COLUMNS)).encode() + b"\n"),
        ("zip", b"PK\x03\x04 a spreadsheet"),
        ("arrow", b"PAR1 a table PAR1"),
        ("head", valid_files.NODES_CSV.splitlines()[0].encode()),
        ("one", valid_files.NODES_CSV.replace("green", "red").replace("blue", "red").encode()),
    ):
        place = _new(folder, f"table-{name}")
        (place / "nodes.csv").write_bytes(content)
        (place / "edges.csv").write_text(valid_files.EDGES_CSV)


def _parquet(folder: Path) -> None:
    import pyarrow as arrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    numbers = range(6)
    ids = arrow.array([2**60 + number for number in numbers])
    labels = arrow.array(["a", "b"] * 3).dictionary_encode()
    columns: dict[str, dict[str, Any]] = {
        "kinds": {
            "price": arrow.array([decimal.Decimal(number) / 4 for number in numbers]),
            "yes": arrow.array([True, False, None] * 2),
            "when": arrow.array([0, 1, 1, 0, 1, 0], arrow.timestamp("s")),
            "half": arrow.array([0.5, None, 1.5, 2.5, 1.5, 0.5], arrow.float32()),
        },
        "nested": {"list": arrow.array([[number] for number in numbers])},
        "binary": {"raw": arrow.array([b"\xff"] * 6)},
        "large": {"raw": arrow.array(["x", "y"] * 3, arrow.large_string())},
    }
    edges = arrow.table({"source": ids, "target": ids.take(arrow.array([1, 2, 3, 4, 5, 0]))})
    for name, more in columns.items():
        place = _new(folder, f"table-{name}")
        table = arrow.table({"id": ids, "label": labels, **more})
        parquet.write_table(table, place / "nodes.pq", row_group_size=4, compression=None)
        parquet.write_table(edges, place / "edges.parquet")
    place = _new(folder, "table-twice")
    table = arrow.Table.from_arrays([ids, labels, labels], names=["id", "label", "label"])
    parquet.write_table(table, place / "nodes.parquet")
    parquet.write_table(edges, place / "edges.parquet")


def _arrays(folder: Path) -> None:
    valid_files.arrays(_new(folder, "new"))
    for name in ("npy", "text", "ogb"):
        (folder / "new" / name).rename(folder / f"arrays-{name}")
    (folder / "new").rmdir()
    place = folder / "arrays-text"
    for path in list(place.iterdir()):
        path.with_suffix(".tsv").write_text(path.read_text().replace(",", "\t") + "\n\n")
        path.unlink()
    second = folder / "arrays-ogb" / "split" / "size"
    shutil.copytree(folder / "arrays-ogb", folder / "arrays-splits")
    shutil.copytree(
        folder / "arrays-splits" / "split" / "time", folder / "arrays-splits/split/size"
    )
    assert not second.exists()
    outside = folder / "arrays-ogb" / "split" / "time" / "test.csv.gz"
    shutil.copytree(folder / "arrays-ogb", folder / "arrays-outside")
    (folder / "arrays-outside" / outside.relative_to(folder / "arrays-ogb")).write_bytes(
        gzip.compress(b"2\n40\n")
    )
    for name, features, labels in (
        ("flat", np.arange(float(NODES)), np.zeros(NODES)),
        ("short", np.ones((NODES - 1, 2), np.float32), np.zeros(NODES)),
        ("halves", np.ones((NODES, 2), np.float32), np.full(NODES, 0.5)),
        ("high", np.ones((NODES, 2), np.float32), np.full(NODES, 2.0**40)),
        ("words", np.array(["a"] * NODES), np.zeros(NODES)),
    ):
        shutil.copytree(folder / "arrays-npy", folder / f"arrays-{name}")
        np.save(folder / f"arrays-{name}" / "features.npy", features)
        np.save(folder / f"arrays-{name}" / "labels.npy", labels)
    blank = folder / "arrays-blank"
    shutil.copytree(folder / "arrays-text", blank)
    (blank / "edges.tsv").write_text("\n\n")
    _three_columns(folder)


def _three_columns(folder: Path) -> None:
    shutil.copytree(folder / "arrays-npy", folder / "arrays-three")
    np.save(folder / "arrays-three" / "edges.npy", np.zeros((4, 3), np.int64))


def _stores(folder: Path) -> None:
    import torch  # noqa: PLC0415
    from torch_geometric.data import Data  # noqa: PLC0415

    from graphdrop.data.store import convert  # noqa: PLC0415

    nothing = torch.zeros(2, 0, dtype=torch.long)
    convert(
        Data(x=torch.ones(6, 2), edge_index=nothing, y=torch.arange(6) % 2), folder / "store-empty"
    )
    np.savez(folder / "graph.npz", **valid_files.graph_arrays())
    for name in ("large", "some", "types", "former", "other", "both", "axes"):
        place = folder / f"store-{name}"
        convert(folder / "graph.npz", place)
        path = place / "manifest.json"
        manifest = json.loads(path.read_text())
        arrays = manifest["arrays"]
        if name == "some":
            del arrays["val_mask"]
        elif name == "types":
            kind = arrays["indices"]["dtype"]
            arrays["t_indices"]["dtype"] = "int64" if kind == "int32" else "int32"
        elif name == "former":
            manifest["version"] = 0
        elif name == "other":
            manifest["format"] = "zarr"
        elif name == "both":
            arrays["x_values"] = dict(arrays["x"], shape=[4])
        elif name == "axes":
            np.save(place / "x.npy", np.asfortranarray(np.load(place / "x.npy")))
            header = (place / "y.npy").read_bytes()
            (place / "y.npy").write_bytes(header[:6] + b"\2\0" + header[8:])
        path.write_text(json.dumps(manifest) + " " * (name == "large") * (1 << 20))
    (folder / "graph.npz").unlink()


def _planetoid(folder: Path) -> None:
    """Two graphs, of whose files any mixture is read."""
    place = _new(folder, "planetoid-mixture")
    for name, sizes in (
        ("a", (14, 3, [13, 10, 11], 10)),
        ("b", (16, 4, [13, 12, 14, 15], 12)),
    ):
        for file, content in planetoid_files("ring", *sizes).items():
            (place / f"{name}.{file}").write_bytes(content)
    python2 = Python2Pickle()
    for part, array in (
        ("y", np.ones((3, 3), np.int32)),
        ("ally", np.eye(3, 4, dtype=np.int32)[np.arange(12) % 3]),
        ("ty", np.eye(3, dtype=np.float64)),
    ):
        (place / f"b.ind.ring.{part}").write_bytes(python2.file(python2.array(array)))
    wide = python2.file(python2.csr(csr_matrix(np.ones((3, 5), np.float32))))
    (place / "b.ind.ring.tx").write_bytes(wide)


def _others(folder: Path) -> None:
    from graphdrop import GCN, DropEdge, save  # noqa: PLC0415
    from graphdrop.train import records  # noqa: PLC0415

    place = _new(folder, "settings-large")
    (place / "config.toml").write_text("seed = 1\n" + "# more\n" * 10_000)
    place = _new(folder, "settings-dots")
    (place / "config.toml").write_text("seed = 1\na" + ".a" * 200 + " = 1\n")
    place = _new(folder, "settings-brackets")
    (place / "config.toml").write_text("seed = 1\na = " + "[" * 200 + "]" * 200 + "\n")
    place = _new(folder, "network-newer")
    save(GCN(3, 4, 2, 3, DropEdge(0.25)), place / "best.safetensors")
    tensors, header = records.read_tensors(place / "best.safetensors")
    records.write_tensors(place / "best.safetensors", tensors, {**header, "format": 99})
    place = _new(folder, "records-open/in")
    (place / "runs.jsonl").write_text('{"key":"ab","seed":1}\n' * 3 + '{"key":"cd"')
    (place / "long.jsonl").write_text('{"key":"ab"}\n' + "x" * 9000)


def read(folder: Path, random: Random) -> None:
    _READERS[folder.name.partition("-")[0]](folder, random)


def _read_archive(folder: Path, random: Random) -> None:
    from graphdrop import load_dataset  # noqa: PLC0415

    split = random.choice(("random-fractions", "public"))
    load_dataset(folder / "border.npz", split=split)


def _read_tables(folder: Path, random: Random) -> None:
    from graphdrop import load_tables  # noqa: PLC0415

    options: dict[str, tuple[Any, ...]] = {
        "features": ("blank", "text", "kind:number", "kind:words", "yes", ["price", "half"]),
        "id": ("#1", "node", "kind"),
        "label": ("class", "part", "text", "blank"),
        "split_column": ("part", "kind"),
        "missing": ("refuse",),
        "weight": ("weight",),
        "edges": tuple(folder / name for name in ("none.csv", "notes.md", ".", "edges.tsv")),
        "split": ("random-fractions",),
    }
    given = {
        name: random.choice(values) for name, values in options.items() if random.random() < 0.3
    }
    nodes = folder
    if random.random() < 0.2:
        nodes = random.choice((folder / "nodes.txt", folder / "nothing", folder / "notes.md"))
    load_tables(nodes, **given)


def _read_arrays(folder: Path, random: Random) -> None:
    from torture.entries import read_arrays  # noqa: PLC0415

    read_arrays(folder, random)


def _read_store(folder: Path, random: Random) -> None:
    from torture.entries import read_store  # noqa: PLC0415

    read_store(folder, random)


def _read_planetoid(folder: Path, random: Random) -> None:
    from graphdrop.data import dataset  # noqa: PLC0415
    from graphdrop.io.memory import most_bytes  # noqa: PLC0415

    files = {}
    rare = random.choice((0.0, 0.1, 0.5))
    for path in sorted(folder.iterdir()):
        chosen, _, name = path.name.partition(".")
        if chosen == "a" or random.random() < rare:
            files[name] = path.read_bytes()
    if random.random() < 0.05:
        del files[random.choice(sorted(files))]
    dataset._from_files("ring", files, "public", 0, most_bytes())


def _read_settings(folder: Path, random: Random) -> None:
    from graphdrop import config  # noqa: PLC0415
    from graphdrop.config import toml  # noqa: PLC0415

    asked = toml.read(folder / "config.toml") if random.random() < 0.8 else {}
    words = ["data.dataset=" + "x" * random.choice((10, 70_000)), "seed=2"]
    config.settle(toml.override(asked, words[: random.choice((1, 2))]))


def _read_network(folder: Path, random: Random) -> None:
    from graphdrop import load  # noqa: PLC0415
    from graphdrop.train import records  # noqa: PLC0415

    if random.random() < 0.2:
        records.read_tensors(folder / random.choice(("best.safetensors", "none.safetensors")))
    load(folder / "best.safetensors")


def _read_records(folder: Path, random: Random) -> None:
    """Read, add a record behind whatever the file ends with, and read again."""
    from experiments.store import Store  # noqa: PLC0415

    folder = folder / "in"
    if random.random() < 0.3:
        Store(folder / "nowhere").records()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    try:
        for file in ("long.jsonl", "runs.jsonl"):
            store = Store(folder, file)
            store.append({"key": "ef", "seed": 3})
            with store.claims() as claims:
                claims.take("ef")
                claims.give_back("ef")
            store.records()
    finally:
        for path in folder.iterdir():
            path.write_bytes(before[path]) if path in before else path.unlink()


_READERS = {
    "npz": _read_archive,
    "table": _read_tables,
    "arrays": _read_arrays,
    "store": _read_store,
    "planetoid": _read_planetoid,
    "settings": _read_settings,
    "network": _read_network,
    "records": _read_records,
}
