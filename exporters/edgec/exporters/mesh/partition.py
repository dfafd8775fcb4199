"""A traced function with shardings to the parts that each device of a mesh makes, and their route.

Shardy, which comes with jaxlib, decides in a child process how every value is cut and where the
devices have to speak to each other; here its program is cut at these places.
"""

import difflib
import fnmatch
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.from_jax.refusals import place_of_location
from edgec.exporters.mesh.asking import Shardy, uneven
from edgec.exporters.mesh.cut import Cut, Flow, Part, cut_program
from edgec.exporters.mesh.ways import Callback, Step, Turns, Way, collectives_within
from edgec.exporters.traced import TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, UnsupportedOp, UsageError
from edgec.runtime.mesh.plan import Call, Collective, Mesh, Route, Sharding
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.program import Dialect, Input, Output, Parameter, Role, State

__all__ = ["Sharded", "partition"]


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """One function for a mesh.

    Attributes:
        signature: as its caller sees it: whole arrays.
        parts: of the program, in order.
        way: what the devices do.
        inputs: how each input is cut.
        outputs: how each output is cut.
        weights: how each is cut.
        lifted: the names that weights got which were constants of the program.
        unsummed: of each input, then of each output the axes of the mesh along which devices hold
            what is not summed yet.
        spoken: the bytes that a device gives and gets in collectives, each of which counts once.
        shown: where it was asked for, what each device computes, collectives and all: a portable
            artifact of StableHLO.
    """

    signature: Signature
    parts: tuple[TracedFunction, ...]
    way: Way
    inputs: tuple[Sharding, ...]
    outputs: tuple[Sharding, ...]
    weights: Mapping[str, Sharding]
    lifted: tuple[str, ...] = ()
    unsummed: tuple[tuple[str, ...], ...] = ()
    spoken: int = 0
    shown: bytes = b""

    @cached_property
    def route(self) -> Route:
        """The same as a route.

        Raises:
            UnsupportedOp: devices speak to each other in a loop or branch, or an array goes in or
                out before it is summed.
        """
        if any(self.unsummed):
            raise UnsupportedOp(
                f"an array goes in or out of {self.signature.name} before it is summed (unreduced)",
                hint="sum it in the program: jax.sharding.reshard(array, a sharding without it)",
            )
        steps: list[Call | Collective] = []
        for step in self.way.steps:
            if isinstance(step, Turns):
                first = next(collectives_within(step))
                raise UnsupportedOp(
                    f"{self.signature.name} has a collective ({first.kind}) inside a {step.kind}, "
                    "and devices speak to each other between parts of a program only",
                    where=first.where or step.where or None,
                    hint="give the loop a fixed number of rounds, which are written out (up to "
                    "20,000 operations), or take it out of the loop",
                )
            if isinstance(step, Callback):
                raise UnsupportedOp(
                    f"{self.signature.name} calls Python, which is not there where it runs",
                    hint="leave the callback out",
                )
            steps.append(step)
        return Route(
            signature=self.signature,
            inputs=self.inputs,
            outputs=tuple(zip(self.way.outputs, self.outputs, strict=True)),
            steps=tuple(steps),
        )


def partition(
    traced: TracedFunction,
    mesh: Mesh,
    shardings: Mapping[str, Sequence[Sequence[str]]],
    *,
    constants_as: Sequence[str] = (),
    lift: bool = True,
    show: bool = False,
    shardy: Shardy | None = None,
) -> Sharded:
    """Make the parts of one function that each device of a mesh makes.

    Args:
        traced: with MLIR that jaxlib reads: StableHLO, with Shardy's notes where it has some.
        mesh: the devices.
        shardings: how inputs and weights are cut, where the program itself does not say so: by
            name, or by a pattern of names (`layers.*.up`).
        constants_as: the names of weights that are constants of the program, as `Sharded.lifted`
            has them; without these a sharding of one asks Shardy twice.
        lift: whether large constants of the program become weights.
        show: whether `Sharded.shown` is asked for.
        shardy: who is asked; None for one that is begun and ended here.

    Raises:
        ExportError: Shardy does not take it; UnsupportedOp where one operation is the reason.
        UsageError: shardings that do not fit the inputs and weights.
    """
    if shardy is None:
        with Shardy() as own:
            return partition(
                traced, mesh, shardings, constants_as=constants_as, lift=lift, show=show, shardy=own
            )
    name = traced.signature.name
    _refuse_open(traced)
    leaves = _leaves(traced)
    for number, weight in enumerate(constants_as):
        leaves[weight] = _Leaf(place=len(traced.arguments) + number, text=weight, rank=None)
    if not constants_as and not all(_matching(leaves, each) for each in shardings):
        without = {each: cut for each, cut in shardings.items() if _matching(leaves, each)}
        found = partition(traced, mesh, without, shardy=shardy).lifted
        if found:
            return partition(traced, mesh, shardings, constants_as=found, shardy=shardy)
    wanted = _wanted(traced, mesh, shardings, leaves)
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        shown = Path(folder) / "shown" if show else None
        reply, text, constants = _asked(
            shardy, Path(folder), traced, mesh, wanted, lift=lift, shown=shown
        )
        artifact = shown.read_bytes() if shown else b""
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
    parts, way, outputs = _assembled(traced, roles, made, reply["results"], values)
    inputs = {r.index: place for place, r in enumerate(roles) if isinstance(r, Input)}
    places = {r.index: place for place, r in enumerate(traced.results) if isinstance(r, Output)}
    held, given = reply["unsummed"]
    return Sharded(
        signature=traced.signature,
        parts=parts,
        way=way,
        inputs=tuple(cuts[inputs[index]] for index in sorted(inputs)),
        outputs=outputs,
        weights=weights,
        lifted=tuple(lifted),
        unsummed=(
            *(tuple(held[inputs[index]]) if held else () for index in sorted(inputs)),
            *(tuple(given[places[index]]) if given else () for index in sorted(places)),
        ),
        spoken=_spoken(made),
        shown=artifact,
    )


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


@dataclass(frozen=True, kw_only=True)
class _Leaf:
    """An input or weight: the argument's place, how errors call it, and how many axes it has."""

    place: int
    text: str
    rank: int | None


def _leaves(traced: TracedFunction) -> dict[str, _Leaf]:
    """What can be cut, by name; an input hides a weight of its name."""
    found: dict[str, _Leaf] = {}
    for place, role in enumerate(traced.arguments):
        if isinstance(role, Parameter):
            value = traced.parameters[role.name]
            text = f"{role.name}[{', '.join(map(str, value.shape))}]"
            found.setdefault(role.name, _Leaf(place=place, text=text, rank=value.ndim))
        elif isinstance(role, Input):
            spec = traced.signature.inputs[role.index]
            found[spec.name] = _Leaf(place=place, text=str(spec), rank=len(spec.shape))
    return found


def _matching(leaves: Mapping[str, _Leaf], name: str) -> list[str]:
    if name in leaves:
        return [name]
    return fnmatch.filter(leaves, name) if "*" in name else []


def _wanted(
    traced: TracedFunction,
    mesh: Mesh,
    shardings: Mapping[str, Sequence[Sequence[str]]],
    leaves: Mapping[str, _Leaf],
) -> dict[str, Any]:
    """The shardings by the argument's place.

    Raises:
        UsageError: they do not fit.
    """
    found: dict[str, Any] = {}
    for name, dims in shardings.items():
        matching = _matching(leaves, name)
        if not matching:
            near = difflib.get_close_matches(name, leaves, n=3)
            raise UsageError(
                f"{traced.signature.name} has no input and no weight {name}",
                hint=f"it has {', '.join(near or list(leaves)[:8]) or 'none'}",
            )
        axes = [axis for names in dims for axis in names]
        unknown = [axis for axis in axes if axis not in mesh.axes]
        for leaf in (leaves[each] for each in matching):
            rank = len(dims) if leaf.rank is None else leaf.rank
            if unknown or len(dims) > rank or len(set(axes)) != len(axes):
                example = ",".join([next(iter(mesh.axes)), *["_"] * (rank - 1)])
                raise UsageError(
                    f"{name} cannot be cut so: it is {leaf.text}, and the mesh is {mesh}",
                    hint="name for each of its axes one of the mesh's, each once, or _: "
                    f"--shard={name}={example}",
                )
            found[str(leaf.place)] = [*dims, *[[]] * (rank - len(dims))]
    weights = {r.name: p for p, r in enumerate(traced.arguments) if isinstance(r, Parameter)}
    for name, cut in traced.cuts.items():
        lacking = [axis for names in cut for axis in names if axis not in mesh.axes]
        if lacking:
            raise UsageError(
                f"the model cuts the weight {name} along {lacking[0]}, and the mesh is {mesh}",
                hint=f"--mesh={lacking[0]}=2, or as many devices as there are",
            )
        found.setdefault(str(weights[name]), [list(names) for names in cut])
    return found


def _asked(
    shardy: Shardy,
    folder: Path,
    traced: TracedFunction,
    mesh: Mesh,
    shardings: Mapping[str, Any],
    *,
    lift: bool,
    shown: Path | None,
) -> tuple[Any, str, list[np.ndarray]]:
    """What the child says, the program of one device, and the constants that were in it."""
    name = traced.signature.name
    source, output = folder / "whole.mlir", folder / "local.mlir"
    weights = folder / "weights.npz"
    text = traced.module
    source.write_bytes(text.encode() if isinstance(text, str) else text)
    request = {
        "source": str(source),
        "output": str(output),
        "weights": str(weights),
        "axes": list(mesh.axes.items()),
        "shardings": dict(shardings),
        "lift": lift,
        **({"shown": str(shown)} if shown else {}),
    }
    found = shardy.ask(request, folder, name)
    if "uneven" in found:
        raise uneven(name, str(mesh))
    if "problem" in found:
        raise UnsupportedOp(
            f"Shardy does not partition {name}: {found['problem']}",
            where=place_of_location(found["place"]),
            hint=found.get("hint")
            or "constrain the operand to be whole there (jax.lax.with_sharding_constraint), or use "
            "shard_map",
        )
    constants: list[np.ndarray] = []
    if found["lifted"]:
        with np.load(weights) as archive:
            constants = [archive[f"arr_{i}"] for i in range(int(found["lifted"]))]
    return found, output.read_text(), constants


def _spoken(cut: Cut) -> int:
    """The bytes that a device gives and gets in collectives, those of loops once."""
    total = 0
    for step in cut.steps:
        if isinstance(step, Collective):
            total += sum(_bytes(*cut.types[value]) for value in (step.input, step.output))
        elif isinstance(step, Flow):
            total += sum(map(_spoken, step.cuts))
    return total


def _bytes(shape: tuple[int, ...], element: str) -> int:
    return math.prod(shape) * DType.from_mlir(element).bits // 8


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
    made: Cut,
    results: Sequence[Any],
    weights: Mapping[str, np.ndarray],
) -> tuple[tuple[TracedFunction, ...], Way, tuple[Sharding, ...]]:
    """Parts with names and signatures, the way, and how outputs are cut.

    The way numbers inputs as the signature does.
    """
    whole = traced.signature
    # Values are numbered from the arguments on; a way begins with the inputs alone.
    number = {i: role.index for i, role in enumerate(roles) if isinstance(role, Input)}
    for value in made.types:
        if value not in number and not (value < len(roles)):
            number[value] = len(whole.inputs) + value - len(roles)
    parts: list[TracedFunction] = []
    steps = _steps(made, _Naming(number, whole, roles, weights), parts)
    outputs: list[tuple[int, Sharding]] = [(0, ())] * len(whole.outputs)
    for role, value, cut in zip(traced.results, made.results, results, strict=True):
        if isinstance(role, Output):
            outputs[role.index] = (number[value], _sharding(cut))
    way = Way(
        inputs=len(whole.inputs), outputs=tuple(value for value, _ in outputs), steps=tuple(steps)
    )
    return tuple(parts), way, tuple(cut for _, cut in outputs)


@dataclass(frozen=True)
class _Naming:
    """How a cut's values are numbered in its way, and what the arguments are."""

    number: Mapping[int, int]
    whole: Signature
    roles: Sequence[Role]
    weights: Mapping[str, np.ndarray]


def _steps(made: Cut, naming: _Naming, parts: list[TracedFunction]) -> list[Step]:
    """The steps of a cut; parts are added to those that there are."""
    steps: list[Step] = []
    number, roles = naming.number, naming.roles
    for step in made.steps:
        if isinstance(step, Collective):
            steps.append(_renumbered(step, number))
            continue
        if isinstance(step, Callback):
            inputs = tuple(number[value] for value in step.inputs)
            outputs = tuple(number[value] for value in step.outputs)
            steps.append(replace(step, inputs=inputs, outputs=outputs))
            continue
        if isinstance(step, Flow):
            steps.append(
                Turns(
                    kind=step.kind,
                    inputs=tuple(number[value] for value in step.inputs),
                    outputs=tuple(number[value] for value in step.outputs),
                    ways=tuple(_way_within(cut, naming.whole, parts) for cut in step.cuts),
                    where=step.where,
                )
            )
            continue
        name = f"{naming.whole.name}_part{len(parts)}"
        part, call = _named_part(step, name, roles, made, number, naming.whole)
        used = {r.name for r in part.arguments if isinstance(r, Parameter)}
        taken = {n: naming.weights[n] for n in naming.weights if n in used}
        parts.append(_with_weights(part, taken))
        steps.append(call)
    return steps


def _way_within(made: Cut, whole: Signature, parts: list[TracedFunction]) -> Way:
    """The way of a loop or branch, whose arguments are values like all others."""
    number = {value: value for value in (*range(made.arguments), *made.types)}
    steps = _steps(made, _Naming(number, whole, (), {}), parts)
    return Way(inputs=made.arguments, outputs=made.results, steps=tuple(steps))


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
