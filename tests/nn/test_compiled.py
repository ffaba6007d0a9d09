"""A compiled model trains and predicts as the model itself does."""

import os
import shutil

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, predict

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


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")  # Dynamo warns of what it meets in autograd and in Adam
def test_a_compiled_training_step_changes_the_weights_as_the_step_itself_does(backend: str) -> None:
    if backend == "inductor" and not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("inductor needs a C++ compiler")
    y = torch.arange(30) % 3
    models = [GCN(5, 8, 2, 3, GraphDropConnect(blocks=2), dropout=0.3, seed=1) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())

    def training_step(model: GCN, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(DATA.x, DATA.edge_index), y) + model.kl()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = torch.compile(training_step, backend=backend)
    optimizers = [torch.optim.Adam(model.parameters(), 0.01) for model in models]
    for _ in range(2):  # with new masks each
        got = compiled(models[0], optimizers[0])
        torch.testing.assert_close(got, training_step(models[1], optimizers[1]))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)
