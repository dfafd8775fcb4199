"""A `pad` of what lies in memory to a dispatch that writes it with its edge, turned on the way.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.views import Strided, identity
from edgec.toolchain.ir.weights import Weights
from edgec.toolchain.kernels.gpu import dispatches
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin, Work
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.laid_out import AXES, grid_of, moved
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.product import operations_named

__all__ = ["place_edges"]

_LEAST = 1 << 14
"""Bytes of a result; below nothing was measured."""
_LARGEST = 2**31
_KERNEL = "flow.dispatch"
_BYTES = {"f16": 2, "f32": 4, "i32": 4}


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Of the result: its size, where what is inside begins and how long it is, and its step."""

    size: int
    low: int
    inner: int
    step: int

    @property
    def whole(self) -> bool:
        """Whether it has no edge."""
        return self.inner == self.size


@dataclass(frozen=True, kw_only=True)
class _Edge:
    """What is padded, where it lies, and by which number."""

    view: Strided
    axes: list[_Axis]
    number: float


def place_edges(module: Any, library: Library, weights: Weights) -> None:
    """Replace each `pad` and what turned its operand by a kernel, if one takes it.

    The compiler fills the whole result and copies into it, in two dispatches of which the second
    has a few elements a workgroup, and turns rows before that in a third. What it computes itself
    it writes to where that belongs. Edges that windows put around an image are taken off them
    first.
    """
    for op in operations_named(module, "stablehlo.reduce_window") if library.compiles else ():
        _separate(op)
    found = operations_named(module, "stablehlo.pad")
    for op in [each for each in found if not _is_within(each)]:
        _replace(op, library, weights)


def _separate(op: Any) -> None:
    """The edge of a window's image as an operation of its own, if a kernel can do that."""
    if len(op.operands) != 2 or "padding" not in op.attributes:
        return
    (value, first), around = op.operands, np.array(op.attributes["padding"]).reshape(-1, 2)
    spread = "base_dilations" in op.attributes and max(write.integers(op, "base_dilations")) > 1
    most = np.array(write.integers(op, "window_dimensions"))[:, None] // 2
    # A running sum is a window as long as its axis, with an edge as long; other passes know it so.
    plain = around.any() and (around >= 0).all() and (around <= most).all() and not spread
    known = write.is_static(value) and Constants().number(first) is not None
    if not (plain and known and _lies(moved(identity(value)))):
        return
    low, high = (tuple(map(int, side)) for side in around.T)
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = write.pad(value, first, low, high)
    op.attributes["padding"] = ir.DenseElementsAttr.get(np.zeros_like(around, np.int64))


def _is_within(op: Any) -> bool:
    """Whether an edge of the same number goes around this one, and nothing else reads it."""
    number, users = _number(op), [use.owner.operation for use in op.results[0].uses]
    return number is not None and all(
        user.name == "stablehlo.pad" and _number(user) == number for user in users
    )


def _replace(op: Any, library: Library, weights: Weights) -> None:
    """One of them; keep the answer."""
    inner, (value,) = op.operands[0], op.results
    size = _BYTES.get(str(write.element(value)))
    if size is None or not write.is_static(inner, value) or weights.holds(inner):
        return
    bytes_ = size * math.prod(write.shape(value))
    found = _read(op) if _LEAST <= bytes_ < size * _LARGEST else None
    if found is None:
        return
    origin = Origin(name=op.name, location=op.location)
    work = Work(bytes=bytes_ + size * math.prod(write.shape(inner)))
    what = f"pad to {'x'.join(map(str, write.shape(value)))}, {write.element(value)}"
    library.answers.record(origin, what, work, _place(op, found, library))


def _read(op: Any) -> _Edge | None:
    """An edge of one number around what a call is given or a kernel has made."""
    number = _number(op)
    if number is None:
        return None
    inner, low, high = _inside(op, number)
    view = moved(identity(inner))
    if not _lies(view):
        return None
    axes: list[_Axis] = []
    for parts, before, behind in zip(view.axes, low, high, strict=True):
        if len(parts) > 1 and (before or behind):
            return None
        for part in parts:
            size = before + part.size + behind
            axes.append(_Axis(size=size, low=before, inner=part.size, step=part.step))
        if not parts and (before or behind):
            axes.append(_Axis(size=before + 1 + behind, low=before, inner=1, step=0))
    return _Edge(view=view, axes=_joined(axes), number=number)


def _lies(view: Strided) -> bool:
    """Whether they lie in memory whatever the compiler does: a call's, or that of a kernel."""
    owner = view.value.owner
    return isinstance(owner, ir.Block) or owner.operation.name == _KERNEL


def _number(op: Any) -> float | None:
    """What an operation puts around a tensor, if it does nothing else."""
    around = [*write.integers(op, "edge_padding_low"), *write.integers(op, "edge_padding_high")]
    if any(write.integers(op, "interior_padding")) or any(each < 0 for each in around):
        return None
    return Constants().number(op.operands[1])


def _inside(op: Any, number: float) -> tuple[Any, list[int], list[int]]:
    """What lies within edges of the same number, and these together: before and behind."""
    inner = op.results[0]
    low = high = [0] * len(write.shape(inner))
    while not isinstance(inner.owner, ir.Block):
        made = inner.owner.operation
        if made.name != "stablehlo.pad" or _number(made) != number:
            break
        before, behind = (write.integers(made, f"edge_padding_{side}") for side in ("low", "high"))
        low = [a + b for a, b in zip(low, before, strict=True)]
        high = [a + b for a, b in zip(high, behind, strict=True)]
        inner = made.operands[0]
    return inner, low, high


def _joined(axes: list[_Axis]) -> list[_Axis]:
    """Neighbours that have no edge and are one run as one."""
    found: list[_Axis] = []
    for axis in axes:
        last = found[-1] if found else None
        runs = last is not None and last.whole and axis.whole
        if last is not None and runs and last.step == axis.step * axis.size:
            size = last.size * axis.size
            found[-1] = replace(axis, size=size, inner=size)
        else:
            found.append(axis)
    return found


def _place(op: Any, edge: _Edge, library: Library) -> Kernel | Declined:
    (value,) = op.results
    if len(edge.axes) > len(AXES):
        return Declined(reason=f"an edge of {len(edge.axes)} axes")
    element = str(write.element(value))
    shader = shaders.edge("f16" if element == "f16" else "f32")
    one = _Axis(size=1, low=0, inner=1, step=0)
    many = math.prod(axis.size for axis in edge.axes)
    numbers = {"many": many, "start": edge.view.start, "edge_bits": _bits(edge.number, element)}
    four = [*[one] * (len(AXES) - len(edge.axes)), *edge.axes]
    for name, axis in zip(AXES, four, strict=True):
        numbers |= {f"size_{name}": axis.size, f"low_{name}": axis.low}
        numbers |= {f"inner_{name}": axis.inner, f"step_{name}": axis.step}
    values = {name: numbers[name] for name in shader.numbers}
    with ir.InsertionPoint(op), op.location:
        made = library.call(shader, grid_of(many, shader), values, [edge.view.value], value.type)
        if isinstance(made, Declined):
            return made
        dispatches.replace(value, made)
    return Kernel(name=shader.name)


def _bits(number: float, element: str) -> int:
    """The number as the kernel takes it: an integer, or the bits of an f32."""
    kind = "<i" if element == "i32" else "<f"
    packed = struct.pack(kind, int(number) if element == "i32" else number)
    return int.from_bytes(packed, "little", signed=True)
