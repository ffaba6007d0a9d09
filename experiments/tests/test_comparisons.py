"""Intervals hold what they say: closed forms, and false alarms in simulations without a difference.

A false alarm is an interval without 0, at 5 %. 2000 replicates have a standard error of 0.5 points.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from experiments.comparisons import (
    aurc_without_each,
    crossed,
    ece_without_each,
    holm,
    node_values,
    pavpu_without_each,
    resampled_t,
    seeds_alone,
    simulated_p,
)
from graphdrop.metrics import aurc, calibration_error, pavpu

REPLICATES, SEEDS, NODES = 2000, 10, 60


def false_alarms(found) -> float:
    return float(np.mean([one.low > 0 or one.high < 0 for one in found]))


@pytest.mark.parametrize(
    ("seed", "node", "rest"),
    [(0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (0.2, 0.5, 1.0), (1.0, 3.0, 0.1)],
)
def test_seeds_and_nodes_crossed_give_at_most_six_percent_of_false_alarms(seed, node, rest):
    draw = np.random.default_rng(1)
    values = (
        seed * draw.normal(size=(REPLICATES, SEEDS, 1))
        + node * draw.normal(size=(REPLICATES, 1, NODES))
        + rest * draw.normal(size=(REPLICATES, SEEDS, NODES))
    )
    found = [crossed(one) for one in values]
    assert 0.015 <= false_alarms(found) <= 0.06
    agreed = [(one.p_value < 0.05) == (one.low > 0 or one.high < 0) for one in found]
    assert all(agreed)
    if node == 3.0:  # what an interval over seeds alone does where nodes differ
        assert false_alarms([seeds_alone(one.mean(1)) for one in values[:400]]) > 0.1


def test_the_crossed_interval_is_that_of_the_mean_squares():
    values = np.random.default_rng(3).normal(size=(4, 6)) + np.arange(4)[:, None] + np.arange(6)
    by_seed, by_node = values.mean(1), values.mean(0)
    rest = values - by_seed[:, None] - by_node + values.mean()
    a, b, e = 6 * by_seed.var(ddof=1), 4 * by_node.var(ddof=1), (rest**2).sum() / 15
    assert min(a, b) > e
    degrees = (a + b - e) ** 2 / (a**2 / 3 + b**2 / 5 + e**2 / 15)
    found = crossed(values)
    reach = stats.t.ppf(0.975, degrees) * np.sqrt((a + b - e) / 24)
    assert found.degrees == pytest.approx(degrees)
    assert (found.low, found.high) == pytest.approx((values.mean() - reach, values.mean() + reach))


def test_a_simulated_p_value_is_how_often_tables_without_a_difference_show_such_a_one():
    draw = np.random.default_rng(6)
    count, seeds, nodes, effect = 8_000, 6, 12, 0.4
    tables = draw.normal(size=(count, seeds, nodes)) + effect * draw.normal(size=(count, seeds, 1))
    # A table whose mean squares are the expected ones has the components that were drawn.
    rest = tables[0] - tables[0].mean(1, keepdims=True) - tables[0].mean(0) + tables[0].mean()
    rest /= np.sqrt((rest**2).sum() / ((seeds - 1) * (nodes - 1)))
    by_seed = np.arange(seeds)[:, None] / np.arange(seeds).std(ddof=1)
    typical = rest + by_seed * np.sqrt(effect**2 + 1 / nodes)
    shown = np.array([crossed(one).p_value for one in tables])
    found = simulated_p(typical, 0.05, draws=100_000)
    assert found == pytest.approx(np.mean(shown <= 0.05), abs=0.008)  # 3 standard errors


def test_one_column_of_seeds_that_nodes_share_is_students_t():
    differences = np.array([0.3, -0.1, 0.5, 0.2])
    table = np.repeat(differences[:, None], 50, 1)
    assert crossed(table) == pytest.approx(seeds_alone(differences), abs=1e-12)
    assert crossed(np.zeros((3, 5))).p_value == 1.0


def test_the_corrected_t_has_five_percent_of_false_alarms_where_splits_are_correlated():
    tested, fitted = 1000, 640
    correlation = tested / (tested + fitted)
    draw = np.random.default_rng(4)
    common, own = draw.normal(size=(REPLICATES, 1)), draw.normal(size=(REPLICATES, SEEDS))
    values = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    found = [resampled_t(one, tested, fitted) for one in values]
    assert false_alarms(found) == pytest.approx(0.05, abs=0.015)
    assert false_alarms([seeds_alone(one) for one in values]) > 0.3
    first, plain = found[0], seeds_alone(values[0])
    widening = np.sqrt(1 + SEEDS * tested / fitted)
    assert (first.high - first.low) / (plain.high - plain.low) == pytest.approx(widening)


def test_holm_corrects_step_by_step_and_keeps_the_family_wise_rate():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01, 0.2], planned=4) == pytest.approx([0.04, 0.6])
    assert holm([], planned=3) == []
    with pytest.raises(ValueError, match=r"planned is 1; it takes at least the number of p-values"):
        holm([0.1, 0.2], planned=1)
    draw = np.random.default_rng(5)
    families = draw.random((REPLICATES, 8))
    alarms = np.mean([min(holm(one)) < 0.05 for one in families.tolist()])
    assert alarms == pytest.approx(0.05, abs=0.015)


# Scores that are no means over nodes

BINARY = {
    "ece": (
        lambda right, likely: ece_without_each(right, likely, 15),
        lambda given, labels: calibration_error(given, labels, bins=15),
    ),
    "aurc": (lambda right, likely: aurc_without_each(right, -likely), aurc),
    **{
        f"pavpu at {threshold}": (
            lambda right, likely, at=threshold: pavpu_without_each(right, entropy(likely), at),
            lambda given, labels, at=threshold: pavpu(given, labels, at).pavpu,
        )
        for threshold in (0.5, 0.95, 1.0)
    },
}
"""Without each node, of two classes the first of which is predicted; and the score itself."""


def entropy(likely):
    return -likely * np.log(likely) - (1.0 - likely) * np.log(1.0 - likely)


def forecasts(draw, *shape):
    """Probabilities of the predicted one of two classes, and whether it is right."""
    likely = 0.5 + 0.49 * draw.random(shape)
    return likely, (draw.random(shape) < likely).astype(float)


@pytest.mark.parametrize("score", BINARY)
def test_scores_without_each_node_are_those_of_the_nodes_that_are_left(score):
    without_each, of = BINARY[score]
    likely, right = forecasts(np.random.default_rng(7), 40)
    given = torch.as_tensor(np.stack([likely, 1.0 - likely], 1))
    labels = torch.as_tensor(1 - right).long()
    left = [torch.arange(40) != node for node in range(40)]
    brute = [float(of(given[kept], labels[kept])) for kept in left]
    found = without_each(right, likely)
    assert found == pytest.approx(brute)
    whole = float(of(given, labels))
    assert node_values(whole, found).mean() == pytest.approx(whole)


@pytest.mark.parametrize("score", ["ece", "aurc", "pavpu at 0.5"])
def test_scores_that_are_no_means_give_few_false_alarms_over_seeds_and_nodes(score):
    without_each, of = BINARY[score]
    draw = np.random.default_rng(9)
    found = []
    for _ in range(200):
        ease, labels = draw.normal(size=150), draw.normal(size=150)
        table = np.empty((2, SEEDS, 150))
        for method in range(2):
            for seed in range(SEEDS):
                shift = 0.3 * draw.normal() + 0.3 * draw.normal(size=150)
                likely = 0.5 + 0.49 * stats.norm.cdf(ease + shift)
                right = (stats.norm.cdf(labels) < likely).astype(float)
                given = torch.as_tensor(np.stack([likely, 1.0 - likely], 1))
                whole = float(of(given, torch.as_tensor(1 - right).long()))
                table[method, seed] = node_values(whole, without_each(right, likely))
        found.append(crossed(table[0] - table[1]))
    assert false_alarms(found) <= 0.1  # 200 replicates: 3 standard errors above 5 %
