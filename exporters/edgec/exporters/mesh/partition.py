"""A traced function with shardings to the parts that each device of a mesh makes, and their route.

Shardy, which comes with jaxlib, decides in a child process how every value is cut and where the
devices have to speak to each other; here its program is cut at these places.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.from_jax.refusals import place_of_location
from edgec.exporters.mesh.cut import Cut, Part, cut_program
from edgec.exporters.traced import TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, UnsupportedOp, UsageError
from edgec.runtime.mesh.plan import Call, Collective, Mesh, Route, Sharding
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Role, State

__all__ = ["Sharded", "partition"]

_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """One function for a mesh: its parts, in order, its route, and how its weights are cut."""

    parts: tuple[TracedFunction, ...]
    route: Route
    weights: Mapping[str, Sharding]


def partition(
    traced: TracedFunction, mesh: Mesh, shardings: Mapping[str, Sequence[Sequence[str]]]
) -> Sharded:
    """Make the parts of one function that each device of a mesh makes.

    Args:
        traced: with MLIR that jaxlib reads: StableHLO, with Shardy's notes where it has some.
        mesh: the devices.
        shardings: how inputs are cut, by name, where the program itself does not say so.

    Raises:
        ExportError: Shardy does not take it; UnsupportedOp where one operation is the reason.
        UsageError: shardings that do not fit the inputs.
    """
    name = traced.signature.name
    _refuse_open(traced)
    wanted = _wanted(traced, mesh, shardings)
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        reply, text, constants = _asked(Path(folder), traced, mesh, wanted)
    known = {n: v for n, v in traced.constants.items() if n not in traced.parameters}
    lifted = _named(constants, known, set(traced.parameters))
    roles = (*traced.arguments, *(Parameter(name=n) for n in lifted))
    cuts = tuple(_sharding(cut) for cut in reply["arguments"])
    weights = {
        role.name: cut for role, cut in zip(roles, cuts, strict=True) if isinstance(role, Parameter)
    }
    is_weight = frozenset(i for i, role in enumerate(roles) if isinstance(role, Parameter))
    made = cut_program(text, name, weights=is_weight)
    values = {**traced.parameters, **lifted}
    parts, route = _assembled(traced, roles, cuts, made, reply["results"], values)
    return Sharded(parts=parts, route=route, weights=weights)


def _refuse_open(traced: TracedFunction) -> None:
    """Refuse what a mesh does not do yet, by name.

    Raises:
        ExportError: there is some.
    """
    name = traced.signature.name
    if traced.dialect is not Dialect.STABLEHLO:
        raise ExportError(
            f"{name} comes in the {traced.dialect.value} dialect, and Shardy takes StableHLO",
            hint="export it without --mesh, or write it in JAX",
        )
    if any(isinstance(role, State) for role in (*traced.arguments, *traced.results)):
        raise ExportError(
            f"{name} keeps state between calls, which programs for a mesh do not",
            hint="take the state as an argument and return it, or leave out --mesh",
        )
    for spec in (*traced.signature.inputs, *traced.signature.outputs):
        if not spec.is_static:
            raise ExportError(
                f"{name} takes {spec} of any size, and a mesh cuts arrays of fixed sizes",
                hint="leave out --dynamic, or --mesh",
            )


def _wanted(
    traced: TracedFunction, mesh: Mesh, shardings: Mapping[str, Sequence[Sequence[str]]]
) -> dict[str, Any]:
    """The shardings by the argument's place.

    Raises:
        UsageError: they do not fit.
    """
    found: dict[str, Any] = {}
    specs = traced.signature.inputs
    places = {
        specs[role.index].name: (place, specs[role.index])
        for place, role in enumerate(traced.arguments)
        if isinstance(role, Input)
    }
    for name, dims in shardings.items():
        if name not in places:
            raise UsageError(
                f"{traced.signature.name} has no input {name}",
                hint=f"it has {', '.join(places) or 'none'}",
            )
        place, spec = places[name]
        axes = [axis for names in dims for axis in names]
        unknown = [axis for axis in axes if axis not in mesh.axes]
        if unknown or len(dims) > len(spec.shape) or len(set(axes)) != len(axes):
            example = ",".join([next(iter(mesh.axes)), *["_"] * (len(spec.shape) - 1)])
            raise UsageError(
                f"{name} cannot be cut so: it is {spec}, and the mesh is {mesh}",
                hint="name for each of its axes one of the mesh's, each once, or _: "
                f"--shard={name}={example}",
            )
        found[str(place)] = [*dims, *[[]] * (len(spec.shape) - len(dims))]
    weights = {r.name: p for p, r in enumerate(traced.arguments) if isinstance(r, Parameter)}
    for name, cut in traced.cuts.items():
        lacking = [axis for names in cut for axis in names if axis not in mesh.axes]
        if lacking:
            raise UsageError(
                f"the model cuts the weight {name} along {lacking[0]}, and the mesh is {mesh}",
                hint=f"--mesh={lacking[0]}=2, or as many devices as there are",
            )
        found[str(weights[name])] = [list(names) for names in cut]
    return found


def _asked(
    folder: Path, traced: TracedFunction, mesh: Mesh, shardings: Mapping[str, Any]
) -> tuple[Any, str, list[np.ndarray]]:
    """What the child says, the program of one device, and the constants that were in it."""
    name = traced.signature.name
    source, output = folder / "whole.mlir", folder / "local.mlir"
    request, reply = folder / "request.json", folder / "reply.json"
    weights = folder / "weights.npz"
    text = traced.module
    source.write_bytes(text.encode() if isinstance(text, str) else text)
    request.write_text(
        json.dumps(
            {
                "source": str(source),
                "output": str(output),
                "weights": str(weights),
                "axes": list(mesh.axes.items()),
                "shardings": dict(shardings),
            }
        )
    )
    command = [sys.executable, "-m", "edgec.exporters.mesh.shardy", str(request), str(reply)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ExportError(
            f"Shardy took longer than {_TIMEOUT:.0f} seconds for {name}",
            hint="constrain more of its values with jax.lax.with_sharding_constraint",
        ) from None
    if not reply.exists():
        if b"non-divisible" in done.stderr:
            raise ExportError(
                f"an axis of an array in {name} cannot be cut into equal parts by the mesh {mesh}",
                hint="choose sizes that the mesh divides, or leave that axis whole",
            )
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise ExportError(
            f"Shardy's partitioner ended at {name} ({said[0] or done.returncode})",
            hint="constrain more of its values with jax.lax.with_sharding_constraint",
        )
    found = json.loads(reply.read_text())
    if "problem" in found:
        raise UnsupportedOp(
            f"Shardy does not partition {name}: {found['problem']}",
            where=place_of_location(found["place"]),
            hint=found.get("hint")
            or "constrain the operand to be whole there (jax.lax.with_sharding_constraint), or use "
            "shard_map",
        )
    with np.load(weights) as archive:
        constants = [archive[f"arr_{i}"] for i in range(int(found["lifted"]))]
    return found, output.read_text(), constants


def _named(
    values: Sequence[np.ndarray], known: Mapping[str, np.ndarray], taken: set[str]
) -> dict[str, np.ndarray]:
    """Names for weights that were constants: the user's own where they are known."""
    found: dict[str, np.ndarray] = {}
    for value in values:
        name = next(
            (n for n, v in known.items() if _same(v, value) and n not in found and n not in taken),
            None,
        )
        number = 0
        while name is None or name in found or name in taken:
            name, number = f"w{number}", number + 1
        found[name] = value
    return found


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other)


def _sharding(value: Any) -> Sharding:
    return tuple(tuple(str(name) for name in names) for names in value)


def _assembled(
    traced: TracedFunction,
    roles: Sequence[Role],
    cuts: Sequence[Sharding],
    made: Cut,
    results: Sequence[Any],
    weights: Mapping[str, np.ndarray],
) -> tuple[tuple[TracedFunction, ...], Route]:
    """Parts with names and signatures; the route numbers inputs as the signature does."""
    whole = traced.signature
    # Values are numbered from the arguments on; a route begins with the inputs alone.
    number = {i: role.index for i, role in enumerate(roles) if isinstance(role, Input)}
    for value in made.types:
        if value not in number and not (value < len(roles)):
            number[value] = len(whole.inputs) + value - len(roles)
    parts: list[TracedFunction] = []
    steps: list[Call | Collective] = []
    for step in made.steps:
        if isinstance(step, Collective):
            steps.append(_renumbered(step, number))
            continue
        part, call = _named_part(step, f"{whole.name}_part{len(parts)}", roles, made, number, whole)
        used = {r.name for r in part.arguments if isinstance(r, Parameter)}
        parts.append(_with_weights(part, {n: weights[n] for n in weights if n in used}))
        steps.append(call)
    inputs = [
        cut
        for _, cut in sorted(
            (role.index, cut)
            for role, cut in zip(roles, cuts, strict=True)
            if isinstance(role, Input)
        )
    ]
    outputs: list[tuple[int, Sharding]] = [(0, ())] * len(whole.outputs)
    for role, value, cut in zip(traced.results, made.results, results, strict=True):
        if isinstance(role, Output):
            outputs[role.index] = (number[value], _sharding(cut))
    route = Route(signature=whole, inputs=tuple(inputs), outputs=tuple(outputs), steps=tuple(steps))
    return tuple(parts), route


def _renumbered(step: Collective, number: Mapping[int, int]) -> Collective:
    return Collective(
        kind=step.kind,
        input=number[step.input],
        output=number[step.output],
        groups=step.groups,
        operation=step.operation,
        axis=step.axis,
        onto=step.onto,
        where=step.where,
    )


def _named_part(
    part: Part,
    name: str,
    roles: Sequence[Role],
    made: Cut,
    number: Mapping[int, int],
    whole: Signature,
) -> tuple[TracedFunction, Call]:
    """A part as a function of its own, and the call that makes it."""
    arguments: list[Role] = []
    inputs: list[TensorSpec] = []
    given: list[int] = []
    for value in part.inputs:
        role = roles[value] if value < len(roles) else None
        if isinstance(role, Parameter):
            arguments.append(role)
            continue
        arguments.append(Input(index=len(inputs)))
        label = whole.inputs[role.index].name if isinstance(role, Input) else f"v{number[value]}"
        inputs.append(_spec(label, made, value))
        given.append(number[value])
    if part.numbered:
        arguments.append(Input(index=len(inputs)))
        inputs.append(TensorSpec(name="device_number", shape=(), dtype=DType.U32))
    outputs = [_spec(f"v{number[value]}", made, value) for value in part.outputs]
    function = TracedFunction(
        module=part.module,
        dialect=Dialect.STABLEHLO,
        signature=Signature.flat(name, inputs, outputs),
        arguments=tuple(arguments),
        results=tuple(Output(index=i) for i in range(len(outputs))),
    )
    call = Call(
        function=name,
        inputs=tuple(given),
        outputs=tuple(number[value] for value in part.outputs),
        numbered=part.numbered,
    )
    return function, call


def _with_weights(part: TracedFunction, weights: Mapping[str, np.ndarray]) -> TracedFunction:
    return TracedFunction(
        module=part.module,
        dialect=part.dialect,
        signature=part.signature,
        arguments=part.arguments,
        results=part.results,
        parameters=weights,
    )


def _spec(name: str, made: Cut, value: int) -> TensorSpec:
    shape, element = made.types[value]
    return TensorSpec(name=name, shape=shape, dtype=DType.from_mlir(element))
