"""Calibrators that give every node a temperature from its surroundings: CaGCN and GATS."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, softplus

from graphdrop.calibration.temperature import TemperatureScaling, check_targets
from graphdrop.inference.calibrator import Calibrator, Corrector, Samples, Surroundings
from graphdrop.inference.propagation import Propagation

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
CAGCN_HIDDEN, CAGCN_DROPOUT = 16, 0.5
GATS_HEADS = 2
FAR, NEAR, TRAINED = 0, 1, 2
"""A node's distance to the training nodes for GATS: more than one step, one step, and none."""


class TemperatureNetwork(nn.Module):
    """A small network that makes a temperature for every node; 1 for all before it is trained."""

    @abstractmethod
    def read(self, surroundings: Surroundings) -> Any:
        """Compute once what ``forward`` takes and what does not depend on the weights."""

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
        if self.classes not in {len(value) for value in self.weights.values() if value.dim()}:
            raise ValueError(f"weights are not those for {self.classes} classes; fit it again")
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
            network, generator = cls.build(classes).to(logits.device), _make_generator()
            adam = torch.optim.Adam(
                network.parameters(), LEARNING_RATE, weight_decay=cls.weight_decay
            )
            while True:
                yield network
                with torch.enable_grad():
                    adam.zero_grad()
                    sum(loss(network, nodes, generator)).backward()  # type: ignore[union-attr]
                    adam.step()

        order = torch.randperm(len(targets), generator=_make_generator())
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


def _make_generator() -> torch.Generator:
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


@dataclass(eq=False)
class CaGCN(GraphCalibrator):
    r"""Multiply the logits of a node by what a GCN of two layers makes of those around it.

    .. math:: 1 / g = \mathrm{softplus}(\hat A\,\mathrm{ReLU}(\hat A Z W_1 + b_1) W_2 + b_2)

    with :math:`Z` the mean logits ``[n, classes]``. It is fitted by the NLL and half the
    calibration margin loss. "Be Confident! Towards Trustworthy Graph Neural Networks via Confidence
    Calibration", with its widths and rates; it begins at plain temperature scaling, which the
    original does not.

    It is worth choosing from about 50 calibration nodes on: on small trained networks its mean test
    NLL was below that of temperature scaling from there on, and above it with 10.

    Example:
        >>> from graphdrop import calibrate
        >>> from torch_geometric.data import Data
        >>> logits, edges = torch.eye(4).repeat(5, 1), torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> calibrate(logits, torch.arange(20) % 4, "cagcn", data=Data(edge_index=edges)).classes
        4
    """

    name: ClassVar[str] = "cagcn"
    worth_from: ClassVar[int] = 50
    weight_decay: ClassVar[float] = 5e-3
    margin: ClassVar[float] = 0.5

    @classmethod
    def build(cls, classes: int) -> TemperatureNetwork:
        """The GCN, with Glorot's weights in the first layer and none in the second."""
        return _CaGCNNetwork(classes)


class _CaGCNInputs(NamedTuple):
    propagation: Propagation
    inputs: Tensor
    """The logits, propagated once."""


class _CaGCNNetwork(TemperatureNetwork):
    def __init__(self, classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        bound = math.sqrt(6.0 / (classes + CAGCN_HIDDEN))
        first = (2.0 * torch.rand(classes, CAGCN_HIDDEN, generator=generator) - 1.0) * bound
        self.first, self.first_bias = nn.Parameter(first), nn.Parameter(torch.zeros(CAGCN_HIDDEN))
        self.second, self.second_bias = (
            nn.Parameter(torch.zeros(CAGCN_HIDDEN)),
            nn.Parameter(torch.zeros(())),
        )

    def read(self, surroundings: Surroundings) -> _CaGCNInputs:
        nodes = len(surroundings.logits)
        propagation = Propagation(surroundings.edge_index, nodes, "sym", self_loops=True)
        return _CaGCNInputs(propagation, propagation(surroundings.logits))

    def forward(self, read: _CaGCNInputs, generator: torch.Generator | None = None) -> Tensor:
        hidden = torch.relu(read.inputs @ self.first + self.first_bias)
        if generator is not None:
            kept = torch.rand(hidden.shape, generator=generator) >= CAGCN_DROPOUT
            hidden = hidden * kept.to(hidden) / (1.0 - CAGCN_DROPOUT)
        raw = read.propagation(hidden @ self.second) + self.second_bias
        factor = softplus(raw + math.log(math.e - 1.0))  # 1 where raw is 0
        return factor.clamp(1.0 / LARGEST, 1.0 / SMALLEST).reciprocal()


@dataclass(eq=False)
class GATS(GraphCalibrator):
    r"""Graph attention temperature scaling: what the neighbors say, weighted by their likeness.

    .. math::
        g_i = g_0 + \frac1H \sum_h \mathrm{softplus}\Big(\omega\,\delta_i +
            \sum_{j \in N(i) \cup i} \alpha_{ij}\,\gamma_j\,\tau_j^h\Big), \quad
        \tau_j^h = \theta_h^\top \mathrm{sort}(z_j), \quad
        \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}(\tau_i^\top \tau_j)

    with :math:`z` the logits of a node scaled to [0, 1], :math:`\delta_i` its confidence minus the
    mean of its neighbors', and :math:`\gamma_j` a number of its own for training nodes and one for
    their neighbors, 1 for the others. "What Makes Graph Neural Networks Miscalibrated?"; it begins
    at plain temperature scaling, which the original does not. The training nodes are
    ``data.train_mask`` and are kept with the calibrator.

    It is worth choosing from about 20 calibration nodes on: on small trained networks its mean test
    NLL was below that of temperature scaling from there on, and about the same with 10.

    Example:
        >>> from graphdrop import calibrate
        >>> from torch_geometric.data import Data
        >>> logits, edges = torch.eye(4).repeat(5, 1), torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> calibrate(logits, torch.arange(20) % 4, "gats", data=Data(edge_index=edges)).classes
        4
    """

    name: ClassVar[str] = "gats"
    worth_from: ClassVar[int] = 20
    weight_decay: ClassVar[float] = 5e-4
    nodes: int = 0
    """The number of nodes of the graph that it was fitted on."""
    train: Sequence[int] | None = field(default=None, repr=False)
    """The training nodes of that graph, where they are known."""

    @classmethod
    def build(cls, classes: int) -> TemperatureNetwork:
        """The attention, with weights near 0."""
        return _GATSNetwork(classes)

    @classmethod
    def fit(
        cls, samples: Samples, targets: Tensor, surroundings: Surroundings | None = None
    ) -> Self:
        """The network of least NLL on the calibration nodes, stopped early."""
        found = super().fit(samples, targets, surroundings)
        if surroundings is not None and surroundings.train is not None:
            found.nodes, found.train = len(surroundings.logits), surroundings.train.tolist()
        return found

    def temperatures(self, surroundings: Surroundings) -> Tensor:
        """The temperature of every node of ``surroundings.rows``."""
        if self.train is not None and self.nodes == len(surroundings.logits):
            train = torch.tensor(self.train, device=surroundings.logits.device, dtype=torch.long)
            surroundings = replace(surroundings, train=train)
        return super().temperatures(surroundings)


class _GATSInputs(NamedTuple):
    source: Tensor
    target: Tensor
    """Edges into the rows, with a node itself among its neighbors."""
    sorted_logits: Tensor
    relative_confidence: Tensor
    distance: Tensor


class _GATSNetwork(TemperatureNetwork):
    def __init__(self, classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        bound = 0.1 / math.sqrt(classes)
        theta = (2.0 * torch.rand(classes, GATS_HEADS, generator=generator) - 1.0) * bound
        self.theta = nn.Parameter(theta)
        self.confidence = nn.Parameter(torch.zeros(()))
        self.near_and_trained = nn.Parameter(torch.ones(2))
        # softplus(0) = log 2: the mean over heads and this begin near 1 together
        self.bias = nn.Parameter(torch.tensor(1.0 - math.log(2.0)))

    def read(self, surroundings: Surroundings) -> _GATSInputs:
        logits, edges = surroundings.logits, surroundings.edge_index
        low, high = logits.amin(1, keepdim=True), logits.amax(1, keepdim=True)
        scaled = (logits - low) / (high - low).clamp_min(1e-12)
        confidence = torch.softmax(logits, 1).amax(1)
        relative = confidence - Propagation(edges, len(logits))(confidence)
        distance = torch.full((len(logits),), FAR, device=logits.device)
        if surroundings.train is not None:
            trained = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
            trained[surroundings.train] = True
            distance[edges[1][trained[edges[0]]]] = NEAR
            distance[trained] = TRAINED
        itself_too = Propagation(edges, len(logits), self_loops=True)
        source, target = itself_too.source, itself_too.target
        if surroundings.rows is not None:  # what other nodes hear is not asked for
            asked = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
            asked[surroundings.rows] = True
            source, target = source[asked[target]], target[asked[target]]
        return _GATSInputs(source, target, scaled.sort(1).values, relative, distance)

    def forward(self, read: _GATSInputs, generator: torch.Generator | None = None) -> Tensor:
        del generator  # it has no DropOut
        source, target = read.source, read.target
        tau = read.sorted_logits @ self.theta
        likeness = leaky_relu((tau[target] * tau[source]).sum(1), 0.2)
        highest = torch.full_like(tau[:, 0], -torch.inf).detach()
        highest = highest.scatter_reduce(0, target, likeness.detach(), "amax")
        weight = (likeness - highest[target]).exp()
        total = torch.zeros(len(tau), device=tau.device).index_add(0, target, weight)
        gamma = torch.cat([torch.ones_like(self.near_and_trained[:1]), self.near_and_trained])
        said = tau * gamma[read.distance][:, None]
        share = (weight / total[target].clamp_min(1e-30))[:, None]
        heard = torch.zeros_like(tau).index_add(0, target, share * said[source])
        raw = heard + self.confidence * read.relative_confidence[:, None]
        return (self.bias + softplus(raw).mean(1)).clamp(SMALLEST, LARGEST)
