"""Compile the Triton kernels for GPUs that need not be there: registers, memory and spills.

    python benchmarks/compile_gpu.py [--targets sm_80 gfx942] [--variants hard/feature ...] [--json]

A variant is compiled for 128 features of float32 unless its name says otherwise. NVIDIA's figures
are from ``ptxas -v``, AMD's from the metadata of the assembly.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"  # before Triton is imported: the compiler is wanted here

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from graphdrop.graph.masks import Kind
from graphdrop.kernels.gpu import rows
from graphdrop.kernels.gpu.launch import OPTIONS, Rule, constants_of
from graphdrop.kernels.passes import Form

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),  # A100
    "sm_90": GPUTarget("cuda", 90, 32),  # H100
    "sm_100": GPUTarget("cuda", 100, 32),  # B200
    "gfx942": GPUTarget("hip", "gfx942", 64),  # MI300
}
FEATURES = 128
CHANNELS = {"edge": 1, "block": 3, "feature": None, "source": None}
LAYOUTS = {"bfloat16": "*bf16", "float16": "*fp16"}


def variants() -> list[str]:
    """Names: kind, sharing, and options after a plus."""
    names = [f"{kind}/{channel}" for kind in ("hard", "concrete", "table") for channel in CHANNELS]
    names += ["none/edge", "mean/edge", "mean/edge+rates", "hard/edge+symmetric+loops+ranked"]
    names += [f"{name}+rates" for name in ("hard/edge", "hard/feature", "concrete/feature")]
    names += [f"{name}+slopes" for name in ("concrete/edge", "concrete/block", "concrete/feature")]
    names += [
        "concrete/feature+rates+slopes",
        "table/feature+slopes",
        "concrete/feature+antithetic",
    ]
    names += ["hard/feature+bfloat16", "concrete/feature+slopes+float16", "hard/feature+narrow"]
    return [*names, "parts"]


def source_of(name: str) -> ASTSource:
    """What is compiled for a variant."""
    what, *options = name.split("+")
    kind, _, channel = what.partition("/")
    if kind == "parts":
        kernel, constants = rows.add_parts, {"BLOCK_P": 4, "BLOCK_F": FEATURES}
    else:
        kernel, constants = rows.sum_rows, _row_constants(kind, channel, options)
    signature = {
        n: "constexpr" if n in constants else _type(n, kind, options) for n in kernel.arg_names
    }
    places = {n: (at,) for at, n in enumerate(kernel.arg_names)}
    aligned = {
        places[n]: [["tt.divisibility", 16]]
        for n, kind in signature.items()
        if kind.startswith("*") or (n in ("features", "x_row", "out_row", "own_row"))
    }
    if "narrow" in options:
        aligned = {place: attr for place, attr in aligned.items() if place != places["features"]}
    constexprs = {places[n]: value for n, value in constants.items()}
    return ASTSource(kernel, signature, constexprs, aligned)


def _row_constants(kind: str, channel: str, options: list[str]) -> dict[str, Any]:
    features = 7 if "narrow" in options else FEATURES
    shape = (1, 2) if "rates" in options else (1,)
    form = Form(
        Kind.CONCRETE if kind == "table" else Kind(kind),
        CHANNELS[channel] or features,
        channel == "source",
        "symmetric" in options,
        "loops" not in options,
        "antithetic" in options,
    )
    rule = Rule(
        form,
        torch.zeros(shape),
        torch.zeros(1, 2, dtype=torch.int64),
        0.67,
        torch.zeros(4096) if kind == "table" else None,
    )
    slopes = "slopes" in options
    return {
        **constants_of(rule, features, slopes=slopes),
        "TRANSPOSED": slopes,
        "NAMED_ROWS": False,
        "NAMED_COLUMNS": False,
        "RANKED": "ranked" in options,
    }


def _type(name: str, kind: str, options: list[str]) -> str:
    """The type of a kernel's argument."""
    if name in ("x", "own", "out"):
        return next((LAYOUTS[one] for one in options if one in LAYOUTS), "*fp32")
    if name in ("widest", "inverse_temperature"):
        return "fp32"
    if name in ("values", "partial", "slopes", "table", "slope_table"):
        return "*fp32"
    if name == "rates":
        return "*i32" if kind == "hard" else "*fp32"
    if name in ("keys", "sums"):
        return "*i64"
    pointers = ("segment", "long", "indices", "row_ids", "column_ids", "ranks", "edge_numbers")
    pointers += ("destinations", "sources", "thresholds")
    return "*i32" if name.startswith(pointers) else "i32"


def compiled(name: str, target: str) -> dict[str, Any]:
    """Registers, spilled bytes and shared memory of a variant."""
    source = source_of(name)
    made = triton.compile(source, target=TARGETS[target], options=OPTIONS)
    figures = {"variant": name, "target": target, "shared": made.metadata.shared}
    if "amdgcn" in made.asm:
        text = made.asm["amdgcn"]
        for key, field in (("registers", "vgpr_count"), ("spilled", "vgpr_spill_count")):
            figures[key] = int(re.search(rf"\.{field}:\s+(\d+)", text)[1])
        return figures
    return figures | of_ptxas(made.asm["ptx"])


def of_ptxas(ptx: str) -> dict[str, int]:
    """What ``ptxas -v`` says of a kernel: the one of Triton's two that knows the code's version."""
    arch = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1]
    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    problem = ""
    for tool in (folder / "ptxas", folder / "ptxas-blackwell"):
        if not tool.exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "kernel.ptx"
            path.write_text(ptx)
            command = [tool, "-v", f"--gpu-name={arch}", path, "-o", path.with_suffix(".cubin")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if not done.returncode:
            spilled = sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", said)))
            return {
                "registers": int(re.search(r"Used (\d+) registers", said)[1]),
                "spilled": spilled,
            }
        problem = said
    if problem:
        raise RuntimeError(problem)
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--variants", nargs="+", default=variants())
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    asked = parser.parse_args()
    for name in asked.variants:
        for target in asked.targets:
            figures = compiled(name, target)
            if asked.json:
                print(json.dumps(figures), flush=True)
            else:
                print(
                    f"{name:<36} {target:<7} registers {figures.get('registers', '?'):>4}  "
                    f"spilled {figures.get('spilled', '?'):>3}  shared {figures['shared']:>5}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
