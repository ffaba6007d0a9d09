"""Channels and rules: which features share a draw, and how a draw becomes a multiplier.

They are named tuples, because Numba compiles separate code for each type of named tuple.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphdrop.kernels.tiles import LANES

MAX_BLOCKS = 2 * LANES  # what one vector of lanes can serve


class Shared(NamedTuple):
    """All features of an edge share draw 0."""

    unused: Any


class OneBlock(NamedTuple):
    """The whole tile lies in block ``first``, one of at most 16."""

    first: Any


class TwoBlocks(NamedTuple):
    """Two blocks share the tile evenly, from block ``first``."""

    first: Any


class FourBlocks(NamedTuple):
    """Four blocks share the tile evenly, from block ``first``."""

    first: Any


class EightBlocks(NamedTuple):
    """Eight blocks share the tile evenly, from block ``first``."""

    first: Any


EVEN_BLOCKS: dict[int, type] = {1: OneBlock, 2: TwoBlocks, 4: FourBlocks, 8: EightBlocks}
"""Separate types, because the code depends on the number of blocks."""


class Blocks(NamedTuple):
    """Blocks of whole vectors, at most ``MAX_BLOCKS``: each vector of features has one draw."""

    count: Any
    of_vector: Any


class Features(NamedTuple):
    """Every feature has its own draw; one lane serves two."""

    unused: Any


class Lanes(NamedTuple):
    """Any other blocks: the lane counter and the half of the lane of each feature."""

    counter: Any
    shift: Any


class Constant(NamedTuple):
    """Multiply by a constant."""

    scale: Any


class ConstantPerEdge(NamedTuple):
    """Multiply by a constant per edge."""

    scale: Any


class Hard(NamedTuple):
    """Multiply by ``above`` where a draw reaches the threshold, else by ``below``."""

    threshold: Any
    above: Any
    below: Any


class HardPerEdge(NamedTuple):
    """The same with a threshold for every edge."""

    threshold: Any
    above: Any
    below: Any


class Concrete(NamedTuple):
    """Multiply by the table's entry for a draw without its ``shift`` lowest bits.

    Where the slope is wanted too, the table holds ``z`` up to one half and ``z - 1`` above: a
    float32 near 1 has forgotten ``1 - z``, of which the slope is made.
    """

    table: Any
    shift: Any


class ConcretePerSample(NamedTuple):
    """The same with a table for every sample, one after the other."""

    table: Any
    shift: Any


class ConcretePerEdge(NamedTuple):
    """Multiply by ``1 / (1 + odds[edge] * table[draw])``.

    The table has an entry for the top bits of a draw and, after these, one for every draw: an edge
    whose ``whole`` is 1 reads the latter.
    """

    table: Any
    odds: Any
    whole: Any
