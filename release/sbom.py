"""The software bill of materials and the licences of what an environment has installed.

Run by the Python of the environment; it needs nothing but the standard library and, for markers,
`packaging`, where that is there. The bill is CycloneDX 1.6 in JSON, the same for the same packages:

    python release/sbom.py graphdrop --sbom sbom.cdx.json --licences licences.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
LONG = 100
"""A licence field that is longer holds the text of a licence, not its name."""


def normalized(name: str) -> str:
    """A package's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(package: Distribution) -> list[str]:
    """The names that a package needs here; what only an extra needs is left out."""
    names = []
    for line in package.requires or []:
        requirement, _, marker = line.partition(";")
        found = NAME.match(requirement.strip())
        if found and _applies(marker.strip()):
            names.append(normalized(found[0]))
    return names


def _applies(marker: str) -> bool:
    if not marker:
        return True
    try:
        from packaging.markers import Marker  # noqa: PLC0415 - a small environment may lack it
    except ImportError:
        return "extra" not in marker
    return bool(Marker(marker).evaluate({"extra": ""}))


def closure(name: str) -> dict[str, Distribution]:
    """A package and all installed packages that it needs, by name."""
    found: dict[str, Distribution] = {}
    waiting = [normalized(name)]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        try:
            found[current] = distribution(current)
        except PackageNotFoundError:
            if current == normalized(name):
                raise
            continue  # needed on other systems only
        waiting += required(found[current])
    return dict(sorted(found.items()))


def licence(package: Distribution) -> tuple[str, str]:
    """The kind of what a package says of its licence, `expression` or `name`, and the text."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return "expression", expression
    text = (about.get("License") or "").strip()
    if text and "\n" not in text and len(text) <= LONG and text != "UNKNOWN":
        return "name", text
    kinds = [one for one in about.get_all("Classifier") or [] if one.startswith("License :: ")]
    names = [one.split(" :: ")[-1] for one in kinds if one != "License :: OSI Approved"]
    if names:
        return "name", " and ".join(names)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "name", first[:LONG] or "not stated"


def _components(packages: dict[str, Distribution]) -> Iterator[dict[str, Any]]:
    for name, package in packages.items():
        kind, text = licence(package)
        stated = {"expression": text} if kind == "expression" else {"license": {"name": text}}
        yield {
            "type": "library",
            "bom-ref": reference(name, package),
            "name": name,
            "version": package.version,
            "purl": reference(name, package),
            "licenses": [stated],
        }


def reference(name: str, package: Distribution) -> str:
    """The package URL: of a local version such as 2.13.0+cpu, with the plus sign encoded."""
    return f"pkg:pypi/{name}@{package.version.replace('+', '%2B')}"


def bill(name: str) -> dict[str, Any]:
    """The CycloneDX document of a package and what it needs here."""
    packages = closure(name)
    own, *others = sorted(_components(packages), key=lambda one: one["name"] != normalized(name))
    links = [
        {
            "ref": reference(one, package),
            "dependsOn": sorted(
                reference(needed, packages[needed])
                for needed in set(required(package))
                if needed in packages
            ),
        }
        for one, package in packages.items()
    ]
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    content = json.dumps([own, others, links], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": own,
        },
        "components": others,
        "dependencies": links,
    }


def main() -> None:
    """Write the files that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("--sbom", type=Path, required=True)
    parser.add_argument("--licences", type=Path, required=True)
    asked = parser.parse_args()
    asked.sbom.write_text(json.dumps(bill(asked.package), indent=2) + "\n", "utf-8")
    with asked.licences.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["package", "version", "licence"])
        for name, package in closure(asked.package).items():
            rows.writerow([name, package.version, licence(package)[1]])


if __name__ == "__main__":
    main()
