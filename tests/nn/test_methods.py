"""Each name builds the network, the rate and the estimator that the paper means by it."""

import pytest
import torch

from graphdrop.config import Method, ModelSettings, settle
from graphdrop.graph import Graph
from graphdrop.nn.methods import METHODS, Blueprint, estimator, find
from graphdrop.nn.sampled import sampled
from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM
from graphdrop.sampling.rates import AmortizedRate, BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])
GRAPH = Graph.from_edge_index(EDGES, 4)

MEANING = {
    "GCN": (None, None, None),
    "GCN-DO": (None, None, None),
    "GCN-DE": (DropEdge, FixedRate, None),
    "GCN-DO-DE": (DropEdge, FixedRate, None),
    "GCN-NS": (DropNode, FixedRate, None),
    "GCN-GDC": (GraphDropConnect, FixedRate, None),
    "GCN-BBDE": (DropEdge, BetaBernoulliRate, Concrete),
    "GCN-BBGDC": (GraphDropConnect, BetaBernoulliRate, Concrete),
    "GCN-BBNS": (DropNode, BetaBernoulliRate, Concrete),
    "GCN-BBDO": (DropOut, BetaBernoulliRate, Concrete),
    "GCN-BGDC": (GraphDropConnect, LearnedRate, Concrete),
    "GCN-BDE-ARM": (DropEdge, LearnedRate, ARM),
    "GCN-BBDE-ARM": (DropEdge, BetaBernoulliRate, ARM),
    "GCN-BBGDC-ARM": (GraphDropConnect, BetaBernoulliRate, ARM),
    "GCN-BBDE-LOCAL": (DropEdge, BetaBernoulliRate, Concrete),
    "GCN-BBGDC-LOCAL": (GraphDropConnect, BetaBernoulliRate, Concrete),
    "GCN-BBGDC-AMORTISED": (GraphDropConnect, AmortizedRate, Concrete),
}


def settings_of(method: str, **changes) -> ModelSettings:
    sizes = {"hidden": 6, "layers": 3}
    return settle({"recipe": "paper", "model": {"method": method, **sizes, **changes}}).model


def build(method: str, seed: int = 0, **changes):
    return Blueprint(settings_of(method, **changes), 5, 2, GRAPH.num_edges).build(seed)


def test_every_name_is_known_and_none_besides():
    assert set(METHODS) == set(Method) == set(MEANING)


def test_a_name_means_its_sampler_its_rate_and_its_estimator():
    for method, (sampler, rate, how) in MEANING.items():
        for layer in build(method).layers:
            assert type(layer.sampler) is (sampler or type(None)), method
            if sampler:
                assert type(layer.sampler.rate) is rate, method
        assert type(estimator(settings_of(method))) is (how or type(None)), method


def test_an_amortised_method_reads_its_rates_off_the_edges_of_any_graph():
    network = build("GCN-BBGDC-AMORTISED", prior_alpha=0.5)
    rates = [layer.sampler.rate for layer in network.layers]
    assert {(rate.prior_alpha, rate.prior_beta) for rate in rates} == {(0.5, 1.0)}
    for edges in (EDGES, EDGES[:, :4]):  # and 4 self-loops
        network(torch.rand(4, 5), edges)
        assert [len(rate.mean()) for rate in rates] == [edges.shape[1] + 4] * 3


def test_connections_take_every_option_of_the_settings():
    changes = {"blocks": 3, "first_blocks": 2, "symmetric": True, "self_loops": False}
    first, later, _ = (layer.sampler for layer in build("GCN-BBGDC", **changes).layers)
    assert (first.blocks, later.blocks) == (2, 3)
    assert later.symmetric
    assert not later.self_loops
    assert not later.before_normalization
    general = build("GCN-BBGDC", blocks="pair")
    assert all(layer.sampler.pairs for layer in general.layers)
    later = build("GCN-BBGDC", blocks="feature", mask="before").layers[1].sampler
    assert later.blocks is None
    assert not later.pairs
    assert later.before_normalization


def test_edges_take_every_option_of_the_settings():
    plain = build("GCN-BBDE").layers[1].sampler
    assert (plain.symmetric, plain.self_loops, plain.before_normalization) == (False, True, False)
    usual = build("GCN-DE").layers[1].sampler
    assert usual.symmetric
    assert usual.before_normalization


def test_rates_take_every_option_of_the_settings():
    prior = build("GCN-BBDE", prior_alpha=0.5).layers[0].sampler.rate
    assert (prior.prior_alpha, prior.prior_beta) == (0.5, 1.0)
    assert prior.rate_draw == "layer"
    assert build("GCN-BBDE", rate_draw="mask").layers[1].sampler.rate.rate_draw == "mask"
    fixed = build("GCN-DE", drop=0.3).layers[0].sampler.rate
    assert fixed.mean().item() == pytest.approx(0.7)
    learned = build("GCN-BDE-ARM", drop=0.3, entropy_weight=2.0).layers[0].sampler.rate
    assert learned.mean().item() == pytest.approx(0.7)
    assert learned.entropy_weight == 2.0


def test_the_network_takes_every_option_of_the_settings():
    changes = {"norm": "paper", "residual": True, "init": "glorot", "dropout": 0.25}
    network = build("GCN-BBGDC", **changes)
    assert (network.normalization, network.between.residual) == ("paper", True)
    assert network.layers[0].init == "glorot"
    assert network.layers[0].dropout.rate.mean() == 0.75


def test_the_seed_decides_the_weights_and_nothing_else_does():
    torch.manual_seed(1)
    one = build("GCN-BBGDC", seed=3).state_dict()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    same = build("GCN-BBGDC", seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    other = build("GCN-BBGDC", seed=4).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["layers.0.weight"], other["layers.0.weight"])
    assert one["stream"].tolist() == [3, 0]


def test_another_estimator_can_be_asked_for():
    settings = settings_of("GCN-BBGDC")
    assert type(estimator(settings, "disarm")) is DisARM
    assert type(estimator(settings, "reinforce")) is REINFORCE
    assert estimator(settings_of("GCN-BBGDC", temperature=0.5), "concrete").temperature == 0.5
    with pytest.raises(ValueError, match=r"train\.estimator is \"magic\": give one of method, con"):
        estimator(settings, "magic")
    with pytest.raises(ValueError, match=r"GCN-DE has no rate to learn"):
        estimator(settings_of("GCN-DE"), "arm")


@pytest.mark.parametrize("name", ["blocks", "first_blocks"])
def test_blocks_that_do_not_fit_into_memory_are_refused_before_they_are_made(name, monkeypatch):
    monkeypatch.setenv("GRAPHDROP_MAX_BYTES", "100000000")
    settings = ModelSettings(method="GCN-BBGDC", init="paper", layers=2, **{name: 3_000_000})
    monkeypatch.setattr(torch, "empty", None)
    with pytest.raises(ValueError, match=rf"model\.{name} is 3000000: a bias each would take"):
        Blueprint(settings, 5, 3, 0).build()


def test_an_unknown_name_gets_the_list_of_names():
    with pytest.raises(ValueError, match="method is 'GDB': give one of GCN, GCN-DO") as raised:
        find("GDB")
    assert all(method in str(raised.value) for method in METHODS)


def test_a_rate_for_every_mask_takes_a_posterior_of_the_layer():
    for method in MEANING:
        if MEANING[method][1] is BetaBernoulliRate and not find(method).local:
            build(method, rate_draw="mask")
            continue
        reason = "a rate for every edge" if find(method).local else "has no rate to draw"
        wanted = rf"model\.rate_draw is \"mask\", but {method} .*{reason}"
        with pytest.raises(ValueError, match=wanted):
            build(method, rate_draw="mask")


def test_masks_act_before_the_normalization_of_layers_that_take_weights():
    for architecture in ("gcnii", "appnp"):
        network = build("GCN-BBGDC", architecture=architecture, mask="before")
        assert next(iter(sampled(network).sampled_layers().values())).sampler.before_normalization
    with pytest.raises(ValueError, match="takes no edge weights"):
        build("GCN-BBGDC", architecture="gat", mask="before")
