"""Every setting of a run: its type, its default and what it means.

With `recipe = "paper"` the values below are the paper's for GCN-BBGDC on Cora; `recipes.py` has
what other methods, datasets and depths set differently, and `Config` fills it in. With
`recipe = "auto"`, the default, `Trainer` chooses from the graph what was not given (`auto.py`).
Whatever is given wins.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from graphdrop.config import problems
from graphdrop.config.recipes import Architecture, Method, merge_settings, recipe, split_method_name

Count = Annotated[int, Field(ge=1)]
Blocks = Count | Literal["feature"]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
DropRate = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A group of settings: unknown names are errors, and so is text where a number belongs."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class DataSettings(Section):
    """Which graph, and what is done to its features."""

    dataset: str = "cora"
    """A known dataset (cora, citeseer, pubmed, cora_ml, synthetic), the path of an .npz file, of a
    table of nodes (.csv, .parquet), or of a folder with tables named nodes and edges."""
    root: str = ""
    """The folder in which a known dataset's files are looked for first; empty for none."""
    split: Literal["default", "public", "random-per-class", "random-fractions", "ppnp"] = "default"
    """How nodes are divided into train, validation and test: "default" is the split that comes with
    the data, or else 60 / 20 / 20 of each class; "public" is the split that comes with the data, or
    else 20 nodes per class, 500 and 1000; "random-fractions" or "random-per-class" draws anew;
    "ppnp" is one of PPNP's 20 splits. The settings of a run name the split that was used."""
    task: Literal["auto", "classes", "numbers"] = "auto"
    """Tables and a graph of your own: whether targets are classes or numbers. "auto" goes by their
    values and refuses whole numbers that may be either."""
    split_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of a random split, or which of several stored splits."""
    features: Literal["stored", "row", "unit", "standardize"] = "stored"
    """Features as stored, with every row divided by its sum or by its Euclidean length, or with
    every column standardized by its mean and standard deviation over the training nodes."""
    calibration: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The fraction of the validation nodes that is reserved: half of it for the calibrator alone,
    half for prediction sets alone, whose coverage is then guaranteed; all of it for prediction sets
    if there is no calibrator. 0 uses all validation nodes for selection, calibrator and sets."""
    edges: str = ""
    """Tables: the path of the edges; empty for the file named edges beside the nodes."""
    label_column: str = ""
    """Tables: the column of classes or numbers; empty for label, class, y or target."""
    id_column: str = ""
    """Tables: the column of ids; empty for id, node_id, node or name, or else the first."""
    feature_columns: str = ""
    """Tables: the columns that are features, with commas between them; name:category reads numbers
    as categories. Empty for all that are numbers or categories."""
    split_column: str = ""
    """Tables: a column with train, val and test; empty for none."""
    split_by_time: str = ""
    """Tables: a column of dates or numbers by which the oldest three fifths of the labelled nodes
    train, the next fifth validates and the newest fifth tests; empty for none."""
    source_column: str = ""
    """Tables: the column of the edges with the ids of one end; empty for source, src or from, or
    for one of the only two columns that hold ids."""
    target_column: str = ""
    """Tables: the column of the edges with the ids of the other end."""
    weight_column: str = ""
    """Tables: a column of the edges with weights above 0; empty for none."""
    missing: Literal["impute", "refuse"] = "impute"
    """Tables: whether missing values are imputed (a number by the training nodes' mean, a category
    by one of its own) or refused."""


TABLE_SETTINGS = (
    "task",
    "edges",
    "label_column",
    "id_column",
    "feature_columns",
    "split_column",
    "split_by_time",
    "source_column",
    "target_column",
    "weight_column",
    "missing",
)
"""Settings of data that only tables have."""


class ModelSettings(Section):
    """The network: its method, its size, and how its connections are sampled."""

    method: Annotated[Method, Field(strict=False)] = Method.GCN_BBGDC
    """The method's name, with or without GCN-; with another architecture's name before it, such as
    GAT-BBGDC, it sets that too. It also decides the defaults of everything that is not set."""
    architecture: Architecture = "gcn"
    """Our own GCN; PyTorch Geometric's layers with the method's sampler attached to them; or
    propagation, an MLP on the features after 0, 1, ... `orders` hops, as in GRAND or SIGN."""
    layers: Count = 2
    """Number of graph convolutions; of appnp and propagation that of the linear layers."""
    orders: Annotated[int, Field(ge=0)] = 8
    """propagation: the number of hops. Nodes or features are sampled once before all of them, edges
    and connections in every hop anew."""
    propagate: Literal["features", "hidden"] = "features"
    """propagation: whether the features pass the hops, as in GRAND, or what the first linear layer
    makes of them, which is many times faster. DropOut of the features then stands before the hops,
    and `blocks` are those of hidden features; other masks act alike."""
    combine: Literal["mean", "concat"] = "mean"
    """propagation: whether the hops are averaged, as in GRAND, or stand side by side, as in SIGN:
    a node's own features beside the means of its neighbourhoods. With one layer and no sampling
    that is a logistic regression on them."""
    input_dropout: DropRate | Literal["same"] = "same"
    """propagation: drop rate of DropOut on the first layer's input; "same" is `dropout`."""
    hidden: Count = 128
    """Width of the hidden layers."""
    norm: Literal["row", "sym", "paper"] = "row"
    """Normalization: D^-1 (A+I), D^-1/2 (A+I) D^-1/2, or I + D^-1/2 A D^-1/2."""
    mask: Literal["before", "after"] = "after"
    """Whether edges are masked before the normalization, which then counts what is left, or after.
    DropOut and node sampling do not normalize anew."""
    symmetric: bool = False
    """Whether both directions of an edge share one draw."""
    self_loops: bool = True
    """Whether self-loops are masked like any edge; with mask = "before" they never are."""
    blocks: Blocks | Literal["pair"] = 2
    """Graph DropConnect: blocks of features with a draw each, "feature" for one per feature, or
    "pair" for one per feature and output in all layers: the general form, for small networks."""
    first_blocks: Blocks = 1
    """The same for the first layer, whose input is wide and sparse."""
    prior_alpha: Positive = 0.8
    """First parameter of the beta prior of a keep probability, the paper's c/L; the second one is
    1."""
    rate_draw: Literal["layer", "mask"] = "layer"
    """Whether a keep probability with a beta prior is drawn once per layer and pass, or anew for
    every mask: masks then have their marginal distribution, and the KL stays that of one rate."""
    edges: Literal["auto", "fitted", "one-rate"] = "one-rate"
    """Whether every edge has a keep probability of its own, which is fitted to the labels before
    the training, in place of one rate for a layer; "auto", the default of the recipe auto, takes
    fitted rates where a test finds that edges differ and validation nodes confirm it."""
    edge_level: Annotated[float, Field(ge=0, le=1)] = 0.05
    """The level of the test of whether edges differ."""
    entropy_weight: Weight = 0.0
    """A learned rate without a prior: how much its entropy counts in the objective."""
    temperature: Positive = 0.67
    """Temperature of relaxed masks, in training and in prediction."""
    drop: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Drop rate of edges, nodes or connections where it is fixed; where a learned rate without a
    prior starts."""
    dropout: DropRate = 0.0
    """Drop rate of DropOut on the input of every layer, beside any sampling of connections."""
    residual: bool | Literal["initial", "linear"] = False
    """Whether hidden layers add their input to their output; "initial" takes the mean of their
    output and the first layer's instead, "linear" adds a linear map of their input before the
    activation. Architectures other than gcn take false and "linear"."""
    norm_layer: Literal["none", "batch", "layer"] = "none"
    """The normalization layer behind every hidden layer, and of propagated features before the
    first."""
    jumping: Literal["none", "cat", "max", "last"] = "none"
    """Jumping knowledge: the outputs of all layers, joined, or the last one, go into a last linear
    layer."""
    heads: Count = 8
    """Attention heads of gat and gatv2, where they divide the width."""
    init: Literal["glorot", "paper"] = "paper"
    """Glorot's weights and no bias at first, or weights of variance 1/out and a random bias for
    every block."""

    @property
    def title(self) -> str:
        """The method's name with that of the architecture, such as GAT-BBGDC."""
        name = self.method.removeprefix("GCN-")
        return self.method if self.architecture == "gcn" else f"{self.architecture.upper()}-{name}"

    @model_validator(mode="before")
    @classmethod
    def _part_the_name(cls, given: Any) -> Any:
        return split_method_name(given) if isinstance(given, dict) else given


class ObjectiveSettings(Section):
    """The objective: mean NLL + warm-up x KL + L2 + consistency loss."""

    l2: Weight = 5e-3
    """Weight of the sum of squares, without a factor 1/2."""
    l2_factor: Literal["drop", "keep", "one"] = "drop"
    """What a layer's sum of squares is multiplied by: the drop rate drawn in this pass (as the
    authors' runs), the keep rate (as the derivation) or 1."""
    l2_layers: Literal["all", "first", "sampled"] = "all"
    """Which layers are regularised; the first one may be a linear map before the convolutions,
    which are the sampled ones."""
    l2_biases: bool = True
    """Whether biases count too."""
    kl_weight: Weight | Literal["elbo"] = 1.0
    """Weight of the rates' KL; "elbo" is 1 / labelled nodes, the evidence lower bound."""
    kl_reduction: Literal["sum", "mean"] = "sum"
    """A rate per edge: whether the KL of a layer is the sum or the mean over its edges."""
    warmup: Annotated[int, Field(ge=0)] = 20
    """Epochs over which the KL's weight rises to its full value; 0 for none."""
    agree: Weight = 0.0
    """Consistency loss: weight of the squared distance between samples of the network and their
    sharpened mean, over all nodes; a step then takes two samples, or `train.passes` if more."""
    teach: Weight = 0.0
    """Fitted rates of edges: weight of the cross-entropy to the answers of the closed-form model
    that they were fitted with, over all nodes."""
    sharpen: Positive = 0.5
    """Consistency loss: the temperature by which the mean is sharpened; lower is sharper."""
    class_weights: Literal["none", "balanced"] = "none"
    """Whether the likelihood of a training node is weighted by 1 / the size of its class. The
    weights are undone in the probabilities: classes stay as frequent as they are."""


class TrainSettings(Section):
    """Optimization and model selection."""

    epochs: Count = 2000
    """Largest number of passes over the training nodes."""
    optimizer: Literal["adam", "lbfgs"] = "adam"
    """Adam, or L-BFGS for a linear model: every epoch then solves the whole problem, with a tenth
    of the L2 of the epoch before, so that validation nodes choose how much."""
    learning_rate: Positive = 0.005
    """Adam's step size."""
    passes: Count = 1
    """Samples of the network in every step, over which the NLL is averaged."""
    estimator: Literal["method", "concrete", "arm", "disarm", "reinforce"] = "method"
    """The gradient estimator of learned rates; "method" is the method's own."""
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Exponential moving average (EMA) of the weights: its decay per step. The averaged weights are
    evaluated and kept; 0 for no average."""
    batch_size: Annotated[int, Field(ge=0)] = 0
    """Mini-batches: number of training nodes of a step; 0 takes all of them, full batch."""
    fan_out: str = "15,10,5"
    """Mini-batches: how many edges into a node are sampled, one number per layer from the last
    layer to the first, -1 for all; the last number counts for further layers."""
    sampler: Literal["neighbor", "labor"] = "neighbor"
    """Mini-batches: whether every node samples its own edges, or all nodes of a layer share one
    draw per source (LABOR), which gives batches with fewer nodes."""
    importance: bool = True
    """Mini-batches: whether a sampled edge counts for those left out, so that sums over neighbors
    are unbiased; otherwise the mean over the sampled ones is taken."""
    evaluate_every: Count = 10
    """Epochs from one evaluation on the validation nodes to the next."""
    samples: Count = 20
    """Monte Carlo samples of such an evaluation."""
    select: Literal["accuracy", "nll", "calibrated-nll"] = "accuracy"
    """The validation score by which the kept state is chosen: accuracy, with ties to the lower NLL,
    NLL, or NLL at the temperature that is best for the state."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Early stopping after this many epochs without a better state; 0 for none."""
    baselines: bool = True
    """Whether simple models are fitted beside the network at the end, to be compared with."""
    checkpoint_seconds: Weight = 10.0
    """Time from one checkpoint to the next; 0 writes one after every epoch."""
    tensorboard: bool = False
    """Whether the metrics are also written for TensorBoard, which must be installed."""

    @field_validator("fan_out")
    @classmethod
    def _check_fan_out(cls, given: str) -> str:
        if not re.fullmatch(r"(-1|[1-9]\d*)(,(-1|[1-9]\d*))*", given):
            raise ValueError(
                f"train.fan_out is {given!r}; it takes numbers of at least 1, or -1 for all, "
                'separated by commas, such as "15,10,5"'
            )
        return given


class PredictSettings(Section):
    """Prediction with the trained network."""

    samples: Count = 20
    """Monte Carlo samples; with `standard_error` above 0 the largest number of them."""
    standard_error: Weight = 0.0
    """Sample until the standard error of every probability is at most this, in large graphs that
    of validation and test nodes: after the first 20 samples the largest error decides how many more
    are taken. It is decided once, at the end of training, and the network keeps that number. 0
    always takes `samples`."""
    masks: Literal["relaxed", "hard", "expected", "off"] = "relaxed"
    """Monte Carlo with relaxed or hard masks; or a single pass with masks replaced by their
    expectation, or with every connection kept."""
    dropout: bool = True
    """Whether samples also apply the additional DropOut of layers."""
    decision: Literal["vote", "mean"] = "vote"
    """The predicted class: what most samples chose, or the highest mean probability. A calibrated
    prediction always takes the latter."""
    calibration: Literal[
        "temperature", "entropy-temperature", "vector", "isotonic", "cagcn", "gats", "none"
    ] = "temperature"
    """The calibrator that is fitted on the validation nodes and kept with the network."""
    budget: str = "1%"
    """Rare classes: how many nodes one can look at, a share such as 1% or a number such as 50; the
    recall among the nodes of highest probability is measured there."""
    cost_ratio: Weight = 0.0
    """Rare classes: how many false alarms cost as much as one missed node; sets the probability
    from which nodes are flagged. 0 for none."""

    @field_validator("budget")
    @classmethod
    def _check_budget(cls, given: str) -> str:
        if not re.fullmatch(r"(\d+(\.\d+)?) ?%|0\.\d+|[1-9]\d*", given):
            raise ValueError(
                f"predict.budget is {given!r}; it takes a share of the nodes such as 1%, or a "
                "number of nodes such as 50"
            )
        return given


class Config(Section):
    """All settings of a run. What is not given comes from the recipe.

    A section is an object or a dict. One `ValueError` lists everything that is wrong.

    Example:
        >>> config = Config(model={"method": "GCN-DE", "layers": 4}, seed=1)
        >>> config.model.drop, config.train.epochs
        (0.5, 2000)
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the first weights, of every mask and of predictions."""
    recipe: Literal["auto", "paper", "baseline"] = "auto"
    """Where settings come from that are not given: chosen for the graph when training begins, the
    paper's, or those of a logistic or ridge regression, the better one of two on validation nodes:
    on a node's own features, or also on the means of its neighbours'."""
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    train: TrainSettings = TrainSettings()
    predict: PredictSettings = PredictSettings()

    def __init__(self, /, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(problems.describe_errors(error, type(self))) from error

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_recipe(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        asked = {
            name: value.model_dump(exclude_unset=True) if isinstance(value, Section) else value
            for name, value in given.items()
        }
        if asked.get("recipe", "auto") != "paper":
            return asked
        try:
            data = DataSettings.model_validate(_only(asked.get("data"), "dataset"))
            deciding = ("method", "architecture", "layers")
            model = ModelSettings.model_validate(_only(asked.get("model"), *deciding))
        except ValidationError:
            return asked  # where no recipe can be chosen, what follows says why
        chosen = recipe(model.method, data.dataset, model.layers, model.architecture)
        return merge_settings(chosen, asked)

    def asked(self) -> dict[str, Any]:
        """The settings that were given, by section and name; of a chosen recipe, all of them."""
        return self.model_dump(mode="json", exclude_unset=True)


def _only(section: Any, *names: str) -> dict[str, Any]:
    return {n: section[n] for n in names if n in section} if isinstance(section, dict) else {}
