"""The default settings beside simple models: tables, graphs with a known truth, and other graphs.

    python benchmarks/baselines.py --out benchmarks/results/baselines.jsonl --graphs FOLDER
    python benchmarks/baselines.py --out benchmarks/results/baselines.jsonl --page docs/baselines.md

Every line is one seed on one graph: a split of 60, 20 and 20 % drawn by the seed (or by time), the
default settings, and the simple models that the run itself fits on the same split. A run that is
stopped goes on where it was. The second command makes the page from the lines and trains nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop import Config, Trainer, load_dataset, load_tables
from graphdrop.config.auto import VERSION
from graphdrop.data import Dataset
from graphdrop.train.progress import Silent

TABLES = {
    "papers": ("examples/data", "paper_class", "paper_id"),
    "fraud": ("examples/data/fraud", "is_fraud", "account"),
    "tickets": ("examples/data/tickets", "kind", "ticket"),
    "tickets by time": ("examples/data/tickets", "kind", "ticket"),
    "houses": ("examples/data/houses", "price", "house_id"),
}
MADE = {
    "own": "a node's own features decide, by a line",
    "neighbours": "the mean of the neighbours' features decides, by a line",
    "product": "the sign of a feature times that of its mean over neighbours decides",
    "opposites": "neighbours are of another class, and features say little",
    "groups": "neighbours are of the same class, and features say little",
}
"""Made graphs by name: what decides the class of a node; a tenth of the labels is flipped."""
FILES = (
    "wisconsin",
    "chameleon_filtered",
    "squirrel_filtered",
    "actor",
    "minesweeper",
    "amazon_photo",
    "coauthor_cs",
)
"""Graphs in `.npz` files, from the folder that `--graphs` names."""
NODES, DEGREE, FEATURES, NOISE = 2000, 6, 8, 0.1
SEEDS = 5
LEVELS = {"accuracy": 0.01, "auroc": 0.01, "rmse": 0.02}
"""How far the default may be behind: points, or a share of the RMSE."""


def made(name: str) -> Data:
    """A graph of random edges whose labels follow a known rule."""
    generator = torch.Generator().manual_seed(list(MADE).index(name))
    x = torch.randn(NODES, FEATURES, generator=generator)
    groups = torch.randint(2, (NODES,), generator=generator)
    ends = torch.randint(NODES, (2, 3 * NODES * DEGREE // 2), generator=generator)
    alike = groups[ends[0]] == groups[ends[1]]
    keep = torch.rand(ends.shape[1], generator=generator)
    if name in ("groups", "opposites"):  # nine of ten edges are within, or across
        ends = ends[:, keep < torch.where(alike == (name == "groups"), 0.6, 0.6 / 9)]
    else:
        ends = ends[:, keep < 1 / 3]
    edges = torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1)
    if name in ("groups", "opposites"):
        x[:, 0] += 0.5 * (2.0 * groups - 1.0)
        label = groups
    else:
        label = (_score(name, x, edges) > 0).long()
    flipped = torch.rand(NODES, generator=generator) < NOISE
    return Data(x=x, edge_index=edges, y=torch.where(flipped, 1 - label, label))


def _score(name: str, x: Tensor, edges: Tensor) -> Tensor:
    total = torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]])
    around = total / edges[1].bincount(minlength=len(x)).clamp_min(1)[:, None]
    if name == "product":
        return x[:, 0] * around[:, 0]
    return (x if name == "own" else around)[:, :3].sum(1)


def dataset(graph: str, folder: Path | None, seed: int) -> Dataset:
    """One graph with the split of a seed."""
    how: dict[str, Any] = {"split": "random-fractions", "seed": seed}
    if graph in TABLES:
        where, label, name = TABLES[graph]
        if graph == "tickets by time":
            how = {"split_by_time": "opened"}
        return load_tables(f"{where}/nodes.csv", f"{where}/edges.csv", label=label, id=name, **how)
    data = made(graph) if graph in MADE else str(Path(str(folder)) / f"{graph}.npz")
    return load_dataset(data, **how)


def measure(graph: str, folder: Path | None, seed: int) -> dict[str, Any]:
    """The test and validation score of the default and of every simple model, for one seed."""
    found = dataset(graph, folder, seed)
    config = Config(seed=seed, data={"dataset": found.name})
    started = time.monotonic()
    trainer = Trainer(config, found, progress=Silent())
    result = trainer.fit()
    metric = next(name for name in ("rmse", "auroc", "accuracy") if name in result.test)
    scores = {"default": {"validation": result.validation, "test": result.test}}
    for name, scored in result.baselines.items():
        scores[name.replace("logistic", "linear").replace("ridge", "linear")] = scored
    settings = trainer.config.model
    return {
        "graph": graph,
        "seed": seed,
        "metric": metric,
        **{
            part: {name: scored[part][metric] for name, scored in scores.items()}
            for part in ("validation", "test")
        },
        "seconds": round(time.monotonic() - started, 1),
        "baseline_seconds": round(sum(row["seconds"] for row in result.baselines.values()), 1),
        "network": f"{settings.architecture}, {settings.layers} layers, {settings.residual}",
        "epochs": result.epochs,
        "recipe": VERSION,
    }


def page(lines: list[dict[str, Any]]) -> str:
    """The page: a row for each graph, the mean and standard deviation over its seeds."""
    names = list(dict.fromkeys(name for line in lines for name in line["test"]))
    planned = [*TABLES, *MADE, *FILES]
    rows, gains, behind = [], dict[str, float](), list[str]()
    counts = {graph: sum(line["graph"] == graph for line in lines) for graph in planned}
    for graph in (graph for graph in planned if counts[graph]):
        own = [line for line in lines if line["graph"] == graph]
        metric = own[0]["metric"]
        values = {n: [line["test"][n] for line in own] for n in names if n in own[0]["test"]}
        means = {name: mean(found) for name, found in values.items()}
        best = (min if metric == "rmse" else max)(
            value for name, value in means.items() if name != "default"
        )
        gain = (best - means["default"]) / best if metric == "rmse" else means["default"] - best
        gains[graph] = gain
        if round(gain, 6) < -LEVELS[metric]:
            behind.append(graph)
        cells = [
            f"{means[n]:.4g}" + (f" ± {stdev(values[n]):.2g}" if len(own) > 1 else "")
            if n in means
            else ""
            for n in names
        ]
        rows.append(
            f"| {graph} | {metric} | {len(own)} | {' | '.join(cells)} | {100 * gain:+.1f} |"
        )
    head = ["graph", "metric", "seeds", *(f"{name}, mean ± sd" for name in names)]
    head.append("gain (points or %)")
    share = sum(line["baseline_seconds"] for line in lines) / sum(line["seconds"] for line in lines)
    finished = [graph for graph in planned if counts[graph] >= SEEDS]
    begun = [graph for graph in planned if 0 < counts[graph] < SEEDS]
    absent = [graph for graph in planned if not counts[graph]]
    verdict = (
        f"Of the {len(gains)} graphs with a line the default is ahead of the best simple model, or "
        f"behind it by at most 1 point (2 % of the RMSE), on {len(gains) - len(behind)}. "
        f"{'The others: ' + ', '.join(behind) + '. ' if behind else ''}"
        f"The gains have a mean of {100 * mean(gains.values()):+.1f} and a median of "
        f"{100 * median(gains.values()):+.1f}. The simple models took {100 * share:.0f} % of the "
        "time of the runs."
    )
    extent = (
        f"**How far it goes.** {SEEDS} seeds of {len(planned)} graphs are planned. "
        f"{len(finished)} have them; {len(begun)} have fewer, so that one more seed may change "
        "their row"
        + (f"; these have none yet: {', '.join(absent)}" if absent else "")
        + f". Of {len(lines)} lines {sum(line.get('recipe') == VERSION for line in lines)} were "
        f"made by version {VERSION} of the recipe `auto`. The others are of version 4 and stand "
        "for graphs on which both versions try the same settings: where the test of version 5 "
        "finds no difference between edges, or the targets are numbers."
    )
    return "\n".join(
        [
            "# The default beside simple models",
            "",
            "Test scores of the default settings (`graphdrop train`) and of the",
            "[simple models](training.md#simple-models-beside-the-network) that every run fits",
            "beside them, on the tables of `examples/data`, on made graphs and on files. Each seed",
            "has its own split of 60, 20 and 20 %; the tickets are also split by time. The gain is",
            "over the simple model with the best mean on test nodes, which nobody knows before.",
            "`benchmarks/baselines.py` makes the page from `benchmarks/results/baselines.jsonl`,",
            "and goes on where it was stopped.",
            "",
            verdict,
            "",
            extent,
            "",
            "| " + " | ".join(head) + " |",
            "|" + "---|" * len(head),
            *rows,
            "",
            "Graphs with a known truth, 2,000 nodes each, a tenth of their labels flipped:",
            *(
                f"{'' if n else chr(10)}- **{name}**: {rule}"
                for n, (name, rule) in enumerate(MADE.items())
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the lines, JSON")
    parser.add_argument("--graphs", type=Path, help="a folder of .npz files, each a graph")
    parser.add_argument("--only", nargs="*", help="names of graphs; all by default")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--page", type=Path, help="write this page from the lines, train nothing")
    given = parser.parse_args()
    text = given.out.read_text("utf-8") if given.out.exists() else ""
    lines = [json.loads(row) for row in text.splitlines()]
    if given.page:
        given.page.write_text(page(lines), "utf-8")
        return
    files = FILES if given.graphs else ()
    done = {(line["graph"], line["seed"]) for line in lines}
    for seed in range(given.seeds):
        for graph in given.only or [*TABLES, *MADE, *files]:
            if (graph, seed) in done:
                continue
            found = measure(graph, given.graphs, seed)
            print(json.dumps(found), flush=True)
            with given.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
