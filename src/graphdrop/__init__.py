"""Learnable connection sampling and uncertainty for graph neural networks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.data import Dataset, load_dataset

__all__ = ["Dataset", "__version__", "load_dataset"]
__version__ = "0.1.0"

_HOME = {"Dataset": "graphdrop.data", "load_dataset": "graphdrop.data"}


def __getattr__(name: str) -> object:
    # Public names are imported when first used, so that `import graphdrop` stays light.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
