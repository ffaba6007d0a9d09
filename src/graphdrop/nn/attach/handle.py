"""`attach` puts a sampler into every layer of a model; with its `Handle` one trains and undoes it.

    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    optimizer = torch.optim.Adam(model.parameters())  # the rates are among them

Then add `weight * handle.kl()` to the loss of every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv import MessagePassing

from graphdrop.estimators import Concrete, Estimator
from graphdrop.nn.attach.edges import EdgeCache
from graphdrop.nn.attach.layer import NAME, MaskedLayer
from graphdrop.nn.attach.state import buffers_kept, call, predicting, seeded
from graphdrop.samplers import Draw, Drawn, GraphDropConnect, RandomWalk, Sampler


def attach(
    model: nn.Module,
    sampler: Sampler,
    estimator: Estimator | None = None,
    *,
    sample_dropout: bool = False,
    batch_statistics: bool = False,
    seed: int | None = None,
) -> Handle:
    """Sample the connections of every message passing layer of a model, in place.

    Each layer gets a copy of the sampler with a rate of its own, as parameters of the model: build
    the optimizer afterwards. In training every call of a layer draws fresh masks; after `eval()`
    messages are multiplied by the expected keep probability.

    Args:
        model: any module with PyG's `MessagePassing` layers in it, or such a layer itself.
        sampler: draws the connections.
        estimator: how a gradient reaches a learned rate; by default `Concrete()`. With any other
            train through `Handle.backward`.
        sample_dropout: a Monte Carlo sample also draws the model's own DropOut.
        batch_statistics: a Monte Carlo sample normalizes by the statistics of its batch, as
            BatchNorm does in training, instead of the running ones.
        seed: of the masks; by default what `torch.manual_seed` was given.
    """
    _check_sampler(sampler)
    if any(isinstance(module, MaskedLayer) for module in model.modules()):
        raise ValueError("model has a sampler attached already: call remove() on its handle first")
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MessagePassing)}
    if not layers:
        raise ValueError(
            f"model must have MessagePassing layers of PyG; {type(model).__name__} has none"
        )
    if estimator is None and any(True for _ in sampler.rate.parameters()):
        estimator = Concrete()
    if not isinstance(estimator, Estimator | None):
        raise TypeError(f"estimator must be one such as ARM(); got {type(estimator).__name__}")
    temperature = None if estimator is None else estimator.temperature
    seed = torch.initial_seed() if seed is None else seed
    cache = EdgeCache()
    first = _level(next(iter(layers)))
    for number, (name, layer) in enumerate(layers.items()):
        if _level(name) == first:
            own = sampler.for_first_layer()
            if number:  # a layer of another relation
                own.rate.reset_parameters()
        else:
            own = sampler.for_later_layer()
        device = next((p.device for p in layer.parameters()), None)
        masked = MaskedLayer(
            layer, own, number=number, temperature=temperature, seed=seed, cache=cache
        ).to(device)
        if number == 0:
            masked.estimator = estimator
            masked.goes_on = {"dropout": sample_dropout, "batch_statistics": batch_statistics}
        masked.train(layer.training)
        masked.install()
    return Handle(model)


class Handle:
    """The samplers in a model. It holds nothing itself: a copy of the model has its own.

    Args:
        model: a model that `attach` was called on, or one that has such a model in it.
    """

    def __init__(self, model: nn.Module) -> None:
        found = [(n, m) for n, m in model.named_modules() if isinstance(m, MaskedLayer)]
        if not found:
            raise ValueError(
                f"{type(model).__name__} has no sampler attached: call attach(model, sampler)"
            )
        if len({masked.number for _, masked in found}) < len(found):
            raise ValueError(
                f"{type(model).__name__} has layers that were attached apart or copied, whose "
                "draws would be the same: remove() them, and attach to the whole model at once"
            )
        self.model = model
        self.layers = {name.removesuffix(NAME).removesuffix("."): m for name, m in found}
        """The attached layers by their name in the model."""
        self._first = found[0][1]

    @property
    def estimator(self) -> Estimator | None:
        """How a gradient reaches the rates."""
        return self._first.estimator

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the rates, which are among the model's own too."""
        for masked in self.layers.values():
            if masked.sampler is not None:
                yield from masked.sampler.parameters()

    def kl(self) -> Tensor:
        """What the rates of all layers add to the objective; 0 where none is learned."""
        total = torch.zeros((), device=self._first.stream.device)
        for masked in self.layers.values():
            if masked.sampler is not None:
                total = total + masked.sampler.rate.kl()
        return total

    @torch.no_grad()
    def drop_rates(self) -> dict[str, float]:
        """The expected drop rate of each layer."""
        samplers = {name: m.sampler for name, m in self.layers.items() if m.sampler is not None}
        return {name: 1.0 - float(s.rate.mean().mean()) for name, s in samplers.items()}

    def remove(self) -> None:
        """Give every layer back as it was; its weights stay as trained."""
        for masked in self.layers.values():
            masked.uninstall()
        self.layers = {}

    def next_draw(self) -> Draw:
        """A draw for the next training step of all layers; the counters are saved with them."""
        seed, _ = self._first.stream.tolist()
        step = max(int(masked.stream[1]) for masked in self.layers.values())
        for masked in self.layers.values():
            masked.stream[1] = step + 1
        return Draw(seed, step, temperature=self._first.temperature)

    @contextmanager
    def drawing(self, draw: Draw | None) -> Iterator[None]:
        """Within it, passes use this draw, or for `None` the expectation, in training or not.

        The model's own DropOut draws from it too: the same draw gives the same output.
        """
        with self._drawing([draw] * len(self.layers)):
            yield

    @contextmanager
    def _drawing(self, draws: Sequence[Draw | None]) -> Iterator[None]:
        """The same with a draw for each layer; they differ in their tapes."""
        with ExitStack() as stack:
            stack.enter_context(seeded(draws[0]))
            for masked, draw in zip(self.layers.values(), draws, strict=True):
                masked.ask(draw)
                stack.callback(masked.stop_asking)
            yield

    def backward(self, closure: Callable[[], Tensor]) -> Tensor:
        """Run the closure as often as the estimator needs, and give all parameters gradients.

        Args:
            closure: computes the loss of one pass through the model, and calls no `backward`.

        Returns:
            The loss of the first pass.
        """
        loss, _ = self.loss(closure)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def loss(self, closure: Callable[[], Tensor]) -> tuple[Tensor, list[list[Drawn]]]:
        """What `backward` differentiates, and what each layer drew in the first pass.

        Further passes draw the model's own DropOut as the first, and leave no trace in buffers.
        """
        draw, passes = self.next_draw(), list[list[list[Drawn]]]()

        def run(antithetic: bool) -> tuple[Tensor, list[Drawn]]:
            passes.append([[] for _ in self.layers])
            own = [replace(draw, antithetic=antithetic, tape=tape) for tape in passes[-1]]
            with ExitStack() as stack:
                if len(passes) > 1:
                    stack.enter_context(buffers_kept(self.model))
                stack.enter_context(self._drawing(own))
                loss = closure()
            return loss, [drawn for tape in passes[-1] for drawn in tape]

        estimator = self.estimator
        loss = run(antithetic=False)[0] if estimator is None else estimator.loss(run)
        return loss, passes[0]

    def call(self, data: Any) -> Tensor:
        """The model's output on a PyG `Data`, whose attributes are the arguments of `forward`."""
        return call(self.model, data)

    def samples(self, data: Any, draws: Iterable[Draw | None]) -> Iterator[Tensor]:
        """The outputs on a PyG `Data` of several draws, one by one, in evaluation.

        What `attach` was told about DropOut and BatchNorm holds for draws; the expectation, `None`,
        is without any chance.
        """
        for draw in draws:
            goes_on = (
                dict.fromkeys(self._first.goes_on, False) if draw is None else self._first.goes_on
            )
            with predicting(self.model, **goes_on), self.drawing(draw):
                out = self.call(data)
            yield out


def _level(name: str) -> str:
    """A name that the layers of all relations share: PyG names them as `author__writes__paper`."""
    parent, _, key = name.rpartition(".")
    return parent if "__" in key else name


def _check_sampler(sampler: Sampler) -> None:
    """Raise unless the sampler's masks multiply messages."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            "sampler must be a Sampler such as GraphDropConnect(BetaBernoulliRate()); "
            f"got {type(sampler).__name__}"
        )
    if sampler.before_normalization:
        raise ValueError(
            "sampler has before_normalization=True, but an attached layer normalizes its edges "
            "itself, before masks can act: use before_normalization=False, or graphdrop.GCN"
        )
    if isinstance(sampler, RandomWalk) or sampler.reads_edges:
        kind = type(sampler if isinstance(sampler, RandomWalk) else sampler.rate).__name__
        raise ValueError(
            f"sampler is or has a {kind}, which needs to know the layers before it or the features "
            "of nodes; an attached layer knows its messages alone: use graphdrop.GCN"
        )
    if isinstance(sampler, GraphDropConnect) and sampler.pairs:
        raise ValueError(
            "sampler has pairs=True, a mask for every input and output feature, which needs the "
            "layer's weights: use blocks=None, a mask per feature, or graphdrop.GCN"
        )
