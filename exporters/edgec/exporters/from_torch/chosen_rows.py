"""Rows that a mask chooses, treated row by row and added up again, as all rows and a mask.

A mixture of experts as one writes it down: of each expert the tokens that go to it
(`torch.where(mask[expert])`), the expert on those, and the answers added where the tokens came
from. How many they are depends on data; but as long as rows do not know of each other, all that
might be chosen can go that way, and those that were not add nothing.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.writing import Writer, given

__all__ = ["take_all_rows"]


def take_all_rows(program: Any) -> None:
    """Replace `nonzero` in a program's graph where all that it chooses is treated row by row."""
    import torch

    graph = program.graph_module.graph
    changed = False
    order = {node: place for place, node in enumerate(graph.nodes)}
    for node in [n for n in order if n.target is torch.ops.aten.nonzero.default]:
        chosen = _chosen(node, order)
        if chosen is not None:
            _take_all(graph, chosen)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """One `nonzero` and all that hangs on it.

    Attributes:
        places: the `nonzero` itself.
        rows: what has an entry a chosen row, in order, and along which axis.
        numbers: how many rows there are, and what is worked out of that.
        checks: what gives nothing.
        sums: where rows are added to something of a known size, and which operand they are.
    """

    places: Any
    rows: Mapping[Any, int]
    numbers: tuple[Any, ...]
    checks: tuple[Any, ...]
    sums: Mapping[Any, int]


def _chosen(places: Any, order: Mapping[Any, int]) -> _Chosen | None:
    """What hangs on it; None if rows meet, or a mask has no known size."""
    mask = places.args[0].meta["val"]
    if not all(isinstance(size, int) for size in mask.shape) or not mask.ndim:
        return None
    rows, sums = {places: 0}, {}
    numbers: list[Any] = []
    checks: list[Any] = []
    waiting = set(places.users)
    while waiting:
        node = min(waiting, key=lambda each: order.get(each, -1))
        waiting.remove(node)
        if node not in order or node.op != "call_function":
            return None
        if _is_check(node):
            checks.append(node)
            continue
        if (operand := _sum_of(node, rows)) is not None:
            sums[node] = operand
            continue
        if _is_number(node, rows, numbers):
            numbers.append(node)
        elif (axis := _axis(node, rows, numbers, places)) is not None:
            rows[node] = axis
        else:
            return None
        waiting |= set(node.users)
    del rows[places]
    return _Chosen(
        places=places, rows=rows, numbers=tuple(numbers), checks=tuple(checks), sums=sums
    )


def _is_check(node: Any) -> bool:
    import torch

    aten = torch.ops.aten
    return node.target in (
        *(aten._assert_scalar.default, aten._assert_tensor_metadata.default),
        *(aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default),
    )


def _is_number(node: Any, rows: Mapping[Any, int], numbers: Sequence[Any]) -> bool:
    """Whether it says how many rows there are, or compares that."""
    import torch

    if node.target is torch.ops.aten.sym_size.int:
        return bool(rows.get(node.args[0]) == node.args[1])
    compares = node.target in (operator.ge, operator.le, operator.gt, operator.lt, operator.eq)
    return compares and all(arg in numbers for arg in node.all_input_nodes)


def _sum_of(node: Any, rows: Mapping[Any, int]) -> int | None:
    """Which operand has the rows that it adds to something of a known size; None if it does not."""
    import torch

    aten = torch.ops.aten
    if node.target is aten.index_put.default:
        place, adds = 2, len(node.args) > 3 and bool(node.args[3])
        indices = [index for index in node.args[1] if index is not None]
        axis = node.args[1].index(indices[0])
        beside = list(node.args[1][axis : axis + len(indices)]) == indices
    elif node.target is aten.index_add.default:
        place, adds, beside, indices = 3, True, True, [node.args[2]]
        axis = node.args[1] % node.args[0].meta["val"].ndim
    else:
        return None
    by_row = rows.get(node.args[place]) == axis and all(rows.get(index) == 0 for index in indices)
    return place if adds and beside and by_row and node.args[0] not in rows else None


def _axis(node: Any, rows: Mapping[Any, int], numbers: Sequence[Any], places: Any) -> int | None:
    """Along which axis the result has a row for each of the operand's; None where rows meet."""
    import torch

    aten = torch.ops.aten
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    count = places.meta["val"].shape[0]
    axes = [axis for axis, size in enumerate(value.shape) if str(size) == str(count)]
    known = sum(isinstance(size, int) for size in value.shape)
    if len(axes) != 1 or known != value.ndim - 1:
        return None
    (axis,) = axes
    first = node.args[0]
    operands = [arg for arg in node.all_input_nodes if arg in rows]
    if node.target is not aten.view.default and set(node.all_input_nodes) & {*numbers}:
        return None  # how many they are is part of the answer
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        return axis
    if node.target is aten.index.Tensor:
        chosen = [index for index in node.args[1] if index is not None]
        return axis if first not in rows and all(rows.get(i) == 0 for i in chosen) else None
    if node.target is aten.embedding.default:
        return axis if first not in rows else None
    if operands != [first] and node.target is not aten.addmm.default:
        return None
    place = {aten.mm.default: 0, aten.addmm.default: 1}.get(node.target)
    if place is not None:
        return axis if operands == [node.args[place]] and rows[operands[0]] == 0 else None
    before = first.meta["val"].shape[: rows[first]]
    same = math.prod(before) == math.prod(value.shape[:axis])
    keeps = (
        *(aten.view.default, aten.unsqueeze.default, aten.squeeze.dims, aten.squeeze.dim),
        torch.ops.prims.squeeze.default,
    )
    if node.target in keeps:
        return axis if same else None
    along = {aten.slice.Tensor: 1, aten.select.int: 1, aten._softmax.default: 1}.get(node.target)
    if along is not None and node.args[along] % first.meta["val"].ndim != rows[first]:
        return axis
    return None


def _take_all(graph: Any, chosen: _Chosen) -> None:
    """Let all rows that the mask has go the way of those that it chooses."""
    import torch

    aten = torch.ops.aten
    mask = chosen.places.args[0]
    shape = tuple(mask.meta["val"].shape)
    count, mode = math.prod(shape), mask.meta["val"].fake_mode
    write = Writer(graph, mask)
    with graph.inserting_before(chosen.places):
        columns = [_column(write, shape, axis, mask) for axis in range(len(shape))]
        table = write(aten.cat.default, columns, 1)
        flat = _shaped(write, mask, [count])
        here = write(aten.ne.Scalar, flat, 0)
    for node in chosen.checks[::-1]:
        graph.erase_node(node)
    for node in chosen.numbers[::-1]:
        if not node.users:
            graph.erase_node(node)
        elif node.target is aten.sym_size.int:
            _write_out(node, count)
            graph.erase_node(node)
    chosen.places.replace_all_uses_with(table)
    for node in chosen.rows:
        node.meta["val"] = given(node, mode)
        node.meta.pop("tensor_meta", None)  # says the size as it was
    for node, place in chosen.sums.items():
        _mask(graph, node, place, here)


def _column(write: Writer, shape: tuple[int, ...], axis: int, mask: Any) -> Any:
    """The index along an axis of each element of the mask, in order."""
    import torch

    aten = torch.ops.aten
    device = mask.meta["val"].device
    along = write(aten.arange.start_step, 0, shape[axis], 1, device=device)
    ones = [size if other == axis else 1 for other, size in enumerate(shape)]
    spread = write(aten.expand.default, write(aten.view.default, along, ones), list(shape))
    return _shaped(write, spread, [math.prod(shape), 1])


def _shaped(write: Writer, value: Any, shape: list[int]) -> Any:
    import torch

    aten = torch.ops.aten
    whole = write(aten.clone.default, value, memory_format=torch.contiguous_format)
    return write(aten.view.default, whole, shape)


def _write_out(number: Any, count: int) -> None:
    """Write a known count in the place of one that was read."""
    import torch

    for user in list(number.users):
        args, kwargs = torch.fx.node.map_arg(
            (user.args, user.kwargs), lambda arg: count if arg is number else arg
        )
        user.args, user.kwargs = args, kwargs


def _mask(graph: Any, node: Any, place: int, here: Any) -> None:
    """Let rows that were not chosen add nothing."""
    import torch

    aten = torch.ops.aten
    values = node.args[place]
    if node.target is aten.index_add.default:
        axis = node.args[1] % values.meta["val"].ndim
    else:
        axis = next(place for place, index in enumerate(node.args[1]) if index is not None)
    write = Writer(graph, values)
    with graph.inserting_before(node):
        ones = [1] * values.meta["val"].ndim
        ones[axis] = -1
        some = write(aten.view.default, here, ones)
        nothing = write(aten.full_like.default, values, 0)
        node.update_arg(place, write(aten.where.self, some, values, nothing))
