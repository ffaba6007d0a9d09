"""The methods by name: the sampler, rate and estimator of each.

`METHODS` has the parts of the network, `graphdrop.config.recipes` the default settings.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from graphdrop.config import Method, ModelSettings
from graphdrop.io.memory import check_bytes
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.description import build_part, describe_part
from graphdrop.nn.models import GCN
from graphdrop.nn.propagation import MixedOrderPropagation
from graphdrop.nn.sampled import sampled
from graphdrop.sampling.edges import EDGE_FEATURES, EdgePrior
from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM, Estimator
from graphdrop.sampling.rates import (
    AmortizedRate,
    BetaBernoulliRate,
    EdgeRate,
    FixedRate,
    LearnedRate,
    Rate,
)
from graphdrop.sampling.samplers import (
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    Sampler,
)


def _fixed(settings: ModelSettings, edges: int) -> Rate:  # noqa: ARG001
    return FixedRate(keep=1.0 - settings.drop)


def _learned(settings: ModelSettings, edges: int) -> Rate:  # noqa: ARG001
    return LearnedRate(1.0 - settings.drop, settings.entropy_weight)


def _beta_bernoulli(settings: ModelSettings, edges: int) -> Rate:  # noqa: ARG001
    return BetaBernoulliRate(settings.prior_alpha, rate_draw=settings.rate_draw)


def _beta_bernoulli_per_edge(settings: ModelSettings, edges: int) -> Rate:
    return BetaBernoulliRate(settings.prior_alpha, entries=edges)


def _amortised(settings: ModelSettings, edges: int) -> Rate:  # noqa: ARG001
    return AmortizedRate(EDGE_FEATURES, settings.prior_alpha)


def _edges(rate: Rate, settings: ModelSettings) -> Sampler:
    return DropEdge(
        rate,
        symmetric=settings.symmetric,
        self_loops=settings.self_loops,
        before_normalization=settings.mask == "before",
    )


def _nodes(rate: Rate, settings: ModelSettings) -> Sampler:  # noqa: ARG001
    return DropNode(rate, rescale=True)


def _features(rate: Rate, settings: ModelSettings) -> Sampler:  # noqa: ARG001
    return DropOut(rate, rescale=True)


def _connections(rate: Rate, settings: ModelSettings) -> Sampler:
    return GraphDropConnect(
        rate,
        blocks=None if isinstance(settings.blocks, str) else settings.blocks,
        first_blocks=None if settings.first_blocks == "feature" else settings.first_blocks,
        pairs=settings.blocks == "pair",
        symmetric=settings.symmetric,
        self_loops=settings.self_loops,
        before_normalization=settings.mask == "before",
    )


@dataclass(frozen=True)
class Parts:
    """The sampler, the rate and the gradient estimator of a method."""

    sampler: Callable[[Rate, ModelSettings], Sampler] | None = None
    rate: Callable[[ModelSettings, int], Rate] = _fixed
    estimator: str | None = None

    @property
    def local(self) -> bool:
        """Whether every edge has its own rate."""
        return self.rate in (_beta_bernoulli_per_edge, _amortised)


BYTES_PER_WEIGHT = 16
"""Bytes per weight in training: the weight, its gradient and Adam's two moments."""

# DropOut is in every network, at the rate `dropout`: GCN-DO is a GCN whose recipe sets that rate.
METHODS: Mapping[Method, Parts] = {
    Method.GCN: Parts(),
    Method.GCN_DO: Parts(),
    Method.GCN_DE: Parts(_edges),
    Method.GCN_DO_DE: Parts(_edges),
    Method.GCN_NS: Parts(_nodes),
    Method.GCN_GDC: Parts(_connections),
    Method.GCN_BBDE: Parts(_edges, _beta_bernoulli, "concrete"),
    Method.GCN_BBGDC: Parts(_connections, _beta_bernoulli, "concrete"),
    Method.GCN_BBNS: Parts(_nodes, _beta_bernoulli, "concrete"),
    Method.GCN_BBDO: Parts(_features, _beta_bernoulli, "concrete"),
    Method.GCN_BGDC: Parts(_connections, _learned, "concrete"),
    Method.GCN_BDE_ARM: Parts(_edges, _learned, "arm"),
    Method.GCN_BBDE_ARM: Parts(_edges, _beta_bernoulli, "arm"),
    Method.GCN_BBGDC_ARM: Parts(_connections, _beta_bernoulli, "arm"),
    Method.GCN_BBDE_LOCAL: Parts(_edges, _beta_bernoulli_per_edge, "concrete"),
    Method.GCN_BBGDC_LOCAL: Parts(_connections, _beta_bernoulli_per_edge, "concrete"),
    Method.GCN_BBGDC_AMORTISED: Parts(_connections, _amortised, "concrete"),
}

ESTIMATORS: Mapping[str, Callable[[float], Estimator]] = {
    "concrete": Concrete,
    "arm": lambda _: ARM(),
    "disarm": lambda _: DisARM(),
    "reinforce": lambda _: REINFORCE(),
}


def find(name: str) -> Parts:
    """The parts of a method, or an error that lists the names."""
    try:
        return METHODS[Method(name)]
    except ValueError:
        raise ValueError(f"method is {name!r}: give one of {', '.join(METHODS)}") from None


@dataclass(frozen=True)
class Blueprint:
    """The description from which a network is built: its settings and the sizes of its data."""

    settings: ModelSettings
    in_channels: int
    out_channels: int
    edges: int
    """Edges of the training graph, self-loops included; only a rate per edge depends on it."""
    prior: EdgePrior | None = None
    """The fitted prior of the edges, if the settings ask for it."""

    def build(self, seed: int = 0) -> Any:
        """A network with initial weights, which depend on the seed alone."""
        settings, parts = self.settings, find(self.settings.method)
        _check(settings, parts)
        self._check_size()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.prior is None:
                rate = parts.rate(settings, self.edges)
            else:
                rate = EdgeRate(copy.deepcopy(self.prior))
            sampler = parts.sampler(rate, settings) if parts.sampler else None
            make = {"gcn": self._gcn, "propagation": self._propagated}.get(
                settings.architecture, self._attached
            )
            own = estimator(settings) if self.prior is None else None
            network = make(sampler, own, seed)
        vars(network)["blueprint"] = self
        return network

    def _check_size(self) -> None:
        """Raise if weights, gradients and moments would not fit into memory."""
        settings, (inputs, outputs) = self.settings, (self.in_channels, self.out_channels)
        hidden = settings.hidden
        inner = (settings.layers - 1) * hidden * hidden if settings.layers > 1 else 0
        if settings.architecture == "propagation" and settings.combine == "concat":
            inputs *= settings.orders + 1
        weights = inputs * (hidden if settings.layers > 1 else outputs) + inner + hidden * outputs
        what = f"model.hidden is {hidden}, for {inputs} features and {outputs} classes: the network"
        check_bytes(what, BYTES_PER_WEIGHT * weights)
        if settings.init == "paper" and find(settings.method).sampler is _connections:
            widths = [*[hidden] * (settings.layers - 1), outputs]
            for name, own in (("first_blocks", widths[:1]), ("blocks", widths[1:])):
                blocks = getattr(settings, name)
                biases = sum(own) * blocks if isinstance(blocks, int) else 0
                check_bytes(f"model.{name} is {blocks}: a bias each", BYTES_PER_WEIGHT * biases)
        if find(settings.method).rate is _beta_bernoulli_per_edge:
            rates = 2 * self.edges * settings.layers
            check_bytes(f"the rates of {self.edges} edges", BYTES_PER_WEIGHT * rates)

    def _gcn(self, sampler: Sampler | None, own: Estimator | None, seed: int) -> nn.Module:
        settings = self.settings
        network = GCN(
            self.in_channels,
            settings.hidden,
            settings.layers,
            self.out_channels,
            sampler,
            dropout=settings.dropout,
            normalization=settings.norm,
            residual=settings.residual,
            norm=None if settings.norm_layer == "none" else settings.norm_layer,
            jk=None if settings.jumping == "none" else settings.jumping,
            init=settings.init,
            seed=seed,
        )
        network.estimator = own
        return network

    def _attached(self, sampler: Sampler | None, own: Estimator | None, seed: int) -> nn.Module:
        """A network of PyG layers with the sampler, if there is one, attached."""
        from graphdrop.nn.attach import attach  # noqa: PLC0415 - PyG's layers take seconds to import

        network, drops = self._stack(), self.settings.dropout > 0.0
        attach(network, sampler or DropEdge(0.0), own, sample_dropout=drops, seed=seed)
        return network

    def _propagated(self, sampler: Sampler | None, own: Estimator | None, seed: int) -> nn.Module:
        """An MLP on features that are propagated before it, with the sampler in there."""
        settings, own_sampler = self.settings, sampler or DropEdge(0.0)
        propagation = MixedOrderPropagation(
            settings.orders,
            own_sampler if settings.propagate == "hidden" else own_sampler.for_first_layer(),
            normalization=settings.norm,
            estimator=own,
            seed=seed,
            combine=settings.combine,
        )
        network = self._stack(propagation)
        drops = max(settings.dropout, self._input_dropout) > 0.0
        sampled(network).defaults = PredictionDefaults(sample_dropout=drops)
        return network

    @property
    def _input_dropout(self) -> float:
        settings = self.settings
        return settings.dropout if settings.input_dropout == "same" else settings.input_dropout

    def _stack(self, input_propagation: nn.Module | None = None) -> nn.Module:
        from graphdrop.nn.stack import ConvStack  # noqa: PLC0415 - PyG's layers take seconds

        settings = self.settings
        return ConvStack(
            settings.architecture,
            self.in_channels,
            settings.hidden,
            settings.layers,
            self.out_channels,
            dropout=settings.dropout,
            norm=None if settings.norm_layer == "none" else settings.norm_layer,
            residual=settings.residual == "linear",
            jk=None if settings.jumping == "none" else settings.jumping,
            heads=settings.heads,
            input_propagation=input_propagation,
            input_dropout=self._input_dropout,
            propagate=settings.propagate,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        sizes = {n: getattr(self, n) for n in ("in_channels", "out_channels", "edges")}
        prior = None if self.prior is None else describe_part(self.prior)
        return sizes | {"settings": self.settings.model_dump(mode="json"), "prior": prior}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The blueprint that `as_json` wrote."""
        settings = ModelSettings.model_validate(values["settings"])
        prior = build_part(values["prior"]) if values["prior"] is not None else None
        return cls(**{**values, "settings": settings, "prior": prior})


def _check(settings: ModelSettings, parts: Parts) -> None:
    """Raise if the method, the architecture or options cannot be combined."""
    attached = settings.architecture != "gcn"
    if settings.rate_draw == "mask" and parts.rate is not _beta_bernoulli:
        why = "draws a rate for every edge as it is" if parts.local else "has no rate to draw"
        raise ValueError(
            f'model.rate_draw is "mask", but {settings.method} {why}: set it to "layer", or take a '
            "method with one beta-Bernoulli rate per layer, such as GCN-BBGDC"
        )
    if settings.edges == "fitted" and (attached or parts.sampler not in (_edges, _connections)):
        raise ValueError(
            f'model.edges is "fitted", but {settings.method} with {settings.architecture} has no '
            'rate of edges that could be fitted: set it to "one-rate", or model.method = "BBGDC" '
            'and model.architecture = "gcn"'
        )
    if attached and parts.local:
        raise ValueError(
            f"{settings.method} has a rate for every edge, which a {settings.architecture} layer, "
            'with edges of its own, cannot read: set model.architecture = "gcn"'
        )
    unweighted = attached and settings.architecture not in ("propagation", "gcnii", "appnp")
    if unweighted and settings.mask == "before" and parts.sampler in (_edges, _connections):
        raise ValueError(
            f'model.mask is "before", but a {settings.architecture} layer takes no edge weights '
            'that could be masked: set model.mask = "after", or model.architecture = "gcn"'
        )
    if attached and settings.blocks == "pair" and parts.sampler is _connections:
        raise ValueError(
            'model.blocks is "pair", a mask for every input and output feature, which needs our '
            'own layers: set model.blocks = "feature", or model.architecture = "gcn"'
        )
    if attached and settings.residual not in (False, "linear"):
        raise ValueError(
            f"model.residual is {json.dumps(settings.residual)}, which {settings.architecture} "
            'does not take: set "linear" or false'
        )


def estimator(settings: ModelSettings, name: str = "method") -> Estimator | None:
    """The gradient estimator of a method; `None` if its rates are fixed.

    `name` may ask for another estimator than the method's own: `concrete`, `arm`, `disarm` or
    `reinforce`.
    """
    own = find(settings.method).estimator
    if own is None:
        if name != "method":
            raise ValueError(
                f'train.estimator is "{name}", but {settings.method} has no rate to learn: '
                'leave it at "method"'
            )
        return None
    return named_estimator(own if name == "method" else name, settings.temperature)


def named_estimator(name: str, temperature: float) -> Estimator:
    """The estimator of this name, or an error that lists the names."""
    if name not in ESTIMATORS:
        raise ValueError(
            f'train.estimator is "{name}": give one of method, {", ".join(ESTIMATORS)}'
        )
    return ESTIMATORS[name](temperature)
