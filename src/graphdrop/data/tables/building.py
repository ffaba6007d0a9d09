"""A dataset from a table of nodes and one of edges."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.dataset import Dataset, build_dataset, choose_split
from graphdrop.data.names import Names
from graphdrop.data.splits import Split, describe, split_by_time, strata
from graphdrop.data.tables.edge_table import Edges, edges_of
from graphdrop.data.tables.kinds import chosen_columns
from graphdrop.data.tables.node_table import (
    id_column,
    ids_of,
    in_words,
    label_column,
    labels_of,
    numbers_in,
    parts_of,
    targets_of,
    times_of,
)
from graphdrop.data.tables.options import TableOptions
from graphdrop.data.tables.schema import Encoded, Schema
from graphdrop.data.tables.table import Table, is_missing, listed
from graphdrop.data.validate import MASKS, is_labelled, validate_graph


def build(
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
    id_name = id_column(nodes, options.id, edges, options)
    label = label_column(nodes, options.label)
    ids, order = ids_of(nodes, id_name)
    found = edges_of(edges, ids, f"{nodes.name} (column {id_name})", options)
    nodes = nodes.arranged(order)
    y, classes = targets_of(nodes, label, options.task)
    labelled = is_labelled(y)
    names = Names(tuple(ids), classes or None, torch.from_numpy(order))
    if isinstance(split, Split) and split.num_nodes == len(order):  # its masks follow the rows
        train, val, test = (mask[order] for mask in (split.train, split.val, split.test))
        split = Split(train, val, test, split.name, split.seed)
    part = ""
    if options.split_column:
        masks, lost = parts_of(nodes, options.split_column, labelled)
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
        times = times_of(nodes, options.split_by_time, labelled)
        try:
            split = split_by_time(times, labelled, f"by time, column {options.split_by_time}")
        except ValueError as error:
            raise ValueError(f"{nodes.name}, column {options.split_by_time}: {error}") from error
    try:
        chosen_split = choose_split(Data(y=y, edge_index=found.edge_index), split, seed)
    except ValueError as error:
        raise ValueError(f"{nodes.name}: {_with_names(str(error), names)}") from error
    others = (id_name, label, options.split_column, options.split_by_time)
    columns, left = chosen_columns(nodes, options.asked, others)
    schema = Schema.fit(nodes, sorted(columns), chosen_split.train, classes)
    schema = replace(schema, id=id_name, label=label)
    encoded = schema.encode(nodes, most)
    _check_missing(nodes, encoded, options.missing)
    data = _data(encoded, found, names)
    data.y = y
    if classes:
        data.num_classes = len(classes)
    dataset = build_dataset(
        name, data, chosen_split, seed, most=most, checksums=checksums, changes=found.changes
    )
    left |= dict.fromkeys((f"{one} of the edges" for one in found.unused), "")
    notes = [_columns_in_words(schema, left), _gaps_in_words(encoded, labelled, part)]
    notes.append(describe(chosen_split, strata(y), classes or None))
    if not classes:
        notes.append(f"{label} is a column of numbers: its value is predicted (--task numbers).")
    if words := [one for one in classes if is_missing(one)]:
        notes.append(
            f"{listed(words)} is a class of {label}: leave the cells of nodes without one empty."
        )
    return replace(
        dataset,
        schema=schema,
        notes=(*notes, *_no_edges_in_words(found)),
        times=None if times is None else torch.from_numpy(times),
    )


def build_for(
    schema: Schema, nodes: Table, edges: Table, options: TableOptions, most: int
) -> tuple[Data, list[str]]:
    """Another graph with the columns that a model was trained with, and notes on what differs.

    Labels are optional. Labelled nodes are test nodes, unless a split column says otherwise.
    """
    known = schema.id if schema.id in nodes.columns else None
    id_name = id_column(nodes, options.id or known, edges, options)
    ids, order = ids_of(nodes, id_name)
    found = edges_of(edges, ids, f"{nodes.name} (column {id_name})", options)
    nodes = nodes.arranged(order)
    encoded = schema.encode(nodes, most)
    _check_missing(nodes, encoded, options.missing)
    data = _data(encoded, found, Names(tuple(ids), schema.classes or None, torch.from_numpy(order)))
    label, strange = options.label or schema.label, 0
    if schema.classes:
        data.y, strange = labels_of(nodes, label, schema.classes)
        data.num_classes = len(schema.classes)
    else:
        data.y = numbers_in(nodes, label)
    validate_graph(data, most)
    labelled = is_labelled(data.y)
    masks = {"train": torch.zeros_like(labelled), "val": torch.zeros_like(labelled)}
    masks["test"] = labelled
    if options.split_column and options.split_column in nodes.columns:
        masks, _ = parts_of(nodes, options.split_column, labelled)
    for key, mask in zip(MASKS, masks.values(), strict=True):
        data[key] = mask
    notes = _no_edges_in_words(found)
    if encoded.unknown:
        notes.append(f"Categories that training did not have: {in_words(encoded.unknown)} (zeros).")
    if encoded.missing:
        notes.append(f"Missing values: {in_words(encoded.missing)}; imputed as in training.")
    if strange:
        notes.append(f"{strange:,} nodes have a label that is no class of the run: not scored.")
    return data, notes


def _data(encoded: Encoded, edges: Edges, names: Names) -> Data:
    data = Data(x=encoded.x, edge_index=edges.edge_index)
    if edges.weight is not None:
        data.edge_weight = edges.weight
    data.names = names
    return data


def _check_missing(nodes: Table, encoded: Encoded, missing: str) -> None:
    if missing == "refuse" and encoded.missing:
        raise ValueError(
            f"missing is 'refuse' and {nodes.name} has {sum(encoded.missing.values()):,} missing "
            f"values ({in_words(encoded.missing)}): fill them in, or give --missing impute"
        )


def _with_names(text: str, names: Names) -> str:
    """An error about a class or a node by number, with its name."""
    known = {"class": names.classes or (), "node": names.ids or ()}

    def named(match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2])
        return f"{kind} {known[kind][number]!r}" if number < len(known[kind]) else match[0]

    return re.sub(r"\b(class|node) (\d+)\b", named, text)


def _columns_in_words(schema: Schema, left: Mapping[str, str]) -> str:
    """What the columns became."""
    numbers = [one.name for one in schema.columns if one.kind == "number"]
    categories = [f"{one.name} {one.width}" for one in schema.columns if one.kind == "category"]
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


def _no_edges_in_words(edges: Edges) -> list[str]:
    """A note on a graph without edges."""
    if edges.edge_index.shape[1]:
        return []
    return ["The graph has no edge between two different nodes."]


def _gaps_in_words(encoded: Encoded, labelled: Tensor, part: str) -> str:
    """What was missing."""
    how = "a number becomes the training nodes' mean, a category one of its own"
    missing = f"Missing values: {in_words(encoded.missing)}; {how}"
    said = [missing if encoded.missing else "No missing values"]
    if unlabelled := int((~labelled).sum()):
        count = f"{unlabelled:,} of {len(labelled):,}"
        said.append(f"{count} nodes have no label and are only predicted")
    return "; ".join([*said, part] if part else said) + "."
