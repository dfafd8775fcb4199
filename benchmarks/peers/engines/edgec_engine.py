"""edgec: exported from JAX, compiled for this CPU, run by edgec.runtime."""

from pathlib import Path

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import jax_function, timed
from benchmarks.peers.models.model import Model

__all__ = ["Edgec"]


class Edgec(Engine):
    """Compiled anew at every build, since what it measures is edgec as it is now."""

    name = "edgec"
    title = "edgec"
    packages = ("edgec", "iree-base-compiler", "iree-base-runtime", "jax")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        from edgec.exporters import export
        from edgec.toolchain import CompileOptions, Program, compile

        program: list[Program] = []
        export_time = timed(
            lambda: program.append(export(jax_function(model), tuple(model.example())))
        )
        options = CompileOptions(output=folder / "edgec.vmfb", cache=False, check=False)
        compile_time = timed(lambda: compile(program[0], "cpu:host", options))
        return {"export": export_time, "compile": compile_time}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        import edgec.runtime as er

        module = er.load(folder / "edgec.vmfb", device=f"local-task?threads={threads}")
        self._function = module.main
        self._inputs = [module.device.put(array) for array in model.example()]

    def run(self) -> None:
        self._results = self._function.call_flat(self._inputs)

    def outputs(self):
        return [result.numpy() for result in self._results]
