"""Gather and scatter with dynamic shapes.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    element_type,
    integers,
    is_unsigned,
    numbers_of,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter, axes, fixed
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Size, constant

__all__ = ["gather", "scatter"]


def gather(e: Emitter) -> bool:
    """A slice where one start is known on the host; else a `linalg.generic` that looks up."""
    operand, indices = e.operand(0), e.operand(1)
    own, shape = e.sizes.of(operand), e.sizes.of(e.op.results[0])
    numbers = numbers_of(e.op.attributes["dimension_numbers"])
    offsets = numbers.get("offset_dims", [])
    collapsed = numbers.get("collapsed_slice_dims", [])
    batching = numbers.get("operand_batching_dims", [])
    indices_batching = numbers.get("start_indices_batching_dims", [])
    start_map = numbers.get("start_index_map", [])
    (vector,) = numbers.get("index_vector_dim", [0])
    if e.op.name == "stablehlo.dynamic_gather":
        slices: Sequence[Size] = e.sizes.elements(e.op.operands[2])
    else:
        slices = [constant(n) for n in integers(e.op, "slice_sizes")]
    index_rank = len(shape_of(indices))
    batch = [axis for axis in range(len(shape)) if axis not in offsets]
    last = {axis: e.index(own[axis] - slices[axis]) for axis in start_map}

    starts = e.sizes.elements(indices) if not batch and not batching else ()
    if starts and all(a.operation != "element" for s in starts for a in s.atoms):
        at = [e.number(0)] * len(own)
        for k, axis in enumerate(start_map):
            at[axis] = e.clamp(e.index(starts[k]), e.number(0), last[axis])
        kind = e.tensor(shape, element_type(operand))
        e.finish(e.extract_slice(operand, at, slices, kind))
        return True

    index_axes = [axis for axis in range(index_rank) if axis != vector]
    loop_of = dict(zip(index_axes, batch, strict=True))
    unsigned = is_unsigned(element_type(e.op.operands[1]))
    reads = [
        [fixed(k) if axis == vector else axes([loop_of[axis]])[0] for axis in range(index_rank)]
        for k in range(len(start_map))
    ]
    window = [axis for axis in range(len(own)) if axis not in (*collapsed, *batching)]

    def look_up(arguments: Sequence[Any]) -> Sequence[Any]:
        at: list[Any] = [None] * len(own)
        for axis, loop in zip(window, offsets, strict=True):
            at[axis] = e.loop(loop)
        for axis, index_axis in zip(batching, indices_batching, strict=True):
            at[axis] = e.loop(loop_of[index_axis])
        for k, axis in enumerate(start_map):
            start = e.to_index(arguments[k], unsigned=unsigned)
            start = e.clamp(start, e.number(0), last[axis])
            at[axis] = start if at[axis] is None else e.arith("addi", at[axis], start)
        at = [e.number(0) if place is None else place for place in at]
        return [e.create("tensor.extract", element_type(operand), [operand, *at])]

    rank = len(shape)
    into = e.empty(shape, element_type(operand))
    e.finish(e.generic([indices] * len(reads), reads, into, axes(range(rank)), rank, look_up))
    return True


def scatter(e: Emitter) -> bool:
    """Many batch dimensions become one, which is all that the compiler takes.

    Dimensions that operand and indices have in common become one more column of the indices.
    """
    op = e.op
    numbers = numbers_of(op.attributes["scatter_dimension_numbers"])
    count = len(op.results)
    for i in range(count):
        op.operands[i] = e.owned(op.operands[i])
    indices = op.operands[count]
    rank = len(shape_of(indices))
    (vector,) = numbers.get("index_vector_dim", [0])
    batching = numbers.get("input_batching_dims", [])
    window = numbers.get("update_window_dims", [])
    batch_rank = rank - (vector < rank)
    if is_unsigned(element_type(indices)) or (batch_rank == 1 and not batching):
        return False
    if vector < rank - 1 or any(w < batch_rank for w in window):
        return False
    shape = e.sizes.of(indices)
    if vector == rank:
        shape = (*shape, constant(1))
        groups = [[i] for i in range(rank - 1)] + [[rank - 1, rank]]
        indices = e.expand(indices, groups, shape) if rank else e.expand(indices, [], shape)
    columns = [_column(e, indices, shape, axis) for axis in _indices_batching(numbers)]
    if columns:
        indices = _join(e, [*columns, indices], shape)
    width = (shape[-1].number or 0) + len(columns)
    total = constant(1)
    for size in shape[:-1]:
        total = total * size
    flat = (total, constant(width))
    indices = _merge(e, indices, batch_rank, flat)
    updates = []
    for update in list(op.operands)[count + 1 :]:
        own = e.sizes.of(update)
        updates.append(_merge(e, update, batch_rank, (total, *own[batch_rank:])))
    inserted = sorted(numbers.get("inserted_window_dims", []) + batching)
    targets = batching + numbers.get("scatter_dims_to_operand_dims", [])
    copy = op.clone()
    for i, value in enumerate([indices, *updates], start=count):
        copy.operands[i] = value
    copy.attributes["scatter_dimension_numbers"] = ir.Attribute.parse(
        f"#stablehlo.scatter<update_window_dims = {[w - batch_rank + 1 for w in window]}, "
        f"inserted_window_dims = {inserted}, scatter_dims_to_operand_dims = {targets}, "
        "index_vector_dim = 1>"
    )
    e.finish(*copy.results)
    return True


def _indices_batching(numbers: dict[str, list[int]]) -> list[int]:
    return numbers.get("scatter_indices_batching_dims", [])


def _column(e: Emitter, indices: Any, shape: Sequence[Size], axis: int) -> Any:
    """The position along one axis of the indices, as a column of theirs."""
    kind = element_type(indices)
    column = (*shape[:-1], constant(1))
    rank = len(column)
    return e.generic(
        [],
        [],
        e.empty(column, kind),
        axes(range(rank)),
        rank,
        lambda _: [e.create("arith.index_cast", kind, [e.loop(axis)])],
    )


def _join(e: Emitter, columns: Sequence[Any], shape: Sequence[Size]) -> Any:
    """Columns side by side; the last one may be several."""
    kind = element_type(columns[0])
    width = len(columns) - 1
    joined = (*shape[:-1], constant(width) + shape[-1])
    rank = len(joined)
    highest = e.index(shape[-1] - constant(1))

    def choose(_: Sequence[Any]) -> Sequence[Any]:
        *at, k = [e.loop(i) for i in range(rank)]
        last = e.clamp(e.arith("subi", k, e.number(width)), e.number(0), highest)
        chosen = e.create("tensor.extract", kind, [columns[-1], *at, last])
        for i in reversed(range(width)):
            element = e.create("tensor.extract", kind, [columns[i], *at, e.number(0)])
            here = e.compare(0, k, e.number(i))
            chosen = e.create("arith.select", kind, [here, element, chosen])
        return [chosen]

    return e.generic([], [], e.empty(joined, kind), axes(range(rank)), rank, choose)


def _merge(e: Emitter, value: Any, batch_rank: int, shape: Sequence[Size]) -> Any:
    """The first `batch_rank` axes as one."""
    rank = len(shape_of(value))
    if batch_rank == 1:
        return value
    if batch_rank == 0:
        return e.expand(value, [[0, 1], *([i] for i in range(2, rank + 1))] if rank else [], shape)
    groups = [list(range(batch_rank)), *([i] for i in range(batch_rank, rank))]
    return e.collapse(value, groups, shape)
