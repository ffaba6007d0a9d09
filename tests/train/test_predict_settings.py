"""A run predicts with the masks that its settings name, and says what its layers drop."""

import copy

import pytest
import torch

from graphdrop.inference import predict
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.methods import Blueprint


@pytest.fixture(scope="module")
def trained(tiny, settings_of):
    """A network with rates that differ, which sampling must notice."""
    return Blueprint(settings_of().model, 30, 3, tiny.graph.num_edges).build(seed=1)


def predicted(model, data, config, **options):
    """A prediction of the model as the settings say."""
    model = copy.deepcopy(model)
    model.defaults = PredictionDefaults.of(config)
    return predict(model, data, **options)


def with_masks(settings_of, masks: str, **changes):
    return settings_of(predict={"masks": masks, "samples": 3, **changes})


@pytest.mark.parametrize(
    ("masks", "samples", "directly"),
    [
        ("relaxed", 3, {"temperature": 0.67}),
        ("hard", 3, {"masks": "hard"}),
        ("expected", 0, {}),
    ],
)
def test_masks_are_drawn_as_the_settings_say(tiny, trained, settings_of, masks, samples, directly):
    found = predicted(trained, tiny.data, with_masks(settings_of, masks))
    direct = predict(trained, tiny.data, samples, seed=0, **directly)
    assert torch.equal(found.probabilities, direct.probabilities)
    assert torch.equal(found.votes, direct.votes)


def test_dropout_beside_masks_can_be_left_out_of_samples(tiny, settings_of):
    both = settings_of(model={"dropout": 0.5}, predict={"samples": 3, "dropout": False})
    network = Blueprint(both.model, 30, 3, tiny.graph.num_edges).build(seed=1)
    found = predicted(network, tiny.data, both)
    assert all(layer.dropout is not None for layer in network.layers)
    for layer in network.layers:
        layer.dropout = None
    direct = predict(network, tiny.data, 3, seed=0, temperature=0.67)
    assert torch.equal(found.probabilities, direct.probabilities)
