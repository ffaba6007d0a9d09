"""Rates: keep probabilities that are fixed, learned, learned with a beta prior, or per edge."""

from graphdrop.rates.amortized import AmortizedRate
from graphdrop.rates.base import Rate
from graphdrop.rates.beta_bernoulli import BetaBernoulliRate
from graphdrop.rates.fixed import FixedRate
from graphdrop.rates.learned import LearnedRate

__all__ = ["AmortizedRate", "BetaBernoulliRate", "FixedRate", "LearnedRate", "Rate"]
