"""The rule from a draw to a multiplier, in plain torch: every backend follows it.

A draw is 16 bits ``k``, the uniform ``u = (k + 1/2) / 2**16``; the antithetic pass reads
``65535 - k``.

- A hard mask is ``z = 1[u > 1 - keep]``, which is ``1[k >= threshold]`` with the threshold of
  ``drop_threshold``. The keep probability is thereby rounded to a multiple of 2**-16, which
  ``represented_keep`` tells; below 2**-17 nothing is kept.
- A concrete mask is ``z = sigmoid((phi + logit u) / t)``. In the ordinary case it reads the top 12
  bits of ``k`` alone, ``u = (k // 16 + 1/2) / 2**12``, so that its 4096 values fit a table in the
  nearest cache. It reads all 16 where ``|phi| > log(2**10 t - 1)``, the bound rounded to float32
  (``reads_all_bits``): where ``t min(keep, 1 - keep) < 2**-10``. The multiplier then changes
  within four of 4096 cells, and its mean and slope would be those of the cells it falls into.
  Means and slopes over the draws are within 0.1 % of those over a true uniform down to
  ``t min(keep, 1 - keep) = 2**-14``; beyond that the 16 bits themselves are too coarse.
- A concrete mask with a ``Table`` reads its multiplier there, by as many bits as the table has.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph.masks.generator import DRAW_BITS
from graphdrop.graph.masks.mask import Kind, Mask
from graphdrop.io.devices import to_float64

LARGEST = (1 << DRAW_BITS) - 1
TABLE_BITS = 12
LEAST_WIDTH = 2.0**-10
"""A concrete mask with a smaller ``t min(keep, 1 - keep)`` reads all bits of its draws."""


def as_read(values: Tensor, mask: Mask) -> Tensor:
    """Draws as the mask's pass reads them: an antithetic one turns every ``u`` into ``1 - u``."""
    return LARGEST - values if mask.antithetic else values


def multipliers(
    values: Tensor, mask: Mask, keep_logit: Tensor, dtype: torch.dtype = torch.float32
) -> Tensor:
    """The multipliers of connections, in the shape of their 16-bit draws ``as_read``.

    ``keep_logit`` has the mask's logits of these connections; their shape broadcasts.
    """
    if mask.kind is Kind.NONE:
        return torch.ones_like(values, dtype=dtype)
    if mask.kind is Kind.MEAN:
        return torch.sigmoid(keep_logit.to(dtype)).expand(values.shape)
    if mask.kind is Kind.HARD:
        return (values >= drop_threshold(keep_logit)).to(dtype)
    if mask.table is not None:
        return mask.table.read(values, dtype)
    noise = _logit_of_uniform(values, keep_logit, mask.temperature, dtype)
    return torch.sigmoid((keep_logit.to(dtype) + noise) / mask.temperature)


def drop_threshold(keep_logit: Tensor) -> Tensor:
    """Number of 16-bit draws, of 65536, that are dropped: ``z = 1[k >= threshold]``.

    Equals ``z = 1[u > 1 - keep]``: the keep probability is rounded to a multiple of 2**-16.
    """
    logit = to_float64(keep_logit.detach())
    if logit.dim() == 0 and logit.device.type == "cpu":  # one number: quicker without tensors
        threshold = torch.tensor(drop_threshold_of(float(logit)), dtype=torch.int32)
    else:
        drop = torch.sigmoid(-logit)
        threshold = torch.floor(drop * 2.0**DRAW_BITS + 0.5).to(torch.int32)
    return threshold.to(keep_logit.device)


def drop_threshold_of(keep_logit: float) -> int:
    """``drop_threshold`` of one number."""
    drop = 1.0 / (1.0 + math.exp(min(keep_logit, 709.0)))
    return math.floor(drop * 2.0**DRAW_BITS + 0.5)


NOMINAL_KEEP = 2.0**-6
"""From this keep probability on a rescaled mask divides by it as it was given."""


def represented_keep(keep_logit: Tensor) -> Tensor:
    """The keep probability that hard masks have, a multiple of 2**-16; 0 below 2**-17.

    Its gradient is that of the nominal probability, ``sigmoid(keep_logit)``.
    """
    kept = (1 << DRAW_BITS) - drop_threshold(keep_logit)
    nominal = torch.sigmoid(keep_logit)
    return (kept * 2.0**-DRAW_BITS).to(nominal) + (nominal - nominal.detach())


def rescale_factor(mask: Mask) -> Tensor:
    """``1 / keep``: times this, the expectation of a hard mask is 1, also at extreme rates.

    Below ``NOMINAL_KEEP`` the keep probability is the one that the draws represent. Above it, where
    the two differ by 0.05 % at most, it is the nominal one, and so it is for a relaxed mask, whose
    mean is another. A mask that keeps nothing is not rescaled: the factor is 0.
    """
    nominal = torch.sigmoid(mask.keep_logit)
    if mask.kind is not Kind.HARD:
        return 1.0 / nominal
    keep = torch.where(nominal < NOMINAL_KEEP, represented_keep(mask.keep_logit), nominal)
    nothing = keep == 0.0
    return torch.where(nothing, 0.0, 1.0 / torch.where(nothing, 1.0, keep))


@lru_cache(maxsize=64)
def widest_logit(temperature: float) -> float:
    """The largest ``|keep logit|`` at which a concrete mask reads 12 bits; negative if none does.

    It is a number of float32, so that logits of float32 and of float64 compare with it alike.
    """
    return float(np.float32(math.log(max(temperature / LEAST_WIDTH - 1.0, 2.0**-1000))))


def reads_all_bits(keep_logit: Tensor, temperature: float) -> Tensor:
    """Whether a concrete mask reads all 16 bits of its draws, or the top 12."""
    size = keep_logit.detach().abs()
    if size.dtype != torch.float64:
        size = size.to(torch.float32)
    return size > widest_logit(temperature)


@cache
@torch.inference_mode(False)
def concrete_logits(
    dtype: torch.dtype, device: torch.device | None = None, bits: int = TABLE_BITS
) -> Tensor:
    """``logit(u)`` for the ``2**bits`` uniforms that a concrete mask distinguishes.

    With 12 bits the distance between its distribution function and the exact one is at most 2**-13
    everywhere, with 16 at most 2**-17. The tensor is kept: do not write to it.
    """
    size = 1 << bits
    uniform = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    return torch.logit(uniform).to(dtype).to(device)


def _logit_of_uniform(
    values: Tensor, keep_logit: Tensor, temperature: float, dtype: torch.dtype
) -> Tensor:
    entry = torch.where(
        reads_all_bits(keep_logit, temperature),
        values + (1 << TABLE_BITS),
        values >> (DRAW_BITS - TABLE_BITS),
    )
    return _both_tables(dtype, values.device)[entry]


@cache
@torch.inference_mode(False)
def _both_tables(dtype: torch.dtype, device: torch.device) -> Tensor:
    """``concrete_logits`` of the top bits, then of all bits."""
    return torch.cat([concrete_logits(dtype, device, bits) for bits in (TABLE_BITS, DRAW_BITS)])
