"""Beta-Bernoulli rate: a keep probability with a beta prior and a Kumaraswamy posterior."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from graphdrop.graph.masks import Table
from graphdrop.io.devices import to_float64
from graphdrop.sampling.rates import kumaraswamy, marginal
from graphdrop.sampling.rates.base import Rate

RateDraw = Literal["layer", "mask"]
"""Whether a rate is sampled once per layer and pass, or once per mask."""


class BetaBernoulliRate(Rate):
    """Beta-Bernoulli rate: a learned distribution over the keep probability.

        prior p(pi) = Beta(prior_alpha, prior_beta)        eq. (10) of the paper
        posterior q(pi) = Kumaraswamy(a, b)                eq. (11) of the paper

    `a = softplus(raw_a)` and `b = softplus(raw_b)` are learned; `rate.a = 2.0` sets `raw_a`
    accordingly. Computation is in float64, because the logit of a keep probability near 1 is not
    accurate in float32; results have the dtype of the parameters.

    `kl()` is exact for any prior. With `prior_beta = 1` it is the paper's closed form, with
    `prior_alpha` for the paper's `c / L`. Any other `prior_beta` takes a quadrature of about 20
    microseconds per entry, which is slow for thousands of local rates.

    With `rate_draw="mask"` every mask has a rate of its own from the posterior that all share, and
    is drawn from its marginal: a hard mask is Bernoulli with the posterior's mean, a relaxed one
    has a `table`. The KL stays that of one rate. This is a regularized objective and no lower bound
    of the evidence: hard masks see the mean alone, so the posterior's width is no uncertainty.

    Args:
        prior_alpha: First parameter of the beta prior, above 0.
        prior_beta: Second parameter of the beta prior, above 0.
        entries: How many values a local rate holds; `None` for a single, global one.
        rate_draw: `"layer"` draws one rate for all masks of a pass, `"mask"` one for each.

    Example:
        >>> rate = BetaBernoulliRate(prior_alpha=0.8)
        >>> rate.a, rate.b = 1.0, 1.0  # the uniform distribution
        >>> round(rate.mean().item(), 4), round(rate.sample(torch.tensor(0.25)).item(), 4)
        (0.5, 0.75)
    """

    def __init__(
        self,
        prior_alpha: float = 0.8,
        prior_beta: float = 1.0,
        entries: int | None = None,
        rate_draw: RateDraw = "layer",
    ) -> None:
        super().__init__(entries)
        for name, value in (("prior_alpha", prior_alpha), ("prior_beta", prior_beta)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(
                    f"{name} is {value}; it takes a finite number above 0."
                    " Beta(1, 1) is the uniform prior."
                )
        if rate_draw not in get_args(RateDraw):
            raise ValueError(
                f"rate_draw is {rate_draw!r}; it takes 'layer', one rate for all masks of a pass,"
                " or 'mask', one for each."
            )
        if rate_draw == "mask" and self.entries:
            raise ValueError(
                f"rate_draw is 'mask' and entries is {entries}; a local rate is drawn for every"
                " edge as it is. Pass rate_draw='layer', or entries=None."
            )
        self.rate_draw = rate_draw
        self.prior_alpha = float(prior_alpha)
        self.prior_beta = float(prior_beta)
        self.raw_a = nn.Parameter(torch.empty(self.entries))
        self.raw_b = nn.Parameter(torch.empty(self.entries))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize as the authors' code does; the mean keep probability is then about 0.6."""
        nn.init.uniform_(self.raw_a, 1.0, 1.5)
        nn.init.uniform_(self.raw_b, 0.49, 0.51)

    @property
    def a(self) -> Tensor:
        """First parameter of the posterior, positive, in the shape of `entries`."""
        return nn.functional.softplus(self.raw_a)

    @a.setter
    def a(self, value: float | Tensor) -> None:
        _set_through_softplus(self.raw_a, value, "a")

    @property
    def b(self) -> Tensor:
        """Second parameter of the posterior, positive, in the shape of `entries`."""
        return nn.functional.softplus(self.raw_b)

    @b.setter
    def b(self, value: float | Tensor) -> None:
        _set_through_softplus(self.raw_b, value, "b")

    @property
    def num_uniforms(self) -> int:
        """One per entry; none where every mask draws its own rate."""
        return 0 if self.rate_draw == "mask" else self.entries.numel()

    def logit(self, u: Tensor | None = None) -> Tensor:
        """The logit of `(1 - u^(1/b))^(1/a)`, which falls as `u` grows.

        With a rate for every mask it is the logit of the mean, and `u` is ignored.
        """
        if self.rate_draw == "mask":
            logit = kumaraswamy.mean_logit(to_float64(self.a), to_float64(self.b))
            return logit.to(self.raw_a)
        log_u = self._log_uniform(u)
        return kumaraswamy.logit(log_u, to_float64(self.a), to_float64(self.b)).to(self.raw_a)

    def sample(self, u: Tensor | None = None) -> Tensor:
        """The keep probability `(1 - u^(1/b))^(1/a)`; with a rate for every mask, the mean."""
        if self.rate_draw == "mask":
            return self.mean()
        log_keep = kumaraswamy.log_keep(
            self._log_uniform(u), to_float64(self.a), to_float64(self.b)
        )
        return log_keep.exp().to(self.raw_a)

    def table(self, temperature: float) -> Table | None:
        """Relaxed masks with a rate each, in one table with gradients for `a` and `b`."""
        if self.rate_draw == "layer":
            return None
        return marginal.table(to_float64(self.a), to_float64(self.b), temperature)

    def mean(self) -> Tensor:
        """`E[pi] = b B(1 + 1/a, b)`, in the shape of `entries`."""
        return kumaraswamy.mean(to_float64(self.a), to_float64(self.b)).to(self.raw_a)

    def log_prob(self, keep: Tensor) -> Tensor:
        """`log q(keep)`, the posterior's log density at keep probabilities inside (0, 1)."""
        if not bool(((keep > 0) & (keep < 1)).all()):
            raise ValueError(
                f"keep has values from {keep.min().item():g} to {keep.max().item():g}; log_prob"
                " takes probabilities between 0 and 1, both excluded. Clamp them first."
            )
        density = kumaraswamy.log_prob(to_float64(keep), to_float64(self.a), to_float64(self.b))
        return density.to(self.raw_a)

    def kl(self) -> Tensor:
        """`KL(q || prior)`, summed over entries."""
        kl = kumaraswamy.kl_to_beta(
            to_float64(self.a), to_float64(self.b), self.prior_alpha, self.prior_beta
        )
        return kl.sum().to(self.raw_a)

    def extra_repr(self) -> str:
        """The prior, and what a rate is drawn for unless it is a layer."""
        own = f"prior_alpha={self.prior_alpha:g}, prior_beta={self.prior_beta:g}"
        drawn = "" if self.rate_draw == "layer" else f"rate_draw={self.rate_draw!r}"
        return ", ".join(filter(None, (own, super().extra_repr(), drawn)))

    def _log_uniform(self, u: Tensor | None) -> Tensor:
        """`log u` in float64, finite and below 0 also where rounding has made `u` 0 or 1."""
        if u is None or not u.is_floating_point():
            raise ValueError(
                f"u is {'None' if u is None else u.dtype}; drawing from a BetaBernoulliRate takes"
                f" a floating-point tensor of uniforms in (0, 1), shape {tuple(self.entries)} or"
                " broadcastable to it. For the rate without a draw call mean()."
            )
        if self.entries and u.dim() and u.shape[-1] not in (1, self.entries[0]):
            raise ValueError(
                f"u has shape {tuple(u.shape)}; a local rate of {self.entries[0]} entries takes"
                f" (..., {self.entries[0]}). Draw one uniform per entry."
            )
        limits = torch.finfo(u.dtype)
        return to_float64(u.clamp(limits.tiny, 1 - limits.eps / 2)).log()


def _set_through_softplus(raw: nn.Parameter, value: float | Tensor, name: str) -> None:
    """Fill `raw` in place so that `softplus(raw)` is `value`."""
    target = torch.as_tensor(value, dtype=torch.float64, device="cpu")
    fits = target.dim() == 0 or target.shape == raw.shape
    if not (fits and bool(((target > 0) & target.isfinite()).all())):
        raise ValueError(
            f"{name} is {value}; it takes finite numbers above 0: one, or one per entry in shape"
            f" {tuple(raw.shape)}. Set {name} itself, not its logarithm or raw value."
        )
    with torch.no_grad():
        raw.copy_(target + (-torch.expm1(-target)).log())
