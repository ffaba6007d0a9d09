"""Parsing of untrusted TOML in bounded time.

The parser's time and memory grow with the square of the dots in one key, and its recursion depth
with the number of brackets, so that both are limited before parsing.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

from graphdrop.io.files import check_regular

LARGEST: Final = 2**16
"""Bytes of a file of settings; a file with all of them and their meanings has a tenth of it."""
MOST_DOTS: Final = 100
"""Dots in one line."""
MOST_BRACKETS: Final = 100
"""Opening brackets and braces outside comments."""


def read_text(path: str | Path) -> str:
    """The text of a file, up to the largest size; raises if it cannot be read."""
    try:
        with check_regular(Path(path)).open("rb") as stream:
            raw = stream.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise ValueError(
                f"{path} has more than {LARGEST} bytes: give a TOML file of settings, such as "
                "`graphdrop train --show-config` prints"
            )
        return raw.decode()
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): give a TOML file of settings"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not TOML ({error}): correct it there") from error


def parse(text: str, name: str) -> dict[str, Any]:
    """The tables of a text; `name` is where it comes from, for errors."""
    check(text, name)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of TOML, or of an integer with thousands of digits
        raise ValueError(f"{name} is not TOML ({error}): correct it there") from error


def check(text: str, name: str) -> None:
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
