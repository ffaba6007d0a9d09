"""The passes of a prediction: how many, with which masks, from which seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphdrop.graph.masks import TEMPERATURE
from graphdrop.nn.defaults import Masks, PredictionDefaults
from graphdrop.nn.sampled import SampledModel
from graphdrop.sampling.samplers import KEEP_ALL, Draw

PREDICTION_STEP = 1 << 62
"""The step number of the masks of predictions, beyond all steps of training."""


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
