"""Sums on a GPU: when its kernels are taken, and what they say otherwise; sums without a mask."""

import warnings

import pytest
import torch

pytest.importorskip("triton")

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu.masked import unmasked_sum

NODES, FEATURES = 6, 3
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 12), NODES)


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


pytest.importorskip("triton")


NODES = 12


GRAPH = Graph.from_edge_index(power_law_edges(NODES, 40), NODES)


def test_sums_without_a_mask_take_any_matrix_and_pass_a_gradient_on() -> None:
    x = normal(NODES, 4).requires_grad_()
    out = unmasked_sum(GRAPH, x)
    wanted = aggregate(GRAPH, x, backend="reference")
    torch.testing.assert_close(out, wanted)
    (got,) = torch.autograd.grad(out.square().sum(), x)
    (slope,) = torch.autograd.grad(wanted.square().sum(), x)
    torch.testing.assert_close(got, slope)


def test_sums_without_a_mask_over_no_entries_are_zero() -> None:
    none = torch.zeros(0, dtype=torch.int32)
    empty = CSR.from_rows(torch.zeros(4, dtype=torch.int32), none, torch.zeros(0), 2)
    x = normal(2, 5).requires_grad_()
    out = unmasked_sum(empty, x)
    assert torch.equal(out, torch.zeros(3, 5))
    (got,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(got, torch.zeros(2, 5))
