"""Every layer that the page lists keeps the contract of `attach`."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import conv
from torch_geometric.nn.conv import MessagePassing

from contracts.attach_contract import EDGES, IN, OUT, AttachContract, Written, X
from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import attach
from graphdrop.nn.attach import Handle
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect

WEIGHTS = TOWN.edge_weight
SAMPLERS = {
    "symmetric": GraphDropConnect(LearnedRate(0.6), blocks=None, first_blocks=None, symmetric=True),
    "loops kept": GraphDropConnect(LearnedRate(0.3), first_blocks=3, self_loops=False),
    "edges": DropEdge(BetaBernoulliRate()),
    "nodes": DropNode(LearnedRate(0.6)),
    "features": DropOut(LearnedRate(0.6), rescale=False),
    "rescaled": DropOut(LearnedRate(0.6)),
}


class OnInputs(AttachContract):
    """Masks act on the layer's input: written out, its weights are taken off and put on again."""

    kernel = True

    def written(self, handle: Handle, draw: Draw | None) -> tuple[Tensor, Written]:
        written = Written(handle, draw)
        layer = written.model
        lin, bias = layer.lin, layer.bias
        layer.lin, layer.bias = nn.Identity(), None
        out = lin(self.call(layer)) + bias
        layer.lin, layer.bias = lin, bias
        return out, written


class TestGCNConv(OnInputs):
    def layer(self) -> MessagePassing:
        return conv.GCNConv(IN, OUT)


class TestGCNConvWithWeights(TestGCNConv):
    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X, EDGES, WEIGHTS)
        return out


class TestDecomposedGCNConv(TestGCNConv):
    def layer(self) -> MessagePassing:
        return conv.GCNConv(IN, OUT, decomposed_layers=2)


class TestGCNConvInDouble(TestGCNConv):
    kernel = False

    def layer(self) -> MessagePassing:
        return conv.GCNConv(IN, OUT).double()

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X.double(), EDGES)
        return out


class TestSAGEConv(AttachContract):
    kernel = True

    def layer(self) -> MessagePassing:
        return conv.SAGEConv(IN, OUT)


class TestSAGEConvSum(TestSAGEConv):
    def layer(self) -> MessagePassing:
        return conv.SAGEConv(IN, OUT, aggr="sum")


class TestSAGEConvMax(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.SAGEConv(IN, OUT, aggr="max")


class TestGATConv(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.GATConv(IN, 2, heads=OUT // 2)


class TestGATv2Conv(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.GATv2Conv(IN, 2, heads=OUT // 2)


class TestGINConv(AttachContract):
    kernel = True

    def layer(self) -> MessagePassing:
        return conv.GINConv(nn.Sequential(nn.Linear(IN, 8), nn.Tanh(), nn.Linear(8, OUT)))


class TestGCN2Conv(AttachContract):
    kernel = True

    def layer(self) -> MessagePassing:
        return conv.GCN2Conv(OUT, alpha=0.1)

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X[:, :OUT], 0.5 * X[:, -OUT:], EDGES)
        return out


class TestAPPNP(AttachContract):
    kernel = True

    def layer(self) -> MessagePassing:
        return conv.APPNP(K=3, alpha=0.1)

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X[:, :OUT], EDGES)
        return out


class TestChebConv(AttachContract):
    kernel = True

    def layer(self) -> MessagePassing:
        return conv.ChebConv(IN, OUT, K=3)


class TestPNAConv(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.PNAConv(
            IN,
            OUT,
            aggregators=["mean", "max", "std"],
            scalers=["identity", "amplification"],
            deg=torch.tensor([1, 2, 2, 1]),
            towers=2,
            divide_input=True,
        )


class TestTransformerConv(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.TransformerConv(IN, 2, heads=OUT // 2, edge_dim=3)

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X, EDGES, normal(EDGES.shape[1], 3, seed=2))
        return out


class TestRGCNConv(AttachContract):
    def layer(self) -> MessagePassing:
        return conv.RGCNConv(IN, OUT, num_relations=3)

    def call(self, layer: Any) -> Tensor:
        relation = torch.tensor([0, 1, 0, 1, 0, 0, 1, 1, 0, 1])  # the parallels differ, 2 is empty
        out: Tensor = layer(X, EDGES, relation)
        return out


class TestSGConvDecomposed(AttachContract):
    """Not on the page: one for which nothing is made in particular."""

    def layer(self) -> MessagePassing:
        return conv.SGConv(IN, OUT, K=2, decomposed_layers=2)

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X, EDGES, WEIGHTS)
        return out


@pytest.mark.parametrize(  # messages that are masked, sums in the kernel and sums in several hops
    ("kind", "name"),
    [
        *((TestGATConv, name) for name in SAMPLERS),
        *((TestSAGEConv, name) for name in ("symmetric", "nodes", "features")),
        *((TestAPPNP, name) for name in ("loops kept", "edges", "rescaled")),
    ],
)
def test_messages_share_draws_as_the_sampler_says(kind: type, name: str) -> None:
    case = kind()
    handle = attach(case.layer(), SAMPLERS[name])
    for step in range(3):
        draw = Draw(1, step, temperature=0.67)
        wanted, _ = case.written(handle, draw)
        found = case.sampled(handle, draw)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        slopes = [
            torch.autograd.grad(out, list(handle.parameters()), normal(*out.shape, seed=2))
            for out in (found, wanted)
        ]
        torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-4)
