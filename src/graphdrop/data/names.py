"""``Names``: what nodes and classes are called outside the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Names:
    """The ids of nodes and the names of classes; a PyG ``Data`` carries it as ``data.names``.

    Nodes of a table are sorted by id, so that the graph does not depend on the order of rows;
    ``rows`` says where each of them stands in the table, and ``order`` puts answers in its order.

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
    rows: Tensor | None = field(default=None, compare=False)
    """The row of every node in its table, ``[n]``; ``None`` where nodes have the order of rows."""

    @property
    def order(self) -> Tensor | None:
        """The nodes in the order of the table's rows, ``[n]``; ``None`` if they are in that order.

        ``answer.probabilities[names.order]`` has a row for each row of the table.
        """
        return None if self.rows is None else self.rows.argsort()

    @classmethod
    def of(cls, data: Any) -> Names:
        """Those that a ``Data`` carries, as far as they fit its number of nodes."""
        names = getattr(data, "names", None)
        if not isinstance(names, Names):
            return cls()
        known = names.ids if names.rows is None else names.rows
        if known is not None and len(known) != len(data.x):
            return cls(None, names.classes)
        return names

    def __repr__(self) -> str:
        """The numbers of ids and classes; thousands of names would hide the rest of a ``Data``."""
        ids, classes = (None if names is None else len(names) for names in (self.ids, self.classes))
        return f"Names({ids} ids, {classes} classes)"

    def node(self, number: int) -> str:
        """The id of a node, or else the number of its row in its table."""
        if self.ids is not None:
            return self.ids[number]
        return str(number if self.rows is None else int(self.rows[number]))

    def label(self, number: int) -> str:
        """The name of a class; empty for -1, no label."""
        if number < 0:
            return ""
        known = self.classes is not None and number < len(self.classes)
        return self.classes[number] if self.classes is not None and known else str(number)
