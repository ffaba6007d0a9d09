"""``Names``: what nodes and classes are called outside the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Names:
    """The ids of nodes and the names of classes; a PyG ``Data`` carries it as ``data.names``.

    One object and not two lists: PyG's loaders take a list of the length of the nodes for features
    that they should slice.

    Example:
        >>> names = Names(ids=("ann", "bob"), classes=("reader", "writer"))
        >>> names.node(1), names.label(0), names.label(-1), Names().node(1), Names().label(0)
        ('bob', 'reader', '', '1', '0')
    """

    ids: tuple[str, ...] | None = None
    """The id of every node; ``None`` where they are numbered from 0."""
    classes: tuple[str, ...] | None = None
    """The name of every class; ``None`` where they are numbered from 0."""

    @classmethod
    def of(cls, data: Any) -> Names:
        """Those that a ``Data`` carries, as far as they fit its number of nodes."""
        names = getattr(data, "names", None)
        if not isinstance(names, Names):
            return cls()
        if names.ids is not None and len(names.ids) != len(data.x):
            return cls(None, names.classes)
        return names

    def __repr__(self) -> str:
        """The numbers of ids and classes; thousands of names would hide the rest of a ``Data``."""
        ids, classes = (None if names is None else len(names) for names in (self.ids, self.classes))
        return f"Names({ids} ids, {classes} classes)"

    def node(self, number: int) -> str:
        """The id of a node."""
        return str(number) if self.ids is None else self.ids[number]

    def label(self, number: int) -> str:
        """The name of a class; empty for -1, no label."""
        if number < 0:
            return ""
        known = self.classes is not None and number < len(self.classes)
        return self.classes[number] if self.classes is not None and known else str(number)
