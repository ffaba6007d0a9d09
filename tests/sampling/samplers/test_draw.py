"""A draw names the random numbers of one forward pass."""

import itertools
from dataclasses import replace

from contracts.dense_layers import TOWN
from graphdrop.graph.masks import Kind
from graphdrop.sampling.rates import FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge


def test_masks_are_hard_unless_a_temperature_relaxes_them() -> None:
    graph, sampler = TOWN.graph(), DropEdge(FixedRate(keep=0.5))
    hard, relaxed = Draw(1, 2), Draw(1, 2, temperature=0.3)
    assert hard.kind is Kind.HARD
    assert relaxed.kind is Kind.CONCRETE
    assert sampler.mask(graph, relaxed, 0).temperature == 0.3
    assert sampler.mask(graph, None, 0).kind is Kind.MEAN


def test_a_draw_is_the_first_sample_with_its_own_uniforms_unless_said_otherwise() -> None:
    assert Draw(1, 2) == Draw(1, 2, sample=0, antithetic=False, keeps_all=False, dropout=True)


def test_every_seed_step_sample_and_layer_has_a_key_of_its_own() -> None:
    keys = [
        tuple(Draw(seed, step, sample).key(layer).tolist())
        for seed, step, sample, layer in itertools.product(range(4), repeat=4)
    ]
    assert len(set(keys)) == 256


def test_a_tape_notes_down_one_pass_and_not_its_opposite() -> None:
    graph, sampler = TOWN.graph(), DropEdge(FixedRate(keep=0.5))
    draw = Draw(1, 2, tape=[])
    mask = sampler.mask(graph, draw, 0)
    draw.record(mask, graph, 7)
    draw.opposite().record(mask, graph, 7)
    assert draw.tape is not None
    (drawn,) = draw.tape
    assert drawn.mask is mask
    assert drawn.graph is graph
    assert drawn.features == 7
    assert drawn != replace(drawn)  # two records of one mask are two uses
