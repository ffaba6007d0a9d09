"""A key changes with everything that can change a result, and with nothing else."""

from typing import Any

import pytest

from experiments import keys, targets
from experiments.keys import run_key
from experiments.recipe import read_recipe
from experiments.store import Store
from graphdrop.config import Config, auto, settle


def paper(asked: dict[str, Any]) -> Config:
    return settle({"recipe": "paper"} | asked)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"data": {"dataset": "citeseer"}},
        {"data": {"split": "random-per-class"}},
        {"data": {"split_seed": 1}},
        {"model": {"blocks": 16}},
        {"model": {"rate_draw": "mask"}},
        {"objective": {"l2": 0.0}},
        {"objective": {"agree": 1.0}},
        {"train": {"passes": 2}},
        {"train": {"epochs": 1999}},
        {"train": {"samples": 19}},
        {"predict": {"decision": "mean"}},
    ],
)
def test_a_setting_that_can_change_the_result_changes_the_key(changed):
    assert run_key(paper(changed)) != run_key(paper({}))


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"root": "/some/where"}},
        {"data": {"dataset": "Cora"}},
        {"train": {"checkpoint_seconds": 1.0}},
        {"train": {"tensorboard": True}},
    ],
)
def test_a_setting_without_effect_on_the_result_does_not(changed):
    assert run_key(paper(changed)) == run_key(paper({}))


@pytest.mark.parametrize("recipe", ["paper", "auto"])
def test_the_usual_split_has_the_key_that_it_had_as_the_default(recipe):
    spelled_out = settle({"recipe": recipe, "data": {"split": "public"}})
    assert run_key(spelled_out) == run_key(settle({"recipe": recipe, "data": {}}))
    own = {"recipe": "paper", "data": {"dataset": "my.npz"}}
    assert run_key(settle(own)) != run_key(
        settle(own | {"data": own["data"] | {"split": "public"}})
    )


def test_watching_and_another_algorithm_are_other_runs(monkeypatch):
    plain = run_key(paper({}))
    assert run_key(paper({}), watch=True) != plain
    monkeypatch.setattr(keys, "ALGORITHM", keys.ALGORITHM + 1)
    assert run_key(paper({})) != plain


def test_a_file_counts_by_its_content(tmp_path):
    path = tmp_path / "graph.npz"
    config = paper({"data": {"dataset": str(path)}})
    found = set()
    for content in (b"one", b"two"):
        path.write_bytes(content)
        found.add(run_key(config))
    assert len(found) == 2


def test_with_the_recipe_auto_a_default_that_is_given_is_another_run():
    assert run_key(settle({"model": {"hidden": 128}})) != run_key(Config())
    assert run_key(settle({"objective": {"agree": 0.0}})) != run_key(Config())
    assert run_key(settle({"data": {"dataset": "Cora", "root": "/x"}})) == run_key(Config())
    assert run_key(Config()) != run_key(paper({}))


def test_runs_of_an_earlier_version_of_the_recipe_auto_are_found_and_not_mixed_with_new_ones(
    tmp_path,
):
    recipe = read_recipe("table1-auto")
    cell = recipe.cells(runs=1)[0]
    assert recipe.version != auto.VERSION
    assert cell.keys() == [run_key(cell.configs[0], auto_version=recipe.version)]
    assert cell.keys() != [run_key(cell.configs[0])]
    store = Store(tmp_path)
    request = targets.Request("auto", runs=1, out=tmp_path)

    def versions():
        return {one.version for one in targets.find_cells(recipe, store, request)}

    assert versions() == {auto.VERSION}, "a new folder takes the current version"
    store.append({"key": cell.keys()[0], "seed": cell.configs[0].seed})
    assert versions() == {recipe.version}
    with pytest.raises(ValueError, match="give --out another folder"):
        next(targets.reproduce(["table1"], request))
