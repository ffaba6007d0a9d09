"""Tables and figures show the runs that are there, beside the paper's figures."""

from __future__ import annotations

import pytest

from contracts.made_up_records import fill, found_in, record_of
from experiments import rendering
from experiments.keys import run_key
from experiments.measures import AXES
from experiments.recipe import read_recipe
from experiments.store import Store
from experiments.tables import MINUS
from experiments.target_runs import paper
from experiments.targets import WITH_RUNS, Request, reproduce, targets_of
from graphdrop.metrics import ThresholdAxis

OF_THE_PAPER = [target for target in targets_of("all", "paper") if target in WITH_RUNS]


@pytest.mark.parametrize("target", OF_THE_PAPER)
def test_every_target_renders_its_runs_and_marks_quick_ones(tmp_path, target):
    for quick in (False, True):
        request = Request(runs=2, render_only=True, out=tmp_path, quick=quick)
        fill(Store(request.folder), target, quick=quick)
        (done,) = reproduce([target], request)
        assert all(path.stat().st_size > 0 for path in done.paths)
        assert all(path.parent == request.folder / "paper" for path in done.paths)
        for table in done.rendering.tables.values():
            assert table.title.startswith("QUICK RUNS") == quick
            assert "no run yet" not in table.to_markdown()
        for figure in done.rendering.figures.values():
            titles = " ".join(axes.get_title(loc="left") for axes in figure.axes)
            assert ("quick run" in titles) == quick


@pytest.mark.parametrize("target", OF_THE_PAPER)
def test_every_target_renders_without_any_run(tmp_path, target):
    (done,) = reproduce([target], Request(render_only=True, out=tmp_path))
    assert not done.rendering.figures
    for table in done.rendering.tables.values():
        assert table.note == "No run yet."


def test_a_cell_of_table_1_stands_beside_the_papers(tmp_path):
    store = Store(tmp_path)
    for config in read_recipe("table1-paper").cells(runs=2)[0].configs:
        store.append(record_of(config, 0.80 + 0.01 * config.seed))
    table = rendering.accuracies(found_in(store, "table1")).tables["table1"]
    assert table.columns[0] == "cora, 2 layers"
    name, cells = table.rows[0]
    assert (name, cells[0]) == (
        "GCN-DO",
        ("80.50 ± 0.71", "95 % CI [74.15, 86.85], 2 seeds", f"paper 80.98 ± 0.48 ({MINUS}0.48)"),
    )
    assert cells[1] == ("no run yet", "paper 78.24 ± 2.40")
    assert "2 runs, seeds 0 to 1; data (sha256) cora 01234567" in table.note


def test_runs_that_diverged_are_counted_and_not_averaged(tmp_path):
    store = Store(tmp_path)
    first, second = read_recipe("table1-paper").cells(runs=2)[0].configs
    store.append(record_of(first, 0.8))
    store.append({"key": run_key(second), "seed": 1, "error": "diverged", "seconds": 1.0})
    table = rendering.accuracies(found_in(store, "table1")).tables["table1"]
    lines = table.rows[0][1][0]
    assert (lines[0], lines[-1]) == ("80.00", "1 diverged")


@pytest.mark.parametrize("axis", AXES)
def test_the_axis_of_thresholds_is_named_on_the_plot(tmp_path, axis):
    fill(Store(tmp_path), "fig-pavpu")
    drawn = rendering.uncertainty(found_in(Store(tmp_path), "fig-pavpu", axis=axis)).figures
    ((name, figure),) = drawn.items()
    label = {
        ThresholdAxis.LARGEST: "fraction of the largest entropy",
        ThresholdAxis.LOG_CLASSES: "fraction of log classes",
        ThresholdAxis.RANGE: "smallest to largest entropy",
    }[axis]
    assert label in figure.axes[0].get_xlabel()
    largest = axis is ThresholdAxis.LARGEST
    assert name == ("fig-pavpu" if largest else f"fig-pavpu-{axis.value}")
    assert figure.axes[0].lines[0].get_xdata()[0] == (0.5 if largest else 0.0)


def test_table_4_says_what_the_data_is_and_what_the_paper_prints(load_benchmark, monkeypatch):
    monkeypatch.setattr(rendering, "load_dataset", load_benchmark)
    load_benchmark("cora")
    known = {"table4": {"cora": paper()["table4"]["cora"]}}
    monkeypatch.setattr(rendering, "paper", lambda: known)
    ((name, cells),) = rendering.datasets().tables["table4"].rows
    assert name == "cora"
    assert cells == [
        ("7", "paper 7"),
        ("2,708", "paper 2,708"),
        ("5,278", "paper 5,429"),
        ("1,433", "paper 1,433"),
    ]


def test_total_variation_is_averaged_at_the_same_epoch_however_long_a_run_was(tmp_path):
    courses = [([10, 30, 50], [1.0, 3.0, 5.0]), ([10, 20], [2.0, 4.0])]  # by the run's seed
    store, recipe = Store(tmp_path), read_recipe("fig-tv-paper")
    for cell in recipe.cells(runs=2):
        for config in cell.configs:
            epochs, values = courses[config.seed]
            layers = [values] * (cell.layers - 1)
            course = {"total_variation": {"epochs": epochs, "layers": layers}}
            store.append(record_of(config, 0.7, watch=True) | course)
    figure = rendering.smoothing(found_in(store, "fig-tv")).figures["fig-tv"]
    drawn = figure.axes[0].lines[0].get_xydata().tolist()
    assert drawn == [[10, 1.5], [20, 3.0], [30, 3.0], [50, 5.0]]


def test_the_difference_to_dropout_is_between_runs_of_one_seed(tmp_path):
    store = Store(tmp_path)
    cells = {cell.name: cell for cell in read_recipe("table1-paper").cells(runs=3)}
    for row, accuracies in (("GCN-DO", [0.5, 0.6]), ("GCN-DE", [0.52, 0.64, 0.9])):
        configs = cells[f"cora, 2 layers, {row}"].configs
        for config, one in zip(configs, accuracies, strict=False):
            store.append(record_of(config, one))
    table = rendering.accuracies(found_in(store, "table1")).tables["table1-difference"]
    assert "3.00" in table.to_markdown()
    assert "2 seeds" in table.to_markdown()
