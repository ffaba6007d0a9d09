"""The graph that a run reads: loaded as its settings say, its features as they want them."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.config import DataSettings
from graphdrop.data import Dataset, load_dataset
from graphdrop.data.sources import find_source


def load_for(settings: DataSettings) -> Dataset:
    """The dataset that the settings name, with its split."""
    return load_dataset(
        settings.dataset, settings.root or None, settings.split, settings.split_seed
    )


def check_name(dataset: Dataset, settings: DataSettings) -> None:
    """Refuse a graph that the settings call otherwise: its recipe would be that of another."""
    source = find_source(settings.dataset)
    name = source.name if source else Path(settings.dataset).stem
    if dataset.name != name:
        raise ValueError(
            f"dataset is {dataset.name!r} and data.dataset {settings.dataset!r}: settings depend "
            f"on the data, so give Config(data={{'dataset': {dataset.name!r}}}, ...)"
        )


def prepared(data: Data, settings: DataSettings) -> Data:
    """The same graph, with its features as stored or with rows that sum to 1."""
    if settings.features == "stored":
        return data
    data = copy.copy(data)
    data.x = row_normalized(data.x)
    return data


def row_normalized(x: Tensor) -> Tensor:
    """Every row divided by its sum; a row whose sum is not above 0 stays as it is."""
    if x.layout is torch.strided:
        return x / _divisor(x.sum(1))[:, None]
    x = x.to_sparse_csr()
    length = x.crow_indices().diff()
    row = torch.arange(x.shape[0]).repeat_interleave(length)
    total = torch.zeros(x.shape[0], dtype=x.dtype).index_add_(0, row, x.values())
    values = x.values() / _divisor(total)[row]
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=True
    )


def _divisor(total: Tensor) -> Tensor:
    return torch.where(total > 0.0, total, 1.0)
