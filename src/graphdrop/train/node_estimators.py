"""``NodeClassifier`` and ``NodeRegressor``: scikit-learn estimators of the nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from graphdrop.config import Config
from graphdrop.data.names import Names
from graphdrop.data.tables import apply_schema, from_pandas
from graphdrop.inference import predict
from graphdrop.train.progress import Progress, Silent
from graphdrop.train.trainer import Trainer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch_geometric.data import Data

    from graphdrop.inference import GaussianPredictive, Predictive


class _NodeEstimator(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share: parameters, the fit, and reading tables."""

    _task: Literal["classes", "numbers"]

    def __init__(
        self,
        label: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the name that a column of ids has
        features: str | None = None,
        weight: str | None = None,
        config: Config | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.label = label
        self.id = id
        self.features = features
        self.weight = weight
        self.config = config
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, nodes: pandas.DataFrame, edges: pandas.DataFrame, y: ArrayLike | None = None
    ) -> Self:
        """Train on the labelled nodes: 60 % fit the weights, 20 % choose and calibrate.

        Args:
            nodes: a row for each node, labelled or not.
            edges: a row for each edge, with the ids of its ends.
            y: the targets in the order of the rows, in place of a column of ``nodes``; a node
                without a target has ``None`` or NaN.

        Returns:
            The estimator itself. ``result_`` holds the scores, among them those of the remaining
            20 % of the labelled nodes.
        """
        label = self.label
        if y is not None:
            label = label or "label"
            if label in nodes.columns:
                raise ValueError(f"y is given and nodes has a column {label}: give one of them")
            nodes = nodes.assign(**{label: y})
        dataset = from_pandas(
            nodes,
            edges,
            label=label,
            id=self.id,
            features=self.features,
            weight=self.weight,
            task=self._task,
            seed=self.random_state,
        )
        config = (self.config or Config()).model_copy(update={"seed": self.random_state})
        trainer = Trainer(config, dataset, progress=Progress() if self.verbose else Silent())
        self.result_ = trainer.fit()
        assert dataset.schema is not None  # noqa: S101 - tables have one
        self.model_, self.schema_, self._data = trainer.model, dataset.schema, dataset.data
        self.n_features_in_ = int(dataset.data.x.shape[1])
        self._read_targets(nodes)
        return self

    def _read_targets(self, nodes: pandas.DataFrame) -> None:
        """Keep what the targets of training are called."""

    def answer(
        self, nodes: pandas.DataFrame | None = None, edges: pandas.DataFrame | None = None
    ) -> Predictive | GaussianPredictive:
        """Predict with all the uncertainty, for the nodes in the order of their ids.

        Args:
            nodes: the nodes of another graph with the same columns; by default those of ``fit``.
            edges: the edges of that graph.
        """
        found: Predictive | GaussianPredictive = self._predict_graph(nodes, edges)[0]
        return found

    def _predict_graph(
        self, nodes: pandas.DataFrame | None, edges: pandas.DataFrame | None
    ) -> tuple[Any, Data]:
        """Predict all nodes of the given tables, or of those of ``fit``; also returns the graph."""
        check_is_fitted(self, "model_")
        if (nodes is None) != (edges is None):
            raise ValueError("give nodes and edges together, or neither for those of fit")
        data = self._data
        if nodes is not None and edges is not None:
            data = apply_schema(self.schema_, nodes, edges, id=self.id, weight=self.weight)
        output: Any = "classes" if self._task == "classes" else "gaussian"
        return predict(self.model_, data, output=output), data

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # it may be a column of the nodes
        return tags


class NodeClassifier(ClassifierMixin, _NodeEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph that is given as two pandas tables.

    It trains, selects and calibrates as ``Trainer(Config(), from_pandas(...))`` does, and has the
    methods that scikit-learn's classifiers have; ``sklearn.base.clone`` and ``pickle`` take it.

    Args:
        label: the column of classes; by default ``label``, ``class``, ``y`` or ``target``.
        id: the column of ids; by default the index of the nodes.
        features: columns with commas between them; by default all that are no free text.
        weight: a column of the edges with weights above 0.
        config: the settings; by default all are chosen for the graph.
        random_state: the seed of the split, of the first weights and of every mask.
        verbose: whether the progress of the training is shown.

    Example:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": range(40), "team": ["red", "blue"] * 20})
        >>> friends = pandas.DataFrame({"from": range(38), "to": range(2, 40)})
        >>> config = Config(train={"epochs": 20})
        >>> classifier = NodeClassifier("team", config=config).fit(people, friends)
        >>> classifier.classes_.tolist(), classifier.predict_proba().shape
        (['blue', 'red'], (40, 2))
    """

    _task = "classes"

    def _read_targets(self, nodes: pandas.DataFrame) -> None:
        """Keep the classes as the table wrote them, numbers as numbers."""
        names, labels = Names.of(self._data), self._data.y
        rows = torch.arange(len(labels)) if names.rows is None else names.rows
        firsts = [int(rows[(labels == c).nonzero()[0]]) for c in range(int(labels.max()) + 1)]
        self.classes_ = nodes[self.schema_.label].to_numpy()[firsts]

    def predict_proba(
        self, nodes: pandas.DataFrame | None = None, edges: pandas.DataFrame | None = None
    ) -> NDArray[np.float64]:
        """The calibrated probability of every class, ``[nodes, classes]``, in the order of rows."""
        answer, data = self._predict_graph(nodes, edges)
        return _in_order_of_rows(answer.probabilities, data)

    def predict(
        self, nodes: pandas.DataFrame | None = None, edges: pandas.DataFrame | None = None
    ) -> NDArray[Any]:
        """The most probable class of every node, in the order of rows."""
        best = self.predict_proba(nodes, edges).argmax(1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def score(self, nodes: pandas.DataFrame, edges: pandas.DataFrame, y: ArrayLike) -> float:
        """The share of nodes whose most probable class is that in ``y``; NaN does not count."""
        known = ~np.asarray(pandas.isna(y))
        return float(accuracy_score(np.asarray(y)[known], self.predict(nodes, edges)[known]))


class NodeRegressor(RegressorMixin, _NodeEstimator):  # type: ignore[misc]
    """Predict a number for every node of a graph that is given as two pandas tables.

    It takes what ``NodeClassifier`` takes, with a column of numbers as ``label``.

    Example:
        >>> import pandas
        >>> houses = pandas.DataFrame({"rooms": [i % 5 for i in range(40)]})
        >>> houses["price"] = 100.0 + 50.0 * houses["rooms"]
        >>> near = pandas.DataFrame({"from": range(39), "to": range(1, 40)})
        >>> config = Config(train={"epochs": 20})
        >>> regressor = NodeRegressor("price", config=config).fit(houses, near)
        >>> value, deviation = regressor.predict(houses, near, return_std=True)
        >>> value.shape, bool((deviation > 0).all())
        ((40,), True)
    """

    _task = "numbers"

    def predict(
        self,
        nodes: pandas.DataFrame | None = None,
        edges: pandas.DataFrame | None = None,
        *,
        return_std: bool = False,
    ) -> Any:
        """The value of every node in the order of rows; with its standard deviation if asked."""
        answer, data = self._predict_graph(nodes, edges)
        value = _in_order_of_rows(answer.mean, data).squeeze(1)
        if not return_std:
            return value
        return value, _in_order_of_rows(answer.variance.sqrt(), data).squeeze(1)

    def score(self, nodes: pandas.DataFrame, edges: pandas.DataFrame, y: ArrayLike) -> float:
        """The coefficient of determination R² of the values against ``y``; NaN does not count."""
        known = ~np.asarray(pandas.isna(y))
        return float(r2_score(np.asarray(y)[known], self.predict(nodes, edges)[known]))


def _in_order_of_rows(values: torch.Tensor, data: Data) -> NDArray[np.float64]:
    order = Names.of(data).order
    found: NDArray[np.float64] = (values if order is None else values[order]).numpy()
    return found
