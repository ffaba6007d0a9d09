"""The Kumaraswamy distribution of a keep probability, in log space.

    q(pi) = a b pi^(a-1) (1 - pi^a)^(b-1),    pi = (1 - u^(1/b))^(1/a),  u uniform on (0, 1)

It is the posterior of a rate, eq. (11) of the paper. All is computed with surprisals, `-log` of a
probability. The surprisals of `p` and of `1 - p` are related by `F(x) = -log(1 - exp(-x))`, so that
sampling applies `F` twice:

    t = -log(u) / b,      -log(pi) = F(t) / a,      -log(1 - pi) = F(F(t) / a)

`t` and `-log(pi)` span thousands of orders of magnitude. They are therefore stored as logarithms,
and `F` uses its asymptotic form where the direct one would round to 0 or infinity. The functions
compute in the dtype of their arguments; the rates pass float64.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_EULER_GAMMA = 0.5772156649015329

# Beyond these the asymptotic form of F is the more accurate one (both sides agree to 1e-12).
_LARGE = 9.0
_LOG_LARGE = math.log(_LARGE)
_LOG_SMALL = -36.0

# Below it a mean's surprisal is the rounding of its three terms.
_LEAST = 1e-15

# Entries whose quadrature is held in memory at once: 1024 of them take 2 MB an intermediate.
_CHUNK = 1024


def _exponential_quadrature(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes `v` and weights `w` with `sum w g(v)` close to `int_0^inf exp(-v) g(v) dv`.

    The trapezoidal rule after `v = exp(x - exp(-x)/2)`, which makes both ends fall off doubly
    exponentially: `g` may have a logarithm at 0 and a bend anywhere in between.
    """
    x = torch.linspace(-math.log(48.0), math.log(50.0), nodes, dtype=torch.float64)
    half = (-x).exp() / 2
    v = (x - half).exp()
    return v, (x[1] - x[0]) * (1 + half) * v * (-v).exp()


_NODES, _WEIGHTS = _exponential_quadrature(224)


def log_keep(log_u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`log pi` of the draw at `log_u < 0`."""
    return -_log_surprisal(log_u, a, b).exp()


def log_drop(log_u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`log(1 - pi)` of the draw at `log_u < 0`."""
    return _log_complement(_log_surprisal(log_u, a, b))


def logit(log_u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`log pi - log(1 - pi)` of the draw at `log_u < 0`."""
    if _is_one_number(log_u, a, b):
        return _LogitOfOne.apply(a, b, log_u.item())  # type: ignore[no-any-return, no-untyped-call]
    log_surprisal = _log_surprisal(log_u, a, b)
    return -log_surprisal.exp() - _log_complement(log_surprisal)


def _is_one_number(*tensors: Tensor) -> bool:
    return not tensors[0].requires_grad and all(
        tensor.dim() == 0 and tensor.dtype == torch.float64 and tensor.device.type == "cpu"
        for tensor in tensors
    )


class _LogitOfOne(torch.autograd.Function):
    """`logit` of a global rate, once per layer and step, without forty operations on tensors.

    With `g(s) = s / (1 - exp(-s))` and `h(t) = t / ((exp(t) - 1) F(t))` the derivatives with
    respect to `a` and `b` are `g / a` and `-g h / b`.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, log_u: float) -> Tensor:
        a_value, b_value = a.item(), b.item()
        if not b_value > 0.0:
            raise FloatingPointError("the parameter b of a rate's posterior has become 0")
        t = -log_u / b_value
        if t > _LARGE:
            x = math.exp(-t)
            log_f = -t + x * (1 / 2 + 5 / 24 * x)
            h = t * (1.0 + x / 2.0)
        else:
            f = -math.log(-math.expm1(-t))
            log_f = math.log(f)
            h = t / (math.expm1(t) * f)
        log_s = log_f - math.log(a_value)
        s = math.exp(log_s)
        if log_s < _LOG_SMALL:
            log_drop_value, g = log_s, 1.0
        else:
            log_drop_value, g = math.log(-math.expm1(-s)), s / -math.expm1(-s)
        ctx.slopes = g / a_value, -g * h / b_value
        return a.new_tensor(-s - log_drop_value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient * ctx.slopes[0], gradient * ctx.slopes[1], None


def mean(a: Tensor, b: Tensor) -> Tensor:
    """`E[pi] = b B(1 + 1/a, b)`."""
    return _log_mean(a, b).exp()


def mean_logit(a: Tensor, b: Tensor) -> Tensor:
    """`logit E[pi]`, finite also where the mean rounds to 0 or 1."""
    log_mean = _log_mean(a, b).clamp(max=-_LEAST)
    return log_mean - (-torch.expm1(log_mean)).log()


def _log_mean(a: Tensor, b: Tensor) -> Tensor:
    one_plus = 1 + a.reciprocal()
    return torch.lgamma(one_plus) + torch.lgamma(1 + b) - torch.lgamma(one_plus + b)


def log_prob(keep: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`log q(keep)` for `keep` inside (0, 1)."""
    log_pi = keep.log()
    log_rest = _log_complement((-log_pi).log() + a.log())  # log(1 - keep^a)
    return a.log() + b.log() + (a - 1) * log_pi + (b - 1) * log_rest


def kl_to_beta(a: Tensor, b: Tensor, alpha: float, beta: float) -> Tensor:
    """`KL(Kumaraswamy(a, b) || Beta(alpha, beta))` for `a` and `b` of one shape.

        (alpha - a)/a H_b + log(a b) + log B(alpha, beta) - (b - 1)/b - (beta - 1) E[log(1 - pi)]

    with `H_b = psi(b + 1) + gamma`. At `beta = 1` the expectation drops out, and this is the
    closed form of the paper.
    """
    harmonic = torch.digamma(b + 1) + _EULER_GAMMA
    log_beta = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    kl = (alpha / a - 1) * harmonic + (a * b).log() + b.reciprocal() + (log_beta - 1)
    if beta == 1:
        return kl
    return kl - (beta - 1) * expected_log_drop(a, b)


def expected_log_drop(a: Tensor, b: Tensor) -> Tensor:
    """`E[log(1 - pi)]` for `a` and `b` of one shape, by quadrature over `-log u`.

    The nodes are constants, so autograd gives the gradient of what is computed. Off by less than
    1e-7 relative or 1e-15 absolute for `a`, `b` in [1e-3, 1e3], gradients included, where the
    series in `B(m/a, b)` has a tail of order `M^-b` after `M` terms.
    """
    if a.numel() <= _CHUNK:
        return _integrate_log_drop(a, b)
    # One chunk's intermediates at a time: the backward pass computes them again.
    chunks = math.ceil(a.numel() / _CHUNK)
    parts = [
        checkpoint(_integrate_log_drop, *part, use_reentrant=False, preserve_rng_state=False)
        for part in zip(a.flatten().chunk(chunks), b.flatten().chunk(chunks), strict=True)
    ]
    return torch.cat(parts).view(a.shape)


def _integrate_log_drop(a: Tensor, b: Tensor) -> Tensor:
    values = log_drop(-_NODES.to(a), a.unsqueeze(-1), b.unsqueeze(-1))
    return (_WEIGHTS.to(a) * values).sum(-1)


def _log_surprisal(log_u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`log(-log pi) = log F(t) - log a`."""
    log_t = (-log_u).log() - b.log()
    # F(t) -> x (1 + x/2 + x^2/3 ...) with x = exp(-t); the clamp keeps the unused branch, and so
    # its gradient, finite.
    t = log_t.exp()
    x = (-t).exp()
    large = -t + x * (1 / 2 + 5 / 24 * x)
    direct = (-(-torch.expm1(-log_t.clamp(max=_LOG_LARGE).exp())).log()).log()
    return torch.where(log_t > _LOG_LARGE, large, direct) - a.log()


def _log_complement(log_surprisal: Tensor) -> Tensor:
    """`log(1 - p) = -F(x)` from `log x`, the logarithm of the surprisal `x = -log p`."""
    surprisal = log_surprisal.clamp(min=_LOG_SMALL).exp()
    direct = (-torch.expm1(-surprisal)).log()
    return torch.where(log_surprisal < _LOG_SMALL, log_surprisal, direct)
