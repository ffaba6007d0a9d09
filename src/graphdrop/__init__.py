"""Learnable connection sampling and uncertainty for graph neural networks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.calibration import Calibrator, PredictionSets, calibrate
    from graphdrop.config import Config
    from graphdrop.data import Dataset, from_networkx, from_pandas, load_dataset, load_tables
    from graphdrop.graph import Graph
    from graphdrop.inference import Predictive, energy, predict, vacuity
    from graphdrop.kernels.aggregate import aggregate
    from graphdrop.metrics import calibration_error, pavpu, total_variation
    from graphdrop.nn import GCN, SampledGCNConv
    from graphdrop.nn.attach import attach
    from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM
    from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
    from graphdrop.sampling.samplers import (
        DropEdge,
        DropNode,
        DropOut,
        GraphDropConnect,
        RandomWalk,
    )
    from graphdrop.train import NodeClassifier, NodeRegressor, Trainer, load, save

__all__ = [
    "ARM",
    "GCN",
    "REINFORCE",
    "BetaBernoulliRate",
    "Calibrator",
    "Concrete",
    "Config",
    "Dataset",
    "DisARM",
    "DropEdge",
    "DropNode",
    "DropOut",
    "FixedRate",
    "Graph",
    "GraphDropConnect",
    "LearnedRate",
    "NodeClassifier",
    "NodeRegressor",
    "PredictionSets",
    "Predictive",
    "RandomWalk",
    "SampledGCNConv",
    "Trainer",
    "__version__",
    "aggregate",
    "attach",
    "calibrate",
    "calibration_error",
    "energy",
    "from_networkx",
    "from_pandas",
    "load",
    "load_dataset",
    "load_tables",
    "pavpu",
    "predict",
    "save",
    "total_variation",
    "vacuity",
]
__version__ = "0.2.0"

_PACKAGES = {
    "config": ["Config"],
    "data": ["Dataset", "from_networkx", "from_pandas", "load_dataset", "load_tables"],
    "sampling.estimators": ["ARM", "REINFORCE", "Concrete", "DisARM"],
    "graph": ["Graph"],
    "kernels": ["aggregate"],
    "metrics": ["calibration_error", "pavpu", "total_variation"],
    "nn": ["GCN", "SampledGCNConv"],
    "nn.attach": ["attach"],  # brings PyG's layers, which take seconds to import
    "calibration": ["Calibrator", "PredictionSets", "calibrate"],
    "inference": ["Predictive", "energy", "predict", "vacuity"],
    "sampling.rates": ["BetaBernoulliRate", "FixedRate", "LearnedRate"],
    "sampling.samplers": ["DropEdge", "DropNode", "DropOut", "GraphDropConnect", "RandomWalk"],
    "train": ["NodeClassifier", "NodeRegressor", "Trainer", "load", "save"],
}
_HOME = {name: f"graphdrop.{package}" for package, names in _PACKAGES.items() for name in names}


def __getattr__(name: str) -> object:
    # Public names are imported when first used, so that `import graphdrop` stays light.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
