"""Draws of single entries are those of the stream: every bit, for any ids and columns."""

import pytest
import torch

from graphdrop.graph import masks as draws
from graphdrop.kernels.entries import entry_draws


@pytest.mark.parametrize("with_ids", [False, True])
def test_entries_draw_what_the_stream_says(with_ids: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    counts = torch.randint(0, 9, (40,), generator=generator)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).to(torch.int32)
    columns = torch.randint(0, 4000, (int(indptr[-1]),), generator=generator, dtype=torch.int32)
    ids = None
    if with_ids:
        ids = torch.randint(0, 2**31 - 2, (40,), generator=generator).to(torch.int32)
    key = draws.stream_key(7, 3, 1, 0)

    rows = torch.arange(40).repeat_interleave(counts)
    nodes = rows if ids is None else ids.long()[rows]
    bits = draws.edge_hash(key, torch.full_like(nodes, draws.SOURCE_ONLY), nodes)
    expected = draws.draw_bits(bits, columns.long())
    assert torch.equal(entry_draws(key, ids, indptr, columns).long(), expected)
