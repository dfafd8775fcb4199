"""A program of JAX's for several devices to its parts, and what the devices do with them.

Shardy decides in a child process how values are cut, as it does for `edgec export --mesh`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.exporters.assemble import assemble
from edgec.exporters.mesh.asking import Shardy
from edgec.exporters.mesh.partition import Sharded, partition
from edgec.exporters.traced import TracedFunction
from edgec.plugins.pjrt.arrays import arrays_as_numbers
from edgec.plugins.pjrt.placing import in_places
from edgec.plugins.pjrt.program import DONATED
from edgec.plugins.pjrt.route import functions_of, way_as_numbers
from edgec.plugins.pjrt.shardings import written_sharding
from edgec.plugins.pjrt.spread import Spread
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError
from edgec.runtime.mesh.plan import Mesh
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.program import Dialect, Input, Output, Program, Provenance

__all__ = ["Whole", "read_whole", "spread"]


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A program that is not cut yet.

    Attributes:
        function: as the partitioner takes it.
        plain: its bytes without the user's lines.
        given: MLIR's names of what the results' elements are for JAX.
        donated: for each argument whether its memory is given away (1) or not (0).
        meshes: the axes of each that it names.
        placed: of each argument and then each result, which device has the part of the mesh's
            first, second, ... device; nothing where each has its own.
    """

    function: TracedFunction
    plain: bytes
    name: str
    given: tuple[str, ...]
    donated: tuple[int, ...]
    meshes: tuple[Mapping[str, int], ...]
    placed: tuple[tuple[int, ...], ...]


def read_whole(program: bytes, shardy: Shardy) -> Whole:
    """Read a portable artifact with shardings.

    Raises:
        ExportError: Shardy's process died of it.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as name:
        folder = Path(name)
        (folder / "artifact").write_bytes(program)
        request = {
            "artifact": str(folder / "artifact"),
            "output": str(folder / "whole"),
            "plain": str(folder / "plain"),
            "donating": list(DONATED),
            "axes": [],
        }
        found = shardy.ask(request, folder, "the program")
        code, plain = (folder / "whole").read_bytes(), (folder / "plain").read_bytes()
    inputs = [_spec(f"a{i}", *each) for i, each in enumerate(found["inputs"])]
    outputs = [_spec(f"r{i}", *each) for i, each in enumerate(found["outputs"])]
    return Whole(
        function=TracedFunction(
            module=code,
            dialect=Dialect.STABLEHLO,
            signature=Signature.flat(str(found["name"]), inputs, outputs),
            arguments=tuple(Input(index=i) for i in range(len(inputs))),
            results=tuple(Output(index=i) for i in range(len(outputs))),
        ),
        plain=plain,
        name=str(found["name"]),
        given=tuple(found["given"]),
        donated=tuple(found["donated"]),
        meshes=tuple({str(axis): int(size) for axis, size in each} for each in found["meshes"]),
        placed=tuple(tuple(each) for each in found["placed"]),
    )


def spread(whole: Whole, devices: int, shardy: Shardy) -> tuple[Program | None, Spread]:
    """Cut a program for so many devices: its parts, None where there are none, and the rest.

    Raises:
        ExportError: it has another mesh, or Shardy does not take it.
    """
    meshes = [Mesh(axes=axes) for axes in whole.meshes or ({"devices": devices},)]
    mesh = meshes[0]
    if len(meshes) > 1 or mesh.devices != devices:
        raise ExportError(
            f"{whole.name} is for {devices} devices, and names the meshes "
            f"{' and '.join(map(str, meshes))}",
            hint="give all its shardings one mesh, of all the devices that it runs on",
        )
    made = partition(whole.function, mesh, {}, lift=False, show=True, shardy=shardy)
    program = None
    if made.parts:
        provenance = Provenance(framework="jax", versions={}, source=whole.name)
        program = assemble(made.parts, provenance=provenance)
    inputs = [spec.dtype for spec in made.signature.inputs]
    results = {p.signature.name: [s.dtype for s in p.signature.outputs] for p in made.parts}
    cuts = (*made.inputs, *made.outputs)
    placed = [
        order if any(cut) or unsummed else ()
        for order, cut, unsummed in zip(whole.placed, cuts, made.unsummed, strict=True)
    ]
    way = in_places(made.way, placed)
    return program, Spread(
        functions=functions_of(way),
        route=way_as_numbers(way, devices, inputs, results),
        arrays=arrays_as_numbers(_arrays(made, mesh), whole.given),
        shardings=tuple(
            written_sharding(cut, mesh, unsummed, order)
            for cut, unsummed, order in zip(cuts, made.unsummed, placed, strict=True)
        ),
        spoken=made.spoken,
        shown=made.shown,
    )


def _arrays(made: Sharded, mesh: Mesh) -> list[tuple[DType, tuple[int, ...]]]:
    """The type and sizes of each argument, and then of each result, on one device."""
    found = []
    specs = (*made.signature.inputs, *made.signature.outputs)
    for spec, cut in zip(specs, (*made.inputs, *made.outputs), strict=True):
        sizes = [int(str(size)) for size in spec.shape]
        for axis, names in enumerate(cut):
            for name in names:
                sizes[axis] //= mesh.axes[name]
        found.append((spec.dtype, tuple(sizes)))
    return found


def _spec(name: str, shape: Sequence[int], element: str) -> TensorSpec:
    return TensorSpec(name=name, shape=tuple(shape), dtype=DType.from_mlir(element))
