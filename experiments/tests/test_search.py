"""A search gives every row the same budget, sees validation nodes only, and finds what is best."""

import json
import math
import tomllib

import numpy as np
import pytest

from experiments import Store, search_ranking
from experiments import recipe as recipes
from experiments import search as searches
from experiments.keys import run_key
from experiments.recipe import Recipe, read_recipe
from experiments.search import checked_search, read_search
from experiments.search_ranking import outcome
from experiments.search_results import fragment, table
from experiments.single_run import run_config
from experiments.spaces import Space
from graphdrop.data.synthetic import synthetic_graph

KEPT = {"key", "seed", "config", "data", "versions", "validation", "epochs", "selected_epoch"}
KEPT |= {"drop_rates", "seconds", "cpu_seconds", "seconds_per_epoch", "peak_megabytes"}
SEARCH = {
    "title": "A search",
    "datasets": ["cora"],
    "layers": [2],
    "rows": [{"name": "GCN-DO"}, {"name": "wide", "method": "GCN-DO", "set": {}}],
    "rules": [{"set": {"train": {"epochs": 6, "patience": 0}}}],
    "spaces": [
        {"choose": {"model.dropout": [0.1, 0.2, 0.3, 0.5], "model.norm": ["row", "sym"]}},
        {"rows": ["wide"], "log": {"objective.l2": [1e-5, 1e-2]}},
    ],
    "draw_seed": 3,
    "trials": 5,
    "first_seed": 50,
    "finalists": 2,
    "finalist_seeds": 2,
}


def made(**changes):
    return checked_search(SEARCH | changes, "some")


def record(accuracy: float, nll: float = 1.0, **more):
    return {"seconds": 1.0, "validation": {"accuracy": accuracy, "nll": nll}, **more}


def filled(cell, accuracies, finals=()):
    """Runs of the first seed for all trials, and further ones by trial."""
    runs = {t.keys[0]: record(a) for t, a in zip(cell.trials, accuracies, strict=True)}
    for number, more in dict(finals).items():
        runs |= {k: record(a) for k, a in zip(cell.trials[number].keys[1:], more, strict=True)}
    return runs


def configurations_of(search, cell) -> float:
    """How many configurations the spaces of a cell have."""
    row = next(row for row in search.rows if row.name == cell.row)
    spaces = [space for space in search.spaces if space.fits(row, cell.dataset, cell.layers)]
    if any(space.log for space in spaces):
        return math.inf
    choices = {name: set(values) for space in spaces for name, values in space.choose.items()}
    sets = [len({*map(str, space.together)}) for space in spaces if space.together]
    return math.prod([*map(len, choices.values()), *sets])


@pytest.mark.parametrize("name", searches.names())
def test_every_search_has_one_budget_for_all_rows_and_configurations_that_differ(name):
    search = read_search(name)
    cells = search.cells()
    for cell in cells:
        assert len(cell.trials) == min(search.trials, configurations_of(search, cell))
    keys = [key for cell in cells for trial in cell.trials for key in trial.keys]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", searches.names())
def test_no_search_uses_a_seed_that_a_recipe_reports(name):
    reported = {
        seed
        for recipe in map(read_recipe, recipes.names())
        for seed in range(recipe.first_seed, recipe.first_seed + recipe.runs)
    }
    assert not reported & set(read_search(name).seeds)


def test_a_configuration_depends_on_its_cell_and_number_alone():
    few, many = made(trials=3, rows=SEARCH["rows"][1:]).cells(), made(trials=6).cells()
    assert few[0].trials == many[1].trials[:3]
    other = made(draw_seed=4).cells()
    assert other[0].trials[0] == many[0].trials[0]
    assert other[0].trials[1:] != many[0].trials[1:5]


def test_settings_that_belong_together_are_drawn_together():
    sets = [{"model.hidden": 8, "model.dropout": 0.1}, {"model.hidden": 16, "model.dropout": 0.5}]
    space = Space(together=sets)
    assert space.keys == ["model.hidden", "model.dropout"]
    drawn = [space.draw(number) for number in range(200)]
    assert all(one in sets for one in drawn)
    assert 70 < sum(one == sets[0] for one in drawn) < 130
    with pytest.raises(ValueError, match="the same settings"):
        Space(together=[{"model.hidden": 8}, {"model.dropout": 0.5}])
    twice = [{"together": [{"model.hidden": 8}]}, {"together": [{"model.dropout": 0.1}]}]
    with pytest.raises(ValueError, match="two spaces with `together`"):
        made(spaces=twice)


def test_draws_are_spread_evenly_and_of_two_digits():
    space = Space(choose={"model.hidden": [1, 2, 4]}, log={"objective.l2": [1e-4, 1e-2]})
    drawn = [space.draw(number) for number in range(3000)]
    hidden = [one["model.hidden"] for one in drawn]
    assert [hidden.count(size) for size in (1, 2, 4)] == pytest.approx([1000] * 3, abs=110)
    logs = [math.log10(one["objective.l2"]) for one in drawn]
    assert (min(logs), max(logs)) == pytest.approx((-4, -2), abs=0.01)
    assert np.histogram(logs, bins=4)[0] == pytest.approx([750] * 4, abs=110)
    assert all(one["objective.l2"] == float(f"{one['objective.l2']:.1e}") for one in drawn)


def test_a_space_smaller_than_the_budget_is_searched_whole():
    search = made(spaces=[{"choose": {"model.dropout": [0.1, 0.2, 0.5]}}], trials=50)
    for cell in search.cells():  # the first configuration is DropOut's default, 0.5
        assert sorted(trial.drawn["model.dropout"] for trial in cell.trials) == [0.1, 0.2, 0.5]


def test_the_best_mean_of_the_finalists_wins():
    search = made()
    cell = search.cells()[0]
    found = outcome(search, cell, filled(cell, [0.5, 0.8, 0.7, 0.79, 0.1]))
    assert [one.trial.number for one in found.finalists] == [1, 3]
    assert (found.winner, found.missing, found.tried) == (None, 4, 5)
    runs = filled(cell, [0.5, 0.8, 0.7, 0.79, 0.1], {1: [0.6, 0.7], 3: [0.78, 0.77]})
    found = outcome(search, cell, runs)
    assert found.missing == 0
    assert found.winner.trial.number == 3
    assert found.winner.accuracy == pytest.approx((0.79 + 0.78 + 0.77) / 3)


def test_a_run_that_diverged_is_the_worst_and_not_the_end():
    search = made(finalists=5, finalist_seeds=0)
    cell = search.cells()[0]
    gone = {"seconds": 1.0, "error": "diverged in epoch 3"}
    runs = filled(cell, [0.5, 0.8, 0.7, 0.6, 0.1]) | {cell.trials[1].keys[0]: gone}
    found = outcome(search, cell, runs)
    assert [one.trial.number for one in found.finalists] == [2, 3, 0, 4, 1]
    assert "1 diverged" in table(search, [found]).note
    assert outcome(search, cell, dict.fromkeys(runs, gone)).winner is None


def test_test_figures_cannot_change_the_winner():
    search = made(finalist_seeds=0)
    cell = search.cells()[0]
    runs = filled(cell, [0.5, 0.8, 0.7, 0.79, 0.1])
    lures = {key: one | {"test": {"accuracy": 1.0 - one["validation"]["accuracy"], "nll": 0.0}}
             for key, one in runs.items()}  # fmt: skip
    plain, lured = outcome(search, cell, runs), outcome(search, cell, lures)
    assert lured.winner.trial == plain.winner.trial
    assert fragment(search, "some", [lured]) == fragment(search, "some", [plain])


def write_graph(path, *, scrambled: bool):
    """80 nodes with a stored split; `scrambled` gives the test nodes other labels."""
    data = synthetic_graph(80, 3, num_features=30, words_per_node=6.0, seed=0).data
    part, labels = np.arange(80) % 4, data.y.numpy().copy()
    if scrambled:
        labels[part == 2] = (labels[part == 2] + 1) % 3
    names = ("train", "val", "test")
    masks = {f"{name}_masks": (part == n)[None] for n, name in enumerate(names)}
    edges = data.edge_index.T.numpy()
    np.savez(path, node_features=data.x.numpy(), node_labels=labels, edges=edges, **masks)
    return str(path)


def test_a_blind_run_does_not_depend_on_the_labels_of_test_nodes(tmp_path, tiny_config):
    records = [
        run_config(
            tiny_config(data={"dataset": write_graph(tmp_path / name, scrambled=scrambled)}),
            blind=True,
        )
        for name, scrambled in (("as-it-is.npz", False), ("scrambled.npz", True))
    ]
    assert records[0]["data"] != records[1]["data"]
    for name in ("validation", "selected_epoch", "drop_rates", "epochs"):
        assert records[0][name] == records[1][name]
    for one in records:
        assert set(one) <= KEPT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, r"some\.toml is wrong in trials \("),
        ({"spaces": [{"choose": {"model.dropuot": [0.1]}}]}, "draws model.dropuot, which a search"),
        ({"spaces": [{"choose": {"data.split_seed": [1]}}]}, "draws data.split_seed, which"),
        ({"spaces": [{"choose": {"seed": [1]}}]}, "draws seed, which a search cannot"),
        ({"spaces": [{"choose": {"model.dropout": []}}]}, "spaces.0.choose.model.dropout"),
        ({"spaces": [{"log": {"objective.l2": [0.0, 1.0]}}]}, "spaces.0.log.objective.l2.0"),
        (
            {"rows": [{"name": "GCN-DO", "set": {"model": {"norm": "row"}}}]},
            "draws model.norm, which the row GCN-DO sets: set it in a rule instead",
        ),
    ],
)
def test_a_file_that_is_wrong_says_where(changes, message):
    with pytest.raises(ValueError, match=message):
        made(**changes)


def recipe_of(search, rules):
    values = SEARCH | {"runs": 1, "rules": rules, "quick": {"runs": 1}, "first_seed": 50}
    names = Recipe.model_fields
    return Recipe.model_validate({name: value for name, value in values.items() if name in names})


def test_a_recipe_with_the_winners_makes_the_runs_that_won():
    search = made()
    cells = search.cells()
    wide = filled(cells[1], [0.1, 0.2, 0.3, 0.8, 0.7], {3: [0.8, 0.8], 4: [0.7, 0.7]})
    plain = filled(cells[0], [0.1, 0.9, 0.8, 0.2, 0.3], {1: [0.9, 0.9], 2: [0.8, 0.8]})
    # Whichever comes first, neither row may take from the other's rule.
    outcomes = [outcome(search, cell, plain | wide) for cell in reversed(cells)]
    text = fragment(search, "some", outcomes)
    rules = [*SEARCH["rules"], *tomllib.loads(text)["rules"]]
    runs = {cell.row: cell.configs[0] for cell in recipe_of(search, rules).cells()}
    assert runs["GCN-DO"] == cells[0].trials[1].configs[0]
    assert runs["wide"] == cells[1].trials[3].configs[0]
    assert "# cora, 2 layers, wide: 80.00 %, NLL 1.000, 3 seeds, trial 3" in text
    assert "No winner" not in text


def test_all_configurations_are_run_once_and_then_only_the_finalists_again(monkeypatch, tmp_path):
    search, store, asked = made(), Store(tmp_path), []

    def run_cells(configs, store, jobs, *, blind, display, executor, device):
        assert blind
        for config in configs:
            if (key := run_key(config)) not in store.records():
                asked.append((config.seed, config.model.dropout, config.model.norm))
                score = config.model.dropout - 0.01 * (config.model.norm == "row")
                store.append(record(score, key=key))

    monkeypatch.setattr(search_ranking, "run_cells", run_cells)
    cells = search.cells()[:1]
    search_ranking.compete(search, cells, store, jobs=1)
    drawn = [(t.drawn["model.dropout"], t.drawn["model.norm"]) for t in cells[0].trials]
    assert asked[:5] == [(50, *one) for one in drawn]
    best, second, *_ = sorted(drawn, key=lambda one: one[0] - 0.01 * (one[1] == "row"))[::-1]
    assert asked[5:] == [(seed, *one) for one in (best, second) for seed in (51, 52)]
    found = outcome(search, cells[0], store.records())
    assert tuple(found.winner.trial.drawn.values()) == best


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A search of a few seconds, known by the name small; the folder of its results."""
    graph = write_graph(tmp_path / "graph.npz", scrambled=False)
    (tmp_path / "small.toml").write_text(f"""
title = "A small search"
datasets = [{json.dumps(graph)}]
layers = [2]
rows = [{{ name = "GCN-DO" }}]
draw_seed = 1
trials = 3
first_seed = 50
finalists = 1
finalist_seeds = 0
[[rules]]
set.train = {{ epochs = 3, evaluate_every = 1 }}
set.model.hidden = 4
[[spaces]]
choose = {{ "model.dropout" = [0.1, 0.2, 0.3, 0.4, 0.6] }}
""")
    monkeypatch.setattr(searches, "searches_folder", lambda: tmp_path)
    return tmp_path / "results"


def test_the_command_searches_once_and_leaves_no_test_figure(run, small, tmp_path):
    winners, log = tmp_path / "winners.toml", small / "searches" / "small.jsonl"
    words = ("search", "small", "--results", small, "--jobs", 1)
    code, out, error = run(*words, "--out", winners)
    assert code == 0, error
    assert "3 of 3" in out
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [50, 50, 50]
    for line in lines:
        assert set(line) <= KEPT
        assert "test" not in json.dumps(line["validation"])
    (rule,) = tomllib.loads(winners.read_text())["rules"]
    best = min(lines, key=lambda one: (-one["validation"]["accuracy"], one["validation"]["nll"]))
    assert rule["set"] == {"model": {"dropout": best["config"]["model"]["dropout"]}}
    assert "A small search" in (small / "searches" / "small.md").read_text()
    before = log.read_bytes()
    for more in ((), ("--render-only",)):
        assert run(*words, *more)[:2] == (0, out.replace(f", {winners}", ""))
    assert log.read_bytes() == before
