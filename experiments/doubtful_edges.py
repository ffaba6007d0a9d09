"""Edges that are not to be trusted: ``python -m experiments edges``.

Every run is one model on one graph under one protocol of labels, calibrated. A line of
``results/edges/runs.jsonl`` keeps its scores and what it answered at every test node.

Protocols:

    a   training labels fit the weights; validation labels choose, fit rates of edges and calibrate.
    b   training and validation labels do both: they are divided into three parts at random, each of
        three networks has another part for validation, and the answer is the mean of the three.

What the recipe auto chooses on validation nodes is chosen once for a graph, a protocol and a model,
by the first network of seed 0, and all other networks take it over.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from experiments.controlled import outcomes_of
from experiments.measures import BINS, compact
from experiments.store import Record, Store
from graphdrop import metrics
from graphdrop.calibration import calibration_floor
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.config import Config, auto
from graphdrop.config.recipes import merge_settings
from graphdrop.data import load_dataset
from graphdrop.data.sources import DATA_VARIABLE
from graphdrop.inference import Predictive
from graphdrop.io.visible import say
from graphdrop.sampling import fit_edge_prior
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.run import fit_edges

FOLDS = 3
FLOOR_DRAWS = 50
THRESHOLDS = (0.01, 0.03, 0.1)
"""Of the Jaccard similarity below which edges are removed; validation nodes choose."""


# Graphs


class Noisy(NamedTuple):
    """A graph by its name: a file or a dataset, and edges that are added at random."""

    dataset: str
    share: float = 0.0
    """Edges that are added between random nodes, as a share of those that are there."""


GRAPHS: Mapping[str, Noisy] = {
    **{
        f"{name}, Metattack {percent} %": Noisy(f"robust/{name}_{part}.npz")
        for name in ("cora", "citeseer")
        for percent, part in ((25, "meta_0.25"), (10, "meta_0.1"), (0, "clean"))
    },
    **{name: Noisy(name) for name in ("cora", "citeseer", "cora_ml", "pubmed")},
    **{
        name: Noisy(f"dev/{name}.npz")
        for name in ("chameleon_filtered", "wisconsin", "squirrel_filtered", "actor")
    },
    **{
        f"{name}, random + {share} %": Noisy(name, share / 100)
        for name in ("cora", "citeseer", "cora_ml", "pubmed")
        for share in (50, 100)
    },
}


def read_graph(name: str, seed: int) -> Data:
    """A graph with its public split; ``planted`` marks edges that are known to be added."""
    dataset, share = GRAPHS[name]
    path = Path(os.environ.get(DATA_VARIABLE, ".")) / dataset
    data = copy.copy(load_dataset(path if path.suffix else dataset, split="public").data)
    count = data.num_nodes
    if path.suffix:
        with np.load(path, allow_pickle=False) as arrays:
            added = arrays["edges"][arrays["added"]] if "added" in arrays else None
        if added is not None:
            keys = torch.from_numpy(np.sort(added.astype(np.int64), 1) @ np.array([count, 1]))
            low, high = data.edge_index.sort(0).values
            data.planted = torch.isin(low * count + high, keys)
    if share:
        low, high = data.edge_index.sort(0).values
        present = (low * count + high).unique()
        wanted = round(share * len(present))
        generator = torch.Generator().manual_seed(seed)
        low, high = torch.randint(count, (2, 2 * wanted), generator=generator).sort(0).values
        keys = (low * count + high)[low < high]
        keys = keys[~torch.isin(keys, present)]
        # the first occurrence of each pair, in the order of drawing
        _, first = np.unique(keys.numpy(), return_index=True)
        keys = keys[torch.from_numpy(np.sort(first))][:wanted]
        ends = torch.stack([keys // count, keys % count])
        data.planted = torch.arange(data.num_edges + 2 * len(keys)) >= data.num_edges
        data.edge_index = torch.cat([data.edge_index, ends, ends.flip(0)], 1)
    return data


# Models


class Answer(NamedTuple):
    """What a model says of a graph."""

    probabilities: Tensor
    """Calibrated, ``[nodes, classes]``."""
    doubt: Tensor | None = None
    """Of every edge, larger where it is less to be trusted."""
    settings: Any = None
    """What was chosen on validation nodes: settings, or a threshold and settings."""
    p_value: float | None = None
    """Of the test of whether edges differ."""


Model = Callable[[Data, int, Any], Answer]


def train_network(
    data: Data, seed: int, settings: Any, teach: float | None = None, **model: Any
) -> Answer:
    """A network of the recipe auto, or with settings that were chosen before."""
    given = {"train": {"baselines": False}, "model": model}
    if teach is not None:
        given["objective"] = {"teach": teach}
    asked = Config(**merge_settings(settings or given, {"seed": seed}))
    data = copy.copy(data)
    data.planted = None
    trainer = Trainer(asked, load_dataset(data), progress=Silent())
    trainer.fit()
    found = trainer.predict(torch.arange(data.num_nodes)).probabilities
    doubt = None
    if trainer.config.model.edges == "fitted":
        doubt = -fit_edges(trainer.config, trainer.run.dataset).keep
    return Answer(found, doubt, trainer.config.model_dump(mode="json"))


def closed_form(data: Data, seed: int, settings: Any, *, fitted: bool) -> Answer:  # noqa: ARG001
    """The closed-form model by which rates of edges are judged, calibrated like a network."""
    fit = fit_edge_prior(data)
    logits = (fit.answers if fitted else fit.one_rate_answers).log()[None]
    nodes = data.val_mask
    calibrator = EntropyTemperatureScaling.fit(lambda: iter(logits[:, nodes]), data.y[nodes])
    found = Predictive.from_logits(logits, None, calibrator).probabilities
    return Answer(found, -fit.keep, p_value=fit.test.p_value) if fitted else Answer(found)


def similarity(data: Data, *, jaccard: bool) -> Tensor:
    """The cosine or the Jaccard similarity of both ends' features, ``[E]``."""
    x = data.x.to_dense()
    x = (x > 0).float() if jaccard else torch.nn.functional.normalize(x)
    found = []
    for source, destination in zip(*(ends.split(4096) for ends in data.edge_index), strict=True):
        common = (x[source] * x[destination]).sum(1)
        size = x[source].sum(1) + x[destination].sum(1) - common
        found.append(common / size.clamp_min(1.0) if jaccard else common)
    return torch.cat(found)


def weighted_by_cosine(data: Data, seed: int, settings: Any) -> Answer:
    """GCN-DO with the cosine of both ends' features as the weight of an edge."""
    weight = similarity(data, jaccard=False).clamp_min(0.0)
    data = copy.copy(data)
    data.edge_weight = weight
    return train_network(data, seed, settings, **PLAIN)._replace(doubt=-weight)


def without_dissimilar(data: Data, seed: int, settings: Any) -> Answer:
    """GCN-DO without the edges of low Jaccard similarity; validation nodes choose what is low."""
    similar = similarity(data, jaccard=True)
    nodes, best, lowest = data.val_mask, None, float("inf")
    for threshold, chosen in [settings] if settings else [(t, None) for t in THRESHOLDS]:
        part = copy.copy(data)
        part.edge_index = data.edge_index[:, similar >= threshold]
        answer = train_network(part, seed, chosen, **PLAIN)
        loss = float(metrics.nll(answer.probabilities[nodes], data.y[nodes]))
        if loss < lowest:
            lowest = loss
            best = answer._replace(doubt=-similar, settings=(threshold, answer.settings))
    assert best is not None  # noqa: S101 - there are thresholds
    return best


PLAIN: Mapping[str, Any] = {"method": "GCN-DO", "architecture": "gcn", "layers": 2}
DEFAULT = "default"
MODELS: Mapping[str, Model] = {
    "GCN-DO": lambda *given: train_network(*given, **PLAIN),
    DEFAULT: train_network,
    "closed form, fitted rates": lambda *given: closed_form(*given, fitted=True),
    "closed form, one rate": lambda *given: closed_form(*given, fitted=False),
    "GCN-BBGDC, one rate": lambda *given: train_network(
        *given, architecture="gcn", layers=2, edges="one-rate"
    ),
    "recipe auto for GCN-DO": lambda *given: train_network(*given, method="GCN-DO", layers=2),
    "MLP": lambda *given: train_network(
        *given, method="GCN-DO", architecture="propagation", propagate="hidden", orders=0, layers=2
    ),
    "cosine weights": weighted_by_cosine,
    "Jaccard": without_dissimilar,
    "default, one rate": lambda *given: train_network(*given, edges="one-rate"),
    "fitted rates, no teacher": lambda data, seed, settings: train_network(
        data, seed, settings, teach=0.0, edges="fitted"
    ),
}


# Runs


class Cell(NamedTuple):
    """One run."""

    graph: str
    protocol: str
    model: str
    seed: int

    @property
    def key(self) -> str:
        """Its key in the store; other versions of the recipe have other keys."""
        return f"{self.graph} / {self.protocol} / {self.model} / {self.seed} / v{auto.VERSION}"


CLOSED = ("closed form, fitted rates", "closed form, one rate")
MAIN = ("GCN-DO", DEFAULT, *CLOSED, "MLP")
RIVALS = (*MAIN, "recipe auto for GCN-DO", "GCN-BBGDC, one rate", "cosine weights", "Jaccard")
PARTS: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "attack": ([g for g in GRAPHS if "25 %" in g], "ab", RIVALS),
    "milder": ([g for g in GRAPHS if "10 %" in g or " 0 %" in g], "ab", ("GCN-DO", DEFAULT, "MLP")),
    "clean": (
        [g for g, noisy in GRAPHS.items() if "robust" not in noisy.dataset and not noisy.share],
        "a",
        (*CLOSED, DEFAULT, "default, one rate", "MLP"),
    ),
    "random": ([g for g, noisy in GRAPHS.items() if noisy.share], "a", MAIN),
    "attribution": (
        [g for g in GRAPHS if "25 %" in g],
        "a",
        ("GCN-DO", DEFAULT, "fitted rates, no teacher"),
    ),
}
"""Of every part its graphs, protocols and models."""


def cells(parts: Sequence[str], seeds: int, only: str = "ab") -> Iterator[Cell]:
    """The runs of some parts, seed by seed, the most important ones first."""
    for part in parts:
        graphs, protocols, models = PARTS[part]
        for seed in range(seeds):
            for protocol in (one for one in protocols if one in only):
                for graph in graphs:
                    for model in models if protocol == "a" else [m for m in models if m in MAIN]:
                        yield Cell(graph, protocol, model, seed)


def run_cell(cell: Cell, settings: Any = None) -> Record:
    """Train, answer and score, with settings that were chosen before or anew."""
    started = time.process_time()
    data, model = _graph(cell.graph, cell.seed), MODELS[cell.model]
    answers, held_out, chosen = list[Answer](), data.val_mask, settings
    if cell.protocol == "a":
        answers = [model(data, cell.seed, settings)]
        checked = answers[0].probabilities[held_out]
    else:
        known = (data.train_mask | data.val_mask).nonzero().flatten()
        generator = torch.Generator().manual_seed(cell.seed)
        fold = torch.randperm(len(known), generator=generator) % FOLDS
        out_of_fold = []
        for i in range(FOLDS):
            part = copy.copy(data)
            part.train_mask, part.val_mask = (
                torch.zeros_like(held_out).index_fill(0, known[some], value=True)
                for some in (fold != i, fold == i)
            )
            answers.append(model(part, cell.seed, chosen))
            chosen = chosen or answers[0].settings
            out_of_fold.append(answers[-1].probabilities[known[fold == i]])
        checked = torch.cat(out_of_fold)
    probabilities = torch.stack([answer.probabilities for answer in answers]).mean(0)
    test, labels = probabilities[data.test_mask], data.y[data.test_mask]
    record: Record = {
        "key": cell.key,
        **cell._asdict(),
        "test": {
            "accuracy": float((test.argmax(1) == labels).double().mean()),
            "nll": float(metrics.nll(test, labels)),
            "ece": float(metrics.calibration_error(test, labels, bins=BINS)),
            "aurc": float(metrics.aurc(test, labels)),
        },
        "ece_floor": calibration_floor(
            test, checked, bins=BINS, draws=FLOOR_DRAWS, seed=cell.seed, by_entropy=True
        )._asdict(),
        "tested": len(labels),
        "outcomes": outcomes_of(test, labels),
        "cpu_seconds": round(time.process_time() - started, 1),
    }
    doubts = [answer.doubt for answer in answers if answer.doubt is not None]
    if doubts and data.get("planted") is not None and bool(data.planted.any()):
        doubt = torch.stack(doubts).mean(0)
        record["planted_auroc"] = float(metrics.ood_auroc(doubt, data.planted))
    if answers[0].p_value is not None:
        record["edges_p"] = answers[0].p_value
    if settings is None:
        record["chosen"] = answers[0].settings
    return {name: value if name in EXACT else compact(value) for name, value in record.items()}


EXACT = ("key", "outcomes", "chosen")
"""What is kept as it is in a line; other numbers are rounded."""


@cache
def _graph(name: str, seed: int) -> Data:
    return read_graph(name, seed)


def make_runs(
    folder: Path, parts: Sequence[str], seeds: int, models: Sequence[str] = (), only: str = "ab"
) -> list[Record]:
    """The records of some parts; missing runs are made one after another.

    Args:
        folder: of the store.
        parts: of ``PARTS``.
        seeds: how many, from 0.
        models: only these; all if none is named.
        only: the protocols that are run.
    """
    store, asked = Store(folder), list(cells(parts, seeds, only))
    for i, cell in enumerate(asked, 1):
        if cell.key not in store.records() and (not models or cell.model in models):
            first = store.records().get(cell._replace(seed=0).key, {})
            record = run_cell(cell, first.get("chosen"))
            store.append(record)
            scores = ", ".join(f"{name} {value:.3f}" for name, value in record["test"].items())
            say(f"{i} of {len(asked)}: {cell.key}: {scores} ({record['cpu_seconds']:.0f} s)")
    return list(store.records().values())
