"""A program of parts to the seconds that a call of its devices takes together."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgec.meshing import compile_mesh
from edgec.runtime import load
from edgec.runtime.errors import UsageError
from edgec.runtime.mesh.running import load_mesh
from edgec.targets import Target
from edgec.toolchain import CompileOptions
from edgec.toolchain.program import Program

__all__ = ["seconds_alone", "seconds_of"]

_SECONDS = 0.3
"""How long a program is timed, at least."""
_CALLS = 5


def seconds_of(
    program: Program, target: Target, devices: Sequence[str], folder: Path, options: CompileOptions
) -> float:
    """Compile and prove a program, and time it with its arrays on the devices.

    Args:
        program: with a plan for a mesh, and a golden call.
        target: of every device.
        devices: a URI each; none for what the target names.
        folder: where it goes.
        options: how to compile.

    Returns:
        The least seconds of some calls.

    Raises:
        As `edgec.meshing.compile_mesh` and a call.
    """
    compile_mesh(program, target, folder, options)
    if program.golden is None:
        raise UsageError("what is timed needs example inputs", hint="give it some: --inputs=@x.npz")
    with load_mesh(folder, devices) as loaded:
        name = next(iter(loaded.signatures))
        function = loaded[name]
        shards = loaded.put(loaded.folder.plan.routes[name], program.golden.calls[0].inputs)
        return _least(lambda: function.on_devices(shards))


def seconds_alone(program: Program, device: str | None, folder: Path) -> float | None:
    """The same of one device by itself, which has all of the mesh's memory and cores.

    None where the program has several parts: then the model itself says how it is cut.
    """
    if len(program.info.functions) != 1 or program.golden is None:
        return None
    weights = next((file for file in folder.glob("device*.safetensors")), None)
    (function,) = program.info.functions
    with load(folder / "parts.vmfb", device=device, weights=weights) as loaded:
        call = loaded[function.signature.name]
        if len(function.signature.inputs) != len(program.golden.calls[0].inputs):
            return None
        given = [loaded.device.put(array) for array in program.golden.calls[0].inputs]
        return _least(lambda: call.call_flat(given))


def _least(call: Callable[[], object]) -> float:
    taken: list[float] = []
    call()
    while sum(taken) < _SECONDS or len(taken) < _CALLS:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
