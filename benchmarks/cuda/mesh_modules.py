"""The networks of `mesh_models.py` to modules for GPUs: for one, and for two in each way to cut.

Run as `python benchmarks/cuda/mesh_modules.py FOLDER [NAMES]`; needs no GPU. Weights are left out:
`mesh_run.py` draws them where it runs.
"""

import argparse
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
from mesh_models import NETWORKS, WAYS, callable_of, inputs_of, weights_of

from edgec import exporters, toolchain
from edgec.meshing import compile_mesh
from edgec.targets import find


@jax.tree_util.register_dataclass
@dataclass
class _Model:
    """A callable with its weights, as edgec takes models apart."""

    weights: dict[str, Any]
    name: str = field(metadata={"static": True})

    def __call__(self, x: Any) -> Any:
        return callable_of(self.name)(self.weights, x)


def main() -> None:
    """Compile what is named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--only", help="of one, data and model, separated by commas")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    target = find(options.target)
    jax.config.update("jax_num_cpu_devices", 2)
    for name in options.names or NETWORKS:
        model, x = _Model(weights_of(name), name), inputs_of(name)
        weights = options.folder / "weights.safetensors"
        for axis in (None, *WAYS[name]):
            if options.only is not None and (axis or "one") not in options.only.split(","):
                continue
            start = time.monotonic()
            mesh = None if axis is None else f"{axis}=2"
            program = exporters.export(model, (x,), mesh=mesh, external_weights=weights)
            exported = time.monotonic() - start
            stem = options.folder / (name if axis is None else f"{name}.{axis}")
            program = replace(program, golden=None, path=stem.with_suffix(".mlirbc"))
            if axis is None:
                made = toolchain.compile_with_report(
                    program,
                    target,
                    toolchain.CompileOptions(output=stem.with_suffix(".vmfb"), check=False),
                )
            else:
                folder = options.folder / f"{name}.{axis}.mesh"
                made = compile_mesh(
                    program, target, folder, toolchain.CompileOptions(check=False)
                ).compiled
                for file in folder.glob("*.safetensors"):
                    file.unlink()
            took = f"{exported:.0f} + {time.monotonic() - start - exported:.0f} s"
            print(f"{name}, {mesh or 'one device'}: {made.report.kernels}, {took}", flush=True)
        weights.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
