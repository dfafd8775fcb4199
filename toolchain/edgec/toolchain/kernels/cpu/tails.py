"""What follows a product or convolution as the CPU's kernels do it, before they store.

They evaluate the very operations, one vector instruction or call after the other; what they have no
operation for stays with the compiler, after the longest part that they have.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cpu.source.epilogue import (
    BINARY,
    COMPARISONS,
    UNARY,
    Epilogue,
    Step,
)
from edgec.toolchain.kernels.longest import longest
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match import expression, tail
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.expression import Source

__all__ = ["Tail", "find_tail"]

_MOST_STEPS = 40
_MOST_TENSORS = 3
_KINDS = ("f32", "i1")
_Place = tuple[Source, float]


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The operations taken into a kernel.

    Attributes:
        operations: what is taken, in order; they are erased.
        value: the value that the kernel stores instead of the product's own.
        epilogue: the same, for the kernel's writer.
        channels: values with one element a channel that it reads.
        tensors: values of the result's size that it reads.
        why: why the kernel takes no longer tail, if there is one.
    """

    operations: tuple[Any, ...]
    value: Any
    epilogue: Epilogue
    channels: tuple[Any, ...]
    tensors: tuple[Any, ...]
    why: Declined | None = None


def find_tail(
    result: Any,
    taken: Collection[Any],
    fits: Callable[[tail.Tail], bool] | None = None,
    *,
    reshaped: bool = False,
) -> Tail:
    """The longest tail of a product's result that a kernel does.

    Args:
        result: what the product gives.
        taken: operations that another kernel has taken.
        fits: which tails it may be; any, if it is not said.
        reshaped: it may end in a value of another shape.
    """
    tails = tail.find_tails(result, shape(result)[-1], taken=taken)

    def take(found: tail.Tail) -> tuple[tail.Tail, Epilogue] | Declined:
        if found.operations and fits is not None and not fits(found):
            return Declined(reason="")
        if not reshaped and found.value.type != result.type:
            return Declined(reason="another shape")
        epilogue = _epilogue(found)
        return epilogue if isinstance(epilogue, Declined) else (found, epilogue)

    (found, epilogue), why = longest(tails, take)
    validate(found, "tail")
    return Tail(
        operations=found.operations,
        value=found.value,
        epilogue=epilogue,
        channels=found.rows,
        tensors=found.tensors,
        why=why,
    )


def _epilogue(found: tail.Tail) -> Epilogue | Declined:
    """A tail as a kernel's writer takes it."""
    kinds = {step.kind for step in found.steps} | {
        str(value.type.element_type) for value in (*found.rows, *found.tensors, found.value)
    }
    if not kinds <= set(_KINDS) or str(found.value.type.element_type) == "i1":
        return Declined(reason=f"what follows computes in {', '.join(sorted(kinds))}")
    if any(str(v.type.element_type) != "f32" for v in (*found.rows, *found.tensors)):
        return Declined(reason="what follows reads truth values")
    if len(found.tensors) > _MOST_TENSORS:
        return Declined(reason=f"{len(found.tensors)} other tensors")
    written: list[Step] = []
    done: list[_Place] = []

    def place(operand: expression.Operand) -> _Place:
        if operand.source is Source.STEP:
            return done[int(operand.number)]
        return (operand.source, operand.number)

    for step in found.steps:
        last = _write(step, [place(operand) for operand in step.operands], written)
        if last is None:
            return Declined(reason=f"{step.name} after a product")
        done.append(last)
    if len(written) > _MOST_STEPS:
        return Declined(reason=f"{len(written)} steps after a product")
    # A last step that is another value over again would not be what the writer stores.
    if written and done[-1] != (Source.STEP, len(written) - 1):
        return Declined(reason="a tail that ends in an earlier value")
    return Epilogue(steps=tuple(written), channels=len(found.rows), tensors=len(found.tensors))


def _write(step: expression.Step, operands: Sequence[_Place], steps: list[Step]) -> _Place | None:
    """Write what a step does; where its value is, or None where kernels have nothing for it."""

    def add(name: str, *places: _Place) -> _Place:
        steps.append(Step(name=name, operands=places))
        return (Source.STEP, len(steps) - 1)

    one = (Source.SCALAR, 1.0)
    match step.name:
        case "clamp":
            low, value, high = operands
            return add("arith.minimumf", add("arith.maximumf", value, low), high)
        case "logistic":
            power = add("math.exp", add("arith.negf", *operands))
            return add("arith.divf", one, add("arith.addf", power, one))
        case "compare":
            return add(f"arith.cmpf {COMPARISONS[step.word]}", *operands)
        case "select":
            return add("arith.select", *operands)
        case "power":
            value, exponent = operands
            match exponent:
                case (Source.SCALAR, 2.0):
                    return add("arith.mulf", value, value)
                case (Source.SCALAR, 3.0):
                    return add("arith.mulf", add("arith.mulf", value, value), value)
            return None
        case "convert":
            return operands[0]
        case name if f"stablehlo.{name}" in BINARY:
            return add(BINARY[f"stablehlo.{name}"], *operands)
        case name if f"stablehlo.{name}" in UNARY:
            return add(UNARY[f"stablehlo.{name}"], *operands)
        case "erf":
            return add("math.erf", *operands)
    return None
