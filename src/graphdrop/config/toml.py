"""Settings as TOML: reading, overriding from the command line, checking, writing."""

import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from graphdrop.config import parse
from graphdrop.config.problems import shown, takes
from graphdrop.config.settings import Config, Section


class Explained(NamedTuple):
    """The documentation of one setting."""

    key: str
    """The full name, such as `model.norm`."""
    takes: str
    """The type, or the values."""
    default: str
    """The default value as TOML."""
    description: str


def read(path: str | Path) -> dict[str, Any]:
    """The settings of a TOML file, not checked yet."""
    return parse.parse(parse.read_text(path), str(path))


def override(asked: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The settings with assignments `section.name=value` applied; a value is TOML or text."""
    result = {key: dict(v) if isinstance(v, Mapping) else v for key, v in asked.items()}
    for assignment in assignments:
        given = f"--set is {shown(assignment)}"
        parse.check(assignment, given)
        key, equals, text = assignment.partition("=")
        *sections, name = key.strip().split(".")
        if not equals or not name or len(sections) > 1:
            raise ValueError(f"{given}: give section.name=value, such as train.epochs=200")
        target = result
        for section in sections:
            target = result.setdefault(section, {})
        if not isinstance(target, dict):
            raise ValueError(f"{given}, but {sections[0]} has no settings inside")
        target[name] = _value(text.strip())
    return result


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


def settle(asked: Mapping[str, Any]) -> Config:
    """Check settings and add the defaults; one error lists everything that is wrong."""
    return Config(**asked)


def explained() -> Iterator[Explained]:
    """Every setting with its meaning, in the order in which a file has them."""
    for section, fields, defaults in _sections(Config()):
        for name, field in fields.items():
            key = f"{section}.{name}" if section else name
            description = " ".join((field.description or "").split())
            yield Explained(
                key, takes(field.annotation, field.metadata), _toml(defaults[name]), description
            )


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
    """The configuration as TOML with comments; the inverse of `read`."""
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
