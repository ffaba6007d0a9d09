"""``reproduce worth``: arms differ in their factor alone, and tables say what records hold."""

import hashlib

import numpy as np
import pytest
import torch

from experiments import recipe as recipes
from experiments.comparisons import crossed, resampled_t
from experiments.controlled import THRESHOLDS, Controlled, outcome, outcomes_of
from experiments.factors import Arm, Factor, chosen
from experiments.keys import run_key, settled
from experiments.measures import BINS
from experiments.recipe import read_recipe
from experiments.single_run import run_config
from experiments.store import RunLine
from experiments.target_runs import CellRuns, TargetRuns
from experiments.targets import Request, reproduce
from experiments.worth import worth
from experiments.worth_advice import advice
from experiments.worth_claims import CLAIMS, claims, words_of
from experiments.worth_comparisons import (
    compared,
    comparison,
    corrected,
    runs_of,
    seen_in,
)
from experiments.worth_page import Made, summary
from experiments.worth_sensitivity import sensitivity
from graphdrop.config import Config
from graphdrop.config.auto import GraphTraits, choose
from graphdrop.config.recipes import merged

RECIPE = read_recipe("worth-auto")
CELLS = {(cell.row, cell.dataset): cell for cell in RECIPE.cells()}


def given(row: str, dataset: str = "cora") -> dict:
    """The settings of a row that the recipe names, but for what all rows share."""
    asked = CELLS[row, dataset].configs[0].asked()
    return {
        f"{section}.{name}": value
        for section in ("model", "objective", "train", "predict")
        for name, value in asked.get(section, {}).items()
    }


def test_all_arms_have_the_same_new_seeds_and_name_rows_that_there_are():
    for cell in CELLS.values():
        assert [config.seed for config in cell.configs] == list(range(510, 520))
    rows = {row.name for row in RECIPE.rows}
    for factor in RECIPE.factors:
        for arm in factor.arms:
            assert {*arm.rows, arm.against} <= rows
            assert arm.view in next(row.views for row in RECIPE.rows if row.name == arm.rows[0])
    assert {row for row in rows if any(f.needs(row, "cora") for f in RECIPE.factors)} == rows - {
        "KL weight 1"  # which is the base on Cora
    }


def test_an_arm_sets_what_its_name_says_and_nothing_else():
    base = {"model.method": "GCN-BBGDC"}
    assert given("base") == base
    assert given("edge and feature") == base | {"model.blocks": "feature"}
    assert given("edge") == {"model.method": "GCN-BBDE"}
    assert given("drawn per mask") == base | {"model.rate_draw": "mask"}
    assert given("KL weight 0") == base | {"objective.kl_weight": 0.0}
    for rate in (0.2, 0.5, 0.8):
        fixed = {"model.method": "GCN-GDC", "model.drop": rate, "model.symmetric": False}
        assert given(f"fixed at {rate}") == fixed
    gcn = given("GCN")
    for name in ("GAT", "SAGE", "GCNII", "APPNP"):
        one = given(name)
        assert one.pop("model.architecture") == name.lower()
        assert one | {"model.mask": "after"} == gcn  # layers of PyG have it so by themselves


LIKE_CORA = GraphTraits(2708, 10556, 1433, "words", 7, 140, 500, 0.15, 0.77, 70)
FREE = {"model.prior_alpha", "model.temperature"}
"""Settings that a network without learned rates does not read."""


def effective(row: str) -> dict:
    """All settings of a row that the recipe auto does not leave at their defaults."""
    config = CELLS[row, "cora"].configs[0]
    chosen = choose(config.model.method, config.model.architecture, LIKE_CORA, "smooth")
    both = Config(**merged(chosen, config.member_configs()[0].asked()))
    return {
        f"{section}.{name}": value
        for section in ("data", "model", "objective", "train", "predict")
        for name, value in getattr(both, section).model_dump(mode="json").items()
    }


@pytest.mark.parametrize(
    ("row", "against", "differs"),
    [
        ("none", "base", {"model.method", "predict.masks"} | FREE),
        ("node", "base", {"model.method"}),
        ("feature", "base", {"model.method"}),
        ("edge", "base", {"model.method"}),
        ("fixed at 0.5", "base", {"model.method", "predict.masks"} | FREE),
        ("learned, no prior", "base", {"model.method", "model.drop"}),
        ("ARM", "base", {"train.estimator", "predict.masks"}),
        ("masks after normalization", "base", {"model.mask"}),
        (
            "amortised per edge",
            "masks after normalization",
            {"model.method", "objective.kl_reduction"},
        ),
        ("GAT", "GCN", {"model.architecture"}),
        ("APPNP", "GCN", {"model.architecture"}),
        ("ensemble of 5", "base", set()),
    ],
)
def test_what_the_recipe_chooses_for_an_arm_differs_in_its_factor_alone(row, against, differs):
    one, other = effective(row), effective(against)
    assert {name for name in one if one[name] != other[name]} == differs


def test_primary_comparisons_are_as_many_as_were_planned():
    planned = {f.name: f.planned(RECIPE.graphs) for f in RECIPE.factors}
    assert planned == {
        "sharing": 60,
        "rate": 84,
        "estimator": 48,
        "kl": 24,
        "prediction": 48,
        "architecture": 48,
    }


def test_a_factor_runs_what_it_needs_and_another_name_is_refused(tmp_path):
    names = {f.name: f for f in RECIPE.factors}
    cells = recipes.needed(RECIPE.cells(), [names["kl"]])
    assert {cell.row for cell in cells} == {"base", "KL weight 0", "KL weight elbo"}
    assert {cell.row for cell in recipes.needed(RECIPE.cells(), [names["prediction"]])} == {
        "base",
        "ensemble of 5",
    }
    with pytest.raises(ValueError, match=r"--factor is 'x'; it takes one of sharing, rate, "):
        list(chosen(RECIPE.factors, ["x"]))
    request = Request(recipe="paper", factors=["kl"], render_only=True, out=tmp_path)
    with pytest.raises(ValueError, match=r"--factor is 'kl'; it takes no value with this target"):
        list(reproduce(["table1"], request))


@pytest.fixture(scope="module")
def line() -> dict:
    config = Controlled.model_validate(
        {
            "seed": 3,
            "recipe": "auto",
            "data": {"dataset": "synthetic"},
            "model": {"hidden": 8, "layers": 2},
            "train": {"epochs": 4, "evaluate_every": 2, "samples": 2},
            "views": "own,masks off",
            "members": 2,
            "nodes": True,
            "certainty": True,
        }
    )
    record = run_config(config)
    assert record["key"] == run_key(config)
    return record


def test_one_run_is_scored_in_every_way_of_predicting(line):
    RunLine.model_validate(line)
    assert (line["config"]["members"], line["config"]["model"]["blocks"]) == (2, 8)
    assert set(line["views"]) == {"masks off"}
    assert line["cpu_seconds"] > 0.0
    own, off = seen_in(line), seen_in(line, "masks off")
    assert "error_auroc_mutual_information" in own["test"]
    assert own["test"]["nll"] != off["test"]["nll"]
    assert "error_auroc_mutual_information" in off["test"]  # of two networks
    for seen in (own, off):
        right, nll = (outcome(seen, score) for score in ("accuracy", "nll"))
        assert len(right) == len(nll) == line["tested"]
        assert right.mean() == pytest.approx(seen["test"]["accuracy"], abs=1e-5)
        assert nll.mean() == pytest.approx(seen["test"]["nll"], abs=1e-3)
        assert 0.0 < seen["ece_floor"]["mean"] < seen["ece_floor"]["high"]
        assert 0.0 <= seen["noise_auroc"]["entropy"] <= 1.0


def test_pavpu_is_kept_from_half_of_the_largest_entropy_to_all_of_it(line):
    seen = seen_in(line)
    assert len(seen["pavpu_curve"]) == len(THRESHOLDS) == 11
    assert seen["pavpu_curve"][0] == seen["test"]["pavpu"]
    assert seen["pavpu_curve"][-1] == pytest.approx(seen["test"]["accuracy"], abs=1e-5)


def test_what_is_kept_at_every_node_gives_the_scores_again(line):
    seen = seen_in(line)
    right, doubt, entropy = (outcome(seen, name) for name in ("accuracy", "doubt", "entropy"))
    certain = entropy <= 0.5 * entropy.max()
    assert (certain == (right == 1.0)).mean() == pytest.approx(seen["test"]["pavpu"], abs=0.005)
    bins = np.ceil(BINS * (1.0 - doubt))
    gaps = [(right - 1.0 + doubt)[bins == one].sum() for one in range(1, BINS + 1)]
    assert np.abs(gaps).sum() / len(right) == pytest.approx(seen["test"]["ece"], abs=0.005)
    risk = np.cumsum(1.0 - right[entropy.argsort()]) / np.arange(1, len(right) + 1)
    assert risk.mean() == pytest.approx(seen["test"]["aurc"], abs=0.005)


def test_the_rivals_have_the_settings_of_the_default_but_for_method_and_prediction():
    recipe = read_recipe("rivals-auto")
    cells = {(cell.row, cell.dataset): cell.configs for cell in recipe.cells()}
    own = [config.asked() for config in cells["default", "cora"]]
    assert [one["seed"] for one in own] == list(range(570, 580))
    assert all(one["certainty"] and one["nodes"] for one in own)
    for row, masks, members in (("Monte Carlo DropOut", "hard", 1), ("deep ensemble", "off", 5)):
        rival = [config.asked() for config in cells[row, "cora"]]
        changed = {"model": {"method": "GCN-DO"}, "predict": {"masks": masks}, "members": members}
        assert rival == [merged(one, changed) for one in own]
        splits = [config.data.split_seed for config in cells[row, "cora_ml"]]
        assert splits == list(range(570, 580))
        assert not any(config.nodes or config.certainty for config in cells[row, "cora_ml"])


def test_what_a_run_keeps_apart_is_part_of_its_key():
    base = CELLS["base", "cora"].configs[0]
    plain = base.member_configs()[0]
    assert plain.asked() == {n: v for n, v in base.asked().items() if n not in _KEPT}
    other = base.model_copy(update={"nodes": False})
    assert len({run_key(one) for one in (base, plain, other)}) == 3
    assert settled(plain)["model"]["orders"] == 8


_KEPT = ("views", "members", "nodes")
NODES = 40


def record(seed: int, right: float, *, data: str = "one split", nodes: bool = True) -> dict:
    """A made-up record; `right` is the share of nodes that are predicted correctly."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (NODES,), generator=draw)
    forecast = torch.full((NODES, 3), 0.1)
    hit = torch.rand(NODES, generator=draw) < right
    forecast[torch.arange(NODES), torch.where(hit, labels, (labels + 1) % 3)] = 0.8
    nll = -forecast[torch.arange(NODES), labels].log().mean().item()
    test = {"accuracy": hit.double().mean().item(), "nll": nll, "ece": 0.1, "aurc": 0.07}
    found = {
        "validation": {"nll": 1.0 - right},
        "test": test,
        "ece_floor": {"mean": 0.03, "high": 0.05},
        "noise_auroc": {"entropy": 0.7},
        **({"outcomes": outcomes_of(forecast, labels)} if nodes else {}),
    }
    run = {"seed": seed, "data": data, "tested": NODES, "fitted": 20, "seconds": 6.0}
    versions = {"graphdrop": "0", "torch": "0"}
    config = {"data": {"dataset": "cora"}}
    views = dict.fromkeys(("masks off", "expected masks", "100 samples"), found)
    return {**found, **run, "views": views, "cpu_seconds": 36.0, "versions": versions} | {
        "config": config
    }


def target_runs(records: dict[tuple[str, str], list[dict]]) -> TargetRuns:
    cells = [CellRuns(cell, records.get(place, []), 0) for place, cell in CELLS.items()]
    return TargetRuns("worth", RECIPE, "auto", False, cells)


def test_one_split_is_compared_over_seeds_and_nodes_and_several_by_the_corrected_t():
    arm = Arm(name="none")
    own, others = ({seed: record(seed, share) for seed in range(4)} for share in (0.8, 0.6))
    found = comparison(arm, "cora", own, others)
    table = [outcome(own[s], "accuracy") - outcome(others[s], "accuracy") for s in range(4)]
    assert found.over == "seeds and nodes"
    assert found.differences["accuracy"] == crossed(100.0 * np.stack(table))
    splits = [
        {s: record(s, share, data=f"split {s}", nodes=False) for s in range(4)}
        for share in (0.8, 0.6)
    ]
    found = comparison(arm, "cora_ml", *splits)
    values = [splits[0][s]["test"]["nll"] - splits[1][s]["test"]["nll"] for s in range(4)]
    assert found.over == "splits"
    assert found.differences["nll"] == pytest.approx(resampled_t(values, NODES, 20))
    assert comparison(arm, "cora", own, {0: others[0]}).differences == {}
    with pytest.raises(ValueError, match=r"runs of seed 0 differ in their data: one split and"):
        comparison(arm, "cora", own, splits[0])


def test_the_best_fixed_rate_is_that_of_each_seed_on_validation_nodes():
    rows = {"fixed at 0.2": (0.5, 0.9), "fixed at 0.5": (0.7, 0.6), "fixed at 0.8": (0.6, 0.7)}
    found = target_runs(
        {
            (row, "cora"): [record(seed, share) for seed, share in enumerate(shares)]
            for row, shares in rows.items()
        }
    )
    arm = Arm(name="best", best_of=list(rows))
    best = runs_of(found, arm, "cora")
    assert {seed: seen["validation"]["nll"] for seed, seen in best.items()} == pytest.approx(
        {0: 0.3, 1: 0.1}
    )
    assert best[0]["cpu_seconds"] == 108.0


def test_the_correction_counts_comparisons_that_are_not_made_yet():
    factor = Factor(name="f", title="", arms=[Arm(name="none"), Arm(name="node", primary=False)])
    runs = {seed: record(seed, 0.9) for seed in range(4)}
    others = {seed: record(seed + 50, 0.5) | {"seed": seed} for seed in range(4)}
    made = [comparison(arm, "cora", runs, others) for arm in factor.arms]
    p_value = made[0].differences["accuracy"].p_value
    found = corrected(made, factor, ["cora", "citeseer", "pubmed"])
    assert set(found) == {("none", "cora", "accuracy"), ("none", "cora", "nll")}
    assert found["none", "cora", "accuracy"] >= min(1.0, 5 * p_value)


def test_the_tables_and_the_figure_of_some_runs_say_what_is_missing():
    seeds = range(510, 520)
    base, none = ([record(seed, share) for seed in seeds] for share in (0.7, 0.6))
    node = [record(seed, 0.7) for seed in seeds[:3]]
    found = target_runs({("base", "cora"): base, ("none", "cora"): none, ("node", "cora"): node})
    rendered = worth(found)
    assert set(rendered.tables) == {"worth", *(f"worth-{f.name}" for f in RECIPE.factors)}
    sharing = rendered.tables["worth-sharing"].to_markdown()
    assert "| cora, base |" in sharing
    assert "over seeds and test nodes" in sharing
    assert sharing.count("p = ") == 2
    assert sharing.count("some seeds are missing") == 2
    assert "citeseer" not in sharing
    assert "0.23 core-hours" in sharing
    assert "23 of 1500 planned runs" in sharing
    overview = rendered.tables["worth"].to_markdown()
    assert "| sharing: edge | not run |" in overview
    assert "| kl: KL weight 1 | the base |" in overview
    assert overview.count("some seeds are missing") == 1
    (figure,) = rendered.figures.values()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:2] == [
        "sharing: none",
        "sharing: node\nsome seeds are missing: cora",
    ]
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "accuracy (points), difference",
        "calibrated NLL, difference",
    ]
    assert worth(target_runs({})).figures == {}


def test_the_page_says_better_or_worse_only_of_what_is_beyond_chance_after_the_correction():
    seeds = range(510, 520)
    base, worse, same = ([record(seed, share) for seed in seeds] for share in (0.9, 0.3, 0.9))
    found = target_runs({("base", "cora"): base, ("none", "cora"): worse, ("edge", "cora"): same})
    said = summary(Made(found))
    assert "30 of 1500 planned runs are made, in 0.3 core-hours." in said
    assert "beyond chance:** DropOut alone (accuracy on Cora, NLL on Cora)." in said
    assert "- **Better, beyond chance:** nothing." in said
    assert "| A draw per edge and block | one draw per edge | 2 | 0 | 0 | +0.00 |" in said
    assert "worse than the default: DropOut alone on Cora, accuracy \N{MINUS SIGN}" in said
    assert "**The KL term.** With another weight: no comparison is made yet." in said
    unfinished = target_runs({("base", "cora"): base, ("none", "cora"): worse[:9]})
    assert "Of 312 planned comparisons 6 have all their seeds" in summary(Made(unfinished))


def test_a_claim_holds_where_its_comparisons_are_beyond_chance_and_the_advice_says_so():
    seeds = range(510, 520)
    base, worse, same = ([record(seed, share) for seed in seeds] for share in (0.9, 0.3, 0.9))
    rows = {"base": base, "none": worse, "edge": same, "edge and feature": worse}
    rows |= {"fixed at 0.2": same, "fixed at 0.5": same, "fixed at 0.8": worse}
    made = Made(target_runs({(row, "cora"): runs for row, runs in rows.items()}))
    words = {one.name: words_of(made, one.name) for one in CLAIMS}
    assert words == {
        "dropout": "holds: shown in 2 of 2 comparisons",
        "dropedge": "not shown in any of 2 comparisons",
        "fixed": "holds in part: shown in 2 of 6 comparisons",
        "best": "not shown in any of 2 comparisons",
        "arm": "not run yet",
        "blocks": "does not hold: the reverse is shown in 2 of 2 comparisons",
    }
    said = advice(made)
    first, *bullets = said.splitlines()
    assert first == (
        "**What holds:** learned Graph DropConnect beats DropOut; "
        "in part, learned rates beat fixed ones (2 of 6 comparisons). "
        "**What does not:** more blocks are better (2 of 2 comparisons, where the reverse is "
        "shown). **What is not shown:** Graph DropConnect beats DropEdge; learned rates beat the "
        "best fixed one. **Not run yet:** ARM beats concrete."
    )
    assert bullets[1].startswith("- **Learned masks gain over Monte Carlo DropOut**")
    (same_rate,) = (line for line in bullets if line.startswith("- **A learned rate is not told"))
    assert same_rate.endswith(
        "on Cora (accuracy: intervals within [+0.00, +0.00] points and NLL: "
        "intervals within [+0.0000, +0.0000])."
    )
    (cost,) = (line for line in bullets if line.startswith("- **A rate chosen badly can cost**"))
    assert cost.endswith("; no difference shown in the other 4.")
    assert "| more blocks are better | a draw per edge and feature | does not hold:" in claims(made)
    assert advice(Made(target_runs({}))) == "No comparison is made yet."


def test_verdicts_are_judged_again_with_other_statistics_and_an_arm_names_its_own_rival():
    seeds = range(510, 520)
    base, worse = ([record(seed, share) for seed in seeds] for share in (0.9, 0.3))
    splits = {
        row: [record(s, share, data=f"split {s}", nodes=False) | {"tested": 100} for s in seeds]
        for row, share in (("base", 0.9), ("none", 0.5))
    }
    rows = {("base", "cora"): base, ("GCN", "cora"): base, ("GCNII", "cora"): worse}
    made = Made(target_runs(rows | {(row, "cora_ml"): runs for row, runs in splits.items()}))
    places = "GCNII against GCN (accuracy on Cora, NLL on Cora)"
    assert f"- **Worse, beyond chance:** {places}." in summary(made)
    _, _, planned, *changed = sensitivity(made).splitlines()
    assert planned == "| nothing: as planned | 2 of 16 | | |"
    whole, simulated, shared = changed
    assert whole.startswith("| Holm's correction over all 312 planned comparisons")
    assert whole.endswith("| 2 of 16 | nothing | nothing |")
    assert simulated.endswith("| 2 of 16 | nothing | nothing |")
    # 100 of 2995 nodes are tested and 20 fitted: the planned interval is far wider
    assert "| nothing | DropOut alone (accuracy on Cora-ML" in shared
    assert sensitivity(Made(target_runs({}))) == "No comparison is made yet."


def test_many_differences_beyond_chance_are_put_together_by_arm_and_score():
    seeds = range(510, 520)
    base, worse = ([record(seed, share) for seed in seeds] for share in (0.9, 0.3))
    graphs = ("cora", "citeseer")
    rows = {(row, one): runs for row, runs in (("base", base), ("none", worse)) for one in graphs}
    made = Made(target_runs(rows))
    (bullet,) = (one for one in advice(made).splitlines() if "gain over Monte Carlo" in one)
    assert "DropOut alone, accuracy \N{MINUS SIGN}" in bullet
    assert bullet.endswith("on Cora and Citeseer; each p < 0.05.")
    assert "[" not in bullet


def test_the_files_of_graphs_need_not_be_at_hand_to_find_their_runs(tmp_path):
    graph = tmp_path / "amazon_photo.npz"
    graph.write_bytes(b"a graph")
    own, name = (RECIPE.cells(files=[one])[-1].configs[0] for one in (str(graph), "amazon_photo"))
    checksum = hashlib.sha256(b"a graph").hexdigest()
    assert run_key(own) == run_key(name, checksum=checksum)


def test_views_are_read_from_the_runs_of_the_base():
    base = [record(seed, 0.7) for seed in range(3)]
    found = target_runs({("base", "cora"): base})
    factor = next(f for f in RECIPE.factors if f.name == "prediction")
    arms = [arm for arm in factor.arms if arm.name == "masks off"]
    (one,) = compared(found, factor.model_copy(update={"arms": arms}), "cora")
    assert one.differences["nll"].mean == 0.0
