"""Names of architectures, alone or before that of a method, as in `GAT-BBGDC`."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from graphdrop.config.recipes import Method

Architecture = Literal["gcn", "gat", "gatv2", "sage", "gin", "gcnii", "appnp", "propagation"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)


def parted(model: Mapping[str, Any]) -> dict[str, Any]:
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
