"""Settings as TOML: read, overridden from the command line, checked, and written with comments."""

import difflib
import json
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from graphdrop.config.settings import Config, Section


class Explained(NamedTuple):
    """One setting in words."""

    key: str
    """Such as `model.norm`."""
    takes: str
    """The type, or the values."""
    default: str
    """As TOML, where no recipe says otherwise."""
    description: str


def read(path: str | Path) -> dict[str, Any]:
    """The settings that a TOML file asks for, not yet checked."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): give a TOML file of settings"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML ({error}): correct it there") from error


def override(asked: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The same settings with `section.name=value` over them; a value is TOML, or else text."""
    result = {key: dict(v) if isinstance(v, Mapping) else v for key, v in asked.items()}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        *sections, name = key.strip().split(".")
        if not equals or not name or len(sections) > 1:
            raise ValueError(
                f"--set is {assignment!r}: give section.name=value, such as train.epochs=200"
            )
        target = result
        for section in sections:
            target = result.setdefault(section, {})
        if not isinstance(target, dict):
            raise ValueError(f"--set is {assignment!r}, but {sections[0]} has no settings inside")
        target[name] = _value(text.strip())
    return result


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def settle(asked: Mapping[str, Any]) -> Config:
    """Check what is asked for and fill in the rest; all that is wrong is said in one error."""
    try:
        return Config.model_validate(dict(asked))
    except ValidationError as error:
        problems = dict.fromkeys(_problem(one) for one in error.errors())
        raise ValueError("; ".join(problems)) from error


def _problem(error: Any) -> str:
    *sections, name = (str(part) for part in error["loc"][:2])
    key = ".".join((*sections, name))
    known = {one.key: one.takes for one in explained()}
    if error["type"] != "extra_forbidden":
        takes = known.get(key, f"a table, such as [{name}] with its settings below it")
        return f"{key} is {error['input']!r}: it takes {takes}"
    tables = dict.fromkeys(one.partition(".")[0] for one in known)
    near = [one for one in known if one.startswith(f"{sections[0]}.")] if sections else list(tables)
    close = difflib.get_close_matches(key, near, 1) or near
    return f"{key} is not a setting: give {' or '.join(close)}"


def explained() -> Iterator[Explained]:
    """Every setting with its meaning, in the order in which a file has them."""
    for section, fields, defaults in _sections(Config()):
        for name, field in fields.items():
            key = f"{section}.{name}" if section else name
            description = " ".join((field.description or "").split())
            yield Explained(
                key, _takes(field.annotation, field.metadata), _toml(defaults[name]), description
            )


def _takes(annotation: Any, limits: Iterable[Any] = ()) -> str:
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_takes(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(json.dumps(value) for value in get_args(annotation))
    if get_origin(annotation) is Annotated:
        inner, *fields = get_args(annotation)
        return _takes(inner, [limit for field in fields for limit in field.metadata])
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


def _sections(config: Config) -> Iterator[tuple[str, dict[str, FieldInfo], dict[str, Any]]]:
    """The settings outside all sections, and then those of each section."""
    fields = type(config).model_fields
    inner = {name: getattr(config, name) for name in fields}
    plain = {name: value for name, value in inner.items() if not isinstance(value, Section)}
    yield "", {name: fields[name] for name in plain}, plain
    for name, section in inner.items():
        if isinstance(section, Section):
            yield name, dict(type(section).model_fields), section.model_dump(mode="json")


def to_toml(config: Config) -> str:
    """The whole configuration as TOML, every setting under its meaning; `read` gives it back."""
    meaning = {one.key: one.description for one in explained()}
    lines = []
    for section, fields, values in _sections(config):
        if section:
            lines += [f"[{section}]"]
        for name in fields:
            key = f"{section}.{name}" if section else name
            lines += textwrap.wrap(meaning[key], 98, initial_indent="# ", subsequent_indent="# ")
            lines.append(f"{name} = {_toml(values[name])}")
        lines.append("")
    return "\n".join(lines)


def _toml(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        # A JSON string is a TOML string, but for one control character that JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def differences(one: Config, other: Config) -> list[str]:
    """The settings in which two configurations differ, such as `train.epochs`."""
    found = []
    for (section, fields, a), (_, _, b) in zip(_sections(one), _sections(other), strict=True):
        found += [f"{section}.{n}" if section else n for n in fields if a[n] != b[n]]
    return found
