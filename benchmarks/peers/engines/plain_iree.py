"""IREE alone: the same JAX function by `iree-compile` with nothing but the host's CPU named."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Engine, Refused
from benchmarks.peers.engines.source_files import (
    onnx_file,
    onnx_inputs,
    stablehlo_file,
    timed,
)
from benchmarks.peers.models.model import Model, Precision

__all__ = ["PlainIree"]

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
_IMPORT = ("-m", "iree.compiler.tools.import_onnx")


class PlainIree(Engine):
    """Run by iree.runtime, on inputs that are on the device."""

    name = "iree"
    title = "plain iree-compile"
    packages = ("iree-base-compiler", "iree-base-runtime", "jax")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        from iree.compiler.tools.binaries import find_tool

        module, times = folder / "iree.vmfb", folder / "iree.seconds"
        if not (module.exists() and times.exists()):
            part = folder / "iree.part"
            if model.precision is Precision.I8:
                source, dialect = folder / "onnx.mlir", "onnx"
                _run([sys.executable, *_IMPORT, str(onnx_file(model, folder)), "-o", str(source)])
            else:
                source, dialect = stablehlo_file(model, folder), "stablehlo"
            command = [find_tool("iree-compile"), str(source), "-o", str(part), *_FLAGS]
            command.append(f"--iree-input-type={dialect}")
            times.write_text(str(timed(lambda: _run(command))))
            part.replace(module)
        return {"compile": float(times.read_text())}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        from iree import runtime

        runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = runtime.Config("local-task")
        native = runtime.VmModule.mmap(config.vm_instance, str(folder / "iree.vmfb"))
        quantised = model.precision is Precision.I8
        arrays = list(onnx_inputs(model).values()) if quantised else model.example()
        self._function = runtime.load_vm_module(native, config).main
        self._inputs = [runtime.asdevicearray(config.device, a) for a in arrays]

    def run(self) -> None:
        self._results = self._function(*self._inputs)

    def outputs(self) -> Sequence[np.ndarray]:
        results = self._results if isinstance(self._results, tuple | list) else [self._results]
        return [result.to_host() for result in results]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise Refused((lines or [f"{command[0]} failed"])[0][:300])
