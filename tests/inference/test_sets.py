"""Prediction sets hold the true class as often as they say, and are what a second way finds."""

import math
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import Predictive
from graphdrop.data.names import Names
from graphdrop.inference import sets as module
from graphdrop.inference.origin import Origin
from graphdrop.inference.sets import SetMethod, feature_neighbors
from graphdrop.inference.shift import CalibrationShiftWarning
from graphdrop.nn.defaults import SetNodes

METHODS = [method.value for method in SetMethod]
NODES, CLASSES, CALIBRATION, DIVISIONS = 600, 5, 100, 60


def graph(nodes: int, classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, Data]:
    """Logits, labels drawn from them, and a graph with features whose neighbors are alike."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(classes, (nodes,), generator=generator)
    noise = torch.randn(nodes, classes, generator=generator)
    logits = 1.5 * torch.nn.functional.one_hot(kind, classes) + noise
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator).squeeze(1)
    edges = torch.randint(nodes, (2, 6 * nodes), generator=generator)
    edges = edges[:, kind[edges[0]] == kind[edges[1]]]
    return logits, labels, Data(x=noise.abs(), edge_index=torch.cat([edges, edges.flip(0)], 1))


@pytest.fixture(scope="module")
def world() -> tuple[torch.Tensor, torch.Tensor, Data]:
    return graph(NODES, CLASSES, 0)


@pytest.fixture
def unfilled(monkeypatch):
    """No class stands in for an empty set, so that the coverage is exact."""
    monkeypatch.setattr(module, "fill_empty", lambda members, predicted: members)


def test_no_set_is_empty_and_only_empty_ones_are_changed(world, monkeypatch):
    method = "aps"
    logits, _, data = world
    answer = Predictive.from_logits(3.0 * logits, data)
    calibration = torch.arange(CALIBRATION), answer.predicted[:CALIBRATION]  # nearly always right
    shown = answer.sets(0.8, method, calibration=calibration)
    monkeypatch.setattr(module, "fill_empty", lambda members, predicted: members)
    before = answer.sets(0.8, method, calibration=calibration)
    empty = before.size() == 0
    assert 0 < int(empty.sum()) < NODES
    assert torch.equal(shown.members[~empty], before.members[~empty])
    for node in empty.nonzero().flatten().tolist():
        assert shown.classes(node) == [int(answer.predicted[node])]


@pytest.mark.usefixtures("unfilled")
@pytest.mark.parametrize("method", METHODS)
def test_the_mean_coverage_over_random_divisions_is_the_one_asked_for(world, method):
    """It also fails if sets cover too much: the scores are continuous, so coverage is exact.

    The coverage of one division has a standard deviation of about sqrt(0.9 * 0.1 * (1 / 100 +
    1 / 500)) = 0.033, the mean of 60 that share a graph one of about 0.0043 plus what the labels
    of the graph share, which divisions average out: 0.02 is more than four of them, a false alarm
    in fewer than 1 of 10,000 graphs.
    """
    logits, labels, data = world
    answer = Predictive.from_logits(logits, data)
    covered = []
    for seed in range(DIVISIONS):
        order = torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))
        rows, test = order[:CALIBRATION], order[CALIBRATION:]
        sets = answer.sets(0.9, method, calibration=(rows, labels[rows]), seed=seed)
        covered.append(float(sets.contains(labels)[test].double().mean()))
    assert sum(covered) / DIVISIONS == pytest.approx(0.9 + 0.1 / CALIBRATION / 2, abs=0.02)


@pytest.mark.usefixtures("unfilled")
@pytest.mark.parametrize(  # the threshold is taken in the same way of any scores
    ("method", "by_class"),
    [*((method, False) for method in METHODS), ("lac", True), ("snaps", True)],
)
def test_sets_are_those_of_a_second_way(method, by_class, monkeypatch):
    monkeypatch.setattr(module, "NEIGHBORS", 3)
    logits, labels, data = graph(20, 3, 2)
    answer = Predictive.from_logits(logits, data)
    found = answer.sets(0.7, method, calibration=(torch.arange(8), labels[:8]), by_class=by_class)
    p = answer.probabilities.double()
    u = torch.rand(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    aps = torch.empty(20, 3, dtype=torch.float64)
    for i in range(20):
        for c in range(3):
            above = sum(float(p[i, k]) for k in range(3) if p[i, k] > p[i, c])
            aps[i, c] = above + float(u[i] * p[i, c])
    x = data.x.double() / data.x.double().norm(dim=1, keepdim=True)
    scores = torch.empty(20, 3, dtype=torch.float64)
    for i in range(20):
        pairs = data.edge_index.t().tolist()
        near = [j for j, k in pairs if k == i and j != i] or [i]
        around = sum(aps[j] for j in near) / len(near)
        alike = sorted((j for j in range(20) if j != i), key=lambda j: -float(x[i] @ x[j]))[:3]
        weights = [float(x[i] @ x[j]) for j in alike]
        similar = sum(w * aps[j] for w, j in zip(weights, alike, strict=True)) / sum(weights)
        scores[i] = {
            "lac": 1 - p[i],
            "aps": aps[i],
            "daps": (aps[i] + around) / 2,
            "snaps": (aps[i] + around + similar) / 3,
        }[method]
    for c in range(3):
        those = [i for i in range(8) if not by_class or int(labels[i]) == c]
        true = sorted(float(scores[i, labels[i]]) for i in those)
        rank = math.ceil(0.7 * (len(those) + 1) - 1e-9)
        threshold = true[rank - 1] if rank <= len(true) else math.inf
        assert found.members[:, c].tolist() == (scores[:, c] <= threshold + 1e-12).tolist()


def test_the_same_seed_gives_the_same_sets_and_rows_have_those_they_have_among_all(world):
    logits, labels, data = world
    whole = Predictive.from_logits(logits, data)
    given = torch.arange(CALIBRATION), labels[:CALIBRATION]
    one, other = (whole.sets(calibration=given, seed=seed).members for seed in (0, 1))
    assert torch.equal(one, whole.sets(calibration=given).members)
    assert not torch.equal(one, other)
    rows = torch.cat([torch.tensor([500, 450]), given[0]])
    part = Predictive.from_logits(logits[rows])
    object.__setattr__(part, "origin", Origin.of(data, rows))
    torch.testing.assert_close(part.sets(calibration=given).members, one[rows])


def carried(held_out: bool, same_graph: bool, rows: torch.Tensor | None = None) -> Predictive:
    logits, labels, data = graph(NODES, CLASSES, 0)
    probabilities = torch.softmax(logits, 1)
    nodes = torch.arange(CALIBRATION)
    known = SetNodes(nodes, labels[nodes], probabilities[nodes], held_out, calibrated=False)
    made = Predictive.from_logits(logits if rows is None else logits[rows])
    origin = Origin.of(data, rows)
    origin = Origin(
        nodes=origin.nodes,
        rows=rows,
        edge_index=origin.edge_index,
        x=origin.x,
        set_nodes=SetNodes.from_json(known.as_json()),
        same_graph=same_graph,
    )
    object.__setattr__(made, "origin", origin)
    return made


def test_only_nodes_used_for_nothing_else_carry_the_guarantee():
    assert carried(held_out=False, same_graph=True).sets().approximate
    assert "approximate" in repr(carried(held_out=False, same_graph=True).sets())
    assert not carried(held_out=True, same_graph=True).sets(0.9, "snaps").approximate


def test_rows_without_the_calibration_nodes_use_what_is_stored_of_them():
    rows = torch.arange(300, 600)
    part, whole = carried(True, True, rows), carried(True, True)
    same = part.sets(0.9, "lac").members == whole.sets(0.9, "lac").members[rows]
    assert float(same.double().mean()) > 0.999  # stored with six digits
    with pytest.raises(ValueError, match=r"'daps'.*does not cover a whole graph"):
        part.sets(0.9, "daps")


def test_another_graph_is_warned_of():
    answer = carried(held_out=True, same_graph=False)
    with pytest.warns(CalibrationShiftWarning, match="may not transfer"):
        sets = answer.sets()
    assert sets.approximate
    with (
        pytest.warns(CalibrationShiftWarning),
        pytest.raises(ValueError, match="not among the nodes predicted"),
    ):
        answer.sets(0.9, "daps")


def test_what_is_missing_is_asked_for(world):
    logits, labels, data = world
    answer = Predictive.from_logits(logits, data)
    with pytest.raises(ValueError, match=r"Pass calibration=\(rows, labels\)"):
        answer.sets()
    with pytest.raises(ValueError, match="method is 'raps'; it takes one of 'lac', 'aps'"):
        answer.sets(0.9, "raps")
    with pytest.raises(ValueError, match="coverage is 90"):
        answer.sets(90)
    with pytest.raises(ValueError, match="3 nodes and 4 labels"):
        answer.sets(calibration=(torch.arange(3), labels[:4]))


def test_feature_neighbors_are_the_same_in_any_layout():
    x = torch.rand(30, 100, generator=torch.Generator().manual_seed(0))
    x = x * (x > 0.92)
    x[:, 0] = 0.1 + torch.arange(30) / 300  # no row without features, no two alike
    unit = torch.nn.functional.normalize(x.double(), dim=1)
    nearest = (unit @ unit.T).fill_diagonal_(-1.0).topk(4, 1)
    for layout in (x, x.to_sparse_coo(), x + 1e-12):
        nodes, similarity = feature_neighbors(layout, 4)
        assert torch.equal(nodes, nearest.indices)
        torch.testing.assert_close(similarity, nearest.values)
    assert feature_neighbors(x[:1], 4)[0].shape == (1, 0)


def rare_answer(nodes: int, seed: int) -> tuple[Predictive, torch.Tensor]:
    """About 6 % of the nodes are of class 1, as often as their probabilities say."""
    generator = torch.Generator().manual_seed(seed)
    score = 1.5 * torch.randn(nodes, generator=generator) - 3.6
    labels = (torch.rand(nodes, generator=generator) < score.sigmoid()).long()
    answer = Predictive.from_logits(torch.stack([torch.zeros(nodes), score], 1))
    return replace(answer, origin=Origin(class_counts=(940, 60))), labels


@pytest.mark.usefixtures("unfilled")
def test_where_a_class_is_rare_each_class_is_covered_as_promised_unasked():
    """The coverage of a class with m of k nodes has a standard deviation of about
    sqrt(0.09 * (1 / m + 1 / k)): 0.05 for 70 and 70; the mean of 40 draws is within 0.03."""
    covered = {0: [], 1: []}
    for seed in range(40):
        answer, labels = rare_answer(2000, seed)
        rows = torch.arange(1000)
        sets = answer.sets(0.9, calibration=(rows, labels[rows]))
        assert (sets.by_class, sets.method, sets.always) == (True, "lac", ())
        held = sets.contains(labels)[1000:]
        for label, found in covered.items():
            found.append(float(held[labels[1000:] == label].double().mean()))
    for found in covered.values():
        assert sum(found) / len(found) == pytest.approx(0.9, abs=0.03)


def test_a_class_with_too_few_calibration_nodes_is_in_every_set_and_named():
    answer, labels = rare_answer(1000, 0)
    frequent, rare = ((labels == label).nonzero().flatten() for label in (0, 1))
    for count, always in ((8, (1,)), (9, ())):  # 9 / (9 + 1) is 90 %
        rows = torch.cat([frequent[:100], rare[:count]])
        sets = answer.sets(0.9, calibration=(rows, labels[rows]))
        assert sets.always == always
        assert bool(sets.members[:, 1].all()) == bool(always)


def test_the_random_part_belongs_to_the_id_of_a_node():
    logits, labels, data = graph(60, 4, 0)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    ids = tuple(f"p{node}" for node in range(60))
    rows = torch.arange(30)

    def sets(order: torch.Tensor, seed: int) -> torch.Tensor:
        place = order.argsort()
        moved = Data(x=data.x[order], edge_index=place[data.edge_index])
        moved.names = Names(tuple(ids[node] for node in order))
        answer = Predictive.from_logits(logits[order], moved)
        calibration = place[rows], labels[rows]
        return answer.sets(0.8, "aps", calibration=calibration, seed=seed).members[place]

    first = sets(torch.arange(60), 0)
    assert torch.equal(first, sets(order, 0))
    assert not torch.equal(first, sets(order, 1))


@pytest.mark.parametrize(("name", "number"), [("nodes", 1e308), ("nodes", -1), ("labels", 0.5)])
def test_calibration_nodes_of_a_file_that_are_no_numbers_of_nodes_are_refused(name, number):
    values = {"nodes": [0], "labels": [1], "probabilities": [[0.5, 0.5]]}
    values |= {"held_out": True, "calibrated": False, name: [number]}
    with pytest.raises(ValueError, match=f"the {name} of the calibration nodes have"):
        SetNodes.from_json(values)
