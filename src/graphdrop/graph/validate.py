"""Validation of edges, edge weights and rows before a graph is built."""

import operator

import torch
from torch import Tensor

from graphdrop.graph.masks import SOURCE_ONLY

MAX_NODES = SOURCE_ONLY - 1  # the two highest 32-bit ids stand for draws without an edge


def check_edge_index(edge_index: Tensor, num_nodes: int | None) -> int:
    """Raise unless these are edges among `num_nodes` nodes, which is returned or inferred."""
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise TypeError(
            f"edge_index is of type {_kind_of(edge_index)}; it takes a dense tensor of shape "
            "[2, E]. For a sparse matrix use Graph.from_scipy."
        )
    if not _is_integer(edge_index):
        raise TypeError(
            f"edge_index has dtype {edge_index.dtype}; it takes integers. Use edge_index.long()."
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            f"edge_index has shape {tuple(edge_index.shape)}; it takes shape [2, E], sources "
            "above destinations."
            + (
                " Pass edge_index.t()."
                if edge_index.dim() == 2 and edge_index.shape[1] == 2
                else ""
            )
        )
    smallest, largest = 0, -1
    if edge_index.numel():
        smallest, largest = (int(end) for end in edge_index.aminmax())
    if smallest < 0:
        raise ValueError(f"edge_index contains {smallest}; it takes node numbers, counted from 0.")
    num_nodes = largest + 1 if num_nodes is None else operator.index(num_nodes)
    if num_nodes < 0:
        raise ValueError(f"num_nodes is {num_nodes}; it takes 0 or a positive number.")
    if largest >= num_nodes:
        raise ValueError(
            f"num_nodes is {num_nodes}, but edge_index names node {largest}: "
            f"pass num_nodes={largest + 1} or more, or None"
        )
    if num_nodes > MAX_NODES:
        raise ValueError(
            f"num_nodes is {num_nodes}; it takes at most {MAX_NODES}, the number of ids that the "
            "random generator distinguishes. Number the nodes from 0 without gaps."
        )
    return num_nodes


def check_edge_weight(edge_weight: Tensor, num_edges: int) -> Tensor:
    """Raise unless this is one finite weight per edge; returns it as float32."""
    if not isinstance(edge_weight, Tensor) or edge_weight.is_complex():
        raise TypeError(
            f"edge_weight is of type {_kind_of(edge_weight)}; it takes a tensor of real numbers."
        )
    if edge_weight.shape != (num_edges,):
        raise ValueError(
            f"edge_weight has shape {tuple(edge_weight.shape)}; it takes shape [{num_edges}], a "
            "weight for each edge."
        )
    if edge_weight.requires_grad:
        raise ValueError(
            "edge_weight requires a gradient; a graph takes weights without one. Pass "
            "edge_weight.detach()."
        )
    edge_weight = edge_weight.to(torch.float32)
    finite = edge_weight.isfinite()
    if not bool(finite.all()):
        edge = int((~finite).nonzero()[0])
        raise ValueError(
            f"edge_weight is {float(edge_weight[edge])} for edge {edge}; it takes numbers that "
            "are finite in float32."
        )
    return edge_weight


def check_rows(rows: Tensor, num_rows: int) -> Tensor:
    """Raise unless these name rows, each at most once; returns their numbers as int64."""
    if not isinstance(rows, Tensor) or not (rows.dtype == torch.bool or _is_integer(rows)):
        raise TypeError(
            f"rows is of type {_kind_of(rows)}; it takes a tensor of row numbers or a bool mask."
        )
    if rows.dtype == torch.bool:
        if rows.shape != (num_rows,):
            raise ValueError(
                f"rows has shape {tuple(rows.shape)}; a bool mask takes shape [{num_rows}]."
            )
        return rows.nonzero().flatten()
    if rows.dim() != 1:
        raise ValueError(f"rows has shape {tuple(rows.shape)}; it takes one dimension.")
    ordered = rows.long().sort().values
    outside = ordered[(ordered < 0) | (ordered >= num_rows)]
    if outside.numel():
        raise ValueError(f"rows contains {int(outside[0])}; it takes 0..{num_rows - 1}.")
    repeated = ordered[1:][ordered.diff() == 0]
    if repeated.numel():
        raise ValueError(f"rows names {int(repeated[0])} more than once: pass rows.unique()")
    return rows.long()


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _kind_of(thing: object) -> str:
    if not isinstance(thing, Tensor):
        return type(thing).__name__
    return f"{thing.dtype}" + ("" if thing.layout == torch.strided else f" in {thing.layout}")
