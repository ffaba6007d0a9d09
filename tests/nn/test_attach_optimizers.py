"""An optimizer that was built before `attach` is named for what it misses, once."""

import warnings

import pytest
import torch
from torch_geometric.nn import GAT

from graphdrop import DropEdge, GraphDropConnect, attach

X, EDGES = torch.rand(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]])


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(X, EDGES).square().mean().backward()
    optimizer.step()


def test_an_optimizer_without_the_rates_is_warned_of_once() -> None:
    model = GAT(3, 4, 2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    attach(model, GraphDropConnect(blocks=2))
    with pytest.warns(UserWarning, match="none of its 4 rate parameters.*after attach"):
        step(model, optimizer)
    step(model, optimizer)  # a warning would be an error here


def test_an_optimizer_with_the_rates_and_fixed_rates_are_fine() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned, fixed = GAT(3, 4, 2, 2), GAT(3, 4, 2, 2)
        early = torch.optim.Adam(fixed.parameters())
        attach(learned, GraphDropConnect(blocks=2))
        attach(fixed, DropEdge(0.2))
        step(learned, torch.optim.Adam(learned.parameters()))
        step(fixed, early)
