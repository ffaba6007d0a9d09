"""The fused kernel as torch's own tools see it: autograd, torch.compile and the profiler."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.profiler import ProfilerActivity, profile

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate, cpu

NODES, FEATURES = 30, 7
WEIGHT = normal(FEATURES, FEATURES, seed=3)
CASES = [(Kind.HARD, False), (Kind.CONCRETE, False), (Kind.CONCRETE, True)]


def graph(seed: int = 0) -> Graph:
    return Graph.from_edge_index(power_law_edges(NODES, 100, seed), NODES)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer(graph: Graph, x: Tensor, logit: Tensor, key: Tensor, kind: Kind) -> Tensor:
    mask = Mask(kind, logit, key, blocks=2)
    return torch.relu(aggregate(graph, x, mask, backend="fused") @ WEIGHT)


@pytest.mark.parametrize(("kind", "per_edge"), CASES)
def test_a_compiled_layer_equals_the_eager_one_and_a_new_key_compiles_nothing(
    kind: Kind, per_edge: bool
) -> None:
    g = graph()
    logit = (normal(g.num_edges) if per_edge else torch.tensor(0.3)).requires_grad_()
    x = normal(NODES, FEATURES).requires_grad_()
    inputs = [x, logit] if kind is Kind.CONCRETE else [x]
    layer(g, x, logit, stream_key(0), kind)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter, fullgraph=True)
    for step in range(4):
        key = stream_key(1, step)
        wanted, got = layer(g, x, logit, key, kind), compiled(g, x, logit, key, kind)
        assert torch.equal(got, wanted)
        for gradient, wanted_gradient in zip(
            torch.autograd.grad(got.sum(), inputs),
            torch.autograd.grad(wanted.sum(), inputs),
            strict=True,
        ):
            assert torch.equal(gradient, wanted_gradient)
    assert counter.frame_count == 1


def test_a_compiled_layer_reads_the_graph_that_it_is_given() -> None:
    graphs = [graph(seed) for seed in range(3)]
    x, logit, key = normal(NODES, FEATURES), torch.tensor(0.3), stream_key(1)
    compiled = torch.compile(layer, backend="aot_eager")
    for g in graphs + graphs:
        got = compiled(g, x, logit, key, Kind.HARD)
        assert torch.equal(got, layer(g, x, logit, key, Kind.HARD))


def arguments(
    kind: Kind, *, per_edge: bool
) -> tuple[Tensor, list[Tensor], Tensor, Tensor, Tensor, Tensor]:
    """What the op takes, as `aggregate` would give it."""
    g = graph()
    logit = normal(g.num_edges) if per_edge else torch.tensor(0.3)
    return (
        normal(NODES, FEATURES).requires_grad_(),
        cpu._structure(g),
        logit.requires_grad_(kind is Kind.CONCRETE),
        stream_key(1),
        torch.tensor([list(Kind).index(kind), 0, 2, 0, 1, 0]),
        torch.tensor(0.67, dtype=torch.float64),
    )


@pytest.mark.parametrize(("kind", "per_edge"), CASES)
def test_the_op_keeps_the_rules_of_torch_library(kind: Kind, per_edge: bool) -> None:
    """Its schema, its shapes without data, its derivative, and its behaviour under tracing."""
    torch.library.opcheck(torch.ops.graphdrop.aggregate.default, arguments(kind, per_edge=per_edge))


def test_the_profiler_names_the_op_and_its_backward_pass() -> None:
    g, x = graph(), normal(NODES, FEATURES).requires_grad_()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        aggregate(g, x).sum().backward()  # type: ignore[no-untyped-call]
    names = {event.key for event in profiler.key_averages()}
    assert {"graphdrop::aggregate", "graphdrop::aggregate_backward"} <= names


def test_the_input_is_kept_for_the_backward_pass_only_where_the_logit_needs_it() -> None:
    for wanted in (False, True):
        kept: list[Tensor] = []

        def keep(tensor: Tensor, kept: list[Tensor] = kept) -> Tensor:
            kept.append(tensor)
            return tensor

        x, logit = normal(NODES, FEATURES).requires_grad_(), torch.tensor(0.3, requires_grad=wanted)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            aggregate(graph(), x, Mask(Kind.CONCRETE, logit, stream_key(1)))
        assert any(tensor.data_ptr() == x.data_ptr() for tensor in kept) == wanted


def test_a_gradient_of_a_gradient_is_refused_rather_than_wrong() -> None:
    x = normal(NODES, FEATURES).requires_grad_()
    out = aggregate(graph(), x, backend="fused")
    (gradient,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()  # type: ignore[no-untyped-call]
