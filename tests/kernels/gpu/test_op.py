"""Triton's masked sum as torch's tools see it, and when it is chosen."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

pytest.importorskip("triton")

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu.structure import structure_of

NODES, FEATURES = 6, 3
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 12), NODES)
CASES = [(Kind.HARD, False), (Kind.CONCRETE, True)]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def logit_of(per_edge: bool) -> Tensor:
    return normal(GRAPH.num_edges) if per_edge else torch.tensor(0.3)


@pytest.mark.parametrize(("kind", "per_edge"), CASES)
def test_the_op_keeps_the_rules_of_torch_library(kind: Kind, per_edge: bool) -> None:
    rates = logit_of(per_edge)[None].requires_grad_(kind is Kind.CONCRETE)
    arguments: tuple[Any, ...] = (
        normal(NODES, 1, FEATURES).requires_grad_(),
        structure_of(GRAPH),
        rates,
        stream_key(1)[None],
        [],
        [list(Kind).index(kind), 0, 2, 0, 1, 0],
        0.67,
    )
    torch.library.opcheck(torch.ops.graphdrop.masked_sum.default, arguments)


def test_the_op_without_a_mask_keeps_them_too() -> None:
    parts = [[GRAPH.indptr, GRAPH.indices, GRAPH.value]]
    parts.append([GRAPH.t_indptr, GRAPH.t_indices, GRAPH.t_value])
    x = normal(NODES, FEATURES).requires_grad_()
    torch.library.opcheck(torch.ops.graphdrop.sparse_sum.default, (x, *parts))


@pytest.mark.parametrize(("kind", "per_edge"), CASES)
def test_a_compiled_layer_equals_the_eager_one_and_a_new_key_compiles_nothing(
    kind: Kind, per_edge: bool
) -> None:
    def layer(x: Tensor, logit: Tensor, key: Tensor) -> Tensor:
        mask = Mask(kind, logit, key, blocks=2)
        return torch.relu(aggregate(GRAPH, x, mask, backend="triton"))

    logit, x = logit_of(per_edge).requires_grad_(), normal(NODES, FEATURES).requires_grad_()
    inputs = [x, logit] if kind is Kind.CONCRETE else [x]
    layer(x, logit, stream_key(0))
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter, fullgraph=True)
    for step in range(2):
        key = stream_key(1, step)
        wanted, got = layer(x, logit, key), compiled(x, logit, key)
        assert torch.equal(got, wanted)
        gradients = (torch.autograd.grad(one.sum(), inputs) for one in (got, wanted))
        assert all(map(torch.equal, *gradients))
    assert counter.frame_count == 1


def test_torch_export_sees_one_op() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Tensor, key: Tensor) -> Tensor:
            mask = Mask(Kind.HARD, torch.tensor(0.3), key, blocks=2)
            return aggregate(GRAPH, x, mask, backend="triton")

    arguments = normal(NODES, FEATURES), stream_key(3)
    wanted = Layer()(*arguments)
    exported = torch.export.export(Layer(), arguments)
    calls = [str(node.target) for node in exported.graph.nodes if "graphdrop" in str(node.target)]
    assert calls == ["graphdrop.masked_sum.default"]
    assert torch.equal(exported.module()(*arguments), wanted)


def test_a_gradient_of_a_gradient_is_refused_rather_than_wrong() -> None:
    x = normal(NODES, FEATURES).requires_grad_()
    out = aggregate(GRAPH, x, Mask(Kind.HARD, torch.tensor(0.3), stream_key(1)), backend="triton")
    (gradient,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()  # type: ignore[no-untyped-call]


def test_one_warning_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "has_triton", lambda: False)
    gpu._say_what_is_missing.cache_clear()
    with pytest.warns(RuntimeWarning, match="pip install triton"):
        assert not gpu.is_usable(torch.device("cuda"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not gpu.is_usable(torch.device("cuda", 1))
        assert not gpu.is_usable(torch.device("mps"))
    gpu._say_what_is_missing.cache_clear()


def test_the_backend_refuses_what_it_does_not_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    x, mask = normal(NODES, FEATURES), Mask(Kind.HARD, torch.tensor(0.3), stream_key(1))
    with pytest.raises(ValueError, match=r"backend='triton' takes float32.*got x torch.float64"):
        aggregate(GRAPH, x.double(), mask, backend="triton")
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match=r"backend='triton'.* on a GPU.*on cpu"):
        aggregate(GRAPH, x, mask, backend="triton")
