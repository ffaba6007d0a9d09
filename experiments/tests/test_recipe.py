"""Every recipe says what it should, and its cells have the settings it says."""

import pytest

from experiments import recipe as recipes
from experiments.keys import run_key, settled
from experiments.recipe import Recipe, read_recipe
from experiments.targets import WITH_RUNS
from graphdrop.config import Config


def test_every_target_has_the_papers_recipe_but_for_what_the_paper_does_not_have():
    missing = {target for target in WITH_RUNS if f"{target}-paper" not in recipes.names()}
    assert missing == {
        *("agree", "control", "trust", "calibration", "sets"),
        *("worth", "rivals", "splits", "ppnp", "grand", "gcnii"),
    }
    assert {"agree-tuned", "control-tuned"} <= set(recipes.names())


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_gives_runs_that_differ(name):
    recipe = read_recipe(name)
    for quick in (False, True):
        cells = recipe.cells(quick=quick)
        assert len(cells) == len(recipe.rows) * len(recipe.datasets) * len(recipe.layers)
        keys = [run_key(config) for cell in cells for config in cell.configs]
        assert len(set(keys)) == len(keys)
    target, _, _ = name.rpartition("-")
    few = {"amortised": 5, "general": 5, "ood": 3, "sets": 1, "ppnp": 20, "splits": 50} | (
        {"ood": 1} if recipe.left_out else {}
    )
    assert recipe.runs == few.get(target, 10)


def at(name: str, row: str, column: str, **options):
    cells = read_recipe(name).cells(**options)
    return next(c for c in cells if (c.row, c.column) == (row, column)).configs


@pytest.mark.parametrize(
    ("column", "l2", "warmup"),
    [("cora-2", 5e-3, 0), ("cora-4", 5e-3, 20), ("citeseer-4", 1e-2, 40), ("cora_ml-4", 1e-3, 20)],
)
def test_the_papers_recipe_is_what_the_paper_says(column, l2, warmup):
    for row in ("GCN-BBGDC", "GCN-BBDE"):
        config = at("table1-paper", row, column)[0]
        assert (config.objective.l2, config.objective.warmup) == (l2, warmup)
        assert (config.train.epochs, config.train.learning_rate) == (2000, 0.005)
        assert (config.model.hidden, config.predict.decision) == (128, "vote")


def test_every_run_on_cora_ml_has_its_own_split_and_all_methods_the_same():
    for row in ("GCN-DO", "GCN-BBGDC"):
        data = [config.data for config in at("table1-paper", row, "cora_ml-2")]
        assert [one.split_seed for one in data] == list(range(10))
        assert {one.split for one in data} == {"random-per-class"}
    assert {config.data.split for config in at("table1-paper", "GCN-DO", "cora-2")} == {"public"}


@pytest.mark.parametrize(
    ("name", "row", "column", "same_as"),
    [
        ("fig-pavpu-paper", "GCN-DO", "cora-4", "GCN-DO"),
        ("fig-pavpu-paper", "GCN-BBGDC", "cora-4", "GCN-BBGDC"),
        ("fig-depth-paper", "GCN-DE", "cora-2", "GCN-DE"),
        ("table3-paper", "2 blocks", "cora-4", "GCN-BBGDC"),
        ("local-paper", "global", "cora-4", "GCN-BBGDC"),
        ("ablation-paper", "as in the paper", "cora-4", "GCN-BBGDC"),
    ],
)
def test_targets_share_the_runs_of_table_1(name, row, column, same_as):
    for options in ({"quick": False, "runs": 2}, {"quick": True, "runs": 2}):
        assert at(name, row, column, **options) == at("table1-paper", same_as, column, **options)


def differing(one: Config, other: Config) -> set[str]:
    own, others = settled(one), settled(other)
    return {
        f"{section}.{name}"
        for section in ("data", "model", "objective", "train", "predict")
        for name in own[section] | others[section]
        if own[section].get(name) != others[section].get(name)
    }


@pytest.mark.parametrize("column", ["cora-2", "citeseer-2"])
def test_the_control_of_a_learned_rate_differs_in_the_rate_alone(column):
    learned = at("control-tuned", "GCN-BBDE, learned", column)
    assert learned == at("table1-tuned", "GCN-BBDE", column)
    for rate in (0.5, 0.2):
        fixed = at("control-tuned", f"fixed at {rate}", column)
        assert [config.seed for config in fixed] == [config.seed for config in learned]
        assert fixed[0].model.drop == rate
        assert differing(fixed[0], learned[0]) <= {"model.method", "model.drop"}


@pytest.mark.parametrize("column", ["cora-2", "citeseer-2", "cora_ml-2", "pubmed-2"])
def test_the_control_of_a_class_left_out_has_the_recipe_and_not_the_masks(column):
    control = at("ood-control", "softmax, recipe of GCN-BBGDC", column)[0]
    masks = {"mask", "symmetric", "dropout", "method"}
    assert differing(control, at("ood-control", "GCN-BBGDC", column)[0]) == {
        *(f"model.{name}" for name in masks),
        "objective.l2_factor",  # without learned rates there is no drawn one to multiply by
        "predict.masks",
        "predict.decision",
    }


RECIPE = {
    "title": "A table",
    "runs": 1,
    "first_seed": 5,
    "datasets": ["cora"],
    "layers": [2],
    "rows": [{"name": "wide", "method": "GCN-DO", "set": {"model": {"hidden": 7}}}],
    "rules": [
        {"set": {"model": {"hidden": 5, "dropout": 0.1}}},
        {"layers": [3], "set": {"model": {"dropout": 0.2}}},
        {"methods": ["GCN-DO"], "set": {"model": {"dropout": 0.3}}},
    ],
    "quick": {"runs": 2, "set": {"train": {"epochs": 3}}},
}


def test_later_settings_win():
    (cell,) = Recipe.model_validate(RECIPE).cells()
    (config,) = cell.configs
    assert (config.seed, config.model.hidden, config.model.dropout) == (5, 7, 0.3)
    (cell,) = Recipe.model_validate(RECIPE).cells(quick=True)
    assert [config.train.epochs for config in cell.configs] == [3, 3]


def test_cells_are_chosen_by_dataset_and_method():
    cells = read_recipe("table3-paper").cells()
    assert recipes.only(cells, [], ["GCN-BBGDC"]) == cells
    assert recipes.only(cells, ["citeseer"], []) == []
    chosen = recipes.only(read_recipe("table1-paper").cells(), ["cora"], ["GCN-DO", "GCN-DE"])
    assert {(c.row, c.column) for c in chosen} == {
        (row, column) for row in ("GCN-DO", "GCN-DE") for column in ("cora-2", "cora-4")
    }
    # a row of that name goes before all rows with the method
    both = Recipe.model_validate(RECIPE | {"rows": [{"name": "GCN-DO"}, *RECIPE["rows"]]}).cells()
    assert [cell.row for cell in recipes.only(both, [], ["GCN-DO"])] == ["GCN-DO"]
    assert [cell.row for cell in recipes.only(both[1:], [], ["GCN-DO"])] == ["wide"]


def test_a_recipe_with_a_misspelled_name_says_where(monkeypatch):
    monkeypatch.setattr(recipes, "_read", lambda name: RECIPE | {"seed": 1, "runs": 0})
    with pytest.raises(ValueError, match=r"recipe some\.toml is wrong in runs \(.*; seed \("):
        read_recipe("some")
