"""What a model of one's own, with a sampler attached, cannot be trained with."""

from __future__ import annotations

from torch import nn

from graphdrop.config import Config


def check_attached(model: nn.Module, config: Config) -> None:
    """Refuse settings that a model with a sampler attached cannot be trained with."""
    if (asked := config.train.estimator) != "method":
        raise ValueError(
            f'train.estimator is "{asked}", but an attached model has its own: leave it '
            'at "method", and give attach(model, sampler, estimator=...)'
        )
    if config.objective.agree or config.train.passes > 1:
        raise ValueError(
            "objective.agree and train.passes take several samples in a step, which an "
            "attached model does not give: leave them at 0 and 1"
        )
    statistics = (getattr(module, "running_mean", None) for module in model.modules())
    if config.train.average and any(one is not None for one in statistics):
        raise ValueError(
            "train.average is set, but the model has batch normalization, whose statistics "
            "would be those of other weights than the mean: leave it at 0"
        )
