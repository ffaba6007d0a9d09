"""Random draws of masks: description, counter-based generator, and the rule for multipliers.

- ``generator``: 16 bits for every connection, a pure function of a key and two node ids.
- ``mask``: which connections share a draw, and how a draw becomes a multiplier; a ``Table`` is a
  relaxed mask written out, where no keep logit describes it.
- ``rule``: from a draw to a multiplier, for every backend the same.
"""

from graphdrop.graph.masks.generator import (
    DRAW_BITS,
    LANE_MULTIPLIERS,
    MASK32,
    MASK64,
    MIX_MULTIPLIER,
    RANK_MULTIPLIER,
    SOURCE_ONLY,
    draw_bits,
    edge_hash,
    first_uniforms,
    lane,
    stream_key,
    uniforms,
)
from graphdrop.graph.masks.mask import (
    TEMPERATURE,
    Kind,
    Mask,
    Sharing,
    Table,
    block_of_feature,
)
from graphdrop.graph.masks.rule import (
    LARGEST,
    NOMINAL_KEEP,
    TABLE_BITS,
    as_read,
    concrete_logits,
    drop_threshold,
    drop_threshold_of,
    multipliers,
    reads_all_bits,
    represented_keep,
    rescale_factor,
    widest_logit,
)

__all__ = [
    "DRAW_BITS",
    "LANE_MULTIPLIERS",
    "LARGEST",
    "MASK32",
    "MASK64",
    "MIX_MULTIPLIER",
    "NOMINAL_KEEP",
    "RANK_MULTIPLIER",
    "SOURCE_ONLY",
    "TABLE_BITS",
    "TEMPERATURE",
    "Kind",
    "Mask",
    "Sharing",
    "Table",
    "as_read",
    "block_of_feature",
    "concrete_logits",
    "draw_bits",
    "drop_threshold",
    "drop_threshold_of",
    "edge_hash",
    "first_uniforms",
    "lane",
    "multipliers",
    "reads_all_bits",
    "represented_keep",
    "rescale_factor",
    "stream_key",
    "uniforms",
    "widest_logit",
]
