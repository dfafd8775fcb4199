"""What the devices of a mesh do in which order: parts of the program, and collectives between.

A plan is JSON. Values have numbers: a call's inputs come first, then what each step makes. Every
device goes through the same steps, with a part (*shard*) of the values of its own.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.runtime.errors import ProgramError, UsageError
from edgec.runtime.signature import Signature

__all__ = ["CALLBACK", "COLLECTIVES", "Call", "Collective", "Mesh", "Plan", "Route", "Sharding"]

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
    "collective_broadcast",
)
"""What devices say to each other, as StableHLO calls it."""
CALLBACK = "edgec.callback"
"""The custom call of the host's own code, where a program is developed. Its `backend_config` says
which, and whether every device calls it (1), or the first for all (0)."""

_SCHEMA = 1

Sharding = tuple[tuple[str, ...], ...]
"""For each of an array's axes, the axes of the mesh that it is cut along, outermost first."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """Devices in a grid, numbered row by row: the name and size of each of its axes, in order."""

    axes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.axes or any(size < 1 for size in self.axes.values()):
            raise UsageError(f"{dict(self.axes)} is no mesh", hint="write --mesh=x=2,y=4")

    @classmethod
    def parse(cls, text: str) -> "Mesh":
        """Read `x=2` or `data=2,model=4`.

        Raises:
            UsageError: the text is none of these.
        """
        axes: dict[str, int] = {}
        for part in text.split(","):
            found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*", part)
            if found is None or found[1] in axes or int(found[2]) < 1:
                raise UsageError(
                    f"{text!r} is no mesh of devices",
                    hint="name each axis once with how many devices it has: --mesh=x=2,y=4",
                )
            axes[found[1]] = int(found[2])
        return cls(axes=axes)

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return math.prod(self.axes.values())

    def place(self, device: int) -> dict[str, int]:
        """Where a device stands along each axis."""
        found: dict[str, int] = {}
        for name, size in reversed(list(self.axes.items())):
            device, found[name] = divmod(device, size)
        return found

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes.items())


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function of the module, called on every device.

    `numbered` says that its last input is the device's number, a u32 without axes.
    """

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    numbered: bool = False


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One array of each device to one array of each device.

    Attributes:
        kind: one of `COLLECTIVES`.
        input: the value that each device gives.
        output: the value that each device gets.
        groups: the devices that speak to each other; of a permutation, pairs of from and to.
        operation: of a reduction: add, multiply, maximum, minimum, and, or, xor.
        axis: the array's axis that is gathered, scattered, or cut in pieces (all_to_all).
        onto: the axis that pieces are put together along (all_to_all).
        where: the user's line.
    """

    kind: str
    input: int
    output: int
    groups: tuple[tuple[int, ...], ...]
    operation: str = ""
    axis: int = 0
    onto: int = 0
    where: str = ""


Step = Call | Collective


@dataclass(frozen=True, kw_only=True)
class Route:
    """One function of the whole program, as what the devices do.

    Attributes:
        signature: the function as its caller sees it: whole arrays.
        inputs: how each input is cut.
        outputs: the value that is each output, and how it is cut.
        steps: in the order in which they are made.
    """

    signature: Signature
    inputs: tuple[Sharding, ...]
    outputs: tuple[tuple[int, Sharding], ...]
    steps: tuple[Step, ...]

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """What devices say to each other in a call."""
        return tuple(step for step in self.steps if isinstance(step, Collective))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A program for a mesh: its functions' routes by name, and how each weight is cut."""

    mesh: Mesh
    routes: Mapping[str, Route]
    weights: Mapping[str, Sharding] = field(default_factory=dict)

    @property
    def cuts(self) -> bool:
        """Whether any input, output or weight is cut, or devices speak to each other."""
        return any(
            route.collectives or any(map(any, (*route.inputs, *(cut for _, cut in route.outputs))))
            for route in self.routes.values()
        ) or any(map(any, self.weights.values()))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "schema": _SCHEMA,
            "mesh": dict(self.mesh.axes),
            "routes": [_route_to_json(route) for route in self.routes.values()],
            "weights": {name: _plain(cut) for name, cut in self.weights.items()},
        }

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """The inverse of `to_json`.

        Raises:
            ProgramError: it is damaged, or of another schema.
        """
        try:
            if value["schema"] != _SCHEMA:
                raise ProgramError(
                    f"the plan for several devices has schema {value['schema']}, this edgec "
                    f"reads {_SCHEMA}",
                    hint="make it again with this version of edgec",
                )
            routes = [_route_from_json(route) for route in value["routes"]]
            plan = cls(
                mesh=Mesh(axes={str(n): int(s) for n, s in value["mesh"].items()}),
                routes={route.signature.name: route for route in routes},
                weights={name: _sharding(cut) for name, cut in value["weights"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProgramError(
                f"damaged plan for several devices: {error!r}", hint="make it again"
            ) from error
        for route in plan.routes.values():
            _check(route, plan.mesh)
        return plan


def _check(route: Route, mesh: Mesh) -> None:
    """Refuse steps that use what nobody made yet, or devices that the mesh has not.

    Raises:
        ProgramError: there are some.
    """
    known = set(range(len(route.inputs)))
    for step in route.steps:
        used = step.inputs if isinstance(step, Call) else (step.input,)
        if not set(used) <= known:
            raise ProgramError(f"damaged plan: a step of {route.signature.name} comes too early")
        known |= set(step.outputs) if isinstance(step, Call) else {step.output}
        if isinstance(step, Call):
            continue
        if step.kind not in COLLECTIVES:
            raise ProgramError(f"damaged plan: there is no collective {step.kind}")
        if any(not 0 <= device < mesh.devices for group in step.groups for device in group):
            raise ProgramError(f"damaged plan: {step.kind} names devices outside of {mesh}")
    if not {value for value, _ in route.outputs} <= known:
        raise ProgramError(f"damaged plan: {route.signature.name} gives what nobody makes")


def _plain(cut: Sharding) -> list[list[str]]:
    return [list(names) for names in cut]


def _sharding(value: Any) -> Sharding:
    return tuple(tuple(str(name) for name in names) for names in value)


def _route_to_json(route: Route) -> dict[str, Any]:
    return {
        "signature": route.signature.to_json(),
        "inputs": [_plain(cut) for cut in route.inputs],
        "outputs": [[value, _plain(cut)] for value, cut in route.outputs],
        "steps": [_step_to_json(step) for step in route.steps],
    }


def _step_to_json(step: Step) -> dict[str, Any]:
    if isinstance(step, Call):
        return {
            "call": step.function,
            "inputs": list(step.inputs),
            "outputs": list(step.outputs),
            **({"numbered": True} if step.numbered else {}),
        }
    return {
        "collective": step.kind,
        "input": step.input,
        "output": step.output,
        "groups": [list(group) for group in step.groups],
        "operation": step.operation,
        "axis": step.axis,
        "onto": step.onto,
        "where": step.where,
    }


def _route_from_json(value: Mapping[str, Any]) -> Route:
    return Route(
        signature=Signature.from_json(value["signature"]),
        inputs=tuple(_sharding(cut) for cut in value["inputs"]),
        outputs=tuple((int(number), _sharding(cut)) for number, cut in value["outputs"]),
        steps=tuple(_step_from_json(step) for step in value["steps"]),
    )


def _step_from_json(value: Mapping[str, Any]) -> Step:
    if "call" in value:
        return Call(
            function=str(value["call"]),
            inputs=tuple(map(int, value["inputs"])),
            outputs=tuple(map(int, value["outputs"])),
            numbered=bool(value.get("numbered", False)),
        )
    return Collective(
        kind=str(value["collective"]),
        input=int(value["input"]),
        output=int(value["output"]),
        groups=tuple(tuple(map(int, group)) for group in value["groups"]),
        operation=str(value["operation"]),
        axis=int(value["axis"]),
        onto=int(value["onto"]),
        where=str(value["where"]),
    )
