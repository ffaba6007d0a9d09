"""A graph on disk: memory-mapped arrays that open at once and are shared between processes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.data.store.converting import convert, write_store
    from graphdrop.data.store.store import Store, is_store, stored_checksum

__all__ = ["Store", "convert", "is_store", "stored_checksum", "write_store"]


def __getattr__(name: str) -> object:
    # Imported when asked for: the list of known files needs neither torch nor PyG.
    if name in __all__:
        from graphdrop.data.store import converting, store  # noqa: PLC0415

        return getattr(store if hasattr(store, name) else converting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
