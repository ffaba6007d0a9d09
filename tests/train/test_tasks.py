"""Labels, numbers and links train, improve, are calibrated, kept and resumed as classes are.

The truth is known: nodes come in four groups, which their features hint at and their edges stay
within. Labels are the two bits of a group, links are pairs in one group, one in ten of both turned
round; numbers are a group's centre and noise.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import Config, Trainer, load, predict
from graphdrop.data.splits import Split
from graphdrop.train import Result, StoppedError
from graphdrop.train.loop import train
from graphdrop.train.progress import Silent
from graphdrop.train.tasks import Links, Task
from graphdrop.train.trainer import Callback

NODES, PAIRS, NOISE, FLIPPED = 240, 600, 0.3, 0.1
GROUP = torch.arange(NODES) % 4


def graph(y: torch.Tensor) -> Data:
    generator = torch.Generator().manual_seed(0)
    source = torch.arange(NODES).repeat(3)
    within = 4 * torch.randint(NODES // 4, source.shape, generator=generator) + GROUP[source]
    edges = torch.stack([source, within])
    x = torch.nn.functional.one_hot(GROUP, 4) + torch.randn(NODES, 4, generator=generator)
    data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1).unique(dim=1), y=y)
    data.train_mask, data.val_mask, data.test_mask = parts(NODES)
    return data


def parts(count: int) -> list[torch.Tensor]:
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(1)) % 3
    return [drawn == number for number in range(3)]


def flipped(truth: torch.Tensor) -> torch.Tensor:
    chance = torch.rand(truth.shape, generator=torch.Generator().manual_seed(4))
    return torch.where(chance < FLIPPED, 1 - truth, truth)


@dataclass
class Case:
    """A task, its data, and between what a figure lies if the truth is learned."""

    data: Data
    task: Task | None
    figure: str
    wanted: tuple[float, float]

    def trainer(self, folder: Any = None, calibration: str = "temperature", **options: Any):
        config = Config(
            recipe="paper",
            model={"hidden": 16, "blocks": 2},
            objective={"l2": 1e-4, "kl_weight": "elbo"},
            train={"epochs": 90, "learning_rate": 0.03, "evaluate_every": 30, "samples": 5},
            predict={"samples": 10, "calibration": calibration},
        )
        return Trainer(config, self.data, folder, task=self.task, progress=Silent(), **options)


def labels() -> Case:
    y = torch.stack([GROUP % 2, GROUP // 2], 1)
    return Case(graph(flipped(y)), None, "f1", (0.82, 0.97))


def gaussian() -> Case:
    noise = NOISE * torch.randn(NODES, generator=torch.Generator().manual_seed(2))
    y = GROUP - 1.5 + noise  # a standard deviation of 1.16
    return Case(graph(y), None, "rmse", (0.8 * NOISE, 1.7 * NOISE))


def links() -> Case:
    pairs = torch.randint(NODES, (2, PAIRS), generator=torch.Generator().manual_seed(3))
    pairs[1, ::2] = (pairs[0, ::2] + 4 * torch.arange(PAIRS // 2)) % NODES
    exist = flipped((GROUP[pairs[0]] == GROUP[pairs[1]]).long())
    task = Links(pairs, exist, Split(*parts(PAIRS), "pairs"))
    return Case(graph(GROUP), task, "accuracy", (0.82, 0.97))


CASES = {"labels": labels, "gaussian": gaussian, "links": links}


@cache
def fitted(name: str) -> tuple[Trainer, Result]:
    """A finished run in memory; do not change it."""
    trainer = CASES[name]().trainer()
    return trainer, trainer.fit()


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


class Stops(Callback):
    def on_epoch(self, trainer, line):
        if line["epoch"] == 40:
            trainer.stop()


def test_a_task_learns_the_truth_is_calibrated_kept_and_resumed(name, tmp_path):
    case, (whole, result) = CASES[name](), fitted(name)
    assert case.wanted[0] <= getattr(result.test, case.figure) <= case.wanted[1]
    first, *_, last = [line["validation"]["nll"] for line in whole.journal.lines[29::30]]
    assert last < first
    # calibrated on validation nodes, judged on test nodes
    assert result.test.nll <= result.uncalibrated["test"].nll + 0.02
    assert result.calibration["nodes"] == len(whole.rows["validation"])

    with pytest.raises(StoppedError):
        case.trainer(tmp_path / "run", callbacks=[Stops()]).fit()
    resumed = case.trainer(tmp_path / "run", resume=True)
    assert resumed.epoch == 40
    again = resumed.fit()
    assert (again.test, again.calibration) == (result.test, result.calibration)

    rows, task = whole.rows["test"], whole.run.task
    decode = None if task.of_nodes else lambda outputs: task.decode(outputs, rows)
    kept = load(tmp_path / "run")
    answer = predict(
        kept,
        whole.data,
        output=task.output,
        rows=rows if task.of_nodes else None,
        decode=decode,
    )
    assert task.scores(answer, whole.run.targets[rows], whole.config) == result.test


def test_links_need_neither_targets_nor_a_split_of_nodes():
    case = links()
    plain = Data(x=case.data.x, edge_index=case.data.edge_index)
    given = Case(plain, case.task, case.figure, case.wanted).trainer().fit()
    assert given.test == fitted("links")[1].test
    case.task.pairs[0, 0] = NODES
    with pytest.raises(ValueError, match="the pairs of the task have node 240"):
        case.trainer()


def test_a_target_that_is_not_finite_is_named():
    case = gaussian()
    node = int(case.data.val_mask.nonzero()[3])
    case.data.y[node] = torch.nan
    with pytest.raises(ValueError, match=f"val_mask contains node {node}, which has no label"):
        case.trainer()
    case.data.val_mask[node] = False
    case.trainer()


def test_integers_that_are_neither_classes_nor_labels_are_no_regression():
    column, counts = graph(GROUP[:, None]), graph(GROUP[:, None].repeat(1, 2))
    with pytest.raises(ValueError, match=r"shape \(240, 1\).*give y\.squeeze\(1\) for classes"):
        Trainer(Config(), column)
    with pytest.raises(ValueError, match=r"the value 2: .*for numbers data\.task"):
        Trainer(Config(), counts)
    case = labels()
    node = int(case.data.train_mask.nonzero()[0])
    case.data.y[node] = -1  # no label: it may be in no part
    with pytest.raises(ValueError, match=f"train_mask contains node {node}, which has no label"):
        case.trainer()
    case.data.train_mask[node] = False
    assert case.trainer().run.task.output == "labels"


def test_agreement_is_refused_where_there_are_no_classes(name):
    case = CASES[name]()
    config = Config(objective={"agree": 1.0})
    with pytest.raises(ValueError, match=r"objective\.agree is 1, but the task is "):
        Trainer(config, case.data, task=case.task)


def test_balanced_class_weights_leave_a_rare_class_as_frequent_as_it_is():
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(1500, generator=generator) < 0.06).long()
    x = torch.randn(1500, 4, generator=generator) + y[:, None]
    nodes = torch.arange(1500)
    data = Data(x=x, edge_index=torch.stack([nodes, nodes.roll(1)]), y=y)
    config = Config(
        recipe="paper",
        data={"split": "random-fractions"},
        model={"method": "GCN", "hidden": 16},
        objective={"class_weights": "balanced"},
        train={"epochs": 150, "learning_rate": 0.02, "select": "nll"},
    )
    trainer = Trainer(config, data, progress=Silent())
    train(trainer.run, Silent())
    claimed = trainer.predict(trainer.rows["test"]).probabilities[:, 1]
    noise = float((claimed * (1 - claimed)).mean().sqrt()) / len(claimed) ** 0.5
    assert float(claimed.mean()) == pytest.approx(float(y.double().mean()), abs=3 * noise)


def test_targets_that_are_fitted_exactly_do_not_diverge():
    x = torch.randn(60, 1, generator=torch.Generator().manual_seed(0))
    ring = torch.arange(60)
    data = Data(x=x, y=1000.0 + 200.0 * x[:, 0], edge_index=torch.stack([ring, ring.roll(1)]))
    result = Trainer(Config(train={"epochs": 40}), data, progress=Silent()).fit()
    assert result.baselines
