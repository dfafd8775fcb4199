"""What a call of a partitioned program takes of each device: work, and words with the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.mesh.partition import Sharded
from edgec.exporters.mesh.uncut import Shardings, Uncut
from edgec.runtime.errors import EdgecError
from edgec.runtime.mesh.plan import Call, Collective
from edgec.runtime.signature import TensorSpec

__all__ = ["Said", "Spent", "all_spent"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """A collective: its kind, who speaks to whom, and the bytes that each device gives."""

    kind: str
    groups: tuple[tuple[int, ...], ...]
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a call takes of each device.

    Attributes:
        work: floating-point operations, and bytes that they move, together.
        parts: how many functions are called.
        said: what the devices say to each other.
    """

    work: float
    parts: int
    said: tuple[Said, ...]


def all_spent(uncut: Uncut, ways: Sequence[Shardings]) -> list[Spent | EdgecError]:
    """For each way to cut a model what a call takes of a device, or why nobody can go it.

    Nothing is compiled.
    """
    return [
        each if isinstance(each, EdgecError) else _spent(uncut, each)
        for each in uncut.all_cut(ways)
    ]


def _spent(uncut: Uncut, sharded: Sharded) -> Spent:
    kinds = dict(enumerate(_local(uncut, sharded)))
    said: list[Said] = []
    parts = {part.signature.name: part for part in sharded.parts}
    for step in sharded.route.steps:
        if isinstance(step, Call):
            outputs = parts[step.function].signature.outputs
            kinds.update(zip(step.outputs, map(_bytes, outputs), strict=True))
        else:
            size = kinds[step.input]
            said.append(Said(kind=step.kind, groups=step.groups, bytes=size))
            kinds[step.output] = _after(step, size)
    return Spent(
        work=sum(_work(part.module) for part in sharded.parts),
        parts=len(sharded.parts),
        said=tuple(said),
    )


def _local(uncut: Uncut, sharded: Sharded) -> list[int]:
    """The bytes of each input's part on a device."""
    return [
        _bytes(spec) // math.prod(uncut.mesh.axes[axis] for dim in cut for axis in dim)
        for spec, cut in zip(uncut.function.signature.inputs, sharded.route.inputs, strict=True)
    ]


def _after(step: Collective, size: int) -> int:
    """The bytes of what a device gets of a collective."""
    of = len(step.groups[0]) if step.groups else 1
    return {"all_gather": size * of, "reduce_scatter": size // max(of, 1)}.get(step.kind, size)


def _bytes(spec: TensorSpec) -> int:
    sizes = (size for size in spec.shape if isinstance(size, int))
    return math.prod(sizes) * spec.dtype.bits // 8


def _work(module: bytes | str) -> float:
    from iree.compiler import ir

    from edgec.toolchain.ir.work import census
    from edgec.toolchain.stablehlo import parse_stablehlo

    with ir.Context() as context:
        parsed: Any = parse_stablehlo(module, context)
        return sum(each.work.flops + each.work.bytes for each in census(parsed))
