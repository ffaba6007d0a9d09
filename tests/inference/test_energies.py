"""Energies rank what a model has not seen above what it has, at every scale."""

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, Predictive, calibrate, energy, predict, vacuity
from graphdrop.metrics import ood_auroc

SCALES = ["node", "neighborhood", "cluster", "all"]


@pytest.fixture(scope="module")
def world() -> tuple[torch.Tensor, torch.Tensor, Data]:
    """Four communities: three with large logits of a class of their own, one with small ones."""
    generator = torch.Generator().manual_seed(0)
    community = torch.arange(400) % 4
    edges = torch.randint(400, (2, 6000), generator=generator)
    alike = community[edges[0]] == community[edges[1]]
    chance = torch.rand(len(alike), generator=generator)
    edges = edges[:, chance < torch.where(alike, 0.9, 0.03)]
    logits = 2.0 * torch.randn(400, 3, generator=generator)
    logits[community < 3] += 3.0 * torch.nn.functional.one_hot(community[community < 3], 3)
    return logits, community == 3, Data(edge_index=torch.cat([edges, edges.flip(0)], 1))


@pytest.mark.parametrize("scale", SCALES)
def test_a_shifted_community_has_the_higher_energy(world, scale):
    logits, outside, data = world
    found = float(ood_auroc(energy(logits, data, scale), outside))
    alone = float(ood_auroc(energy(logits, data, "node"), outside))
    assert found > 0.75
    assert scale == "node" or found > alone + 0.05  # neighbors tell more than a node alone


def test_less_evidence_is_more_vacuous(world):
    logits, outside, _ = world
    scores = vacuity(logits)
    assert float(ood_auroc(scores, outside)) > 0.75
    assert bool(((scores > 0) & (scores < 1)).all())
    assert vacuity(torch.full((1, 4), -100.0)).item() == pytest.approx(1.0)


@pytest.mark.parametrize("scale", SCALES)
def test_energies_follow_their_nodes_when_these_are_renumbered(world, scale):
    logits, _, data = world
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    moved = Data(edge_index=torch.argsort(order)[data.edge_index])
    torch.testing.assert_close(
        energy(logits[order], moved, scale), energy(logits, data, scale)[order]
    )


def test_a_sampled_prediction_has_the_mean_energy_of_its_samples_before_calibration(world):
    logits, _, data = world
    samples = logits + torch.randn(5, 400, 3, generator=torch.Generator().manual_seed(2))
    calibrator = calibrate(logits, logits.argmax(1), "isotonic")
    answer = Predictive.from_logits(samples, data, calibrator)
    torch.testing.assert_close(energy(answer, scale="node"), -samples.logsumexp(2).mean(0))
    torch.testing.assert_close(answer.energy, energy(samples, data))
    torch.testing.assert_close(answer.vacuity, vacuity(samples))


def test_predict_remembers_what_an_energy_needs(world):
    data = Data(x=torch.rand(400, 6), edge_index=world[2].edge_index)
    model = GCN(6, 8, 2, 3, GraphDropConnect(blocks=2), seed=1).eval()
    whole, rows = predict(model, data, 3), torch.tensor([7, 3])
    part = predict(model, data, 3, rows=rows)
    torch.testing.assert_close(energy(part, scale="node"), energy(whole, scale="node")[rows])
    assert whole.energy.shape == (400,)
    with pytest.raises(ValueError, match="Predict without rows"):
        part.energy  # noqa: B018
    with pytest.raises(ValueError, match="Pass data"):
        energy(torch.zeros(3, 2))
