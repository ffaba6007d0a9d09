"""Every class equals its function, for any split into batches and any order of the examples."""

import pickle
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdrop import metrics


def _with_extras(function, *arguments):
    def measure(probabilities, labels, uncertainty, predictions, *_):
        return function(
            probabilities, labels, *arguments, uncertainty=uncertainty, predictions=predictions
        )

    return measure


# (class, function of all columns below, the columns that update takes)
PLAIN = (0, 1)
EXTRAS = (0, 1, 2, 3)
AXES = [axis.value for axis in metrics.ThresholdAxis]
TWINS = (
    {
        "brier": (metrics.BrierScore, lambda p, y, *_: metrics.brier_score(p, y), PLAIN),
        "nll": (metrics.NLL, lambda p, y, *_: metrics.nll(p, y), PLAIN),
        "aurc": (metrics.AURC, _with_extras(metrics.aurc), EXTRAS),
        "excess aurc": (metrics.ExcessAURC, _with_extras(metrics.excess_aurc), EXTRAS),
        "risk-coverage": (
            metrics.RiskCoverageCurve,
            _with_extras(metrics.risk_coverage_curve),
            EXTRAS,
        ),
        "selective risk": (
            lambda: metrics.SelectiveRisk(0.7),
            _with_extras(metrics.selective_risk, 0.7),
            EXTRAS,
        ),
        "ood auroc": (
            metrics.OodAUROC,
            lambda _p, _y, u, _v, o, *_: metrics.ood_auroc(u, o),
            (2, 4),
        ),
        "ood aupr": (metrics.OodAUPR, lambda _p, _y, u, _v, o, *_: metrics.ood_aupr(u, o), (2, 4)),
        "gap": (
            metrics.AccuracyGap,
            lambda p, y, _u, v, o, t, _q: metrics.accuracy_gap(p, y, o, t, predictions=v),
            (0, 1, 4, 5, 3),
        ),
    }
    | {
        f"{name} {binning}": (
            lambda kind=kind, binning=binning: kind(bins=6, binning=binning),
            lambda p, y, *_, function=function, binning=binning: function(
                p, y, bins=6, binning=binning
            ),
            PLAIN,
        )
        for name, kind, function in [
            ("reliability", metrics.Reliability, metrics.reliability),
            ("calibration error", metrics.CalibrationError, metrics.calibration_error),
        ]
        for binning in ("equal-width", "equal-mass")
    }
    | {
        f"pavpu {axis}": (
            lambda axis=axis: metrics.PAvPU(0.6, axis),
            lambda p, y, u, v, *_, axis=axis: metrics.pavpu(
                p, y, 0.6, axis=axis, uncertainty=u, predictions=v
            ),
            EXTRAS,
        )
        for axis in AXES
    }
    | {
        f"pavpu curve {axis}": (
            lambda axis=axis: metrics.PAvPUCurve([0.0, 0.3, 1.0], axis),
            lambda p, y, u, v, *_, axis=axis: metrics.pavpu_curve(
                p, y, [0.0, 0.3, 1.0], axis=axis, uncertainty=u, predictions=v
            ),
            EXTRAS,
        )
        for axis in AXES
    }
    | {
        "posterior divergence": (
            metrics.PosteriorDivergence,
            lambda p, _y, _u, _v, _o, _t, q: metrics.posterior_divergence(p, q),
            (0, 6),
        ),
        "posterior calibration error": (
            lambda: metrics.PosteriorCalibrationError(bins=6),
            lambda p, _y, _u, _v, _o, _t, q: metrics.posterior_calibration_error(p, q, bins=6),
            (0, 6),
        ),
        "mce": (
            lambda: metrics.CalibrationError(norm="maximum"),
            lambda p, y, *_: metrics.calibration_error(p, y, norm="maximum"),
            PLAIN,
        ),
    }
)


def _columns(seed: int, examples: int):
    """Probabilities on a coarse grid, so that scores tie, and everything else an update takes."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randint(1, 4, (examples, 4), generator=generator).float()
    probabilities = weights / weights.sum(-1, keepdim=True)
    labels = torch.randint(4, (examples,), generator=generator)
    uncertainty = torch.randint(5, (examples,), generator=generator) / 4
    predictions = torch.randint(4, (examples,), generator=generator)
    outside = torch.rand(examples, generator=generator) < 0.5
    outside[0], outside[-1] = True, False
    posterior = probabilities.roll(1, 0).roll(1, 1)
    return probabilities, labels, uncertainty, predictions, outside, ~outside, posterior


@pytest.mark.parametrize("name", TWINS)
@given(
    seed=st.integers(0, 2**20),
    examples=st.integers(2, 40),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
@settings(max_examples=15, deadline=None)
def test_batches_in_any_order_equal_the_function_on_the_whole(name, seed, examples, cuts):
    make, function, used = TWINS[name]
    columns = _columns(seed, examples)
    order = torch.randperm(examples, generator=torch.Generator().manual_seed(seed))
    bounds = sorted({0, examples, *(int(cut * examples) for cut in cuts)})
    metric = make()
    for start, end in pairwise(bounds):
        metric.update(*(columns[column][order[start:end]] for column in used))
    torch.testing.assert_close(metric.compute(), function(*columns), equal_nan=True)


@pytest.mark.parametrize("name", TWINS)
def test_two_processes_merge_to_the_function_on_the_whole_and_a_reset_forgets_it(name):
    make, function, used = TWINS[name]
    columns = _columns(3, 30)
    here, there = make(), make()
    here.update(*(columns[column][:11] for column in used))
    there.update(*(columns[column][11:] for column in used))
    here.merge_state(there)
    torch.testing.assert_close(here.compute(), function(*columns), equal_nan=True)
    # What was merged survives pickling, and is forgotten on reset.
    copy = pickle.loads(pickle.dumps(here))
    torch.testing.assert_close(copy.compute(), function(*columns), equal_nan=True)
    copy.reset()
    second = _columns(5, 25)
    copy.update(*(second[column] for column in used))
    torch.testing.assert_close(copy.compute(), function(*second), equal_nan=True)


def test_the_entropy_and_the_argmax_are_the_defaults_of_the_classes_too():
    probabilities, labels, *_ = _columns(6, 50)
    for metric, value in [
        (metrics.AURC(), metrics.aurc(probabilities, labels)),
        (metrics.PAvPU(0.95), metrics.pavpu(probabilities, labels, 0.95)),
    ]:
        metric.update(probabilities[:20], labels[:20])
        metric.update(probabilities[20:], labels[20:])
        torch.testing.assert_close(metric.compute(), value)
