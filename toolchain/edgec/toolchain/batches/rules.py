"""What each operation of StableHLO does with examples: one rule each, which holds or does not.

A rule is given an operation of which some operand or result counts examples, and says whether each
example's part of its results comes from that example's part of its operands alone, and in the same
way for all. An operation without a rule is one that mixes them. A module imported only where it is
needed; it takes the compiler's bindings.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgec.toolchain.batches import moves
from edgec.toolchain.batches.marked import Marked
from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.ir.read import convolution_layout, numbers_of

__all__ = ["by_element", "follows"]


def follows(marked: Marked) -> bool:
    """Whether the operation keeps examples apart."""
    op = marked.op
    if by_element(op):
        return _each_element(marked)
    if op.name in _WITH_BODIES:
        if any(mark and mark.before > 1 for mark in (*marked.operands, *marked.results)):
            return False
        return op.name == "stablehlo.while" or marked.operands[0] is None
    rule = _RULES.get(op.name)
    return rule is not None and all(marked.results) and rule(marked)


def by_element(op: Any) -> bool:
    """Whether each element of the results comes from those of the operands at its place."""
    return bool(elementwise(op)) or op.name.partition(".")[2] in _ELEMENTWISE


_ELEMENTWISE = frozenset(
    [
        "bitcast_convert",
        "complex",
        "imag",
        "optimization_barrier",
        "popcnt",
        "real",
        "reduce_precision",
        "remainder",
        "round_nearest_afz",
        "round_nearest_even",
        "select",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sine",
        "tan",
        "xor",
        "count_leading_zeros",
        "conj",
        "digamma",
        "lgamma",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cosh",
        "sinh",
        "erf_inv",
        "next_after",
        "square",
        "zeta",
        "polygamma",
    ]
)


_WITH_BODIES = ("stablehlo.while", "stablehlo.case", "stablehlo.if")
"""What is inside is looked at by itself; what decides on a branch is no example's."""


def _each_element(marked: Marked) -> bool:
    op = marked.op
    if op.name == "stablehlo.optimization_barrier":
        return list(marked.operands) == list(marked.results)
    (result,) = marked.results
    return result is not None and all(
        mark == result or (mark is None and not marked.shape(number))
        for number, mark in enumerate(marked.operands)
    )


def _product(marked: Marked) -> bool:
    (result,), (left, right) = marked.results, marked.operands
    numbers = numbers_of(marked.op.attributes["dot_dimension_numbers"])
    pairs = list(
        zip(
            numbers.get("lhs_batching_dimensions", []),
            numbers.get("rhs_batching_dimensions", []),
            strict=True,
        )
    )
    if result is None:
        return False
    if left is not None and right is not None:
        if (left.axis, right.axis) not in pairs or replace(left, axis=right.axis) != right:
            return False
        return result == replace(left, axis=pairs.index((left.axis, right.axis)))
    side, mark = ("lhs", left) if left is not None else ("rhs", right)
    used = [
        *numbers.get(f"{side}_batching_dimensions", []),
        *numbers.get(f"{side}_contracting_dimensions", []),
    ]
    if mark is None or mark.axis in used:
        return False
    first = len(pairs)
    if side == "rhs":
        left_used = len(pairs) + len(numbers.get("lhs_contracting_dimensions", []))
        first += len(marked.shape(0)) - left_used
    free = [axis for axis in range(len(marked.shape(side == "rhs"))) if axis not in used]
    return result == replace(mark, axis=first + free.index(mark.axis))


def _convolution(marked: Marked) -> bool:
    (result,), (image, window) = marked.results, marked.operands
    before, _, after = convolution_layout(marked.op)
    if image is None or window is not None or marked.numbers("batch_group_count") not in ([], [1]):
        return False
    at_batch = before.index("b") == image.axis
    return at_batch and result == replace(image, axis=after.index("b"))


def _reduce(marked: Marked) -> bool:
    half = len(marked.operands) // 2
    values, firsts = marked.operands[:half], marked.operands[half:]
    mark, axes = values[0], marked.numbers("dimensions")
    if mark is None or any(firsts) or any(value != mark for value in values) or mark.axis in axes:
        return False
    left = replace(mark, axis=mark.axis - sum(axis < mark.axis for axis in axes))
    return all(result == left for result in marked.results)


def _reduce_window(marked: Marked) -> bool:
    half = len(marked.operands) // 2
    values, firsts = marked.operands[:half], marked.operands[half:]
    mark = values[0]
    if mark is None or any(firsts) or any(each != mark for each in (*values, *marked.results)):
        return False
    ones = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    pads = marked.numbers("padding")
    return (
        all((marked.numbers(name) or [1] * (mark.axis + 1))[mark.axis] == 1 for name in ones)
    ) and not any(pads[2 * mark.axis : 2 * mark.axis + 2])


def _alike(marked: Marked) -> bool:
    """All operands and results count examples alike, on an axis that is not worked along."""
    mark = marked.results[0]
    return mark is not None and all(each == mark for each in (*marked.operands, *marked.results))


def _off(name: str) -> Callable[[Marked], bool]:
    """Alike, on an axis that an attribute does not name."""

    def rule(marked: Marked) -> bool:
        mark = marked.results[0]
        return _alike(marked) and mark is not None and mark.axis not in marked.numbers(name)

    return rule


def _norm(marked: Marked) -> bool:
    (result,), (operand, *others) = marked.results, marked.operands
    apart = result is not None and marked.numbers("feature_index") != [result.axis]
    return apart and result == operand and not any(others)


def _leading(marked: Marked) -> bool:
    """Of matrices: those before the last two axes."""
    mark = marked.results[0]
    return (
        mark is not None and _alike(marked) and mark.axis < len(marked.op.results[0].type.shape) - 2
    )


def _fourier(marked: Marked) -> bool:
    (result,), (operand,) = marked.results, marked.operands
    rank, along = len(marked.shape(0)), len(marked.numbers("fft_length"))
    return result is not None and result == operand and result.axis < rank - along


def _last(marked: Marked) -> bool:
    """What works along the last axis."""
    (operand,) = marked.operands
    last = len(marked.shape(0)) - 1
    return (
        operand is not None and operand.axis != last and all(r == operand for r in marked.results)
    )


_RULES: Mapping[str, Callable[[Marked], bool]] = {
    "chlo.top_k": _last,
    "stablehlo.batch_norm_inference": _norm,
    "stablehlo.broadcast_in_dim": moves.broadcast,
    "stablehlo.cholesky": _leading,
    "stablehlo.concatenate": _off("dimension"),
    "stablehlo.constant": moves.constant,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _product,
    "stablehlo.dynamic_slice": moves.dynamic_slice,
    "stablehlo.dynamic_update_slice": moves.dynamic_update,
    "stablehlo.fft": _fourier,
    "stablehlo.gather": moves.gather,
    "stablehlo.iota": moves.iota,
    "stablehlo.pad": moves.pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": moves.reshape,
    "stablehlo.reverse": _off("dimensions"),
    "stablehlo.slice": moves.slice_,
    "stablehlo.sort": _off("dimension"),
    "stablehlo.transpose": moves.transpose,
    "stablehlo.triangular_solve": _leading,
}
