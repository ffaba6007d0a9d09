"""``NodeClassifier`` and ``NodeRegressor``: tables in, answers out, in scikit-learn's manner."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from graphdrop.config import Config
from graphdrop.data.names import Names
from graphdrop.data.tables.frames import apply_schema, from_pandas
from graphdrop.inference import predict
from graphdrop.train.progress import Progress, Silent
from graphdrop.train.trainer import Trainer

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike, NDArray
    from torch_geometric.data import Data

    from graphdrop.inference import GaussianPredictive, Predictive


class _NodeEstimator:
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

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - none is nested
        """The parameters of the constructor by name, as scikit-learn's ``clone`` reads them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; the next ``fit`` uses them."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(
                    f"{name} is not a parameter of {type(self).__name__}: give {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

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
        """The whole prediction with its uncertainty, for the nodes in the order of their ids.

        Args:
            nodes: the nodes of another graph with the same columns; by default those of ``fit``.
            edges: the edges of that graph.
        """
        found: Predictive | GaussianPredictive = self._predicted(self._graph(nodes, edges))
        return found

    def _predicted(self, data: Data) -> Any:
        output: Any = "classes" if self._task == "classes" else "gaussian"
        return predict(self.model_, data, output=output)

    def _graph(self, nodes: pandas.DataFrame | None, edges: pandas.DataFrame | None) -> Data:
        """The graph of the given tables, or of those of ``fit``."""
        if not hasattr(self, "model_"):
            raise ValueError(f"this {type(self).__name__} is not fitted: call fit(nodes, edges)")
        if (nodes is None) != (edges is None):
            raise ValueError("give nodes and edges together, or neither for those of fit")
        if nodes is None or edges is None:
            return self._data
        return apply_schema(self.schema_, nodes, edges, id=self.id, weight=self.weight)

    def __sklearn_tags__(self) -> Any:
        """The kind of the estimator, for ``sklearn.base.is_classifier`` and other tools of it."""
        from sklearn.utils import (  # noqa: PLC0415 - scikit-learn calls this, and need not be here
            ClassifierTags,
            RegressorTags,
            Tags,
            TargetTags,
        )

        classes = self._task == "classes"
        return Tags(
            estimator_type="classifier" if classes else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if classes else None,
            regressor_tags=None if classes else RegressorTags(),
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        )
        return f"{type(self).__name__}({', '.join(changed)})"


class NodeClassifier(_NodeEstimator):
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
        data = self._graph(nodes, edges)
        return _in_order_of_rows(self._predicted(data).probabilities, data)

    def predict(
        self, nodes: pandas.DataFrame | None = None, edges: pandas.DataFrame | None = None
    ) -> NDArray[Any]:
        """The most probable class of every node, in the order of rows."""
        best = self.predict_proba(nodes, edges).argmax(1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def score(self, nodes: pandas.DataFrame, edges: pandas.DataFrame, y: ArrayLike) -> float:
        """The share of the nodes whose most probable class is the one in ``y``."""
        return float((self.predict(nodes, edges) == np.asarray(y)).mean())


class NodeRegressor(_NodeEstimator):
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
        data = self._graph(nodes, edges)
        answer = self._predicted(data)
        value = _in_order_of_rows(answer.mean, data).squeeze(1)
        if not return_std:
            return value
        return value, _in_order_of_rows(answer.variance.sqrt(), data).squeeze(1)

    def score(self, nodes: pandas.DataFrame, edges: pandas.DataFrame, y: ArrayLike) -> float:
        """The coefficient of determination R² of the values against ``y``."""
        truth = np.asarray(y, dtype=np.float64)
        residual = truth - self.predict(nodes, edges)
        return float(1.0 - np.square(residual).sum() / np.square(truth - truth.mean()).sum())


def _in_order_of_rows(values: torch.Tensor, data: Data) -> NDArray[np.float64]:
    order = Names.of(data).order
    found: NDArray[np.float64] = (values if order is None else values[order]).numpy()
    return found
