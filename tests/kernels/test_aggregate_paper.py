"""Masked sums against the paper's formulas, with every mask written out as a dense matrix."""

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate

NODES, FEATURES, KEEP = 12, 7, 0.6
KEY = stream_key(11, step=3, layer=1)
LOGIT = torch.logit(torch.tensor(KEEP))
# That both backends agree in every normalization is tested with the backends.
CASES = [("sym", "fused"), ("row", "reference"), ("paper", "reference"), ("none", "fused")]


def bernoulli(destination: Tensor, source: Tensor, draw: Tensor) -> Tensor:
    """The hard mask of any connections, edges or not."""
    bits = draws.draw_bits(draws.edge_hash(KEY, destination, source), draw)
    return (((bits + 0.5) / 2**16) > 1.0 - KEEP).double()


def node() -> Tensor:
    return torch.arange(NODES)


def edges(seed: int = 0) -> Tensor:
    """Some pairs of nodes, none twice, self-loops among them."""
    adjacency = torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(seed)) < 0.3
    return adjacency.nonzero().T


def normalized(graph: Graph) -> Tensor:
    """The dense matrix A_hat `[NODES, NODES]`."""
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix[graph.edge_dst, graph.indices] = graph.value.double()
    return matrix


@pytest.fixture(params=CASES, ids=" ".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture
def graph(case: tuple[str, str]) -> Graph:
    return Graph.from_edge_index(edges(), NODES, normalization=case[0])


@pytest.fixture
def backend(case: tuple[str, str]) -> str:
    return case[1]


@pytest.fixture
def h() -> Tensor:
    return normal(NODES, FEATURES)


def assert_same(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "sizes", "self_loops"),
    [
        (CASES[0], [7], False),
        (CASES[1], [4, 3], True),
        (CASES[2], [3, 2, 2], False),
        (CASES[3], [1] * 7, True),
        (CASES[0], [3, 2, 2], True),
        (CASES[1], [1] * 7, False),
    ],
    indirect=["case"],
)
def test_graph_drop_connect_sums_over_blocks(
    graph: Graph, h: Tensor, sizes: list[int], self_loops: bool, backend: str
) -> None:
    weight = normal(FEATURES, 5, seed=1)
    wanted = torch.zeros(NODES, 5, dtype=torch.float64)
    first = 0
    for block, size in enumerate(sizes):
        features = slice(first, first + size)
        z = bernoulli(node()[:, None], node(), torch.tensor(block))
        if not self_loops:
            z.fill_diagonal_(1.0)
        wanted += (normalized(graph) * z) @ h[:, features].double() @ weight[features].double()
        first += size
    mask = Mask(Kind.HARD, LOGIT, KEY, blocks=len(sizes), self_loops=self_loops)
    assert_same(aggregate(graph, h, mask, backend=backend) @ weight, wanted)


def test_the_general_form_masks_every_pair_of_features(
    graph: Graph, h: Tensor, backend: str
) -> None:
    """The paper's first form is a mask per feature over the products `H[:, i] W[i, j]`."""
    outputs = 3
    weight = normal(FEATURES, outputs, seed=1)
    pair = torch.arange(FEATURES * outputs).view(FEATURES, outputs)
    z = bernoulli(node()[:, None, None, None], node()[:, None, None], pair)
    wanted = torch.einsum("vu,vuij,ui,ij->vj", normalized(graph), z, h.double(), weight.double())
    products = (h[:, :, None] * weight).flatten(1)
    mask = Mask(Kind.HARD, LOGIT, KEY, blocks=None)
    masked = aggregate(graph, products, mask, backend=backend)
    assert_same(masked.view(NODES, FEATURES, outputs).sum(1), wanted)


def test_a_relaxed_mask_is_the_concrete_distribution(graph: Graph, h: Tensor, backend: str) -> None:
    temperature = 0.67
    bits = draws.draw_bits(draws.edge_hash(KEY, node()[:, None], node()), torch.tensor(0))
    u = (bits // 16 + 0.5) / 2**12
    z = torch.sigmoid((LOGIT.double() + torch.logit(u.double())) / temperature)
    mask = Mask(Kind.CONCRETE, LOGIT, KEY, temperature=temperature)
    assert_same(aggregate(graph, h, mask, backend=backend), (normalized(graph) * z) @ h.double())


def test_the_expected_mask_is_the_keep_probability(graph: Graph, h: Tensor, backend: str) -> None:
    mask = Mask(Kind.MEAN, LOGIT, KEY, self_loops=False)
    expected = torch.full((NODES, NODES), KEEP, dtype=torch.float64).fill_diagonal_(1.0)
    wanted = (normalized(graph) * expected) @ h.double()
    assert_same(aggregate(graph, h, mask, backend=backend), wanted)


def test_the_antithetic_pass_uses_one_minus_each_uniform(
    graph: Graph, h: Tensor, backend: str
) -> None:
    bits = draws.draw_bits(draws.edge_hash(KEY, node()[:, None], node()), torch.tensor(0))
    u = 1.0 - (bits + 0.5) / 2**16
    z = (u > 1.0 - KEEP).double()
    mask = Mask(Kind.HARD, LOGIT, KEY, antithetic=True)
    assert_same(aggregate(graph, h, mask, backend=backend), (normalized(graph) * z) @ h.double())


@pytest.mark.parametrize("backend", ["fused", "reference"])
def test_parallel_edges_draw_by_their_rank(backend: str) -> None:
    edge_index = torch.tensor([[0, 0, 0, 1], [1, 1, 1, 1]])
    weight = torch.tensor([1.0, 2.0, 4.0, 8.0])
    graph = Graph.from_edge_index(edge_index, 2, weight, normalization="none")
    seen = set()
    for step in range(64):
        key = stream_key(1, step)
        hashes = draws.edge_hash(key, torch.ones(4), edge_index[0], torch.tensor([0, 1, 2, 0]))
        kept = draws.draw_bits(hashes, torch.tensor(0)) >= 2**15
        mask = Mask(Kind.HARD, torch.tensor(0.0), key)
        got = aggregate(graph, torch.ones(2, 1), mask, backend=backend)[1, 0]
        assert float(got) == float((weight * kept).sum())
        seen.add(float(got))
    assert len(seen) > 12  # of 16: the four edges are drawn on their own
