"""The networks of `torch_models.py` to modules for Vulkan by plain `iree-compile`.

`python benchmarks/vulkan/plain_networks.py FOLDER [NAMES] --type f16`; needs no GPU. None of
edgec's passes rewrites anything and none of its kernels is there: of the exported program only the
weights become parameters, as a user of IREE has them. The compiler is told the GPU and to do all
that it can (O3), or, if it refuses that, its usual optimisations. What it refuses is kept beside
the modules with its first error.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from torch_models import TORCH_MODELS, build

from benchmarks.zoo.kinds.torch_models import declare_torchvision
from edgec import exporters
from edgec.toolchain.passes.bind_globals import BindGlobals
from edgec.toolchain.process import compiler_path
from edgec.toolchain.stablehlo import parse_stablehlo

FLAGS = (
    *("--iree-input-type=stablehlo", "--iree-hal-target-device=vulkan"),
    *("--iree-vulkan-target=ada", "--iree-input-demote-i64-to-i32=false"),
)
LEVELS = ("O3", "O2")
_LIMIT = 600
"""Seconds for one network."""


def bind(program: Any, path: Path) -> None:
    """Write the program with its weights as parameters."""
    from iree.compiler import ir

    with ir.Context():
        module = parse_stablehlo(program.bytecode, ir.Context.current)
        BindGlobals(info=program.info).run(module)
        with path.open("wb") as stream:
            module.operation.write_bytecode(stream)


def compiled(source: Path, output: Path) -> dict[str, str]:
    """At which level the compiler took it, or why it did not."""
    told = ""
    for level in LEVELS:
        line = [str(compiler_path()), str(source), "-o", str(output), *FLAGS]
        line.append(f"--iree-opt-level={level}")
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            told = told or f"the compiler took longer than {_LIMIT} s"
            continue
        if done.returncode == 0:
            return {"level": level}
        lines = [line for line in done.stderr.splitlines() if "error:" in line]
        first = lines[0].split("error:", 1)[1] if lines else f"exit code {done.returncode}"
        told = told or first.strip()[:200]
    return {"refused": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--type", default="f16", choices=["f16", "f32"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    declare_torchvision()
    for name in options.names or TORCH_MODELS:
        stem = options.folder / f"{name}-{options.type}.vulkan-spirv"
        weights, source = (stem.with_name(f"{stem.name}.plain.{end}") for end in ("w", "mlirbc"))
        weights = weights.with_suffix(".safetensors")
        try:
            model, inputs = build(name, options.type)
            bind(exporters.export(model, inputs, external_weights=weights), source)
            found = compiled(source, stem.with_name(f"{stem.name}.plain.vmfb"))
        finally:
            weights.unlink(missing_ok=True)
            source.unlink(missing_ok=True)
        stem.with_name(f"{stem.name}.plain.json").write_text(json.dumps(found) + "\n")
        print(f"{stem.name}: {found}", flush=True)


if __name__ == "__main__":
    main()
