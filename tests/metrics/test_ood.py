"""Detection scores against scikit-learn, by hand, and where a squashed score would tie."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from graphdrop.metrics import ood_aupr, ood_auroc


def test_pairs_by_hand():
    # Outside 0.4 and 0.9 against inside 0.1, 0.4 and 0.6: wins 1 + 1/2 + 0 and 3, of 6 pairs.
    uncertainty = torch.tensor([0.4, 0.9, 0.1, 0.4, 0.6])
    outside = torch.tensor([True, True, False, False, False])
    assert ood_auroc(uncertainty, outside).item() == pytest.approx(4.5 / 6)
    # From the top: 0.9 at precision 1, then 0.4 reached together with two inside ones: 2 of 4.
    assert ood_aupr(uncertainty, outside).item() == pytest.approx((1 + 2 / 4) / 2)


@given(seed=st.integers(0, 2**20), examples=st.integers(2, 60), levels=st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_both_are_scikit_learns_with_and_without_ties(seed, examples, levels):
    generator = torch.Generator().manual_seed(seed)
    uncertainty = torch.randint(levels, (examples,), generator=generator).double() - 3
    outside = torch.rand(examples, generator=generator) < 0.3
    outside[0], outside[1] = True, False
    auroc, aupr = ood_auroc(uncertainty, outside).item(), ood_aupr(uncertainty, outside).item()
    assert auroc == pytest.approx(roc_auc_score(outside, uncertainty), abs=1e-12)
    assert aupr == pytest.approx(average_precision_score(outside, uncertainty), abs=1e-12)
    assert 0 <= auroc <= 1
    assert 0 < aupr <= 1
    assert ood_auroc(-uncertainty, outside).item() == pytest.approx(1 - auroc)
    order = torch.randperm(examples, generator=generator)
    assert ood_auroc(uncertainty[order], outside[order]).item() == auroc
    assert ood_aupr(uncertainty[order], outside[order]).item() == aupr


def test_scores_of_any_size_keep_their_order():
    uncertainty = torch.tensor([100.0, 101.0, 102.0, 103.0])
    outside = torch.tensor([0, 0, 1, 1])
    assert ood_auroc(uncertainty, outside).item() == 1.0
    assert ood_aupr(uncertainty, outside).item() == 1.0


def test_a_constant_score_is_blind():
    outside = torch.tensor([True, False, False, False])
    assert ood_auroc(torch.ones(4), outside).item() == 0.5
    assert ood_aupr(torch.ones(4), outside).item() == 0.25


@pytest.mark.parametrize("uncertainty", [torch.ones(2, 2), torch.tensor(1.0), [0.1, 0.2]])
def test_anything_but_one_score_per_example_is_refused(uncertainty):
    with pytest.raises(ValueError, match=r"it takes one score per example \(n,\)"):
        ood_auroc(uncertainty, torch.tensor([True, False]))
