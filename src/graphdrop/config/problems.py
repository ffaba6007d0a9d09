"""Error messages for settings: which one, its value, what it takes."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

_LONGEST = 80


def describe_errors(errors: ValidationError, settings: type[BaseModel]) -> str:
    """All errors in one line; `settings` is the class that was to be built."""
    known = dict(_list_settings(settings))
    return "; ".join(dict.fromkeys(_describe_error(error, known) for error in errors.errors()))


def shorten(value: object) -> str:
    """The `repr` of a value, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no longer integers
        text = "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def describe_type(annotation: Any, limits: Iterable[Any] = ()) -> str:
    """The type of a setting, or its values, such as `a whole number of at least 1`."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(describe_type(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(json.dumps(value) for value in get_args(annotation))
    if get_origin(annotation) is Annotated:
        inner, *fields = get_args(annotation)
        return describe_type(inner, [limit for field in fields for limit in field.metadata])
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    kind = words.get(annotation) or "one of " + ", ".join(annotation)
    bounds = [
        f"{word} {getattr(limit, name)}"
        for limit in limits
        for name, word in _BOUNDS.items()
        if hasattr(limit, name)
    ]
    return " ".join((kind, " and ".join(bounds))).strip()


_BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}


def _list_settings(settings: type[BaseModel], section: str = "") -> Iterator[tuple[str, str]]:
    """Every setting such as `model.norm` with what it takes."""
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _list_settings(kind, f"{name}.")
        else:
            yield section + name, describe_type(kind, field.metadata)


def _describe_error(error: Any, known: Mapping[str, str]) -> str:
    if error["type"] == "value_error":  # of a check of our own, which says all
        return str(error["ctx"]["error"])
    *sections, name = (str(part) for part in error["loc"][:2])
    key = ".".join((*sections, name))
    if error["type"] == "extra_forbidden":
        return (
            f"{shorten(key)[1:-1]} is not a setting: give {' or '.join(_find_similar(key, known))}"
        )
    expected = known.get(key, f"a table, such as [{name}] with its settings below it")
    return f"{key} is {shorten(error['input'])}; it takes {expected}"


_NAMES_ELSEWHERE = {
    "lr": "train.learning_rate",
    "weight_decay": "objective.l2",
    "num_layers": "model.layers",
    "hidden_channels": "model.hidden",
    "hidden_dim": "model.hidden",
    "num_heads": "model.heads",
    "num_samples": "predict.samples",
    "early_stopping": "train.patience",
    "max_epochs": "train.epochs",
    "num_epochs": "train.epochs",
    "n_epochs": "train.epochs",
    "p": "model.dropout",
}
"""What torch, PyTorch Geometric and others call settings of ours."""


def _find_similar(key: str, known: Iterable[str]) -> list[str]:
    """Settings with similar names, in the same section or in any."""
    key, known = key[:_LONGEST], list(known)
    section, dot, name = key.partition(".")
    if (ours := _NAMES_ELSEWHERE.get(name or key)) in known and ours is not None:
        return [ours]
    if dot:
        siblings = {k.partition(".")[2]: k for k in known if k.startswith(f"{section}.")}
        close = difflib.get_close_matches(name, siblings, 1)
        return [siblings[near] for near in close] or list(siblings.values())
    tables = list(dict.fromkeys(key.partition(".")[0] for key in known))
    names = {key.rpartition(".")[2] for key in known}
    for candidates, cutoff in ((names, 1.0), (tables, 0.6), (names, 0.6)):
        close = difflib.get_close_matches(key, candidates, 1, cutoff)
        if close:
            return [name for name in (*known, *tables) if name.rpartition(".")[2] == close[0]]
    return tables
