"""A graph on disk: memory-mapped arrays that open at once and are shared between processes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.data.store.converting import convert
    from graphdrop.data.store.store import Store, is_store, stored_checksum
    from graphdrop.data.store.writing import write_store

__all__ = ["Store", "convert", "is_store", "stored_checksum", "write_store"]


def __getattr__(name: str) -> object:
    # Imported when asked for: the list of known files needs neither torch nor PyG.
    if name in __all__:
        from graphdrop.data.store import converting, store, writing  # noqa: PLC0415

        return next(
            getattr(part, name) for part in (converting, store, writing) if name in vars(part)
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
