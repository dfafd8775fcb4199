"""Kernels whose body is built with MLIR's own builders, on memory that has a shape.

What `Writer` frames as text is parsed once, and the body is put into it. A module imported only by
a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, scf

from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Sums", "build", "index", "indices_of", "loop", "number", "parts", "share"]

_IN_A_ROW = 128
"""Steps that are added to one sum before it is added to the whole."""


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What is carried from step to step, if it may be gathered in parts.

    Attributes:
        nothing: what a part begins with.
        join: what two parts make.
    """

    nothing: Sequence[Any]
    join: Callable[[Any, Any], Any]


def build(
    name: str,
    workgroups: tuple[int, int, int],
    shapes: Sequence[Sequence[int]],
    body: Callable[[list[Any], list[Any]], None],
    kinds: tuple[str, ...] = (),
) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Args:
        name: the symbol.
        workgroups: how many there are in each of three dimensions.
        shapes: of each binding; results come last.
        body: builds the kernel of the bindings' memory and the workgroup's three numbers.
        kinds: the type of each binding's elements; f32 where it is not said.
    """
    frame = Writer(name=name, workgroups=workgroups, sizes=[], shapes=tuple(shapes), kinds=kinds)
    with ir.Location.unknown():
        module = ir.Module.parse(frame.text(()))
        executable = module.body.operations[0]
        inner = executable.regions[0].blocks[0].operations[1].regions[0].blocks[0]
        block = inner.operations[0].regions[0].blocks[0]
        operations = list(block.operations)
        found = {
            wanted: [op.operation.results[0] for op in operations if op.operation.name == wanted]
            for wanted in ("stream.binding.subspan", "stream.dispatch.workgroup.id")
        }
        with ir.InsertionPoint(operations[-1]):
            body(*found.values())
    return str(executable)


def index(value: int) -> Any:
    """A constant index."""
    return arith.constant(ir.IndexType.get(), value)


def number(value: float, kind: Any = None) -> Any:
    """A constant f32, or a vector of such."""
    single = ir.FloatAttr.get(ir.F32Type.get(), value)
    if isinstance(kind, ir.VectorType):
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, single))
    return arith.constant(single.type, single)


def loop(
    start: Any,
    stop: Any,
    step: Any,
    carried: Sequence[Any],
    body: Callable[[Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """`scf.for`: the body goes from the number and what is carried to what is carried on."""
    op = scf.ForOp(start, stop, step, list(carried))
    with ir.InsertionPoint(op.body):
        scf.yield_(list(body(op.induction_variable, list(op.inner_iter_args))))
    return list(op.results)


def parts(
    count: int,
    step: int,
    carried: Sequence[Any],
    body: Callable[[Any, list[Any]], Sequence[Any]],
    sums: Sums | None = None,
) -> list[Any]:
    """As `loop` from 0 to a count, where many steps are summed in parts, and these then joined.

    A number that is added to a sum is rounded to the sum's last place. The sum of 12,544 numbers,
    one added after the other, is off by 70 units of the last place of a number, by 5 if it is that
    of 98 sums.

    Args:
        count, step: the end, a multiple of the step.
        carried: what there is before.
        body: as of `loop`.
        sums: what is carried; None where it is no sum.
    """
    stride = step * _IN_A_ROW
    if sums is None or count <= stride:
        return loop(index(0), index(count), index(step), carried, body)

    def part(start: Any, before: list[Any]) -> list[Any]:
        end = arith.minui(arith.addi(start, index(stride)), index(count))
        found = loop(start, end, index(step), sums.nothing, body)
        return [sums.join(one, other) for one, other in zip(before, found, strict=True)]

    return loop(index(0), index(count), index(stride), carried, part)


def share(total: int, parts: int, part: Any) -> tuple[Any, Any]:
    """From where to where a part of `total` things goes, split evenly."""
    low = arith.muli(part, index(total))
    high = arith.addi(low, index(total))
    return arith.divui(low, index(parts)), arith.divui(high, index(parts))


def indices_of(place: Any, sizes: Sequence[int]) -> list[Any]:
    """A place among dense elements of these sizes as an index along each."""
    found: list[Any] = []
    for size in reversed(sizes[1:]):
        found.append(arith.remui(place, index(size)))
        place = arith.divui(place, index(size))
    return [*([place] if sizes else []), *reversed(found)]
