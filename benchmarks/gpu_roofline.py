"""A roofline on paper for the Triton kernels: bytes, instructions and time for a million edges.

    python benchmarks/gpu_roofline.py

Nothing is measured. Bytes assume that no row of features is found in a cache, instructions are
counted in the source, and a device does both at its rated speed: times are lower bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

FEATURES, DEGREE = 128, 14
EDGES = 1_000_000
LANES = 32
INDEX_AND_WEIGHT = 8
HASH = 26
"""Instructions for an edge's 64 bits: four products of 64 bits at four each, shifts and xors."""
DRAW = 13
"""Instructions from the hash to a draw: a product and a sum, two rounds and a half, a compare."""
RELAX = 34
"""Further instructions of a concrete mask: a quotient, a logarithm, an exponential, an inverse."""
SUM = 3
"""Instructions for a feature that is summed: weight times mask, fused multiply-add, address."""


@dataclass(frozen=True)
class Device:
    """Rated speeds of a GPU."""

    name: str
    bandwidth: float
    """Bytes a second."""
    instructions: float
    """Integer instructions of a warp a second: half a warp in a cycle for each of four parts."""


A100 = Device("A100", 2.04e12, 108 * 4 * 1.41e9 / 2)
H100 = Device("H100", 3.35e12, 132 * 4 * 1.83e9 / 2)


@dataclass(frozen=True)
class Variant:
    """What one edge takes: bytes, and instructions of a warp."""

    name: str
    per_edge: float
    instructions: float

    def milliseconds(self, device: Device) -> float:
        """Whichever takes longer, for a million edges."""
        memory = self.per_edge / device.bandwidth
        return 1e3 * EDGES * max(memory, self.instructions / device.instructions)


def variants() -> list[Variant]:
    """Sums of 128 features of float32, 14 edges into a row."""
    row = 4 * FEATURES
    read = INDEX_AND_WEIGHT + row + row / DEGREE
    each = FEATURES / LANES
    plain = each * SUM
    kept = INDEX_AND_WEIGHT + row / 2 + row / DEGREE
    hard, relaxed = HASH + each * DRAW, HASH + each * (DRAW + RELAX)
    slopes = row / DEGREE  # the row's own features, once
    # of every message: gathered, weighed, masked, added; and a dozen words of 8 bytes for a draw
    stored = INDEX_AND_WEIGHT + 8 * row
    return [
        Variant("no mask, cuSPARSE", read, plain),
        Variant("no mask, gather + index_add_", INDEX_AND_WEIGHT + 6 * row, 4 * plain),
        Variant("hard, one draw per edge, keep 1/2", kept, HASH + DRAW + plain),
        Variant("hard, one draw per feature", read, hard + plain),
        Variant("concrete, one draw per edge", read, HASH + DRAW + RELAX + plain),
        Variant("concrete, one draw per feature", read, relaxed + plain),
        Variant("  its gradients", read + slopes, relaxed + 2 * plain),
        Variant("hard, one draw per feature, plain torch", stored + 12 * 16 * FEATURES, 12 * plain),
    ]


def table() -> str:
    """The roofline as text."""
    lines = [f"{'':<40} {'bytes':>6} {'instr.':>6} {'A100 ms':>8} {'H100 ms':>8}"]
    for one in variants():
        times = "".join(f" {one.milliseconds(device):8.2f}" for device in (A100, H100))
        lines.append(f"{one.name:<40} {one.per_edge:6.0f} {one.instructions:6.0f}{times}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
