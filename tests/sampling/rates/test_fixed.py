"""FixedRate: one keep probability, up to and including 1."""

import math

import pytest

from graphdrop.sampling.rates import FixedRate


def test_it_answers_with_the_keep_it_was_given() -> None:
    rate = FixedRate(keep=0.8).double()
    assert rate.mean().item() == pytest.approx(0.8)
    assert rate.sample().item() == pytest.approx(0.8)
    assert rate.logit().item() == pytest.approx(math.log(4))
    assert rate.logit().shape == rate.entries == ()


def test_it_costs_nothing_and_learns_nothing() -> None:
    rate = FixedRate(keep=0.8)
    assert rate.kl().item() == 0
    assert list(rate.parameters()) == []


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.01, math.nan])
def test_a_keep_outside_its_range_is_refused(keep: float) -> None:
    with pytest.raises(ValueError, match=r"keep is .*above 0 and at most 1.*keep=1 - d"):
        FixedRate(keep=keep)


@pytest.mark.parametrize("arguments", [(0.8,), ()])
def test_a_number_without_a_name_is_refused_since_it_could_be_a_drop_rate(arguments) -> None:
    with pytest.raises(TypeError, match=r"takes keep=.* Pass keep=0\.8, or keep=1 - 0\.8 if"):
        FixedRate(*arguments)
