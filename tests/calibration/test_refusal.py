"""An answer is trusted if it is as certain as a share of the validation nodes."""

from dataclasses import replace

import pytest
import torch

from graphdrop.calibration.refusal import find_trusted
from graphdrop.inference import Predictive
from graphdrop.inference.origin import Origin
from graphdrop.nn.defaults import SetNodes


def prediction(confidence: list[float], **origin: object) -> Predictive:
    """Of two classes, the first with this probability."""
    first = torch.tensor(confidence)
    probabilities = torch.stack([first, 1 - first], 1)
    nothing = torch.zeros_like(probabilities)
    made = Predictive(probabilities, nothing, nothing[:, 0], nothing, 4, reject_by="entropy")
    return replace(made, origin=Origin(**origin))


VALIDATION = [0.9, 0.8, 0.7, 0.95]
KNOWN = SetNodes(
    nodes=torch.tensor([0, 1, 2, 3]),
    labels=torch.tensor([0, 0, 1, 0]),
    probabilities=prediction(VALIDATION).probabilities,
    held_out=False,
    calibrated=True,
)


def test_the_threshold_keeps_a_share_of_the_validation_nodes():
    answer = prediction([*VALIDATION, 0.85, 0.75, 0.6], set_nodes=KNOWN)
    rule = find_trusted(answer, 0.75)
    assert rule.trusted.tolist() == [True, True, False, True, True, False, False]
    assert (rule.by, rule.chosen_on, rule.accuracy) == ("entropy", "validation", 1.0)
    assert rule.threshold == pytest.approx(float(answer.entropy[1]))
    assert find_trusted(answer, 1.0).accuracy == 0.75


def test_on_another_graph_the_threshold_stays():
    for confidence, expected in (([0.99, 0.9], [True, True]), ([0.6, 0.5], [False, False])):
        answer = prediction(confidence, set_nodes=KNOWN, same_graph=False)
        assert find_trusted(answer, 0.75).trusted.tolist() == expected
        by_samples = find_trusted(replace(answer, reject_by="epistemic"), 0.75)
        assert (by_samples.by, by_samples.trusted.tolist()) == ("entropy", expected)


def test_without_validation_nodes_a_share_of_the_rows_is_kept():
    rule = find_trusted(prediction([0.9, 0.6, 0.8, 0.7]), 0.5)
    assert rule.trusted.tolist() == [True, False, True, False]
    assert (rule.chosen_on, rule.accuracy) == ("these", None)


def test_a_coverage_is_a_share():
    with pytest.raises(ValueError, match="coverage"):
        find_trusted(prediction([0.9]), 1.5)


def test_few_nodes_of_a_rare_class_are_trusted_as_nodes_of_another():
    """Nine in ten of the class's validation nodes reach the limit, and so do those of others."""
    generator = torch.Generator().manual_seed(0)
    score = 1.5 * torch.randn(20_000, generator=generator) - 3.6
    rare = (torch.rand(20_000, generator=generator) < score.sigmoid()).long()
    rows = torch.arange(10_000)
    probabilities = torch.stack([-score, score], 1).sigmoid()
    known = SetNodes(rows, rare[rows], probabilities[rows], held_out=True, calibrated=True)
    answer = replace(prediction((-score).sigmoid().tolist(), set_nodes=known), reject_by="entropy")
    before = find_trusted(answer, 0.9)
    origin = replace(answer.origin, class_counts=(9400, 600))
    rule = find_trusted(replace(answer, origin=origin), 0.9)

    def missed(trust: torch.Tensor) -> float:
        wrong = trust & (answer.predicted == 0)
        return float(wrong[10_000:][rare[10_000:] == 1].double().mean())

    assert missed(before.trusted) > 0.3
    assert missed(rule.trusted) == pytest.approx(0.1, abs=0.04)
    assert rule.rare[0].by == "coverage"
    assert rule.accuracy > before.accuracy
    cautious = find_trusted(replace(answer, origin=origin), 0.9, cost_ratio=200)
    assert (cautious.rare[0].by, cautious.rare[0].probability) == ("cost", pytest.approx(1 / 201))


def test_a_rare_class_without_enough_validation_nodes_is_judged_by_its_share():
    answer = prediction([0.99, 0.9, 0.93], class_counts=(95, 5))
    rule = find_trusted(answer, 1.0)
    assert rule.trusted.tolist() == [True, False, False]
    assert rule.rare == ((1, 0.05, "share"),)
