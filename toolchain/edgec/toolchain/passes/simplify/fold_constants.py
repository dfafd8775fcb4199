"""What follows from constants alone, as numbers, where that makes a program plainer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["FoldConstants"]

_ROUNDS = ("stablehlo.ceil", "stablehlo.floor", "stablehlo.round_nearest_even", "stablehlo.convert")
_CONSTANT = "stablehlo.constant"
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_WINDOWS = "stablehlo.reduce_window"
_TURNS = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim")
_MOST_WEIGHTS = 1 << 22
"""Elements of a matrix that is written as numbers; larger ones are worked out on the device."""


@dataclass(frozen=True, kw_only=True)
class FoldConstants:
    """Numbers that a framework left to be worked out are worked out before anything is recognised.

    `jnp.var` divides by `24 - 0` and selects NaN where that is no more than zero; PyTorch writes
    a size as an integer and converts it. Matchers should see `x / 24`. What is rounded to whole
    numbers is written down, too, of any size: tables of a gather that are worked out here and
    weights that are worked out on the device must not differ in which element comes first, where
    `2.5 * 0.6 - 1.5` is 0 here and more than 0 there, since the compiler multiplies and subtracts
    in one step. So are the weights of a product that follow from sizes alone (an image resized
    without aliases, a Fourier transform): kernels take weights that they can see. Weights that are
    bytes times scales stay so where the other side is bytes, too. And so are windows over constants
    (how many pixels a mean is over): iree-compile 3.13 gives wrong sums for them inside a loop, 4
    for the 64 ones of a window of 8 x 8.

    Measured: JAX's and Keras' layer norms become kernels with it (six operations fewer in each),
    and without it none does.
    """

    name = "fold-constants"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "FoldConstants | None":
        """For StableHLO with constants."""
        needed = situation.is_stablehlo and "stablehlo.constant" in situation.operations
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            count = sum(1 for _ in _folded(module))
            if count:
                erase_unused(module)
            return count


def _folded(module: Any) -> Iterator[Any]:
    """Operations whose result was replaced by a constant, or by what they select."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import Constants, least
    from edgec.toolchain.ir.functions import inside

    known = Constants()
    operations = list(inside(module.operation))
    for op in operations:
        yield from _matrices(op, known)
    for op in operations:
        plain = op.name.startswith("stablehlo.") and len(op.results) == 1
        plain = plain and (op.name == _WINDOWS or not op.regions)
        if not plain or not op.operands or not list(op.results[0].uses):
            continue
        if op.name in _PRODUCTS:  # of a first state, zeros: to `roll-loops` a step like the others
            continue
        (result,) = op.results
        chosen = _chosen(op, known)
        if chosen is not None:
            result.replace_all_uses_with(chosen)
            yield op
            continue
        numbers = known.of(result)
        if numbers is None or not numbers.size:
            continue
        few = least(numbers)
        is_one = few.size == 1 or not (few != few.flat[0]).any()
        if not is_one and op.name != _WINDOWS and not _is_rounding(op):
            continue
        with ir.InsertionPoint(op), op.location:
            kind = graph.element(result)
            if is_one:
                constant = graph.fill(few.flat[0].item(), graph.shape(result), kind)
            else:
                constant = _written(numbers, result)
        result.replace_all_uses_with(constant)
        yield op


def _is_weight_turned(value: Any) -> bool:
    """Whether it is a constant in another order, which kernels read as it lies."""
    from iree.compiler import ir

    while not isinstance(value.owner, ir.Block):
        owner = value.owner.operation
        if owner.name == _CONSTANT:
            return True
        if owner.name not in _TURNS:
            return False
        value = owner.operands[0]
    return False


def _matrices(op: Any, known: Any) -> Iterator[Any]:
    """A product or convolution whose weights were written as numbers; once for each."""
    from iree.compiler import ir

    from edgec.toolchain.kernels.cpu.quantised_dequantised import is_of_bytes

    if op.name not in _PRODUCTS:
        return
    for place, value in enumerate(op.operands):
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is None or _is_weight_turned(value):
            continue
        numbers = known.of(value)
        if numbers is None or not 1 < numbers.size <= _MOST_WEIGHTS:
            continue
        if place == 1 and is_of_bytes(op, known):
            continue
        with ir.InsertionPoint(op), owner.location:
            op.operands[place] = _written(numbers, value)
        yield op


def _written(numbers: Any, value: Any) -> Any:
    """A constant of a value's numbers; what repeats is repeated."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import least

    few = least(numbers)
    constant = graph.constant(np.ascontiguousarray(few), graph.element(value))
    return graph.broadcast(constant, graph.shape(value), range(few.ndim))


def _chosen(op: Any, known: Any) -> Any | None:
    """What a selection takes everywhere."""
    from edgec.toolchain.ir.read import shape_of

    if op.name != "stablehlo.select" or None in shape_of(op.operands[0]):
        return None
    test = known.number(op.operands[0])
    return None if test is None else op.operands[1 if test else 2]


def _is_rounding(op: Any) -> bool:
    """Whether floats become whole numbers."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if op.name not in _ROUNDS or not isinstance(graph.element(op.operands[0]), ir.FloatType):
        return False
    kind = graph.element(op.results[0])
    return op.name != "stablehlo.convert" or (isinstance(kind, ir.IntegerType) and kind.width > 1)
