"""One entry point: which backend it takes, and what it says to arguments that cannot be right."""

from dataclasses import replace

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels import aggregate, cpu, reference
from graphdrop.kernels.aggregate import Backend

NODES = 9
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 20), NODES)
X = normal(NODES, 7)
MASK = Mask(Kind.HARD, torch.tensor(0.3), stream_key(1))


@pytest.mark.parametrize(
    ("x", "what"),
    [
        (normal(NODES + 1, 7), r"x has shape \(10, 7\); it takes shape \[9, features\]"),
        (normal(NODES), r"x has shape \(9,\); it takes shape \[9, features\]"),
        (normal(2, NODES, 7), r"x has shape \(2, 9, 7\); it takes shape \[9, features\]"),
    ],
)
def test_x_of_another_shape(x: torch.Tensor, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        aggregate(GRAPH, x, MASK)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_x_that_is_not_floating_point(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=rf"x has dtype {dtype}; it takes a floating"):
        aggregate(GRAPH, X.to(dtype), MASK)


def test_more_blocks_than_features() -> None:
    with pytest.raises(
        ValueError, match=r"blocks is 8; it takes at most the number of features, 7"
    ):
        aggregate(GRAPH, X, replace(MASK, blocks=8))


@pytest.mark.parametrize("backend", Backend)
def test_a_keep_logit_for_the_wrong_number_of_edges(backend: Backend) -> None:
    count = GRAPH.num_edges
    for kind in Kind:
        mask = Mask(kind, torch.zeros(count + 1), MASK.key)
        with pytest.raises(
            ValueError, match=rf"keep_logit has {count + 1} .* each of the {count} edges"
        ):
            aggregate(GRAPH, X, mask, backend=backend)


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match=r"backend is 'cuda': give one of auto, fused, triton, reference"
    ):
        aggregate(GRAPH, X, MASK, backend="cuda")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_the_fused_backend_takes_float32_only(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=rf"backend='fused' takes float32.*{dtype}.*'auto'"):
        aggregate(GRAPH, X.to(dtype), MASK, backend="fused")


@pytest.mark.parametrize("per_edge", [False, True])
def test_the_fused_backend_refuses_temperatures_that_it_cannot_represent(per_edge: bool) -> None:
    logit = torch.full((GRAPH.num_edges,), 3.0) if per_edge else torch.tensor(3.0)
    mask = Mask(Kind.CONCRETE, logit, MASK.key, temperature=0.01)
    with pytest.raises(ValueError, match=r"temperature 0.01"):
        aggregate(GRAPH, X, mask, backend="fused")
    exact = aggregate(GRAPH.double(), X.double(), mask)
    torch.testing.assert_close(aggregate(GRAPH, X, mask).double(), exact, rtol=1e-4, atol=1e-5)


def test_auto_is_the_fused_kernel_for_float32_and_the_reference_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[str] = []

    def take(name: str, module: object) -> None:
        function = getattr(module, "aggregate")  # noqa: B009

        def noted(*arguments: object) -> object:
            taken.append(name)
            return function(*arguments)

        monkeypatch.setattr(module, "aggregate", noted)

    take("fused", cpu)
    take("reference", reference)
    aggregate(GRAPH, X, MASK)
    aggregate(GRAPH, X.double(), MASK)
    aggregate(GRAPH.double(), X, MASK)
    aggregate(GRAPH, X, MASK, backend="reference")
    aggregate(GRAPH, X, MASK, backend="fused")
    assert taken == ["fused", "reference", "reference", "reference", "fused"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"blocks": 0}, r"blocks is 0; it takes"),
        ({"temperature": 0.0}, r"temperature is 0.0; it takes"),
        ({"keep_logit": torch.zeros(2, 2)}, r"keep_logit has shape \(2, 2\); it takes a scalar"),
        ({"key": torch.zeros(2)}, r"key .*float32; it takes an int64 tensor"),
        (
            {"symmetric": True, "sharing": Sharing.SOURCE},
            r"symmetric is True; it takes sharing='edge'",
        ),
    ],
)
def test_masks_that_cannot_be(options: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        replace(MASK, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["fused", "reference"])
@pytest.mark.parametrize("before", [False, True])
def test_the_first_sum_may_be_in_inference_mode_and_the_next_a_training_step(
    backend: str, before: bool
) -> None:
    whole = Graph.from_edge_index(power_law_edges(NODES, 20), NODES)
    graph, logit = whole.rows(torch.arange(0, NODES, 3)), normal(whole.num_edges).requires_grad_()
    mask = Mask(Kind.CONCRETE, logit, stream_key(1), blocks=2, before_normalization=before)
    x = normal(graph.num_src, 7).requires_grad_()
    with torch.inference_mode():
        predicted = aggregate(graph, x, mask, backend=backend)
    out = aggregate(graph, x, mask, backend=backend)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(out, predicted)
    assert x.grad is not None
    assert logit.grad is not None


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch reads it where it resumes
@pytest.mark.parametrize("kind", [Kind.HARD, Kind.CONCRETE])
def test_a_compiled_layer_equals_the_eager_one_and_a_new_key_compiles_nothing(kind: Kind) -> None:
    weight = normal(7, 7, seed=3)

    def layer(x: torch.Tensor, logit: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.relu(aggregate(GRAPH, x, Mask(kind, logit, key, blocks=2)) @ weight)

    x, logit = X.clone().requires_grad_(), torch.tensor(0.3, requires_grad=True)
    inputs = [x, logit] if kind is Kind.CONCRETE else [x]
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled, frames = torch.compile(layer, backend=counter), []
    for step in range(3):
        key = stream_key(1, step)
        wanted, got = layer(x, logit, key), compiled(x, logit, key)
        assert torch.equal(got, wanted)
        gradients = (torch.autograd.grad(out.sum(), inputs) for out in (got, wanted))
        assert all(map(torch.equal, *gradients))
        frames.append(counter.frame_count)
    assert frames[0] == frames[-1] > 0
    torch._dynamo.reset()
