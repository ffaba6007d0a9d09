"""Only the rows that are read are computed, and they are those of the whole computation."""

import pytest
import torch
from torch import Tensor

from contracts.edge_lists import EdgeList
from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.nn import GCN
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler

NODES, FEATURES, HIDDEN, OUTPUTS = 14, 5, 3, 3
# a ring in both directions with a few one-way chords, a pair of parallels and a self-loop
STREET = EdgeList(
    NODES,
    [(u, (u + 1) % 13) for u in range(13)]
    + [((u + 1) % 13, u) for u in range(13)]
    + [(3, 9), (11, 2), (5, 6), (7, 7)],
    [(u % 5 + 1) / 2 for u in range(30)],
)
ROWS = torch.tensor([9, 4])
EDGES = 30 + NODES - 1  # self-loops included
SAMPLERS: dict[str, tuple[Sampler | None, float]] = {
    "none": (None, 0.0),
    "dropout": (DropOut(FixedRate(keep=0.6)), 0.0),
    "dropout rate": (DropOut(LearnedRate(0.6)), 0.0),
    "dropnode": (DropNode(BetaBernoulliRate(), rescale=True), 0.0),
    "dropedge": (DropEdge(FixedRate(keep=0.6)), 0.0),
    "dropedge and dropout": (DropEdge(FixedRate(keep=0.6), self_loops=False), 0.5),
    "dropedge before": (DropEdge(LearnedRate(0.6), before_normalization=True), 0.0),
    "rate per edge": (DropEdge(LearnedRate(0.6, entries=EDGES), symmetric=False), 0.0),
    "rate per edge before": (
        DropEdge(LearnedRate(0.6, entries=EDGES), symmetric=False, before_normalization=True),
        0.0,
    ),
    "blocks": (GraphDropConnect(BetaBernoulliRate(), first_blocks=2), 0.0),
    "per feature before": (
        GraphDropConnect(LearnedRate(0.6), blocks=None, before_normalization=True),
        0.0,
    ),
    "pairs": (GraphDropConnect(FixedRate(keep=0.6), pairs=True), 0.0),
}


def results(model: GCN, x: Tensor, rows: Tensor | None, draw: Draw | None) -> list[Tensor]:
    """The output on `ROWS` and the gradients of all parameters."""
    model.zero_grad()
    out = model(x, STREET.edge_index, STREET.edge_weight, rows=rows, draw=draw)
    out = out[ROWS] if rows is None else out
    out.backward(normal(len(ROWS), OUTPUTS, seed=3))
    return [out, *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize(
    ("name", "layers", "sparse"),
    # Only the first layer reads sparse input; from the third on, layers in the middle are alike.
    [
        *((name, 3, False) for name in SAMPLERS),
        *((name, 1, True) for name in ("none", "dropout rate", "dropedge and dropout", "blocks")),
    ],
)
def test_rows_are_those_of_the_whole_computation(name: str, layers: int, sparse: bool) -> None:
    sampler, dropout = SAMPLERS[name]
    model = GCN(FEATURES, HIDDEN, layers, OUTPUTS, sampler, dropout=dropout)
    x, draw = normal(NODES, FEATURES, seed=1), Draw(1, 2, temperature=model.temperature)
    x = x.to_sparse() if sparse else x
    found, wanted = results(model, x, ROWS, draw), results(model, x, None, draw)
    assert len(found) == 1 + len(list(model.parameters()))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_rows_may_be_a_bool_mask_or_none_at_all() -> None:
    model, x = GCN(FEATURES, FEATURES, 2, OUTPUTS).eval(), normal(NODES, FEATURES)
    whole = model(x, STREET.edge_index)
    marked = torch.zeros(NODES, dtype=torch.bool)
    marked[ROWS] = True
    torch.testing.assert_close(model(x, STREET.edge_index, rows=marked), whole[marked])
    assert model(x, STREET.edge_index, rows=ROWS[:0]).shape == (0, OUTPUTS)


def test_residuals_on_rows_of_a_graph_without_self_loops_are_refused() -> None:
    model = GCN(FEATURES, FEATURES, 2, OUTPUTS, residual=True)
    bare = Graph.from_edge_index(STREET.edge_index, NODES, self_loops=False)
    x = normal(NODES, FEATURES)
    assert model(x, bare).shape == (NODES, OUTPUTS)
    with pytest.raises(ValueError, match=r"a residual .* in a graph with self-loops"):
        model(x, bare, rows=ROWS)
    assert GCN(FEATURES, FEATURES, 2, OUTPUTS)(x, bare, rows=ROWS).shape == (2, OUTPUTS)
