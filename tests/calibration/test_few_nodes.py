"""Few calibration nodes hardly change a prediction, whichever calibrator is chosen.

The draws are sampled logits of networks whose posterior is known: 2 to 7 classes, samples that
agree or not, nodes that are easy or hard, and logits that are right, over-confident by 2.5 or
under-confident by 0.4.
"""

import pytest
import torch

from graphdrop.calibration import Calibrator
from graphdrop.calibration.fit import METHODS
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling
from graphdrop.metrics import nll

TEST = 400


def draws(nodes: int, count: int, distortion: float):
    """Sampled logits and labels of calibration nodes, and of test nodes."""
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        total, classes = nodes + TEST, (2, 3, 7)[seed % 3]
        label = torch.randint(classes, (total,), generator=generator)
        strength = 0.5 + 5.0 * torch.rand(total, 1, generator=generator)
        mean = strength * torch.nn.functional.one_hot(label, classes)
        mean = mean + torch.randn(total, classes, generator=generator)
        noise = torch.randn(4, total, classes, generator=generator)
        logits = (mean + (0.0, 1.0)[seed % 2] * noise).double()
        truth = torch.softmax(logits, 2).mean(0)
        labels = torch.multinomial(truth, 1, generator=generator).squeeze(1)
        logits = logits * distortion
        yield (logits[:, :nodes], labels[:nodes]), (logits[:, nodes:], labels[nodes:])


def gains(name: str, nodes: int, count: int, distortion: float) -> float:
    """The mean change of the test NLL by a calibrator that was fitted to so many nodes."""
    found = []
    for (logits, labels), (new, truth) in draws(nodes, count, distortion):
        fitted: Calibrator = METHODS[name].fit(lambda few=logits: iter(few), labels)
        correct = fitted.corrector(lambda new=new: iter(new))
        change = nll(torch.softmax(correct(new), 2).mean(0), truth)
        found.append(float(change - nll(torch.softmax(new, 2).mean(0), truth)))
    return sum(found) / len(found)


@pytest.mark.parametrize("name", ["temperature", "entropy-temperature", "vector", "isotonic"])
@pytest.mark.parametrize("nodes", [5, 20])
def test_few_nodes_do_not_make_a_prediction_worse(name, nodes):
    assert gains(name, nodes, 18, 1.0) < 0.02
    assert gains(name, nodes, 18, 2.5) < 0.02


@pytest.mark.parametrize("name", ["temperature", "entropy-temperature", "vector"])
def test_many_nodes_undo_a_distortion(name):
    for distortion in (0.4, 2.5):
        loss, best = 0.0, 0.0
        for _, (new, truth) in draws(500, 6, distortion):
            loss += float(nll(torch.softmax(new, 2).mean(0), truth)) / 6
            best += float(nll(torch.softmax(new / distortion, 2).mean(0), truth)) / 6
        assert loss + gains(name, 500, 6, distortion) < best + 0.01 < loss


def test_few_entries_of_labels_do_not_make_a_prediction_worse():
    found = []
    for seed in range(24):
        generator = torch.Generator().manual_seed(seed)
        logits = (3.0 * torch.randn(2, 405, 3, generator=generator) - 1.0).double()
        truth = torch.bernoulli(torch.sigmoid(logits).mean(0), generator=generator)
        fitted = LabelScaling.fit(lambda few=logits[:, :5]: iter(few), truth[:5])
        losses = [
            torch.nn.functional.binary_cross_entropy(torch.sigmoid(z).mean(0), truth[5:])
            for z in (fitted.correct(logits[:, 5:]), logits[:, 5:])
        ]
        found.append(float(losses[0] - losses[1]))
    assert sum(found) / len(found) < 0.02


def test_few_numbers_do_not_make_intervals_worse():
    """The expected NLL of a Gaussian whose variance is right, by the factor that 5 nodes give."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(5, 2000, generator=generator).double()
    outputs = torch.zeros(1, 5, 4000).double()
    factor = VarianceScaling.fit(lambda: iter(outputs), truth).factor
    change = 0.5 * (factor.log() + 1.0 / factor) - 0.5
    assert 0.0 < float(change.mean()) < 0.02
