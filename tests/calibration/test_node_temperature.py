"""Calibrators that read the graph: they find what a single temperature cannot."""

import math

import pytest
import torch
from torch.nn.functional import leaky_relu, softplus
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, Predictive, calibrate, predict
from graphdrop.calibration.fit import apply
from graphdrop.calibration.node_temperature import GATS, CaGCN
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.inference.calibrator import Surroundings
from graphdrop.metrics import calibration_error

HUBS, CLASSES = 500, 4
GRAPH_AWARE = ["cagcn", "gats"]


@pytest.fixture(scope="module")
def world() -> tuple[torch.Tensor, torch.Tensor, Data]:
    """Hubs with logits alike, too sure or not sure enough by how sure their two neighbors are."""
    generator = torch.Generator().manual_seed(0)
    strong = torch.rand(HUBS, generator=generator) < 0.5
    hub = 2.0 * torch.randn(HUBS, CLASSES, generator=generator)
    truth = torch.softmax(hub / torch.where(strong, 0.6, 4.0)[:, None], 1)
    labels = torch.multinomial(truth, 1, generator=generator).squeeze(1)
    beside = torch.nn.functional.one_hot(hub.argmax(1), CLASSES) * 6.0
    beside = torch.where(strong[:, None], beside, beside / 12.0)
    near = torch.arange(HUBS).repeat(2), torch.arange(HUBS, 3 * HUBS)
    edges = torch.cat([torch.stack(near), torch.stack(near[::-1])], 1)
    data = Data(edge_index=edges, num_nodes=3 * HUBS)
    place = torch.arange(3 * HUBS)
    data.val_mask, data.test_mask = ((place < HUBS) & (place % 2 == part) for part in (0, 1))
    return torch.cat([hub, beside, beside]), labels.repeat(3), data


@pytest.mark.parametrize("method", GRAPH_AWARE)
def test_miscalibration_that_depends_on_neighbors_is_found(world, method):
    logits, labels, data = world
    errors = {}
    for name in ("temperature", method):
        calibrator = calibrate(logits, labels, name, data=data, mask=data.val_mask)
        answer = Predictive.from_logits(logits, data, calibrator).probabilities
        sure = logits[HUBS : 2 * HUBS].amax(1).repeat(3) > 1.0
        parts = (data.test_mask & sure, data.test_mask & ~sure)
        errors[name] = [float(calibration_error(answer[part], labels[part])) for part in parts]
    assert sum(errors[method]) < 0.5 * sum(errors["temperature"])


@pytest.fixture(scope="module")
def model_and_data() -> tuple[GCN, Data]:
    torch.manual_seed(0)
    data = Data(x=torch.rand(40, 5), edge_index=torch.randint(0, 40, (2, 160)))
    data.train_mask = torch.arange(40) < 6
    return GCN(5, 8, 2, 3, GraphDropConnect(blocks=2), seed=1).eval(), data


def _perturbed(kind):
    """A calibrator whose temperatures are not all alike."""
    generator = torch.Generator().manual_seed(1)
    network = kind.build(3)
    weights = {
        n: torch.randn(w.shape, generator=generator) for n, w in network.state_dict().items()
    }
    return kind(1.3, weights, 3)


@pytest.mark.parametrize("kind", [CaGCN, GATS])
def test_some_rows_are_corrected_as_they_are_among_all(model_and_data, kind):
    model, data = model_and_data
    calibrator = _perturbed(kind)
    whole = predict(model, data, 4, calibrator=calibrator)
    rows = torch.tensor([31, 2, 17])
    part = predict(model, data, 4, calibrator=calibrator, rows=rows)
    torch.testing.assert_close(part.probabilities, whole.probabilities[rows])
    raw = predict(model, data, 4, calibrator=None)
    assert not torch.allclose(raw.probabilities, whole.probabilities, atol=1e-3)
    assert bool((whole.epistemic >= 0).all())


@pytest.mark.parametrize("kind", [CaGCN, GATS])
def test_temperatures_follow_their_nodes_when_these_are_renumbered(world, kind):
    _, _, data = world
    logits = torch.randn(data.num_nodes, 3, generator=torch.Generator().manual_seed(3))
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(4))
    calibrator = _perturbed(kind)
    straight = apply(calibrator, logits, data)
    moved = Data(edge_index=torch.argsort(order)[data.edge_index])
    torch.testing.assert_close(apply(calibrator, logits[order], moved), straight[order])


@pytest.mark.parametrize("method", GRAPH_AWARE)
def test_fitting_twice_gives_the_same_numbers_and_leaves_torchs_generator_alone(
    world, method, monkeypatch
):
    monkeypatch.setattr("graphdrop.calibration.node_temperature.EPOCHS", 20)
    logits, labels, data = world
    few = torch.arange(30)
    torch.manual_seed(1)
    one = calibrate(logits, labels, method, data=data, mask=few)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    other = calibrate(logits, labels, method, data=data, mask=few)
    assert one.as_json() == other.as_json()
    assert torch.equal(torch.get_rng_state(), state)


def small_world() -> tuple[torch.Tensor, Data]:
    """Directed edges, a node without neighbors (5), one that hears of it alone (4)."""
    logits = 2.0 * torch.randn(6, 3, generator=torch.Generator().manual_seed(7)).double()
    edges = torch.tensor([[0, 1, 2, 3, 0, 5], [1, 0, 1, 2, 3, 4]])
    return logits, Data(edge_index=edges, train_mask=torch.tensor([True] + 5 * [False]))


def test_gats_is_the_sum_over_neighbors_that_its_equation_states():
    logits, data = small_world()
    calibrator = _perturbed(GATS)
    weights = {name: value.double() for name, value in calibrator.network.state_dict().items()}
    shown = logits / calibrator.temperature
    rise = shown - shown.amin(1, keepdim=True)
    tau = (rise / rise.amax(1, keepdim=True)).sort(1).values @ weights["theta"]
    heard = torch.zeros(6, 6, dtype=torch.bool)
    heard[data.edge_index[1], data.edge_index[0]] = True
    sure = torch.softmax(shown, 1).amax(1)
    factor = torch.ones(6).double()
    factor[[1, 3]], factor[0] = weights["near_and_trained"]  # the neighbors of node 0, and it
    expected = []
    for node in range(6):
        others = heard[node].nonzero().flatten()
        relative = sure[node] - sure[others].mean() if len(others) else 0.0
        among = torch.cat([others, torch.tensor([node])])
        share = torch.softmax(leaky_relu(tau[among] @ tau[node], 0.2), 0)
        said = (share * factor[among]) @ tau[among] + weights["confidence"] * relative
        expected.append(float(weights["bias"] + softplus(said).mean()) * calibrator.temperature)
    found = calibrator.temperatures(Surroundings.of(data, logits))
    torch.testing.assert_close(found.double(), torch.tensor(expected).double().clamp_min(0.013))


def test_cagcn_is_the_two_layer_gcn_that_it_says():
    logits, data = small_world()
    calibrator = _perturbed(CaGCN)
    weights = {name: value.double() for name, value in calibrator.network.state_dict().items()}
    heard = torch.eye(6).double()
    heard[data.edge_index[1], data.edge_index[0]] = 1.0
    matrix = heard / (heard.sum(1, keepdim=True) * heard.sum(0)).sqrt()
    shown = logits / calibrator.temperature
    shown = shown - shown.mean(1, keepdim=True)
    hidden = torch.relu(matrix @ shown @ weights["first"] + weights["first_bias"])
    raw = matrix @ hidden @ weights["second"] + weights["second_bias"]
    factor = softplus(raw + math.log(math.e - 1.0)).clamp(0.01, 100.0)
    found = calibrator.temperatures(Surroundings.of(data, logits))
    torch.testing.assert_close(found.double(), calibrator.temperature / factor, rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", [CaGCN, GATS])
def test_before_the_first_epoch_it_is_temperature_scaling(kind):
    logits, data = small_world()
    at_first = kind(1.7, kind.build(3).state_dict(), 3).temperatures(Surroundings.of(data, logits))
    torch.testing.assert_close(at_first, torch.full((6,), 1.7), rtol=0.1, atol=0)
    # two nodes are too few to hold one out: the network stays as it is
    labels, few = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([1, 4])
    found = calibrate(logits, labels, kind.name, data=data, mask=few)
    common = TemperatureScaling.fit(lambda: iter(logits[None, few]), labels[few]).temperature
    assert found.summary() == {"temperature": pytest.approx(common)}
    for name, value in kind.build(3).state_dict().items():
        assert torch.equal(found.network.state_dict()[name], value)


def test_training_nodes_are_those_of_a_bool_mask_with_a_value_for_every_node():
    logits, data = small_world()
    assert Surroundings.of(data, logits).train.tolist() == [0]
    for mask in (None, torch.ones(6), torch.ones(6, 2, dtype=torch.bool), [True] * 6):
        data.train_mask = mask
        assert Surroundings.of(data, logits).train is None


def test_a_graph_that_is_missing_is_asked_for():
    logits = torch.randn(5, 3)
    with pytest.raises(ValueError, match=r"\"cagcn\" has no graph.*data=data"):
        calibrate(logits, torch.zeros(5, dtype=torch.long), "cagcn")
    with pytest.raises(ValueError, match="by what it reads of all samples or of the graph"):
        _perturbed(CaGCN).correct(logits)
    far = Data(edge_index=torch.tensor([[0], [9]]))
    with pytest.raises(ValueError, match="names node 9"):
        calibrate(logits, torch.zeros(5, dtype=torch.long), "gats", data=far)
