"""The Monte Carlo standard error is the deviation of the answer over independent repetitions."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from contracts.masked_sums import normal, power_law_edges
from graphdrop import calibrate
from graphdrop.calibration.fit import apply
from graphdrop.calibration.scaling import VarianceScaling
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.inference import Predictive, predict
from graphdrop.nn import GCN
from graphdrop.sampling.rates import FixedRate
from graphdrop.sampling.samplers import GraphDropConnect

NODES, FEATURES, OUTPUTS, SAMPLES, REPETITIONS = 40, 12, 4, 20, 150


GAUSSIAN = {"output": "gaussian", "calibrator": VarianceScaling(torch.tensor([4.0, 0.2]))}


@pytest.fixture(scope="module")
def graph() -> Data:
    edges = torch.unique(power_law_edges(NODES, 120, 0), dim=1)
    return Data(x=3.0 * normal(NODES, FEATURES, seed=0), edge_index=edges)


@pytest.fixture(scope="module")
def network() -> GCN:
    torch.manual_seed(0)
    return GCN(FEATURES, 8, 2, OUTPUTS, GraphDropConnect(FixedRate(keep=0.7)), seed=0).eval()


@pytest.mark.parametrize(
    ("mean", "options", "within"),
    [
        ("probabilities", {"output": "classes"}, 1.4),
        # calibrators that read the mean of the samples: to first order
        ("probabilities", {"calibrator": EntropyTemperatureScaling(0.7, 0.0, 0.0, 0.4)}, 2.0),
        ("probabilities", {"calibrator": EntropyTemperatureScaling(0.7, 0.2, -0.6, 0.7)}, 2.0),
        ("probabilities", {"output": "labels"}, 1.4),
        ("mean", GAUSSIAN, 1.4),
    ],
)
def test_the_standard_error_is_the_deviation_over_repetitions_with_other_seeds(
    mean: str, options: dict[str, Any], within: float, graph: Data, network: GCN
) -> None:
    answers: list[Any] = [
        predict(network, graph, SAMPLES, seed, **options) for seed in range(REPETITIONS)
    ]
    found = torch.stack([getattr(answer, mean) for answer in answers]).double().std(0)
    stated = torch.stack([answer.standard_error for answer in answers]).double()
    stated = stated.square().mean(0).sqrt()
    large = found > 0.1 * found.max()
    assert int(large.sum()) > 0.9 * large.numel()
    ratio = (stated / found)[large]
    # a deviation over 150 repetitions is known to 6 %
    assert 0.85 < float(ratio.median()) < 1.15
    assert 1.0 / within < float(ratio.min())
    assert float(ratio.max()) < within


def test_nodes_near_another_class_are_those_that_two_errors_could_move() -> None:
    # two classes: the error of both probabilities is 0.02, so that 0.53 is near one half
    probabilities = torch.tensor([[0.53, 0.47, 0.0], [0.55, 0.45, 0.0], [0.9, 0.05, 0.05]])
    deviation = 0.1 * torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    zeros = torch.zeros(3)
    answer = Predictive(probabilities, torch.zeros(3, 3), zeros, deviation, samples=25)
    assert answer.standard_error[0, 0] == pytest.approx(0.02)
    assert answer.near_another_class.tolist() == [True, False, False]


def test_an_error_that_is_not_known_is_not_a_number(graph: Data, network: GCN) -> None:
    one = predict(network, graph, 1)
    assert one.standard_error.isnan().all()
    assert not one.near_another_class.any()
    labels = predict(network, graph, 5).classes
    several = predict(network, graph, 5)
    tempered = apply(calibrate(several, labels, method="temperature"), several)
    assert isinstance(tempered, Predictive)
    assert tempered.standard_error.isnan().all()
