"""Sums over neighbouring axes of a tensor that are not its last: the means of a pooled image, say.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from edgec.toolchain.ir.evaluate import between
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, is_dynamic, shape_of
from edgec.toolchain.ir.rows import unwidened
from edgec.toolchain.ir.uses import only_user
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description

__all__ = ["Total", "read_total"]

_SUM = ["stablehlo.add", "stablehlo.return"]
_FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True, kw_only=True)
class Total(Description):
    """`factor * sum(x)` over axes, which further axes follow.

    Attributes:
        source: what is summed.
        first, end: the axes, the second number exclusive.
        factor: by which sums are multiplied; of a mean, one over how many there are.
        value: the result.
    """

    source: Any
    first: int
    end: int
    factor: float = 1.0
    value: Any

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements before these axes, along them, and after them."""
        sizes = [size or 0 for size in shape_of(self.source)]
        before, along, behind = sizes[: self.first], sizes[self.first : self.end], sizes[self.end :]
        return math.prod(before), math.prod(along), math.prod(behind)

    @property
    def operands(self) -> tuple[Any, ...]:
        """What is summed."""
        return (self.source,)

    @property
    def results(self) -> tuple[Any, ...]:
        """The sums."""
        return (self.value,)

    @property
    def operations(self) -> list[Any]:
        """What computes it in the program."""
        return between(self.results, self.operands)

    @property
    def work(self) -> Work:
        """An addition an element, all of which are read."""
        count = math.prod(self.sizes)
        return Work(flops=count, bytes=count * int(self.source.type.element_type.width) // 8)

    def __str__(self) -> str:
        """In a few words: `sum: 1 x 784 x 72`."""
        return f"sum: {' x '.join(map(str, self.sizes))}"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The sums."""
        axes = tuple(range(self.first, self.end))
        sizes = [size or 0 for size in shape_of(self.value)]
        return ((self.factor * inputs[0].sum(axes)).reshape(sizes),)


def read_total(op: Any) -> Total | None:
    """What a `reduce` sums, and what its sums alone are multiplied with; None where it is another.

    Narrow numbers that are widened to be summed are read as they are. What is narrowed or takes
    another shape before it is divided is a mean all the same: it is rounded once.
    """
    if len(op.operands) != 2 or any(is_dynamic(value) for value in (*op.operands, *op.results)):
        return None
    whole, start = op.operands
    inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
    axes = sorted(integers(op, "dimensions"))
    if inner != _SUM or splat(start) != 0 or not axes:
        return None
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[-1] == len(shape_of(whole)) - 1:
        return None
    source = unwidened(whole)
    total = Total(source=source, first=axes[0], end=axes[-1] + 1, value=op.results[0])
    stored = (str(source.type.element_type), "f32")
    value, factor = total.value, 1.0
    while (user := only_user(value)) is not None:
        made = _factor(user, value)
        if made is None:
            break
        value, factor = user.results[0], factor * made
        if str(value.type.element_type) in stored:
            total = replace(total, value=value, factor=factor)
    return total


def _factor(user: Any, value: Any) -> float | None:
    """What an operation multiplies a value's numbers with; None where it does more than that."""
    if user.name in ("stablehlo.reshape", "stablehlo.convert"):
        kinds = (v.type.element_type for v in (value, user.results[0]))
        return 1.0 if all(str(kind) in _FLOATS for kind in kinds) else None
    if user.name not in ("stablehlo.multiply", "stablehlo.divide"):
        return None
    left, right = user.operands
    number = splat(right) if left == value else splat(left)
    if number is None or not math.isfinite(number) or number == 0:
        return None
    if user.name == "stablehlo.multiply":
        return number
    return 1 / number if left == value else None
