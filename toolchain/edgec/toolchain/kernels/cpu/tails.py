"""Which element-wise operations after a product can be done before its result is stored.

A module imported only by a pass that runs; it needs the compiler.
"""

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import call_target, shape_of
from edgec.toolchain.kernels.cpu.source.epilogue import BINARY, UNARY, Epilogue, Operand, Step

__all__ = ["Tail", "find_tail"]

_MOST_STEPS = 40
_MOST_TENSORS = 3
_COMPOSED = ("stablehlo.logistic", "stablehlo.clamp")
_ERF = ("mhlo.erf", "chlo.erf")


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The operations taken into a kernel.

    Attributes:
        operations: what is taken, in order; they are erased.
        value: the value that the kernel stores instead of the product's own.
        epilogue: the same, for the kernel's writer.
        channels: values with one element a channel that it reads.
        tensors: values of the result's shape that it reads.
    """

    operations: tuple[Any, ...]
    value: Any
    epilogue: Epilogue
    channels: tuple[Any, ...]
    tensors: tuple[Any, ...]


def find_tail(
    result: Any,
    taken: Collection[Any],
    order: Mapping[Any, int],
    ends: Callable[[Any], bool] | None = None,
) -> Tail:
    """Follow a product's result as far as element-wise operations of its own shape go.

    They must end in one value: nothing in between may be used elsewhere.

    Args:
        result: what the product gives.
        taken: operations that another kernel has taken.
        order: where each operation of the module stands.
        ends: which values it may end in; any, if it is not said.
    """
    search = _Search(result)
    best = search.tail()
    block = result.owner.operation.block
    waiting: list[int] = []
    standing: dict[int, Any] = {}

    def look(value: Any) -> None:
        for use in value.uses:
            user = use.owner.operation
            place = order.get(user, -1)
            if place >= 0 and place not in standing and user.block == block:
                standing[place] = user
                heapq.heappush(waiting, place)

    look(result)
    while waiting and len(search.steps) <= _MOST_STEPS:
        op = standing[heapq.heappop(waiting)]
        if op in taken or not search.take(op):
            continue
        look(search.last)
        if search.closes() and (ends is None or ends(search.last)):
            best = search.tail()
    return best


class _Search:
    """Operations taken so far, with the step that computes each of their values."""

    def __init__(self, result: Any) -> None:
        self.shape = shape_of(result)
        self.kind = result.type
        self.operations: list[Any] = []
        self.values: dict[Any, tuple[Operand, float]] = {result: (Operand.SUM, 0)}
        self.last = result
        self.steps: list[Step] = []
        self.channels: list[Any] = []
        self.tensors: list[Any] = []

    def tail(self) -> Tail:
        return Tail(
            operations=tuple(self.operations),
            value=self.last,
            epilogue=Epilogue(
                steps=tuple(self.steps), channels=len(self.channels), tensors=len(self.tensors)
            ),
            channels=tuple(self.channels),
            tensors=tuple(self.tensors),
        )

    def closes(self) -> bool:
        """Whether only the newest value is used by what is not taken."""
        return not any(self._outside(value) for value in self.values if value != self.last)

    def _outside(self, value: Any) -> bool:
        return any(use.owner.operation not in self.operations for use in value.uses)

    def take(self, op: Any) -> bool:
        """Take an operation if it is element-wise on what was found and on what can be read."""
        known = (*UNARY, *BINARY, *_COMPOSED)
        if op.name not in known and call_target(op) not in _ERF:
            return False
        if len(op.results) != 1 or op.results[0].type != self.kind:
            return False
        if not any(value in self.values for value in op.operands):
            return False
        channels, tensors = len(self.channels), len(self.tensors)
        operands = [self._operand(value) for value in op.operands]
        if any(o is None for o in operands) or len(self.tensors) > _MOST_TENSORS:
            del self.channels[channels:]
            del self.tensors[tensors:]
            return False
        self._steps(op, [o for o in operands if o is not None])
        self.operations.append(op)
        self.last = op.results[0]
        self.values[self.last] = (Operand.STEP, len(self.steps) - 1)
        return True

    def _steps(self, op: Any, operands: Sequence[tuple[Operand, float]]) -> None:
        match op.name:
            case "stablehlo.clamp":
                low, value, high = operands
                first = self._step("arith.maximumf", value, low)
                self._step("arith.minimumf", first, high)
            case "stablehlo.logistic":
                one = (Operand.SCALAR, 1.0)
                minus = self._step("arith.negf", *operands)
                power = self._step("math.exp", minus)
                total = self._step("arith.addf", power, one)
                self._step("arith.divf", one, total)
            case name if name in UNARY:
                self._step(UNARY[name], *operands)
            case name if name in BINARY:
                self._step(BINARY[name], *operands)
            case _:
                self._step("math.erf", *operands)

    def _step(self, name: str, *operands: tuple[Operand, float]) -> tuple[Operand, float]:
        self.steps.append(Step(name=name, operands=operands))
        return (Operand.STEP, len(self.steps) - 1)

    def _operand(self, value: Any) -> tuple[Operand, float] | None:
        """Where a step finds a value; None where it cannot."""
        if value in self.values:
            return self.values[value]
        number = splat(value)
        if number is not None:
            return (Operand.SCALAR, number)
        channel = _channel(value, self.shape)
        if channel is not None:
            return (Operand.CHANNEL, _place(self.channels, channel))
        if value.type != self.kind:
            return None
        return (Operand.TENSOR, _place(self.tensors, value))


def _place(values: list[Any], value: Any) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)


def _channel(value: Any, shape: tuple[int | None, ...]) -> Any:
    """The value with one element a channel that `value` repeats for every pixel, or None.

    It has as many elements as there are channels, in any shape.
    """
    op = _owner(value)
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return None
    source = op.operands[0]
    sizes = shape_of(source)
    dims = [int(d) for d in op.attributes["broadcast_dimensions"]]
    last = len(shape) - 1
    wide = [d for d, size in zip(dims, sizes, strict=True) if size != 1]
    if wide == [last] or (shape[last] == 1 and not wide and sizes):
        return source
    if not wide:
        return _channel(source, shape[-1:])
    return None


def _owner(value: Any) -> Any:
    """The operation that makes a value; None for a block's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation
