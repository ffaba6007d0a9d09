"""Edge attributes reach a model of one's own; a network by name, and HeteroData, are refused."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GATConv, GINEConv

from graphdrop import Config, GraphDropConnect, Trainer, attach, load, predict
from graphdrop.train.progress import Silent

NODES, WIDTH = 60, 4
CONFIG = Config(
    recipe="paper",
    data={"split": "random-fractions"},
    train={"epochs": 30, "evaluate_every": 10, "learning_rate": 0.05, "samples": 2},
    objective={"l2": 0.0, "kl_weight": "elbo"},
    predict={"samples": 4},
)


class Net(nn.Module):
    """One layer that reads edge attributes, and the rest of a network."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        kinds = {
            "GAT": lambda: GATConv(3, WIDTH, edge_dim=2),
            "GINE": lambda: GINEConv(nn.Linear(3, WIDTH), edge_dim=2),
        }
        self.conv, self.last = kinds[layer](), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        out: Tensor = self.last(self.conv(x, edge_index, edge_attr).relu())
        return out


def graph() -> Data:
    """The class of a node is that of the attribute of its only edge inwards."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(NODES) % 2
    nodes = torch.arange(NODES)
    edge_index = torch.stack([nodes.roll(1), nodes])
    attributes = nn.functional.one_hot(y, 2) + 0.1 * torch.randn(NODES, 2, generator=generator)
    x = torch.randn(NODES, 3, generator=generator)
    return Data(x=x, edge_index=edge_index, edge_attr=attributes, y=y)


def net(layer: str, **sampler: float) -> nn.Module:
    torch.manual_seed(0)
    model = Net(layer)
    attach(model, GraphDropConnect(blocks=2, **sampler))
    return model


@pytest.mark.parametrize("layer", ["GAT", "GINE"])
def test_trainer_hands_edge_attributes_to_a_model_of_ones_own(layer, tmp_path):
    data = graph()
    trainer = Trainer(CONFIG, data, tmp_path / "run", model=net(layer), progress=Silent())
    trainer.fit()
    answer = predict(trainer.model, data).probabilities
    again = predict(load(tmp_path / "run", model=Net(layer)), data).probabilities
    assert torch.equal(again, answer)
    other = data.clone()
    other.edge_attr = other.edge_attr.flip(1)
    assert not torch.allclose(predict(trainer.model, other).probabilities, answer, atol=0.01)
    options = {"model": net(layer), "resume": True, "progress": Silent()}
    with pytest.raises(ValueError, match="was trained on other data"):
        Trainer(CONFIG, other, tmp_path / "run", **options)


@pytest.mark.parametrize("architecture", ["gcn", "gat"])
def test_a_network_by_name_refuses_edge_attributes(architecture):
    config = Config(data={"split": "random-fractions"}, model={"architecture": architecture})
    with pytest.raises(ValueError, match=f"data has edge_attr, which the network {architecture}"):
        Trainer(config, graph())


def test_hetero_data_is_refused():
    with pytest.raises(TypeError, match="Trainer takes graphs of one kind of nodes"):
        Trainer(Config(), HeteroData())
