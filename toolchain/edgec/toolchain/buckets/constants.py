"""Constants that follow the open size, for one size of it.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.buckets.filled import Filling, Step
from edgec.toolchain.buckets.sizes import NotFilled
from edgec.toolchain.ir import write
from edgec.toolchain.ir.fold import least, repeated
from edgec.toolchain.ir.literal import literal

__all__ = ["constant"]


def constant(filling: Filling, step: Step) -> list[Any]:
    """The start of a table, one number everywhere, the size in some form, or a table and it."""
    here, there = literal(step.op), literal(step.twin)
    (sizes,) = step.results
    kind = step.op.results[0].type.element_type
    if all(_is_size(use) for use in step.op.results[0].uses):
        return filling.clone(step)
    if here is None or there is None or here.dtype.kind in "Vc":
        same = [repeated(op.results[0]) for op in (step.op, step.twin)]
        if same[0] is not None and same[0] == same[1]:
            whole = write.tensor([size.of(filling.size) for size in sizes], kind)
            value = ir.DenseElementsAttr.get_splat(whole, same[0])
            return [write.create("stablehlo.constant", whole, [], {"value": value})]
        raise NotFilled("numbers of a type that NumPy does not have follow it")
    shape = [size.of(filling.size) for size in sizes]
    few = [np.unique(each) if each.size else each for each in (least(here), least(there))]
    if all(each.size == 1 for each in few):
        one, other = (each[0] for each in few)
        if one == other or (one != one and other != other):
            return [write.broadcast(_scalar(one, kind), shape)]
        return [write.broadcast(_of_size(filling, one, other, kind), shape)]
    start = tuple(slice(0, size) for size in there.shape)
    if here.ndim != there.ndim or any(n > m for n, m in zip(shape, here.shape, strict=True)):
        raise NotFilled("a table of numbers follows it")
    live = here[tuple(slice(0, size) for size in shape)]
    if np.array_equal(here[start], there, equal_nan=here.dtype.kind == "f"):
        return [write.constant(live, kind)]
    apart = np.unique(here[start] - there) if here.dtype.kind in "iu" else np.zeros(0)
    if apart.size != 1:
        raise NotFilled("a table of numbers follows it")
    size = filling.two.growth(int(apart[0]))
    grown = write.convert(filling.alive(size), kind)
    fixed = write.constant((live - size.of(filling.two.one)).astype(here.dtype), kind)
    return [write.binary("add", fixed, write.broadcast(grown, shape))]


_SIZES = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
}
"""Which operand says the sizes of the result, whose type says them, too."""


def _is_size(use: Any) -> bool:
    """Whether a value is used as sizes alone."""
    return bool(_SIZES.get(use.owner.name) == use.operand_number)


def _scalar(number: Any, kind: Any) -> Any:
    plain = bool(number) if str(kind) == "i1" else number.item()
    return write.fill(plain, (), kind)


def _of_size(filling: Filling, one: Any, other: Any, kind: Any) -> Any:
    """A scalar that is a multiple of the size, or one over it.

    Raises:
        NotFilled: it is neither.
    """
    two, floats = filling.two, np.dtype(type(one)).kind == "f"
    for over in (False, True) if floats else (False,):
        if over and not (one and other):
            continue
        values = [1 / one, 1 / other] if over else [one, other]
        whole = [round(float(value)) for value in values]
        exact = [
            number and type(one)(1 / number) == value if over else number == value
            for number, value in zip(whole, (one, other), strict=True)
        ]
        if all(exact):
            size = two.size(*whole)
            value = write.convert(filling.alive(size), kind)
            return write.binary("divide", write.fill(1.0, (), kind), value) if over else value
    raise NotFilled("a number in it follows the size")
