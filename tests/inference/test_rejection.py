"""Which answers are kept: as many as were asked for, and none less certain than a refused one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphdrop.inference import GaussianPredictive, LabelPredictive, Predictive
from graphdrop.inference.uncertainty import keep_most_certain
from graphdrop.metrics import selective_risk

NODES, CLASSES = 101, 4


def an_answer() -> tuple[Predictive, Tensor]:
    """Predictions of some nodes from contradicting samples, and true labels."""
    generator = torch.Generator().manual_seed(0)
    samples = 3 * torch.randn(5, NODES, CLASSES, generator=generator)
    samples = (samples + 2 * torch.randn(NODES, CLASSES, generator=generator)).softmax(-1)
    entropy = torch.special.entr(samples).sum(-1).mean(0)
    answer = Predictive(samples.mean(0), torch.zeros(NODES, CLASSES), entropy, samples.std(0), 5)
    return answer, torch.multinomial(answer.probabilities, 1, generator=generator)[:, 0]


@pytest.mark.parametrize(
    ("by", "coverage"),
    [
        *(("entropy", coverage) for coverage in (0.01, 0.5, 1.0)),
        *((by, 0.3) for by in ("aleatoric", "epistemic", "least_confidence")),
    ],
)
def test_the_error_among_the_kept_is_the_selective_risk(by: str, coverage: float) -> None:
    answer, labels = an_answer()
    kept, threshold, _ = answer.reject(coverage, by)
    uncertainty = getattr(answer, by)
    wrong = (answer.classes != labels)[kept].double().mean()
    risk = selective_risk(answer.probabilities, labels, coverage, uncertainty=uncertainty)
    assert wrong.item() == pytest.approx(risk.item())
    assert threshold == uncertainty[kept].max().item()
    assert torch.equal(kept, uncertainty <= threshold)


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=1, max_size=30),
    st.floats(0.0, 1.0, exclude_min=True),
)
@settings(max_examples=30, deadline=None)
def test_equal_uncertainties_do_not_change_how_many_are_kept(
    values: list[float], coverage: float
) -> None:
    uncertainty = torch.tensor(values, dtype=torch.float64)
    kept, threshold, _ = keep_most_certain({"it": uncertainty}, "it", coverage)
    assert kept.double().mean() >= coverage - 1e-9
    assert (int(kept.sum()) - 1) / len(values) < coverage or int(kept.sum()) == 1
    assert bool((uncertainty[kept] <= threshold).all())
    assert bool((uncertainty[~kept] >= threshold).all())


def test_a_row_of_labels_is_as_uncertain_as_its_labels_together() -> None:
    # one label in doubt, two labels in some doubt, none
    probabilities = torch.tensor([[0.5, 0.99], [0.8, 0.2], [0.99, 0.01]])
    answer = LabelPredictive(probabilities, torch.zeros(3, 2), torch.zeros(3, 2), 3)
    assert answer.reject(0.3).kept.tolist() == [False, False, True]
    assert answer.reject(0.6).kept.tolist() == [True, False, True]
    assert answer.reject(0.6, "least_confidence").kept.tolist() == [False, True, True]
    assert answer.reject(0.6, "least_confidence").threshold == pytest.approx(0.4)
    links = LabelPredictive(probabilities[:, 0], torch.zeros(3), torch.zeros(3), 3)
    assert links.reject(0.6).kept.tolist() == [False, True, True]


@pytest.mark.parametrize("by", ["variance", "aleatoric", "epistemic"])
def test_units_of_a_target_do_not_decide_which_numbers_are_kept(by: str) -> None:
    generator = torch.Generator().manual_seed(0)
    noise, spread = torch.rand(2, 50, 2, generator=generator)
    kept = GaussianPredictive(torch.zeros(50, 2), noise, spread, 3).reject(0.4, by).kept
    units = torch.tensor([1e4, 1e-4])
    other = GaussianPredictive(torch.zeros(50, 2), units * noise, units * spread, 3)
    assert torch.equal(other.reject(0.4, by).kept, kept)
    single = GaussianPredictive(torch.zeros(50, 1), noise[:, :1], spread[:, 1:], 3)
    score = getattr(single, by)[:, 0]
    kept, threshold, _ = single.reject(0.4, by)
    assert threshold == pytest.approx(score[kept].max().item())
    assert score[kept].max() < score[~kept].min()


def test_what_is_refused_must_make_sense() -> None:
    answer, _ = an_answer()
    for coverage in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(
            ValueError, match=rf"coverage is {coverage}; it takes a number in \(0, 1"
        ):
            answer.reject(coverage)
    with pytest.raises(ValueError, match="by is 'doubt'; it takes one of 'entropy', 'aleato"):
        answer.reject(by="doubt")
    nothing = torch.zeros(0, CLASSES)
    none = Predictive(nothing, nothing, torch.zeros(0), nothing, 5)
    with pytest.raises(ValueError, match="at least one example"):
        none.reject()
