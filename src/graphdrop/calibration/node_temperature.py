"""``GraphCalibrator``: calibrators that give every node a temperature, from its surroundings."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.inference.calibrator import Calibrator, Samples, check_targets
from graphdrop.inference.surroundings import Surroundings

LEARNING_RATE = 0.01
EPOCHS, PATIENCE = 1000, 100
FOLDS = 3
"""Parts of the calibration nodes; each is held out once to find the number of epochs."""
SEED = 0
"""Of the first weights, of DropOut and of what is held out."""
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

    def __init__(self, temperature: float, weights: Mapping[str, Tensor], classes: int) -> None:
        self.temperature, self.classes = float(temperature), classes
        self.network = self.built(classes)
        self.network.load_state_dict(dict(weights))
        self._of_rows: Tensor | None = None

    @classmethod
    @abstractmethod
    def built(cls, classes: int) -> TemperatureNetwork:
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
        found: Tensor = network(network.read(self._tempered(surroundings, self.temperature)))
        rows = surroundings.rows
        return self.temperature * (found if rows is None else found[rows])

    def seeing(self, surroundings: Surroundings) -> Self:
        """The calibrator for the outputs of ``surroundings.rows``, in their order."""
        seen = copy.copy(self)
        seen._of_rows = self.temperatures(surroundings)
        return seen

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The calibrator for the outputs of several graphs, one after the other."""
        whole = copy.copy(parts[0])
        whole._of_rows = torch.cat([p._of_rows for p in parts if p._of_rows is not None])
        return whole

    def correct(self, outputs: Tensor) -> Tensor:
        """Logits over the temperatures of their nodes."""
        if self._of_rows is None or len(self._of_rows) != outputs.shape[-2]:
            seen = "none" if self._of_rows is None else f"{len(self._of_rows)} nodes"
            raise ValueError(
                f"outputs has {outputs.shape[-2]} rows and {type(self).__name__} has seen {seen}; "
                "it takes the rows that it has seen. Use predict(model, data, calibrator=...), or "
                "pass data=... to apply."
            )
        return outputs / self._of_rows.to(outputs)[:, None]

    @classmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:  # noqa: ARG003
        """Impossible without a graph."""
        raise ValueError(
            f"{cls.__name__} has no graph; it takes the logits of all nodes and their edges. Call "
            f'calibrate(logits, labels, "{cls.name}", data=data, mask=data.val_mask).'
        )

    @classmethod
    def fit_within(cls, surroundings: Surroundings, samples: Samples, targets: Tensor) -> Self:
        """The network of least NLL on the calibration nodes, stopped early."""
        check_targets(targets)
        common = TemperatureScaling.fit(samples, targets).temperature
        logits = torch.stack([one.double() for one in samples()]) / common
        classes = logits.shape[2]
        fitting = _Fitting(cls, cls._tempered(surroundings, common), logits, targets)
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(SEED))
        epochs = fitting.epochs_until_best(order) if len(targets) >= FOLDS else 0
        network = fitting.trained(order, epochs)
        return cls(common, network.state_dict(), classes)

    @classmethod
    def _tempered(cls, surroundings: Surroundings, temperature: float) -> Surroundings:
        """With float32 logits around 0, over the common temperature."""
        logits = surroundings.logits.double() / temperature
        logits = (logits - logits.mean(1, keepdim=True)).float()
        return replace(surroundings, logits=logits)

    def as_json(self) -> dict[str, Any]:
        """The common temperature and the weights."""
        weights = {name: value.tolist() for name, value in self.network.state_dict().items()}
        return {"temperature": self.temperature, "classes": self.classes, "weights": weights}

    def summary(self) -> dict[str, Any]:
        """The common temperature."""
        return {"temperature": self.temperature}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the numbers of a file."""
        weights = {name: torch.tensor(value) for name, value in values["weights"].items()}
        return cls(float(values["temperature"]), weights, int(values["classes"]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.classes} classes, {self.temperature:.4g} x each node)"


class _Fitting:
    """Networks that are fitted by Adam to the same calibration nodes or parts of them."""

    def __init__(
        self,
        kind: type[GraphCalibrator],
        surroundings: Surroundings,
        logits: Tensor,
        targets: Tensor,
    ) -> None:
        self.kind, self.logits, self.targets = kind, logits, targets
        self.rows = surroundings.rows
        self.read = kind.built(logits.shape[2]).to(logits.device).read(surroundings)

    def epochs_until_best(self, order: Tensor) -> int:
        """The number of epochs with the least NLL in cross-validation; 0 if none lowers it."""
        folds = []
        for number in range(FOLDS):
            held = torch.arange(len(order)) % FOLDS == number
            network = self._fresh()
            folds.append((network, *self._optimizer(network), order[~held], order[held]))
        best, at = math.inf, 0
        for epoch in range(EPOCHS + 1):
            loss = sum(self._nll(network, held) * len(held) for network, _, _, _, held in folds)
            for network, optimizer, generator, chosen, _ in folds:
                self._step(network, optimizer, generator, chosen)
            if loss < best:
                best, at = loss, epoch
            elif epoch - at >= PATIENCE:
                break
        return at

    def trained(self, chosen: Tensor, epochs: int) -> TemperatureNetwork:
        """A network after so many epochs."""
        network = self._fresh()
        optimizer, generator = self._optimizer(network)
        for _ in range(epochs):
            self._step(network, optimizer, generator, chosen)
        return network

    def _fresh(self) -> TemperatureNetwork:
        return self.kind.built(self.logits.shape[2]).to(self.logits.device)

    def _optimizer(self, network: nn.Module) -> tuple[torch.optim.Optimizer, torch.Generator]:
        decay = self.kind.weight_decay
        adam = torch.optim.Adam(network.parameters(), LEARNING_RATE, weight_decay=decay)
        return adam, torch.Generator().manual_seed(SEED)

    def _relative(
        self, network: TemperatureNetwork, chosen: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        found: Tensor = network(self.read, generator)
        return (found if self.rows is None else found[self.rows])[chosen].double()

    def _log_probabilities(self, relative: Tensor, chosen: Tensor) -> Tensor:
        samples = torch.log_softmax(self.logits[:, chosen] / relative[:, None], 2)
        return samples.logsumexp(0) - math.log(len(samples))

    @torch.no_grad()
    def _nll(self, network: TemperatureNetwork, chosen: Tensor) -> float:
        log = self._log_probabilities(self._relative(network, chosen, None), chosen)
        return float(-log.gather(1, self.targets[chosen][:, None]).mean())

    @torch.enable_grad()
    def _step(
        self,
        network: TemperatureNetwork,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        chosen: Tensor,
    ) -> None:
        found = self._relative(network, chosen, generator)
        log, targets = self._log_probabilities(found, chosen), self.targets[chosen]
        prior = found.log().square().mean() / (2.0 * DEVIATION**2)
        loss = -log.gather(1, targets[:, None]).mean() + prior / len(chosen)
        if self.kind.margin:
            loss = loss + self.kind.margin * margin_loss(log.exp(), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def margin_loss(probabilities: Tensor, targets: Tensor) -> Tensor:
    """CaGCN's: a right prediction should lead the second class by 1, a wrong one by nothing."""
    (first, second), (guess, _) = (both.unbind(1) for both in probabilities.topk(2, 1))
    lead = first - second
    return torch.where(guess == targets, 1.0 - lead, lead).mean()
