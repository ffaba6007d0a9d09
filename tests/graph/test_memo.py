"""What is derived from a graph is made once, by one thread, and fit for training."""

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.memo import Memo

EDGES = torch.tensor([[0, 1, 2, 2, 3], [1, 0, 1, 1, 3]])
STRUCTURE = [
    *("edge_dst", "degree", "out_degree", "chunks", "t_chunks", "self_loop", "reverse"),
    *("draw_dst", "draw_src", "t_draw_dst", "t_rank"),
]


def part() -> Graph:
    """With ids, parallel edges and a parent."""
    return Graph.from_edge_index(EDGES, 4).rows(torch.tensor([1, 3]))


def test_threads_that_ask_at_once_all_get_the_one_entry() -> None:
    memo, barrier, made = Memo(), threading.Barrier(4), []

    def make() -> object:
        time.sleep(0.01)
        made.append(object())
        return made[-1]

    def ask(_: int) -> object:
        barrier.wait()
        return memo.get("key", make)

    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(ask, range(4)))
    assert len(made) == 1
    assert all(one is made[0] for one in got)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_graph_derives_for_itself(duplicate) -> None:
    graph = part()
    other = duplicate(graph)
    assert torch.equal(other.t_value, graph.t_value)
    assert other.t_value.data_ptr() != graph.t_value.data_ptr()
    assert torch.equal(other.chunks, graph.chunks)


@pytest.mark.parametrize("name", [*STRUCTURE, "t_value"])
def test_what_is_derived_in_inference_mode_can_be_saved_for_a_backward_pass(name: str) -> None:
    graph = part()
    with torch.inference_mode():
        assert not getattr(graph, name).is_inference()


def test_a_graph_built_in_inference_mode_consists_of_ordinary_tensors() -> None:
    with torch.inference_mode():
        whole = Graph.from_edge_index(EDGES, 4, torch.ones(5))
        graphs = [whole, whole.rows(torch.tensor([1])), whole.normalized("row"), whole.double()]
        graphs += [whole.source_loops, whole.unweighted()]
        for graph in graphs:
            tensors = [each for each in vars(graph).values() if isinstance(each, Tensor)]
            assert len(tensors) >= 7
            assert not any(tensor.is_inference() for tensor in tensors)


@pytest.mark.parametrize("name", STRUCTURE)
def test_graphs_that_differ_in_values_share_what_is_derived_from_the_structure(name: str) -> None:
    graph = part()
    wanted = getattr(graph, name)
    others = [graph.with_values(2 * graph.value), graph.normalized("row"), graph.double()]
    for other in others:
        assert getattr(other, name) is wanted
