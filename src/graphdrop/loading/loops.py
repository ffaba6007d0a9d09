"""The compiled loops of neighbour sampling: which edges of each row, and the numbers of new nodes.

Every row is sampled by one thread from its own random words, and nodes are numbered in the order in
which edges name them first: the result does not depend on the number of threads.
"""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from graphdrop.kernels.loops import SOURCE, compiled, edge_bits
from graphdrop.kernels.tiles import prefetch

MARKED = 64
"""Up to this fan-out a row's choices are compared one by one; beyond it the row is walked along."""
AHEAD, LAG = 16, 64
"""Rows, or edges, between asking for a place in memory and reading it."""
RUNS = 64
"""Runs of the edges of a part, which threads take one after another."""
ONE_LINE = (0,)
_U32 = np.uint64(32)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _below(limit: Any, node: Any, number: Any, key0: Any, key1: Any) -> Any:
    """A random number in ``[0, limit)``, the ``number``-th of this node."""
    word = edge_bits(node, number, np.int64(0), key0, key1, np.int64(0)) >> _U32
    return np.int64((word * np.uint64(limit)) >> _U32)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _source_word(node: Any, key0: Any, key1: Any) -> Any:
    """32 random bits of a source node, the same for all of its edges."""
    return edge_bits(node, node, np.int64(0), key0, key1, SOURCE) >> _U32


@njit(inline="always")  # type: ignore[untyped-decorator]
def _first_loop(node: Any, begin: Any, end: Any, sources: Any) -> Any:
    """Where the self-loops of a row are, or would be; sources are sorted."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if sources[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")  # type: ignore[untyped-decorator]
def _loops_of(node: Any, begin: Any, end: Any, sources: Any, looped: Any) -> Any:
    """Where the self-loops of a row begin and end; `looped` marks the nodes that have any."""
    if looped.size == 0 or not looped[node]:
        return begin, begin
    first = _first_loop(node, begin, end, sources)
    last = first
    while last < end and sources[last] == node:
        last += 1
    return first, last


@compiled
def count_edges(
    counts: Any,
    nodes: Any,
    indptr: Any,
    sources: Any,
    looped: Any,
    fan_out: Any,
    replace: Any,
    shared: Any,
    key0: Any,
    key1: Any,
) -> None:
    """``counts[i]``: how many edges of row ``nodes[i]`` are taken, its self-loops included."""
    for i in prange(nodes.size):
        node = np.int64(nodes[i])
        prefetch(indptr, np.intp(nodes[min(i + AHEAD, nodes.size - 1)]), ONE_LINE)
        begin, end = indptr[node], indptr[node + 1]
        first, last = _loops_of(node, begin, end, sources, looped)
        others = (end - begin) - (last - first)
        taken = others
        if fan_out >= 0 and (fan_out < others or (replace and others > 0)):
            taken = np.int64(fan_out)
            if shared:
                taken = np.int64(0)
                limit = (np.uint64(fan_out) << _U32) // np.uint64(others)
                for edge in range(begin, end):
                    if (edge < first or edge >= last) and (
                        _source_word(sources[edge], key0, key1) < limit
                    ):
                        taken += 1
        counts[i] = taken + (last - first)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _insert(out: Any, start: Any, place: Any, number: Any) -> None:
    """Put a number behind ``place`` sorted ones, in order."""
    while place > start and out[place - 1] > number:
        out[place] = out[place - 1]
        place -= 1
    out[place] = number


@njit(inline="always")  # type: ignore[untyped-decorator]
def _choose(
    out: Any,
    start: Any,
    count: Any,
    others: Any,
    node: Any,
    replace: Any,
    ordered: Any,
    key0: Any,
    key1: Any,
) -> None:
    """``count`` numbers below ``others``, distinct or not, in ascending order or in any."""
    if replace:
        for chosen in range(count):
            _insert(out, start, start + chosen, _below(others, node, chosen, key0, key1))
    elif count > MARKED:  # selection sampling: one word for every candidate
        chosen = start
        for number in range(others):
            left = start + count - chosen
            if left > 0 and _below(others - number, node, number, key0, key1) < left:
                out[chosen] = number
                chosen += 1
    else:  # Floyd's: one word for every choice
        for chosen in range(count):
            last = others - count + chosen
            number = _below(last + 1, node, chosen, key0, key1)
            for earlier in range(start, start + chosen):
                if out[earlier] == number:
                    number = last
            if ordered:
                _insert(out, start, start + chosen, number)
            else:
                out[start + chosen] = number


@compiled
def take_edges(  # noqa: PLR0912 - one way of choosing edges after another
    positions: Any,
    found: Any,
    offsets: Any,
    chunks: Any,
    nodes: Any,
    indptr: Any,
    sources: Any,
    looped: Any,
    fan_out: Any,
    replace: Any,
    shared: Any,
    key0: Any,
    key1: Any,
) -> None:
    """The positions of the edges taken, those of one edge side by side, and their sources.

    Args:
        positions: out, of the edges.
        found: out, the sources of the edges.
        offsets: where the edges of each row begin, by ``count_edges``.
        chunks: runs of rows with about equally many edges.
        nodes: the rows.
        indptr: where each row of the graph begins.
        sources: of all edges of the graph.
        looped: marks the nodes with self-loops, which are always taken; empty if there are none.
        fan_out: how many edges of a row are taken; negative for all.
        replace: whether an edge may be taken several times.
        shared: whether all rows share one random number per source (LABOR).
        key0: of the random words.
        key1: of the random words.
    """
    for chunk in prange(chunks.size - 1):
        read = offsets[chunks[chunk]]
        for i in range(chunks[chunk], chunks[chunk + 1]):
            node, out, stop = np.int64(nodes[i]), offsets[i], offsets[i + 1]
            prefetch(indptr, np.intp(nodes[min(i + AHEAD, nodes.size - 1)]), ONE_LINE)
            begin, end = indptr[node], indptr[node + 1]
            first, last = _loops_of(node, begin, end, sources, looped)
            own = last - first
            others = (end - begin) - own
            if not (fan_out >= 0 and (fan_out < others or (replace and others > 0))):
                for number in range(stop - out):
                    positions[out + number] = begin + number
            elif shared:
                limit, number = (np.uint64(fan_out) << _U32) // np.uint64(others), out
                for edge in range(begin, end):
                    if (first <= edge < last) or _source_word(sources[edge], key0, key1) < limit:
                        positions[number] = edge
                        number += 1
            else:
                count = stop - out - own
                _choose(positions, out, count, others, node, replace, own > 0, key0, key1)
                # the numbers are those of the other edges: the self-loops stand between them
                place = stop - 1
                for number in range(stop - own - 1, out - 1, -1):
                    edge = begin + positions[number]
                    if own and place - number == own and edge < first:
                        for loop in range(own):
                            positions[place] = last - 1 - loop
                            place -= 1
                    positions[place] = edge if place == number else edge + own
                    place -= 1
                while place >= out:
                    positions[place] = first + (place - out)
                    place -= 1
            for place in range(out, stop):
                prefetch(sources, np.intp(positions[place]), ONE_LINE)
            while read + LAG < stop:  # those that were asked for long enough ago
                found[read] = sources[positions[read]]
                read += 1
        while read < offsets[chunks[chunk + 1]]:
            found[read] = sources[positions[read]]
            read += 1


@compiled
def number_parts(
    columns: Any, listed: Any, counts: Any, known: Any, found: Any, local: Any, base: Any
) -> None:
    """Number the sources of edges, each part of the edges in its own row of ``local``.

    Args:
        columns: out, the number of each edge's source, within its part if it is new.
        listed: out, the new nodes of each part from the place of its first edge on.
        counts: out, how many there are.
        known: numbers below this one are those of all parts; new ones begin here.
        found: the source of each edge.
        local: ``[parts, nodes]``, the number of each node plus the base; less than it for none.
        base: of this batch.
    """
    parts, edges = counts.size, found.size
    for part in prange(parts):
        begin, end = part * edges // parts, (part + 1) * edges // parts
        new = begin
        for edge in range(begin, end):
            prefetch(local[part], np.intp(found[min(edge + AHEAD, edges - 1)]), ONE_LINE)
            node = found[edge]
            number = local[part, node]
            listed[new] = node  # no branch, which would be mispredicted half of the time
            next_number = np.int32(base + known + new - begin)
            new += number < base
            number = next_number if number < base else number
            local[part, node] = number
            columns[edge] = number - base
        counts[part] = new - begin


@njit(inline="always")  # type: ignore[untyped-decorator]
def _run_of(task: Any, edges: Any, counts: Any) -> Any:
    """Of the parts but the first: a part, where its edges begin, and a run of its new nodes."""
    parts = counts.size
    part, run = 1 + task // RUNS, task % RUNS
    begin = part * edges // parts
    return part, begin + run * counts[part] // RUNS, begin + (run + 1) * counts[part] // RUNS


@compiled
def find_twins(
    twins: Any,
    numbers: Any,
    firsts: Any,
    listed: Any,
    counts: Any,
    known: Any,
    local: Any,
    base: Any,
) -> None:
    """``twins[i]``: the place in ``listed`` of a node that an earlier part lists, too; -1 for none.

    The number of a twin in the first part is known. ``firsts[run]`` is the number of nodes without
    a twin in each run of the other parts.
    """
    parts, edges = counts.size, listed.size
    for task in prange((parts - 1) * RUNS):
        part, first, last = _run_of(task, edges, counts)
        total = 0
        for i in range(first, last):
            prefetch(local[0], np.intp(listed[min(i + AHEAD, last - 1)]), ONE_LINE)
            twin = np.int64(-1)
            for earlier in range(part):
                number = local[earlier, listed[i]] - base
                if number >= 0:
                    twin = earlier * edges // parts + number - known
                    numbers[i] = number
                    break
            twins[i] = twin
            total += 1 if twin < 0 else 0
        firsts[task] = total


@compiled
def number_firsts(
    new: Any, numbers: Any, offsets: Any, twins: Any, listed: Any, counts: Any, known: Any
) -> None:
    """Number nodes without a twin from ``known`` on, in their order; ``new`` are their ids."""
    parts, edges = counts.size, listed.size
    for task in prange((parts - 1) * RUNS):
        _part, first, last = _run_of(task, edges, counts)
        number = offsets[task]
        for i in range(first, last):
            if twins[i] < 0:
                new[number] = listed[i]
                numbers[i] = known + number
                number += 1


@compiled
def number_twins(numbers: Any, twins: Any, counts: Any) -> None:
    """The number of a twin in another part than the first is the one it was given there."""
    parts, edges = counts.size, twins.size
    for task in prange((parts - 1) * RUNS):
        _part, first, last = _run_of(task, edges, counts)
        for i in range(first, last):
            if twins[i] >= edges // parts:
                numbers[i] = numbers[twins[i]]


@compiled
def renumber(columns: Any, numbers: Any, counts: Any, known: Any) -> None:
    """From numbers within a part to those of all; the first part has them already."""
    parts, edges = counts.size, columns.size
    for task in prange((parts - 1) * RUNS):
        part, run = 1 + task // RUNS, task % RUNS
        begin = part * edges // parts
        length = (part + 1) * edges // parts - begin
        for edge in range(begin + run * length // RUNS, begin + (run + 1) * length // RUNS):
            if columns[edge] >= known:
                columns[edge] = numbers[begin + columns[edge] - known]


@compiled
def remember(local: Any, nodes: Any, number: Any) -> None:
    """Give nodes the numbers from this one on, in every part."""
    for part in prange(local.shape[0]):
        for i in range(nodes.size):
            local[part, nodes[i]] = number + i


@compiled
def with_self_loops(
    indptr: Any,
    columns: Any,
    edges: Any,
    sampled_at: Any,
    nodes: Any,
    sampled: Any,
    sampled_columns: Any,
    positions: Any,
    whole_indptr: Any,
    whole_sources: Any,
    added: Any,
) -> None:
    """The rows of a batch with the self-loops that the whole graph adds, behind each row's edges.

    Args:
        indptr: where each row begins, self-loops included.
        columns: out, the number of each edge's source.
        edges: out, the number of each edge in the whole graph with its self-loops.
        sampled_at: out, the place of each edge in `positions`; -1 for an added self-loop.
        nodes: the ids of the batch's nodes, those of the rows first.
        sampled: where each row begins without added self-loops.
        sampled_columns: the columns without added self-loops.
        positions: the positions of the edges in the whole graph without added self-loops.
        whole_indptr: of the whole graph without added self-loops.
        whole_sources: the same.
        added: how many self-loops are added to nodes before each one.
    """
    for row in prange(indptr.size - 1):
        node, out = np.int64(nodes[row]), indptr[row]
        before, own = added[node], added[node + 1] - added[node]
        first, last = np.int64(0), np.int64(0)
        if row + 1 < sampled.size:
            first, last = sampled[row], sampled[row + 1]
        for place in range(first, last):
            position = positions[place]
            columns[out] = sampled_columns[place]
            edges[out] = position + before + (own if whole_sources[position] > node else 0)
            sampled_at[out] = place
            out += 1
        if own:
            low = _first_loop(node, whole_indptr[node], whole_indptr[node + 1], whole_sources)
            columns[out] = row
            edges[out] = low + before
            sampled_at[out] = -1
