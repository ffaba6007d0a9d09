"""From one's own tables to answers in a spreadsheet, by the command alone."""

import csv
import json
import random
import re
from pathlib import Path
from random import Random

import pytest

from experiments import keys
from graphdrop import load_tables
from graphdrop.cli import main
from graphdrop.cli.predict import join_classes
from graphdrop.cli.sheet import harmless, shown, write_csv
from graphdrop.config import Config, settle
from graphdrop.train.opening import schema_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "data"
FEW = ["--epochs", "4", "--set", "model.hidden=8", "--set", "train.evaluate_every=2"]
FEW += ["--set", "predict.samples=3", "--set", "train.samples=2"]
NODES = ["--nodes", EXAMPLE / "nodes.csv", "--edges", EXAMPLE / "edges.csv"]
NEW = ["--nodes", EXAMPLE / "new_nodes.csv", "--edges", EXAMPLE / "new_edges.csv"]
COLUMNS = ["--label", "paper_class", "--id", "paper_id"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a finished run; do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    words = ["train", *NODES, *COLUMNS, *FEW, "--out", folder, "--quiet"]
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert stopped.value.code == 0
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def test_training_says_in_two_lines_what_became_of_the_columns(run, tmp_path):
    code, _, said = run("train", *NODES, *COLUMNS, *FEW, "--out", tmp_path / "a")
    assert code == 0
    lines = said.splitlines()
    assert lines[0].startswith("Columns: 3 numeric (pages, references, year), standardized")
    assert lines[1].startswith("Missing values: pages ")
    assert "taken as stored" in said  # they are standardized in one place


def test_a_split_by_time_is_used_again_and_promises_no_coverage(run, tmp_path):
    words = [*NODES, *COLUMNS, *FEW, "--split-by-time", "year", "--out", tmp_path / "a"]
    code, _, said = run("train", *words)
    assert code == 0, said
    assert "(by time, column year)" in said
    code, printed, said = run("predict", tmp_path / "a", "-o", tmp_path / "out.csv")
    assert code == 0, said
    assert "not guaranteed: the run was split by time (column year)" in printed
    years = {row["paper_id"]: int(row["year"]) for row in rows_of(EXAMPLE / "nodes.csv")}
    parts = {part: [] for part in ("train", "val", "test", "")}
    for row in rows_of(tmp_path / "out.csv"):
        parts[row["split"]].append(years[row["id"]])
    assert max(parts["train"]) < min(parts["val"])
    assert max(parts["val"]) < min(parts["test"])
    run("report", tmp_path / "a", "-o", tmp_path / "report.html")
    run("card", tmp_path / "a", "-o", tmp_path / "card.md")
    assert "this coverage is not guaranteed" in (tmp_path / "report.html").read_text("utf-8")
    assert "sets is not guaranteed" in (tmp_path / "card.md").read_text("utf-8")


def test_a_run_on_tables_is_evaluated_resumed_and_reported(run, trained, tmp_path):
    assert run("evaluate", trained)[0] == 0
    code, _, said = run("train", "--out", trained, "--resume")
    assert code == 0, said
    code, _, said = run("report", trained, "-o", tmp_path / "report.html")
    assert code == 0, said
    page = (tmp_path / "report.html").read_text("utf-8")
    assert '"class_names":["biology","chemistry","physics"]' in page
    assert '"ids":["p001","p002"' in page


def test_answers_have_the_ids_and_classes_of_the_table(run, trained, tmp_path):
    code, _, said = run("predict", trained, "-o", tmp_path / "out.csv")
    assert code == 0, said
    nodes, answers = rows_of(EXAMPLE / "nodes.csv"), rows_of(tmp_path / "out.csv")
    assert [row["id"] for row in answers] == [row["paper_id"] for row in nodes]
    assert [row["label"] for row in answers] == [row["paper_class"] for row in nodes]
    fields = {"biology", "chemistry", "physics"}
    for row in answers:
        assert {row["predicted"]} | set(row["set_90"].split("|")) <= fields
        assert row["trust"] in ("yes", "no")
        assert row["probability"] == row[f"probability_{row['predicted']}"]
        assert (row["split"] == "") == (row["label"] == "")


def test_another_graph_with_the_same_columns_is_predicted(run, trained, tmp_path):
    code, printed, said = run("predict", trained, "-o", tmp_path / "new.csv", *NEW)
    assert code == 0, said
    assert "calibration and coverage may not transfer" in printed
    answers = rows_of(tmp_path / "new.csv")
    assert [row["id"] for row in answers][:2] == ["q001", "q002"]
    assert "label" not in answers[0]
    notes = [line for line in said.splitlines() if "calibrated on another graph" in line]
    assert len(notes) == 1
    assert re.match(r"Note: the model was .* of [\d,]+ nodes and [\d,]+ edges; this one", notes[0])
    # a node is predicted from what the table says, whatever else is in it
    strange = tmp_path / "nodes.csv"
    text = (EXAMPLE / "new_nodes.csv").read_text("utf-8")
    strange.write_text(text.replace("Open Letters", "Nowhere"), "utf-8")
    words = ["--nodes", strange, "--edges", EXAMPLE / "new_edges.csv"]
    code, _, said = run("predict", trained, "-o", tmp_path / "odd.csv", *words)
    assert code == 0
    assert "Categories that training did not have: venue" in said
    strange.write_text(text.replace("pages", "leaves"), "utf-8")
    code, _, said = run("predict", trained, "-o", tmp_path / "odd.csv", *words)
    assert code == 2
    assert "has no column pages; the model was trained with country, pages" in said


def test_a_run_says_how_its_columns_became_features(trained):
    schema = schema_of(trained)
    assert schema == load_tables(EXAMPLE, label="paper_class", id="paper_id").schema
    assert (schema.id, schema.label) == ("paper_id", "paper_class")


def test_the_same_tables_elsewhere_are_the_same_graph(run, trained, tmp_path):
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / name).write_bytes((EXAMPLE / name).read_bytes())
    code, printed, _ = run("evaluate", trained, "--dataset", tmp_path, "--json")
    assert code == 0
    assert json.loads(printed)["same_data"] is True


def shuffle_tables(folder: Path, seed: int) -> Path:
    """Write the example tables with rows, columns, edges and the ends of edges shuffled."""
    draw = random.Random(seed)
    for name in ("nodes.csv", "edges.csv"):
        with (EXAMPLE / name).open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        if name == "edges.csv":
            rows = [draw.sample(row, 2) for row in rows]
        draw.shuffle(rows)
        columns = draw.sample(range(len(header)), len(header))
        with (folder / name).open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([row[at] for at in columns] for row in [header, *rows])
    return folder


def test_answers_do_not_depend_on_the_order_of_rows_columns_and_ends(run, trained, tmp_path):
    tables, again = shuffle_tables(tmp_path, 0), tmp_path / "again"
    given = ["--nodes", tables / "nodes.csv", "--edges", tables / "edges.csv"]
    assert run("train", *given, *COLUMNS, *FEW, "--out", again, "--quiet")[0] == 0
    run("predict", trained, "-o", tmp_path / "a.csv")
    run("predict", again, "-o", tmp_path / "b.csv")
    code, printed, said = run("predict", trained, *given, "-o", tmp_path / "c.csv")
    assert code == 0, said
    assert "may not transfer" not in printed  # the graph of the run
    first, second, third = (rows_of(tmp_path / f"{name}.csv") for name in "abc")
    assert {row["id"]: row for row in first} == {row["id"]: row for row in second}
    assert second == third
    assert [row["id"] for row in second] == [row["paper_id"] for row in rows_of(given[1])]
    shuffle_tables(tables, 1)  # the same graph: the run goes on
    code, _, said = run("train", "--out", again, "--resume")
    assert code == 0, said


def test_names_from_files_are_printed_and_not_obeyed(run, tmp_path):
    escape, turned = "\x1b[2J\x1b]0;me\x07", "\u202e"
    rows = [f"n{i},{i},{'ab'[i % 2]},{i % 3}" for i in range(30)]
    nodes = "\n".join([f"id,size{escape},label,{turned}kind", *rows])
    (tmp_path / "nodes.csv").write_text(nodes, "utf-8")
    (tmp_path / "edges.csv").write_text("source,target\nn1,n2\n")
    code, printed, _ = run("data", "info", tmp_path)
    assert code == 0
    assert r"size\x1b[2J\x1b]0;me\x07, \u202ekind" in printed
    shown = [run("train", "--nodes", tmp_path / "nodes.csv", *FEW, "--out", tmp_path / "a")]
    (tmp_path / "edges.csv").write_text(f"source,target\nn1,n{escape}\n")
    shown.append(run("data", "info", tmp_path))
    assert [code for code, _, _ in shown] == [0, 2]
    assert not {"\x1b", "\x07", turned} & set("".join(out + said for _, out, said in shown))


def test_a_class_with_a_bar_in_it_is_one_class_of_a_set(tmp_path):
    sets = [["a|b", "c"], ['say "c"'], ["a", "b"]]
    cells = [join_classes(one) for one in sets]
    assert cells[2] == "a|b"
    assert list(csv.reader(cells, delimiter="|")) == sets


def test_a_folder_or_a_file_is_named_and_not_both(run, tmp_path):
    code, _, said = run("train", *NODES, "--dataset", "cora", "--out", tmp_path / "a")
    assert code == 2
    assert "give one of them" in said
    code, _, said = run("train", "--dataset", "synthetic", "--label", "x", "--out", tmp_path / "a")
    assert code == 2
    assert "data.label_column is 'x'" in said


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@sum", "\tx", "\rx", "\uff1d1"])
def test_no_cell_is_a_formula(text, tmp_path):
    assert harmless(text) == f"'{text}"
    write_csv({"id": [text], text: [0.5]}, tmp_path / "a.csv")
    (row,) = rows_of(tmp_path / "a.csv")
    assert row["id"] == f"'{text}"
    assert list(row)[1] == f"'{text}"


def test_numbers_and_other_alphabets_open_as_they_are(tmp_path):
    assert [shown(cell) for cell in (-5, "-5", "+49", 1e-12, 0.25, 1.0, None, True)] == [
        *("-5", "-5", "+49", "0", "0.25", "1", "", "yes"),
    ]
    write_csv({"id": ["Zoë", 'a "b", c', "x\ny"]}, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert [row["id"] for row in rows_of(tmp_path / "a.csv")] == ["Zoë", 'a "b", c', "x\ny"]


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--dataset", "synthetic", "--show-config", "--recipe", "paper"],
        ["data", "list"],
        ["data", "info", EXAMPLE, "--label", "paper_class"],
        ["data", "verify"],
        ["evaluate", "RUN"],
        ["predict", "RUN", "-o", "OUT.csv"],
        ["report", "RUN", "-o", "OUT.html"],
        ["evaluate", "/nowhere"],
        ["train", "--nonsense"],
    ],
)
def test_every_command_can_answer_in_json_alone(run, trained, tmp_path, words):
    named = {"RUN": trained, "OUT.csv": tmp_path / "o.csv", "OUT.html": tmp_path / "o.html"}
    code, printed, said = run(*(named.get(str(word), word) for word in words), "--json", "--quiet")
    document = json.loads(printed)
    assert document["exit_code"] == code
    assert ("error" in document) == (code == 2)
    assert bool(said) == (code == 2)


def test_settings_of_tables_leave_the_keys_of_other_runs_alone(tmp_path):
    plain = keys.settled(settle({"recipe": "paper"}))["data"]
    assert not {"edges", "label_column", "missing"} & set(plain)
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / name).write_bytes((EXAMPLE / name).read_bytes())
    config = Config(data={"dataset": str(tmp_path), "label_column": "paper_class"})
    before = keys.run_key(config)
    (tmp_path / "edges.csv").write_text("source,target\np001,p002\n")
    assert keys.run_key(config) != before


def test_the_help_of_train_is_short_and_all_of_it_is_there_on_demand(run):
    code, short, _ = run("train", "--help")
    assert code == 0
    assert len(short.splitlines()) <= 24
    assert max(map(len, short.splitlines())) < 80
    code, whole, _ = run("train", "--help-all")
    assert code == 0
    for option in re.findall(r"^ +(--[\w-]+)", short, flags=re.MULTILINE):
        assert option in whole or option in ("--json", "--quiet")
    assert "predict.cost_ratio" in whole
    assert "--checkpoint" not in short


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("graphdrop pre", "predict"), ("graphdrop train --split-", "--split-column")],
)
def test_a_shell_can_complete_words(run, monkeypatch, words, wanted):
    monkeypatch.setenv("_GRAPHDROP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    code, printed, _ = run()
    assert code == 0
    assert wanted in printed


def test_a_rare_class_is_ranked_flagged_covered_and_reported(run, tmp_path):
    """600 accounts of which one in 12 is bad, in a ring of like ones."""
    random = Random(0)
    nodes = [["id", "size", "speed", "kind"]]
    for i in range(600):
        kind = "bad" if i % 12 == 0 else "good"
        sizes = [f"{random.gauss(1.5 * (kind == 'bad'), 1):.2f}" for _ in range(2)]
        nodes.append([f"a{i}", *sizes, kind])
    edges = [["source", "target"], *([f"a{i}", f"a{(i + 12) % 600}"] for i in range(600))]
    for name, rows in (("nodes", nodes), ("edges", edges)):
        (tmp_path / f"{name}.csv").write_text("\n".join(map(",".join, rows)))
    words = ["--dataset", tmp_path, "--label", "kind", *FEW, "--recipe", "paper", "--method", "GCN"]
    costs = ["--budget", "10%", "--cost-ratio", "20"]
    code, printed, said = run("train", *words, *costs, "--out", tmp_path / "a")
    assert code == 0, said
    assert "Rare class bad, test: average precision" in printed
    (rare,) = json.loads((tmp_path / "a" / "result.json").read_text())["rare"]
    assert (rare["name"], rare["test"]["budget"]) == ("bad", 12)
    assert rare["validation"]["threshold"] == pytest.approx(1 / 21)
    code, printed, said = run("predict", tmp_path / "a", "-o", tmp_path / "o.csv", "--budget", 30)
    assert code == 0, said
    assert "cover each class by itself" in printed
    answers = rows_of(tmp_path / "o.csv")
    answers.sort(key=lambda row: int(row["rank_bad"]))
    chances = [float(row["probability_bad"]) for row in answers]
    assert chances == sorted(chances, reverse=True)
    flagged = [row["flag_bad"] for row in answers]
    assert flagged == ["yes" if i < 30 and chances[i] >= 1 / 21 else "no" for i in range(600)]
    for row in answers:
        doubtful = float(row["probability_bad"]) >= 1 / 21 and row["predicted"] == "good"
        assert not (doubtful and row["trust"] == "yes")
    run("report", tmp_path / "a", "-o", tmp_path / "report.html")
    assert "are of the rare class bad" in (tmp_path / "report.html").read_text("utf-8")
    run("card", tmp_path / "a", "-o", tmp_path / "card.md")
    assert "## Rare classes" in (tmp_path / "card.md").read_text("utf-8")
