"""Keep probabilities: fixed, learned as they are, or learned with a beta prior."""

from graphdrop.rates.base import Rate
from graphdrop.rates.beta_bernoulli import BetaBernoulliRate
from graphdrop.rates.fixed import FixedRate
from graphdrop.rates.learned import LearnedRate

__all__ = ["BetaBernoulliRate", "FixedRate", "LearnedRate", "Rate"]
