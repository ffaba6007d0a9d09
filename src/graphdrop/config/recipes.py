"""The methods and architectures by name, and their default settings.

The defaults in `settings.py` are the paper's for GCN-BBGDC on Cora. This module has the differences
by method, dataset and depth.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, get_args

Settings = dict[str, dict[str, Any]]
"""Values by section and name, such as `{"model": {"norm": "row"}}`."""


Architecture = Literal["gcn", "gat", "gatv2", "sage", "gin", "gcnii", "appnp", "propagation"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)


class Method(StrEnum):
    """The methods that can be trained by name."""

    GCN = "GCN"
    """No sampling."""
    GCN_DO = "GCN-DO"
    """DropOut on the input of every layer."""
    GCN_DE = "GCN-DE"
    """DropEdge: edges at a fixed rate, both directions together."""
    GCN_DO_DE = "GCN-DO-DE"
    """DropOut and DropEdge together."""
    GCN_NS = "GCN-NS"
    """Node sampling: whole nodes at a fixed rate."""
    GCN_GDC = "GCN-GDC"
    """Graph DropConnect at a fixed rate."""
    GCN_BBDE = "GCN-BBDE"
    """DropEdge with a learned beta-Bernoulli rate per layer."""
    GCN_BBGDC = "GCN-BBGDC"
    """Graph DropConnect with a learned beta-Bernoulli rate per layer."""
    GCN_BBNS = "GCN-BBNS"
    """Node sampling with a learned beta-Bernoulli rate per layer."""
    GCN_BBDO = "GCN-BBDO"
    """DropOut with a learned beta-Bernoulli rate per layer."""
    GCN_BGDC = "GCN-BGDC"
    """Graph DropConnect with a learned Bernoulli rate per layer, no prior."""
    GCN_BDE_ARM = "GCN-BDE-ARM"
    """DropEdge with a learned Bernoulli rate per layer, no prior; gradients by ARM."""
    GCN_BBDE_ARM = "GCN-BBDE-ARM"
    """GCN-BBDE with hard masks in training; gradients by ARM."""
    GCN_BBGDC_ARM = "GCN-BBGDC-ARM"
    """GCN-BBGDC with hard masks in training; gradients by ARM."""
    GCN_BBDE_LOCAL = "GCN-BBDE-LOCAL"
    """GCN-BBDE with a rate of its own for every edge of every layer."""
    GCN_BBGDC_LOCAL = "GCN-BBGDC-LOCAL"
    """GCN-BBGDC with a rate of its own for every edge of every layer."""
    GCN_BBGDC_AMORTISED = "GCN-BBGDC-AMORTISED"
    """GCN-BBGDC with a rate for every edge that a network per layer computes from the edge."""

    @classmethod
    def _missing_(cls, value: object) -> "Method | None":
        """The same name in another case, with underscores, or without `GCN-`, such as `bbgdc`."""
        name = value.upper().replace("_", "-") if isinstance(value, str) else None
        return next((method for method in cls if method.value in (name, f"GCN-{name}")), None)


def split_method_name(model: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a model in which an architecture in the method's name has become a setting.

    `GCN-` says nothing of the architecture: every method is called so where nothing else is.
    """
    settings, name = dict(model), model.get("method")
    given = settings.get("architecture")
    if isinstance(given, str) and given.lower() in ARCHITECTURES:
        settings["architecture"] = given = given.lower()
    if not isinstance(name, str):
        return settings
    first, _, rest = name.lower().replace("_", "-").partition("-")
    if first == "gcn" or first not in ARCHITECTURES:
        return settings
    try:
        method = Method(rest or "GCN")
    except ValueError:
        return settings  # the name is then said to be unknown, as it was given
    if given is not None and given != first:
        raise ValueError(
            f'model.method is "{name}" and model.architecture "{given}": they name two '
            f'architectures, so give model.method = "{method}", or leave the architecture out'
        )
    return settings | {"method": method, "architecture": first}


STANDARD: Settings = {
    "data": {"features": "row"},
    "model": {"norm": "sym", "init": "glorot", "mask": "before", "symmetric": True},
    # The usual 5e-4 multiplies half the sum of squares; the objective here has no 1/2.
    "objective": {"l2": 2.5e-4, "l2_factor": "one", "l2_layers": "first", "l2_biases": False},
    "train": {"learning_rate": 0.01, "patience": 200},
    "predict": {"masks": "off", "decision": "mean"},
}
"""The usual settings of a GCN, for the baselines."""

PAPER: Settings = {}
"""The paper's recipe: the defaults as they are."""
UNCALIBRATED: Settings = {"predict": {"calibration": "none"}}
"""The paper does not calibrate."""

# A network that was trained with hard masks predicts with hard masks.
HARD: Settings = {"predict": {"masks": "hard"}}
# Summed over thousands of edges the KL would outweigh the mean likelihood by its number alone.
LOCAL: Settings = {"objective": {"kl_reduction": "mean"}}
DROPOUT: Settings = {"model": {"dropout": 0.5}}


def merge_settings(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings merged section by section; later ones win."""
    result: dict[str, Any] = {}
    for given in settings:
        for name, value in given.items():
            known = result.get(name)
            if isinstance(known, dict) and isinstance(value, Mapping):
                result[name] = known | dict(value)
            else:
                result[name] = dict(value) if isinstance(value, Mapping) else value
    return result


BY_METHOD: Mapping[Method, Settings] = {
    Method.GCN: STANDARD,
    Method.GCN_DO: merge_settings(STANDARD, DROPOUT),
    Method.GCN_DE: STANDARD,
    Method.GCN_DO_DE: merge_settings(STANDARD, DROPOUT),
    Method.GCN_NS: STANDARD,
    Method.GCN_GDC: merge_settings(PAPER, HARD),
    Method.GCN_BBDE: PAPER,
    Method.GCN_BBGDC: PAPER,
    Method.GCN_BBNS: PAPER,
    Method.GCN_BBDO: PAPER,
    Method.GCN_BGDC: PAPER,
    Method.GCN_BDE_ARM: merge_settings(PAPER, HARD),
    Method.GCN_BBDE_ARM: merge_settings(PAPER, HARD),
    Method.GCN_BBGDC_ARM: merge_settings(PAPER, HARD),
    Method.GCN_BBDE_LOCAL: merge_settings(PAPER, LOCAL),
    Method.GCN_BBGDC_LOCAL: merge_settings(PAPER, LOCAL),
    Method.GCN_BBGDC_AMORTISED: merge_settings(PAPER, LOCAL),
}

PAPER_BY_DATASET: Mapping[str, Settings] = {
    "citeseer": {"objective": {"l2": 1e-2, "warmup": 40}},
    "cora_ml": {"objective": {"l2": 1e-3}},
}
# The paper warms up the KL in networks of more than two layers.
PAPER_SHALLOW: Settings = {"objective": {"warmup": 0}}


# Attached layers normalize their edges themselves, before a mask can act.
ATTACHED: Settings = {"model": {"mask": "after"}}


def recipe(method: Method, dataset: str, layers: int, architecture: str = "gcn") -> Settings:
    """The paper's recipe: what differs from the defaults for a method on a dataset at a depth."""
    by_dataset = PAPER_BY_DATASET.get(dataset.lower().replace("-", "_"), {})
    shallow = PAPER_SHALLOW if layers <= 2 else {}
    attached = ATTACHED if architecture != "gcn" else {}
    return merge_settings(UNCALIBRATED, by_dataset, shallow, BY_METHOD[method], attached)
