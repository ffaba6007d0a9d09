"""A graph whose first use is a prediction can be trained on afterwards."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate
from graphdrop.kernels.aggregate import _keep_all
from graphdrop.kernels.sums import draw_sums

NODES, FEATURES = 30, 4


def fresh_graph(normalization: str = "sym") -> Graph:
    return Graph.from_edge_index(power_law_edges(NODES, 100), NODES, normalization=normalization)


def rates(graph: Graph) -> Tensor:
    return normal(graph.num_edges)


MASKS: dict[str, Callable[[Graph], Mask | None]] = {
    "none": lambda _: None,
    "hard": lambda _: Mask(Kind.HARD, torch.tensor(0.3), stream_key(1)),
    "concrete": lambda _: Mask(
        Kind.CONCRETE, torch.tensor(0.3, requires_grad=True), stream_key(1), blocks=None
    ),
    "per edge": lambda graph: Mask(
        Kind.CONCRETE, rates(graph).requires_grad_(), stream_key(1), blocks=2
    ),
    "before": lambda _: Mask(
        Kind.CONCRETE,
        torch.tensor(0.3, requires_grad=True),
        stream_key(1),
        before_normalization=True,
    ),
}


@pytest.mark.parametrize(
    ("name", "whole", "backend"),
    [
        *((name, False, "fused") for name in MASKS),
        *((name, True, "fused") for name in ("none", "per edge", "before")),
        *((name, False, "reference") for name in ("hard", "concrete", "before")),
    ],
)
def test_the_first_sum_may_be_in_inference_mode_and_the_next_a_training_step(
    name: str, whole: bool, backend: str
) -> None:
    _keep_all.cache_clear()
    graph = fresh_graph()
    mask = MASKS[name](graph)
    graph = graph if whole else graph.rows(torch.arange(0, NODES, 3))
    x = normal(graph.num_src, FEATURES).requires_grad_()
    with torch.inference_mode():
        predicted = aggregate(graph, x, mask, backend=backend)
    out = aggregate(graph, x, mask, backend=backend)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(out, predicted)
    assert x.grad is not None
    if mask is not None and mask.keep_logit.requires_grad:
        assert mask.keep_logit.grad is not None


def test_sums_over_draws_that_were_first_read_in_inference_mode_are_ordinary() -> None:
    graph = fresh_graph().rows(torch.arange(5))
    mask = Mask(Kind.HARD, torch.tensor(0.3), stream_key(1), symmetric=True)
    with torch.inference_mode():
        draw_sums(graph, mask, FEATURES)
    assert not draw_sums(graph, mask, FEATURES).total.is_inference()
