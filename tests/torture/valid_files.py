"""Valid files for every entry, small, so that a mutation seldom misses what matters."""

import gzip
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from contracts.python2_pickle import planetoid_files

NODES, CLASSES = 12, 3
VALIDATION = 4
"""Validation nodes of the small Planetoid graph, in place of 500."""
NODES_CSV = """id,label,size,kind,part,note
a,red,1.5,x,train,one
b,green,2,y,train,two
c,blue,-3,x,train,three
d,red,,y,val,four
e,green,0.25,x,val,five
f,blue,1e3,,val,six
g,red,7,x,test,seven
h,green,8,y,test,eight
i,blue,9,x,test,nine
j,,10,y,,ten
"""
EDGES_CSV = """source,target,weight
a,b,1
b,c,2.5
c,d,1
d,e,0.5
e,f,1
f,g,1
g,h,1
h,i,1
i,j,1
j,a,1
a,b,1
"""


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def planetoid(folder: Path) -> None:
    """A ring of 14 nodes of which one is in no matrix."""
    _write(folder / "ring", planetoid_files("ring", 14, 3, [13, 10, 11], 10))


def graph_arrays() -> dict[str, NDArray[Any]]:
    """A ring with labels, features and a split, in the layout of Platonov."""
    nodes = np.arange(NODES)
    part = nodes % 4 % 3
    masks = {f"{name}_masks": (part == n)[None] for n, name in enumerate(("train", "val", "test"))}
    edges = np.stack([nodes, (nodes + 1) % NODES], 1)
    features = np.stack([nodes, nodes % 2, np.ones(NODES)], 1).astype(np.float32)
    return {"node_features": features, "node_labels": nodes // 4, "edges": edges, **masks}


def npz(folder: Path) -> None:
    """Both layouts; features dense and sparse; compressed and not."""
    given = graph_arrays()
    for name in ("platonov", "bare", "shchur", "dense", "short"):
        (folder / name).mkdir(parents=True)
    np.savez(folder / "platonov" / "graph.npz", **given)
    bare = {name: given[name] for name in ("node_features", "node_labels", "edges")}
    np.savez_compressed(folder / "bare" / "graph.npz", **bare)
    ends = given["edges"].T
    adjacency = csr_matrix((np.ones(NODES), (ends[0], ends[1])), shape=(NODES, NODES))
    features = csr_matrix(given["node_features"])
    sparse = {f"adj_matrix.{part}": getattr(adjacency, part) for part in _PARTS}
    attributes = {f"attr_matrix.{part}": getattr(features, part) for part in _PARTS}
    labels = {"labels": given["node_labels"]}
    np.savez(folder / "shchur" / "graph.npz", **sparse, **attributes, **labels)
    np.savez(folder / "dense" / "graph.npz", **sparse, attr_matrix=features.toarray(), **labels)
    short = {name.replace("_matrix.", "_"): array for name, array in (sparse | attributes).items()}
    np.savez_compressed(folder / "short" / "graph.npz", **short, **labels)


_PARTS = ("data", "indices", "indptr", "shape")


def csv_tables(folder: Path) -> None:
    """A table of nodes with all kinds of columns, and one of edges with weights."""
    _write(folder / "tables", {"nodes.csv": NODES_CSV.encode(), "edges.csv": EDGES_CSV.encode()})


def parquet_tables(folder: Path) -> None:
    """The same as Parquet files: whole, and without compression."""
    import pandas  # noqa: PLC0415

    (folder / "plain").mkdir(parents=True)
    (folder / "packed").mkdir()
    csv_tables(folder / "text")
    for name in ("nodes", "edges"):
        table = pandas.read_csv(folder / "text" / "tables" / f"{name}.csv")
        table.to_parquet(folder / "plain" / f"{name}.parquet", compression=None, index=False)
        table.to_parquet(folder / "packed" / f"{name}.parquet", index=False)
    shutil.rmtree(folder / "text")


def settings(folder: Path) -> None:
    """All settings with their comments, and a few as one writes them."""
    from graphdrop import config  # noqa: PLC0415
    from graphdrop.config import toml  # noqa: PLC0415

    _write(folder / "all", {"config.toml": toml.to_toml(config.Config()).encode()})
    few = (
        'seed = 3\nrecipe = "paper"\n[model]\nmethod = "GCN-BBGDC"\nlayers = 4\nhidden = 32\n'
        '[train]\nepochs = 10\nlearning_rate = 1e-2\n[data]\ndataset = "cora"\n'
    )
    _write(folder / "few", {"config.toml": few.encode()})


def small_run(folder: Path, graph: Path, **more: Any) -> None:
    """A finished run of two epochs."""
    from graphdrop.config import settle  # noqa: PLC0415
    from graphdrop.config.recipes import merge_settings  # noqa: PLC0415
    from graphdrop.train import Trainer  # noqa: PLC0415
    from graphdrop.train.progress import Silent  # noqa: PLC0415

    asked = {
        "recipe": "paper",
        "data": {"dataset": str(graph)},
        "model": {"method": "GCN-BBGDC", "hidden": 4, "layers": 2},
        "train": {"epochs": 2, "evaluate_every": 1, "samples": 1, "checkpoint_seconds": 0.0},
        "predict": {"samples": 2},
    }
    Trainer(settle(merge_settings(asked, more)), run_folder=folder, progress=Silent()).fit()


def networks(folder: Path) -> None:
    """Networks as `save` writes them, and those of a run with its checkpoints."""
    from graphdrop import ARM, GCN, DropEdge, GraphDropConnect, save  # noqa: PLC0415
    from graphdrop.sampling.rates import BetaBernoulliRate  # noqa: PLC0415

    np.savez(folder / "graph.npz", **graph_arrays())
    small_run(folder / "run", folder / "graph.npz")
    (folder / "graph.npz").unlink()
    for name in ("config.toml", "metrics.jsonl", "result.json"):
        (folder / "run" / name).unlink()
    for name, model in (
        ("edge", GCN(3, 4, 2, 3, DropEdge(0.25))),
        ("gdc", GCN(3, 4, 3, 3, GraphDropConnect(BetaBernoulliRate()), estimator=ARM())),
    ):
        (folder / name).mkdir()
        save(model, folder / name / "best.safetensors")


def records(folder: Path) -> None:
    """Records of runs, metrics of epochs and a result."""
    from contracts.made_up_records import record_of  # noqa: PLC0415
    from experiments.store import Store  # noqa: PLC0415
    from graphdrop.config import settle  # noqa: PLC0415

    np.savez(folder / "graph.npz", **graph_arrays())
    small_run(folder / "all", folder / "graph.npz")
    for path in (folder / "all").glob("*.safetensors"):
        path.unlink()
    (folder / "graph.npz").unlink()
    (folder / "all" / "config.toml").unlink()
    store = Store(folder / "all")
    for seed in range(3):
        store.append(record_of(settle({"seed": seed, "recipe": "paper"}), 0.7))


def runs(folder: Path) -> None:
    """Finished runs with their data, from an archive and from tables."""
    graph = folder / "archive" / "graph.npz"
    graph.parent.mkdir()
    np.savez(graph, **graph_arrays())
    small_run(folder / "archive" / "run", graph)
    _flat(folder / "archive")
    csv_tables(folder)
    more = {"split_column": "part", "weight_column": "weight"}
    small_run(folder / "tables" / "run", folder / "tables" / "nodes.csv", data=more)
    _flat(folder / "tables")


def _flat(folder: Path) -> None:
    """A run and its data in one folder, so that every file of it is one of the entry."""
    for path in (folder / "run").iterdir():
        if path.name not in ("last.safetensors", "previous.safetensors"):
            path.rename(folder / path.name)
    shutil.rmtree(folder / "run")


def stores(folder: Path) -> None:
    """Stores with dense and with sparse features."""
    import torch  # noqa: PLC0415

    from graphdrop import load_dataset  # noqa: PLC0415
    from graphdrop.data.store import convert  # noqa: PLC0415

    np.savez(folder / "graph.npz", **graph_arrays())
    convert(folder / "graph.npz", folder / "dense")
    data = load_dataset(folder / "graph.npz").data
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
        data.x = data.x.to_sparse_csr()
        data.edge_weight = torch.ones(data.edge_index.shape[1])
        convert(data, folder / "sparse")
    (folder / "graph.npz").unlink()


def arrays(folder: Path) -> None:
    """Lists of edges with features and labels, and the layout of OGB."""
    given = graph_arrays()
    parts = {
        "edges": given["edges"],
        "features": given["node_features"],
        "labels": given["node_labels"],
    }
    (folder / "npy").mkdir()
    texts = {}
    for name, array in parts.items():
        np.save(folder / "npy" / f"{name}.npy", array)
        rows = array if array.ndim > 1 else array[:, None]
        texts[name] = "\n".join(",".join(map(str, row)) for row in rows.tolist()).encode() + b"\n"
    _write(folder / "text", {f"{name}.csv": text for name, text in texts.items()})
    raw = {"edges": "edge", "features": "node-feat", "labels": "node-label"}
    packed = {f"raw/{raw[name]}.csv.gz": gzip.compress(text) for name, text in texts.items()}
    for part, nodes in (("train", b"0\n4\n8\n"), ("valid", b"1\n"), ("test", b"2\n3\n")):
        packed[f"split/time/{part}.csv.gz"] = gzip.compress(nodes)
    _write(folder / "ogb", packed)


def for_commands(folder: Path) -> None:
    """What the words of commands name: a graph, a run, a store and tables."""
    here = folder / "all"
    here.mkdir()
    np.savez(here / "graph.npz", **graph_arrays())
    small_run(here / "run", here / "graph.npz")
    stores(folder)
    (folder / "dense").rename(here / "store")
    shutil.rmtree(folder / "sparse")
    _write(here, {"nodes.csv": NODES_CSV.encode(), "edges.csv": EDGES_CSV.encode()})
