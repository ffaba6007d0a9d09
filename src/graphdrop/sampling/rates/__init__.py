"""Rates: keep probabilities that are fixed, learned, learned with a beta prior, or per edge."""

from graphdrop.sampling.rates.amortized import AmortizedRate
from graphdrop.sampling.rates.base import Rate
from graphdrop.sampling.rates.beta_bernoulli import BetaBernoulliRate
from graphdrop.sampling.rates.edge import EdgeRate
from graphdrop.sampling.rates.fixed import FixedRate
from graphdrop.sampling.rates.learned import LearnedRate

__all__ = ["AmortizedRate", "BetaBernoulliRate", "EdgeRate", "FixedRate", "LearnedRate", "Rate"]
