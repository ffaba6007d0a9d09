"""The graph that a run reads, loaded as its settings say."""

from __future__ import annotations

from pathlib import Path

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
