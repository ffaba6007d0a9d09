"""Batches travel to a device in their order, on a GPU one step ahead."""

from contextlib import contextmanager

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect
from graphdrop.graph import Graph
from graphdrop.loading import NeighborLoader
from graphdrop.loading.transfer import move_batches


def test_on_a_gpu_the_next_batch_is_copied_before_the_present_one_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: "Stream") -> None:
            events.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def stream(_copies: Stream):
        yield

    monkeypatch.setattr(torch.cuda, "Stream", lambda _: Stream("copy"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream("step"))
    monkeypatch.setattr(torch.cuda, "stream", stream)

    def move(batch: int) -> int:
        events.append(f"copy {batch}")
        return batch

    batches = move_batches(range(3), torch.device("cuda"), move)
    for batch in batches:
        events += [f"step {batch}"]
    # a copy may overwrite what the step before the present one has read, so it waits for that
    ahead, ready = "copy waits for step", "step waits for copy"
    assert events == [
        *(ahead, "copy 0", ready),
        *(ahead, "copy 1", "step 0", ready),
        *(ahead, "copy 2", "step 1", ready),
        "step 2",
    ]


def test_a_batch_moves_with_its_graph() -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 30, (2, 120), generator=generator)
    data = Data(x=torch.rand(30, 5, generator=generator), edge_index=edges)
    batch = next(iter(NeighborLoader(data, [3, 3], batch_size=4)))
    there = batch.to("meta")
    (first, second), model = there.graph.parts("sym", 2), GCN(5, 8, 2, 3, GraphDropConnect())
    assert all(isinstance(part, Graph) and part.value.is_meta for part in (first, second))
    assert first.parent is second.parent  # the whole graph was moved once
    with model.batch(there):
        assert model.to("meta").eval()(there.x, there.edge_index).shape == (4, 3)
