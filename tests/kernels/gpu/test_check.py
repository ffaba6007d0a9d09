"""A GPU kernel that is wrong, or fails, is found out before its first use; plain torch computes."""

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu import check, launch, masked, rows, structure
from graphdrop.kernels.samples import aggregate_stacked

NODES = 12
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 40), NODES)
KERNELS = [sys.modules[function.__module__] for function in (aggregate, aggregate_stacked)]


@pytest.fixture(autouse=True)
def the_cpu_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """``auto`` takes the interpreted kernels, and nothing is known of them; hubs are small."""
    monkeypatch.setattr(gpu, "is_gpu", lambda device: device.type == "cpu")
    for module in KERNELS:
        if hasattr(module, "is_fused"):
            monkeypatch.setattr(module, "is_fused", lambda *_: False)
    monkeypatch.setattr(structure, "SPAN", 8)
    for known in (check.agreed, check.refused):
        known.clear()
    yield
    for known in (check.agreed, check.refused):
        known.clear()


def mask_of(kind: Kind = Kind.CONCRETE, **options: Any) -> Mask:
    return Mask(kind, torch.tensor(0.3), stream_key(3), **{"blocks": None, **options})


def passes(backend: str, mask: Mask, graph: Graph = GRAPH) -> list[Tensor]:
    x = normal(graph.num_src, 5).requires_grad_()
    inputs = [x]
    if mask.table is not None:
        inputs.append(mask.table.parameters.clone().requires_grad_())
        mask = replace(mask, table=replace(mask.table, parameters=inputs[1]))
    elif mask.kind is Kind.CONCRETE:
        inputs.append(mask.keep_logit.clone().requires_grad_())
        mask = replace(mask, keep_logit=inputs[1])
    out = aggregate(graph, x, mask, backend=backend)
    return [out, *torch.autograd.grad(out.square().sum(), inputs)]


def draw_from_the_wrong_half(kernels: pytest.MonkeyPatch) -> None:
    right = rows.draw_values

    def wrong(bits: Any, number: Any, antithetic: Any) -> Any:
        return right(bits, number + 16, antithetic)

    kernels.setattr(rows, "draw_values", wrong)


def forget_long_rows(kernels: pytest.MonkeyPatch) -> None:
    class Forgotten:
        def __getitem__(self, grid: Any) -> Any:
            return lambda _partial, out, *_, **__: out[0].zero_()

    kernels.setattr(rows, "add_parts", Forgotten())


def scale_the_slopes(kernels: pytest.MonkeyPatch) -> None:
    right = launch.sum_rows

    def wrong(*arguments: Any) -> Any:
        out, slopes = right(*arguments)
        return out, slopes if slopes is None else 1.01 * slopes

    kernels.setattr(launch, "sum_rows", wrong)


def answer_with_nan(kernels: pytest.MonkeyPatch) -> None:
    right = launch.sum_rows

    def wrong(*arguments: Any) -> Any:
        out, slopes = right(*arguments)
        return out * torch.nan, slopes

    kernels.setattr(launch, "sum_rows", wrong)


def refuse_to_compile(kernels: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> Any:
        raise RuntimeError("PTX was compiled with an unsupported toolchain.\nand more lines")

    kernels.setattr(launch, "sum_rows", wrong)


BREAK = {
    "is .* times as far": [draw_from_the_wrong_half, forget_long_rows, answer_with_nan],
    "gradient of the rates is": [scale_the_slopes],
    r"RuntimeError: PTX was compiled with an unsupported toolchain\.\. Plain": [refuse_to_compile],
}


@pytest.mark.parametrize(
    ("message", "broken"), [(words, one) for words, each in BREAK.items() for one in each]
)
def test_of_a_broken_kernel_one_warning_speaks_and_torch_computes(
    message: str, broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.warns(RuntimeWarning, match=message) as heard:
        got = passes("auto", mask_of())
    assert len(heard) == 1
    assert "\n" not in str(heard[0].message)
    with warnings.catch_warnings():  # once, and for every form of mask
        warnings.simplefilter("error")
        assert all(map(torch.equal, got, passes("auto", mask_of())))
        hard = passes("auto", mask_of(Kind.HARD))
    assert all(map(torch.equal, got, passes("reference", mask_of())))
    assert all(map(torch.equal, hard, passes("reference", mask_of(Kind.HARD))))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Kind.NONE, {}),
        (Kind.MEAN, {}),
        (Kind.HARD, {"blocks": 1, "symmetric": True}),
        (Kind.HARD, {"sharing": Sharing.SOURCE, "antithetic": True}),
        (Kind.CONCRETE, {"blocks": 2, "self_loops": False}),
        (Kind.CONCRETE, {"keep_logit": normal(GRAPH.num_edges), "temperature": 0.2}),
        (
            Kind.CONCRETE,
            {
                "table": Table(
                    torch.linspace(0, 1, 4096).double(), torch.ones(2, 4096).double(), torch.ones(2)
                )
            },
        ),
    ],
)
def test_kernels_that_are_right_pass_the_check_and_compute(
    kind: Kind, options: dict[str, Any]
) -> None:
    mask = replace(mask_of(kind), **options)
    assert all(map(torch.equal, passes("auto", mask), passes("triton", mask)))
    assert len(check.agreed) == 1
    assert check.refused == set()


def test_parts_and_wide_features_and_half_precision_are_forms_of_their_own() -> None:
    mask = mask_of(Kind.HARD, blocks=2)
    part = GRAPH.rows(torch.arange(3, NODES))
    for graph, features, dtype in (
        (GRAPH, 5, torch.float32),
        (part, 5, torch.float32),
        (GRAPH, 180, torch.float32),
        (GRAPH, 180 + 16, torch.float32),  # the same code
        (GRAPH, 5, torch.bfloat16),
    ):
        assert gpu.is_right(graph, normal(graph.num_src, features).to(dtype), mask)
    assert len(check.agreed) == 4


def test_a_wrong_sum_without_a_mask_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = masked.unmasked_sum
    monkeypatch.setattr(masked, "unmasked_sum", lambda graph, x: 1.01 * right(graph, x))
    x = normal(NODES, 5)
    with pytest.warns(RuntimeWarning, match="sums under none masks"):
        out = aggregate(GRAPH, x)
    assert torch.equal(out, aggregate(GRAPH, x, backend="reference"))


def test_a_backend_asked_for_by_name_is_taken_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with_nan(monkeypatch)
    x, mask = normal(NODES, 5), mask_of(Kind.HARD)
    assert bool(aggregate(GRAPH, x, mask, backend="triton").isnan().all())
