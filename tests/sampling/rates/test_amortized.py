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


def test_it_starts_as_a_global_rate_does_and_hardly_tells_edges_apart() -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        rate = AmortizedRate(3)
        rate.observe(EDGES)
        a, b = rate.posterior()
        assert softplus(torch.tensor(0.9)) < a.min() <= a.max() < softplus(torch.tensor(1.6))
        assert softplus(torch.tensor(0.4)) < b.min() <= b.max() < softplus(torch.tensor(0.6))
        assert 0.0 < a.std() < 0.05


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


def test_what_was_observed_is_not_saved_with_the_parameters() -> None:
    assert set(observing().state_dict()) == {
        "inner.weight",
        "inner.bias",
        "outer.weight",
        "outer.bias",
    }


def test_uniforms_that_were_rounded_to_0_or_1_have_finite_logits() -> None:
    rate = observing()
    never, always = rate.logit(torch.zeros(7)), rate.logit(torch.ones(7))
    assert bool((never.isfinite() & always.isfinite() & (never > always)).all())
    nearly = torch.full((7,), 1 - 2.0**-24)  # the largest float32 below 1
    torch.testing.assert_close(always, rate.logit(nearly))
    torch.testing.assert_close(rate.logit(torch.ones(4, 7)), always.expand(4, 7))


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


@pytest.mark.parametrize("name", ["prior_alpha", "prior_beta"])
@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_a_prior_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}; it takes a finite number above 0"):
        AmortizedRate(3, **{name: value})


@pytest.mark.parametrize("name", ["features", "hidden"])
def test_a_network_without_width_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it takes a whole number of at least 1"):
        AmortizedRate(**{"features": 3, name: 0})
    assert AmortizedRate(**{"features": 3, name: 1}).outer.out_features == 2
