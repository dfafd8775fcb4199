"""A bundle and a mesh to a Program of parts: how `export` makes a program for several devices."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.exporters.assemble import assemble, golden_of
from edgec.exporters.bundle import Bundle
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import Framework
from edgec.exporters.mesh.partition import partition
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import UsageError
from edgec.runtime.mesh.plan import Mesh, Plan, Sharding
from edgec.toolchain.program import Program, Provenance

__all__ = ["Meshed", "ask_for_devices", "assemble_for_mesh", "trace_for_mesh"]


@dataclass(frozen=True, kw_only=True)
class Meshed:
    """What is asked for: a mesh, and how inputs are cut where the model does not say so."""

    mesh: Mesh
    shardings: Mapping[str, Sharding]

    @classmethod
    def parse(cls, mesh: Mesh | str, shard: Sequence[str]) -> "Meshed":
        """Read `x=2,y=4`, and for inputs `images=x,_` or `images=x+y`.

        Raises:
            UsageError: the texts are none of these.
        """
        shardings: dict[str, Sharding] = {}
        for text in shard:
            found = re.fullmatch(r"\s*([^=\s]+)\s*=\s*([\w+,\s]*)", text)
            if found is None:
                raise UsageError(
                    f"--shard={text} does not say how an input is cut",
                    hint="name an axis of the mesh for each of the input's, or _: --shard=x=data,_",
                )
            shardings[found[1]] = tuple(
                () if part.strip() in ("", "_") else tuple(part.strip().split("+"))
                for part in found[2].split(",")
            )
        return cls(mesh=mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh), shardings=shardings)


def ask_for_devices(mesh: Mesh) -> None:
    """Let JAX make as many CPU devices as the mesh has, if it has not begun."""
    try:
        import jax
    except ImportError:  # the exporter says so, with the extra to install
        return
    try:
        jax.config.update("jax_num_cpu_devices", mesh.devices)
    except RuntimeError:  # it has begun; what it has is looked at later
        return


def trace_for_mesh(
    bundle: Bundle, framework: Framework, meshed: Meshed, dynamic: Dynamic
) -> tuple[TracedFunction, ...]:
    """Trace whole functions: JAX's with the shardings that they themselves name.

    Raises:
        As the framework's own `trace`.
    """
    if framework.name != "jax" or not _is_empty(dynamic):
        return framework.tracer().trace(bundle, dynamic=dynamic)
    from edgec.exporters.from_jax.export import trace_for_mesh as traced_by_jax

    return traced_by_jax(bundle, mesh=meshed.mesh)


def _is_empty(dynamic: Dynamic) -> bool:
    return dynamic == Dynamic.parse(None)


def assemble_for_mesh(
    functions: Sequence[TracedFunction],
    meshed: Meshed,
    *,
    provenance: Provenance,
    external_weights: Path | None,
    folder: Path | None,
    constants_as: Sequence[str] = (),
) -> Program:
    """Partition functions for a mesh, and make one program of their parts.

    `constants_as` is that of `partition`.

    Raises:
        ExportError: Shardy does not take a function.
        UsageError: there are weights and no file for them.
    """
    sharded = [
        partition(function, meshed.mesh, meshed.shardings, constants_as=constants_as)
        for function in functions
    ]
    weights = {name: cut for one in sharded for name, cut in one.weights.items()}
    for one in sharded:
        for name, cut in one.weights.items():
            if weights[name] != cut:
                raise UsageError(
                    f"the functions cut the weight {name} in two ways: {cut} and {weights[name]}",
                    hint="give its sharding in the model, or export them as two programs",
                )
    if weights and external_weights is None:
        raise UsageError(
            "a program for several devices keeps its weights outside, a part for each",
            hint="name a file: external_weights= (--external-weights=NAME.safetensors)",
        )
    program = assemble(
        [part for one in sharded for part in one.parts],
        provenance=provenance,
        external_weights=external_weights,
        folder=folder,
        mesh=Plan(
            mesh=meshed.mesh,
            routes={one.route.signature.name: one.route for one in sharded},
            weights=weights,
        ),
    )
    return replace(program, golden=golden_of(functions))
