"""Amortized rates: a network computes the keep probability of an edge from edge features."""

import math

import torch
from torch import Tensor, nn

from graphdrop.graph import CSR, Graph
from graphdrop.io.devices import to_float64
from graphdrop.sampling.edges import describe_edges
from graphdrop.sampling.rates import kumaraswamy
from graphdrop.sampling.rates.base import Rate


class AmortizedRate(Rate):
    """Amortized beta-Bernoulli rates: a small network computes the posterior of every edge.

        (a_e, b_e) = softplus(W2 tanh(W1 x_e + c1) + c2),    q(pi_e) = Kumaraswamy(a_e, b_e)

    The number of parameters does not depend on the number of edges. Edges without a labelled node
    nearby therefore learn from the other edges, and the rates of a new graph are defined. At first
    all edges have nearly the posterior of a new `BetaBernoulliRate`.

    `observe(edges)` sets the edges that the rates belong to, `[E, features]`. A sampler calls it
    before it draws a mask. Prior and posterior are those of the paper's eq. (10) and (11).

    Args:
        features: How many numbers describe an edge.
        prior_alpha: First parameter of the beta prior, above 0.
        prior_beta: Second parameter of the beta prior, above 0.
        hidden: Width of the network.

    Example:
        >>> rate = AmortizedRate(features=3)
        >>> rate.observe(torch.zeros(5, 3))
        >>> rate.mean().shape
        torch.Size([5])
    """

    def __init__(
        self,
        features: int,
        prior_alpha: float = 0.8,
        prior_beta: float = 1.0,
        hidden: int = 16,
    ) -> None:
        super().__init__()
        for name, value in (("prior_alpha", prior_alpha), ("prior_beta", prior_beta)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}; it takes a finite number above 0.")
        for name, value in (("features", features), ("hidden", hidden)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it takes a whole number of at least 1.")
        self.features, self.hidden = features, hidden
        self.prior_alpha, self.prior_beta = float(prior_alpha), float(prior_beta)
        self.inner = nn.Linear(features, hidden)
        self.outer = nn.Linear(hidden, 2)
        self.entries = torch.Size((0,))
        self._edges: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize to the posterior of a new `BetaBernoulliRate`, nearly equal for all edges."""
        self.inner.reset_parameters()
        nn.init.normal_(self.outer.weight, std=0.01)
        nn.init.uniform_(self.outer.bias[:1], 1.0, 1.5)
        nn.init.uniform_(self.outer.bias[1:], 0.49, 0.51)

    @property
    def reads_edges(self) -> bool:
        """True: rates are computed from edge features."""
        return True

    def describe(self, graph: Graph, x: Tensor | CSR) -> Tensor:
        """The edge features of a whole graph."""
        return describe_edges(graph, x)

    def observe(self, edges: Tensor) -> None:
        """Set the edges that the rates belong to, as edge features `[E, features]`."""
        wanted = self.inner.in_features
        if edges.dim() != 2 or edges.shape[1] != wanted:
            raise ValueError(
                f"edges has shape {tuple(edges.shape)}; it takes (edges, {wanted}), a row for every"
                f" edge. For {edges.shape[-1]} features build AmortizedRate({edges.shape[-1]})."
            )
        self._edges = edges
        self.entries = edges.shape[:1]

    def posterior(self) -> tuple[Tensor, Tensor]:
        """The parameters `a` and `b` of the posterior of every observed edge, `[E]` each."""
        if self._edges is None:
            raise ValueError(
                "edges are not set; AmortizedRate computes its rates from edge features. Call a"
                " graphdrop.GCN that has this rate on a graph, or call"
                " observe(describe_edges(graph, x))."
            )
        hidden = torch.tanh(self.inner(self._edges.to(self.inner.weight)))
        a, b = nn.functional.softplus(self.outer(hidden)).unbind(1)
        return a, b

    @property
    def num_uniforms(self) -> int:
        """One per edge."""
        return self.entries.numel()

    def logit(self, u: Tensor | None = None) -> Tensor:
        """The logit of `(1 - u^(1/b))^(1/a)` for uniforms `u [E]`, computed in float64."""
        a, b = self.posterior()
        if u is None or not u.is_floating_point() or u.shape[-1:] != self.entries:
            got = "None" if u is None else f"{u.dtype} of shape {tuple(u.shape)}"
            raise ValueError(
                f"u is {got}; it takes floating-point uniforms in (0, 1), shape (..., {len(a)})."
                " For the rates without a draw call mean()."
            )
        limits = torch.finfo(u.dtype)  # rounding may have made a uniform 0 or 1
        log_u = to_float64(u.clamp(limits.tiny, 1 - limits.eps / 2)).log()
        return kumaraswamy.logit(log_u, to_float64(a), to_float64(b)).to(a)

    def mean(self) -> Tensor:
        """`E[pi] = b B(1 + 1/a, b)` of every edge, `[E]`."""
        a, b = self.posterior()
        return kumaraswamy.mean(to_float64(a), to_float64(b)).to(a)

    def kl(self) -> Tensor:
        """`KL(q || prior)`, summed over edges."""
        a, b = self.posterior()
        kl = kumaraswamy.kl_to_beta(to_float64(a), to_float64(b), self.prior_alpha, self.prior_beta)
        return kl.sum().to(a)

    def extra_repr(self) -> str:
        """The prior; the network shows itself."""
        return f"prior_alpha={self.prior_alpha:g}, prior_beta={self.prior_beta:g}"
