"""The objective is the sum of its terms, each as the formula has it."""

import pytest
import torch

from graphdrop import attach
from graphdrop.config import ObjectiveSettings
from graphdrop.graph.masks import uniforms
from graphdrop.nn import GCN
from graphdrop.nn.stack import ConvStack
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import Draw, DropEdge, GraphDropConnect
from graphdrop.train.objective import Objective, sampled_logits

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
NLL = torch.tensor(1.25)


def network(sampler=None, **options) -> GCN:
    torch.manual_seed(0)
    return GCN(5, 4, 2, 3, sampler, init="paper", seed=7, **options)


def beta_bernoulli(**options) -> GCN:
    return network(GraphDropConnect(BetaBernoulliRate(**options)))


def tape_of(model: GCN, step: int = 0) -> list:
    tape: list = []
    model(X, EDGES, draw=Draw(7, step, temperature=0.67, tape=tape))
    return tape


def logits_of(model: GCN) -> list:
    tape = tape_of(model)
    return [sampled_logits(tape, number) for number in range(len(model.layers))]


def drawn_keep(model: GCN, step: int = 0) -> list[torch.Tensor]:
    """The keep probability of each layer, worked out from the rate and the draw's own uniform."""
    draw = Draw(7, step)
    return [
        layer.sampler.rate.sample(uniforms(draw.key(number), 1)[0])
        for number, layer in enumerate(model.layers)
    ]


def squares(layer, biases: bool = True) -> torch.Tensor:
    return layer.weight.square().sum() + (layer.bias.square().sum() if biases else 0.0)


def test_the_terms_are_those_of_the_formula():
    model, settings = beta_bernoulli(), ObjectiveSettings(l2=0.3, kl_weight=2.0, warmup=10)
    terms = Objective(settings, model, labelled=4)(NLL, tape_of(model), epoch=3)
    first, second = model.layers
    keep = drawn_keep(model)
    assert list(terms) == ["nll", "kl", "l2"]
    assert terms["nll"] is NLL
    kl = first.sampler.rate.kl() + second.sampler.rate.kl()
    torch.testing.assert_close(terms["kl"], 0.4 * 2.0 * kl)
    l2 = (1 - keep[0]) * squares(first) + (1 - keep[1]) * squares(second)
    torch.testing.assert_close(terms["l2"], 0.3 * l2)


@pytest.mark.parametrize(
    ("factor", "layers", "biases"),
    [
        ("drop", "all", False),
        ("keep", "all", True),
        ("one", "first", False),
        ("keep", "first", True),
    ],
)
def test_the_l2_has_the_factor_the_layers_and_the_biases_that_are_asked_for(factor, layers, biases):
    model = beta_bernoulli()
    settings = ObjectiveSettings(l2=1.0, l2_factor=factor, l2_layers=layers, l2_biases=biases)
    factors = {"drop": lambda keep: 1 - keep, "keep": lambda keep: keep, "one": lambda _: 1.0}
    expected = sum(
        factors[factor](keep) * squares(layer, biases)
        for layer, keep in list(zip(model.layers, drawn_keep(model), strict=True))[
            : 1 if layers == "first" else 2
        ]
    )
    terms = Objective(settings, model, labelled=4)(NLL, tape_of(model), 0)
    torch.testing.assert_close(terms["l2"], expected)


def test_the_l2_of_sampled_layers_leaves_the_others_out():
    stack = ConvStack("gcnii", 5, 4, 2, 3)
    handle = attach(stack, DropEdge(0.5))
    settings = ObjectiveSettings(l2=1.0, l2_factor="one", l2_layers="sampled", l2_biases=False)
    l2 = Objective(settings, handle, labelled=4)(NLL, [], epoch=0)["l2"]
    expected = sum(weight.square().sum() for conv in stack.convs for weight in conv.parameters())
    torch.testing.assert_close(l2, expected)


@pytest.mark.parametrize("architecture", ["appnp", "gcnii"])
def test_the_first_layer_is_the_linear_map_that_stands_before_the_sampled_ones(architecture):
    stack = ConvStack(architecture, 5, 4, 2, 3)
    handle = attach(stack, DropEdge(0.5))
    settings = ObjectiveSettings(l2=1.0, l2_factor="one", l2_layers="first", l2_biases=False)
    linear = stack.convs[0] if architecture == "appnp" else stack.first
    l2 = Objective(settings, handle, labelled=4)(NLL, [], epoch=0)["l2"]
    torch.testing.assert_close(l2, linear.weight.square().sum())


@pytest.mark.parametrize("factor", ["drop", "keep"])
def test_the_gradient_of_the_l2_reaches_a_and_b_through_the_drawn_rate(factor):
    model = beta_bernoulli()
    settings = ObjectiveSettings(l2=0.7, l2_factor=factor)
    rates = [layer.sampler.rate for layer in model.layers]
    raw = [parameter for rate in rates for parameter in (rate.raw_a, rate.raw_b)]
    found = torch.autograd.grad(Objective(settings, model, 4)(NLL, tape_of(model, 5), 0)["l2"], raw)
    sign = 1.0 if factor == "keep" else -1.0
    direct = sum(
        sign * keep * squares(layer).detach()
        for keep, layer in zip(drawn_keep(model, 5), model.layers, strict=True)
    )
    torch.testing.assert_close(found, torch.autograd.grad(0.7 * direct, raw))
    assert all(gradient != 0 for gradient in found)


def test_the_kl_warms_up_linearly_from_the_first_epoch():
    objective = Objective(ObjectiveSettings(warmup=4), beta_bernoulli(), 4)
    assert [objective.warmup(epoch) for epoch in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert Objective(ObjectiveSettings(warmup=0), beta_bernoulli(), 4).warmup(0) == 1.0


def test_the_evidence_lower_bound_weighs_the_kl_with_the_number_of_labels():
    model = beta_bernoulli()
    settings = ObjectiveSettings(kl_weight="elbo", warmup=0)
    terms = Objective(settings, model, labelled=8)(NLL, tape_of(model), 0)
    plain = Objective(ObjectiveSettings(warmup=0), model, 8)(NLL, tape_of(model), 0)
    torch.testing.assert_close(terms["kl"], plain["kl"] / 8)


def test_the_kl_of_a_rate_per_edge_is_summed_or_averaged():
    model = beta_bernoulli(entries=10)  # 6 edges and 4 self-loops
    summed = Objective(ObjectiveSettings(), model, 4).kl()
    averaged = Objective(ObjectiveSettings(kl_reduction="mean"), model, 4).kl()
    by_hand = sum(layer.sampler.rate.kl() for layer in model.layers)
    torch.testing.assert_close(summed, by_hand)
    torch.testing.assert_close(averaged, by_hand / 10)


def test_a_rate_per_edge_multiplies_the_l2_with_its_mean_over_edges():
    model = beta_bernoulli(entries=10)
    tape = tape_of(model)
    settings = ObjectiveSettings(l2=1.0, l2_factor="keep")
    expected = sum(
        drawn.mask.keep_logit.sigmoid().mean() * squares(layer)
        for drawn, layer in zip(tape, model.layers, strict=True)
    )
    torch.testing.assert_close(Objective(settings, model, 4)(NLL, tape, 0)["l2"], expected)


def test_a_network_that_drops_nothing_has_no_drop_rate_to_multiply_with():
    model = network()
    assert logits_of(model) == [None, None]
    with pytest.raises(ValueError, match=r"objective\.l2_factor is \"drop\""):
        Objective(ObjectiveSettings(l2_factor="drop"), model, 4)
    terms = Objective(ObjectiveSettings(l2=1.0, l2_factor="keep"), model, 4)(NLL, [], 0)
    torch.testing.assert_close(terms["l2"], sum(map(squares, model.layers)))
    assert terms["kl"] == 0
