"""Predictions from several threads at once are those of one thread, and leave the model alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from contracts.masked_sums import normal, power_law_edges
from graphdrop import GCN, GraphDropConnect, attach, predict

DATA = Data(x=normal(60, 12), edge_index=power_law_edges(60, 200))


def own() -> nn.Module:
    return GCN(12, 8, 2, 4, GraphDropConnect(), dropout=0.5)


def attached() -> nn.Module:
    model = pyg.GAT(12, 8, 2, 4, dropout=0.5, norm="batch_norm")
    attach(model, GraphDropConnect(), sample_dropout=True)
    return model


@pytest.mark.parametrize("make", [own, attached])
def test_threads_get_the_bits_of_one_thread_and_training_goes_on(make) -> None:
    torch.manual_seed(0)
    model, seeds = make().train(), range(8)
    wanted = [predict(model, DATA, 5, seed=seed).probabilities for seed in seeds]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda seed: predict(model, DATA, 5, seed=seed), seeds))
    assert all(torch.equal(f.probabilities, w) for f, w in zip(found, wanted, strict=True))
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
