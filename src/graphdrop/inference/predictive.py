"""``predict``: sample a network several times and sum up what the samples say.

Samples are folded in a few at a time, so memory does not grow with their number, and the product
of the input with the first layer's weights, which no mask touches, is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from graphdrop.inference.classes import ClassSummary, Predictive
from graphdrop.inference.gaussian import GaussianPredictive, GaussianSummary
from graphdrop.inference.labels import LabelPredictive, LabelSummary
from graphdrop.nn import GCN
from graphdrop.samplers import Draw

if TYPE_CHECKING:
    from torch_geometric.data import Data

Item = TypeVar("Item")
Decoder = Callable[[Tensor], Tensor]

PREDICTION_STEP = 1 << 62
"""Prediction draws from steps that no training reaches."""
DRAWN_TOGETHER = 32
"""So many samples have their rates drawn in one go."""
FOLDED_NUMBERS = 1 << 18
"""At most so many numbers are folded in at once, but at least one sample's."""
SUMMARIES: dict[str, type[ClassSummary | LabelSummary | GaussianSummary]] = {
    "classes": ClassSummary,
    "labels": LabelSummary,
    "gaussian": GaussianSummary,
}
"""What an output can be, and how its samples are summed up."""


class Options(TypedDict, total=False):
    """What `predict` takes whatever the output is."""

    temperature: float | None
    rows: Tensor | None
    intervals: bool
    decode: Decoder | None


@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any],
    samples: int = 20,
    seed: int = 0,
    *,
    output: Literal["classes"] = "classes",
    **options: Unpack[Options],
) -> Predictive: ...
@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any],
    samples: int = 20,
    seed: int = 0,
    *,
    output: Literal["labels"],
    **options: Unpack[Options],
) -> LabelPredictive: ...
@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any],
    samples: int = 20,
    seed: int = 0,
    *,
    output: Literal["gaussian"],
    **options: Unpack[Options],
) -> GaussianPredictive: ...
@torch.no_grad()
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any],
    samples: int = 20,
    seed: int = 0,
    *,
    output: str = "classes",
    temperature: float | None = None,
    rows: Tensor | None = None,
    intervals: bool = False,
    decode: Decoder | None = None,
) -> Predictive | LabelPredictive | GaussianPredictive:
    """Sample the network ``samples`` times on a graph, the training one or another.

    Args:
        model: a ``GCN``, or any PyG model that ``attach`` was called on.
        data: a PyG ``Data`` with ``x``, ``edge_index`` and perhaps ``edge_weight``; of an attached
            model, whatever its ``forward`` takes, under the same names. Of a ``DataLoader`` the
            batches are read once, and their outputs follow each other.
        samples: number of Monte Carlo samples; 0 gives one pass with masks in expectation.
        seed: the same seed gives the same answer.
        output: what the network's output is. ``"classes"``: logits of classes that exclude each
            other; ``"labels"``: logits of a yes in every entry; ``"gaussian"``: means, then as many
            log variances.
        temperature: relaxed masks at this temperature; ``None`` draws hard ones.
        rows: the nodes to predict, by number or as a bool mask; all by default.
        intervals: also keep what ``intervals`` of classes and labels needs (4 KiB per entry).
        decode: makes the output of a sample into what ``output`` says, such as node embeddings into
            logits of links.
    """
    if samples < 0:
        raise ValueError(f"samples must not be negative; got {samples}")
    if output not in SUMMARIES:
        known = ", ".join(map(repr, SUMMARIES))
        raise ValueError(f"output is {output!r}, but it takes one of {known}")
    batches = _batches(data, rows)
    with _evaluating(model):
        streams = [
            _outputs(
                model, batch, rows, _draws(samples, seed, PREDICTION_STEP + number, temperature)
            )
            for number, batch in enumerate(batches)
        ]
        outputs: Iterator[Tensor] = map(_joined, zip(*streams, strict=True))
        return summed_up(outputs if decode is None else map(decode, outputs), output, intervals)


def _batches(data: Data | DataLoader[Any], rows: Tensor | None) -> list[Data]:
    if not isinstance(data, DataLoader):
        return [data]
    if rows is not None:
        raise ValueError(
            "rows are nodes of one graph, but data is a DataLoader: leave rows out, and select "
            "from the prediction"
        )
    batches = list(data)
    if not batches:
        raise ValueError("data is a DataLoader without a batch: give it at least one graph")
    return batches


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Within it, a `GCN` evaluates; an attached model is put into its modes by its handle."""
    if not isinstance(model, GCN):
        yield
        return
    was_training = model.training
    model.eval()
    try:
        with model.sharing_first_product():
            yield
    finally:
        model.train(was_training)


def _draws(samples: int, seed: int, step: int, temperature: float | None) -> Iterator[Draw | None]:
    if samples == 0:
        yield None
    for sample in range(samples):
        yield Draw(seed, step, sample, temperature=temperature)


def _outputs(
    model: nn.Module, data: Any, rows: Tensor | None, draws: Iterator[Draw | None]
) -> Iterator[Tensor]:
    """The output of each draw, one row per node unless the model has it otherwise."""
    if isinstance(model, GCN):
        weight: Tensor | None = getattr(data, "edge_weight", None)
        for several in _batched(draws, DRAWN_TOGETHER):
            yield from model.samples(data.x, data.edge_index, weight, rows=rows, draws=several)
    else:
        from graphdrop.nn.attach import Handle  # noqa: PLC0415 - PyG's layers take seconds to import

        for out in Handle(model).samples(data, draws):
            yield out if rows is None else out[rows]


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def summed_up(
    outputs: Iterator[Tensor], output: str, intervals: bool
) -> Predictive | LabelPredictive | GaussianPredictive:
    """What samples say together; they are read as they come, and none is kept."""
    first = next(outputs)
    summary = SUMMARIES[output](first, intervals)
    summary.add([first])
    for several in _batched(outputs, max(1, FOLDED_NUMBERS // max(1, first.numel()))):
        summary.add(several)
    return summary.finish()


def _batched(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    while several := list(islice(items, size)):
        yield several
