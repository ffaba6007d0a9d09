"""`convert`: any graph that can be loaded, as a store on disk."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from graphdrop.data.store.arrays import graph_of, is_ogb, read_array, read_ogb
from graphdrop.data.store.layout import MASKS
from graphdrop.data.store.store import is_store
from graphdrop.data.store.writing import write_store
from graphdrop.io.files import expand_path
from graphdrop.io.memory import most_bytes

if TYPE_CHECKING:
    from graphdrop.data.dataset import Dataset


def convert(
    source: str | Path | Data,
    folder: str | Path,
    *,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - as load_tables names it
    root: str | Path | None = None,
    directed: bool = False,
    max_bytes: int | None = None,
) -> Path:
    """Write a graph as a store: memory-mapped arrays with their edges sorted.

    Args:
        source: what `load_dataset` takes; the folder of an OGB dataset (`raw/edge.csv.gz`, ...);
            or, with `features` and `labels`, a list of edges: two columns, source and destination.
        folder: the store, which must not exist yet.
        features: a table with a row of numbers per node, `.npy` (not read into memory), `.csv`,
            `.tsv` or `.csv.gz`, without a header.
        labels: a column of classes, -1 or nan for none.
        label: of a folder of tables, the column of classes, as for `load_tables`.
        id: of a folder of tables, the column of ids.
        root: as for `load_dataset`.
        directed: of an edge list or an OGB dataset, keep edges as they are listed; otherwise they
            become undirected, without repeats and self-loops, as those of all files. A `Data` keeps
            its edges.
        max_bytes: as for `load_dataset`.

    Returns:
        The folder.

    Example:
        >>> import tempfile
        >>> from graphdrop import load_dataset
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load_dataset(convert("synthetic", f"{folder}/store")).data.num_nodes
        2708
    """
    from graphdrop.data.tables import load_tables  # noqa: PLC0415 - open stores
    from graphdrop.data.tables.files import is_tables  # noqa: PLC0415

    if (features is None) != (labels is None):
        given, missing = ("features", "labels") if labels is None else ("labels", "features")
        raise ValueError(f"{given} is given without {missing}: an edge list takes both")
    kept = features is not None or isinstance(source, Data) or is_ogb(expand_path(source))
    if directed and not kept:
        raise ValueError(
            f"source is {source}; directed is for an edge list with features and labels, the "
            "folder of an OGB dataset, or a Data: leave it"
        )
    target = expand_path(folder)
    if target.exists():
        raise ValueError(f"{target} exists already: give another name, or remove it first")
    if (label or id) and not isinstance(source, Data) and is_tables(expand_path(source)):
        dataset = load_tables(source, label=label, id=id, max_bytes=max_bytes)
    elif label or id:
        raise ValueError(f"source is {source}; label and id are for a folder of tables: leave them")
    else:
        dataset = _loaded(source, features, labels, root, directed, max_bytes)
    if not dataset.num_classes:
        raise ValueError(
            f"{source} has numbers as labels, and a store takes classes: train on the tables "
            "themselves, which --dataset takes as well"
        )
    data = copy.copy(dataset.data)
    for name in MASKS:  # all splits that came with it; where none did, a store draws them anew
        del data[name]
    data.update(dataset.stored_masks)
    return write_store(
        target,
        data,
        dataset.num_classes,
        origin=dataset.checksums,
        changes=dataset.changes,
    )


def _loaded(  # noqa: PLR0917 - the arguments of convert
    source: str | Path | Data,
    features: str | Path | None,
    labels: str | Path | None,
    root: str | Path | None,
    directed: bool,
    max_bytes: int | None,
) -> Dataset:
    from graphdrop.data.dataset import build_dataset, load_dataset  # noqa: PLC0415 - opens stores

    if isinstance(source, Data):
        return load_dataset(source, max_bytes=max_bytes)
    path, most = expand_path(source), most_bytes(max_bytes)
    if features is not None and labels is not None:
        sums, arrays = {}, []
        kinds = ((path, int), (expand_path(features), float), (expand_path(labels), float))
        for file, kind in kinds:
            array, sums[file.name] = read_array(file, kind, most)
            arrays.append(array)
        data = graph_of(*arrays)
    elif is_ogb(path):
        data, sums = read_ogb(path, most)
    else:
        if is_store(path):
            raise ValueError(f"{path} is a store already: copy its folder")
        return load_dataset(source, root, max_bytes=max_bytes)
    return build_dataset(
        path.stem, data, "default", 0, most=most, checksums=sums, undirected=not directed
    )
