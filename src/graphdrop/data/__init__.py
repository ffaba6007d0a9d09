"""Datasets, their sources, splits and out-of-distribution variants."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.data.dataset import Dataset, load_dataset
    from graphdrop.data.tables import from_networkx, from_pandas, load_tables

__all__ = ["Dataset", "from_networkx", "from_pandas", "load_dataset", "load_tables"]


def __getattr__(name: str) -> object:
    # Imported when asked for: the list of known files needs neither torch nor PyG.
    if name in __all__:
        from graphdrop.data import dataset, tables  # noqa: PLC0415

        return getattr(dataset if hasattr(dataset, name) else tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
