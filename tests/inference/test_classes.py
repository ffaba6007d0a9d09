"""What a predictive distribution says and shows, from samples that are written down."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch import Tensor

from graphdrop.data.names import Names
from graphdrop.inference import Predictive, predictive
from graphdrop.inference.origin import Origin

SAMPLES = torch.tensor(  # [samples, nodes, classes]
    [
        [[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.05, 0.05, 0.9], [0.4, 0.35, 0.25]],
        [[0.6, 0.3, 0.1], [0.2, 0.8, 0.0], [0.05, 0.05, 0.9], [0.3, 0.45, 0.25]],
        [[0.1, 0.8, 0.1], [0.2, 0.8, 0.0], [0.05, 0.05, 0.9], [0.1, 0.15, 0.75]],
    ],
    dtype=torch.float64,
)


def summary_of(samples: Tensor, intervals: bool = False) -> Predictive:
    """Of probabilities `[samples, nodes, classes]`, given as logits one by one."""
    summary = predictive.sum_samples(iter(samples.log().clamp_min(-700.0)), "classes", intervals)
    assert isinstance(summary, Predictive)
    return summary


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=2e-7)


@pytest.mark.parametrize("together", [1, 13, 1 << 18])
def test_every_figure_is_that_of_its_definition(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive, "FOLDED_NUMBERS", together)
    summary = summary_of(SAMPLES)
    mean = SAMPLES.mean(0)
    close(summary.probabilities, mean)
    close(summary.entropy, torch.from_numpy(entropy(mean, axis=1)))
    aleatoric = torch.from_numpy(entropy(SAMPLES, axis=2).mean(0))
    close(summary.aleatoric, aleatoric)
    close(summary.epistemic, summary.entropy.double() - aleatoric)
    close(summary.deviation, SAMPLES.std(0))
    close(summary.least_confidence, 1.0 - mean.amax(1))
    assert summary.samples == 3
    assert summary.probabilities.dtype == torch.float32


def test_the_vote_is_what_most_samples_chose_and_not_the_highest_mean() -> None:
    summary = summary_of(SAMPLES)
    # the second node's first sample is a tie, which goes to the first class
    assert summary.votes.tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 3], [1, 1, 1]]
    assert summary.vote.tolist() == [0, 1, 2, 2]  # and one vote each goes to the highest mean
    assert summary.classes.tolist() == [0, 1, 2, 2]
    two_of_three = torch.tensor([[[0.4, 0.3, 0.3]], [[0.4, 0.3, 0.3]], [[0.0, 1.0, 0.0]]])
    summary = summary_of(two_of_three)
    assert (summary.vote.item(), summary.classes.item()) == (0, 1)


def test_a_deviation_far_below_the_probability_is_still_found() -> None:
    near = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    shift = 1e-9 * torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    summary = summary_of(torch.stack([near + shift, near - shift, near])[:, None])
    torch.testing.assert_close(
        summary.deviation[0, :2], torch.full((2,), 1e-9), rtol=1e-3, atol=0.0
    )


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_middle_of_the_samples_to_a_thousandth(level: float) -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(401, 3, 4, generator=generator, dtype=torch.float64).softmax(-1)
    low, high = summary_of(samples, intervals=True).intervals(level)
    ends = [(1 - level) / 2, (1 + level) / 2]
    exact_low, exact_high = torch.from_numpy(
        np.quantile(samples, ends, axis=0, method="inverted_cdf")
    )
    assert bool(((low <= exact_low) & (exact_low <= low + 1 / 1024)).all())
    assert bool(((high - 1 / 1024 <= exact_high) & (exact_high <= high)).all())
    inside = ((samples >= low) & (samples <= high)).double().mean(0)
    assert bool((inside >= level).all())
    assert bool((inside <= level + 0.03).all())


def test_intervals_say_what_they_need() -> None:
    with pytest.raises(ValueError, match=r"call predict\(\.\.\., intervals=True\)"):
        summary_of(SAMPLES).intervals()
    with pytest.raises(ValueError, match=r"level is 1\.0; it takes a number between 0 and 1"):
        summary_of(SAMPLES, intervals=True).intervals(1.0)


PROBABILITIES = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
VOTES = torch.tensor([[1, 2, 0], [0, 3, 0], [0, 0, 3]])
PREDICTION = Predictive(
    PROBABILITIES, VOTES, torch.tensor([0.9, 0.1, 0.5]), torch.zeros(3, 3), 3, decision="vote"
)


def test_a_notebook_shows_the_least_certain_nodes_first() -> None:
    shown = PREDICTION._repr_html_()
    places = [
        shown.index(f"<tr><td>{node}</td><td>{chosen}</td>")
        for node, chosen in ((2, 2), (0, 1), (1, 1))
    ]
    assert places == sorted(places)
    assert "<td>0.400</td><td>1.089</td>" in shown


def test_the_least_certain_nodes_come_first() -> None:
    assert PREDICTION.most_uncertain(2).tolist() == [2, 0]
    assert PREDICTION.most_uncertain(by="expected_entropy").tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="k is -1; it takes a number of nodes"):
        PREDICTION.most_uncertain(-1)


def test_a_table_has_a_row_for_every_node() -> None:
    pytest.importorskip("pandas")
    table = PREDICTION.to_pandas()
    assert table["predicted"].tolist() == [1, 1, 2]
    assert table["probability_1"].tolist() == pytest.approx([0.4, 0.8, 0.3])
    assert table["entropy"].tolist() == pytest.approx(PREDICTION.entropy.tolist())
    parts = table["expected_entropy"] + table["mutual_information"]
    assert parts.tolist() == pytest.approx(table["entropy"].tolist())


def test_nodes_and_classes_are_called_by_their_names() -> None:
    pytest.importorskip("pandas")
    names = Names(ids=("ann", "<b>", "cleo", "dan"), classes=("x", "y", "z"))
    rows = torch.tensor([3, 1, 0])
    named = replace(PREDICTION, origin=Origin(rows=rows, names=names))
    table = named.to_pandas()
    assert table.index.tolist() == ["dan", "<b>", "ann"]
    assert table["predicted"].tolist() == ["y", "y", "z"]
    assert table.loc["<b>", "probability_y"] == pytest.approx(0.8)
    assert "<td>&lt;b&gt;</td><td>y</td>" in named._repr_html_()


def test_a_table_of_all_nodes_has_the_order_of_the_rows_they_came_from() -> None:
    pytest.importorskip("pandas")
    names = Names(ids=("ann", "bob", "cleo"), rows=torch.tensor([2, 0, 1]))
    table = replace(PREDICTION, origin=Origin(names=names)).to_pandas()
    assert table.index.tolist() == ["bob", "cleo", "ann"]
    assert table["probability_1"].tolist() == pytest.approx([0.8, 0.3, 0.4])
    assert PREDICTION.probabilities[names.order, 1].tolist() == pytest.approx([0.8, 0.3, 0.4])
