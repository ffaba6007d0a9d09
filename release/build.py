"""`make release`: build the wheel and the sdist, and try them as a stranger would.

1. builds both with the time of the last commit in them: the same commit gives the same bytes
2. `twine check --strict`
3. installs the wheel into a clean environment, for every Python that is asked for, and runs
   `pip check`, `release/smoke.py` and the demo there, with the examples of the sdist
4. writes the papers of the release: notes from the changelog, checksums, the software bill of
   materials (CycloneDX), which has the licences of all dependencies

Wheel and sdist are in `dist`, which holds nothing else; the papers are in `build/release`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SBOM = "cyclonedx-bom==7.5.0"
"""What writes the bill of materials; it gets an environment of its own."""
DIST, PAPERS = ROOT / "dist", ROOT / "build" / "release"


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, and stop if it fails."""
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=_environment(), check=False)
    if done.returncode:
        sys.exit(f"release: {' '.join(map(str, words))} failed with status {done.returncode}")


def _environment() -> dict[str, str]:
    """This process's own, without what would let a checkout be imported."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def notes(changelog: str, version: str) -> tuple[str, bool]:
    """What the changelog says of a version, and whether the version has its date."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading.strip()):
            return text.strip() + "\n", True
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.strip() == "[Unreleased]" and f"will be {version};" in text:
            return text.strip() + "\n", False
    raise SystemExit(
        f"release: CHANGELOG.md has no section for {version}; it takes a heading "
        f"`## [{version}] - YYYY-MM-DD`. Write what changed."
    )


def build() -> tuple[Path, Path]:
    """The wheel and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def try_out(python: str, wheel: Path, sdist: Path, *, demo: bool, papers: bool) -> None:
    """Install the wheel for one Python into a clean environment, and use it."""
    print(f"\n{wheel.name} with {python}, in a clean environment:", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "sdist", filter="data")
        (source,) = (folder / "sdist").iterdir()
        own = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(python, "-m", "venv", folder / "venv")
        pip = (own, "-m", "pip", "--disable-pip-version-check")
        pins = re.findall(r"^[^#\s]+==\S+", (ROOT / "requirements.lock").read_text("utf-8"), re.M)
        (folder / "pins.txt").write_text("\n".join(pins) + "\n", "utf-8")
        torch = re.search(r'^TORCH="(.*)"$', (ROOT / "release/environment.sh").read_text(), re.M)
        run(*pip, "install", "--quiet", "-c", "pins.txt", torch[1], wheel, cwd=folder)
        run(*pip, "check", cwd=folder)
        print(f"  installed: {time.monotonic() - began:.0f} seconds", flush=True)
        run(own, source / "release" / "smoke.py", source / "examples", cwd=folder)
        if demo:
            run(own, "-m", "graphdrop", "demo", cwd=folder)
        if papers:
            bill = PAPERS / f"{wheel.name.partition('-py3')[0]}.cdx.json"
            tool = folder / "sbom"
            run(python, "-m", "venv", tool)
            run(tool / own.parent.name / "python", "-m", "pip", "install", "--quiet", SBOM)
            command = ("-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", bill)
            run(tool / own.parent.name / "python", *command, own, cwd=folder)


def main() -> None:
    """Do all of it; the first thing that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--python", action="append", help="another Python to try the wheel with, such as python3.12"
    )
    parser.add_argument("--no-demo", action="store_true", help="leave the demo out")
    parser.add_argument(
        "--final", action="store_true", help="refuse changes not committed, and a missing date"
    )
    asked = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    text, dated = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if asked.final and not dated:
        sys.exit(
            f"release: CHANGELOG.md has no date for {version}; it takes `## [{version}] - DATE`"
        )
    if asked.final and _git("status", "--porcelain"):
        sys.exit("release: there are changes that are not committed; commit them first")
    os.environ.setdefault("SOURCE_DATE_EPOCH", _git("log", "-1", "--format=%ct") or "0")
    shutil.rmtree(PAPERS, ignore_errors=True)
    PAPERS.mkdir(parents=True)
    wheel, sdist = build()
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    for number, python in enumerate([sys.executable, *(asked.python or [])]):
        try_out(python, wheel, sdist, demo=not asked.no_demo and not number, papers=not number)
    (PAPERS / f"notes-{version}.md").write_text(text, "utf-8")
    sums = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}" for one in (wheel, sdist)]
    (PAPERS / "SHA256SUMS").write_text("\n".join(sums) + "\n", "utf-8")
    print("\nReady: " + ", ".join(str(one.relative_to(ROOT)) for one in (wheel, sdist)))
    print(f"Papers in {PAPERS.relative_to(ROOT)}: {', '.join(sorted(os.listdir(PAPERS)))}")
    if not dated:
        print(f"The changelog has no date for {version} yet: this is a rehearsal.")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
