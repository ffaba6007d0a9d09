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


EVEN_BLOCKS: dict[type, int] = {OneBlock: 1, TwoBlocks: 2, FourBlocks: 4, EightBlocks: 8}
"""Separate types, because the code depends on the number of blocks."""


class Features(NamedTuple):
    """Every feature has its own draw; one lane serves two."""

    unused: Any


class Lanes(NamedTuple):
    """Any other blocks: the lane counter of each feature, and the shift to its half of the lane."""

    counter: Any
    half: Any


class Constant(NamedTuple):
    """Multiply by a constant."""

    factor: Any


class ConstantPerEdge(NamedTuple):
    """Multiply by a constant per edge."""

    factor: Any


class Hard(NamedTuple):
    """Multiply by ``above`` where a draw reaches the threshold, else by ``below``."""

    threshold: Any
    above: Any
    below: Any


class HardPerEdge(NamedTuple):
    """The same with a threshold for every edge, or for every sample."""

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
    """Emits the multiplier of one edge for one tile.

    ``entry`` is where the arrays of a rule are read: at the number of the edge or of the sample.
    """

    def __init__(
        self,
        context: Any,
        builder: ir.IRBuilder,
        kinds: Any,
        values: Any,
        entry: Any,
        signed: bool = False,
    ) -> None:
        self.builder, self.entry, self.signed = builder, entry, signed
        channel, rule = kinds
        self.channel, self.rule = channel.instance_class, rule.instance_class
        self.fields: dict[str, Any] = {}
        for kind, value in zip(kinds, values, strict=True):
            parts = cgutils.unpack_tuple(builder, value)
            for name, field_kind, part in zip(kind.fields, kind.types, parts, strict=True):
                is_array = isinstance(field_kind, types.Array)
                self.fields[name] = (
                    data_pointer(context, builder, field_kind, part) if is_array else part
                )
        self.blocks = EVEN_BLOCKS.get(self.channel, 0)

    def multiplier(self, bits: Any, start: Any, width: int) -> Any:
        """A number for each of the equal parts of the tile: one, one per block or feature."""
        builder = self.builder
        if self.rule in (Constant, ConstantPerEdge):
            return splat(builder, self._read("factor"), 1)
        if self.channel is Features:
            return self._features(bits, start, width)
        if self.blocks:
            words = lane_words(builder, bits, counters(self.blocks), self.fields["first"])
        else:
            counter, half = (self._load(field, start, width) for field in ("counter", "half"))
            words = builder.lshr(lane_words(builder, bits, counter), half)
        draws = builder.and_(words, constants(I32, [0xFFFF] * words.type.count))
        if self.rule in (Hard, HardPerEdge):
            return self._choose(draws)
        table, shift = self._find_table()
        indices = builder.lshr(draws, splat(builder, shift, draws.type.count))
        if self.channel is Lanes:
            # little-endian: the low half of each 32-bit index comes first
            return self._relax(
                _look_up(builder, table, indices, [2 * lane for lane in range(width)])
            )
        entries = ir.Constant(vector(F32, self.blocks), ir.Undefined)
        for lane in range(self.blocks):
            index = builder.zext(builder.extract_element(indices, I32(lane)), I64)
            entry = builder.load(builder.gep(table, [index]))
            entries = builder.insert_element(entries, entry, I32(lane))
        return self._relax(entries)

    def _features(self, bits: Any, start: Any, width: int) -> Any:
        builder = self.builder
        lanes = (width + 31) // 32 * 16
        # a tile starts at a multiple of 32 features, which is 16 lanes
        words = lane_words(builder, bits, counters(lanes), builder.sdiv(start, I64(2)))
        if self.rule in (Hard, HardPerEdge):
            return self._choose(halves(builder, words, width))
        table, shift = self._find_table()
        # both halves of a lane at once: what one loses at its low end must not enter the other
        read = builder.mul(builder.lshr(I32(0xFFFF), shift), I32(0x10001))
        packed = builder.and_(
            builder.lshr(words, splat(builder, shift, lanes)), splat(builder, read, lanes)
        )
        order = [2 * (draw // 32 * 16 + draw % 16) + draw // 16 % 2 for draw in range(width)]
        return self._relax(_look_up(builder, table, packed, order))

    def _read(self, field: str) -> Any:
        """A number of the rule, or the one of this edge or sample."""
        found = self.fields[field]
        if isinstance(found.type, ir.PointerType):
            found = self.builder.load(self.builder.gep(found, [self.entry]))
        return found

    def _load(self, field: str, start: Any, width: int) -> Any:
        pointer = self.builder.gep(self.fields[field], [start])
        kind = vector(I32, width).as_pointer()
        return self.builder.load(self.builder.bitcast(pointer, kind), align=4)

    def _find_table(self) -> tuple[Any, Any]:
        """The table of this edge or sample, and the bits of a draw that it does not read."""
        builder, table = self.builder, self.fields["table"]
        if self.rule is ConcretePerEdge:
            whole = builder.trunc(self._read("whole"), I1)
            shift = builder.select(whole, I32(0), I32(DRAW_BITS - TABLE_BITS))
            first = builder.select(whole, I64(1 << TABLE_BITS), I64(0))
        else:
            shift, first = builder.trunc(self.fields["shift"], I32), I64(0)
        if self.rule is ConcretePerSample:
            size = builder.lshr(I32(1 << DRAW_BITS), shift)
            first = builder.mul(self.entry, builder.zext(size, I64))
        return builder.gep(table, [first]), shift

    def _choose(self, draws: Any) -> Any:
        """A hard multiplier for a vector of draws."""
        threshold = self._read("threshold")
        if self.rule is Hard:
            threshold = self.builder.trunc(threshold, I32)
        numbers = threshold, self.fields["above"], self.fields["below"]
        threshold, above, below = (
            splat(self.builder, number, draws.type.count) for number in numbers
        )
        return self.builder.select(self.builder.icmp_unsigned(">=", draws, threshold), above, below)

    def _relax(self, entries: Any) -> Any:
        """A concrete multiplier from table entries."""
        if self.rule is not ConcretePerEdge:
            return entries
        width = entries.type.count
        one = constants(F32, [1.0] * width)
        ratio = self.builder.fmul(splat(self.builder, self._read("odds"), width), entries)
        kept = self.builder.fdiv(one, self.builder.fadd(one, ratio))
        if not self.signed:
            return kept
        dropped = self.builder.fneg(self.builder.fmul(ratio, kept))
        return self.builder.select(self.builder.fcmp_ordered(">=", ratio, one), kept, dropped)


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
    entry: Any,
    start: Any,
    channel: Any,
    rule: Any,
) -> Any:
    """``tile + weight * mask * row``; the row starts at ``offset`` of ``array``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, array_value, offset, tail, weight, bits, entry, start, *tuples = arguments
        base = data_pointer(context, builder, signature.args[1], array_value)
        row = load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[8:], tuples, entry)
        multiplier = emitter.multiplier(bits, start, tile.width)
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
    entry: Any,
    start: Any,
    channel: Any,
    rule: Any,
) -> Any:
    """As ``accumulate``, and ``slope + weight * z (1 - z) * row`` for a concrete mask ``z``."""
    pair = types.UniTuple(tile, 2)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, slope_value, array_value, offset, tail, weight, bits, entry, start, *tuples = (
            arguments
        )
        base = data_pointer(context, builder, signature.args[2], array_value)
        row = load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[9:], tuples, entry, signed=True)
        signed = emitter.multiplier(bits, start, tile.width)
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
