"""``predict``: Monte Carlo prediction with uncertainty.

Samples are summed a few at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data

from graphdrop.graph.masks import TEMPERATURE
from graphdrop.inference.calibrator import (
    Calibrator,
    Samples,
    Surroundings,
    average,
    keep_samples,
)
from graphdrop.inference.classes import ClassSummary, Predictive
from graphdrop.inference.gaussian import GaussianPredictive, GaussianSummary
from graphdrop.inference.labels import LabelPredictive, LabelSummary
from graphdrop.inference.origin import Origin, RawOutputs
from graphdrop.inference.shift import check_edges_of_rates, is_known_graph, warn_of_shift
from graphdrop.io.devices import has_float64
from graphdrop.nn.defaults import Masks, PredictionDefaults
from graphdrop.nn.layerwise import Layerwise, layerwise_samples
from graphdrop.nn.sampled import SampledModel, sampled
from graphdrop.sampling import EdgePrior, EdgeRate, RankedEdges
from graphdrop.sampling.samplers import KEEP_ALL, Draw

Decoder = Callable[[Tensor], Tensor]
PREDICTION_STEP = 1 << 62
"""The step number of the masks of predictions, beyond all steps of training."""

FOLDED_NUMBERS = 1 << 18
"""The largest number of values that are summed at once, but at least one sample."""
GRAPHS_AT_ONCE = 64
"""Graphs of a list in one batch."""
SUMMARIES: dict[str, type[ClassSummary | LabelSummary | GaussianSummary]] = {
    "classes": ClassSummary,
    "labels": LabelSummary,
    "gaussian": GaussianSummary,
}
"""The summary of samples for each kind of output."""


class NotFiniteError(ValueError):
    """A prediction contains infinite or NaN values."""


class Options(TypedDict, total=False):
    """The options of `predict` for every kind of output."""

    masks: Masks | None
    temperature: float | None
    calibrator: Calibrator | Literal["model"] | None
    rows: Tensor | Sequence[int] | None
    intervals: bool
    decode: Decoder | None
    layerwise: bool
    batch_size: int | None
    folder: str | Path | None


@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any] | Sequence[Data],
    samples: int | None = None,
    seed: int | None = None,
    *,
    output: Literal["classes"] = "classes",
    **options: Unpack[Options],
) -> Predictive: ...
@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any] | Sequence[Data],
    samples: int | None = None,
    seed: int | None = None,
    *,
    output: Literal["labels"],
    **options: Unpack[Options],
) -> LabelPredictive: ...
@overload
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any] | Sequence[Data],
    samples: int | None = None,
    seed: int | None = None,
    *,
    output: Literal["gaussian"],
    **options: Unpack[Options],
) -> GaussianPredictive: ...
@torch.no_grad()
def predict(
    model: nn.Module,
    data: Data | DataLoader[Any] | Sequence[Data],
    samples: int | None = None,
    seed: int | None = None,
    *,
    output: str = "classes",
    masks: Masks | None = None,
    temperature: float | None = None,
    calibrator: Calibrator | Literal["model"] | None = "model",
    rows: Tensor | Sequence[int] | None = None,
    intervals: bool = False,
    decode: Decoder | None = None,
    layerwise: bool = False,
    batch_size: int | None = None,
    folder: str | Path | None = None,
) -> Predictive | LabelPredictive | GaussianPredictive:
    """Monte Carlo prediction: the mean over sampled networks, with its uncertainty.

    The paper's section 5.2 predicts in this way. Defaults come from the model
    (``PredictionDefaults``): a model that was trained by ``Trainer`` or loaded from a run predicts
    with the settings of that run, preprocessing of features included.

    Args:
        model: a ``GCN``, any PyG model that ``attach`` was called on, or a module with layers such
            as ``SampledGCNConv`` in it.
        data: a PyG ``Data`` with ``x [n, features]``, ``edge_index [2, E]`` and optionally
            ``edge_weight [E]``, features as stored. For models other than ``GCN`` it has the
            arguments of ``forward`` under their names. A ``DataLoader`` is read once, and the
            outputs of its batches are concatenated. A list of graphs is read in batches of 64.
        samples: number of Monte Carlo samples; 0 gives one pass with expected masks.
        seed: the same seed gives the same prediction.
        output: what the network returns. ``"classes"``: logits of mutually exclusive classes;
            ``"labels"``: a logit per label; ``"gaussian"``: means, then as many log variances.
        masks: ``"relaxed"`` or ``"hard"`` for samples; ``"expected"`` for one pass with the
            expected mask; ``"off"`` for one pass that keeps everything. By default as in training.
        temperature: the temperature of relaxed masks.
        calibrator: applied to every sample (``graphdrop.calibrate``); by default the calibrator of
            the model, if it has one. ``None`` gives the uncalibrated prediction.
        rows: the nodes to predict, as numbers or as a bool mask ``[n]``, in a tensor or a list; all
            by default.
        intervals: also store the histograms that ``intervals`` of classes and labels needs (4 KiB
            per entry).
        decode: maps the output of a sample to what ``output`` names, for example node embeddings
            to logits of links. Of numbers these are standardized targets, if ``Trainer`` trained.
        layerwise: compute every layer for all nodes, in batches of rows, before the next layer:
            the same prediction in a fraction of the memory, for graphs that do not fit a full
            batch. ``x`` may be memory-mapped and is never copied whole.
        batch_size: with ``layerwise``, the number of rows that are computed at once.
        folder: with ``layerwise``, a folder for hidden states in memory-mapped files, deleted at
            the end; by default they are in memory.

    Returns:
        ``Predictive``, ``LabelPredictive`` or ``GaussianPredictive``, by ``output``.

    Example:
        >>> from graphdrop import GCN, GraphDropConnect
        >>> from torch_geometric.data import Batch, Data
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
        >>> answer = predict(GCN(8, 16, 2, 3, GraphDropConnect()), data, samples=10)
        >>> answer.probabilities.shape, answer.entropy.shape
        (torch.Size([4, 3]), torch.Size([4]))
    """
    if isinstance(data, (list, tuple)):
        from torch_geometric.loader import DataLoader as GraphLoader  # noqa: PLC0415 - takes seconds

        if not data:
            raise ValueError("data is an empty list: give it at least one graph")
        data = GraphLoader(list(data), batch_size=GRAPHS_AT_ONCE)
    _check_data(model, data)
    if rows is not None:
        rows = torch.as_tensor(rows)
    if samples is not None and samples < 0:
        raise ValueError(f"samples is {samples}; it takes 0 or a positive number.")
    if output not in SUMMARIES:
        known = ", ".join(map(repr, SUMMARIES))
        raise ValueError(f"output is {output!r}; it takes one of {known}")
    engine = sampled(model)
    settings = resolve_settings(engine, samples, seed, masks, temperature)
    if settings.target_moments is not None and output != "gaussian":
        raise ValueError(
            f"output is {output!r}, and the model was trained on numbers: give output='gaussian'"
        )
    check_edges_of_rates(model, settings, data)
    batches = _batches(data, rows)
    walk = _layerwise(layerwise, batch_size, folder, data)

    def streams(rows: Tensor | None) -> list[Iterator[Tensor]]:
        """The outputs of all samples, for each batch; on the CPU where they cannot be summed."""
        if walk is not None:
            draws = make_draws(settings, PREDICTION_STEP)
            return [layerwise_samples(engine, data, draws, rows, walk, settings=settings)]
        runs = [
            engine.samples(settings.inputs(batch), make_draws(settings, PREDICTION_STEP + i), rows)
            for i, batch in enumerate(batches)
        ]
        return [(out if has_float64(out.device) else out.cpu() for out in run) for run in runs]

    def outputs() -> Iterator[Tensor]:
        for parts in zip(*streams(rows), strict=True):
            joined = parts[0] if len(parts) == 1 else torch.cat(parts)
            yield joined if decode is None else decode(joined)

    applied: Calibrator | None = settings.calibrator if calibrator == "model" else calibrator
    surroundings = None
    if applied is not None:
        if calibrator == "model":
            warn_of_shift(settings, data)
        if applied.output != output:
            raise ValueError(
                f"the calibrator is a {type(applied).__name__}, for output={applied.output!r}, "
                f"and output is {output!r}: give calibrator=None, or fit one for this output"
            )
        if applied.reads_graph and decode is not None:
            raise ValueError(
                f"the calibrator is a {type(applied).__name__}, which gives nodes a temperature, "
                "and decode is given: use calibrator=None, or another method of calibrate"
            )
        if applied.reads_graph:
            # A first pass over the samples of all nodes. Several graphs are one, with no edge
            # between them.
            logits = [average(stream) for stream in streams(None)]
            graphs = zip(batches, logits, strict=True)
            parts = [Data(edge_index=b.edge_index, num_nodes=len(mean)) for b, mean in graphs]
            whole = batches[0] if len(batches) == 1 else Batch.from_data_list(parts)
            surroundings = Surroundings.of(whole, torch.cat(logits), rows)
    origin = Origin() if decode is not None else find_origin(settings, data, rows, engine)
    try:
        return _check_carried(
            summarize(
                outputs,
                output,
                settings,
                applied,
                origin,
                surroundings=surroundings,
                intervals=intervals,
            )
        )
    except NotFiniteError:
        raise NotFiniteError(_why_not_finite(model, data)) from None


def _check_carried(
    answer: Predictive | LabelPredictive | GaussianPredictive,
) -> Predictive | LabelPredictive | GaussianPredictive:
    """The answer, if what the model carries belongs to such outputs and to such a graph.

    A model may have more outputs than there are classes with labels.
    """
    if not isinstance(answer, Predictive):
        return answer
    origin, classes = answer.origin, answer.probabilities.shape[1]
    known, fits = origin.set_nodes, len(origin.class_counts) <= classes
    if known is not None:
        fits &= known.probabilities.shape[1] == classes
        outside = origin.nodes is not None and int(known.nodes.max()) >= origin.nodes
        fits &= not (origin.same_graph and outside)
    if not fits:
        raise ValueError(
            f"the model carries calibration nodes or class counts that do not fit {classes} "
            f"classes and {origin.nodes} nodes: it was changed after training; train it again"
        )
    return answer


def _check_data(model: nn.Module, data: object) -> None:
    """Refuse what is no graph that the model takes, and say what to give in its place."""
    kind = type(data).__name__
    if isinstance(data, Tensor):
        raise TypeError(
            "data is a tensor, but predict takes a PyG Data: give "
            "predict(model, Data(x=x, edge_index=edge_index))"
        )
    if kind == "HeteroData" and "x" in inspect.signature(model.forward).parameters:
        raise TypeError(
            "data is a HeteroData, and the model takes the features x of one kind of nodes: give "
            "predict(model, data.to_homogeneous()) if the model was trained on that"
        )
    if isinstance(getattr(data, "data", None), Data):
        raise TypeError(f"data is a {kind}, but predict takes a PyG Data: give its .data")


def summarize(
    samples: Samples,
    output: str,
    settings: PredictionDefaults,
    calibrator: Calibrator | None,
    origin: Origin,
    *,
    surroundings: Surroundings | None = None,
    intervals: bool = False,
) -> Predictive | LabelPredictive | GaussianPredictive:
    """The prediction that samples make, each of them calibrated.

    Args:
        samples: makes the outputs of every sample, the same each time.
        output: what they are, as in ``predict``.
        settings: the decision rule, and the score by which nodes are refused.
        calibrator: for these rows; ``None`` for none.
        origin: where the samples come from.
        surroundings: the graph around the rows, for a calibrator that reads it.
        intervals: also store histograms.
    """
    if calibrator is not None and calibrator.reads_samples:
        samples = keep_samples(samples)
    raw, outputs = RawOutputs(), iter(samples())
    if output == "classes":
        outputs = raw.record(outputs)
    if calibrator is not None:
        outputs = map(calibrator.corrector(samples, surroundings), outputs)
    answer = sum_samples(outputs, output, intervals)
    if not answer.is_finite:
        raise NotFiniteError("the outputs of the network are not finite")
    if isinstance(answer, Predictive):
        answer = replace(answer, reject_by=settings.reject_by, origin=raw.add_to(origin))
        if calibrator is None:
            return replace(answer, decision=settings.decision)
        # votes do not follow tempered probabilities: the class shown is the likeliest one
        return replace(answer, decision="mean", calibrated="samples", spread=calibrator.spread)
    if isinstance(answer, GaussianPredictive):
        answer = answer if calibrator is None else calibrator.finish(answer)
        if settings.target_moments is not None:
            answer = answer.rescale(*settings.target_moments)
    return answer


def find_origin(
    settings: PredictionDefaults, data: Any, rows: Tensor | None, engine: SampledModel | None = None
) -> Origin:
    """What a prediction of nodes remembers of its graph and of the calibration nodes."""
    origin = Origin.of(data, rows)
    prior = None if engine is None else find_edge_prior(engine)
    return replace(
        origin,
        set_nodes=settings.set_nodes,
        same_graph=is_known_graph(settings, data),
        class_counts=tuple(settings.class_counts or ()),
        rank_edges=None
        if prior is None or origin.edge_index is None
        else partial(rank_edges, prior, settings, data),
    )


def find_edge_prior(model: SampledModel) -> EdgePrior | None:
    """The prior of a model with fitted rates per edge, which all layers share."""
    rates = (layer.sampler.rate for layer in model.sampled_layers().values() if layer.sampler)
    return next((rate.prior for rate in rates if isinstance(rate, EdgeRate)), None)


def rank_edges(prior: EdgePrior, settings: PredictionDefaults, data: Data) -> RankedEdges:
    """Rank the edges of a graph whose features are as stored."""
    return RankedEdges.from_prior(prior, settings.inputs(data))


def resolve_settings(
    engine: SampledModel,
    samples: int | None = None,
    seed: int | None = None,
    masks: Masks | None = None,
    temperature: float | None = None,
) -> PredictionDefaults:
    """The model's prediction defaults, replaced by the given arguments."""
    own, trained = engine.defaults, engine.estimator
    trained_temperature = None if trained is None else trained.temperature
    chosen = masks or ("relaxed" if temperature is not None else own.masks)
    if chosen is None:
        chosen = "hard" if trained_temperature is None else "relaxed"
    if chosen not in ("relaxed", "hard", "expected", "off"):
        raise ValueError(f"masks is {chosen!r}: give relaxed, hard, expected or off")
    if temperature is None:
        temperature = own.temperature or trained_temperature or TEMPERATURE
    return replace(
        own,
        samples=own.samples if samples is None else samples,
        seed=own.seed if seed is None else seed,
        masks="expected" if samples == 0 else chosen,
        temperature=temperature,
    )


def make_draws(settings: PredictionDefaults, step: int) -> Iterator[Draw | None]:
    """The draw of each pass that a prediction takes."""
    if settings.masks == "off":
        yield KEEP_ALL
    elif settings.masks == "expected":
        yield None
    else:
        temperature = settings.temperature if settings.masks == "relaxed" else None
        draw = Draw(settings.seed, step, temperature=temperature, dropout=settings.dropout)
        yield from (replace(draw, sample=sample) for sample in range(settings.samples))


def _layerwise(
    layerwise: bool, batch_size: int | None, folder: str | Path | None, data: object
) -> Layerwise | None:
    """The options of a layer-wise prediction; None for a full batch."""
    if not layerwise:
        for name, value in (("batch_size", batch_size), ("folder", folder)):
            if value is not None:
                raise ValueError(
                    f"{name} is {value!r}, which belongs to a layer-wise prediction: add "
                    "layerwise=True"
                )
        return None
    if isinstance(data, DataLoader):
        raise ValueError(
            "data is a DataLoader, and layerwise=True takes one graph: give the Data itself, or "
            "leave layerwise out"
        )
    return Layerwise(batch_size, folder)


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


def _why_not_finite(model: nn.Module, data: Any) -> str:
    """The cause of outputs that are not finite: the model or the data."""
    for name, tensor in model.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            return f"the model's {name} is not finite: train it again, or load another state"
    x = getattr(data, "x", None)
    if isinstance(x, Tensor):
        x = x.to_dense() if x.layout is not torch.strided else x
        bad = (~torch.isfinite(x)).any(1).nonzero()
        if len(bad):
            return (
                f"x has a feature of node {int(bad[0])} that is not finite ({len(bad)} such "
                "nodes): predict takes finite features; replace it"
            )
    return "the outputs of the network overflow: scale the features, or train the network again"


def sum_samples(
    outputs: Iterator[Tensor], output: str, intervals: bool
) -> Predictive | LabelPredictive | GaussianPredictive:
    """The summary of samples, which are read one by one and not stored."""
    first = next(outputs)
    summary = SUMMARIES[output](first, intervals)
    summary.add([first])
    size = max(1, FOLDED_NUMBERS // max(1, first.numel()))
    while several := list(islice(outputs, size)):
        summary.add(several)
    return summary.finish()
