"""Datasets from a table of nodes and one of edges: files, pandas, or the attributes of networkx."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.names import Names
from graphdrop.data.sources import short_name
from graphdrop.data.splits import Split, describe, split_by_time, strata
from graphdrop.data.tables.columns import (
    ID_NAMES,
    Edges,
    TableOptions,
    are_ends_among,
    are_ids,
    find_ids,
    find_labels,
    read_classes,
    read_edges,
    read_ids,
    read_numbers,
    read_parts,
    read_targets,
    read_times,
)
from graphdrop.data.tables.files import read_table, table_of_frame, table_paths
from graphdrop.data.tables.schema import Encoded, Schema
from graphdrop.data.tables.table import (
    Table,
    choose_features,
    is_missing,
    list_counts,
    listed,
)
from graphdrop.data.validate import MASKS, is_labelled, validate_graph
from graphdrop.io.memory import most_bytes

if TYPE_CHECKING:
    import networkx

    from graphdrop.data.dataset import Dataset

NO_EDGES = ["The graph has no edge between two different nodes."]


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
    paths = table_paths(nodes, edges)
    options = TableOptions(
        label, id, features, split_column, weight, missing, task, split_by_time, source, target
    )
    tables = read_table(paths[0], max_bytes), read_table(paths[1], max_bytes)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    name, most = short_name(str(nodes)), most_bytes(max_bytes)
    return _build(name, *tables, options, split=split, seed=seed, most=most, checksums=sums)


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
        label, id, features, split_column, weight, missing, task, split_by_time, source, target
    )
    tables, options = _read_frames(nodes, edges, options)
    return _build(name, *tables, options, split=split, seed=seed, most=most_bytes())


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
    attributes = dict(graph.nodes(data=True))
    nodes = pandas.DataFrame(list(attributes.values()), [str(node) for node in attributes])
    columns = ["source", "target"] if weight is None else ["source", "target", weight]
    ends = [(str(u), str(v), values.get(weight)) for u, v, values in graph.edges(data=True)]
    return from_pandas(
        nodes,
        pandas.DataFrame([row[: len(columns)] for row in ends], columns=columns),
        label=label,
        features=features,
        split_column=split_column,
        split_by_time=split_by_time,
        weight=weight,
        missing=missing,
        task=task,
        split=split,
        seed=seed,
        name=name,
    )


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
    options = TableOptions(label=label, id=id, source=source, target=target, weight=weight)
    tables, options = _read_frames(nodes, edges, options)
    return _build_for(schema, *tables, options, most_bytes())[0]


def load_for(
    schema: Schema, nodes: str | Path, edges: str | Path | None, options: TableOptions
) -> tuple[Data, list[str]]:
    """Another graph with the columns that a model was trained with, and notes on it."""
    first, second = table_paths(nodes, edges)
    return _build_for(schema, read_table(first), read_table(second), options, most_bytes())


def _read_frames(
    nodes: pandas.DataFrame, edges: pandas.DataFrame, options: TableOptions
) -> tuple[tuple[Table, Table], TableOptions]:
    """The two tables, with the index of the nodes as their ids unless another column holds them."""
    table, ends = table_of_frame(nodes, "nodes"), table_of_frame(edges, "edges")
    if options.id is not None:
        return (table, ends), options
    own = "index" if "index" not in table.columns else "node index"
    index = table_of_frame(nodes.index.to_frame(name=own), "nodes").columns[own]
    if isinstance(nodes.index, pandas.RangeIndex):  # which `read_csv` makes
        fits = are_ends_among(ends, set(index.strings), options)
        if not fits or any(name.lower() in ID_NAMES for name in table.columns):
            found = find_ids(table, ends, options)
            column = table.columns[found]
            named = are_ids(column, ends, options)
            if named or (not fits and are_ends_among(ends, set(column.strings), options)):
                return (table, ends), replace(options, id=found)
    columns = {own: index, **table.columns}
    return (Table("nodes", columns), ends), replace(options, id=own)


def _build(
    name: str,
    nodes: Table,
    edges: Table,
    options: TableOptions,
    *,
    split: str | Split,
    seed: int,
    most: int,
    checksums: Mapping[str, str] | None = None,
) -> Dataset:
    """A dataset whose features are fitted on its training nodes."""
    from graphdrop.data.dataset import build_dataset, choose_split  # noqa: PLC0415 - it needs this

    id_name = find_ids(nodes, edges, options)
    label = find_labels(nodes, options.label)
    ids, order = read_ids(nodes, id_name)
    found = read_edges(edges, ids, f"{nodes.name} (column {id_name})", options)
    nodes = nodes.arranged(order)
    y, classes = read_targets(nodes, label, options.task)
    labelled = is_labelled(y)
    names = Names(tuple(ids), classes or None, torch.from_numpy(order))
    if isinstance(split, Split) and split.num_nodes == len(order):  # its masks follow the rows
        train, val, test = (mask[order] for mask in (split.train, split.val, split.test))
        split = Split(train, val, test, split.name, split.seed)
    part = ""
    if options.split_column:
        masks, lost = read_parts(nodes, options.split_column, labelled)
        if split in ("default", "public"):
            split = Split(
                masks["train"], masks["val"], masks["test"], f"column {options.split_column}"
            )
        part = f"{lost:,} nodes in a part of the split have no label and are in none" * bool(lost)
    times = None
    if options.split_by_time:
        if split not in ("default", "public"):
            asked = split.name if isinstance(split, Split) else split
            raise ValueError(
                f"split is {asked!r} and split_by_time {options.split_by_time!r}: give one of them"
            )
        times = read_times(nodes, options.split_by_time, labelled)
        try:
            split = split_by_time(times, labelled, f"by time, column {options.split_by_time}")
        except ValueError as error:
            raise ValueError(f"{nodes.name}, column {options.split_by_time}: {error}") from error
    try:
        chosen_split = choose_split(Data(y=y, edge_index=found.edge_index), split, seed)
    except ValueError as error:
        raise ValueError(f"{nodes.name}: {_name_ids_and_classes(str(error), names)}") from error
    others = (id_name, label, options.split_column, options.split_by_time)
    columns, left = choose_features(nodes, options.asked, others)
    schema = Schema.fit(nodes, sorted(columns), chosen_split.train, classes)
    schema = replace(schema, id=id_name, label=label)
    data, encoded = _encode(schema, nodes, found, names, options.missing, most)
    data.y = y
    if classes:
        data.num_classes = len(classes)
    dataset = build_dataset(
        name, data, chosen_split, seed, most=most, checksums=checksums, changes=found.changes
    )
    left |= dict.fromkeys((f"{name} of the edges" for name in found.unused), "")
    notes = [_describe_columns(schema, left), _describe_gaps(encoded, labelled, part)]
    notes.append(describe(chosen_split, strata(y), classes or None))
    if not classes:
        notes.append(f"{label} is a column of numbers: its value is predicted (--task numbers).")
    if words := [name for name in classes if is_missing(name)]:
        notes.append(
            f"{listed(words)} is a class of {label}: leave the cells of nodes without one empty."
        )
    return replace(
        dataset,
        schema=schema,
        notes=tuple(notes + NO_EDGES * (not found.edge_index.shape[1])),
        times=None if times is None else torch.from_numpy(times),
    )


def _build_for(
    schema: Schema, nodes: Table, edges: Table, options: TableOptions, most: int
) -> tuple[Data, list[str]]:
    """Another graph with the columns that a model was trained with, and notes on what differs.

    Labels are optional. Labelled nodes are test nodes, unless a split column says otherwise.
    """
    known = schema.id if schema.id in nodes.columns else None
    id_name = find_ids(nodes, edges, replace(options, id=options.id or known))
    ids, order = read_ids(nodes, id_name)
    found = read_edges(edges, ids, f"{nodes.name} (column {id_name})", options)
    nodes = nodes.arranged(order)
    names = Names(tuple(ids), schema.classes or None, torch.from_numpy(order))
    data, encoded = _encode(schema, nodes, found, names, options.missing, most)
    label, strange = options.label or schema.label, 0
    if schema.classes:
        data.y, strange = read_classes(nodes, label, schema.classes)
        data.num_classes = len(schema.classes)
    else:
        data.y = read_numbers(nodes, label)
    validate_graph(data, most)
    labelled = is_labelled(data.y)
    masks = {"train": torch.zeros_like(labelled), "val": torch.zeros_like(labelled)}
    masks["test"] = labelled
    if options.split_column and options.split_column in nodes.columns:
        masks, _ = read_parts(nodes, options.split_column, labelled)
    for key, mask in zip(MASKS, masks.values(), strict=True):
        data[key] = mask
    notes = NO_EDGES * (not found.edge_index.shape[1])
    if encoded.unknown:
        notes.append(
            f"Categories that training did not have: {list_counts(encoded.unknown)} (zeros)."
        )
    if encoded.missing:
        notes.append(f"Missing values: {list_counts(encoded.missing)}; imputed as in training.")
    if strange:
        notes.append(f"{strange:,} nodes have a label that is no class of the run: not scored.")
    return data, notes


def _encode(  # noqa: PLR0917 - the arguments of two functions
    schema: Schema, nodes: Table, edges: Edges, names: Names, missing: str, most: int
) -> tuple[Data, Encoded]:
    """A graph without targets, and what its features do not say."""
    encoded = schema.encode(nodes, most)
    if missing == "refuse" and encoded.missing:
        raise ValueError(
            f"missing is 'refuse' and {nodes.name} has {sum(encoded.missing.values()):,} missing "
            f"values ({list_counts(encoded.missing)}): fill them in, or give --missing impute"
        )
    data = Data(x=encoded.x, edge_index=edges.edge_index)
    if edges.weight is not None:
        data.edge_weight = edges.weight
    data.names = names
    return data, encoded


def _name_ids_and_classes(text: str, names: Names) -> str:
    """An error about a class or a node by number, with its name."""
    known = {"class": names.classes or (), "node": names.ids or ()}

    def named(match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2])
        return f"{kind} {known[kind][number]!r}" if number < len(known[kind]) else match[0]

    return re.sub(r"\b(class|node) (\d+)\b", named, text)


def _describe_columns(schema: Schema, left: Mapping[str, str]) -> str:
    """What the columns became."""
    numbers = [column.name for column in schema.columns if column.kind == "number"]
    categories = [
        f"{column.name} {column.width}" for column in schema.columns if column.kind == "category"
    ]
    kinds = []
    if numbers:
        how = "standardized on the training nodes"
        kinds.append(f"{len(numbers)} numeric ({listed(numbers, 6)}), {how}")
    if categories:
        kinds.append(f"{len(categories)} categorical ({listed(categories, 6)}), one-hot")
    unread = [f"{name} ({why})" if why else name for name, why in left.items()]
    says = f"Columns: {'; '.join(kinds)}." + (f" Left out: {listed(unread, 6)}." if unread else "")
    if dates := [name for name, why in left.items() if why == "dates"]:
        says += f" To train on the past and test on the future give --split-by-time {dates[0]}."
    return says


def _describe_gaps(encoded: Encoded, labelled: Tensor, part: str) -> str:
    """What was missing."""
    how = "a number becomes the training nodes' mean, a category one of its own"
    missing = f"Missing values: {list_counts(encoded.missing)}; {how}"
    said = [missing if encoded.missing else "No missing values"]
    if unlabelled := int((~labelled).sum()):
        count = f"{unlabelled:,} of {len(labelled):,}"
        said.append(f"{count} nodes have no label and are only predicted")
    return "; ".join([*said, part] if part else said) + "."
