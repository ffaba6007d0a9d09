"""What calibrators change that few nodes are given: ``python -m experiments.few_nodes``.

Every draw is a prediction for nodes to calibrate on and nodes to test on, of one of these kinds:

    networks   GCNs with learned rates, trained on 60 nodes of a synthetic graph; each number of
               validation nodes selects the epoch and then calibrates, as in a run
    truth      sampled logits whose mean prediction is the true distribution: nothing can be gained
    labels     the same with yes or no for three labels
    numbers    values whose predicted variances are the true ones

Of every draw a line is written to results/auto/few-nodes.jsonl: the test NLL without a calibrator,
and the change of it by each, by the number of calibration nodes. Lines that are there are not made
again. results/auto/few-nodes.md is the table of their means.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, nll_loss, one_hot

from graphdrop import GCN, GraphDropConnect
from graphdrop.calibration.fit import METHODS
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.inference.calibrator import Calibrator, Surroundings
from graphdrop.inference.predictive import make_draws, resolve_settings
from graphdrop.nn.sampled import sampled

COUNTS = (5, 10, 20, 50, 100, 500)
"""Numbers of calibration nodes; the first ones of the same."""
TEST, SAMPLES = 640, 20
PLAIN = ("temperature", "no spread", "entropy-temperature", "vector", "isotonic")
"""Calibrators that look at nothing but the logits; without the spread the default has a slope."""
OF_GRAPHS = ("cagcn", "gats")
EPOCHS, EVERY = 150, 10
"""Epochs of a training, and after how many of them its state may be selected."""
Losses = dict[str, float]


def fit(name: str, samples: Tensor, targets: Tensor, around: Surroundings | None) -> Calibrator:
    """A calibrator by its name in the table."""
    if name == "no spread":
        return EntropyTemperatureScaling.fit(lambda: iter(samples), targets, spread=False)
    return METHODS[name].fit(lambda: iter(samples), targets, around)


def class_nll(samples: Tensor, targets: Tensor) -> float:
    """The NLL of the mean over samples of logits ``[samples, n, classes]``."""
    log = torch.log_softmax(samples.double(), 2).logsumexp(0) - math.log(len(samples))
    return float(nll_loss(log, targets))


def of_network(draw: int, methods: Sequence[str]) -> Iterator[tuple[int, Losses]]:
    """The test NLL of a trained network without and with calibrators, by calibration nodes."""
    torch.manual_seed(draw)
    nodes = 60 + COUNTS[-1] + TEST
    data = synthetic_graph(nodes, 3, num_features=100, words_per_node=10, seed=draw).data
    train, validation, test = torch.randperm(nodes).tensor_split([60, 60 + COUNTS[-1]])
    model = GCN(100, 32, 2, 3, GraphDropConnect(blocks=2), seed=draw)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    states = []
    for epoch in range(1, EPOCHS + 1):
        model.train()
        optimizer.zero_grad()
        loss = cross_entropy(model(data.x, data.edge_index)[train], data.y[train])
        loss = loss + min(1.0, epoch / 20) / len(train) * model.kl()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if epoch % EVERY == 0:
            engine = sampled(model.eval())
            settings = resolve_settings(engine, SAMPLES, draw, None, None)
            with torch.no_grad():
                states.append(
                    torch.stack(list(engine.samples(data, make_draws(settings, 0), None)))
                )
    for count in COUNTS:
        rows = validation[:count]
        losses_of_states = [class_nll(state[:, rows], data.y[rows]) for state in states]
        samples = states[losses_of_states.index(min(losses_of_states))]
        losses = {"none": class_nll(samples[:, test], data.y[test])}
        around = Surroundings(samples.double().mean(0), data.edge_index, rows, train)
        for name in methods:
            found = fit(name, samples[:, rows], data.y[rows], around)
            new = samples[:, test]
            correct = found.corrector(partial(iter, new), replace(around, rows=test))
            losses[name] = class_nll(torch.stack([correct(one) for one in new]), data.y[test])
        yield count, losses


def of_truth(draw: int) -> Iterator[tuple[int, Losses]]:
    """The same for sampled logits of 2, 3 or 7 classes that say how likely the classes are."""
    generator = torch.Generator().manual_seed(draw)
    total, classes = COUNTS[-1] + TEST, (2, 3, 7)[draw % 3]
    label = torch.randint(classes, (total,), generator=generator)
    strength = 0.5 + 5.0 * torch.rand(total, 1, generator=generator)
    mean = strength * one_hot(label, classes) + torch.randn(total, classes, generator=generator)
    noise = torch.randn(SAMPLES, total, classes, generator=generator)
    logits = (mean + (0.0, 1.0)[draw % 2] * noise).double()
    truth = torch.softmax(logits, 2).mean(0)
    labels = torch.multinomial(truth, 1, generator=generator).squeeze(1)
    new, answers = logits[:, -TEST:], labels[-TEST:]
    for count in COUNTS:
        losses = {"none": class_nll(new, answers)}
        for name in PLAIN:
            found = fit(name, logits[:, :count], labels[:count], None)
            correct = found.corrector(lambda: iter(new))
            losses[name] = class_nll(torch.stack([correct(one) for one in new]), answers)
        yield count, losses


def of_labels(draw: int) -> Iterator[tuple[int, Losses]]:
    """The same for three labels, of which each entry is true with the probability it is given."""
    generator = torch.Generator().manual_seed(draw)
    shape = SAMPLES, COUNTS[-1] + TEST, 3
    base = 3.0 * torch.randn(1, *shape[1:], generator=generator) - 1.0
    logits = (base + torch.randn(shape, generator=generator)).double()
    truth = torch.bernoulli(torch.sigmoid(logits).mean(0), generator=generator)
    sign = 2.0 * truth[-TEST:] - 1.0

    def loss(z: Tensor) -> float:
        return float(-(logsigmoid(sign * z).logsumexp(0) - math.log(SAMPLES)).mean())

    for count in COUNTS:
        found = LabelScaling.fit(partial(iter, logits[:, :count]), truth[:count])
        corrected = found.correct(logits[:, -TEST:])
        yield count, {"none": loss(logits[:, -TEST:]), "labels": loss(corrected)}


def of_numbers(draw: int) -> Iterator[tuple[int, Losses]]:
    """The same for values from Gaussians with the predicted moments; their NLL is the expected."""
    generator = torch.Generator().manual_seed(draw)
    log_variance = torch.randn(COUNTS[-1], 1, generator=generator).double()
    error = (0.5 * log_variance).exp() * torch.randn(COUNTS[-1], 1, generator=generator).double()
    outputs = torch.cat([torch.zeros_like(error), log_variance], 1)[None]
    plain = 0.5 * math.log(2.0 * math.pi * math.e)  # of a variance of 1
    for count in COUNTS:
        found = VarianceScaling.fit(partial(iter, outputs[:, :count]), error[:count])
        factor = float(found.factor)
        yield count, {"none": plain, "variance": plain + 0.5 * (math.log(factor) + 1 / factor - 1)}


def line(kind: str, draw: int) -> dict[str, Any]:
    """The losses of a draw without a calibrator, and the changes by calibrators."""
    rows = {
        "networks": lambda: of_network(draw, PLAIN),
        "networks, graph": lambda: of_network(draw, OF_GRAPHS),
        "truth": lambda: of_truth(draw),
        "labels": lambda: of_labels(draw),
        "numbers": lambda: of_numbers(draw),
    }[kind]()
    none, change = dict[str, float](), dict[str, list[float]]()
    for count, losses in rows:
        none[str(count)] = round(losses["none"], 4)
        for name in list(losses)[1:]:
            change.setdefault(name, []).append(round(losses[name] - losses["none"], 4))
    return {"kind": kind, "draw": draw, "none": list(none.values()), "change": change}


KINDS = ("networks", "truth", "labels", "numbers", "networks, graph")


def table(lines: Iterable[dict[str, Any]]) -> str:
    """The mean change of the test NLL by every calibrator, with its standard error."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    plain: dict[str, list[list[float]]] = {}
    for one in lines:
        kind = one["kind"].split(",")[0]
        if "graph" not in one["kind"]:
            plain.setdefault(kind, []).append(one["none"])
        for name, changes in one["change"].items():
            found.setdefault((kind, name), []).append(changes)
    head = ["draws", "calibrator", "number", *(f"{count} nodes" for count in COUNTS)]
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for kind, losses in plain.items():
        means = torch.tensor(losses, dtype=torch.float64).mean(0)
        cells = [kind, "none: NLL", str(len(losses)), *(f"{mean:.3f}" for mean in means.tolist())]
        text.append("| " + " | ".join(cells) + " |")
        for (of, name), changes in found.items():
            if of != kind:
                continue
            values = torch.tensor(changes, dtype=torch.float64)
            errors = values.std(0) / len(values) ** 0.5 if len(values) > 1 else values.std(0) * 0
            pairs = zip(values.mean(0).tolist(), errors.tolist(), strict=True)
            shown = [f"{mean:+.4f} ± {error:.4f}".replace("-", "\u2212") for mean, error in pairs]
            text.append("| " + " | ".join([kind, name, str(len(values)), *shown]) + " |")
    return "\n".join(text) + "\n"


def main() -> None:
    """Make the draws that are missing, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results", "auto"))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be repeated")
    options = parser.parse_args()
    path = options.out / "few-nodes.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []
    known = {(one["kind"], one["draw"]) for one in lines}
    with path.open("a") as file:
        for kind in options.kind or KINDS:
            for draw in range(options.draws):
                if (kind, draw) not in known:
                    lines.append(line(kind, draw))
                    file.write(json.dumps(lines[-1]) + "\n")
                    file.flush()
    lines.sort(key=lambda one: (KINDS.index(one["kind"]), one["draw"]))
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    (options.out / "few-nodes.md").write_text(table(lines))


if __name__ == "__main__":
    main()
