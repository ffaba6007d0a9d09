"""Settings as TOML: reading, overriding from the command line, checking, writing.

Files are not trusted. The parser's time and memory grow with the square of the dots in one key, and
its recursion depth with the number of brackets, so that both are limited before parsing.
"""

import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic.fields import FieldInfo

from graphdrop.config.problems import describe_type, shorten
from graphdrop.config.settings import Config, Section
from graphdrop.io.files import check_regular

LARGEST: Final = 2**16
"""Bytes of a file of settings; a file with all of them and their meanings has a tenth of it."""
MOST_DOTS: Final = 100
"""Dots in one line."""
MOST_BRACKETS: Final = 100
"""Opening brackets and braces outside comments."""


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
    try:
        with check_regular(Path(path)).open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): give a TOML file of settings"
        ) from error
    if len(raw) > LARGEST:
        raise ValueError(
            f"{path} has more than {LARGEST} bytes: give a TOML file of settings, such as "
            "`graphdrop train --show-config` prints"
        )
    check_size(raw.decode(errors="replace"), str(path))
    try:
        return tomllib.loads(raw.decode())
    except ValueError as error:  # of UTF-8, of TOML, or of an integer with thousands of digits
        raise ValueError(f"{path} is not TOML ({error}): correct it there") from error


def check_size(text: str, name: str) -> None:
    """Raise if a text would take long to parse. A line that begins with # is a comment."""
    if len(text) > LARGEST:
        raise ValueError(f"{name} has {len(text)} characters: give {LARGEST} or fewer")
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    for number, line in enumerate(lines, 1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(
                f"{name} has {line.count('.')} dots in line {number}: a setting is section.name, "
                f"write it so, and no more than {MOST_DOTS} dots"
            )
    brackets = sum(line.count("[") + line.count("{") for line in lines)
    if brackets > MOST_BRACKETS:
        raise ValueError(
            f"{name} has {brackets} opening brackets: settings are one table deep, "
            f"write no more than {MOST_BRACKETS}"
        )


def override(asked: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The settings with assignments `section.name=value` applied; a value is TOML or text."""
    result = {key: dict(v) if isinstance(v, Mapping) else v for key, v in asked.items()}
    for assignment in assignments:
        given = f"--set is {shorten(assignment)}"
        check_size(assignment, given)
        key, equals, text = assignment.partition("=")
        *sections, name = key.strip().split(".")
        if not equals or not name or len(sections) > 1:
            raise ValueError(f"{given}: give section.name=value, such as train.epochs=200")
        target = result
        for section in sections:
            target = result.setdefault(section, {})
        if not isinstance(target, dict):
            raise ValueError(f"{given}, but {sections[0]} has no settings inside")
        try:
            target[name] = tomllib.loads(f"value = {text.strip()}")["value"]
        except ValueError:
            target[name] = text.strip()
    return result


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
                key,
                describe_type(field.annotation, field.metadata),
                _toml(defaults[name]),
                description,
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
    meaning = {setting.key: setting.description for setting in explained()}
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


def differences(first: Config, second: Config) -> list[str]:
    """The settings in which two configurations differ, such as `train.epochs`."""
    found = []
    for (section, fields, a), (_, _, b) in zip(_sections(first), _sections(second), strict=True):
        found += [f"{section}.{n}" if section else n for n in fields if a[n] != b[n]]
    return found
