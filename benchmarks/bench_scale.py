"""Mini-batches and ranks: sampling, masks in an epoch, two processes, and how good the result is.

``python benchmarks/bench_scale.py [--quick] [PART ...]`` measures all or some of the parts that are
named at the end, and puts them into ``results/scale.json`` beside what is there; ``--quick`` takes
small graphs, to see that it runs, and writes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count, cycle
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import numpy_sampler
from graphdrop import GCN, Config, GraphDropConnect, Trainer, load_dataset
from graphdrop.data import Dataset
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.loading import NeighborLoader
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.train.progress import Silent
from large_graphs import random_graph
from table import Report, Row
from timing import best_of

HERE = Path(__file__).parent
FAN_OUTS, BATCH = [15, 10, 5], 1024
SEEDS = 5
"""Of the comparison of mini-batches with full batch."""


def sampling(report: Report, quick: bool) -> None:
    """Figure 1: against numpy, and one thread against two."""
    nodes = 20_000 if quick else 1_000_000
    data = random_graph(nodes, 20 * nodes, 1, 1)
    loader = NeighborLoader(data, FAN_OUTS, batch_size=BATCH)
    sampler, whole = loader._sampler, loader.whole
    generator, local = np.random.default_rng(0), np.full(nodes, -1)
    some = [generator.permutation(nodes)[:BATCH] for _ in range(8)]
    seeds, steps = cycle(some), count()

    def ours(threads: int) -> Any:
        def run() -> None:
            torch.set_num_threads(threads)
            sampler.sample(next(seeds), 0, next(steps))

        return run

    def peer() -> None:
        numpy_sampler.sample(whole.indptr, whole.source, next(seeds), FAN_OUTS, generator, local)

    # batch after batch, as in an epoch
    runs = {"numpy": peer, "one": ours(1), "two": ours(2)}
    best = best_of(runs, 5 if quick else 15, 0.05 if quick else 0.3)
    torch.set_num_threads(2)
    size = f"{nodes:,} nodes, {20 * nodes:,} edges, {BATCH} seeds, {FAN_OUTS}"
    edges = len(sampler.sample(some[0], 0, 0).positions)
    note = f"{1e3 * best['numpy']:.1f} ms numpy, {1e3 * best['two']:.1f} ms ours, {edges} edges"
    report.add(Row(f"numpy / ours, {size}", best["numpy"] / best["two"], 10.0, True, note))
    note = f"{1e3 * best['one']:.1f} ms one thread"
    report.add(Row("one thread / two", best["one"] / best["two"], 1.6, True, note))


def batches(report: Report, quick: bool) -> None:
    """Figure 2, mini-batches: an epoch with masks against the same epoch without."""
    nodes, train = (20_000, 4_000) if quick else (1_000_000, 100_000)
    data = random_graph(nodes, 20 * nodes, 128, train)
    labels = data.y
    loader = NeighborLoader(
        data, FAN_OUTS, data.train_mask, batch_size=BATCH, shuffle=True, importance=True
    )

    def epoch(sampler: Any) -> Any:
        model = GCN(128, 128, 3, 8, sampler, seed=0)
        optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=True)

        def run() -> None:
            loader.epoch = 0  # the same batches for both
            for batch in loader:
                with model.batch(batch):
                    out = model(batch.x, batch.edge_index)
                optimizer.zero_grad()
                wanted = labels[batch.n_id[: batch.batch_size]]
                torch.nn.functional.cross_entropy(out, wanted).backward()
                optimizer.step()

        return run

    with_masks = GraphDropConnect(BetaBernoulliRate(), blocks=2)
    runs = {"off": epoch(None), "masks": epoch(with_masks)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    next(iter(loader))
    for _ in range(2 if quick else 3):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    masks, off = min(times["masks"]), min(times["off"])
    size = f"{nodes:,} nodes, {train:,} for training, 3 layers of 128"
    note = f"{masks:.1f} s and {off:.1f} s, {len(loader)} steps"
    report.add(Row(f"epoch with masks / without, {size}", masks / off, 1.3, note=note))


def ranks(report: Report, quick: bool) -> None:
    """Figure 4: two ranks of one thread against one."""
    nodes, train = (20_000, 4_000) if quick else (300_000, 60_000)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    seconds: dict[int, float] = {}
    for _ in range(1 if quick else 3):
        for size in (1, 2):
            launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
            words = [sys.executable, *launch, HERE / "rank_epoch.py", nodes, train]
            out = subprocess.run(
                list(map(str, words)), env=environment, capture_output=True, text=True, check=True
            ).stdout
            taken = float(out.split("seconds")[1].split()[0])
            seconds[size] = min(seconds.get(size, taken), taken)
    note = f"{seconds[1]:.1f} s one rank, {seconds[2]:.1f} s two; {nodes:,} nodes, {train:,} seeds"
    report.add(Row("one rank / two, seconds of an epoch", seconds[1] / seconds[2], 1.5, True, note))


def pubmed(report: Report, quick: bool) -> None:
    """Figure 6: accuracy and NLL of mini-batches against full batch, over seeds."""
    _compare(report, "pubmed", load_dataset("synthetic" if quick else "pubmed"))


def coauthor_cs(report: Report, quick: bool) -> None:
    """The same on a graph of authors, whose file is not part of the package."""
    file = Path(os.environ.get("GRAPHDROP_DATA", ".")) / "dev/coauthor_cs.npz"
    _compare(report, "coauthor_cs", load_dataset("synthetic" if quick else file))


def posterior(report: Report, quick: bool) -> None:
    """The same on a graph whose posterior is known."""
    sys.path.append(str(HERE.parent))  # the folder of `experiments`
    from experiments.block_posterior import class_posterior  # noqa: PLC0415

    nodes = 3_000 if quick else 200_000
    drawn = synthetic_graph(nodes, 7, num_features=128, words_per_node=10.0)
    synthetic = _split(drawn.data, nodes)
    known = class_posterior(drawn, synthetic.train_mask, "gibbs", sweeps=200, burn_in=50, chains=2)
    # a step takes a second here: fewer of them than the default, from features that are not scaled
    # down to a sum of 1, so that both ways have learned what they will
    name = f"synthetic, {nodes:,} nodes"
    _compare(report, name, load_dataset(synthetic), known, {"full": 120, "batches": 30})


def _compare(
    report: Report,
    name: str,
    dataset: Dataset,
    posterior: Tensor | None = None,
    epochs: dict[str, int] | None = None,
) -> None:
    """Full batch and mini-batches on one graph, both by default and calibrated."""
    batch = max(32, int(dataset.split.train.sum()) // 8)
    tested, labels = dataset.split.test, dataset.data.y
    scores: dict[str, dict[str, list[float]]] = {"full": {}, "batches": {}}
    for seed in range(SEEDS):
        for way, size in (("full", 0), ("batches", batch)):
            own: dict[str, Any] = {"seed": seed, "train": {"batch_size": size}}
            if epochs is not None:
                own["train"] |= {"epochs": epochs[way], "patience": epochs[way]}
                own["data"] = {"features": "stored"}
            run = Trainer(Config(**own), dataset, progress=Silent())
            result = run.fit()
            found = {name: float(getattr(result.test, name)) for name in ("accuracy", "nll", "ece")}
            if posterior is not None:
                forecast = run.predict(run.rows["test"]).probabilities.double()
                truth = posterior[run.rows["test"]]
                apart = truth * (truth.clamp_min(1e-12).log() - forecast.clamp_min(1e-12).log())
                found["kl"] = float(apart.sum(1).mean())
            print(
                f"seed {seed} {way}:", *(f"{one} {of:.4f}" for one, of in found.items()), flush=True
            )
            for metric, score in found.items():
                scores[way].setdefault(metric, []).append(score)
    for metric in ("accuracy", "nll"):
        one, other = scores["full"][metric], scores["batches"][metric]
        error = (stdev(one) ** 2 / len(one) + stdev(other) ** 2 / len(other)) ** 0.5
        worse = mean(other) - mean(one) if metric == "nll" else mean(one) - mean(other)
        note = f"full {mean(one):.4f}, batches of {batch} {mean(other):.4f} ± {error:.4f}"
        figure = worse / max(error, 1e-12)
        report.add(Row(f"{name}: {metric}, standard errors worse", figure, 1.0, note=note))
    note = f"full {mean(scores['full']['ece']):.4f}"
    report.add(Row(f"{name}: ECE of batches", mean(scores["batches"]["ece"]), note=note))
    if posterior is not None:
        truth, right = posterior[tested], labels[tested]
        best = -truth[torch.arange(len(right)), right].clamp_min(1e-12).log().mean()
        note = f"full {mean(scores['full']['kl']):.4f}; NLL of the posterior itself {best:.4f}"
        what = f"{name}: KL from the known posterior to batches"
        report.add(Row(what, mean(scores["batches"]["kl"]), note=note))


def _split(data: Data, nodes: int) -> Data:
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    for name, first, last in (
        ("train_mask", 0, nodes // 10),
        ("val_mask", nodes // 10, nodes // 10 + 1000),
        ("test_mask", nodes // 2, nodes),
    ):
        data[name] = torch.zeros(nodes, dtype=torch.bool)
        data[name][order[first:last]] = True
    return data


PARTS = {one.__name__: one for one in (sampling, batches, ranks, pubmed, coauthor_cs, posterior)}


def main(words: list[str] | None = None) -> bool:
    given = [] if words is None else words
    quick = "--quick" in given
    named = [word for word in given if word != "--quick"]
    unknown = sorted(set(named) - set(PARTS))
    if unknown:
        print(f"unknown part {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return False
    wanted = named or list(PARTS)
    reached = True
    for name in wanted:
        report = Report("scale", f"Large graphs: {name}, 2 threads", part=name)
        PARTS[name](report, quick)
        reached &= report.finish(write=not quick)
    return reached


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main(sys.argv[1:]))
