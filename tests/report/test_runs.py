"""`report` writes the page of runs whose data only the user has."""

import pytest
import torch
from torch_geometric.nn import GraphSAGE

from contracts.small_runs import SMALL
from graphdrop import Config, GraphDropConnect, Trainer, attach
from graphdrop.data.splits import Split
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.report import report
from graphdrop.train.progress import Silent
from graphdrop.train.tasks import Links


@pytest.fixture(scope="module")
def data():
    """A PyG `Data` of 80 nodes; do not change it."""
    graph = synthetic_graph(80, 3, num_features=30, words_per_node=6.0).data
    part = torch.arange(80) % 4
    graph.train_mask, graph.val_mask, graph.test_mask = (part == number for number in range(3))
    return graph


def fit(data, folder, **options):
    Trainer(Config(**SMALL), data, folder, progress=Silent(), **options).fit()
    return folder


def own_model():
    return GraphSAGE(30, 8, 2, 3)


def test_data_of_ones_own_is_given_again(data, tmp_path):
    runs = [fit(data, tmp_path / name) for name in "ab"]
    page = report(runs, tmp_path / "report.html", data=data)
    assert page == tmp_path / "report.html"
    assert "data=..." in page.read_text()
    with pytest.raises(ValueError, match=r"was trained on a graph of your own.*give it again"):
        report(runs, page)
    changed = data.clone()
    changed.x[0, 0] += 1.0
    with pytest.raises(ValueError, match=r"the data given is not what .*a was trained on"):
        report(runs, page, data=changed)


def test_so_is_a_model_of_ones_own(data, tmp_path):
    model = own_model()
    attach(model, GraphDropConnect(blocks=2))
    run = fit(data, tmp_path / "run", model=model)
    assert report([run], tmp_path / "report.html", data=data, model=own_model()).is_file()
    with pytest.raises(ValueError, match="only you can build"):
        report([run], tmp_path / "report.html", data=data)


def test_a_run_that_predicts_no_classes_is_refused(data, tmp_path):
    part = torch.arange(60) % 3
    split = Split(*(part == number for number in range(3)), "pairs")
    task = Links(data.edge_index[:, :60], torch.ones(60), split)
    run = fit(data, tmp_path / "run", task=task)
    with pytest.raises(ValueError, match="predicts links, not classes"):
        report([run], tmp_path / "report.html", data=data)
