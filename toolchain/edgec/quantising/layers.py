"""Which weights of a program are matrices that products multiply by or rows are looked up in.

A module imported only by what rewrites programs; it needs the compiler.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.places import is_packages, source_line
from edgec.toolchain.ir.read import element_type, is_float, numbers_of, shape_of
from edgec.toolchain.ir.views import Digit, Strided, before, dense, joined
from edgec.toolchain.match.block_product import read_block_product
from edgec.toolchain.match.blocks import read_block_rows
from edgec.toolchain.match.look_up import LOOK_UPS, read_look_up, read_pieces
from edgec.toolchain.program import Parameter, ProgramInfo

__all__ = ["Kept", "Layer", "find_layers"]

_LEAST = 4096
"""Weights below which a matrix stays as it is."""
_Array = np.ndarray[Any, np.dtype[Any]]
_View = tuple[Any, int, int, bool]
_ONE_OF_SEVERAL = "several matrices in one: no kernel reads one of these in blocks"
_PARTS = frozenset({*LOOK_UPS, "stablehlo.dynamic_gather", "stablehlo.real_dynamic_slice"})
"""Operations that take parts of a table, where it is said at a call which."""


@dataclass(kw_only=True)
class Layer:
    """A matrix of weights that products multiply by, a table that rows are looked up in, or both.

    Attributes:
        key: what all its values share: a constant's attribute, or a parameter's name.
        name: the parameter's name, or empty.
        where: the user's line of the first operation that reads it.
        outputs, inner: rows of the matrix, and what is summed; rows of a table, and their numbers.
        turned: whether it lies as inner x outputs.
        multiplied: whether a product is by it.
        looked_up: whether rows of it are looked up.
        numbers: the weights as they lie in the program.
        values: the values that hold it, one for each function.
    """

    key: Any
    name: str
    where: str
    outputs: int
    inner: int
    turned: bool
    numbers: _Array
    multiplied: bool = False
    looked_up: bool = False
    values: list[Any] = field(default_factory=list)

    @property
    def matrix(self) -> _Array:
        """Outputs x inner."""
        if self.turned:
            return self.numbers.reshape(self.inner, self.outputs).T
        return self.numbers.reshape(self.outputs, self.inner)

    def placed(self, matrix: _Array) -> _Array:
        """A matrix of outputs x inner as the weights lie in the program."""
        return (matrix.T if self.turned else matrix).reshape(self.numbers.shape)

    @property
    def what(self) -> str:
        """In a few words: `576 x 1536`, `30522 rows of 384`."""
        if not self.multiplied:
            return f"{self.outputs} rows of {self.inner}"
        return f"{self.inner} x {self.outputs}"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Weights that stay as they are, and why; whether rows of them are looked up."""

    where: str
    what: str
    reason: str
    looked_up: bool = False


def find_layers(
    module: Any, info: ProgramInfo, weights: Mapping[str, _Array]
) -> tuple[list[Layer], list[Kept]]:
    """The matrices of a program's products and its tables, in order, and which others stay.

    Args:
        module: the program, its calls inlined.
        info: its description.
        weights: its parameters by name.
    """
    names: dict[Any, str] = {}
    found = functions(module)
    for function in info.functions:
        block = entry_block(found[function.signature.name])
        for argument, role in zip(block.arguments, function.arguments, strict=True):
            if isinstance(role, Parameter):
                names[argument] = role.name
    layers: dict[Any, Layer] = {}
    kept: dict[tuple[str, str], Kept] = {}

    def keep(op: Any, what: str, reason: str) -> None:
        where = source_line(op) or ""
        found = Kept(where=where, what=what, reason=reason, looked_up=op.name in _PARTS)
        kept.setdefault((where, what), found)

    known = Constants()
    for op in inside(module.operation):
        if op.name == "stablehlo.convolution":
            root = _root(op.operands[1], names)
            if root is not None:
                keep(op, _sizes_text(root), "a convolution: kernels read none in blocks")
            continue
        if op.name in _PARTS:
            view, reason = _table_of(op, names, known)
            if reason:
                keep(op, _sizes_text(op.operands[0]), reason)
        elif op.name == "stablehlo.dot_general":
            view = _matrix_of(op, 1, names)
            if view is None and (blocks := read_block_product(op)) is not None:
                sizes = f"{blocks.weights.inner} x {blocks.weights.outputs}"
                keep(op, sizes, f"in blocks already, {blocks.weights}")
            elif view is None and _matrix_of(op, 0, names) is not None:
                keep(op, _sizes_text(op.operands[0]), "weights on a product's left side")
            elif view is None and (root := _root(op.operands[1], names, parts=True)) is not None:
                keep(op, _sizes_text(root), _ONE_OF_SEVERAL)
        else:
            continue
        if view is None:
            continue
        root, outputs, inner, _ = view
        if str(element_type(root)) != "f32":
            keep(op, _sizes_text(root), f"weights of {element_type(root)}")
        elif outputs * inner < _LEAST:
            keep(op, _sizes_text(root), f"fewer than {_LEAST:,} weights")
        else:
            _add(layers, op, view, names, weights)
    return list(layers.values()), list(kept.values())


def _add(
    layers: dict[Any, Layer],
    op: Any,
    view: _View,
    names: Mapping[Any, str],
    weights: Mapping[str, _Array],
) -> None:
    root, outputs, inner, turned = view
    name = names.get(root, "")
    key = name or root.owner.operation.attributes["value"]
    if key not in layers:
        numbers = weights[name] if name else literal(root.owner.operation)
        if numbers is None:
            return
        layers[key] = Layer(
            key=key,
            name=name,
            where=_place(op, name),
            outputs=outputs,
            inner=inner,
            turned=turned,
            numbers=numbers,
        )
    layer = layers[key]
    is_product = op.name == "stablehlo.dot_general"
    layer.multiplied |= is_product
    layer.looked_up |= not is_product
    if root not in layer.values:
        layer.values.append(root)


def _place(op: Any, name: str) -> str:
    """The user's line; where there is none, the weight's name, alike for all layers of a kind."""
    line = source_line(op)
    if line is None or (name and is_packages(line.rpartition(":")[0])):
        line = re.sub(r"(?<![^._])\d+(?![^._])", "*", name)
    return line or "a line that the framework did not keep"


def _table_of(op: Any, names: Mapping[Any, str], known: Constants) -> tuple[_View | None, str]:
    """The table that an operation looks up rows of, as `_matrix_of` has it, or why it stays."""
    value = op.operands[0]
    sizes = [size or 0 for size in shape_of(value)]
    if len(sizes) < 2 or 0 in sizes or not is_float(element_type(value)):
        return None, ""
    axes = range(len(sizes))
    view, found = _seen(value, [], axes[:-1], axes[-1:], names), read_look_up(op)
    root = _root(value, names) if view is None else view[0]
    if root is None:
        blocks = None if found is None else read_block_rows(value)
        return None, f"in blocks already, {blocks}" if blocks else ""
    if found is None:
        is_matrix = len(sizes) > 2 and read_pieces(op.results[0]) is not None
        reason = _ONE_OF_SEVERAL if is_matrix else "looked up by other than whole rows"
    elif view is None or view[3]:
        reason = "looked up by column"
    elif root not in names and known.of(found.places) is not None:
        reason = "always the same rows, and a module has only these"
    else:
        return view, ""
    return None, reason if math.prod(sizes) >= _LEAST else ""


def _matrix_of(op: Any, side: int, names: Mapping[Any, str]) -> _View | None:
    """The weights of a product's side: whose memory, outputs, inner, whether inner comes first."""
    value = op.operands[side]
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    word = ("lhs", "rhs")[side]
    batch = numbers.get(f"{word}_batching_dimensions", [])
    inner = numbers.get(f"{word}_contracting_dimensions", [])
    own = [axis for axis in range(len(shape_of(value))) if axis not in (*batch, *inner)]
    return _seen(value, batch, own, inner, names)


def _seen(
    value: Any,
    batch: Sequence[int],
    own: Sequence[int],
    inner: Sequence[int],
    names: Mapping[Any, str],
) -> _View | None:
    """The weights that a value is moved from, by its axes: repeated ones, rows, what is summed."""
    sizes = [size or 0 for size in shape_of(value)]
    if 0 in sizes:
        return None
    steps = dense(sizes)

    def run(axes: Sequence[int]) -> tuple[Digit, ...]:
        return joined([Digit(size=sizes[a], step=steps[a]) for a in axes if sizes[a] > 1])

    view: Strided | None = Strided(value=value, start=0, axes=(run(batch), run(own), run(inner)))
    while view is not None and not _is_root(view.value, names):
        view = before(view)
    if view is None:
        return None
    repeated, rows, columns = view.axes
    if any(digit.step for digit in repeated) or len(rows) > 1 or len(columns) != 1:
        return None
    outputs, summed = math.prod(d.size for d in rows), columns[0].size
    whole = math.prod(size or 0 for size in shape_of(view.value))
    if view.start or outputs * summed != whole:
        return None
    lies = (rows[0].step if rows else summed, columns[0].step)
    if lies == (summed, 1):
        return view.value, outputs, summed, False
    return (view.value, outputs, summed, True) if lies == (1, outputs) else None


def _root(value: Any, names: Mapping[Any, str], *, parts: bool = False) -> Any | None:
    """The weights that a value is moved from, or with `parts` cut from."""
    moves = ("reshape", "transpose", "convert", *(["slice"] if parts else []))
    while not _is_root(value, names):
        if isinstance(value.owner, ir.Block) or not value.owner.operation.operands:
            return None
        op = value.owner.operation
        if op.name not in [f"stablehlo.{name}" for name in moves]:
            return None
        value = op.operands[0]
    return value


def _is_root(value: Any, names: Mapping[Any, str]) -> bool:
    if value in names:
        return True
    if isinstance(value.owner, ir.Block):
        return False
    return bool(value.owner.operation.name == "stablehlo.constant")


def _sizes_text(value: Any) -> str:
    return " x ".join(str(size) for size in shape_of(value))
