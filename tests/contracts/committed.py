"""What the committed lines say: the words in which `quoted_figures.toml` asks for a figure.

A cell is named `recipe/column/row`, such as `table1-tuned/cora-4/GCN-DO`. A figure of it is one
number per run, by seed and, where classes are left out, by class. Shares are in percent.
"""

import json
import re
import statistics
import tomllib
from functools import cache
from pathlib import Path

import numpy as np

from graphdrop.experiments import recipe as recipes
from graphdrop.experiments.ood_table import resampled
from graphdrop.experiments.set_table import torchcp_sizes
from graphdrop.experiments.store import Store
from graphdrop.experiments.trust import pooled_ece
from graphdrop.report.tables import Summary, summarise

ROOT = Path(__file__).parents[2]
PERCENT = ("accuracy", "ece", "pavpu", "auroc", "aupr")

GRAPHS = ("cora", "citeseer", "cora_ml", "pubmed")
OOD_GRAPHS = (*GRAPHS, "chameleon_filtered", "amazon_photo")
TABLE1 = tuple(f"{dataset}-{layers}" for dataset in GRAPHS[:3] for layers in (2, 4))
FIXED = ("GCN-DO", "GCN-DE", "GCN-DO-DE")
LEARNED = ("GCN-BBDE", "GCN-BBGDC")
ARM = ("GCN-BDE-ARM", "GCN-BBDE-ARM", "GCN-BBGDC-ARM")
LOCAL = tuple(
    f"local, KL {how}" for how in ("summed", "averaged", "averaged, prior 0.2", "averaged, prior 4")
)
OOD_CONTROL = "softmax, recipe of GCN-BBGDC"
LEARNED_RATE = "ablation-paper/cora-4/as in the paper"

Figures = dict[tuple, float]


# Lines and cells


@cache
def lines(name: str) -> list[dict]:
    """The lines of a file of runs, such as `searches/looks`."""
    text = (ROOT / "results" / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def runs() -> dict[str, dict]:
    """Every run of a recipe by its key."""
    return Store(ROOT / "results").records()


@cache
def cells(recipe: str) -> dict[str, dict[tuple, str]]:
    """The keys of a recipe's runs, by `column/row` and then by seed and class left out."""
    read = recipes.read_recipe(recipe)
    return {
        f"{cell.column}/{cell.row}": {
            (config.seed, getattr(config, "left_out", None)): key
            for config, key in zip(cell.configs, cell.keys(watch=read.watch), strict=True)
        }
        for cell in read.cells()
    }


@cache
def records(cell: str) -> dict[tuple, dict]:
    """The runs of a cell that are there."""
    recipe, _, place = cell.partition("/")
    there = runs()
    return {unit: there[key] for unit, key in cells(recipe)[place].items() if key in there}


def values(cell: str, of: str = "test.accuracy") -> Figures:
    """A figure of each run of a cell, by its path in the line."""
    factor = 100.0 if of.rpartition(".")[2] in PERCENT else 1.0
    return {unit: factor * _at(record, of) for unit, record in records(cell).items()}


def sampled(cell: str, of: str) -> Figures:
    """A figure on test nodes as predicted with samples, apart or, by most methods, anyway."""
    apart = any("sampled" in record for record in records(cell).values())
    return values(cell, f"sampled.test.{of}" if apart else f"test.{of}")


def _at(record: dict, path: str) -> float:
    value = record
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return float(value)


# Means and differences


def mean(of: Figures) -> float:
    """The mean over runs."""
    return statistics.fmean(of.values())


def summary(of: Figures) -> Summary:
    """Mean and Student's 95 % interval over runs."""
    return summarise([*of.values()])


def over(own: Figures, others: Figures) -> Summary:
    """How far one figure is above another on the same seeds: mean and 95 % interval."""
    both = [unit for unit in own if unit in others]
    assert both, "the two have no seed in common"
    return summarise([own[unit] - others[unit] for unit in both])


def interval(of: Summary) -> tuple[float, float]:
    """Its two ends."""
    return of.low, of.high


def span(*numbers: float) -> tuple[float, float]:
    """The smallest and the largest."""
    return min(numbers), max(numbers)


# Accuracy


def accuracy(cell: str) -> float:
    """The mean test accuracy of a cell."""
    return mean(values(cell))


def lead(column: str, row: str, other: str) -> Summary:
    """How far a row's accuracy is above another's in a column, such as `table1-tuned/cora-4`."""
    return over(values(f"{column}/{row}"), values(f"{column}/{other}"))


def arm(recipe: str, dataset: str, method: str) -> Summary:
    """How far ARM's accuracy is above the relaxed masks' at 4 layers."""
    concrete = values(f"table1-{recipe}/{dataset}-4/{method}")
    return over(values(f"table2-{recipe}/{dataset}-4/{method}-ARM"), concrete)


def agreement(dataset: str, method: str) -> Summary:
    """What the agreement term adds to a method's accuracy at 2 layers."""
    without = values(f"table1-tuned/{dataset}-2/{method}")
    return over(values(f"agree-tuned/{dataset}-2/{method}+agree"), without)


def behind_best(recipe: str, method: str, among: tuple[str, ...] = (*FIXED, *LEARNED)) -> list:
    """How far a method's mean is below the best of some in each cell of table 1."""
    return [
        max(accuracy(f"{recipe}/{column}/{one}") for one in among)
        - accuracy(f"{recipe}/{column}/{method}")
        for column in TABLE1
    ]


def gap(cell: str) -> float:
    """Accuracy on training nodes minus that on test nodes."""
    return mean(values(cell, "train.accuracy")) - accuracy(cell)


@cache
def paper() -> dict:
    """What the paper prints."""
    path = ROOT / "src/graphdrop/experiments/paper.toml"
    return tomllib.loads(path.read_text("utf-8"))


def beside_paper(cell: str) -> float:
    """How far the mean of a cell is above the one that the paper prints."""
    recipe, column, row = cell.split("/")
    return accuracy(cell) - paper()[recipe.partition("-")[0]][row][column][0]


# Uncertainty and rates


def detected(recipe: str, row: str, other: str, score: str = "entropy") -> Summary:
    """How far a row's AUROC by entropy is above another's by `score`, over all classes."""
    differences = []
    for column in dict.fromkeys(place.partition("/")[0] for place in cells(recipe)):
        own = values(f"{recipe}/{column}/{row}", "detection.entropy.auroc")
        others = values(f"{recipe}/{column}/{other}", f"detection.{score}.auroc")
        differences += [own[unit] - others[unit] for unit in own]
    return summarise(differences)


def pavpu(column: str, threshold: float) -> float:
    """How far GCN-BBGDC's PAvPU (%) is above GCN-DO's at a fraction of the largest entropy."""
    of = f"curves.pavpu.fraction-of-largest.{round(20 * threshold)}"
    learned, baseline = (values(f"{column}/{row}", of) for row in ("GCN-BBGDC", "GCN-DO"))
    return 100.0 * over(learned, baseline).mean


def pavpu_above_from(column: str) -> float:
    """The threshold from which on it is above."""
    return (max(k for k in range(10, 21) if pavpu(column, k / 20) <= 0) + 1) / 20


def total_variation(row: str, layer: int) -> tuple[float, float]:
    """Of a hidden layer, counted from 1, at epoch 10 and at the end."""
    courses = [run["total_variation"] for run in records(f"fig-tv-paper/cora-4/{row}").values()]
    ends = [
        (course["layers"][layer - 1][course["epochs"].index(10)], course["layers"][layer - 1][-1])
        for course in courses
    ]
    return statistics.fmean(first for first, _ in ends), statistics.fmean(last for _, last in ends)


def kl(cell: str) -> float:
    """The KL of a rate at the end, summed over layers."""
    return mean(values(cell, "kl.values.-1"))


def amortised_rates(of: str) -> list[float]:
    """A figure of the rates of each layer on each graph, by its path in the line."""
    return [
        mean(values(f"amortised-paper/{place}", f"edge_rates.layers.{layer}.{of}"))
        for place in cells("amortised-paper")
        if place.endswith("/amortised, KL averaged")
        for layer in range(4)
    ]


def within_minus_between() -> list[float]:
    """What amortised rates keep more of edges within a class than between two, in size."""
    kinds = (amortised_rates(f"{kind}.mean") for kind in ("within a class", "between classes"))
    return [abs(within - between) for within, between in zip(*kinds, strict=True)]


# Searches, looks and runs of other kinds


@cache
def looks() -> dict[str, list[dict]]:
    """The looks at single settings, by their name."""
    named: dict[str, list[dict]] = {}
    for record in lines("searches/looks"):
        named.setdefault(record["name"], []).append(record)
    return named


def look(name: str, of: str = "accuracy") -> float:
    """The mean over seeds of a figure on validation nodes."""
    factor = 100.0 if of in PERCENT else 1.0
    return factor * statistics.fmean(record["validation"][of] for record in looks()[name])


@cache
def superseded() -> dict[tuple[str, str], dict[int, float]]:
    """Accuracy of test seeds with earlier settings, by dataset and method, then by depth."""
    asked = {
        key for name in recipes.names() for cell in cells(name).values() for key in cell.values()
    }
    found: dict[tuple, list[float]] = {}
    for key, record in runs().items():
        model, dataset = record["config"]["model"], record["config"]["data"]["dataset"]
        if key not in asked and record["seed"] >= 100 and "test" in record:
            cell = (dataset, model["method"], model["layers"])
            found.setdefault(cell, []).append(100.0 * record["test"]["accuracy"])
    means: dict[tuple[str, str], dict[int, float]] = {}
    for (dataset, method, layers), figures in found.items():
        means.setdefault((dataset, method), {})[layers] = statistics.fmean(figures)
    return means


def won(search: str, cell: str) -> float:
    """The best mean accuracy on validation nodes of a cell in the table of a search."""
    table = (ROOT / "results" / "searches" / f"{search}.md").read_text("utf-8")
    line = next(line for line in table.splitlines() if line.startswith(f"| {cell} |"))
    return float(line.split("|")[4].partition("%")[0])


def bought(strategy: str, labels: int) -> Figures:
    """Accuracy of active learning with so many labels, by seed."""
    return {
        (record["seed"],): 100.0 * record["accuracy"][record["labels"].index(labels)]
        for record in lines("active/runs")
        if record["strategy"] == strategy
    }


# Calibrators, prediction sets, out-of-distribution scores


@cache
def counted(graph: str) -> dict:
    """What was counted of the prediction sets of a graph."""
    found = [one for one in runs().values() if "sets" in one]
    return next(one["sets"] for one in found if one["config"]["data"]["dataset"] == graph)


@cache
def set_graphs() -> list[str]:
    """The graphs of which prediction sets were counted."""
    return [one["config"]["data"]["dataset"] for one in runs().values() if "sets" in one]


def set_coverages(*graphs: str) -> list[float]:
    """The coverage of every score on some graphs, in percent."""
    return [100 * one["all"]["coverage"] for g in graphs for one in counted(g).values()]


def torchcp_gaps(sizes: str) -> list[float]:
    """How far our sizes are from TorchCP's, in percent of these."""
    known = torchcp_sizes()
    pairs = [
        (counted(graph)[method]["all"]["size"], size)
        for graph, one in known["sizes"].items()
        for method, size in (one | known[sizes][graph]).items()
    ]
    return [100 * abs(ours / theirs - 1) for ours, theirs in pairs]


def consistency_auroc(score: str) -> float:
    """The mean AUROC of GCN-BBGDC with the consistency loss, of the classes that were run."""
    found = [one["auroc"]["class"]["sampled"][score] for one in lines("searches/ood-consistency")]
    return 100 * statistics.fmean(value for one in found for value in one)


def ood_auroc(graph: str, method: str, view: str, score: str, classes: range | None = None) -> list:
    """AUROC of every network by class, in percent, with the same settings for all."""
    found = [
        one["unfamiliar"]["class"][view][score]
        for key, one in records(f"ood-auto/{graph}-2/{method}").items()
        if classes is None or key[1] in classes
    ]
    return [100 * value for one in found for value in one]


def _left_out(graph: str, method: str, view: str, score: str) -> np.ndarray:
    """AUROC by class and network, of graphs that were given as files too."""
    found = {
        one["config"]["left_out"]: one["unfamiliar"]["class"][view][score]
        for one in runs().values()
        if "unfamiliar" in one
        and one["config"]["data"]["dataset"] == graph
        and one["config"]["model"]["method"] == method
    }
    return np.array([found[one] for one in recipes.read_recipe("ood-auto").left_out[graph]])


def energy_lead(method: str, view: str, score: str, *graphs: str) -> list[float]:
    """How far GCN-BBGDC by its energy at all scales is above another: mean and 95 % interval."""
    gaps = []
    for graph in graphs:
        own = _left_out(graph, "GCN-BBGDC", "sampled", "energy_all")
        gaps.append(100 * (own - _left_out(graph, method, view, score)))
    return [float(np.mean([gap.mean() for gap in gaps])), *resampled(gaps)]


# Trust


def pooled(graph: str, method: str) -> list[float]:
    """Calibration error of all test predictions of the default settings, and the floor's mean."""
    trust = recipes.read_recipe("trust-auto")
    own = [
        record
        for record in runs().values()
        if "floor_gaps" in record
        and 0 <= record["seed"] - trust.first_seed < trust.runs  # others have the settings, too
        and Path(record["config"]["data"]["dataset"]).stem == graph
        and record["config"]["model"]["method"] == method
    ]
    error, floor, _ = pooled_ece(own)
    return [100.0 * error, 100.0 * floor]


# Benchmarks


def benchmark(name: str, part: str, row: int) -> float:
    """A figure of a part of a benchmark."""
    read = json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text("utf-8"))
    return read["parts"][part]["rows"][row]["figure"]


def noted(name: str, part: str, row: int, count: int = 2) -> list[float]:
    """The first decimal numbers in the note beside a figure of a benchmark."""
    read = json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text("utf-8"))
    note = read["parts"][part]["rows"][row]["note"]
    return [float(one) for one in re.findall(r"\d+\.\d+", note)][:count]
