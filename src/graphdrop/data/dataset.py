"""`load_dataset`: a checked graph with its split, from a name, a file or a PyG `Data`."""

import copy
import difflib
import hashlib
import io
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from graphdrop.data import sources
from graphdrop.data.edges import EdgeChanges, undirected_edges
from graphdrop.data.npz import read_npz
from graphdrop.data.planetoid import read_planetoid
from graphdrop.data.sources import SYNTHETIC, has_own_split
from graphdrop.data.splits import (
    Split,
    describe,
    ppnp_split,
    random_fractions,
    random_per_class,
    strata,
)
from graphdrop.data.store import Store, is_store
from graphdrop.data.summary import Summary, summarise
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.data.tables import load_tables
from graphdrop.data.tables.files import ENDINGS, is_tables
from graphdrop.data.validate import (
    MASKS,
    asked_targets,
    is_labelled,
    validate_data,
    validate_targets,
)
from graphdrop.io.files import check_regular, expand_path
from graphdrop.io.memory import check_bytes, most_bytes

if TYPE_CHECKING:
    from graphdrop.data.tables.schema import Schema
    from graphdrop.graph import Graph


SPLITS = ("default", "public", "random-per-class", "random-fractions", "ppnp")
"""The names of splits that `load_dataset` takes."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph with labels, its split, and the checksums of the files it came from.

    `data` has `x [n, f]`, `edge_index [2, E]`, `y [n]` and the masks of `split`. Where `y` is
    numbers, NaN for none, `num_classes` is 0. `checksums` maps
    each file to its sha256 and is empty if there was no file. Features are float32; their type
    before conversion is `stored_dtype`.

    Example:
        >>> dataset = load_dataset("synthetic")
        >>> dataset.data.x.shape, dataset.num_classes, int(dataset.split.train.sum())
        (torch.Size([2708, 1433]), 7, 140)
    """

    name: str
    data: Data
    split: Split
    num_classes: int
    checksums: Mapping[str, str] = field(default_factory=dict)
    changes: EdgeChanges | None = None
    stored_dtype: torch.dtype = torch.float32
    schema: "Schema | None" = None
    """How columns became features, where the graph came from tables."""
    notes: tuple[str, ...] = ()
    """Sentences on how it was read, which training prints."""
    stored_masks: Mapping[str, Tensor] = field(default_factory=dict)
    """Masks `[n]` or `[n, splits]` that came with the data; empty if none did."""
    times: Tensor | None = None
    """A number for each node, larger for later, where the split is by time."""

    @cached_property
    def derived(self) -> dict[Hashable, Any]:
        """Results that were computed from this graph and its split, by what they depend on."""
        return {}

    @cached_property
    def graph(self) -> "Graph":
        """The graph as a `Graph`, built on first use."""
        from graphdrop.graph import Graph  # noqa: PLC0415 - a PyG user never needs it

        return Graph.from_data(self.data)

    @cached_property
    def summary(self) -> Summary:
        """Nodes, edges, features, classes, split sizes, homophily, isolated nodes."""
        return summarise(
            self.name,
            self.data,
            self.split,
            self.num_classes,
            self.changes,
            stored_dtype=str(self.stored_dtype).removeprefix("torch."),
        )

    def __str__(self) -> str:
        return str(self.summary)

    def __repr__(self) -> str:
        return f"Dataset(name={self.name!r}, data={self.data!r}, split={self.split.name!r})"


READERS = {
    "DataFrame": "graphdrop.from_pandas(nodes, edges, label=...)",
    "list": "one graph, such as torch_geometric.data.Batch.from_data_list(graphs)",
} | dict.fromkeys(
    ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph"),
    "graphdrop.from_networkx(graph, label=...)",
)
"""What reads graphs that ``load_dataset`` does not take, by the name of their type."""


def load_dataset(
    name: str | Path | Data,
    root: str | Path | None = None,
    split: str | Split = "default",
    seed: int = 0,
    *,
    max_bytes: int | None = None,
) -> Dataset:
    """Load a dataset, and download its files if they are missing.

    - `name`: `"cora"`, `"citeseer"`, `"pubmed"`, `"cora_ml"`; `"synthetic"`, a graph like Cora that
      needs no file; the path of an `.npz` file; a folder with `nodes.csv` and `edges.csv`
      (`load_tables` says more); the folder of a store that `graphdrop data convert` wrote, whose
      arrays stay on disk; or a PyG `Data`, whose `y` are classes as integers, -1 for none, or
      numbers as floats, NaN for none
    - `root`: the folder in which files are searched first, and to which they are downloaded
    - `split`: `"default"`, the split that comes with the data or, if there is none, 60, 20 and 20 %
      of each class at random (of the datasets with a name: what `"public"` gives); `"public"`, the
      split that comes with the data or, if there is none, 20 random nodes per class, 500 and 1000
      (60, 20 and 20 % of each class if the graph is too small for that); `"random-per-class"` and
      `"random-fractions"`, always drawn in the one way or the other; `"ppnp"`, one of the 20 splits
      of PPNP (Gasteiger et al., 2019) on the largest component; or a `Split`
    - `seed`: the seed of a random split, or the number of a stored split
    - `max_bytes`: the largest memory for loading, checked before a file is unpacked; by default the
      environment variable `GRAPHDROP_MAX_BYTES`, or half of the free memory; without either a
      file may take 400 times its size, or 512 MiB

    A graph from a file is made undirected, without repeated edges and self-loops; a `Data` keeps
    its edges and is not changed. Features are float32. Features that a file stores as a sparse
    matrix are made dense up to 1 GiB; larger ones, and those that are nearly all zeros, stay CSR.

    Example:
        >>> dataset = load_dataset("synthetic", split="random-fractions", seed=1)
        >>> dataset.data.edge_index.shape[0], dataset.data.train_mask.dtype
        (2, torch.bool)
    """
    most = most_bytes(max_bytes)
    if isinstance(name, HeteroData):
        raise TypeError(
            "the graph is a HeteroData, and a dataset has one kind of nodes: give "
            "data.to_homogeneous() with y and the masks of the nodes to classify"
        )
    if split == "default" and isinstance(name, str) and has_own_split(name):
        split = "public"
    if isinstance(name, Data):
        data = copy.copy(name)
        if isinstance(data.y, Tensor) and data.y.is_floating_point():
            data.y = asked_targets(data.y, "auto")
        return build_dataset("data", data, split, seed, most=most)
    kind = type(name).__name__
    if kind in READERS:
        raise TypeError(f"dataset is a {kind}: give {READERS[kind]}")
    if name == SYNTHETIC:
        return build_dataset(SYNTHETIC, synthetic_graph().data, split, seed, most=most)
    if isinstance(name, str) and (source := sources.find_source(name)) is not None:
        return load_files(source.name, sources.read(source, root), split, seed, most)
    if isinstance(name, Path) or (isinstance(name, str) and _looks_like_a_path(name)):
        path = expand_path(name)
        if is_store(path):
            return _from_store(path, split, seed)
        if is_tables(path):
            return load_tables(path, split=split, seed=seed, max_bytes=max_bytes)
        content, most = _read_file(path, max_bytes)
        return load_files(path.stem, {path.name: content}, split, seed, most)
    raise ValueError(_unknown(name))


def load_files(
    name: str, files: Mapping[str, bytes], split: str | Split, seed: int, most: int
) -> Dataset:
    """Load a dataset from the contents of its files, one `.npz` or those of Planetoid."""
    if len(files) == 1:
        (file, raw), *_ = files.items()
        data = read_npz(io.BytesIO(raw), file, most)
    else:
        data = read_planetoid(files, name)
    checksums = {file: hashlib.sha256(raw).hexdigest() for file, raw in files.items()}
    return build_dataset(name, data, split, seed, most=most, checksums=checksums)


def _from_store(path: Path, split: str | Split, seed: int) -> Dataset:
    """A store was checked when it was written; its arrays are not read here."""
    store = Store(path)
    data = copy.copy(store.data())
    if split not in ("default", "public") or data.get(MASKS[0]) is None:  # drawn from all labels
        store.check_labels(data.y != -1)
    about = store.manifest
    checksums = {f"{name}.npy": array.sha256 for name, array in about.arrays.items()}
    try:
        dataset = _split_data(path.stem, data, split, seed, about.classes, checksums, about.changes)
    except ValueError as error:
        raise ValueError(f"{path.stem}: {error}") from error
    for nodes in (dataset.split.train, dataset.split.val, dataset.split.test):
        store.check_labels(nodes)
    return dataset


def _split_data(  # noqa: PLR0917 - the fields of a dataset
    name: str,
    data: Data,
    split: str | Split,
    seed: int,
    num_classes: int,
    checksums: Mapping[str, str],
    changes: EdgeChanges | None,
) -> Dataset:
    """A dataset whose data has the masks of the split that is chosen."""
    chosen = choose_split(data, split, seed)
    stored = {mask: data[mask] for mask in MASKS if data.get(mask) is not None}
    for mask, nodes in zip(MASKS, (chosen.train, chosen.val, chosen.test), strict=True):
        data[mask] = nodes
    # The sizes of a split are noted if it was drawn and not asked for by its name.
    drawn = chosen.name in ("random-fractions", "random-per-class") and not isinstance(split, Split)
    notes = (describe(chosen, strata(data.y)),) if drawn and split != chosen.name else ()
    return Dataset(
        name, data, chosen, num_classes, checksums, changes, notes=notes, stored_masks=stored
    )


def build_dataset(
    name: str,
    data: Data,
    split: str | Split,
    seed: int,
    *,
    most: int,
    checksums: Mapping[str, str] | None = None,
    changes: EdgeChanges | None = None,
    undirected: bool = True,
) -> Dataset:
    """Check the data, choose the split; edges that come from files become `undirected`.

    `changes` says what was done to edges that are undirected already.
    """
    where = f"{name}: " if checksums else ""
    try:
        if isinstance(data.y, Tensor) and data.y.is_floating_point():  # numbers
            num_classes = 0
            validate_targets(data)
        else:
            num_classes = validate_data(data, most)
            data.y = data.y.long()
        data.edge_index = data.edge_index.long()
        stored = data.x.dtype
        if data.x.layout == torch.sparse_csc:  # which few operations take
            data.x = data.x.to_sparse_csr()
        data.x = data.x.to(torch.float32)
        if checksums and changes is None and undirected:
            data.edge_index, changes = undirected_edges(data.edge_index, data.x.shape[0])
        dataset = _split_data(name, data, split, seed, num_classes, checksums or {}, changes)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from error
    return replace(dataset, stored_dtype=stored)


def choose_split(data: Data, split: str | Split, seed: int) -> Split:
    """The split by name, drawn from the labels or stored in the data, or the given one, checked.

    The default is settled here; the datasets with a name have theirs from `load_dataset`.
    """
    if isinstance(split, Split):
        return _check_covers(split, data)
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}: give {', '.join(map(repr, SPLITS))} or a Split")
    if split == "default":
        split = "random-fractions" if data.get(MASKS[0]) is None else "public"
    classes = not data.y.is_floating_point() and data.y.dim() == 1
    given = data.get(MASKS[0]) is not None
    if not classes and split != "random-fractions" and not (split == "public" and given):
        raise ValueError(
            f"data.split is {split!r} and the targets are not classes: give 'random-fractions', "
            "or masks in the data"
        )
    if split == "ppnp":
        return _check_covers(ppnp_split(data.y, data.edge_index, seed), data)
    if split == "random-fractions":
        return random_fractions(strata(data.y), seed=seed)
    if split == "public" and given:
        return _stored_split(data, seed)
    try:
        return random_per_class(data.y, seed=seed)
    except ValueError as error:
        if split == "random-per-class":
            raise ValueError(
                f"{error}; for a graph of this size give split='random-fractions' or a Split"
            ) from error
        # nobody asked for that draw: a graph this small is divided by fractions instead
        return random_fractions(data.y, seed=seed)


def _stored_split(data: Data, seed: int) -> Split:
    train, val, test = (data[name] for name in MASKS)
    if train.dim() == 1:
        return Split(train, val, test, "public")
    stored = train.shape[1]
    if not 0 <= seed < stored:
        raise ValueError(
            f"seed is {seed} but {stored} splits are stored: give 0..{stored - 1}, "
            "or split='random-per-class'"
        )
    train, val, test = (mask[:, seed].contiguous() for mask in (train, val, test))
    return Split(train, val, test, "public", seed)


def _check_covers(split: Split, data: Data) -> Split:
    if split.num_nodes != data.y.shape[0]:
        raise ValueError(
            f"split covers {split.num_nodes} nodes but the graph has {data.y.shape[0]}: "
            "give a split of this graph"
        )
    unlabelled = split.used & ~is_labelled(data.y)
    if bool(unlabelled.any()):
        raise ValueError(
            f"split contains node {int(unlabelled.nonzero()[0])}, which has no label: take it out"
        )
    return split


def _looks_like_a_path(name: str) -> bool:
    known = name.lower().endswith((".npz", *ENDINGS))
    return bool(name) and (known or Path(name).name != name or Path(name).exists())


def _read_file(path: Path, max_bytes: int | None) -> tuple[bytes, int]:
    """The bytes of a file, and how many its graph may take."""
    if path.is_dir():
        raise ValueError(
            f"{path} is a directory where a file should be: give the .npz file in it, a folder "
            "with nodes.csv and edges.csv, or a store that `graphdrop data convert` wrote"
        )
    try:
        most = most_bytes(max_bytes, check_regular(path))
        check_bytes(str(path), path.stat().st_size, most)
        return path.read_bytes(), most
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give an .npz file") from error


def _unknown(name: object) -> str:
    known = [*sources.SOURCES, SYNTHETIC]
    close = difflib.get_close_matches(name.lower(), known, 1) if isinstance(name, str) else []
    got = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
    return (
        f"dataset {got} is not known: give one of {', '.join(known)}, the path of an .npz file or "
        "of a table, or a PyG Data" + (f". Did you mean {close[0]!r}?" if close else "")
    )
