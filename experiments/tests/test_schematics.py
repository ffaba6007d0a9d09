"""The schematics show masks that a layer with that sampler really uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from contracts.single_layers import one_pass
from experiments.plots import schematics
from experiments.plots.figures import save_figure
from experiments.plots.schematics import FEATURES, NODES, connection_id, draw_schematics
from graphdrop.nn.conv import SampledGCNConv
from graphdrop.sampling.samplers import Draw, Sampler

NAMES = ["gcn", "gdc", "dropout", "dropedge", "node-sampling"]
SEED = 3


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return draw_schematics(SEED)


def drawn_lines(figure: Figure, name: str) -> dict[str, bool]:
    """Whether each connection's line is solid, by its id."""
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    styles = {str(line.get_gid()): line.get_linestyle() == "-" for line in lines}
    return {line: solid for line, solid in styles.items() if line.startswith(f"{name}-from-")}


def connections_of_a_layer(name: str, sampler: Sampler | None, draw: Draw) -> dict[str, bool]:
    """Which outputs of a layer with this sampler depend on which inputs, by the lines' ids."""
    layer, graph = SampledGCNConv(FEATURES, FEATURES, sampler, bias=False), schematics.toy_graph()
    torch.nn.init.ones_(layer.weight)
    found = {}
    for u, i in np.ndindex(NODES, FEATURES):
        x = torch.zeros(NODES, FEATURES)
        x[u, i] = 1.0
        out = one_pass(layer, x, graph, draw)
        for v, j in np.ndindex(NODES, FEATURES):
            if u == v or 0 in (u, v):  # node 1 is joined to all, and every node to itself
                found[connection_id(name, u, i, v, j)] = bool(out[v, j] != 0)
            else:
                assert out[v, j] == 0
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_line_is_solid_where_the_layer_passes_the_message_and_dashed_where_not(
    figures: dict[str, Figure], name: str
) -> None:
    draw = schematics.telling_draw(SEED)
    expected = connections_of_a_layer(name, schematics.methods()[name].sampler, draw)
    assert drawn_lines(figures[name], name) == expected
    assert drawn_lines(figures["all"], name) == expected
    assert all(expected.values()) == (name == "gcn")


def test_the_figures_are_all_five_together_and_each_alone(figures: dict[str, Figure]) -> None:
    assert list(figures) == ["all", *NAMES]
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        assert not any(drawn_lines(figures[name], other) for other in others)


def shared(kept: schematics.Kept) -> set[str]:
    """What this mask does not depend on, over the connections that there are."""
    graph = schematics.toy_graph()
    ends = list(zip(graph.draw_src.tolist(), graph.draw_dst.tolist(), strict=True))
    dense = dict(zip(ends, kept, strict=True))
    same = {
        "receiver": all((dense[u, v] == dense[u, u]).all() for u, v in ends),
        "direction": all((dense[u, v] == dense[v, u]).all() for u, v in ends),
        "feature": all((one == one[:1]).all() for one in kept),
        "output": all((one == one[:, :1]).all() for one in kept),
    }
    return {name for name, holds in same.items() if holds}


@pytest.mark.parametrize("seed", range(3))
def test_the_masks_share_what_their_methods_say_and_tell_them_apart(seed: int) -> None:
    draw, graph = schematics.telling_draw(seed), schematics.toy_graph()
    masks = {
        name: schematics.kept_connections(method.sampler, graph, draw)
        for name, method in schematics.methods().items()
    }
    assert shared(masks["dropout"]) >= {"receiver", "output"}
    assert shared(masks["dropedge"]) >= {"direction", "feature", "output"}
    assert shared(masks["node-sampling"]) >= {"receiver", "feature", "output"}
    assert "output" not in shared(masks["gdc"])
    between = (graph.draw_src != graph.draw_dst).numpy()
    for name in NAMES[1:]:
        assert {bool(kept) for kept in masks[name][between].flatten()} == {False, True}
    assert len({mask.tobytes() for mask in masks.values()}) == len(NAMES)


def test_the_same_seed_gives_the_same_bytes_and_another_another_picture(tmp_path: Path) -> None:
    def picture(seed: int, name: str) -> bytes:
        return save_figure(draw_schematics(seed)["gdc"], tmp_path / name)[0].read_bytes()

    assert picture(0, "one") == picture(0, "two")
    assert picture(0, "one") != picture(1, "other")
