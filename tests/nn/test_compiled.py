"""A compiled model trains and predicts as the model itself does."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT

from graphdrop import GCN, GraphDropConnect, attach, predict

DATA = Data(x=torch.rand(30, 5), edge_index=torch.randint(0, 30, (2, 100)))


def test_a_compiled_gcn_trains_with_the_same_gradients() -> None:
    model, twin = (GCN(5, 8, 2, 3, GraphDropConnect(blocks=2), seed=1) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="aot_eager")
    for network in (compiled, twin):
        network(DATA.x, DATA.edge_index).square().mean().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert torch.equal(
        predict(compiled, DATA, 3).probabilities, predict(model, DATA, 3).probabilities
    )


@pytest.mark.parametrize("first", [True, False], ids=["before attach", "after attach"])
def test_a_compiled_attached_model_predicts(first: bool) -> None:
    model = GAT(5, 8, 2, 3)
    compiled = torch.compile(model, backend="aot_eager") if first else None
    attach(model, GraphDropConnect(blocks=2), seed=1)
    if compiled is None:
        compiled = torch.compile(model, backend="aot_eager")
    answer = predict(compiled, DATA, 3)
    assert torch.equal(answer.probabilities, predict(model, DATA, 3).probabilities)
