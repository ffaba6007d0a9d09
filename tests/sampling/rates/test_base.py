"""What holds for every rate: shapes, dtypes, saving and loading."""

from collections.abc import Callable

import pytest
import torch

from graphdrop.sampling.rates import AmortizedRate, BetaBernoulliRate, FixedRate, LearnedRate, Rate


def observing() -> AmortizedRate:
    rate = AmortizedRate(2, hidden=3)
    rate.observe(torch.linspace(-1.0, 1.0, 10).view(5, 2))
    return rate


MAKERS = {
    "fixed": lambda start: FixedRate(keep=0.3 + start),
    "learned": lambda start: LearnedRate(0.3 + start, entropy_weight=0.5),
    "learned, local": lambda start: LearnedRate(0.3 + start, entropy_weight=0.5, entries=5),
    "beta": lambda _: BetaBernoulliRate(prior_beta=1.5),
    "beta, local": lambda _: BetaBernoulliRate(entries=5),
    "beta, amortised": lambda _: observing(),
}
every_rate = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def answers(rate: Rate) -> list[torch.Tensor]:
    u = torch.full(rate.entries, 0.37, dtype=torch.float64)
    return [rate.logit(u), rate.sample(u), rate.mean(), rate.kl()]


@every_rate
def test_a_rate_loaded_from_a_state_dict_answers_as_the_saved_one(
    make: Callable[[float], Rate],
) -> None:
    torch.manual_seed(0)
    saved, loaded = make(0.0), make(0.4)
    if saved.num_uniforms == 0:
        assert not torch.equal(saved.mean(), loaded.mean())
    loaded.load_state_dict(saved.state_dict())
    for got, wanted in zip(answers(loaded), answers(saved), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float64) for name in MAKERS),
        *((name, torch.float32) for name in ("learned", "beta, local", "beta, amortised")),
    ],
)
def test_answers_have_the_dtype_of_the_module_and_the_shape_of_its_entries(
    name: str, dtype: torch.dtype
) -> None:
    rate = MAKERS[name](0.0).to(dtype)
    logit, sample, mean, kl = answers(rate)
    assert {answer.dtype for answer in (logit, sample, mean, kl)} == {dtype}
    assert logit.shape == sample.shape == mean.shape == rate.entries
    assert kl.shape == ()


@every_rate
def test_the_logit_is_that_of_the_sample(make: Callable[[float], Rate]) -> None:
    logit, sample, _, _ = answers(make(0.0).double())
    torch.testing.assert_close(logit.sigmoid(), sample)


@every_rate
def test_every_parameter_gets_a_gradient_from_a_draw(make: Callable[[float], Rate]) -> None:
    rate = make(0.0)
    if isinstance(rate, FixedRate):
        assert not rate.logit().requires_grad
        return
    draw = rate.logit(torch.full(rate.entries, 0.37)).sum()
    for gradient in torch.autograd.grad(draw, list(rate.parameters())):
        assert gradient.ne(0).all()


@pytest.mark.parametrize("entries", [0, -3])
def test_a_local_rate_without_entries_is_refused(entries: int) -> None:
    with pytest.raises(ValueError, match=f"entries is {entries};.*at least 1"):
        BetaBernoulliRate(entries=entries)
