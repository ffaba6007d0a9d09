"""Arms beside what they are compared with: intervals, corrections, and the words of the pages."""

import hashlib

import numpy as np
import pytest
import torch

from experiments.comparisons import crossed, resampled_t
from experiments.contrasts import (
    ACCURACY,
    AURC,
    ECE,
    MEAN_PAVPU,
    NLL,
    PAVPU,
    Comparison,
    compare,
    corrected,
    runs_of,
)
from experiments.controlled import THRESHOLDS, certainties_of, outcome, outcomes_of
from experiments.factors import Arm, Factor
from experiments.keys import run_key
from experiments.recipe import read_recipe
from experiments.rivals_page import counts_beside, uncertainty
from experiments.target_runs import CellRuns, TargetRuns
from experiments.worth import worth
from experiments.worth_claims import CLAIMS, advice, sensitivity, words_of
from experiments.worth_page import Experiment, summary
from graphdrop.metrics import aurc, calibration_error, pavpu_curve

WORTH, RIVALS = read_recipe("worth-auto"), read_recipe("rivals-auto")
NODES, SEEDS = 60, range(510, 520)


def record(seed: int, skill: float, *, split: str = "one split", nodes: bool = True) -> dict:
    """A made-up record; with more skill the logit of the true class is higher."""
    labels = torch.arange(NODES) % 3
    logits = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(seed))
    logits[torch.arange(NODES), labels] += skill
    forecast = logits.softmax(1).double()
    nll = -forecast[torch.arange(NODES), labels].log().mean().item()
    found = {
        "validation": {"nll": nll},
        "test": {
            "accuracy": (forecast.argmax(1) == labels).double().mean().item(),
            "nll": nll,
            "ece": calibration_error(forecast, labels).item(),
            "aurc": aurc(forecast, labels).item(),
        },
        "pavpu_curve": pavpu_curve(forecast, labels, THRESHOLDS).pavpu.tolist(),
        "ece_floor": {"mean": 0.03},
        "noise_auroc": {"entropy": 0.7},
    }
    if nodes:
        found["outcomes"] = outcomes_of(forecast, labels) | certainties_of(forecast)
    run = {"seed": seed, "data": split, "tested": NODES, "fitted": 20, "cpu_seconds": 36.0}
    origin = {"versions": {"graphdrop": "0", "torch": "0"}, "config": {"data": {"dataset": "cora"}}}
    views = dict.fromkeys(("masks off", "expected masks", "100 samples"), found)
    return found | run | origin | {"views": views, "seconds": 6.0}


def records(skill: float, **options) -> list[dict]:
    return [record(seed, skill, **options) for seed in SEEDS]


def target_runs(name: str, runs: dict[tuple[str, str], list[dict]]) -> TargetRuns:
    recipe = WORTH if name == "worth" else RIVALS
    cells = [CellRuns(c, runs.get((c.row, c.dataset), []), 0) for c in recipe.cells()]
    return TargetRuns(name, recipe, "auto", False, cells)


def experiment(**skills: float) -> Experiment:
    """The controlled experiment with some rows on Cora; `_` stands for a space."""
    rows = {(name.replace("_", " "), "cora"): records(skill) for name, skill in skills.items()}
    return Experiment(target_runs("worth", rows))


def by_seed(runs: list[dict]) -> dict[int, dict]:
    return {run["seed"]: run for run in runs}


def test_one_split_is_compared_over_seeds_and_nodes():
    own, others = by_seed(records(3.0)), by_seed(records(1.0))
    one = Comparison(Arm(name="none"), "cora", own, others)
    table = [outcome(own[s], "accuracy") - outcome(others[s], "accuracy") for s in SEEDS]
    assert one.over == "seeds and nodes"
    assert one.difference(ACCURACY) == one.differences["accuracy"] == crossed(100 * np.stack(table))
    # PAvPU of all certainty is the accuracy, up to the digits of a record
    assert one.difference(PAVPU[-1]) == pytest.approx(one.difference(ACCURACY))
    for score in (NLL, ECE, AURC, MEAN_PAVPU):
        found = one.difference(score)
        assert found.mean == pytest.approx(np.mean(one.by_seed(score)), abs=1e-3)
        assert found.low < found.mean < found.high
    assert Comparison(one.arm, "cora", own, {510: others[510]}).differences == {}


def test_random_splits_have_the_corrected_t_and_only_the_same_split_is_compared():
    own, others = (
        {s: record(s, skill, split=f"split {s}", nodes=False) for s in SEEDS}
        for skill in (3.0, 1.0)
    )
    one = Comparison(Arm(name="none"), "cora_ml", own, others)
    values = [100 * (own[s]["test"]["ece"] - others[s]["test"]["ece"]) for s in SEEDS]
    assert one.over == "splits"
    assert one.difference(ECE) == pytest.approx(resampled_t(values, NODES, 20))
    with pytest.raises(ValueError, match=r"runs of seed 510 differ in their data: split 510 and"):
        Comparison(one.arm, "cora", own, by_seed(records(1.0))).pairs  # noqa: B018


def test_the_best_fixed_rate_is_that_of_each_seed_on_validation_nodes():
    rows = {"fixed at 0.2": (0.5, 0.1), "fixed at 0.5": (0.3, 0.4), "fixed at 0.8": (0.4, 0.3)}
    runs = {
        (row, "cora"): [
            record(seed, 1.0) | {"validation": {"nll": nll}}
            for seed, nll in zip((510, 511), nlls, strict=True)
        ]
        for row, nlls in rows.items()
    }
    best = runs_of(target_runs("worth", runs), Arm(name="best", best_of=list(rows)), "cora")
    assert {seed: seen["validation"]["nll"] for seed, seen in best.items()} == {510: 0.3, 511: 0.1}
    assert best[510]["cpu_seconds"] == 108.0


def test_views_are_read_from_the_runs_of_the_base():
    found = target_runs("worth", {("base", "cora"): records(1.0)})
    factor = next(f for f in WORTH.factors if f.name == "prediction")
    views = [one for one in compare(found, factor, "cora") if one.arm.name == "masks off"]
    assert [one.differences["nll"].mean for one in views] == [0.0]


def test_the_correction_counts_comparisons_that_are_not_made_yet():
    factor = Factor(name="f", title="", arms=[Arm(name="none"), Arm(name="node", primary=False)])
    own, others = by_seed(records(2.0)), by_seed(records(1.9))
    made = [Comparison(arm, "cora", own, others) for arm in factor.arms]
    found = corrected(made, factor, ["cora", "citeseer", "pubmed"])
    assert set(found) == {("none", "cora", "accuracy"), ("none", "cora", "nll")}
    p_value = made[0].differences["accuracy"].p_value
    assert found["none", "cora", "accuracy"] >= min(1.0, 5 * p_value)


def test_a_table_says_which_seeds_are_missing():
    runs = {("base", "cora"): records(2.0), ("none", "cora"): records(1.0)}
    rendered = worth(target_runs("worth", runs | {("node", "cora"): records(2.0)[:3]}))
    sharing = rendered.tables["worth-sharing"].to_markdown()
    assert sharing.count("p = ") == 2
    assert sharing.count("some seeds are missing") == 2
    assert "23 of 1500 planned runs, 0.23 core-hours" in sharing
    overview = rendered.tables["worth"].to_markdown()
    assert "| sharing: edge | not run |" in overview
    assert "| kl: KL weight 1 | the base |" in overview


def test_a_claim_holds_where_its_comparisons_are_beyond_chance_and_the_advice_says_so():
    fixed = {"fixed_at_0.2": 3.0, "fixed_at_0.5": 3.0, "fixed_at_0.8": 0.0}
    made = experiment(base=3.0, none=0.0, edge=3.0, edge_and_feature=0.0, **fixed)
    assert {one.name: words_of(made, one.name) for one in CLAIMS} == {
        "dropout": "holds: shown in 2 of 2 comparisons",
        "dropedge": "not shown in any of 2 comparisons",
        "fixed": "holds in part: shown in 2 of 6 comparisons",
        "best": "not shown in any of 2 comparisons",
        "arm": "not run yet",
        "blocks": "does not hold: the reverse is shown in 2 of 2 comparisons",
    }
    said = advice(made, target_runs("rivals", {}))
    assert "more blocks are better (2 of 2 comparisons, where the reverse is shown)" in said
    assert "- **Learned masks gain over Monte Carlo DropOut**" in said
    assert "; no difference shown in the other 4." in said
    page = summary(made)
    assert "**Worse, beyond chance:** DropOut alone (accuracy on Cora, NLL on Cora)" in page
    assert "- **Better, beyond chance:** nothing." in page


def test_verdicts_are_judged_again_with_other_statistics():
    rows = {("GCN", "cora"): records(3.0), ("GCNII", "cora"): records(0.0)}
    for row, skill in (("base", 3.0), ("none", 1.5)):
        rows[row, "cora_ml"] = [
            record(s, skill, split=f"split {s}", nodes=False) | {"tested": 100} for s in SEEDS
        ]
    made = Experiment(target_runs("worth", rows))
    _, _, planned, whole, simulated, shared = sensitivity(made).splitlines()
    assert "GCNII against GCN (accuracy on Cora, NLL on Cora)" in summary(made)
    assert planned.startswith("| nothing: as planned | ")
    assert whole.startswith("| Holm's correction over all 312 planned comparisons")
    # 100 of 2995 nodes are tested and 20 fitted: the planned interval is far wider
    assert "DropOut alone (accuracy on Cora-ML" in shared
    assert "Cora-ML" not in planned + simulated


def test_the_rivals_are_counted_by_graph_on_the_side_that_is_better_or_worse():
    skills = {"default": 3.0, "Monte Carlo DropOut": 1.0, "deep ensemble": 3.0}
    skills["five of the default"] = 5.0
    found = target_runs("rivals", {(row, "cora"): records(skill) for row, skill in skills.items()})
    said = uncertainty(found)
    assert said.startswith("40 of 160 planned runs are made, in 0.4 core-hours, on Cora; not run")
    assert "| calibrated NLL | default | Monte Carlo DropOut | 1 of 1 (Cora) | Cora " in said
    # the ensemble has the very outcomes of the default: at or better, and nothing excludes 0
    assert "| AURC | default | deep ensemble | 1 of 1 (Cora) | none | none |" in said
    dropout, ensemble, five = counts_beside(found)
    assert "better in 3 and worse in 0" in dropout
    assert ": no difference is shown in 4 comparisons" in ensemble
    assert "an ensemble of five default networks beside a deep" in five


def test_the_files_of_graphs_need_not_be_at_hand_to_find_their_runs(tmp_path):
    graph = tmp_path / "amazon_photo.npz"
    graph.write_bytes(b"a graph")
    own, name = (WORTH.cells(files=[one])[-1].configs[0] for one in (str(graph), "amazon_photo"))
    assert run_key(own) == run_key(name, checksum=hashlib.sha256(b"a graph").hexdigest())
