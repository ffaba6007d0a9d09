"""``load_tables``: a dataset from files of nodes and edges."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphdrop.data.sources import short_name
from graphdrop.data.tables.csv_file import read_csv
from graphdrop.data.tables.options import TableOptions
from graphdrop.data.tables.parquet_file import read_parquet
from graphdrop.data.tables.table import Table, listed
from graphdrop.io.files import check_regular, expand_path
from graphdrop.io.memory import most_bytes

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.data.dataset import Dataset
    from graphdrop.data.splits import Split
    from graphdrop.data.tables.schema import Schema

TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
ENDINGS = (*TEXT, *PARQUET)


def load_tables(
    nodes: str | Path,
    edges: str | Path | None = None,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that a column of ids has
    features: str | Sequence[str] | None = None,
    split_column: str | None = None,
    split_by_time: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    missing: Literal["impute", "refuse"] = "impute",
    task: Literal["auto", "classes", "numbers"] = "auto",
    split: str | Split = "default",
    seed: int = 0,
    max_bytes: int | None = None,
) -> Dataset:
    """Load a graph from a table of nodes and a table of edges, as CSV or Parquet.

    Columns of numbers are standardized on the training nodes, categories become one-hot, free text
    is left out. A missing number becomes the mean of the training nodes, a missing category one of
    its own. Edges are undirected. ``dataset.data.names`` keeps the ids and the names of classes.

    Nodes are sorted by id and features by name: the order of rows, columns and ends does not change
    the graph. ``dataset.data.names.order`` puts answers in the order of the rows.

    Args:
        nodes: the file with a row for each node, or a folder with ``nodes`` and ``edges`` in it.
        edges: the file with a row for each edge: ids in the columns ``source`` and ``target``,
            ``src`` and ``dst``, ``from`` and ``to``, each with ``_id`` behind it or not, or else
            the only two that hold ids alone. By default ``edges`` beside the nodes.
        label: the column of classes or of numbers; a node without one is only predicted. By
            default ``label``, ``class``, ``y`` or ``target``.
        id: the column of ids; by default ``id``, ``node_id``, ``node`` or ``name``, or else the
            one that edges name. One without a name is ``#1``, by its place.
        features: columns, in a list or with commas between them; ``"zip:category"`` reads
            numbers as categories. By default all that are no free text.
        split_column: a column with ``train``, ``val`` and ``test``.
        split_by_time: a column of ISO dates (``2024-05-17``, with a time or not) or of numbers,
            which is no feature then. The oldest 60 % of the labelled nodes train, the next 20 %
            validate, the newest 20 % test; nodes of one date stay together.
        source: the column of the edges with the ids of one end; by default as said of ``edges``.
        target: the column with the ids of the other end.
        weight: a column of the edges with weights above 0.
        missing: ``"impute"``, or ``"refuse"`` for an error where a value is missing.
        task: whether ``label`` is a column of classes or of numbers. By default a column of numbers
            with decimals is numbers, anything else is classes, and whole numbers with many
            different values are refused until ``task`` says what they are.
        split: as in ``load_dataset``; the split that comes with tables is that of
            ``split_column`` or ``split_by_time``. The masks of a ``Split`` follow the rows of the
            table.
        seed: the seed of a random split.
        max_bytes: the largest memory for loading, as in ``load_dataset``.

    Example:
        >>> rows = [f"p{i},{i % 7},{'red' if i % 2 else 'blue'}" for i in range(40)]
        >>> _ = Path("nodes.csv").write_text("\\n".join(["id,size,label", *rows]))
        >>> pairs = [f"p{i},p{(i + 2) % 40}" for i in range(40)]
        >>> _ = Path("edges.csv").write_text("\\n".join(["source,target", *pairs]))
        >>> dataset = load_tables("nodes.csv", "edges.csv")
        >>> dataset.data.names.classes, dataset.data.x.shape
        (('blue', 'red'), torch.Size([40, 1]))
    """
    from graphdrop.data.tables.building import build  # noqa: PLC0415 - which needs datasets

    most = most_bytes(max_bytes)
    paths = table_paths(nodes, edges)
    options = TableOptions(
        label,
        id,
        features,
        split_column,
        weight,
        missing,
        task,
        split_by_time,
        source=source,
        target=target,
    )
    tables = read_table(paths[0], max_bytes), read_table(paths[1], max_bytes)
    checksums = {path.name: _sha256(path) for path in paths}
    name = short_name(str(nodes))
    return build(name, *tables, options, split=split, seed=seed, most=most, checksums=checksums)


def load_for(
    schema: Schema, nodes: str | Path, edges: str | Path | None, options: TableOptions
) -> tuple[Data, list[str]]:
    """Another graph with the columns that a model was trained with, and notes on it."""
    from graphdrop.data.tables.building import build_for  # noqa: PLC0415

    most = most_bytes()
    first, second = table_paths(nodes, edges)
    return build_for(schema, read_table(first), read_table(second), options, most)


def is_tables(path: str | Path) -> bool:
    """Whether a path is a table, or a folder with a table of nodes in it."""
    path = expand_path(path)
    if path.is_dir():
        return _beside(path, "nodes") is not None
    return path.suffix.lower() in ENDINGS


def table_paths(nodes: str | Path, edges: str | Path | None = None) -> tuple[Path, Path]:
    """The files of nodes and edges, from a folder or one by one."""
    first = expand_path(nodes)
    folder = first if first.is_dir() else first.parent
    if first.is_dir():
        found = _beside(first, "nodes")
        if found is None:
            raise ValueError(f"{first} has no nodes.csv or nodes.parquet: give a folder with one")
        first = found
    second = _beside(folder, "edges") if edges is None else expand_path(edges)
    if second is None:
        raise ValueError(
            f"edges is missing and {folder} has no edges.csv or edges.parquet: give --edges FILE"
        )
    return first, second


def _beside(folder: Path, stem: str) -> Path | None:
    places = (folder / f"{stem}{ending}" for ending in ENDINGS)
    return next((place for place in places if place.is_file()), None)


def read_table(path: Path, max_bytes: int | None = None) -> Table:
    """Read a file by its ending."""
    if not path.exists():
        raise ValueError(f"{path} is not there: give a table as .csv or .parquet")
    ending = path.suffix.lower()
    try:
        most = most_bytes(max_bytes, check_regular(path))
        if ending in PARQUET:
            return read_parquet(path, most)
        if ending in TEXT:
            return read_csv(path, most)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give a table") from error
    raise ValueError(
        f"{path} ends in {path.suffix or 'nothing'}; a table takes {listed(ENDINGS)}. Save it as "
        "CSV."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
