"""The kernels compile for real GPUs, without spills at 128 features; no GPU is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[3]
FEW = ["hard/feature", "concrete/block+slopes", "concrete/feature+rates+slopes+float16", "parts"]
"""Variants of the default suite: both passes, rates per mask and per edge, half precision."""


def figures(*arguments: str) -> list[dict[str, object]]:
    """What `benchmarks/compile_gpu.py` prints, in a process where Triton compiles."""
    command = [sys.executable, str(ROOT / "benchmarks/compile_gpu.py"), "--json", *arguments]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict[str, object]]) -> None:
    assert {one["target"] for one in found} == {"sm_80", "sm_90", "sm_100", "gfx942"}
    assert [one for one in found if one.get("spilled", 0)] == []
    # as many as leave room for half of the warps of a multiprocessor
    assert [one for one in found if one["target"] != "gfx942" and one["registers"] > 128] == []


def test_kernels_compile_for_nvidia_and_amd() -> None:
    found = figures("--variants", *FEW)
    assert len(found) == 4 * len(FEW)
    check(found)


@pytest.mark.slow
def test_every_variant_compiles() -> None:
    check(figures())
