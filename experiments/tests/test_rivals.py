"""``reproduce rivals``: what is said of the default beside its rivals is what records hold."""

import numpy as np
import pytest
import torch

from experiments.comparisons import crossed, resampled_t
from experiments.controlled import THRESHOLDS, certainties_of, outcome, outcomes_of
from experiments.recipe import read_recipe
from experiments.rivals import (
    ACCURACY,
    AURC,
    ECE,
    MEAN_PAVPU,
    NLL,
    PAVPU,
    comparisons,
    difference,
    rivals,
)
from experiments.rivals_page import counts_beside, goal_rows, pavpu_standing, uncertainty
from experiments.target_runs import CellRuns, TargetRuns
from graphdrop.metrics import aurc, calibration_error, pavpu_curve

RECIPE = read_recipe("rivals-auto")
NODES, SEEDS = 60, range(570, 580)
SKILL = {
    "default": 3.0,
    "Monte Carlo DropOut": 1.0,
    "deep ensemble": 3.0,
    "five of the default": 5.0,
}


def record(seed: int, skill: float, *, split: str = "one split", nodes: bool = True) -> dict:
    """A made-up record; with more skill the logit of the true class is higher."""
    labels = torch.arange(NODES) % 3
    logits = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(seed))
    logits[torch.arange(NODES), labels] += skill
    forecast = logits.softmax(1).double()
    outcomes = outcomes_of(forecast, labels) | certainties_of(forecast)
    return {
        "seed": seed,
        "data": split,
        "tested": NODES,
        "fitted": 20,
        "seconds": 1.0,
        "cpu_seconds": 36.0,
        "versions": {"graphdrop": "0", "torch": "0"},
        "config": {"data": {"dataset": "cora"}},
        "test": {
            "accuracy": (forecast.argmax(1) == labels).double().mean().item(),
            "nll": -forecast[torch.arange(NODES), labels].log().mean().item(),
            "ece": calibration_error(forecast, labels).item(),
            "aurc": aurc(forecast, labels).item(),
        },
        "pavpu_curve": pavpu_curve(forecast, labels, THRESHOLDS).pavpu.tolist(),
        "ece_floor": {"mean": 0.03},
        **({"outcomes": outcomes} if nodes else {}),
    }


def target_runs(*datasets: str, runs: int = 10) -> TargetRuns:
    """Runs of some graphs; Cora-ML has a split of its own for every seed."""

    def of(row: str, dataset: str) -> list[dict]:
        own = dataset == "cora_ml"
        return [
            record(seed, SKILL[row], split=f"{seed}" if own else "one split", nodes=not own)
            for seed in SEEDS[:runs]
        ]

    cells = [
        CellRuns(cell, of(cell.row, cell.dataset) if cell.dataset in datasets else [], 0)
        for cell in RECIPE.cells()
    ]
    return TargetRuns("rivals", RECIPE, "auto", False, cells)


def test_differences_are_the_default_minus_the_rival_over_seeds_and_nodes():
    first, *_ = comparisons(target_runs("cora"))
    assert (first.arm.name, first.over) == ("Monte Carlo DropOut", "seeds and nodes")
    pairs = [(first.runs[seed], first.others[seed]) for seed in SEEDS]
    table = [outcome(own, "accuracy") - outcome(other, "accuracy") for own, other in pairs]
    assert difference(first, ACCURACY) == crossed(100.0 * np.stack(table))
    # PAvPU of all certainty is the accuracy, up to the digits of a record.
    assert difference(first, PAVPU[-1]) == pytest.approx(difference(first, ACCURACY))
    for score in (NLL, ECE, AURC, MEAN_PAVPU):
        plain = np.mean([score.of(own) - score.of(other) for own, other in pairs])
        found = difference(first, score)
        assert found.mean == pytest.approx(plain, abs=1e-3)
        assert found.low < found.mean < found.high


def test_random_splits_have_the_corrected_t():
    first, *_ = comparisons(target_runs("cora_ml"))
    values = [ECE.of(first.runs[seed]) - ECE.of(first.others[seed]) for seed in SEEDS]
    assert difference(first, ECE) == resampled_t(values, NODES, 20)


def test_the_page_counts_graphs_and_names_differences_that_exclude_0():
    said = uncertainty(target_runs("cora", "cora_ml"))
    assert said.startswith(
        "80 of 160 planned runs are made, in 0.8 core-hours, on Cora and Cora-ML"
    )
    assert "; not run yet: Citeseer and PubMed. Of 84 intervals " in said
    nll = "| calibrated NLL | default | Monte Carlo DropOut | 2 of 2 (Cora, Cora-ML) | Cora "
    assert nll + "\N{MINUS SIGN}" in said
    # The ensemble has the very outcomes of the default: at or better, and nothing excludes 0.
    assert "| AURC | default | deep ensemble | 2 of 2 (Cora, Cora-ML) | none | none |" in said
    assert said.count("| Cora-ML, default minus ") == 2
    # Five of the default have a rival of their own, and every row is shown once.
    five = "| calibrated NLL | five of the default | deep ensemble | 2 of 2 (Cora, Cora-ML) | Cora "
    assert five in said
    assert said.count("| Cora-ML, five of the default minus deep ensemble |") == 1
    assert said.count("| Cora-ML, deep ensemble |") == 1
    goals = goal_rows(target_runs("cora", "cora_ml"))
    assert len(goals) == 12
    assert goals[0].endswith("| 4 | 2 of those run (Cora, Cora-ML) | no |")


def test_every_rival_has_a_line_of_advice_and_the_claim_on_pavpu_its_graphs():
    found = target_runs("cora", "cora_ml")
    dropout, ensemble, five = counts_beside(found)
    assert dropout.startswith(
        "- **Uncertainty of the default beside Monte Carlo DropOut**, calibrated alike: of 8"
    )
    assert "(NLL, ECE, AURC and mean PAvPU on Cora and Cora-ML) better in " in dropout
    assert "better in 0 and" not in dropout
    assert "after Holm's correction over them there remain NLL on Cora" in dropout
    assert ": no difference is shown in 8 comparisons (NLL, ECE, AURC and mean PAvPU" in ensemble
    assert five.startswith("- **Uncertainty of an ensemble of five default networks beside a deep")
    assert "better in 0" not in five
    assert pavpu_standing(found).startswith("in the mean at or above it at every threshold on ")
    assert pavpu_standing(found).endswith(" of 2 graphs (Cora, Cora-ML)")
    assert counts_beside(target_runs()) == []
    assert pavpu_standing(target_runs()) == "not run yet"


def test_worse_is_said_of_the_side_that_is_worse(monkeypatch):
    monkeypatch.setitem(SKILL, "default", 0.5)
    said = uncertainty(target_runs("cora"))
    assert "| calibrated NLL | default | deep ensemble | 0 of 1 | none | Cora +" in said
    pavpu = (
        "| PAvPU at every threshold from 0.5 to 1 | default | deep ensemble | 0 of 1 | none | Cora "
    )
    assert pavpu in said


def test_the_page_says_what_is_not_run():
    assert uncertainty(target_runs()) == "Not run yet: none of 160 planned runs is made."
    assert "no comparison has all its seeds yet" in uncertainty(target_runs("cora", runs=4))
    asked, reported = "| 4 | not run | no |", "| reported | not run |  |"
    assert all(row.endswith((asked, reported)) for row in goal_rows(target_runs()))


def test_the_tables_have_every_threshold_and_say_how_many_seeds_there_are():
    rendered = rivals(target_runs("cora", runs=4))
    scores = rendered.tables["rivals"].to_markdown()
    assert "| cora, deep ensemble |" in scores
    assert "16 of 160 runs, 0.16 core-hours" in scores
    by_threshold = rendered.tables["rivals-pavpu"]
    assert len(by_threshold.columns) == 11
    assert by_threshold.rows[0][0] == "cora, default minus Monte Carlo DropOut, 4 seeds"
    assert set(rendered.figures) == {"rivals", "rivals-pavpu"}
    assert rivals(target_runs()).figures == {}
