"""The runs of `worth`: arms differ in their factor alone, and a record holds what is compared."""

import numpy as np
import pytest

from experiments import recipe as recipes
from experiments.contrasts import seen_in
from experiments.controlled import Controlled, outcome
from experiments.factors import chosen
from experiments.keys import run_key
from experiments.measures import BINS
from experiments.recipe import read_recipe
from experiments.single_run import run_config
from experiments.store import RunLine
from experiments.targets import Request, reproduce
from graphdrop.config import Config
from graphdrop.config.auto import GraphTraits, choose
from graphdrop.config.recipes import merge_settings

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
    both = Config(**merge_settings(chosen, config.member_configs()[0].asked()))
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
        assert rival == [merge_settings(one, changed) for one in own]
        splits = [config.data.split_seed for config in cells[row, "cora_ml"]]
        assert splits == list(range(570, 580))
        assert not any(config.nodes or config.certainty for config in cells[row, "cora_ml"])
