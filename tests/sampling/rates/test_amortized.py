"""AmortizedRate: a small network reads the posterior of every edge off what describes the edge."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from graphdrop.sampling.rates import AmortizedRate, BetaBernoulliRate

EDGES = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))


def observing(edges: Tensor = EDGES, **options: float) -> AmortizedRate:
    torch.manual_seed(0)
    rate = AmortizedRate(3, **options)  # type: ignore[arg-type]
    torch.nn.init.normal_(rate.outer.weight)  # as if it had learned to tell edges apart
    rate.observe(edges)
    return rate


def of_the_same_posterior(rate: AmortizedRate) -> BetaBernoulliRate:
    """A free rate for every edge."""
    free = BetaBernoulliRate(rate.prior_alpha, rate.prior_beta, entries=len(EDGES))
    free.a, free.b = rate.posterior()
    return free


def test_the_posterior_is_that_of_the_formula() -> None:
    rate = observing(hidden=5)
    inner, outer = rate.inner, rate.outer
    for edge, a, b in zip(EDGES, *rate.posterior(), strict=True):
        hidden = torch.tanh(inner.weight @ edge + inner.bias)
        torch.testing.assert_close(
            torch.stack([a, b]), softplus(outer.weight @ hidden + outer.bias)
        )


@pytest.mark.parametrize("prior_beta", [1.0, 2.5])
def test_it_draws_averages_and_costs_what_free_rates_of_that_posterior_do(
    prior_beta: float,
) -> None:
    rate = observing(prior_alpha=0.6, prior_beta=prior_beta)
    free = of_the_same_posterior(rate)
    u = torch.rand(len(EDGES), dtype=torch.float64)
    assert rate.entries == free.entries
    assert rate.num_uniforms == len(EDGES)
    for one, other in (
        (rate.logit(u), free.logit(u)),
        (rate.mean(), free.mean()),
        (rate.kl(), free.kl()),
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert rate.mean().std() > 0.01


def test_its_parameters_do_not_depend_on_the_number_of_edges() -> None:
    rate = observing()
    sizes = [parameter.shape for parameter in rate.parameters()]
    rate.observe(EDGES.repeat(100, 1))
    assert [parameter.shape for parameter in rate.parameters()] == sizes
    assert rate.mean().shape == (700,)


def test_the_same_edge_has_the_same_rate_among_any_others() -> None:
    rate = observing()
    whole = rate.mean()
    order = torch.tensor([4, 0, 6])
    rate.observe(EDGES[order])
    torch.testing.assert_close(rate.mean(), whole[order])


@pytest.mark.parametrize(
    ("u", "got"),
    [
        (None, "None"),
        (torch.ones(7).long(), r"torch.int64 of"),
        (torch.rand(6), r".* of shape \(6,\)"),
    ],
)
def test_anything_but_a_uniform_for_every_edge_is_refused(u: Tensor | None, got: str) -> None:
    with pytest.raises(ValueError, match=rf"u is {got}.*; it takes floating-point uniforms"):
        observing().logit(u)


def test_without_edges_it_says_what_to_do() -> None:
    rate = AmortizedRate(3)
    assert rate.num_uniforms == 0
    for answer in (rate.mean, rate.kl, lambda: rate.logit(torch.rand(1))):
        with pytest.raises(
            ValueError, match=r"edges are not set; .*observe\(describe_edges\(graph, x\)"
        ):
            answer()


@pytest.mark.parametrize("edges", [EDGES[:, :2], EDGES[0]])
def test_edges_described_by_another_number_of_features_are_refused(edges: Tensor) -> None:
    with pytest.raises(ValueError, match=r"edges has shape .*; it takes \(edges, 3\)"):
        observing(edges)
