"""Multipliers of connections: the values of a mask from draws, in vector code.

The code is picked from the *types* of two named tuples: the channel (which features share a draw)
and the rule (how a draw becomes a multiplier). Numba compiles separate code for each type, so that
nothing is decided inside the loop over edges.
"""

# ruff: noqa: ARG001, PLR0917 - the typing half of an intrinsic names arguments it does not read

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from graphdrop.graph.masks import DRAW_BITS, TABLE_BITS
from graphdrop.kernels.tiles import (
    F32,
    I1,
    I16,
    I32,
    I64,
    constants,
    counters,
    data_pointer,
    fma,
    halves,
    lane_words,
    load_tile,
    scratch,
    splat,
    store_vector,
    take,
    vector,
)


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


def _look_up(
    builder: ir.IRBuilder, table: ir.Value, indices: ir.Value, order: Sequence[int]
) -> Any:
    """``table[index]`` for 16-bit indices packed in a vector, in the given order.

    The indices go through the stack: a narrow load is cheaper than taking a lane out of a vector
    register. The empty assembly keeps LLVM from undoing that.
    """
    buffer = scratch(builder, I16, indices.type.count * (indices.type.element.width // 16))
    store_vector(builder, indices, buffer, align=64)
    barrier = ir.FunctionType(ir.VoidType(), [buffer.type])
    builder.asm(barrier, "", "r,~{memory}", [buffer], True)
    values = ir.Constant(vector(F32, len(order)), ir.Undefined)
    for lane, position in enumerate(order):
        index = builder.zext(builder.load(builder.gep(buffer, [I64(position)])), I64)
        value = builder.load(builder.gep(table, [index]))
        values = builder.insert_element(values, value, I32(lane))
    return values


class _Emitter:
    """Emits the multiplier of one edge for one tile."""

    def __init__(
        self, context: Any, builder: ir.IRBuilder, kinds: Any, values: Any, signed: bool = False
    ) -> None:
        self.builder, self.signed = builder, signed
        channel, rule = kinds
        self.channel, self.rule = channel.instance_class, rule.instance_class
        for part, kind, value in zip(("channel", "rule"), kinds, values, strict=True):
            fields = dict(zip(kind.fields, cgutils.unpack_tuple(builder, value), strict=True))
            for name, field_kind in zip(kind.fields, kind.types, strict=True):
                if isinstance(field_kind, types.Array):
                    fields[name] = data_pointer(context, builder, field_kind, fields[name])
            setattr(self, f"{part}_fields", fields)

    channel_fields: dict[str, Any]
    rule_fields: dict[str, Any]
    table: Any
    shift: Any

    def multiplier(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        """A number for each of the equal parts of the tile: one, one per block or feature."""
        if self.rule is Constant:
            return splat(self.builder, self.rule_fields["scale"], 1)
        if self.rule is ConstantPerEdge:
            return splat(self.builder, self._per_edge("scale", edge), 1)
        if self._relaxed:
            self._find_table(edge)
        emit = {Features: self._features, Lanes: self._lanes}.get(self.channel, self._even_blocks)
        return emit(bits, edge, start, width)

    @property
    def _relaxed(self) -> bool:
        return self.rule in (Concrete, ConcretePerSample, ConcretePerEdge)

    def _find_table(self, edge: Any) -> None:
        """The offset of the table of this edge or sample, and the bits of a draw that it reads."""
        builder, table = self.builder, self.rule_fields["table"]
        if self.rule is ConcretePerEdge:
            whole = builder.trunc(self._per_edge("whole", edge), I1)
            self.shift = builder.select(whole, I32(0), I32(DRAW_BITS - TABLE_BITS))
            first = builder.select(whole, I64(1 << TABLE_BITS), I64(0))
        else:
            self.shift = builder.trunc(self.rule_fields["shift"], I32)
            first = I64(0)
        if self.rule is ConcretePerSample:  # the sample's number stands where the edge's does
            size = builder.lshr(I32(1 << DRAW_BITS), self.shift)
            first = builder.mul(edge, builder.zext(size, I64))
        self.table = builder.gep(table, [first])

    def _shifted(self, words: Any) -> Any:
        """Without the bits of a draw that the table does not read."""
        return self.builder.lshr(words, splat(self.builder, self.shift, words.type.count))

    def _per_edge(self, field: str, edge: Any) -> Any:
        return self.builder.load(self.builder.gep(self.rule_fields[field], [edge]))

    def _threshold(self, edge: Any) -> Any:
        if self.rule is HardPerEdge:
            return self._per_edge("threshold", edge)
        return self.builder.trunc(self.rule_fields["threshold"], I32)

    def _choose(self, draws: Any, edge: Any) -> Any:
        """A hard multiplier for a vector of draws."""
        width = draws.type.count
        threshold, above, below = (
            splat(self.builder, value, width)
            for value in (
                self._threshold(edge),
                self.rule_fields["above"],
                self.rule_fields["below"],
            )
        )
        return self.builder.select(self.builder.icmp_unsigned(">=", draws, threshold), above, below)

    def _relax(self, entries: Any, edge: Any) -> Any:
        """A concrete multiplier from table entries."""
        if self.rule is not ConcretePerEdge:
            return entries
        width = entries.type.count
        one = constants(F32, [1.0] * width)
        ratio = self.builder.fmul(splat(self.builder, self._per_edge("odds", edge), width), entries)
        kept = self.builder.fdiv(one, self.builder.fadd(one, ratio))
        if not self.signed:
            return kept
        dropped = self.builder.fneg(self.builder.fmul(ratio, kept))
        return self.builder.select(self.builder.fcmp_ordered(">=", ratio, one), kept, dropped)

    def _even_blocks(self, bits: Any, edge: Any, _start: Any, _width: int) -> Any:
        """Multipliers from the low halves of a few lanes, looked up one by one."""
        builder = self.builder
        count = next(size for size, kind in EVEN_BLOCKS.items() if kind is self.channel)
        words = lane_words(builder, bits, counters(count), self.channel_fields["first"])
        draws = builder.and_(words, constants(I32, [0xFFFF] * count))
        if not self._relaxed:
            return self._choose(draws, edge)
        entries = ir.Constant(vector(F32, count), ir.Undefined)
        for lane in range(count):
            draw = builder.extract_element(draws, I32(lane))
            index = builder.zext(builder.lshr(draw, self.shift), I64)
            entry = builder.load(builder.gep(self.table, [index]))
            entries = builder.insert_element(entries, entry, I32(lane))
        return self._relax(entries, edge)

    def _features(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        builder = self.builder
        lanes = (width + 31) // 32 * 16
        # a tile starts at a multiple of 32 features, which is 16 lanes
        skipped = builder.sdiv(start, I64(2))
        words = lane_words(builder, bits, counters(lanes), skipped)
        if not self._relaxed:
            return self._choose(halves(builder, words, width), edge)
        # both halves of a lane at once: what one loses at its low end must not enter the other
        read = builder.mul(builder.lshr(I32(0xFFFF), self.shift), I32(0x10001))
        packed = builder.and_(self._shifted(words), splat(builder, read, lanes))
        order = [2 * (draw // 32 * 16 + draw % 16) + draw // 16 % 2 for draw in range(width)]
        return self._relax(_look_up(builder, self.table, packed, order), edge)

    def _lanes(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        builder = self.builder

        def load(field: str) -> Any:
            pointer = builder.gep(self.channel_fields[field], [start])
            return builder.load(builder.bitcast(pointer, vector(I32, width).as_pointer()), align=4)

        words = builder.lshr(lane_words(builder, bits, load("counter")), load("shift"))
        draws = builder.and_(words, constants(I32, [0xFFFF] * width))
        if not self._relaxed:
            return self._choose(draws, edge)
        indices = self._shifted(draws)
        # little-endian: the low half of each 32-bit index comes first
        order = [2 * lane for lane in range(width)]
        return self._relax(_look_up(builder, self.table, indices, order), edge)


def _scaled(builder: ir.IRBuilder, weight: Any, multiplier: Any, width: int) -> Any:
    """``weight * multiplier`` as a vector of ``width``, each number over its part of the tile."""
    count = multiplier.type.count
    product = builder.fmul(splat(builder, weight, count), multiplier)
    return take(builder, product, product, [lane * count // width for lane in range(width)])


def _decode(builder: ir.IRBuilder, signed: Any) -> tuple[Any, Any]:
    """``z`` and ``z (1 - z)`` from signed table entries, both to full precision."""
    width = signed.type.count
    one, zero = constants(F32, [1.0] * width), constants(I32, [0] * width)
    # by the sign bit: -0 is a connection that is kept for certain
    negative = builder.icmp_signed("<", builder.bitcast(signed, zero.type), zero)
    kept = builder.select(negative, builder.fadd(one, signed), signed)
    smaller = builder.select(negative, builder.fneg(signed), signed)
    return kept, builder.fmul(smaller, builder.fsub(one, smaller))


@intrinsic  # type: ignore[untyped-decorator]
def is_per_edge(_typing: Any, rule: Any) -> Any:
    """Whether the rule has a keep logit for every edge; known when a kernel is compiled."""

    def emit(*_: Any) -> Any:
        return I1(rule.instance_class is ConcretePerEdge)

    return types.boolean(rule), emit


@intrinsic  # type: ignore[untyped-decorator]
def accumulate(
    _typing: Any,
    tile: Any,
    array: Any,
    offset: Any,
    tail: Any,
    weight: Any,
    bits: Any,
    edge: Any,
    start: Any,
    channel: Any,
    rule: Any,
) -> Any:
    """``tile + weight * mask * row``; the row starts at ``offset`` of ``array``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, array_value, offset, tail, weight, bits, edge, start, *tuples = arguments
        base = data_pointer(context, builder, signature.args[1], array_value)
        row = load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[8:], tuples)
        multiplier = emitter.multiplier(bits, edge, start, tile.width)
        return fma(builder, _scaled(builder, weight, multiplier, tile.width), row, value)

    return tile(
        tile,
        array,
        types.intp,
        types.intp,
        types.float32,
        types.uint64,
        types.intp,
        types.intp,
        channel,
        rule,
    ), emit


@intrinsic  # type: ignore[untyped-decorator]
def accumulate_slope(
    _typing: Any,
    tile: Any,
    slope: Any,
    array: Any,
    offset: Any,
    tail: Any,
    weight: Any,
    bits: Any,
    edge: Any,
    start: Any,
    channel: Any,
    rule: Any,
) -> Any:
    """As ``accumulate``, and ``slope + weight * z (1 - z) * row`` for a concrete mask ``z``."""
    pair = types.UniTuple(tile, 2)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, slope_value, array_value, offset, tail, weight, bits, edge, start, *tuples = (
            arguments
        )
        base = data_pointer(context, builder, signature.args[2], array_value)
        row = load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[9:], tuples, signed=True)
        signed = emitter.multiplier(bits, edge, start, tile.width)
        kept, derivative = _decode(builder, signed)
        scaled = _scaled(builder, weight, kept, tile.width)
        steep = _scaled(builder, weight, derivative, tile.width)
        return context.make_tuple(
            builder,
            pair,
            (fma(builder, scaled, row, value), fma(builder, steep, row, slope_value)),
        )

    return pair(
        tile,
        slope,
        array,
        types.intp,
        types.intp,
        types.float32,
        types.uint64,
        types.intp,
        types.intp,
        channel,
        rule,
    ), emit
