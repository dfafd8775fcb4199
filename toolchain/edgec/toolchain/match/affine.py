"""A product by weights, scaled and shifted by channel: its factor and summand as weights.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.evaluate import NotEvaluated, NotNamed, evaluate
from edgec.toolchain.ir.literal import attribute_of
from edgec.toolchain.ir.read import convolution_layout, integers, numbers_of
from edgec.toolchain.ir.uses import only_use
from edgec.toolchain.ir.weights import Weights

__all__ = ["Affine", "find_affine"]

_STEPS = ("add", "subtract", "multiply", "divide")
_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.convert")
_FLOATS = (ir.F16Type, ir.BF16Type, ir.F32Type)
_DTYPES = {"f16": np.float16, "f32": np.float32}


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One operation with a value by channel: `x - v`, or `v - x` if it is turned."""

    name: str
    vector: Callable[[], Any]
    turned: bool


@dataclass(frozen=True, kw_only=True)
class Affine:
    """`product(x, weights) * factor + summand`, both by channel, as a chain of operations.

    Attributes:
        op: the product or convolution.
        last: the value at the chain's end.
        steps: what is done, in order.
        moves: the transposes and reshapes between the product and the chain's end, in order.
        channels: the axis of the chain's end that the channels lie along.
        weight_axis: the axis of the weights that they lie along.
    """

    op: Any
    last: Any
    steps: tuple[_Step, ...]
    moves: tuple[Any, ...]
    channels: int
    weight_axis: int

    @property
    def scales(self) -> bool:
        """Whether there is more to it than one sum, which kernels take as it is."""
        return len(self.steps) > 1 or any(
            step.name in ("multiply", "divide") or step.turned for step in self.steps
        )

    def fold(self) -> None:
        """Write it again at its end with the factor in the weights and one sum; the old stays."""
        op, old = self.op, self.last
        wide, size = ir.F32Type.get(), graph.shape(old)[self.channels]
        # What scales and shifts may stand after the product, but not after its use.
        with ir.InsertionPoint(old.owner.operation), op.location:
            factor, summand = self._vectors(size, wide)
            weights = op.operands[1]
            repeated = graph.broadcast(factor, graph.shape(weights), [self.weight_axis])
            scaled = graph.binary("multiply", graph.convert(weights, wide), repeated)
            kind, end = graph.element(weights), graph.element(old)
            packed = _constant(scaled, kind) or graph.convert(scaled, kind)
            new = op.clone()
            new.operands[1] = packed
            sums = graph.element(op.results[0])
            shift = _constant(summand, sums) or graph.convert(summand, sums)
            row = graph.broadcast(graph.convert(shift, end), graph.shape(old), [self.channels])
            moved = new.results[0]
            for move in self.moves:
                moved = _moved(moved, move)
            total = graph.binary("add", graph.convert(moved, end), row)
        old.replace_all_uses_with(total)

    def _vectors(self, size: int, kind: Any) -> tuple[Any, Any]:
        """The factor and the summand, [channels] each, written at the insertion point."""
        factor, summand = graph.fill(1.0, [size], kind), graph.fill(0.0, [size], kind)
        for step in self.steps:
            vector = graph.convert(step.vector(), kind)
            if step.name == "add":
                summand = graph.binary("add", summand, vector)
            elif step.name == "subtract" and step.turned:
                factor = graph.unary("negate", factor)
                summand = graph.binary("subtract", vector, summand)
            elif step.name == "subtract":
                summand = graph.binary("subtract", summand, vector)
            else:
                factor = graph.binary(step.name, factor, vector)
                summand = graph.binary(step.name, summand, vector)
        return factor, summand


def find_affine(op: Any, weights: Weights) -> Affine | None:
    """The scale and shift by channel that follow a product by weights; None where none do.

    Args:
        op: a `stablehlo.convolution` or `stablehlo.dot_general`.
        weights: what is known before the first call.
    """
    (value,) = op.results
    if not graph.is_static(*op.operands, value) or not all(
        isinstance(graph.element(v), _FLOATS) for v in (*op.operands, value)
    ):
        return None
    if weights.holds(op.operands[0]) or not weights.holds(op.operands[1]):
        return None
    axes = _channel_axes(op)
    if axes is None or len(list(op.operands[1].uses)) != 1:
        return None
    channels, weight_axis = axes
    last, last_channels = value, channels
    steps: list[_Step] = []
    moves: list[Any] = []
    kept = 0
    while True:
        following = _following(value, channels, weights)
        if following is None:
            break
        value, step = following
        if isinstance(step, _Step):
            steps.append(step)
            last, last_channels, kept = value, channels, len(moves)
        elif step is not None and not _takes_scale(op.operands[1]):
            break
        elif step is not None:
            channels = step
            moves.append(value.owner.operation)
    if not steps:
        return None
    return Affine(
        op=op,
        last=last,
        steps=tuple(steps),
        moves=tuple(moves[:kept]),
        channels=last_channels,
        weight_axis=weight_axis,
    )


def _channel_axes(op: Any) -> tuple[int, int] | None:
    """The axes of the result and of the weights that output channels lie along."""
    if op.name == "stablehlo.convolution":
        _, kernel, out = convolution_layout(op)
        return out.index("f"), kernel.index("o")
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    taken = [
        *numbers.get("rhs_batching_dimensions", []),
        *numbers.get("rhs_contracting_dimensions", []),
    ]
    rank = len(graph.shape(op.operands[1]))
    own = [axis for axis in range(rank) if axis not in taken]
    if len(own) != 1 or numbers.get("rhs_batching_dimensions"):
        return None
    return len(graph.shape(op.results[0])) - 1, own[0]


def _following(
    value: Any, channels: int, weights: Weights
) -> tuple[Any, _Step | int | None] | None:
    """The next value of the chain, and the step that makes it.

    No step for a wider type; for a transpose or reshape, where the channels lie after it.
    """
    use = only_use(value)
    if use is None:
        return None
    op = use.owner.operation
    if op.name == "stablehlo.convert":
        before, after = graph.element(value), graph.element(op.results[0])
        widens = isinstance(before, _FLOATS) and isinstance(after, ir.F32Type)
        return (op.results[0], None) if widens else None
    if op.name in ("stablehlo.transpose", "stablehlo.reshape"):
        axis = _axis_after(op, channels)
        return None if axis is None else (op.results[0], axis)
    name = op.name.removeprefix("stablehlo.")
    if name not in _STEPS:
        return None
    place = use.operand_number
    other = op.operands[1 - place]
    turned = place == 1
    if turned and name == "divide":
        return None
    vector = _by_channel(other, channels, weights)
    if vector is None:
        return None
    return op.results[0], _Step(name=name, vector=vector, turned=turned)


def _takes_scale(weights: Any) -> bool:
    """Whether weights take the scale of a layer, which stands behind a move.

    At times it is too small for halves. Weights that are kept outside would be multiplied when the
    module is loaded, and be there twice.
    """
    op = None if isinstance(weights.owner, ir.Block) else weights.owner.operation
    while op is not None and op.name in _MOVES:
        source = op.operands[0]
        op = None if isinstance(source.owner, ir.Block) else source.owner.operation
    is_constant = op is not None and op.name == "stablehlo.constant"
    return is_constant and not isinstance(graph.element(weights), ir.F16Type)


def _axis_after(op: Any, channels: int) -> int | None:
    """Where a transpose or reshape puts an axis; None where it does not keep it as one."""
    if op.name == "stablehlo.transpose":
        return integers(op, "permutation").index(channels)
    before, after = graph.shape(op.operands[0]), graph.shape(op.results[0])
    inside = math.prod(before[channels + 1 :])
    for axis, size in enumerate(after):
        if size == before[channels] and math.prod(after[axis + 1 :]) == inside:
            return axis
    return None


def _moved(value: Any, move: Any) -> Any:
    """A value as a transpose or reshape moves another."""
    if move.name == "stablehlo.transpose":
        return graph.transpose(value, integers(move, "permutation"))
    return graph.reshape(value, graph.shape(move.results[0]))


def _by_channel(value: Any, channels: int, weights: Weights) -> Callable[[], Any] | None:
    """What writes the vector that a value repeats along all axes but one; None if it does not."""
    if not weights.holds(value):
        return None
    sizes = graph.shape(value)
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.constant":
        attribute = attribute_of(op)
        if attribute is not None and attribute.is_splat:
            number = float(attribute.get_splat_value().value)
            kind = graph.element(value)
            return lambda: graph.fill(number, [sizes[channels]], kind)
    if op.name == "stablehlo.broadcast_in_dim":
        source = op.operands[0]
        axes = integers(op, "broadcast_dimensions")
        wide = [axis for axis, n in zip(axes, graph.shape(source), strict=True) if n != 1]
        if wide not in ([], [channels]):
            return None
        flat = [sizes[channels]] if wide else []

        def write() -> Any:
            vector = graph.reshape(source, flat)
            return vector if wide else graph.broadcast(vector, [sizes[channels]], [])

        return write
    if op.name == "stablehlo.convert":
        inner = _by_channel(op.operands[0], channels, weights)
        kind = graph.element(value)
        return None if inner is None else lambda: graph.convert(inner(), kind)
    return None


def _constant(value: Any, kind: Any) -> Any | None:
    """A value of weights as a constant of a type, where its numbers are known here."""
    dtype = _DTYPES.get(str(kind))
    if dtype is None:
        return None
    try:
        (numbers,) = evaluate([value], {})
    except (NotEvaluated, NotNamed):
        return None
    with np.errstate(over="ignore"):
        return graph.constant(np.ascontiguousarray(numbers, dtype=dtype), kind)
