"""A table of nodes and one of edges become a checked graph, or an error that names the line."""

import math
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
import torch

from graphdrop import from_networkx, from_pandas, load_dataset, load_tables
from graphdrop.data.splits import Split
from graphdrop.data.tables import apply_schema, files
from graphdrop.data.tables.files import read_table
from graphdrop.data.tables.schema import Schema
from graphdrop.data.tables.table import Column
from graphdrop.io.memory import most_bytes
from graphdrop.train.run_dataset import fingerprint

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "data"
OPTIONS = {"label": "paper_class", "id": "paper_id"}


def write(folder: Path, nodes: str, edges: str = "source,target\na,b\nb,c\n") -> Path:
    (folder / "nodes.csv").write_text(nodes, "utf-8")
    (folder / "edges.csv").write_text(edges, "utf-8")
    return folder


def small(extra: str = "", rows: str = "") -> str:
    """Twelve nodes of two classes, with a number; the first three are a, b and c."""
    names = [*"abcdefghijkl"]
    lines = [f"{name},{number},{'xy'[number % 2]}" for number, name in enumerate(names)]
    return "\n".join([f"id,size,label{extra}", *lines, rows]) + "\n"


def test_columns_become_features_by_their_kind():
    dataset = load_tables(EXAMPLE, **OPTIONS)
    data, train = dataset.data, dataset.split.train
    kinds = {one.name: (one.kind, one.width) for one in dataset.schema.columns}
    numbers = ["pages", "references", "year"]
    assert kinds == dict.fromkeys(numbers, ("number", 1)) | {
        "venue": ("category", 7),
        "country": ("category", 6),
    }
    assert list(kinds) == sorted(kinds)
    frame = pandas.read_csv(EXAMPLE / "nodes.csv", keep_default_na=True)
    places = [6, 7, 15]  # behind country and venue
    for column, name in zip(places, numbers, strict=True):
        values = frame[name][train.numpy()]
        filled = frame[name].fillna(values.mean())
        expected = (filled - values.mean()) / values.std(ddof=0)
        assert np.allclose(data.x[:, column], expected, atol=1e-5)
    one_hot = data.x[:, [column for column in range(16) if column not in places]]
    assert set(one_hot.unique().tolist()) == {0.0, 1.0}
    assert bool((one_hot.sum(1) == 2).all())  # a missing venue has a category of its own
    assert data.names.classes == ("biology", "chemistry", "physics")
    assert data.names.ids == tuple(frame["paper_id"])
    named = [data.names.label(label) for label in data.y.tolist()]
    assert named == frame["paper_class"].fillna("").tolist()
    assert not bool((data.train_mask | data.val_mask | data.test_mask)[data.y < 0].any())
    first, second, third = dataset.notes
    assert "title (free text)" in first
    assert "pages" in second
    assert "venue" in second
    assert "no label" in second
    train, val, test = dataset.split.sizes
    assert third.startswith(f"Split: {train} train, {val} validation and {test} test nodes")


def test_a_class_that_is_not_in_every_part_is_said():
    labels = ["x", "y"] * 20 + ["odd", "rare", "rare"]
    nodes = pandas.DataFrame({"size": range(43), "label": labels})
    edges = pandas.DataFrame({"source": range(42), "target": range(1, 43)})
    assert (
        from_pandas(nodes, edges)
        .notes[-1]
        .endswith(
            "Some parts have no node of these classes: odd (no validation or test node), "
            "rare (no test node)."
        )
    )


DATES = ["2024-01", "2024-02-03", "2024-02-03T00:00Z", "2024-03-01T08:30+01:00", "2025-01-01"]


def dated(*dates: object) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Nodes of two classes with these dates, and a path through them."""
    count = len(dates)
    label = [*"xy"] * (count // 2) + ["x"] * (count % 2)
    nodes = pandas.DataFrame({"size": range(count), "when": dates, "label": label})
    return nodes, pandas.DataFrame({"source": range(count - 1), "target": range(1, count)})


def test_a_split_by_time_trains_on_the_past_alone():
    order = np.random.default_rng(0).permutation(100)
    days = [f"2024-{1 + day // 25:02}-{1 + day % 25 // 2:02}" for day in order.tolist()]
    nodes, edges = dated(*days)
    nodes.loc[[3, 50], "label"] = None
    nodes.loc[3, "when"] = None  # which a node without a label may lack
    dataset = from_pandas(nodes, edges, split_by_time="when")
    parts = [[days[i] for i in mask.nonzero().flatten().tolist()] for mask in masks_of(dataset)]
    assert max(parts[0]) < min(parts[1])
    assert max(parts[1]) < min(parts[2])
    assert dataset.split.sizes == pytest.approx((60, 20, 20), abs=3)
    assert sum(dataset.split.sizes) == 98
    assert [column.name for column in dataset.schema.columns] == ["size"]
    stamps = nodes.assign(when=pandas.to_datetime(nodes["when"], utc=True))
    again = from_pandas(stamps, edges, split_by_time="when")
    assert torch.equal(again.split.train, dataset.split.train)
    seconds = [math.nan if one is pandas.NaT else one.timestamp() for one in stamps["when"]]
    numbers = nodes.assign(when=seconds)
    assert torch.equal(
        from_pandas(numbers, edges, split_by_time="when").split.test, dataset.split.test
    )


def masks_of(dataset):
    return dataset.split.train, dataset.split.val, dataset.split.test


@pytest.mark.parametrize(
    ("dates", "options", "message"),
    [
        ([*DATES, "17.05.2024"], {}, "nodes, row 5: when is '17.05.2024'; it takes ISO dates"),
        ([*DATES, None], {}, "nodes, row 5: when has no date, and the node has a label"),
        (DATES[:3], {}, "column when: labelled nodes have 2 different times"),
        (DATES, {"split": "random-fractions"}, "split is 'random-fractions' and split_by_time"),
        (DATES, {"split_column": "size"}, "split_column is 'size' and split_by_time 'when'"),
        (DATES, {"split_by_time": "date"}, "split-by-time is 'date'; nodes has the columns"),
    ],
)
def test_what_gives_no_split_by_time_is_refused(dates, options, message):
    with pytest.raises(ValueError, match=message):
        from_pandas(*dated(*dates), **{"split_by_time": "when"} | options)


def test_dates_are_no_feature_and_the_note_says_what_they_are_for():
    nodes, edges = dated(*["2024-01-01", "2024-02-01"] * 10)
    dataset = from_pandas(nodes, edges)
    assert [column.name for column in dataset.schema.columns] == ["size"]
    assert "Left out: when (dates)." in dataset.notes[0]
    assert "--split-by-time when" in dataset.notes[0]
    with pytest.raises(ValueError, match=r"when', which has dates.*--split-by-time when"):
        from_pandas(nodes, edges, features="size,when")
    assert from_pandas(nodes, edges, features="size,when:category").data.x.shape == (20, 3)


def test_files_folders_pandas_and_parquet_give_one_graph(tmp_path):
    wanted = load_tables(EXAMPLE, **OPTIONS).data
    nodes, edges = (pandas.read_csv(EXAMPLE / f"{name}.csv") for name in ("nodes", "edges"))
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    separated = tmp_path / "excel"
    separated.mkdir()
    nodes.to_csv(separated / "nodes.csv", sep=";", decimal=",", encoding="utf-8-sig", index=False)
    edges.to_csv(separated / "edges.csv", sep="\t", encoding="utf-16", index=False)
    found = [
        load_tables(EXAMPLE / "nodes.csv", EXAMPLE / "edges.csv", **OPTIONS),
        load_tables(tmp_path, **OPTIONS),
        load_tables(separated, **OPTIONS),
        from_pandas(nodes, edges, **OPTIONS),
    ]
    for dataset in found:
        data = dataset.data
        assert torch.equal(data.x, wanted.x)
        assert torch.equal(data.y, wanted.y)
        assert torch.equal(data.edge_index, wanted.edge_index)
        assert torch.equal(data.train_mask, wanted.train_mask)
        assert data.names == wanted.names


def test_pandas_tables_as_read_from_files_need_no_name_of_their_ids():
    """The index of `read_csv` counts rows, and the edges name a column of another name."""
    rows = range(20)
    nodes = pandas.DataFrame({"account": [f"a{i}" for i in rows], "size": [i % 7 for i in rows]})
    nodes["label"] = ["x", "y"] * 10
    edges = pandas.DataFrame({"source": ["a1", "a2"], "target": ["a3", "a9"]})
    dataset = from_pandas(nodes, edges)
    assert dataset.data.names.ids == tuple(sorted(nodes["account"]))
    assert dataset.data.x.shape == (20, 1)
    others = apply_schema(dataset.schema, nodes[:10], edges)
    assert others.names.ids == tuple(sorted(nodes["account"][:10]))
    by_row = pandas.DataFrame({"source": [1, 2], "target": [3, 19]})
    assert from_pandas(nodes[["size", "label"]], by_row).data.names.ids == tuple(map(str, rows))
    with pytest.raises(ValueError, match=r"is '20', which is no id in nodes \(column index\).*id="):
        from_pandas(nodes, by_row + 1)


def test_numbers_in_a_column_named_id_are_ids_though_rows_have_such_numbers_too():
    nodes = pandas.DataFrame({"id": range(1, 21), "size": range(20), "label": ["x", "y"] * 10})
    edges = pandas.DataFrame({"source": [1, 2], "target": [3, 9]})
    dataset = from_pandas(nodes, edges)
    assert dataset.data.names.ids == tuple(map(str, range(1, 21)))
    shuffled = from_pandas(nodes[::-1].reset_index(drop=True), edges)
    assert torch.equal(shuffled.data.x, dataset.data.x)
    assert torch.equal(shuffled.data.edge_index, dataset.data.edge_index)
    nodes["id"] = 7  # which tells no node from another one
    assert from_pandas(nodes, edges).data.names.ids == tuple(map(str, range(20)))


def test_networkx_attributes_are_columns():
    club = networkx.karate_club_graph()
    for node in club:
        club.nodes[node]["degree"] = club.degree[node]
    dataset = from_networkx(club, label="club", weight="weight", split="random-fractions")
    assert dataset.data.x.shape == (34, 1)
    assert dataset.data.names.node(33) == "33"
    assert dataset.data.edge_index.shape[1] == 2 * club.number_of_edges()
    weights = {tuple(e): w for e, w in zip(*_edges(dataset.data), strict=True)}
    assert all(weights[(u, v)] == w for u, v, w in club.edges(data="weight"))


def _edges(data):
    return data.edge_index.t().tolist(), data.edge_weight.tolist()


def test_a_split_column_says_who_is_trained_on(tmp_path):
    parts = ["train", "Training", "val", "validation", "test", "test", "", "", "train", "val"]
    rows = [f"n{i},{i},{'xy'[i % 2] if i != 5 else ''},{p}" for i, p in enumerate(parts)]
    nodes = "\n".join(["id,size,label,part", *rows])
    write(tmp_path, nodes, "from,to\nn0,n1\n")
    dataset = load_tables(tmp_path, split_column="part")
    assert dataset.split.name == "column part"
    assert dataset.split.train.nonzero().flatten().tolist() == [0, 1, 8]
    assert dataset.split.test.nonzero().flatten().tolist() == [4]  # node 5 has no label
    assert "1 nodes in a part of the split have no label" in dataset.notes[1]


def test_the_index_that_pandas_writes_is_no_id_and_no_end_of_an_edge(tmp_path):
    nodes = [f"{i},{11 - i},{i / 4},{'xy'[i % 2]}" for i in range(12)]
    write(tmp_path, "\n".join([",paper,size,label", *nodes]), ",citing,cited\n0,11,8\n1,8,7\n")
    data = load_tables(tmp_path, split="random-fractions").data
    assert data.names.ids == tuple(map(str, range(12)))
    assert data.x.shape == (12, 1)
    assert data.edge_index.tolist() == [[7, 8, 8, 11], [8, 7, 11, 8]]
    text = small().replace("id,size", ",size")  # an index of names, which are the ids
    write(tmp_path, text, "id,source_id,target_id\na,b,b\n")
    dataset = load_tables(tmp_path, split="random-fractions")
    assert dataset.data.names.ids == tuple("abcdefghijkl")
    assert dataset.notes[-1] == "The graph has no edge between two different nodes."


def test_a_word_for_a_missing_number_is_no_class_among_numbers(tmp_path):
    rows = [f"n{i},{i},{(0, 1, 'NaN', 1, 0)[i % 5]}" for i in range(20)]
    write(tmp_path, "\n".join(["id,size,label", *rows]), "a,b\nn0,n1\n")
    data = load_tables(tmp_path, split="random-fractions").data
    assert data.names.classes == ("0", "1")
    unlabelled = (data.y < 0).nonzero().flatten().tolist()
    assert [data.names.node(node) for node in unlabelled] == ["n12", "n17", "n2", "n7"]
    write(tmp_path, small(rows="m,1,NA\nn,2,NA\no,3,NA"))
    named = load_tables(tmp_path, split="random-fractions")
    assert named.data.names.classes == ("NA", "x", "y")
    assert named.notes[-1].startswith("NA is a class of label: ")


def test_pandas_may_miss_values_and_may_not_repeat_names_or_nest_cells():
    edges = pandas.DataFrame({"source": [0, 1], "target": [1, 2]})
    nodes = pandas.DataFrame({"size": range(12), "label": ["x", "y", pandas.NA] * 4})
    nodes["label"] = nodes["label"].astype("string")
    nodes["none"] = pandas.array([pandas.NA] * 12, dtype="Int64")
    dataset = from_pandas(nodes, edges, split="random-fractions")
    assert dataset.data.y.tolist() == [0, 1, -1] * 4
    assert "none (empty)" in dataset.notes[0]
    with pytest.raises(ValueError, match="nodes has two columns named '1': rename one"):
        from_pandas(nodes.assign(**{"1": 0}).rename(columns={"none": 1}), edges)
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, np.zeros(2), "place")
    with pytest.raises(ValueError, match="the column place has a cell of type ndarray: give"):
        from_networkx(graph, label="label")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (small(rows="a,1,x"), None, r"nodes.csv, line 14: id is 'a', .*line 2\); every node"),
        (small(rows=",1,x"), None, "nodes.csv, line 14: id is empty"),
        (
            small(),
            "source,target\na,b\nb,zz\n",
            "edges.csv, line 3: target is 'zz', which is no id",
        ),
        (small(), "source,target\na,\n", "edges.csv, line 2: target is empty"),
        (small(), "a,b\nb,c\n", "edges.csv has no header: its first line is the edge a, b"),
        (small(), "source\na\n", "edges.csv has 1 column: give two"),
        (small(), "a,b,1\nb,c,2\n", "edges.csv has no header: its first line is the edge a, b"),
        (small(), "id,u,v\na,b,c\n", "columns id, u, v, and 3 of them hold node ids alone"),
        (small(), "", "edges.csv is empty"),
        ("id,size,label\na,1\n", None, "nodes.csv, line 2 has 2 cells and the header 3"),
        ("id,id,label\na,b,x\n", None, "two columns named 'id'"),
        ("id,size,label\n", None, "nodes.csv has no rows below its header"),
        ("id,size\na,1\n", None, "label is missing; it takes the column .* id, size"),
        ("id,label\na,x\nb,y\nc,x\nd,y\n", None, "no column of numbers or categories"),
        (small(rows="m,inf,x"), None, "line 14: size is inf; it takes numbers that are finite"),
        ("id,size,label\na,1,\nb,2,\n", "s,t\na,b\n", "has no label in the column label"),
    ],
)
def test_an_error_names_the_file_the_line_and_the_value(tmp_path, nodes, edges, message):
    write(tmp_path, nodes, *([] if edges is None else [edges]))
    with pytest.raises(ValueError, match=message):
        load_tables(tmp_path, split="random-fractions")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"label": "size"},
            "label is 'size', which has 12 different whole .*task numbers",
        ),
        ({"label": "x"}, "label is 'x'; .* has the columns id, size, label"),
        ({"id": "x"}, "id is 'x'"),
        ({"features": "x"}, "features is 'x'"),
        ({"features": "id"}, "features has 'id', which is the id, the label or the split"),
        ({"features": "size,label:category"}, "features has 'label:category', which is the id, "),
        ({"split_column": "size"}, "size is '0'; it takes train, val or test"),
        ({"weight": "x"}, "weight is 'x'"),
        ({"missing": "drop"}, "missing is 'drop'; it takes 'impute' or 'refuse'"),
    ],
)
def test_an_option_that_does_not_fit_is_an_error(tmp_path, options, message):
    write(tmp_path, small())
    with pytest.raises(ValueError, match=message):
        load_tables(tmp_path, split="random-fractions", **options)


def test_missing_values_can_be_refused():
    with pytest.raises(ValueError, match=r"15 missing values \(pages 8, venue 7\)|missing values"):
        load_tables(EXAMPLE, **OPTIONS, missing="refuse")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00" * 500,
        b"\xff\xfe" + b"\x00\xd8" * 50,
        b"id,label\n\xe9t\xe9,1\n",
        b'id,"label\n' + b"x" * 300_000,
        b"PK\x03\x04rest",
        b"," * 50_000,
        b'"',
        b"\xef\xbb\xbf",
    ],
)
def test_a_hostile_file_is_an_error_and_no_traceback(tmp_path, raw):
    (tmp_path / "nodes.csv").write_bytes(raw)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1" + raw + b"PAR1")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    for name in ("nodes.csv", "nodes.parquet"):
        with pytest.raises(ValueError, match=r"nodes\.(csv|parquet)"):
            load_tables(tmp_path / name)


def test_the_size_of_a_file_is_checked_before_it_is_read(tmp_path):
    with (tmp_path / "nodes.csv").open("wb") as stream:
        stream.truncate(10**12)  # a hole: it takes no room on disk
    (tmp_path / "edges.csv").write_text("source,target\n")
    with pytest.raises(ValueError, match="GRAPHDROP_MAX_BYTES"):
        read_table(tmp_path / "nodes.csv", most_bytes())
    pandas.DataFrame({"id": range(10)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="GRAPHDROP_MAX_BYTES"):
        read_table(tmp_path / "a.parquet", 100)


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(files, "import_module", refuse)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1")
    (tmp_path / "edges.csv").write_text("source,target\n")
    with pytest.raises(ValueError, match="pip install pyarrow"):
        read_table(tmp_path / "nodes.parquet", most_bytes())


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", None, "NA", "1e3"], "number"),
        (["red", "blue", "red", "blue"], "category"),
        (["one", "two", "three"], "text"),
        (["1_000", "2_000", "1_000", "2_000"], "category"),
        ([None, "", "nan"], "empty"),
        (["true", "false", "true", "true"], "category"),
    ],
)
def test_a_column_is_known_by_its_cells(cells, kind):
    assert Column(cells).kind == kind


def test_a_schema_comes_back_from_json_and_codes_what_it_never_saw():
    dataset = load_tables(EXAMPLE, **OPTIONS)
    again = Schema.from_json(dataset.schema.as_json())
    assert again == dataset.schema
    nodes = read_table(EXAMPLE / "nodes.csv", most_bytes())
    assert torch.equal(again.encode(nodes, most_bytes()).x, dataset.data.x)
    nodes = read_table(EXAMPLE / "nodes.csv", most_bytes())
    nodes.columns["country"].text[0] = "XX"
    found = again.encode(nodes, most_bytes())
    assert found.unknown == {"country": 1}
    assert float(found.x[0, :6].sum()) == 0.0
    assert math.isclose(float(found.x[1, :6].sum()), 1.0)


def test_another_table_is_coded_as_the_first_was():
    nodes, edges = (pandas.read_csv(EXAMPLE / f"{name}.csv") for name in ("nodes", "edges"))
    dataset = from_pandas(nodes, edges, **OPTIONS)
    data = apply_schema(dataset.schema, nodes.drop(columns="paper_class"), edges, id="paper_id")
    assert torch.equal(data.x, dataset.data.x)
    assert torch.equal(data.edge_index, dataset.data.edge_index)
    assert data.names == dataset.data.names
    assert not bool(data.test_mask.any())
    labelled = apply_schema(dataset.schema, nodes, edges, id="paper_id")
    assert torch.equal(labelled.y, dataset.data.y)
    assert torch.equal(labelled.test_mask, dataset.data.y >= 0)


def test_a_folder_of_tables_is_a_dataset(tmp_path):
    write(tmp_path, small())
    dataset = load_dataset(tmp_path, split="random-fractions")
    assert dataset.name == tmp_path.name
    assert dataset.checksums.keys() == {"nodes.csv", "edges.csv"}


def test_shuffled_tables_are_the_same_graph(tmp_path):
    draw = np.random.default_rng(0)
    nodes = pandas.DataFrame(
        {
            "size": draw.normal(size=40),
            "paper": draw.permutation(200)[:40],  # the ids: the only column that edges name
            "kind": draw.choice(["a", "b"], 40),
            "label": draw.choice(["x", "y"], 40),
            "zeal": draw.normal(size=40),
        }
    )
    edges = pandas.DataFrame(draw.choice(nodes["paper"], (150, 2)), columns=["src", "dst"])
    edges["cost"] = draw.uniform(0.1, 2, 150)
    edges = pandas.concat([edges, edges[:80], edges[40:120].assign(cost=0.3)])
    rows, lines = draw.permutation(40), draw.permutation(len(edges))
    ends = edges[["src", "dst"]].to_numpy()[lines]
    ends = np.where(draw.random((len(edges), 1)) < 0.5, ends, ends[:, ::-1])
    shuffled = pandas.DataFrame({"cost": edges["cost"].to_numpy()[lines]})
    shuffled["dst"], shuffled["src"] = ends.T

    def load(nodes, edges, split):
        folder = write(tmp_path, nodes.to_csv(index=False), edges.to_csv(index=False))
        return load_tables(folder, weight="cost", split=split)

    train = torch.from_numpy(draw.random(40) < 0.5)  # a split by the rows of the table
    mine = [Split(mask, ~mask, train & ~train, "mine") for mask in (train, train[rows])]
    for one, other in (("random-fractions", "random-fractions"), mine):
        first = load(nodes, edges, one)
        second = load(nodes.iloc[rows, ::-1], shuffled, other)
        assert fingerprint(first.data) == fingerprint(second.data)
        assert first.schema == second.schema
        names = second.data.names
        assert names.ids == tuple(map(str, sorted(nodes["paper"])))
        assert [int(names.ids[node]) for node in names.order] == [*nodes["paper"].iloc[rows]]


def test_weights_of_repeated_edges_are_averaged(tmp_path):
    edges = "src,dst,cost\na,b,1\nb,a,3\na,c,2.5\nc,c,9\n"
    write(tmp_path, small(), edges)
    data = load_tables(tmp_path, weight="cost", split="random-fractions").data
    found = {tuple(pair): w for pair, w in zip(*_edges(data), strict=True)}
    assert found == {(0, 1): 2.0, (1, 0): 2.0, (0, 2): 2.5, (2, 0): 2.5}
    write(tmp_path, small(), "src,dst,cost\na,b,1\na,c,0\n")
    with pytest.raises(ValueError, match=r"line 3: cost is 0\.0; a weight takes a number above 0"):
        load_tables(tmp_path, weight="cost", split="random-fractions")
    unread = load_tables(tmp_path, split="random-fractions")
    assert "cost of the edges" in unread.notes[0]


def test_a_parquet_file_that_unpacks_to_many_times_its_size_is_refused(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("graphdrop.io.memory.ALWAYS", 2**20)
    monkeypatch.delenv("GRAPHDROP_MAX_BYTES", raising=False)
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda _: pytest.fail("it was unpacked"))
    table = arrow.table({"id": arrow.array(np.zeros(2_000_000))})
    parquet.write_table(table, tmp_path / "nodes.parquet")
    assert (tmp_path / "nodes.parquet").stat().st_size < 200_000
    with pytest.raises(ValueError, match=r"2000000 rows .* would take .*--max-bytes"):
        read_table(tmp_path / "nodes.parquet")


def test_equal_numbers_are_one_class(tmp_path):
    labels = ["1", "1.0", "2", "+2", "2e0", "01", "10", "1e1"]
    rows = [f"{i},{i},{label}" for i, label in enumerate(labels * 3)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,size,label", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    data = load_tables(tmp_path, split="random-fractions").data
    assert data.names.classes == ("1", "2", "10")
    assert data.y[:8].tolist() == [0, 0, 1, 1, 1, 0, 2, 2]


def test_two_columns_of_ids_are_found_beside_others_or_named(tmp_path):
    folder = write(tmp_path, small(), "paper,cites,weight,kind\na,b,0.5,old\nb,c,2,new\n")
    other = tmp_path / "other"
    other.mkdir()
    known = load_tables(write(other, small())).data.edge_index
    assert torch.equal(load_tables(folder).data.edge_index, known)
    write(tmp_path, small(), "first,second,third\na,b,a\nb,c,a\n")
    with pytest.raises(ValueError, match="3 of them hold node ids alone; it takes two"):
        load_tables(folder)
    named = load_tables(folder, source="first", target="second")
    assert torch.equal(named.data.edge_index, known)
    with pytest.raises(ValueError, match="give both columns of the edges"):
        load_tables(folder, source="first")
