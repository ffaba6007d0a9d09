"""Masked sums and summaries of CUDA tensors that are fake: none of another device gets in.

In a process of its own, since what is fake must not meet what other tests have cached. Without
gradients, which abort where torch has no CUDA; such a build also refuses to copy and to slice.
"""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphdrop.graph.masks import Kind, Mask, Sharing
from graphdrop.graph import Graph
from graphdrop.inference.predictive import sum_samples
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu import launch, masked
from graphdrop.kernels.samples import aggregate_stacked

original, sent = torch.Tensor.to, []


def to(self, *arguments, **options):
    device, dtype, _, _ = torch._C._nn._parse_to(*arguments, **options)
    if device is None or device.type != "cuda" or self.device.type == "cuda":
        return original(self, *arguments, **options)
    sent.append(self.numel())
    return torch.empty_like(self, device="cuda", dtype=dtype or self.dtype)


torch.Tensor.to = to
gpu.has_triton = lambda: True
# what would be launched there: all that it reads is on the device
def sum_rows(direction, x, rule):
    read = [x, rule.rates, rule.keys, direction.indptr, *direction.segments, direction.value]
    assert all(tensor.is_cuda for tensor in read)
    return x.new_empty(direction.num_rows, rule.keys.shape[0], x.shape[2]), None


def multiply(matrix, x, *, transposed):
    assert x.is_cuda and matrix.value.is_cuda
    return x.new_empty(matrix.num_rows, x.shape[1])


launch.sum_rows, masked._multiply = sum_rows, multiply
graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
    there = graph.to("cuda")
    x, logit = torch.rand(9, 5, device="cuda"), torch.zeros((), device="cuda")
    key = torch.zeros(2, dtype=torch.int64)
    for kind in Kind:
        for dtype in (torch.float32, torch.bfloat16):
            mask = Mask(kind, logit, key, blocks=None)
            sent.clear()
            out = aggregate(there, x.to(dtype), mask)
            assert out.is_cuda and out.shape == (9, 5) and out.dtype == dtype
            assert sum(sent) <= 2, sent  # the key
        per_edge = Mask(kind, torch.rand(graph.num_edges, device="cuda"), key, symmetric=True)
        assert aggregate(there, x, per_edge).is_cuda
        if kind in (Kind.HARD, Kind.CONCRETE):
            source = Mask(kind, logit, key, Sharing.SOURCE, blocks=2)
            stacked = aggregate_stacked(there, x.unsqueeze(1), [source] * 3)
            assert stacked.is_cuda and stacked.shape == (9, 3, 5)
    for output in ("labels", "gaussian"):
        samples = [torch.rand(9, 4, device="cuda") for _ in range(3)]
        answer = sum_samples(iter(samples), output, False)
        parts = [one for one in vars(answer).values() if isinstance(one, torch.Tensor)]
        assert parts and all(one.is_cuda for one in parts)
print("done")
"""


def test_sums_and_summaries_of_fake_cuda_tensors() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr[-3000:]
