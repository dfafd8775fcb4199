"""IREE alone: the same JAX function by `iree-compile` with nothing but the host's CPU named."""

from pathlib import Path

from benchmarks.peers.engines.engine import Engine, Refused
from benchmarks.peers.engines.source_files import stablehlo_file, timed
from benchmarks.peers.models.model import Model

__all__ = ["PlainIree"]

_FLAGS = (
    "--iree-input-type=stablehlo",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)


class PlainIree(Engine):
    """Run by iree.runtime, on inputs that are on the device."""

    name = "iree"
    title = "plain iree-compile"
    packages = ("iree-base-compiler", "iree-base-runtime", "jax")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        import subprocess

        from iree.compiler.tools.binaries import find_tool

        module, times = folder / "iree.vmfb", folder / "iree.seconds"
        if not (module.exists() and times.exists()):
            source, part = stablehlo_file(model, folder), folder / "iree.part"
            command = [find_tool("iree-compile"), str(source), "-o", str(part), *_FLAGS]

            def compile_it() -> None:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    lines = [line for line in done.stderr.splitlines() if "error" in line]
                    raise Refused((lines or ["iree-compile failed"])[0][:300])

            times.write_text(str(timed(compile_it)))
            part.replace(module)
        return {"compile": float(times.read_text())}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        from iree import runtime

        runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = runtime.Config("local-task")
        native = runtime.VmModule.mmap(config.vm_instance, str(folder / "iree.vmfb"))
        self._function = runtime.load_vm_module(native, config).main
        self._inputs = [runtime.asdevicearray(config.device, a) for a in model.example()]

    def run(self) -> None:
        self._results = self._function(*self._inputs)

    def outputs(self):
        results = self._results if isinstance(self._results, tuple | list) else [self._results]
        return [result.to_host() for result in results]
