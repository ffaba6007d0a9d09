"""Vector code for the fused kernel: a tile of features held in registers, as Numba intrinsics.

Numba's own loops over features leave two things on the table: it widens 32-bit integers to 64
bits, which halves the lanes, and it keeps the running sum of a row in memory. Here a tile is one
wide LLVM vector (16 to 128 floats), so LLVM splits it into whatever registers the host has.

An intrinsic picks its code from the *types* of two named tuples: the channel (which features
share a draw) and the rule (how a draw becomes a multiplier). Everything is resolved when the
kernel is compiled; nothing is decided inside the loop over edges.
"""

# ruff: noqa: ARG001, PLR0917 - the typing half of an intrinsic names arguments it does not read

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from graphdrop.draws import DRAW_BITS, LANE_INCREMENT, LANE_MULTIPLIERS, MASK32, TABLE_BITS

LANES = 16
MAX_VECTORS = 8
MAX_BLOCKS = 2 * LANES  # what one vector of lanes can serve

F32, I1, I16, I32, I64 = ir.FloatType(), *(ir.IntType(bits) for bits in (1, 16, 32, 64))


class Shared(NamedTuple):
    """All features of an edge share draw 0."""

    unused: Any


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


class NoMask(NamedTuple):
    """Every connection is kept."""

    unused: Any


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
    """Multiply by the table's entry for the top bits of a draw.

    Where the slope is wanted too, the table holds ``z`` up to one half and ``z - 1`` above: a
    float32 near 1 has forgotten ``1 - z``, of which the slope is made.
    """

    table: Any


class ConcretePerEdge(NamedTuple):
    """Multiply by ``1 / (1 + odds[edge] * table[draw])``."""

    table: Any
    odds: Any


class Tile(types.Type):  # type: ignore[misc]
    """``width`` floats of one row, in registers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Tile({width})")


@register_model(Tile)
class _TileModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, _vector(F32, tile.width))


def _vector(element: ir.Type, width: int) -> ir.VectorType:
    return ir.VectorType(element, width)


def _constants(element: ir.Type, values: Sequence[int | float]) -> ir.Constant:
    return ir.Constant(_vector(element, len(values)), list(values))


def _splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    undefined = ir.Constant(_vector(scalar.type, width), ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, _constants(I32, [0] * width))


def _take(builder: ir.IRBuilder, first: ir.Value, second: ir.Value, order: Sequence[int]) -> Any:
    return builder.shuffle_vector(first, second, _constants(I32, order))


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _pointer(context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value) -> ir.Value:
    return context.make_array(kind)(context, builder, array).data


def _scratch(builder: ir.IRBuilder, element: ir.Type, count: int) -> ir.Value:
    """A buffer on the stack, made once per function."""
    with builder.goto_entry_block():
        buffer = builder.alloca(ir.ArrayType(element, count))
        buffer.align = 64
    return builder.bitcast(buffer, element.as_pointer())


def _store_vector(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, align: int) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return _call(builder, f"llvm.fma.v{a.type.count}f32", a.type, a, b, c)


def _tail_mask(builder: ir.IRBuilder, tail: ir.Value) -> ir.Value:
    index = _constants(I32, range(LANES))
    return builder.icmp_signed("<", index, _splat(builder, builder.trunc(tail, I32), LANES))


def _load_tile(builder: ir.IRBuilder, pointer: ir.Value, width: int, tail: ir.Value) -> ir.Value:
    """``width`` floats, of the last vector only ``tail``: a row may end at the end of memory."""
    last = builder.bitcast(
        builder.gep(pointer, [I64(width - LANES)]), _vector(F32, LANES).as_pointer()
    )
    zero = _constants(F32, [0.0] * LANES)
    mask = _tail_mask(builder, tail)
    end = _call(builder, "llvm.masked.load.v16f32.p0", zero.type, last, I32(4), mask, zero)
    if width == LANES:
        return end
    head = width - LANES
    start = builder.load(builder.bitcast(pointer, _vector(F32, head).as_pointer()), align=4)
    # widen the shorter operand: a shuffle takes two vectors of one type
    padding = ir.Constant(end.type, ir.Undefined)
    widened = _take(builder, end, padding, [min(lane, LANES) for lane in range(head)])
    order = [*range(head), *range(head, head + LANES)]
    return _take(builder, start, widened, order)


def _lane_words(
    builder: ir.IRBuilder, bits: ir.Value, counters: ir.Value, skipped: ir.Value | None = None
) -> ir.Value:
    """The 32-bit lanes of an edge's stream (``draws.lane``), one per counter."""
    width = counters.type.count
    low = builder.trunc(bits, I32)
    high = builder.trunc(builder.lshr(bits, I64(32)), I32)
    if skipped is not None:
        low = builder.add(low, builder.mul(builder.trunc(skipped, I32), I32(LANE_INCREMENT)))

    def fold(word: ir.Value, shift: int) -> ir.Value:
        return builder.xor(word, builder.lshr(word, _constants(I32, [shift] * width)))

    first, second = (_constants(I32, [factor] * width) for factor in LANE_MULTIPLIERS)
    word = builder.add(_splat(builder, low, width), counters)
    word = builder.mul(fold(word, 16), first)
    word = builder.xor(word, _splat(builder, high, width))
    word = builder.mul(fold(word, 15), second)
    return fold(word, 15)


def _counters(count: int) -> ir.Constant:
    return _constants(I32, [lane * LANE_INCREMENT & MASK32 for lane in range(count)])


def _halves(builder: ir.IRBuilder, words: ir.Value, draws: int) -> ir.Value:
    """The first ``draws`` 16-bit draws of a vector of lanes, in the order of ``draw_bits``."""
    count = words.type.count
    low = builder.and_(words, _constants(I32, [0xFFFF] * count))
    high = builder.lshr(words, _constants(I32, [DRAW_BITS] * count))
    order = [draw // 32 * 16 + draw % 16 + draw // 16 % 2 * count for draw in range(draws)]
    return _take(builder, low, high, order)


def _look_up(
    builder: ir.IRBuilder, table: ir.Value, indices: ir.Value, order: Sequence[int]
) -> Any:
    """``table[index]`` for 16-bit indices packed in a vector, in the given order.

    The indices go through the stack: a narrow load is cheaper than taking a lane out of a vector
    register. The empty assembly keeps LLVM from undoing that.
    """
    buffer = _scratch(builder, I16, indices.type.count * (indices.type.element.width // 16))
    _store_vector(builder, indices, buffer, align=64)
    barrier = ir.FunctionType(ir.VoidType(), [buffer.type])
    builder.asm(barrier, "", "r,~{memory}", [buffer], True)
    values = ir.Constant(_vector(F32, len(order)), ir.Undefined)
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
                    fields[name] = _pointer(context, builder, field_kind, fields[name])
            setattr(self, f"{part}_fields", fields)

    channel_fields: dict[str, Any]
    rule_fields: dict[str, Any]

    def multiplier(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        """A scalar where all features share a draw, a vector of ``width`` floats elsewhere."""
        if self.rule is NoMask:
            return F32(1.0)
        emit = {
            Shared: self._shared,
            Blocks: self._blocks,
            Features: self._features,
            Lanes: self._lanes,
        }[self.channel]
        return emit(bits, edge, start, width)

    @property
    def _relaxed(self) -> bool:
        return self.rule in (Concrete, ConcretePerEdge)

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
            _splat(self.builder, value, width)
            for value in (
                self._threshold(edge),
                self.rule_fields["above"],
                self.rule_fields["below"],
            )
        )
        return self.builder.select(self.builder.icmp_unsigned(">=", draws, threshold), above, below)

    def _relax(self, entries: Any, edge: Any) -> Any:
        """A concrete multiplier from table entries."""
        if self.rule is Concrete:
            return entries
        width = entries.type.count
        one = _constants(F32, [1.0] * width)
        ratio = self.builder.fmul(
            _splat(self.builder, self._per_edge("odds", edge), width), entries
        )
        kept = self.builder.fdiv(one, self.builder.fadd(one, ratio))
        if not self.signed:
            return kept
        dropped = self.builder.fneg(self.builder.fmul(ratio, kept))
        return self.builder.select(self.builder.fcmp_ordered(">=", ratio, one), kept, dropped)

    def _shared(self, bits: Any, edge: Any, _start: Any, _width: int) -> Any:
        builder = self.builder
        word = _lane_words(builder, bits, _constants(I32, [0]))
        draw = builder.and_(word, _constants(I32, [0xFFFF]))
        if not self._relaxed:
            return builder.extract_element(self._choose(draw, edge), I32(0))
        index = builder.lshr(builder.extract_element(draw, I32(0)), I32(DRAW_BITS - TABLE_BITS))
        entry = builder.load(builder.gep(self.rule_fields["table"], [builder.zext(index, I64)]))
        return builder.extract_element(self._relax(_splat(builder, entry, 1), edge), I32(0))

    def _blocks(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        builder = self.builder
        draws = _halves(builder, _lane_words(builder, bits, _counters(LANES)), MAX_BLOCKS)
        chosen = _scratch(builder, F32, MAX_BLOCKS)
        if not self._relaxed:
            _store_vector(builder, self._choose(draws, edge), chosen, align=64)
        else:
            shift = _constants(I32, [DRAW_BITS - TABLE_BITS] * MAX_BLOCKS)
            indices = _scratch(builder, I32, MAX_BLOCKS)
            _store_vector(builder, builder.lshr(draws, shift), indices, align=64)
            count = builder.trunc(self.channel_fields["count"], I64)
            with cgutils.for_range(builder, count) as loop:
                index = builder.load(builder.gep(indices, [loop.index]))
                entry = builder.load(
                    builder.gep(self.rule_fields["table"], [builder.zext(index, I64)])
                )
                value = builder.extract_element(
                    self._relax(_splat(builder, entry, 1), edge), I32(0)
                )
                builder.store(value, builder.gep(chosen, [loop.index]))
        first = builder.gep(self.channel_fields["of_vector"], [builder.sdiv(start, I64(LANES))])
        parts = []
        for vector in range(width // LANES):
            block = builder.sext(builder.load(builder.gep(first, [I64(vector)])), I64)
            scale = builder.load(builder.gep(chosen, [block]))
            parts.append(_splat(builder, scale, LANES))
        return _join(builder, parts)

    def _features(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        builder = self.builder
        lanes = (width + 31) // 32 * 16
        # a tile starts at a multiple of 32 features, which is 16 lanes
        skipped = builder.sdiv(start, I64(2))
        words = _lane_words(builder, bits, _counters(lanes), skipped)
        if not self._relaxed:
            return self._choose(_halves(builder, words, width), edge)
        top = DRAW_BITS - TABLE_BITS
        keep = (0xFFFF >> top) * 0x10001
        packed = builder.and_(
            builder.lshr(words, _constants(I32, [top] * lanes)), _constants(I32, [keep] * lanes)
        )
        order = [2 * (draw // 32 * 16 + draw % 16) + draw // 16 % 2 for draw in range(width)]
        return self._relax(_look_up(builder, self.rule_fields["table"], packed, order), edge)

    def _lanes(self, bits: Any, edge: Any, start: Any, width: int) -> Any:
        builder = self.builder

        def load(field: str) -> Any:
            pointer = builder.gep(self.channel_fields[field], [start])
            return builder.load(builder.bitcast(pointer, _vector(I32, width).as_pointer()), align=4)

        words = builder.lshr(_lane_words(builder, bits, load("counter")), load("shift"))
        draws = builder.and_(words, _constants(I32, [0xFFFF] * width))
        if not self._relaxed:
            return self._choose(draws, edge)
        indices = builder.lshr(draws, _constants(I32, [DRAW_BITS - TABLE_BITS] * width))
        # little-endian: the low half of each 32-bit index comes first
        order = [2 * lane for lane in range(width)]
        return self._relax(_look_up(builder, self.rule_fields["table"], indices, order), edge)


def _join(builder: ir.IRBuilder, parts: list[Any]) -> Any:
    while len(parts) > 1:
        size = parts[0].type.count
        parts = [
            _take(builder, parts[index], parts[index + 1], range(2 * size))
            for index in range(0, len(parts), 2)
        ]
    return parts[0]


def _scaled(builder: ir.IRBuilder, weight: Any, multiplier: Any, width: int) -> Any:
    """``weight * multiplier`` as a vector of ``width``."""
    if isinstance(multiplier.type, ir.VectorType):
        return builder.fmul(_splat(builder, weight, width), multiplier)
    return _splat(builder, builder.fmul(weight, multiplier), width)


def _decode(builder: ir.IRBuilder, signed: Any, width: int) -> tuple[Any, Any]:
    """``z`` and ``z (1 - z)`` from a signed table entry, both to full precision."""
    if not isinstance(signed.type, ir.VectorType):
        kept, slope = _decode(builder, _splat(builder, signed, 1), 1)
        return builder.extract_element(kept, I32(0)), builder.extract_element(slope, I32(0))
    one, zero = (_constants(F32, [value] * width) for value in (1.0, 0.0))
    negative = builder.fcmp_ordered("<", signed, zero)
    kept = builder.select(negative, builder.fadd(one, signed), signed)
    smaller = builder.select(negative, builder.fneg(signed), signed)
    return kept, builder.fmul(smaller, builder.fsub(one, smaller))


@intrinsic  # type: ignore[untyped-decorator]
def zeros(_typing: Any, vectors: Any) -> Any:
    """A tile of zeros; ``vectors`` is a tuple whose length is the number of vectors."""
    tile = Tile(LANES * vectors.count)

    def emit(*_: Any) -> Any:
        return _constants(F32, [0.0] * tile.width)

    return tile(vectors), emit


@intrinsic  # type: ignore[untyped-decorator]
def add(_typing: Any, first: Any, second: Any) -> Any:
    """The sum of two tiles."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return first(first, second), emit


@intrinsic  # type: ignore[untyped-decorator]
def store(_typing: Any, array: Any, offset: Any, tile: Any, tail: Any) -> Any:
    """Write a tile, of its last vector only ``tail`` floats."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_value, offset_value, value, tail_value = arguments
        base = _pointer(context, builder, signature.args[0], array_value)
        pointer = builder.gep(base, [offset_value])
        head = tile.width - LANES
        if head:
            _store_vector(builder, _take(builder, value, value, range(head)), pointer, align=4)
        end = _take(builder, value, value, range(head, tile.width))
        target = builder.bitcast(builder.gep(pointer, [I64(head)]), end.type.as_pointer())
        mask = _tail_mask(builder, tail_value)
        _call(builder, "llvm.masked.store.v16f32.p0", ir.VoidType(), end, target, I32(4), mask)
        return context.get_dummy_value()

    return types.void(array, types.intp, tile, types.intp), emit


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, array: Any, offset: Any, vectors: Any) -> Any:
    """Ask for a tile's cache lines; harmless anywhere."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = builder.gep(
            _pointer(context, builder, signature.args[0], arguments[0]), [arguments[1]]
        )
        for vector in range(vectors.count):
            line = builder.gep(base, [I64(LANES * vector)])
            address = builder.bitcast(line, ir.IntType(8).as_pointer())
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), address, I32(0), I32(3), I32(1))
        return context.get_dummy_value()

    return types.void(array, types.intp, vectors), emit


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
        base = _pointer(context, builder, signature.args[1], array_value)
        row = _load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[8:], tuples)
        multiplier = emitter.multiplier(bits, edge, start, tile.width)
        return _fma(builder, _scaled(builder, weight, multiplier, tile.width), row, value)

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
        base = _pointer(context, builder, signature.args[2], array_value)
        row = _load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        emitter = _Emitter(context, builder, signature.args[9:], tuples, signed=True)
        signed = emitter.multiplier(bits, edge, start, tile.width)
        kept, derivative = _decode(builder, signed, tile.width)
        scaled = _scaled(builder, weight, kept, tile.width)
        steep = _scaled(builder, weight, derivative, tile.width)
        return context.make_tuple(
            builder,
            pair,
            (_fma(builder, scaled, row, value), _fma(builder, steep, row, slope_value)),
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


@intrinsic  # type: ignore[untyped-decorator]
def dot(_typing: Any, tile: Any, array: Any, offset: Any, tail: Any) -> Any:
    """The inner product of a tile with the row at ``offset``, summed pairwise."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, array_value, offset, tail = arguments
        base = _pointer(context, builder, signature.args[1], array_value)
        row = _load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        total = builder.fmul(value, row)
        while total.type.count > 1:
            half = total.type.count // 2
            lower = _take(builder, total, total, range(half))
            upper = _take(builder, total, total, range(half, 2 * half))
            total = builder.fadd(lower, upper)
        return builder.extract_element(total, I32(0))

    return types.float32(tile, array, types.intp, types.intp), emit
