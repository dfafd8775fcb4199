"""A `transpose` of what a kernel has made, rows by columns, to a dispatch of its kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin, Work
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library

__all__ = ["place_transpose"]

_FOUR = 4
_LEAST = 1 << 18
"""Bytes of a result below which the compiler's code takes as long as a launch."""
_LARGEST = 2**31
_KERNEL = "flow.dispatch"


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """[batch, m, n] of the first columns of [batch, m, room], to [batch, n, m]."""

    source: Any
    batch: int
    m: int
    n: int
    room: int


def place_transpose(op: Any, library: Library) -> None:
    """Replace `op` by a kernel, if that is worth it; keep the answer.

    The compiler gives one row of threads with odd columns one element each. What it computes itself
    it turns as it writes it.
    """
    (value,) = op.results
    if library.shares or not write.is_static(value) or str(write.element(value)) != "f32":
        return
    turn = _read(op)
    if turn is None or 4 * turn.batch * turn.m * turn.n < _LEAST:
        return
    origin = Origin(name=op.name, location=op.location)
    work = Work(bytes=8 * turn.batch * turn.m * turn.n)
    what = f"transpose: {turn.batch}x{turn.m}x{turn.n}"
    library.answers.record(origin, what, work, _place(op, turn, library))


def _place(op: Any, turn: _Turn, library: Library) -> Kernel | Declined:
    if turn.m % _FOUR:
        return Declined(reason=f"{turn.m} rows, not fours")
    shader = shaders.transpose()
    groups = math.ceil(turn.m // _FOUR * turn.n / shader.threads)
    if max(groups, turn.batch) > MOST_GROUPS or turn.batch * turn.m * turn.room >= _LARGEST:
        return Declined(reason=f"{turn.batch} by {turn.m} by {turn.room} elements")
    values = {"m": turn.m, "n": turn.n, "room": turn.room}
    with ir.InsertionPoint(op), op.location:
        kind = write.tensor((turn.batch, turn.n, turn.m), ir.F32Type.get())
        made = library.call(shader, (groups, 1, turn.batch), values, [turn.source], kind)
        if isinstance(made, Declined):
            return made
        replace(op.results[0], made)
    return Kernel(name=shader.name)


def _read(op: Any) -> _Turn | None:
    """What it turns, if that comes from a kernel and is rows by columns."""
    (value,) = op.operands
    order = write.integers(op, "permutation")
    sizes = write.shape(value)
    fixed = next((i for i, axis in enumerate(order) if axis != i), len(order))
    rest = order[fixed:]
    columns = len(sizes) - rest[0] if rest else 0
    turned = [*range(len(sizes) - columns, len(sizes)), *range(fixed, len(sizes) - columns)]
    if not rest or rest != turned:
        return None
    batch, n = math.prod(sizes[:fixed]), math.prod(sizes[len(sizes) - columns :])
    m = math.prod(sizes[fixed : len(sizes) - columns])
    room = n
    while not isinstance(value.owner, ir.Block):
        made = value.owner.operation
        if made.name == _KERNEL:
            return _Turn(source=value, batch=batch, m=m, n=n, room=room)
        if made.name == "stablehlo.slice" and room == n and _first_columns(made, n):
            room = write.shape(made.operands[0])[-1]
        elif made.name != "stablehlo.reshape":
            return None
        (value,) = made.operands
    return None


def _first_columns(op: Any, n: int) -> bool:
    """Whether a slice takes all rows of the first n columns, each as it is."""
    before, after = write.shape(op.operands[0]), write.shape(op.results[0])
    whole = not any(write.integers(op, "start_indices"))
    near = all(step == 1 for step in write.integers(op, "strides"))
    return whole and near and after[-1] == n and before[:-1] == after[:-1]
