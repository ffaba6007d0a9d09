"""`graphdrop train`, `evaluate` and `predict` go from a graph to figures and a file, and back."""

import csv
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet

from graphdrop import config, load_dataset
from graphdrop.calibration.refusal import find_trusted
from graphdrop.cli import main
from graphdrop.cli.sheet import shown
from graphdrop.config import toml
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.inference import predict
from graphdrop.train import load
from graphdrop.train.opening import open_run

SMALL = ["--epochs", "4", "--set", "model.hidden=8", "--set", "train.evaluate_every=2"]
SMALL += ["--set", "predict.samples=3", "--set", "train.samples=2", "--recipe", "paper"]
SHOWN = ("accuracy", "nll", "ece", "pavpu", "aurc", "balanced_accuracy", "macro_f1")


def write_graph(path: Path, seed: int = 0) -> Path:
    """A graph of 80 nodes as a user has it: no split is stored."""
    data = synthetic_graph(80, 3, num_features=30, words_per_node=6.0, seed=seed).data
    edges, x = data.edge_index.T.numpy(), data.x.numpy()
    np.savez(path, node_features=x, node_labels=data.y.numpy(), edges=edges, **masks())
    return path


def masks() -> dict[str, np.ndarray]:
    part = np.arange(80) % 4
    return {f"{name}_masks": (part == n)[None] for n, name in enumerate(("train", "val", "test"))}


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> Path:
    return write_graph(tmp_path_factory.mktemp("data") / "mine.npz")


@pytest.fixture(scope="module")
def trained(graph, tmp_path_factory) -> Path:
    """The folder of a finished run; do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--dataset", str(graph), *SMALL, "--layers", "3", "--out", str(folder)])
    assert stopped.value.code == 0
    return folder


def figures(out: str) -> dict[str, list[float]]:
    """The rows of a printed table by their name."""
    rows = re.findall(r"^ +(\w+)((?: +[\d.]+)+) *$", out, flags=re.MULTILINE)
    return {name: [float(number) for number in numbers.split()] for name, numbers in rows}


def test_training_prints_its_figures_and_writes_its_folder(run, graph, tmp_path):
    out = tmp_path / "runs" / "a"
    words = ["--method", "GCN-BBGDC", "--layers", "3", "--seed", "1"]
    code, printed, _ = run("train", "--dataset", graph, *words, *SMALL, "--out", out)
    assert code == 0
    assert "mine, GCN-BBGDC, 3 layers, seed 1" in printed
    assert re.search(r"accuracy +NLL +ECE +PAvPU +AURC +balanced accuracy +macro F1", printed)
    assert "PAvPU: certain up to 0.5 of the largest entropy." in printed
    result = json.loads((out / "result.json").read_text())
    for part in ("validation", "test"):
        scores = [result[part][name] for name in SHOWN]
        assert figures(printed)[part] == pytest.approx(scores, abs=6e-5)
    for number, rate in enumerate(result["drop_rates"], 1):
        assert figures(printed)[str(number)] == pytest.approx([rate], abs=6e-5)
    assert len(result["drop_rates"]) == 3
    assert result["config"]["seed"] == result["seed"] == 1
    assert result["data"]["files"].keys() == {"mine.npz"}
    assert f"Everything is in {out}." in printed


def test_evaluating_a_run_gives_the_figures_that_training_gave(run, trained):
    code, printed, _ = run("evaluate", trained)
    assert code == 0
    result = json.loads((trained / "result.json").read_text())
    for part in ("validation", "test"):
        scores = [result[part][name] for name in SHOWN]
        assert figures(printed)[part] == pytest.approx(scores, abs=6e-5)
    assert f"The state after epoch {result['selected_epoch']}, selected" in printed
    assert "not finished" not in printed


def test_evaluating_prints_the_validation_scores_out_of_fold_that_training_printed(
    run, graph, tmp_path
):
    def row(printed: str, name: str) -> str:
        return re.search(rf"^ +{name}  .*$", printed, flags=re.MULTILINE)[0].strip()

    out = tmp_path / "a"
    words = [*SMALL, "--set", "predict.calibration=temperature", "--out", out]
    _, trained, said = run("train", "--dataset", graph, *words)
    _, printed, _ = run("evaluate", out)
    for name in ("validation, out of fold", "test", "validation, uncalibrated"):
        assert row(printed, name) == row(trained, name), said
    _, printed, _ = run("evaluate", out, "--samples", "5")
    assert row(printed, "validation, in sample") != row(trained, "validation, out of fold")


def test_another_graph_is_scored_by_the_masks_that_it_stores(run, graph, tmp_path):
    out, other = tmp_path / "a", write_graph(tmp_path / "other.npz", seed=1)
    run("train", "--dataset", graph, *SMALL, "--split", "random-fractions", "--out", out)
    own = load_dataset(other)
    assert own.split.name == "public"
    opened = open_run(out, other)
    assert not opened.same
    assert torch.equal(opened.data.test_mask, own.split.test)
    assert open_run(out, graph).same


def test_more_samples_can_be_asked_for(run, trained):
    _, few, _ = run("evaluate", trained)
    code, many, _ = run("evaluate", trained, "--samples", "30")
    assert code == 0
    assert figures(few)["test"] != figures(many)["test"]
    assert "30 Monte Carlo samples: the standard error of a probability is at most 0." in many


def test_predictions_are_written_for_every_node(run, trained, graph, tmp_path):
    output = tmp_path / "predictions.csv"
    code, printed, _ = run("predict", trained, "-o", output)
    assert code == 0
    assert "Wrote 80 nodes" in printed
    with output.open() as stream:
        rows = list(csv.DictReader(stream))
    probability = [f"probability_{number}" for number in range(3)]
    known = ["id", "predicted", "probability", "standard_error", "set_90", "entropy", "trust"]
    errors = [f"standard_error_{number}" for number in range(3)]
    of_classes = [name for pair in zip(probability, errors, strict=True) for name in pair]
    assert list(rows[0]) == [*known, "label", "split", "mutual_information", *of_classes]
    assert [int(row["id"]) for row in rows] == list(range(80))
    # The file has what anybody gets from the saved network.
    data = load_dataset(graph).data
    direct = predict(load(trained), data, 3, seed=0, temperature=0.67)
    written = torch.tensor([[float(row[name]) for name in probability] for row in rows])
    assert torch.allclose(written, direct.probabilities, rtol=0, atol=1e-7)
    stated = torch.tensor([[float(row[name]) for name in errors] for row in rows])
    assert torch.allclose(stated, direct.standard_error, rtol=0, atol=1e-7)
    near = int(direct.near_another_class.sum())
    assert f"{near} nodes lie within two standard errors of another class" in printed
    assert [int(row["predicted"]) for row in rows] == direct.vote.tolist()
    for column, expected in (("entropy", direct.entropy), ("mutual_information", direct.epistemic)):
        found = torch.tensor([float(row[column]) for row in rows])
        assert torch.allclose(found, expected, rtol=0, atol=1e-7)
    assert [int(row["label"]) for row in rows] == data.y.tolist()
    assert [row["split"] == "test" for row in rows] == data.test_mask.tolist()
    trust = find_trusted(direct, 0.9)
    assert [row["trust"] == "yes" for row in rows] == trust.trusted.tolist()
    assert f"{int(trust.trusted.sum())} to trust" in printed
    assert "approximate" in printed
    members = torch.zeros(80, 3, dtype=torch.bool)
    for node, row in enumerate(rows):
        members[node, [int(label) for label in row["set_90"].split("|")]] = True
    sets = direct.sets(0.9).members
    assert torch.equal(members, sets)


def test_parquet_holds_what_csv_holds(run, trained, tmp_path):
    for name in ("predictions.csv", "predictions.parquet"):
        assert run("predict", trained, "-o", tmp_path / name)[0] == 0
    table = parquet.read_table(tmp_path / "predictions.parquet").to_pylist()
    with (tmp_path / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [list(row) for row in table] == [list(row) for row in rows]
    for one, other in zip(table, rows, strict=True):
        # Nine decimals in the text, sixteen digits in the table.
        assert list(other.values()) == [shown(value) for value in one.values()]


def test_a_run_goes_on_with_nothing_but_its_folder(run, graph, tmp_path):
    out = tmp_path / "run"
    first = run("train", "--dataset", graph, *SMALL, "--out", out)[1]
    code, again, _ = run("train", "--out", out, "--resume")
    assert code == 0
    assert figures(again) == figures(first)
    code, _, error = run("train", "--out", out, "--resume", "--layers", "4")
    assert code == 2
    assert "has a run with another model.layers" in error


def test_settings_come_from_the_file_then_from_set_then_from_options(run, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('seed = 1\n[model]\nlayers = 5\nhidden = 16\nmethod = "GCN-DE"\n')
    words = ["--config", file, "--set", "model.hidden=32", "--set", "model.layers=6"]
    words += ["--recipe", "paper"]
    code, printed, _ = run("train", *words, "--layers", "7", "--show-config")
    assert code == 0
    chosen = config.settle(tomllib.loads(printed))
    assert (chosen.seed, chosen.model.hidden, chosen.model.layers) == (1, 32, 7)
    assert chosen == config.settle(
        {"seed": 1, "recipe": "paper", "model": {"method": "GCN-DE", "layers": 7, "hidden": 32}}
    )


def test_a_path_stays_right_when_the_command_is_run_from_elsewhere(
    run, graph, tmp_path, monkeypatch
):
    monkeypatch.chdir(graph.parent)
    out = tmp_path / "run"
    assert run("train", "--dataset", graph.name, *SMALL, "--out", out)[0] == 0
    monkeypatch.chdir(tmp_path)
    assert run("evaluate", out)[0] == 0


def test_data_that_has_changed_since_is_refused(run, tmp_path):
    graph, out = write_graph(tmp_path / "mine.npz"), tmp_path / "run"
    assert run("train", "--dataset", graph, *SMALL, "--out", out)[0] == 0
    write_graph(graph, seed=1)
    for words in (["evaluate", out], ["predict", out, "-o", tmp_path / "p.csv"]):
        code, _, error = run(*words)
        assert code == 2
        assert "is no longer the data that" in error
    code, _, error = run("train", "--out", out, "--resume")
    assert code == 2
    assert "was trained on other data" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "GDB"], "model.method is 'GDB'; it takes one of GCN, GCN-DO"),
        (
            ["--method", "GAT-BBGDC", "--architecture", "sage"],
            'model.method is "GAT-BBGDC" and model.architecture "sage": they name two',
        ),
        (["--config", "absent.toml"], "absent.toml cannot be read"),
        (["--dataset", "croa"], "Did you mean 'cora'?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, tmp_path, words, message):
    code, _, error = run("train", *words, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [["evaluate"], ["predict", "-o", "p.csv"]])
def test_a_folder_without_a_run_is_named(run, tmp_path, words):
    code, _, error = run(*words, tmp_path)
    assert code == 2
    assert "has no config.toml: give the folder of a run" in error


def test_a_diverging_run_ends_with_one_line_and_exit_code_2(run, graph, tmp_path):
    words = ["--set", "train.learning_rate=1e38", "--out", tmp_path / "run"]
    code, _, error = run("train", "--dataset", graph, *SMALL, *words)
    assert code == 2
    assert "training diverged in epoch" in error
    assert "What to try: lower train.learning_rate" in error


def test_help_explains_every_setting(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, printed, _ = run("train", "--help-all")
    assert code == 0
    words = " ".join(printed.split())
    for setting in toml.explained():
        explained = setting.description.replace("`", "")
        assert f"{setting.key} ({setting.default}): {explained}" in words
    for option in ("--out", "--config", "--set", "--resume", "--dataset", "--method"):
        assert option in words


def test_without_a_terminal_a_short_run_says_nothing_but_its_result(run, graph, tmp_path):
    _, printed, error = run("train", "--dataset", graph, *SMALL, "--out", tmp_path / "run")
    assert error == ""
    assert "\x1b" not in printed
