"""From loader to report, odd graphs train and are predicted, or are refused by name."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT

from contracts.odd_graphs import NODES, ODD, graph, ring, star
from graphdrop import (
    Config,
    GraphDropConnect,
    Trainer,
    attach,
    load,
    load_dataset,
    predict,
)
from graphdrop.data.store import convert
from graphdrop.report import report
from graphdrop.train.progress import Silent

WAYS = ("attached", "batches", "layerwise", "store")


def config(**train: Any) -> Config:
    return Config(
        recipe="paper",
        model={"method": "GCN-BBGDC", "hidden": 4, "layers": 2},
        train={"epochs": 2, "evaluate_every": 1, "samples": 2, **train},
        predict={"samples": 2},
    )


def fitted(data: Data, folder: Path | None = None, model: nn.Module | None = None, **train: Any):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CS[RC] tensor support", UserWarning)
        trainer = Trainer(config(**train), data, folder, progress=Silent(), model=model)
    result = trainer.fit()
    assert 0.0 <= result.test.accuracy <= 1.0
    assert torch.isfinite(torch.tensor([result.test.nll, result.validation.nll])).all()
    return trainer


def check(prediction: Any, nodes: int) -> None:
    probabilities = prediction.probabilities
    assert len(probabilities) == nodes
    assert torch.isfinite(prediction.entropy).all()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(nodes, dtype=probabilities.dtype))


@pytest.mark.parametrize("name", ODD)
def test_a_gcn_trains_on_an_odd_graph_and_is_itself_after_loading(name, tmp_path):
    data = ODD[name]()
    trainer = fitted(data, tmp_path / "run")
    prediction = predict(trainer.model, trainer.data)
    check(prediction, len(data.y))
    again = predict(load(tmp_path / "run"), trainer.data)
    assert torch.equal(again.probabilities, prediction.probabilities)


@pytest.mark.parametrize(("number", "name"), list(enumerate([*ODD][::2])), ids=[*ODD][::2])
def test_so_do_attached_models_batches_layers_in_turn_and_stores(number, name, tmp_path):
    data = ODD[name]()
    way = WAYS[number % len(WAYS)]
    if way == "attached":
        if data.x.layout != torch.strided:
            data.x = data.x.to_dense()  # which PyG's layers take
        model = GAT(data.x.shape[1], 4, 2, 3)
        attach(model, GraphDropConnect(blocks=1))
        trainer = fitted(data, model=model)
        check(predict(trainer.model, trainer.data), len(data.y))
    elif way == "batches":
        trainer = fitted(data, batch_size=5, fan_out="2,2")
        check(predict(trainer.model, trainer.data), len(data.y))
    elif way == "layerwise":
        trainer = fitted(data)
        whole = predict(trainer.model, trainer.data, masks="expected")
        layers = predict(trainer.model, trainer.data, masks="expected", layerwise=True)
        torch.testing.assert_close(layers.probabilities, whole.probabilities)
    else:
        loaded = load_dataset(data).data
        stored = load_dataset(convert(loaded, tmp_path / "store")).data
        scores = [fitted(one).journal.lines[-1]["loss"] for one in (loaded, stored)]
        assert scores[0] == scores[1]


@pytest.mark.parametrize("way", ["whole", "batches"])
def test_a_star_of_100_000_nodes_trains_and_is_predicted(way):
    data = star(100_000)
    trainer = fitted(data, **({"batch_size": 30_000, "fan_out": "3,3"} if way == "batches" else {}))
    check(predict(trainer.model, data, 1, layerwise=way == "batches"), len(data.y))


def test_a_report_is_made_of_graphs_without_edges_and_of_parts_without_a_class(tmp_path):
    for number, name in enumerate(("no edges", "a class absent from the test nodes", "a star")):
        data = ODD[name]()
        run, page = tmp_path / f"run{number}", tmp_path / f"{number}.html"
        fitted(data, run)
        assert "</html>" in report([run], page, data=data).read_text()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Data(x=torch.ones(1, 1), edge_index=ring(1), y=torch.zeros(1).long()), "a single class"),
        (graph(y=torch.zeros(NODES).long(), num_classes=None), "a single class"),
        (graph(x=torch.full((NODES, 2), 1e30).double() * 1e30), "NaN or infinite"),
        (graph(x=torch.ones(NODES, 2).int()), "floating-point"),
        (graph(x=torch.ones(NODES, 0)), "at least one of each"),
        (graph(edge_index=ring() + 1), "renumber the nodes"),
        (graph(edge_index=ring().double()), "integer node ids"),
        (graph(val_mask=torch.zeros(NODES).bool()), "no validation nodes"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(data, message):
    with pytest.raises(ValueError, match=message):
        fitted(data)


@pytest.mark.parametrize("features", [1e10, 1e30])
def test_huge_features_train_or_stop_with_what_to_try(features):
    data = graph(x=graph().x * features)
    try:
        trainer = fitted(data)
    except ValueError as error:
        assert "What to try" in str(error)  # noqa: PT017 - either is right
    else:
        check(predict(trainer.model, data), NODES)


SCRIPT = """
from contracts.odd_graphs import ODD
from torture.test_odd_graphs import fitted
from graphdrop.train.ranks import join_ranks

with join_ranks():
    for name in ("half of the nodes isolated", "every edge three times", "directed", "a star"):
        fitted(ODD[name](), batch_size=5, fan_out="2,2")
"""


@pytest.mark.slow
def test_two_ranks_train_on_odd_graphs(tmp_path):
    import os  # noqa: PLC0415

    (tmp_path / "script.py").write_text(SCRIPT)
    tests = Path(__file__).parents[1]
    path = {"PYTHONPATH": f"{tests.parent / 'src'}:{tests}", "OMP_NUM_THREADS": "1"}
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *launch, str(tmp_path / "script.py")]
    done = subprocess.run(
        command, env=os.environ | path, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
