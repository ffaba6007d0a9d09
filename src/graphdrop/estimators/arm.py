"""ARM and DisARM: unbiased gradients from two passes with opposite draws."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from graphdrop.estimators.base import Estimator, Run, learned, with_gradients
from graphdrop.kernels.sums import DrawSums


class Antithetic(Estimator):
    """Weighs the difference between a pass and its opposite, in which every ``u`` is ``1 - u``.

    The weights of the network take their gradient from the first pass; the second keeps nothing
    for a backward pass, and is left out where no rate is learned.
    """

    @abstractmethod
    def weight(self, sums: DrawSums) -> Tensor:
        """What the difference is multiplied by to give the gradient of a keep logit."""

    def loss(self, run: Run) -> Tensor:
        """The loss of the first pass, with gradients for the keep logits from both."""
        loss, layers = run(antithetic=False)
        rates = learned(layers)
        if not rates:
            return loss
        with torch.no_grad():
            opposite, _ = run(antithetic=True)
        difference = loss.detach().double() - opposite.double()
        return with_gradients(
            loss, [(rate.keep_logit, difference * self.weight(rate.sums())) for rate in rates]
        )


class ARM(Antithetic):
    r"""Augment-REINFORCE-merge (Yin and Zhou, 2019), for all layers and draws at once.

    .. math:: g_\phi = \big( f(1[u > \sigma(-\phi)]) - f(1[u < \sigma(\phi)]) \big)
        \sum_{\text{distinct draws}} (u - 1/2)
    """

    def weight(self, sums: DrawSums) -> Tensor:
        """The sum of ``u - 1/2``."""
        return sums.centred


class DisARM(Antithetic):
    r"""ARM with ``u`` integrated out given both masks (Dong, Mnih and Tucker, 2020).

    .. math:: g_\phi = \tfrac12 \big( f(z) - f(\tilde z) \big) \, \sigma(|\phi|)
        \sum_{\text{distinct draws}} (z - \tilde z)

    The two masks of a draw differ where ``u`` lies in one of the outer
    :math:`\min(\pi, 1 - \pi)` of (0, 1), and there the mean of ``u - 1/2`` is
    :math:`\pm \sigma(|\phi|) / 2`; where they agree it is 0. Hence the same mean as ARM's, and a
    variance that is never larger.
    """

    def weight(self, sums: DrawSums) -> Tensor:
        """The sum of ``E[u - 1/2 | z, z~]``."""
        likelier = torch.maximum(sums.keep, 1.0 - sums.keep)
        return 0.5 * likelier * (sums.kept - sums.kept_opposite)
