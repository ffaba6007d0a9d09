"""The sha256 of every file of every pinned package: `python release/hashes.py > hashes.txt`.

With it, pip takes no file but those that were published under a pinned version when the list was
made. torch is left out: which of its builds is installed, for processors or for GPUs, is the user's
choice, and local builds are on no index.
"""

import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
LEFT_OUT = ("torch",)
FILE = re.compile(r'#sha256=([0-9a-f]{64})"[^>]*>\s*([^<\s]+)\s*<')
"""A file in the list of a project (PEP 503)."""


def hashed(pin: str) -> str:
    """A line of a file of requirements."""
    name, _, version = pin.partition("==")
    url = f"https://pypi.org/simple/{canonicalize_name(name)}/"
    with urllib.request.urlopen(url, timeout=60) as answer:
        files = FILE.findall(answer.read().decode())
    sums = sorted(sha256 for sha256, file in files if _version(file) == Version(version))
    if not sums:
        raise SystemExit(f"{pin} has no file on PyPI")
    return " \\\n".join([pin, *(f"    --hash=sha256:{one}" for one in sums)])


def _version(name: str) -> Version | None:
    """The version of a wheel or of a source archive, by its name."""
    try:
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[1]
        return parse_sdist_filename(name)[1]
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
        return None  # such as an .egg of former times


def main() -> None:
    """Print the list."""
    lines = CONSTRAINTS.read_text().splitlines()
    pins = [line for line in lines if "==" in line and not line.startswith("#")]
    pins = [pin for pin in pins if pin.partition("==")[0] not in LEFT_OUT]
    print("# Made by release/hashes.py from constraints.txt; torch is left out, see there.")
    with ThreadPoolExecutor(8) as pool:
        for text in pool.map(hashed, pins):
            print(text)


if __name__ == "__main__":
    main()
