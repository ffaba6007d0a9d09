"""The estimators give what a ``Trainer`` gives, in the order of the tables' rows."""

import pickle

import numpy as np
import pandas
import pytest
from sklearn.base import clone, is_classifier, is_regressor

from graphdrop import Config, NodeClassifier, NodeRegressor, Trainer, from_pandas, predict
from graphdrop.train.progress import Silent

CONFIG = Config(model={"hidden": 8}, train={"epochs": 6, "evaluate_every": 2})
ROWS = 60


@pytest.fixture
def tables():
    """Nodes in the opposite order of their ids, with classes that are numbers."""
    drawn = np.random.default_rng(0)
    team = np.arange(ROWS)[::-1] % 2
    nodes = pandas.DataFrame(
        {"size": 3 * team + drawn.normal(size=ROWS), "team": np.where(team, 7, 3)}
    )
    nodes.index = [f"n{i:02d}" for i in reversed(range(ROWS))]
    ends = np.array([nodes.index, np.roll(nodes.index, 2)])
    return nodes, pandas.DataFrame({"source": ends[0], "target": ends[1]})


def test_a_classifier_is_the_trainer_on_its_tables(tables):
    nodes, edges = tables
    classifier = NodeClassifier("team", config=CONFIG, random_state=3).fit(nodes, edges)
    dataset = from_pandas(nodes, edges, label="team", seed=3)
    config = CONFIG.model_copy(update={"seed": 3})
    trainer = Trainer(config, dataset, progress=Silent())
    trainer.fit()
    wanted = predict(trainer.model, dataset.data).probabilities[dataset.data.names.order].numpy()
    np.testing.assert_array_equal(classifier.predict_proba(), wanted)
    np.testing.assert_array_equal(classifier.predict_proba(nodes, edges), wanted)
    assert classifier.classes_.tolist() == [3, 7]
    right = classifier.predict(nodes, edges) == nodes["team"]
    assert classifier.score(nodes, edges, nodes["team"]) == right.mean()
    copied = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copied.predict_proba(nodes[::-1], edges)[::-1], wanted)


def test_targets_may_be_given_apart_and_some_may_be_missing(tables):
    nodes, edges = tables
    y = nodes["team"].where(nodes.index != "n07")
    classifier = NodeClassifier(config=CONFIG).fit(nodes.drop(columns="team"), edges, y)
    assert classifier.classes_.tolist() == [3.0, 7.0]
    assert classifier.predict_proba().shape == (ROWS, 2)
    right = (classifier.predict() == y)[y.notna()]
    assert classifier.score(nodes.drop(columns="team"), edges, y) == right.mean()
    with pytest.raises(ValueError, match="y is given and nodes has a column team"):
        NodeClassifier("team").fit(nodes, edges, y)


def test_a_regressor_answers_in_the_order_and_the_unit_of_the_table(tables):
    nodes, edges = tables
    nodes["price"] = 1000.0 + 200.0 * nodes["size"]
    config = Config(train={"epochs": 100})
    regressor = NodeRegressor("price", config=config).fit(nodes, edges)
    value, deviation = regressor.predict(nodes, edges, return_std=True)
    assert np.corrcoef(value, nodes["price"])[0, 1] > 0.7
    assert regressor.score(nodes, edges, nodes["price"]) > 0.4
    assert deviation.shape == (ROWS,)


def test_parameters_are_those_of_scikit_learn():
    first = NodeClassifier("team", config=CONFIG, random_state=3)
    again = clone(first)
    assert again is not first
    assert again.get_params() == first.get_params()
    assert is_classifier(again)
    assert is_regressor(NodeRegressor())
    assert repr(again.set_params(config=None)) == "NodeClassifier(label='team', random_state=3)"
    with pytest.raises(ValueError, match="Invalid parameter 'epochs' for estimator"):
        first.set_params(epochs=3)
    with pytest.raises(ValueError, match="is not fitted yet"):
        first.predict()
