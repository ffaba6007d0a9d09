"""Validation of datasets: shapes, types, labels, features and edges."""

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.matrices import check_columns
from graphdrop.io.memory import check_bytes, most_bytes

MASKS = ("train_mask", "val_mask", "test_mask")
_AT_ONCE: Final = 2**22
_LAYOUTS: Final = (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def validate_data(data: Data, max_bytes: int | None = None) -> int:
    """Check a PyG `Data` for node classification and return its number of classes.

    It takes features `x [n, f]`, dense or sparse, floating-point and finite in float32;
    `edge_index [2, E]` of integers in 0..n-1; labels `y [n]` of integers in 0..C-1, or -1 for none;
    and either none of the three masks or all of them, boolean, `[n]` or `[n, splits]`, on labelled
    nodes only. `C` is `data.num_classes` where it is set and otherwise the highest label plus one;
    there are two classes or more. What a network on so many features and classes takes at least
    must fit in `max_bytes`, which is as in `load_dataset`.
    """
    most = most_bytes(max_bytes)
    num_nodes = validate_graph(data, most, "y")
    num_classes = _check_labels(data.y, num_nodes, data.get("num_classes"))
    check_bytes(
        f"data.y has {num_classes} classes: a score for every node of each",
        4 * num_nodes * num_classes,
        most,
    )
    _check_masks(data)
    return num_classes


def validate_graph(data: Data, max_bytes: int | None = None, *more: str) -> int:
    """Check features and edges, and that `more` tensors are there; returns the number of nodes."""
    for name in ("x", "edge_index", *more):
        if not isinstance(data.get(name), Tensor):
            raise ValueError(f"data.{name} is {data.get(name)!r}: give a tensor")
    for name, value in data.to_dict().items():
        if isinstance(value, Tensor) and value.is_meta:
            raise ValueError(f"data.{name} is on the device meta, without values: give its values")
    num_nodes = _check_features(data.x, most_bytes(max_bytes))
    if data.num_nodes != num_nodes:
        raise ValueError(
            f"data.num_nodes is {data.num_nodes!r} and data.x has {num_nodes} rows: give one row "
            "per node"
        )
    _check_edges(data, num_nodes)
    return num_nodes


def is_labelled(y: Tensor) -> Tensor:
    """Whether a node has a target, bool ``[n]``: no NaN in its row, and no negative integer."""
    known = ~y.isnan() if y.is_floating_point() else y.long() >= 0
    return known if y.dim() == 1 else known.flatten(1).all(1)


MOST_CLASSES = 64
"""Whole numbers with a decimal point that are all below this may be numbers of classes."""


def asked_targets(y: Tensor, task: str) -> Tensor:
    """Targets of the type that the settings ask for; whole numbers that may be either are refused.

    Args:
        y: the targets of a `Data`.
        task: ``data.task``.
    """
    if y.is_complex() or y.dim() > 2 or (task == "auto" and not y.is_floating_point()):
        return y
    known = y[~y.isnan()].double() if y.is_floating_point() else y
    whole = bool((known == known.round()).all()) if y.is_floating_point() else True
    if task == "auto":
        column = y.dim() == 1 or y.shape[1] == 1
        small = bool(((known >= -1) & (known < MOST_CLASSES)).all())
        if column and len(known) and whole and small:
            raise ValueError(
                f"data.y has type {y.dtype} and holds whole numbers from {int(known.min())} to "
                f"{int(known.max())} only, which may be classes or numbers: give y.long() for "
                'classes, with -1 for no label, or data.task = "numbers" for numbers, as in '
                'Config(data={"task": "numbers"}) or --task numbers'
            )
        return y
    if task == "numbers":
        return y if y.is_floating_point() else y.float()
    if not whole:
        value = float(known[known != known.round()][0])
        raise ValueError(
            f'data.task is "classes", but data.y has the value {value:g}: give whole numbers from '
            '0, or data.task = "numbers"'
        )
    classes = y.nan_to_num(-1.0).long() if y.is_floating_point() else y
    return classes[:, 0] if y.dim() == 2 and y.shape[1] == 1 else classes


def validate_targets(data: Data) -> None:
    """Check targets that are no classes: a row for every node, finite where a mask needs them."""
    num_nodes = validate_graph(data, None, "y")
    if data.y.shape[:1] != (num_nodes,) or data.y.is_complex():
        raise ValueError(
            f"data.y has shape {tuple(data.y.shape)} and type {data.y.dtype}: give a number, or a "
            f"row of them, for each of the {num_nodes} rows of x"
        )
    infinite = data.y.isinf() if data.y.is_floating_point() else data.y != data.y
    if bool(infinite.any()):
        node = int(infinite.flatten(1 if data.y.dim() > 1 else 0).nonzero()[0, 0])
        raise ValueError(
            f"data.y of node {node} is infinite: correct it, or give NaN for a node without a "
            "target"
        )
    _check_masks(data)


def _check_features(x: Tensor, most: int) -> int:
    if x.dim() != 2 or 0 in x.shape:
        raise ValueError(
            f"data.x has shape {tuple(x.shape)}: give one row per node and one column per feature, "
            "at least one of each"
        )
    if not x.is_floating_point():
        raise ValueError(f"data.x has type {x.dtype}: give floating-point features, as x.float()")
    if x.layout not in _LAYOUTS:
        raise ValueError(f"data.x has layout {x.layout}: give it dense, or sparse in COO or CSR")
    check_columns(x.shape[1], "data.x", most)
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
    values = x if x.layout == torch.strided else x.values()
    wrong, first = _not_finite(values)
    if wrong:
        where = f", the first in row {first}" if values is x else ""
        raise ValueError(
            f"data.x has {wrong} NaN or infinite entries{where}: "
            "replace them, for instance with x.nan_to_num(0, 0, 0)"
        )
    return int(x.shape[0])


def _not_finite(values: Tensor) -> tuple[int, int]:
    """The number of entries that are not finite in float32, and the first row with one."""
    rows = max(1, _AT_ONCE // max(1, values[:1].numel()))
    count, first = 0, 0
    for number, part in enumerate(torch.split(values, rows)):
        wrong = ~part.to(torch.float32).isfinite()
        if bool(wrong.any()):
            first = first if count else number * rows + int(wrong.nonzero()[0, 0])
            count += int(wrong.sum())
    return count, first


def _check_edges(data: Data, num_nodes: int) -> None:
    edge_index = data.edge_index
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            f"data.edge_index has shape {tuple(edge_index.shape)}: give [2, edges], "
            "sources above targets"
        )
    if not _is_integer(edge_index) or edge_index.layout != torch.strided:
        raise ValueError(
            f"data.edge_index has type {edge_index.dtype} and layout {edge_index.layout}: "
            "give integer node ids, dense"
        )
    edge_index = edge_index.long()
    wrong = (edge_index < 0) | (edge_index >= num_nodes)
    if bool(wrong.any()):
        column = int(wrong.any(dim=0).nonzero()[0])
        raise ValueError(
            f"data.edge_index has the edge {tuple(edge_index[:, column].tolist())} in column "
            f"{column}, but the {num_nodes} rows of x are nodes 0..{num_nodes - 1}: "
            "renumber the nodes or remove the edge"
        )
    for name in ("edge_weight", "edge_attr"):
        values = data.get(name)
        if values is None:
            continue
        if not isinstance(values, Tensor) or values.shape[:1] != edge_index.shape[1:]:
            raise ValueError(
                f"data.{name} has shape {tuple(getattr(values, 'shape', ()))}: "
                f"give one entry for each of the {edge_index.shape[1]} edges"
            )
        if values.is_complex():
            raise ValueError(
                f"data.{name} has type {values.dtype}: give real numbers, such as {name}.abs()"
            )
        if _not_finite(values)[0]:
            raise ValueError(f"data.{name} has NaN or infinite entries: replace them")


def _check_labels(y: Tensor, num_nodes: int, declared: object) -> int:
    if tuple(y.shape) != (num_nodes,) or not _is_integer(y):
        raise ValueError(
            f"data.y has shape {tuple(y.shape)} and type {y.dtype}: give an integer class for each "
            f"of the {num_nodes} rows of x, -1 for none"
        )
    if declared is not None and (type(declared) is not int or declared < 1):
        raise ValueError(f"data.num_classes is {declared!r}: give a positive integer, or leave it")
    given, y = y, y.long()
    if given.dtype == torch.uint64 and bool((y < 0).any()):
        raise ValueError("data.y has a label of 2^63 or more: number the classes from 0")
    # With no number of classes declared, a stray label would silently widen every model.
    num_classes = declared if isinstance(declared, int) else int(y.max()) + 1
    limit = num_classes if declared is not None else num_nodes
    wrong = (y < -1) | (y >= limit)
    if bool(wrong.any()):
        node = int(wrong.nonzero()[0])
        known = f"the {num_classes} classes are" if declared is not None else "classes are numbered"
        raise ValueError(
            f"data.y has label {int(y[node])} at node {node}, but {known} 0..{limit - 1}: "
            "give labels in that range, -1 for none"
        )
    if not bool((y >= 0).any()):
        raise ValueError("data.y has no label of 0 or more: label at least one node")
    if num_classes == 1:
        # Nothing can be learned, and measures such as the entropy over its largest value are 0 / 0.
        raise ValueError(
            "data.y has a single class: classification takes two or more; where another one has "
            "no labelled node, set data.num_classes"
        )
    return num_classes


def _check_masks(data: Data) -> None:
    present = [name for name in MASKS if data.get(name) is not None]
    if present and len(present) < len(MASKS):
        missing = ", ".join(f"data.{name}" for name in MASKS if name not in present)
        raise ValueError(f"data.{present[0]} is given without {missing}: give all three or none")
    for name in present:
        mask, first = data[name], data[present[0]]
        if (
            not isinstance(mask, Tensor)
            or mask.dtype != torch.bool
            or mask.dim() not in (1, 2)
            or mask.shape[0] != data.y.shape[0]
            or mask.shape != first.shape
            or 0 in mask.shape
        ):
            raise ValueError(
                f"data.{name} has shape {tuple(getattr(mask, 'shape', ()))} and type "
                f"{getattr(mask, 'dtype', type(mask))}: give booleans [{data.y.shape[0]}], or "
                f"[{data.y.shape[0]}, splits], the same for all three masks"
            )
        used = mask if mask.dim() == 1 else mask.any(dim=1)
        unlabelled = used & ~is_labelled(data.y)
        if bool(unlabelled.any()):
            raise ValueError(
                f"data.{name} contains node {int(unlabelled.nonzero()[0])}, which has no label "
                "(y is -1 or NaN): a node without label is neither trained nor scored on, take it "
                "out"
            )


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
