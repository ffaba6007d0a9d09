"""From a table of house prices to values with intervals, by the command alone."""

import csv
import json
import runpy
from pathlib import Path

import pytest

from graphdrop import load_tables
from graphdrop.cli import main
from graphdrop.report import report
from graphdrop.report.card import model_card

EXAMPLE = Path(__file__).parents[1] / "examples" / "data"
HOUSES = ["--nodes", EXAMPLE / "houses" / "nodes.csv", "--label", "price"]
FEW = ["--epochs", "30", "--set", "model.hidden=16", "--set", "model.layers=2"]
FEW += ["--set", "predict.samples=5", "--set", "train.samples=3"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a finished run; do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "houses"
    words = ["train", *HOUSES, *FEW, "--out", folder, "--quiet"]
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert stopped.value.code == 0
    return folder


def test_the_houses_in_the_repository_are_what_their_script_makes():
    made = runpy.run_path(str(EXAMPLE / "make_houses.py"))["house_files"]()
    folder = EXAMPLE / "houses"
    assert made == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sum(map(len, made.values())) < 300_000


def test_prices_become_values_with_intervals_that_hold(run, trained, tmp_path):
    code, printed, _ = run("predict", trained, "-o", tmp_path / "a.csv")
    assert code == 0
    assert "the standard error of a value is at most" in printed
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "id",
        "value",
        "low",
        "high",
        "trust",
        "label",
        "split",
        "deviation",
        "doubt",
        "standard_error",
    ]
    assert len(rows) == 2500
    assert all(float(row["low"]) < float(row["value"]) < float(row["high"]) for row in rows)
    unknown = [row for row in rows if not row["label"]]
    assert len(unknown) == 276
    assert not any(row["split"] for row in unknown)
    tested = [row for row in rows if row["split"] == "test"]
    held = [float(row["low"]) <= float(row["label"]) <= float(row["high"]) for row in tested]
    assert 0.84 <= sum(held) / len(held) <= 0.97
    trusted = sum(row["trust"] == "yes" for row in tested) / len(tested)
    assert 0.82 <= trusted <= 0.97


def test_scores_are_in_euros_beside_what_the_mean_would_reach(run, trained):
    code, printed, _ = run("evaluate", trained, "--json")
    found = json.loads(printed)
    assert code == 0
    assert found["test"]["rmse"] < 0.6 * found["always_the_mean"]["rmse"]
    assert 100 < found["always_the_mean"]["rmse"] < 150
    result = json.loads((trained / "result.json").read_text("utf-8"))
    assert found["test"] == pytest.approx(result["test"])
    assert "are in the unit of price" in run("evaluate", trained)[1]


def test_another_table_of_houses_is_predicted_with_the_same_columns(run, trained, tmp_path):
    (tmp_path / "new.csv").write_text(
        "house_id,area_m2,rooms,built,garden_m2,condition,heating,traffic_db,rent_per_m2,town\n"
        "n1,120,4,1990,200,kept,gas,60,11,Brook\nn2,60,2,1950,0,worn,oil,60,11,Brook\n"
    )
    (tmp_path / "pairs.csv").write_text("source,target\nn1,n2\n")
    words = ["--nodes", tmp_path / "new.csv", "--edges", tmp_path / "pairs.csv"]
    assert run("predict", trained, *words, "-o", tmp_path / "a.csv")[0] == 0
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert float(first["value"]) > float(second["value"]) > 0
    assert "label" not in first


def test_the_card_and_the_report_speak_of_numbers(trained, tmp_path):
    card = model_card(trained)
    assert "Target: the number price" in card
    assert "RMSE" in card
    assert "Classes" not in card
    page = report([trained], tmp_path / "report.html").read_text("utf-8")
    assert "RMSE" in page
    assert "The best simple model, a ridge regression" in page
    assert "http://" not in page
    assert "https://" not in page


def table(folder: Path, values: list[object]) -> Path:
    rows = [f"n{i},{i % 7},{value}" for i, value in enumerate(values)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,price", *rows]))
    pairs = [f"n{i},n{(i + 2) % len(values)}" for i in range(len(values))]
    (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]))
    return folder


def test_a_column_is_read_by_its_values_or_as_the_task_says(tmp_path):
    def classes(values: list[object], task: str) -> int:
        options = {"label": "price", "task": task, "split": "random-fractions"}
        return load_tables(table(tmp_path, values), **options).num_classes

    decimals, few = [i + 0.5 for i in range(40)], [i % 4 for i in range(40)]
    assert classes(decimals, "auto") == 0
    assert classes(few, "auto") == 4
    assert classes(few, "numbers") == 0
    assert classes([f"{i % 4}.0" for i in range(40)], "classes") == 4
    with pytest.raises(ValueError, match=r"40 different whole numbers.*numbers.*classes"):
        classes(list(range(40)), "auto")
    assert classes(list(range(40)), "numbers") == 0
    with pytest.raises(ValueError, match=r"line 3: price is 'dear', and task is 'numbers'"):
        classes([1, "dear", *range(38)], "numbers")
    with pytest.raises(ValueError, match=r"line 3: price is inf; it takes numbers that are finite"):
        classes([1.5, "inf", *range(38)], "auto")
