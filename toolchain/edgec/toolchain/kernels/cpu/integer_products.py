"""Products of bytes whose zero point only a call knows, to dispatches.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.fold import Constants, splat
from edgec.toolchain.ir.read import element_type, shape_of
from edgec.toolchain.ir.standing import stand_for
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.byte_convolution import (
    DEPTH,
    ByteConvolution,
    byte_convolution_kernel,
)
from edgec.toolchain.kernels.cpu.source.byte_result import ByteResult
from edgec.toolchain.kernels.cpu.source.convolution import Tiling, tiling
from edgec.toolchain.kernels.cpu.source.cut import KernelKey
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.epilogue import Epilogue
from edgec.toolchain.kernels.cpu.tails import Tail, find_tail
from edgec.toolchain.kernels.longest import say_cut_short
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.description import Array, validate
from edgec.toolchain.match.integer_product import IntegerProduct, read_integer_product

__all__ = ["place_integer_product"]

_MOST_PARTS = 2
_HALF = 128
"""What signed bytes are less than unsigned ones of the same bits but the first."""


def place_integer_product(
    op: Any, library: Library, unit: DotUnit, known: Constants, answers: Answers
) -> bool:
    """Put a kernel in place of a `stablehlo.dot_general` of bytes by known integers.

    Args:
        op: the operation.
        library: where the kernel goes.
        unit: how the target multiplies bytes.
        known: numbers of the program's constants.
        answers: where the answer is kept.
    """
    found = read_integer_product(op, known)
    if found is None:
        return False
    parts = _in_bytes(found.weights)
    few = found.weights.shape[1] < min(unit.lanes)
    if parts is None:
        declined = Declined(reason="weights of more than nine bits")
        return answers.record(op, str(found), found.work, declined)
    answers.record(op, str(found), found.work, Kernel(name="product of bytes"))
    validate(found, "product of bytes")
    floats = None if few else _as_floats(op.results[0])
    tail = None if floats is None or found.rows == 1 else _tail(floats)
    value = op.results[0] if floats is None else floats
    value = value if tail is None else tail.value
    with ir.InsertionPoint(value.owner.operation), op.location:
        made = _call(found, parts, tail, floats is not None, library, unit, value)
    stand_for(value, made)
    if tail is not None:
        for each in reversed(tail.operations):
            each.erase()
        say_cut_short(made, tail.why, answers)
    return True


def _in_bytes(weights: Array) -> list[Array] | None:
    """Matrices of signed bytes whose sum is the weights; None where they would be too many.

    The weights of asymmetric quantisation, less their zero point, go beyond a byte on one side:
    they are two bytes, by which the same rows are multiplied.
    """
    parts: list[Array] = []
    rest = weights.astype(np.int64)
    while len(parts) < _MOST_PARTS:
        part = np.clip(rest, -_HALF, _HALF - 1)
        parts.append(part.astype(np.int8))
        rest = rest - part
        if not rest.any():
            return parts
    return None


def _as_floats(value: Any) -> Any:
    """The f32 that sums are converted to, where nothing else reads them; else None."""
    uses = list(value.uses)
    if len(uses) != 1:
        return None
    op = uses[0].owner.operation
    if op.name != "stablehlo.convert" or not isinstance(element_type(op.results[0]), ir.F32Type):
        return None
    return op.results[0]


def _tail(value: Any) -> Tail:
    """What follows; a number that a call knows is read as one for each column."""
    columns = graph.shape(value)[-1]
    for use in value.uses:
        user = use.owner.operation
        for place, operand in enumerate(user.operands):
            spread = getattr(operand.owner, "operation", None)
            if spread is None or spread.name != "stablehlo.broadcast_in_dim":
                continue
            if not shape_of(spread.operands[0]):
                with ir.InsertionPoint(user), user.location:
                    row = graph.broadcast(spread.operands[0], [columns])
                    last = [len(graph.shape(value)) - 1]
                    user.operands[place] = graph.broadcast(row, graph.shape(value), last)
    return find_tail(value, (), reshaped=True)


def _call(
    found: IntegerProduct,
    parts: list[Array],
    tail: Tail | None,
    floats: bool,
    library: Library,
    unit: DotUnit,
    value: Any,
) -> Any:
    """The value that takes the place of `value`."""
    inner, outputs = found.weights.shape
    columns = max(outputs, min(unit.lanes))
    weights = np.concatenate(parts)
    weights = np.pad(weights, ((0, -len(weights) % DEPTH), (0, columns - outputs)))
    extra = () if tail is None else (*tail.channels, *tail.tensors)
    result = ByteResult(
        width=found.rows,
        channels=columns,
        read=() if tail is None else ("f32",) * len(tail.tensors),
        bytes=False,
        words=not floats,
        epilogue=Epilogue() if tail is None else tail.epilogue,
    )
    conv = ByteConvolution(width=found.rows, channels=len(weights), result=result, moving=True)
    key = KernelKey(
        kind="product",
        width=found.rows,
        channels=inner * len(parts),
        out_channels=columns,
        bytes=True,
    )
    cut = tiling(conv.steps, unit.vectors, library.cuts.get(str(key)))
    text = byte_convolution_kernel("NAME", conv, cut, unit)
    words = ir.IntegerType.get_signless(32)
    constants = [
        graph.constant(_packed(weights, cut), ir.IntegerType.get_signless(8)),
        graph.constant(-weights.astype(np.int32).sum(0, dtype=np.int32), words),
    ]
    rows = _rows(found, len(parts), unit)
    sizes = graph.shape(value)
    kind = graph.element(value)
    wide = sizes if columns == outputs else (*sizes[:-1], columns)
    made = library.call(
        f"{key}_moving",
        text,
        [rows, *constants, _zero(found, unit), *extra],
        graph.tensor(wide, kind),
    )
    if columns == outputs:
        return made
    return graph.slice_(made, [0] * len(sizes), sizes, [1] * len(sizes))


def _packed(weights: Array, cut: Tiling) -> Array:
    """Weights as the kernel reads them: panels x fourths of what is summed x panel x 4."""
    fours = weights.reshape(-1, DEPTH, weights.shape[1]).transpose(0, 2, 1)
    return np.stack([fours[:, start : start + cut.panel] for start in cut.starts])


def _rows(found: IntegerProduct, times: int, unit: DotUnit) -> Any:
    """The left side as the processor multiplies it: side by side so often, and filled up."""
    inner = found.weights.shape[0]
    byte = ir.IntegerType.get_signless(8)
    value = found.bytes
    if not found.is_signed:
        value = _called_signless(value, byte)
    if found.is_signed != unit.signed:
        value = _changed("xor", value, -_HALF, byte)
    value = graph.reshape(value, [math.prod(graph.shape(value)) // inner, inner])
    if times > 1:
        value = graph.concatenate([value] * times, 1)
    filler = graph.fill(0, (), byte)
    return graph.pad(value, filler, [0, 0], [0, -inner * times % DEPTH])


def _zero(found: IntegerProduct, unit: DotUnit) -> Any:
    """The zero point among the bytes that the processor multiplies, [1]."""
    words = ir.IntegerType.get_signless(32)
    shift = _HALF * (found.is_signed - unit.signed)
    if found.zero is None:
        return graph.fill(shift, [1], words)
    zero = _changed("add", found.zero, shift, words) if shift else found.zero
    return graph.reshape(zero, [1])


def _called_signless(value: Any, byte: Any) -> Any:
    """Unsigned bytes under the type that kernels take."""
    op = getattr(value.owner, "operation", None)
    if op is not None and op.name == "stablehlo.bitcast_convert":
        inner = op.operands[0]
        return inner if graph.element(inner) == byte else _called_signless(inner, byte)
    return graph.bitcast(value, byte)


def _changed(name: str, value: Any, number: int, kind: Any) -> Any:
    """A value with a number added or its bits turned; the value before the same was undone."""
    op = getattr(value.owner, "operation", None)
    if op is not None and op.name == f"stablehlo.{name}":
        undone = number if name == "xor" else -number
        if splat(op.operands[1]) == undone:
            return op.operands[0]
    return graph.binary(name, value, graph.fill(number, graph.shape(value), kind))
