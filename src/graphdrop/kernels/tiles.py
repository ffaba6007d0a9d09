"""Tiles: runs of features held in registers, as wide LLVM vectors, and the random lanes of an edge.

Numba's own loops over features leave two things on the table: it widens 32-bit integers to 64
bits, which halves the lanes, and it keeps the running sum of a row in memory. A tile is one LLVM
vector of 16 to 128 floats, which LLVM splits into whatever registers the host has.
"""

# ruff: noqa: ARG001 - the typing half of an intrinsic names arguments it does not read

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from graphdrop.graph.masks import DRAW_BITS, LANE_MULTIPLIERS

LANES = 16
MAX_VECTORS = 8

F32, I1, I16, I32, I64 = ir.FloatType(), *(ir.IntType(bits) for bits in (1, 16, 32, 64))


class Tile(types.Type):  # type: ignore[misc]
    """``width`` floats of one row, in registers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Tile({width})")


@register_model(Tile)
class _TileModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, vector(F32, tile.width))


def vector(element: ir.Type, width: int) -> ir.VectorType:
    """The LLVM type of ``width`` elements."""
    return ir.VectorType(element, width)


def constants(element: ir.Type, values: Sequence[int | float]) -> ir.Constant:
    """A vector of known numbers."""
    return ir.Constant(vector(element, len(values)), list(values))


def splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """A vector whose every lane is ``scalar``."""
    undefined = ir.Constant(vector(scalar.type, width), ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, constants(I32, [0] * width))


def take(builder: ir.IRBuilder, first: ir.Value, second: ir.Value, order: Sequence[int]) -> Any:
    """The lanes of two vectors in the given order; those of the second count on."""
    return builder.shuffle_vector(first, second, constants(I32, order))


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call an LLVM intrinsic by its full name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def data_pointer(context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value) -> ir.Value:
    """Where a Numba array's numbers begin."""
    return context.make_array(kind)(context, builder, array).data


def scratch(builder: ir.IRBuilder, element: ir.Type, count: int) -> ir.Value:
    """A buffer on the stack, made once per function."""
    with builder.goto_entry_block():
        buffer = builder.alloca(ir.ArrayType(element, count))
        buffer.align = 64
    return builder.bitcast(buffer, element.as_pointer())


def store_vector(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, align: int) -> None:
    """Write a whole vector."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """``a * b + c``, rounded once."""
    return call(builder, f"llvm.fma.v{a.type.count}f32", a.type, a, b, c)


def tail_mask(builder: ir.IRBuilder, tail: ir.Value) -> ir.Value:
    """Marks the first ``tail`` lanes of a vector."""
    index = constants(I32, range(LANES))
    return builder.icmp_signed("<", index, splat(builder, builder.trunc(tail, I32), LANES))


def load_tile(builder: ir.IRBuilder, pointer: ir.Value, width: int, tail: ir.Value) -> ir.Value:
    """``width`` floats, of the last vector only ``tail``: a row may end at the end of memory."""
    last = builder.bitcast(
        builder.gep(pointer, [I64(width - LANES)]), vector(F32, LANES).as_pointer()
    )
    zero = constants(F32, [0.0] * LANES)
    mask = tail_mask(builder, tail)
    end = call(builder, "llvm.masked.load.v16f32.p0", zero.type, last, I32(4), mask, zero)
    if width == LANES:
        return end
    head = width - LANES
    start = builder.load(builder.bitcast(pointer, vector(F32, head).as_pointer()), align=4)
    # widen the shorter operand: a shuffle takes two vectors of one type
    padding = ir.Constant(end.type, ir.Undefined)
    widened = take(builder, end, padding, [min(lane, LANES) for lane in range(head)])
    order = [*range(head), *range(head, head + LANES)]
    return take(builder, start, widened, order)


def lane_words(
    builder: ir.IRBuilder, bits: ir.Value, numbers: ir.Value, skipped: ir.Value | None = None
) -> ir.Value:
    """The 32-bit lanes of an edge's stream (``draws.lane``), one per number."""
    width = numbers.type.count
    low = builder.trunc(bits, I32)
    high = builder.trunc(builder.lshr(bits, I64(32)), I32)
    if skipped is not None:
        low = builder.add(low, builder.mul(builder.trunc(skipped, I32), high))

    def fold(word: ir.Value, shift: int) -> ir.Value:
        return builder.xor(word, builder.lshr(word, constants(I32, [shift] * width)))

    first, second = (constants(I32, [factor] * width) for factor in LANE_MULTIPLIERS)
    strides = builder.mul(splat(builder, high, width), numbers)
    word = builder.add(splat(builder, low, width), strides)
    word = builder.mul(fold(word, 16), first)
    word = builder.mul(fold(word, 15), second)
    return fold(word, 16)


def counters(count: int) -> ir.Constant:
    """The numbers of the first lanes."""
    return constants(I32, range(count))


def halves(builder: ir.IRBuilder, words: ir.Value, draws: int) -> ir.Value:
    """The first ``draws`` 16-bit draws of a vector of lanes, in the order of ``draw_bits``."""
    count = words.type.count
    low = builder.and_(words, constants(I32, [0xFFFF] * count))
    high = builder.lshr(words, constants(I32, [DRAW_BITS] * count))
    order = [draw // 32 * 16 + draw % 16 + draw // 16 % 2 * count for draw in range(draws)]
    return take(builder, low, high, order)


@intrinsic  # type: ignore[untyped-decorator]
def zeros(_typing: Any, vectors: Any) -> Any:
    """A tile of zeros; ``vectors`` is a tuple whose length is the number of vectors."""
    tile = Tile(LANES * vectors.count)

    def emit(*_: Any) -> Any:
        return constants(F32, [0.0] * tile.width)

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
        base = data_pointer(context, builder, signature.args[0], array_value)
        pointer = builder.gep(base, [offset_value])
        head = tile.width - LANES
        if head:
            store_vector(builder, take(builder, value, value, range(head)), pointer, align=4)
        end = take(builder, value, value, range(head, tile.width))
        target = builder.bitcast(builder.gep(pointer, [I64(head)]), end.type.as_pointer())
        mask = tail_mask(builder, tail_value)
        call(builder, "llvm.masked.store.v16f32.p0", ir.VoidType(), end, target, I32(4), mask)
        return context.get_dummy_value()

    return types.void(array, types.intp, tile, types.intp), emit


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, array: Any, offset: Any, vectors: Any) -> Any:
    """Ask for a tile's cache lines; harmless anywhere.

    They go to the second level: the first takes fewer requests at once, and rows that wait for
    their turn in it take half as long again on a large graph.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = builder.gep(
            data_pointer(context, builder, signature.args[0], arguments[0]), [arguments[1]]
        )
        for vector in range(vectors.count):
            line = builder.gep(base, [I64(LANES * vector)])
            address = builder.bitcast(line, ir.IntType(8).as_pointer())
            call(builder, "llvm.prefetch.p0", ir.VoidType(), address, I32(0), I32(2), I32(1))
        return context.get_dummy_value()

    return types.void(array, types.intp, vectors), emit


@intrinsic  # type: ignore[untyped-decorator]
def dot(_typing: Any, tile: Any, array: Any, offset: Any, tail: Any) -> Any:
    """The inner product of a tile with the row at ``offset``, summed pairwise."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, array_value, offset, tail = arguments
        base = data_pointer(context, builder, signature.args[1], array_value)
        row = load_tile(builder, builder.gep(base, [offset]), tile.width, tail)
        total = builder.fmul(value, row)
        while total.type.count > 1:
            half = total.type.count // 2
            lower = take(builder, total, total, range(half))
            upper = take(builder, total, total, range(half, 2 * half))
            total = builder.fadd(lower, upper)
        return builder.extract_element(total, I32(0))

    return types.float32(tile, array, types.intp, types.intp), emit
