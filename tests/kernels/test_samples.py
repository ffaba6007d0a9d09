"""Several masks in one walk over the edges give the bits that each gives alone."""

import pytest
import torch

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels import aggregate, samples
from graphdrop.kernels.samples import aggregate_stacked


def masks_of(kind: Kind, **options: object) -> list[Mask]:
    return [
        Mask(kind, torch.tensor(0.4 * sample), stream_key(1, sample=sample), **options)  # type: ignore[arg-type]
        for sample in range(3)
    ]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Kind.HARD, {}),
        (Kind.HARD, {"blocks": None}),
        (Kind.HARD, {"symmetric": True, "self_loops": False}),
        (Kind.HARD, {"sharing": Sharing.SOURCE}),
        (Kind.CONCRETE, {"blocks": None}),
        (Kind.CONCRETE, {"blocks": 2, "antithetic": True}),
        (Kind.CONCRETE, {"sharing": Sharing.SOURCE, "temperature": 0.3}),
    ],
    ids=str,
)
def test_samples_drawn_together_have_the_bits_of_each_alone(
    kind: Kind, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph.from_edge_index(power_law_edges(300, 2000), 300).rows(torch.arange(7, 290))
    x, masks = normal(graph.num_src, 7), masks_of(kind, **options)
    alone = [aggregate(graph, x, mask) for mask in masks]
    monkeypatch.delattr(samples, "aggregate")  # so that they do go together
    together = aggregate_stacked(graph, x[:, None], masks)
    assert torch.equal(together, torch.stack(alone, 1))
    assert not torch.equal(alone[0], alone[1])


@pytest.mark.parametrize("apart", ["kinds", "edges", "before"])
def test_masks_that_cannot_go_together_go_one_by_one(apart: str) -> None:
    graph = Graph.from_edge_index(power_law_edges(60, 300), 60)
    x = normal(60, 5)
    masks = masks_of(Kind.HARD, before_normalization=apart == "before")
    if apart == "kinds":
        masks[1] = masks_of(Kind.CONCRETE)[1]
    elif apart == "edges":
        masks = [
            Mask(Kind.HARD, normal(graph.num_edges, seed=sample), stream_key(sample))
            for sample in range(2)
        ]
    alone = [aggregate(graph, x, mask) for mask in masks]
    assert torch.equal(aggregate_stacked(graph, x[:, None], masks), torch.stack(alone, 1))
