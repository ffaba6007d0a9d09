"""``from_pandas`` and ``from_networkx``: datasets from tables and graphs in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphdrop.data.tables.edge_table import are_ends_among
from graphdrop.data.tables.node_table import ID_NAMES, id_column
from graphdrop.data.tables.options import TableOptions
from graphdrop.data.tables.table import Column, Table, distinct
from graphdrop.io.memory import most_bytes

if TYPE_CHECKING:
    import networkx
    import pandas
    from torch_geometric.data import Data

    from graphdrop.data.dataset import Dataset
    from graphdrop.data.splits import Split
    from graphdrop.data.tables.schema import Schema

INDEX = "index"


def from_pandas(
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
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
    name: str = "data",
) -> Dataset:
    """A dataset from a pandas table of nodes and one of edges.

    The nodes of ``dataset.data`` are sorted by id; ``dataset.data.names.order`` puts answers in the
    order of ``nodes``, as ``answer.to_pandas()`` does.

    Args:
        nodes: a row for each node.
        edges: a row for each edge, with the ids of its ends; see ``load_tables``.
        label: the column of classes or of numbers.
        id: the column of ids; ``None`` takes the index of ``nodes``, or, where that only counts the
            rows, a column named ``id`` or the like that holds all ends of the edges, or the one
            that the edges name where they do not name the numbers of rows.
        features: columns; see ``load_tables``, and there for what follows as well.
        split_column: a column with ``train``, ``val`` and ``test``.
        split_by_time: a column of dates or numbers.
        source: the column of ``edges`` with the ids of one end, if it has another name.
        target: the column with the ids of the other end.
        weight: a column of the edges with weights.
        missing: ``"impute"`` or ``"refuse"``.
        task: ``"classes"`` or ``"numbers"``; see ``load_tables``.
        split: as in ``load_dataset``.
        seed: the seed of a random split.
        name: what the dataset is called.

    Example:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": range(40), "team": ["red", "blue"] * 20})
        >>> friends = pandas.DataFrame({"from": range(39), "to": range(1, 40)})
        >>> dataset = from_pandas(people, friends, label="team")
        >>> dataset.data.names.classes, dataset.data.x.shape
        (('blue', 'red'), torch.Size([40, 1]))
    """
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
    ends = _from_frame(edges, "edges")
    columns, options = _with_index(nodes, ends, options)
    return _built(name, columns, ends, options, split=split, seed=seed)


def from_networkx(
    graph: networkx.Graph,
    *,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    split_column: str | None = None,
    split_by_time: str | None = None,
    weight: str | None = None,
    missing: Literal["impute", "refuse"] = "impute",
    task: Literal["auto", "classes", "numbers"] = "auto",
    split: str | Split = "default",
    seed: int = 0,
    name: str = "data",
) -> Dataset:
    """A dataset from a networkx graph whose nodes have attributes, among them their class.

    Args:
        graph: its nodes become ids; edges are read as undirected.
        label: the attribute that is the class or a number.
        features: attributes; see ``load_tables``, and there for what follows as well.
        split_column: an attribute with ``train``, ``val`` and ``test``.
        split_by_time: an attribute with dates or numbers.
        weight: an attribute of the edges.
        missing: ``"impute"`` or ``"refuse"``.
        task: ``"classes"`` or ``"numbers"``; see ``load_tables``.
        split: as in ``load_dataset``.
        seed: the seed of a random split.
        name: what the dataset is called.

    Example:
        >>> import networkx
        >>> club = networkx.karate_club_graph()
        >>> for node, degree in club.degree():
        ...     club.nodes[node]["degree"] = degree
        >>> dataset = from_networkx(club, label="club")
        >>> dataset.data.names.classes, dataset.data.num_nodes
        (('Mr. Hi', 'Officer'), 34)
    """
    items = list(graph.nodes(data=True))
    found_keys = dict.fromkeys(key for _, attributes in items for key in attributes)
    keys = distinct([str(key) for key in found_keys], "nodes")
    own = INDEX if INDEX not in keys else "node index"
    found = [{str(key): value for key, value in attributes.items()} for _, attributes in items]
    columns = {own: Column([str(node) for node, _ in items])}
    columns |= {key: _from_values([one.get(key) for one in found], key) for key in keys}
    pairs = list(graph.edges(data=True))
    ends = {
        "source": Column([str(source) for source, _, _ in pairs]),
        "target": Column([str(target) for _, target, _ in pairs]),
    }
    if weight is not None:
        ends[weight] = _from_values([one.get(weight) for _, _, one in pairs], weight)
    options = TableOptions(label, own, features, split_column, weight, missing, task, split_by_time)
    return _built(name, columns, ends, options, split=split, seed=seed)


def apply_schema(
    schema: Schema,
    nodes: pandas.DataFrame,
    edges: pandas.DataFrame,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
) -> Data:
    """Another graph for a model that was trained on tables, from pandas tables with its columns.

    Numbers are scaled and categories coded as in training. Labelled nodes are test nodes.

    Args:
        schema: of the training graph, ``dataset.schema``; of a run,
            ``graphdrop.train.opening.schema_of(folder)``.
        nodes: a row for each node.
        edges: a row for each edge, with the ids of its ends.
        label: the column of labels, if there is one; by default that of the training graph.
        id: the column of ids; ``None`` as in ``from_pandas``.
        source: the column of ``edges`` with the ids of one end, if it has another name.
        target: the column with the ids of the other end.
        weight: a column of the edges with weights.

    Example:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": range(40), "team": ["red", "blue"] * 20})
        >>> friends = pandas.DataFrame({"from": range(39), "to": range(1, 40)})
        >>> dataset = from_pandas(people, friends, label="team")
        >>> apply_schema(dataset.schema, people[["age"]][:5], friends[:4]).x.shape
        torch.Size([5, 1])
    """
    from graphdrop.data.tables.building import build_for  # noqa: PLC0415 - which needs datasets

    options = TableOptions(label=label, id=id, source=source, target=target, weight=weight)
    ends = _from_frame(edges, "edges")
    columns, options = _with_index(nodes, ends, options)
    first, second = Table("nodes", columns, len(nodes)), Table("edges", ends, len(edges))
    return build_for(schema, first, second, options, most_bytes())[0]


def _with_index(
    nodes: pandas.DataFrame, edges: Mapping[str, Column], options: TableOptions
) -> tuple[dict[str, Column], TableOptions]:
    """The columns of a table, with its index as the column of ids unless another one is."""
    columns = _from_frame(nodes, "nodes")
    if options.id is not None:
        return columns, options
    own = INDEX if INDEX not in columns else "node index"
    index = _from_series(nodes.index.to_series(), own)
    if type(nodes.index).__name__ == "RangeIndex":  # which `read_csv` makes
        table = Table("edges", edges, len(next(iter(edges.values()), Column())))
        fits = are_ends_among(table, set(index.strings()), options)
        if not fits or any(name.lower() in ID_NAMES for name in columns):
            found = id_column(Table("nodes", columns, len(nodes)), None, table, options)
            cells = {text if text is None else text.strip() for text in columns[found].strings()}
            distinct_cells = len(cells) == len(nodes)
            if (distinct_cells or not fits) and are_ends_among(table, cells, options):
                return columns, replace(options, id=found)
    return {own: index} | columns, replace(options, id=own)


def _built(
    name: str,
    nodes: Mapping[str, Column],
    edges: Mapping[str, Column],
    options: TableOptions,
    *,
    split: str | Split,
    seed: int,
) -> Dataset:
    from graphdrop.data.tables.building import build  # noqa: PLC0415 - which needs datasets

    first, second = (
        Table(title, columns, len(next(iter(columns.values()), Column())))
        for title, columns in (("nodes", nodes), ("edges", edges))
    )
    return build(name, first, second, options, split=split, seed=seed, most=most_bytes())


def _from_frame(frame: pandas.DataFrame, table: str) -> dict[str, Column]:
    names = distinct([str(key) for key in frame.columns], table)
    series = (values for _, values in frame.items())
    return {name: _from_series(values, name) for name, values in zip(names, series, strict=True)}


def _from_series(values: Any, name: str) -> Column:
    """A pandas column: numbers as numbers, all else as text."""
    if values.dtype.kind in "iuf" and not _is_long(values):
        return Column(numbers=values.to_numpy(dtype=np.float64, na_value=math.nan))
    return Column([_text(value, name) for value in values.tolist()])


def _is_long(values: Any) -> bool:
    if values.dtype.kind not in "iu":
        return False
    filled = values.dropna()
    return len(filled) > 0 and bool(filled.abs().max() >= 2**53)


def _from_values(values: Iterable[object], name: str) -> Column:
    """A column of Python objects: numbers if all of them are."""
    found = list(values)
    numeric = all(v is None or (isinstance(v, Real) and not isinstance(v, bool)) for v in found)
    if numeric and any(value is not None for value in found):
        numbers = [math.nan if v is None else float(v) for v in found]  # type: ignore[arg-type]
        return Column(numbers=np.array(numbers))
    return Column([_text(value, name) for value in found])


def _text(value: object, name: str) -> str | None:
    # before a comparison, which gives another NA
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Sized) and not isinstance(value, str | bytes | tuple):
        raise ValueError(
            f"the column {name} has a cell of type {type(value).__name__}: give numbers or text, "
            "a value per cell"
        )
    if value != value:  # noqa: PLR0124
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # an id beside missing ones
    text = str(value)
    return text if text.strip() else None
