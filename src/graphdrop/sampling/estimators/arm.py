"""ARM and DisARM: unbiased gradients from two forward passes with antithetic uniforms."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from graphdrop.io.devices import to_float64
from graphdrop.kernels.sums import DrawSums
from graphdrop.sampling.estimators.base import Estimator, Run, learned, with_gradients


class Antithetic(Estimator):
    """Base class of antithetic estimators: two passes, with uniforms ``u`` and ``1 - u``.

    The gradient of a keep logit is the difference of the two losses times ``weight``. The weights
    of the network get their gradient from the first pass. The second pass runs without autograd,
    and only if a rate is learned.
    """

    @abstractmethod
    def weight(self, sums: DrawSums) -> Tensor:
        """The factor of the difference, in the shape of the keep logit."""

    def loss(self, run: Run) -> Tensor:
        """The loss of the first pass; its backward pass estimates the gradients of the rates."""
        loss, layers = run(antithetic=False)
        rates = learned(layers)
        if not rates:
            return loss
        with torch.no_grad():
            opposite, _ = run(antithetic=True)
        difference = to_float64(loss.detach()) - to_float64(opposite)
        return with_gradients(
            loss, [(rate.keep_logit, difference * self.weight(rate.sums())) for rate in rates]
        )


class ARM(Antithetic):
    r"""Augment-REINFORCE-merge (Yin and Zhou, 2019), the ARM gradient of the paper's section 4.

    .. math:: g_\phi = \big( f(1[u > \sigma(-\phi)]) - f(1[u < \sigma(\phi)]) \big)
        \sum_{\text{distinct draws}} (u - 1/2)

    It is unbiased, and takes one pair of forward passes for all layers and edges. ``phi`` is the
    keep logit, a scalar or ``[E]``.

    Example:
        >>> from graphdrop import GCN, DropEdge, LearnedRate
        >>> model = GCN(3, 8, 2, 2, DropEdge(LearnedRate()), estimator=ARM())
        >>> x, edge_index = torch.eye(3), torch.tensor([[0, 1], [1, 0]])
        >>> model.loss(lambda: model(x, edge_index).square().mean()).backward()
        >>> [layer.sampler.rate.keep_logit.grad is not None for layer in model.layers]
        [True, True]
    """

    def weight(self, sums: DrawSums) -> Tensor:
        """The sum of ``u - 1/2``."""
        return sums.centred


class DisARM(Antithetic):
    r"""DisARM (Dong, Mnih and Tucker, 2020): ARM with ``u`` integrated out given both masks.

    .. math:: g_\phi = \tfrac12 \big( f(z) - f(\tilde z) \big) \, \sigma(|\phi|)
        \sum_{\text{distinct draws}} (z - \tilde z)

    The two masks of a draw differ where ``u`` lies in one of the outer
    :math:`\min(\pi, 1 - \pi)` of (0, 1), and there the mean of ``u - 1/2`` is
    :math:`\pm \sigma(|\phi|) / 2`; where they agree it is 0. The mean is that of ARM, and the
    variance is never larger.

    Example:
        >>> from graphdrop import GCN, DropEdge, LearnedRate
        >>> model = GCN(3, 8, 2, 2, DropEdge(LearnedRate()), estimator=DisARM())
        >>> x, edge_index = torch.eye(3), torch.tensor([[0, 1], [1, 0]])
        >>> model.loss(lambda: model(x, edge_index).square().mean()).shape
        torch.Size([])
    """

    def weight(self, sums: DrawSums) -> Tensor:
        """The sum of ``E[u - 1/2 | z, z~]``."""
        likelier = torch.maximum(sums.keep, 1.0 - sums.keep)
        return 0.5 * likelier * (sums.kept - sums.kept_opposite).to(likelier.device)
