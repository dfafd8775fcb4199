"""Weights of a convolution or product to the panels that a kernel reads.

Constants are packed here and now. Weights that come from a file are packed by operations of their
own, which run once, when the module is loaded; those of a call, as in training, by a kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.known import evaluated
from edgec.toolchain.ir.read import numbers_of, shape_of
from edgec.toolchain.ir.weights import Weights
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.packing import packed_by_kernel
from edgec.toolchain.kernels.cpu.source import WEIGHTS
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["PackedWeights", "pack_matrix"]

_Array = np.ndarray[Any, np.dtype[Any]]


class PackedWeights:
    """Weights packed so far: what several operations use in the same panels is packed once."""

    def __init__(self, library: Library, unit: VectorUnit) -> None:
        """Pack weights that are known now or when a module is loaded, and those of a call.

        Args:
            library: where the kernels go that pack the weights of a call.
            unit: the vector registers of the target.
        """
        self._library = library
        self._unit = unit
        self._known = Weights(library.module)
        self._made: dict[tuple[Any, tuple[int, ...], int, bool], Any] = {}
        self._panels: dict[Any, set[int]] = {}

    def pack(self, op: Any, starts: Sequence[int], panel: int) -> Any:
        """The weights of `op`, packed: panels x (window and input channels) x panel, f32.

        Args:
            op: a convolution with a kernel in the order rows, columns, input, output channels; or
                a product by a matrix.
            starts: the first output channel of each panel.
            panel: output channels of a panel.
        """
        weights = op.operands[1]
        self._panels.setdefault(_origin(weights), set()).add(panel)
        key = (weights, tuple(starts), panel, _contracts_last(op))
        if key not in self._made:
            with _behind(weights):
                self._made[key] = self._by_kernel(op, starts, panel) or _pack(op, starts, panel)
        return self._made[key]

    def panels(self, op: Any) -> set[int]:
        """How wide the panels are that these weights were packed into so far."""
        return self._panels.get(_origin(op.operands[1]), set())

    def _by_kernel(self, op: Any, starts: Sequence[int], panel: int) -> Any | None:
        """As `pack`, where weights change from call to call; None elsewhere."""
        weights = op.operands[1]
        if op.name != "stablehlo.convolution" or self._known.holds(weights):
            return None
        return packed_by_kernel(weights, starts, panel, self._library, self._unit)

    def turn(self, op: Any, starts: Sequence[int], panel: int) -> Any | None:
        """The weights of a 3 x 3 window for Winograd's kernel: panels x 16 x channels x panel.

        None where they are not known when compiling.
        """
        weights = op.operands[1]
        array = evaluated(weights)
        if array is None:
            return None
        key = (weights, tuple(starts), panel, True)
        if key not in self._made:
            outer = np.array(WEIGHTS)
            # Of a film's convolution over two axes, which has a window of one along the third.
            array = array.reshape(3, 3, *array.shape[-2:])
            points = np.einsum("ai,bj,ijco->abco", outer, outer, array, optimize=True)
            points = points.reshape(16, *array.shape[2:]).astype(np.float32)
            packed = np.stack([points[..., start : start + panel] for start in starts])
            with ir.InsertionPoint.after(weights.owner.operation):
                self._made[key] = _constant(np.ascontiguousarray(packed))
        return self._made[key]


def _origin(value: Any) -> Any:
    """The weights that a program has, of what it moves before it multiplies with them."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _MOVES:
        value = value.owner.operands[0]
    return value


_MOVES = ("stablehlo.transpose", "stablehlo.reshape")


def _behind(value: Any) -> Any:
    """The insertion point where a value is there: an argument is from the beginning."""
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner.operation)


def pack_matrix(weights: Any, starts: Sequence[int], panel: int, *, turned: bool) -> Any:
    """A matrix of inputs x outputs as panels x inputs x panel, at the insertion point.

    Args:
        weights: the matrix.
        starts: the first output of each panel.
        panel: outputs of a panel.
        turned: whether it is a matrix of outputs x inputs.
    """
    array = evaluated(weights)
    if array is None:
        return _pack_value(_transpose(weights, [1, 0]) if turned else weights, starts, panel)
    matrix = array.T if turned else array
    packed = np.stack([matrix[:, start : start + panel] for start in starts])
    return _constant(np.ascontiguousarray(packed))


def _pack(op: Any, starts: Sequence[int], panel: int) -> Any:
    array = evaluated(op.operands[1])
    if array is None:
        return _pack_value(_matrix(op), starts, panel)
    if _contracts_last(op):
        array = array.T
    matrix = array.reshape(-1, array.shape[-1])
    packed = np.stack([matrix[:, start : start + panel] for start in starts])
    return _constant(np.ascontiguousarray(packed))


def _constant(array: _Array) -> Any:
    kind = ir.RankedTensorType.get(array.shape, ir.F32Type.get())
    if array.size == 1 or bool((array == array.flat[0]).all()):
        value = ir.DenseElementsAttr.get_splat(
            kind, ir.FloatAttr.get(ir.F32Type.get(), float(array.flat[0]))
        )
    else:
        value = ir.DenseElementsAttr.get(array)
    return ir.Operation.create(
        "stablehlo.constant", results=[kind], attributes={"value": value}
    ).result


def _contracts_last(op: Any) -> bool:
    """Whether the weights are a matrix of output x input channels."""
    if op.name != "stablehlo.dot_general":
        return False
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    return numbers["rhs_contracting_dimensions"] == [1]


def _matrix(op: Any) -> Any:
    """The weights as a value: window and input channels x output channels."""
    weights = op.operands[1]
    if _contracts_last(op):
        return _transpose(weights, [1, 0])
    sizes = [size or 0 for size in shape_of(weights)]
    return _reshape(weights, [math.prod(sizes[:-1]), sizes[-1]])


def _pack_value(matrix: Any, starts: Sequence[int], panel: int) -> Any:
    rows, columns = (size or 0 for size in shape_of(matrix))
    # Panels that follow each other; those of groups, and the last, may overlap.
    whole = len(list(takewhile(lambda place: starts[place] == place * panel, range(len(starts)))))
    parts = []
    if whole:
        body = matrix if whole * panel == columns else _slice(matrix, 0, whole * panel)
        parts.append(_transpose(_reshape(body, [rows, whole, panel]), [1, 0, 2]))
    for start in starts[whole:]:
        parts.append(_reshape(_slice(matrix, start, start + panel), [1, rows, panel]))
    if len(parts) == 1:
        return parts[0]
    kind = ir.RankedTensorType.get([len(starts), rows, panel], matrix.type.element_type)
    return ir.Operation.create(
        "stablehlo.concatenate",
        results=[kind],
        operands=parts,
        attributes={"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)},
    ).result


def _transpose(value: Any, order: Sequence[int]) -> Any:
    kind = value.type
    sizes = [kind.shape[i] for i in order]
    return ir.Operation.create(
        "stablehlo.transpose",
        results=[ir.RankedTensorType.get(sizes, kind.element_type)],
        operands=[value],
        attributes={"permutation": ir.DenseI64ArrayAttr.get(list(order))},
    ).result


def _reshape(value: Any, sizes: Sequence[int]) -> Any:
    kind = ir.RankedTensorType.get(list(sizes), value.type.element_type)
    if kind == value.type:
        return value
    return ir.Operation.create("stablehlo.reshape", results=[kind], operands=[value]).result


def _slice(matrix: Any, start: int, stop: int) -> Any:
    rows = matrix.type.shape[0]
    return ir.Operation.create(
        "stablehlo.slice",
        results=[ir.RankedTensorType.get([rows, stop - start], matrix.type.element_type)],
        operands=[matrix],
        attributes={
            "start_indices": ir.DenseI64ArrayAttr.get([0, start]),
            "limit_indices": ir.DenseI64ArrayAttr.get([rows, stop]),
            "strides": ir.DenseI64ArrayAttr.get([1, 1]),
        },
    ).result
