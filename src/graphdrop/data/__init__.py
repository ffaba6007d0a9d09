"""Datasets, their sources, splits and out-of-distribution variants."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.data.dataset import Dataset, load_dataset

__all__ = ["Dataset", "load_dataset"]


def __getattr__(name: str) -> object:
    # Imported when asked for: the list of known files needs neither torch nor PyG.
    if name in __all__:
        from graphdrop.data import dataset  # noqa: PLC0415

        return getattr(dataset, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
