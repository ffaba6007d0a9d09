"""What all samplers share: their options, a rate for every edge, and copies for layers."""

from collections.abc import Callable

import pytest
import torch

from contracts.dense_layers import TOWN, connections, hard_draw
from graphdrop.graph import Graph
from graphdrop.kernels.reference import materialize
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate, Rate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler


def local_rate(graph: Graph) -> LearnedRate:
    """A rate for every edge, from nearly never to nearly always kept."""
    rate = LearnedRate(entries=graph.num_edges)
    with torch.no_grad():
        rate.keep_logit.copy_(torch.linspace(-4.0, 4.0, graph.num_edges))
    return rate


def test_a_local_rate_keeps_every_edge_at_its_own() -> None:
    graph, draw = TOWN.graph(), Draw(3, 4)
    rate = local_rate(graph)
    mask = materialize(graph, GraphDropConnect(rate, blocks=2).mask(graph, draw, 1), 4)
    for edge, (v, u, rank, _) in enumerate(connections(TOWN)):
        keep = rate.mean()[edge].item()
        kept = [hard_draw(draw.key(1), keep, v, u, rank, block) for block in (0, 1)]
        assert mask[edge].tolist() == [kept[0], kept[0], kept[1], kept[1]]


@pytest.mark.parametrize("draw", [None, Draw(1, 1)], ids=["mean", "sampled"])
def test_a_part_of_the_graph_has_the_local_rates_of_the_whole_graph(draw: Draw | None) -> None:
    graph = TOWN.graph()
    sampler = DropEdge(local_rate(graph))
    part = graph.rows(torch.tensor([3, 1]))
    assert part.parent_edge is not None
    assert torch.equal(
        sampler.mask(part, draw, 0).keep_logit,
        sampler.mask(graph, draw, 0).keep_logit,
    )


def test_a_local_distribution_draws_a_rate_for_every_edge_and_step() -> None:
    graph = TOWN.graph()
    sampler = GraphDropConnect(BetaBernoulliRate(entries=graph.num_edges))
    one, two = (sampler.mask(graph, Draw(1, step), 0).keep_logit for step in range(2))
    assert len({*one.tolist(), *two.tolist()}) == 2 * graph.num_edges


def test_layers_get_samplers_of_their_own() -> None:
    rate = LearnedRate(0.5)
    torch.nn.init.constant_(rate.keep_logit, 2.0)
    sampler = GraphDropConnect(rate, blocks=4, first_blocks=2, symmetric=True)
    first, later = sampler.for_first_layer(), sampler.for_later_layer()
    assert (first.blocks, later.blocks) == (2, 4)
    assert first.symmetric
    assert later.symmetric
    assert first.rate.mean().item() == pytest.approx(torch.tensor(2.0).sigmoid().item())
    assert later.rate.mean().item() == 0.5  # learned rates of later layers start afresh
    assert len({id(each.rate) for each in (sampler, first, later)}) == 3


@pytest.mark.parametrize(
    ("sampler", "only"),
    [
        (DropEdge(0.5), True),
        (GraphDropConnect(0.5), True),
        (DropNode(0.5, rescale=True), False),
        (DropOut(0.5, rescale=False), False),
        (GraphDropConnect(0.5, pairs=True), False),
    ],
)
def test_a_sampler_that_changes_more_than_the_masks_of_a_sum_says_so(
    sampler: Sampler, only: bool
) -> None:
    assert sampler.only_masks is only


LOCAL = LearnedRate(entries=3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: DropEdge("0.8"),
            TypeError,
            r"rate is of type str; it takes a drop rate .* or a Rate",
        ),  # type: ignore[arg-type]
        (lambda: DropEdge(1.0), ValueError, r"rate is 1\.0; a plain number is a drop rate"),
        (
            lambda: GraphDropConnect(FixedRate(keep=0.5), blocks=0),
            ValueError,
            "blocks is 0; it takes a whole number of at least 1, or None",
        ),
        (
            lambda: GraphDropConnect(FixedRate(keep=0.5), first_blocks=-1),
            ValueError,
            "first_blocks is -1; it takes",
        ),
        (lambda: DropOut(LOCAL), ValueError, "rate has 3 entries, one per edge; .* Use DropEdge"),
        (lambda: DropNode(LOCAL, rescale=True), ValueError, "rate has 3 entries, one per edge"),
        (
            lambda: Sampler(FixedRate(keep=0.5), rescale=True, self_loops=False),
            ValueError,
            "rescale is True; it takes self_loops=True and before_normalization=False",
        ),
        (
            lambda: Sampler(FixedRate(keep=0.5), rescale=True, before_normalization=True),
            ValueError,
            "rescale is True; it takes self_loops=True and before_normalization=False",
        ),
    ],
)
def test_bad_arguments_are_named(
    make: Callable[[], Sampler], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("rate", [FixedRate(keep=1.0), LearnedRate(0.9), BetaBernoulliRate()])
def test_the_expectation_is_the_rates_mean(rate: Rate) -> None:
    mask = DropEdge(rate).mask(TOWN.graph(), None, 0)
    torch.testing.assert_close(mask.keep_logit.sigmoid(), rate.mean())
