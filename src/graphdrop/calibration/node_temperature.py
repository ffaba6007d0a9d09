"""``GraphCalibrator``: calibrators that give every node a temperature, from its surroundings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from graphdrop.calibration.temperature import TemperatureScaling, check_targets
from graphdrop.inference.calibrator import Calibrator, Corrector, Samples, Surroundings

LEARNING_RATE = 0.01
EPOCHS, PATIENCE = 1000, 100
FOLDS = 3
"""Parts of the calibration nodes; each is held out once to find the number of epochs."""
SEED = 0
"""The seed of the first weights, of DropOut and of what is held out."""
SMALLEST, LARGEST = 1e-2, 1e2
"""Bounds of a node's temperature, relative to the one that is best for all nodes."""
DEVIATION = 0.3
"""Standard deviation of the normal prior on the logarithm of a node's temperature, relative to the
one that is best for all nodes, as the root mean square over the calibration nodes."""


class TemperatureNetwork(nn.Module):
    """A small network that makes a temperature for every node; 1 for all before it is trained."""

    @abstractmethod
    def read(self, surroundings: Surroundings) -> Any:
        """What ``forward`` takes: all that does not depend on the weights, worked out once."""

    @abstractmethod
    def forward(self, read: Any, generator: torch.Generator | None = None) -> Tensor:
        """The temperatures ``[n]``; with a generator DropOut draws from it."""


@dataclass(eq=False)
class GraphCalibrator(Calibrator):
    r"""Divide the logits of every sample by a temperature of their node's own.

    .. math:: p_i = \frac1S \sum_s \mathrm{softmax}(f_{s,i} / T_i), \quad T_i = T\,g_i(\bar f, A)

    :math:`T` is that of temperature scaling, and :math:`g_i` is made by a small network from the
    samples' mean logits of the node and its neighbors. It starts as 1. The
    number of epochs is that of least NLL in three-fold cross-validation on the calibration nodes;
    the network is then fitted to all of them for so many epochs. All of it is deterministic.

    The logarithm of :math:`g` has a normal prior: beside the NLL, summed over the :math:`n`
    calibration nodes, stands :math:`\frac1n \sum_i (\log g_i)^2 / (2 \cdot 0.3^2)`.

    Args:
        temperature: common to all nodes.
        weights: of the network, by name.
        classes: number of classes.
    """

    reads_graph: ClassVar[bool] = True
    weight_decay: ClassVar[float]
    margin: ClassVar[float] = 0.0
    """Weight of the calibration margin loss beside the NLL."""
    temperature: float
    weights: Mapping[str, Tensor] = field(repr=False)
    classes: int

    def __post_init__(self) -> None:
        self.temperature = TemperatureScaling(self.temperature).temperature
        self.weights = {name: torch.as_tensor(value) for name, value in self.weights.items()}
        self.network = self.build(self.classes)
        self.network.load_state_dict(self.weights)

    @classmethod
    @abstractmethod
    def build(cls, classes: int) -> TemperatureNetwork:
        """The network, with weights from ``SEED``."""

    @torch.no_grad()
    def temperatures(self, surroundings: Surroundings) -> Tensor:
        """The temperature of every node of ``surroundings.rows``."""
        if surroundings.logits.shape[1] != self.classes:
            raise ValueError(
                f"logits has {surroundings.logits.shape[1]} classes; this calibrator was fitted on "
                f"{self.classes}. Fit one for these classes."
            )
        network = self.network.to(surroundings.logits.device)
        found: Tensor = network(network.read(_center(surroundings, self.temperature)))
        rows = surroundings.rows
        return self.temperature * (found if rows is None else found[rows])

    def corrector(self, samples: Samples, surroundings: Surroundings | None = None) -> Corrector:
        """Logits over the temperatures of their nodes, ``surroundings.rows`` in their order."""
        del samples
        temperatures = self.temperatures(_require_surroundings(self.name, surroundings))[:, None]
        return lambda outputs: outputs / temperatures.to(outputs)

    @classmethod
    def fit(
        cls, samples: Samples, targets: Tensor, surroundings: Surroundings | None = None
    ) -> Self:
        """The network of least NLL on the calibration nodes, stopped early."""
        surroundings = _require_surroundings(cls.name, surroundings)
        check_targets(targets)
        common = TemperatureScaling.fit(samples, targets).temperature
        logits = torch.stack([outputs.double() for outputs in samples()]) / common
        classes, rows = logits.shape[2], surroundings.rows
        read = cls.build(classes).to(logits.device).read(_center(surroundings, common))

        def loss(
            network: TemperatureNetwork, nodes: Tensor, generator: torch.Generator | None = None
        ) -> tuple[Tensor, Tensor]:
            """The NLL on some calibration nodes, and what training adds to it."""
            found = network(read, generator)
            relative = (found if rows is None else found[rows])[nodes].double()
            log = torch.log_softmax(logits[:, nodes] / relative[:, None], 2).logsumexp(0)
            log, own = log - math.log(len(logits)), targets[nodes]
            prior = relative.log().square().mean() / (2.0 * DEVIATION**2 * len(nodes))
            margin = cls.margin * margin_loss(log.exp(), own) if cls.margin else 0.0
            return -log.gather(1, own[:, None]).mean(), prior + margin

        def train(nodes: Tensor) -> Iterator[TemperatureNetwork]:
            """A network before its first epoch of Adam on some nodes, and after each."""
            network, generator = cls.build(classes).to(logits.device), _generator()
            adam = torch.optim.Adam(
                network.parameters(), LEARNING_RATE, weight_decay=cls.weight_decay
            )
            while True:
                yield network
                with torch.enable_grad():
                    adam.zero_grad()
                    sum(loss(network, nodes, generator)).backward()  # type: ignore[union-attr]
                    adam.step()

        order = torch.randperm(len(targets), generator=_generator())
        parts = [torch.arange(len(order)) % FOLDS == fold for fold in range(FOLDS)]
        folds = [(order[held], train(order[~held])) for held in parts]
        best, epochs = math.inf, 0
        for epoch in range(EPOCHS + 1 if len(order) >= FOLDS else 0):
            with torch.no_grad():
                nll = sum(float(loss(next(run), held)[0]) * len(held) for held, run in folds)
            if nll < best:
                best, epochs = nll, epoch
            elif epoch - epochs >= PATIENCE:
                break
        network = next(islice(train(order), epochs, None))
        return cls(common, network.state_dict(), classes)

    def summary(self) -> dict[str, Any]:
        """The common temperature."""
        return {"temperature": self.temperature}


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)


def _center(surroundings: Surroundings, temperature: float) -> Surroundings:
    """The surroundings with float32 logits around 0, over the common temperature."""
    logits = surroundings.logits.double() / temperature
    return replace(surroundings, logits=(logits - logits.mean(1, keepdim=True)).float())


def _require_surroundings(name: str, surroundings: Surroundings | None) -> Surroundings:
    """The surroundings, or an error that asks for them."""
    if surroundings is None:
        raise ValueError(
            f'the calibrator "{name}" has no graph; it takes the logits of all nodes and their '
            f'edges. Call calibrate(logits, labels, "{name}", data=data, mask=data.val_mask).'
        )
    return surroundings


def margin_loss(probabilities: Tensor, targets: Tensor) -> Tensor:
    """CaGCN's margin: a right prediction should lead the second class by 1, a wrong one by 0."""
    (first, second), (guess, _) = (both.unbind(1) for both in probabilities.topk(2, 1))
    lead = first - second
    return torch.where(guess == targets, 1.0 - lead, lead).mean()
