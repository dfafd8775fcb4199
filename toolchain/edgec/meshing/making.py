"""A Program of parts, and a target, to a folder: its module, each device's weights, and the plan.

Devices whose weights are alike share a file. The folder gets its name once the program of all
devices has given the golden answers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.packaging.folder import new_folder, refuse_occupied
from edgec.runtime import Module, mark_checked
from edgec.runtime.errors import UsageError
from edgec.runtime.files import write_atomically
from edgec.runtime.golden import Golden
from edgec.runtime.mesh.folder import MANIFEST, MeshFolder
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.mesh.shards import cut
from edgec.targets import Backend, Target, find
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.toolchain.check import check_mesh, unchecked
from edgec.toolchain.compiling.report import Compiled
from edgec.toolchain.joined_parts import join_parts
from edgec.toolchain.program import Program, ProgramInfo
from edgec.toolchain.weights_file import read_weights, write_weights

__all__ = ["GOLDEN", "CompiledMesh", "compile_mesh", "golden_of"]

GOLDEN = "golden.npz"
"""The golden calls of the whole program, in the folder."""
_MODULE = "parts.vmfb"
_APART = "the GPUs' hosts call the parts one by one, and carry what is said between: {}"


@dataclass(frozen=True, kw_only=True)
class CompiledMesh:
    """A folder that was made: what is in it, how its module was compiled, and its proof.

    Attributes:
        folder: as it can be loaded.
        compiled: the module of the parts, with its report.
        check: `checked on …` or `unchecked: …`.
        error: the largest root mean square of an output's differences, as a part of its spread.
        notes: what the check has to say, and why the parts are called one by one on GPUs.
    """

    folder: MeshFolder
    compiled: Compiled
    check: str
    error: float
    notes: tuple[str, ...]


def compile_mesh(
    program: Program,
    target: str | Target,
    destination: Path,
    options: CompileOptions,
) -> CompiledMesh:
    """Compile a program for several devices.

    Args:
        program: one that was exported for a mesh.
        target: of every device.
        destination: the folder; one that holds such a program already is replaced.
        options: how to compile; `output` is not looked at.

    Raises:
        UsageError: the program is for one device.
        FileError: the folder holds other things.
        WrongAnswer: the devices together do not give the golden answers; nothing is written.
        And what `edgec.toolchain.compile` raises.
    """
    plan = program.info.mesh
    if plan is None:
        raise UsageError(
            f"{program.name} is a program for one device",
            hint="export it with --mesh=x=2, or compile it without",
        )
    chosen = find(target) if isinstance(target, str) else target
    refuse_occupied(destination, replace=True, marker=MANIFEST)
    with new_folder(destination, replace=True, marker=MANIFEST) as folder:
        files = _write_weights(program, plan, folder)
        joined, apart = join_parts(program) if chosen.backend is Backend.CUDA else (program, "")
        own = replace(
            joined,
            info=_with_weights(joined.info, files[0]),
            golden=None,
            path=folder / f"{program.name}.mlirbc",
        )
        made = compile_with_report(
            own, chosen, replace(options, output=folder / _MODULE, check=False)
        )
        _write_manifest(folder, plan, chosen, files)
        golden = program.golden
        outcome = unchecked("no golden answers" if options.check else "not asked for")
        if golden is not None and golden.calls:
            golden.save(folder / GOLDEN)
            if options.check:
                outcome = check_mesh(
                    folder,
                    golden,
                    chosen,
                    tolerance=options.tolerance or made.report.tolerance,
                    timeout=options.check_timeout,
                )
        mark_checked(folder / _MODULE, outcome.text)
        _write_manifest(folder, plan, chosen, files)
    spoken = any(route.collectives for route in plan.routes.values())
    return CompiledMesh(
        folder=MeshFolder(destination),
        compiled=made,
        check=outcome.text,
        error=outcome.error,
        notes=tuple(filter(None, (outcome.note, _APART.format(apart) if apart and spoken else ""))),
    )


def _write_manifest(
    folder: Path, plan: Plan, target: Target, files: tuple[str | None, ...]
) -> None:
    value = {
        "plan": plan.to_json(),
        "target": target.name,
        "module": _MODULE,
        "digest": Module.read(folder / _MODULE).digest,
        "weights": list(files),
    }
    with write_atomically(folder / MANIFEST) as stream:
        stream.write(json.dumps(value, indent=1).encode())


def _write_weights(program: Program, plan: Plan, folder: Path) -> tuple[str | None, ...]:
    """Each device's part of the weights; the files' names by device."""
    weights, path = program.info.weights, program.weights_path
    count = plan.mesh.devices
    if weights is None or path is None:
        return (None,) * count
    whole = read_weights(path)
    parts = {name: _parts(whole[name], name, plan) for name in weights.names}
    names: list[str | None] = []
    known: dict[tuple[Any, ...], str] = {}
    for device in range(count):
        place = plan.mesh.place(device)
        axes = {axis for cuts in plan.weights.values() for dim in cuts for axis in dim}
        key = tuple(place[axis] for axis in plan.mesh.axes if axis in axes)
        if key not in known:
            known[key] = f"device{device}.safetensors"
            own: Mapping[str, np.ndarray] = {name: parts[name][device] for name in weights.names}
            write_weights(own, folder / known[key])
        names.append(known[key])
    return tuple(names)


def _parts(value: np.ndarray, name: str, plan: Plan) -> list[np.ndarray]:
    """A weight's part on each device; what nobody has cut is whole everywhere."""
    sharding = plan.weights.get(name, ((),) * value.ndim)
    return [np.ascontiguousarray(part) for part in cut(value, sharding, plan.mesh)]


def _with_weights(info: ProgramInfo, file: str | None) -> ProgramInfo:
    if info.weights is None or file is None:
        return info
    return replace(info, weights=replace(info.weights, file=file))


def golden_of(folder: Path) -> Golden | None:
    """The golden calls in a folder; None where there are none."""
    path = folder / GOLDEN
    return Golden.load(path) if path.is_file() else None
