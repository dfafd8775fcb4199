"""Parts of a tensor whose sizes are known at run time, each treated in its own way, joined again.

A mixture of experts sorts its tokens by expert, splits them where the next expert's begin, gives
each part to its expert, and joins the parts. No part has a size that a graph could say; but as long
as rows do not know of each other, the rows of all parts may go through every expert, and each takes
the answer of its own.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.writing import Writer, given

__all__ = ["join_parcels"]


def join_parcels(program: Any) -> None:
    """Replace such splits in a program's graph, where every part is treated row by row."""
    import torch

    graph = program.graph_module.graph
    split = torch.ops.aten.split_with_sizes.default
    changed = False
    # One after the other: what is split may be what was joined before.
    for node in [node for node in graph.nodes if node.target is split]:
        parcels = _parcels(node)
        if parcels is not None:
            _follow(graph, _join(graph, parcels))
            changed = True
    if changed:
        graph.eliminate_dead_code()
        _forget_numbers(graph)
        program.graph_module.recompile()


@dataclass(frozen=True, kw_only=True)
class _Parcels:
    """One split.

    Attributes:
        whole: what is split.
        sizes: the numbers read from tensors, one a part; whole numbers where they are known.
        parts: each part, and what is done with it in order.
        joined: where all of them come together.
    """

    whole: Any
    sizes: tuple[Any, ...]
    parts: tuple[tuple[Any, tuple[Any, ...]], ...]
    joined: Any


def _parcels(split: Any) -> _Parcels | None:
    """The split with all that hangs on it; None if its sizes are known, or rows meet in a part."""
    import torch

    whole, sizes, *rest = split.args
    read = torch.ops.aten._local_scalar_dense.default
    if (rest and rest[0] != 0) or all(isinstance(size, int) for size in sizes):
        return None
    if not isinstance(whole.meta["val"].shape[0], int):
        return None
    if any(not isinstance(size, int) and size.target is not read for size in sizes):
        return None
    items = {user.args[1]: user for user in split.users if user.target is operator.getitem}
    if len(items) != len(split.users) or set(items) != set(range(len(sizes))):
        return None
    parts, ends = [], []
    for number in range(len(sizes)):
        steps = tuple(_steps(items[number]))
        parts.append((items[number], steps))
        ends.append(steps[-1] if steps else items[number])
    (joined, *others) = {user: None for end in ends for user in end.users}
    if others or joined.target is not torch.ops.aten.cat.default:
        return None
    if list(joined.args[0]) != ends or (len(joined.args) > 1 and joined.args[1] != 0):
        return None
    return _Parcels(whole=whole, sizes=tuple(sizes), parts=tuple(parts), joined=joined)


def _steps(part: Any) -> Iterator[Any]:
    """What is done with a part, row by row, one after the other."""
    value = part
    while len(value.users) == 1:
        (user,) = value.users
        if not _is_by_row(user, value):
            return
        yield user
        value = user


def _is_by_row(node: Any, value: Any) -> bool:
    """Whether each row of the result is made of the same row of one operand alone."""
    import torch

    aten = torch.ops.aten
    place = {aten.mm.default: 0, aten.addmm.default: 1}.get(node.target)
    tensors = [arg for arg in node.args if isinstance(arg, torch.fx.Node) and arg is not value]
    if place is not None:
        beside = place == 0 or node.args[0].meta["val"].ndim < 2
        return bool(node.args[place] is value and value not in tensors and beside)
    tags = getattr(node.target, "tags", ())
    rank = value.meta["val"].ndim
    others = (list(getattr(arg.meta["val"], "shape", ())) for arg in tensors)
    return torch.Tag.pointwise in tags and all(
        len(shape) < rank or (len(shape) == rank and shape[:1] == [1]) for shape in others
    )


def _join(graph: Any, parcels: _Parcels) -> Any:
    """Every way of treating a part on the whole, and of each row the answer of its part."""
    import torch

    aten = torch.ops.aten
    joined = parcels.joined
    write = Writer(graph, joined)
    with graph.inserting_before(joined):
        answers = [_treated(write, parcels.whole, part, steps) for part, steps in parcels.parts]
        count = parcels.whole.meta["val"].shape[0]
        rank = answers[0].meta["val"].ndim
        rows = write(aten.arange.start_step, 0, count, 1, device=_device(parcels.whole))
        result, start = answers[0], None
        for size, answer in zip(parcels.sizes, answers[1:], strict=False):
            start = _after(write, start, size)
            if isinstance(start, int):
                inside = write(aten.ge.Scalar, rows, start)
            else:
                inside = write(aten.ge.Tensor, rows, start)
            for _ in range(rank - 1):
                inside = write(aten.unsqueeze.default, inside, -1)
            result = write(aten.where.self, inside, answer, result)
    joined.replace_all_uses_with(result)
    return result


def _after(write: Writer, start: Any, size: Any) -> Any:
    """Where the part after one of this size begins, as a number or a tensor."""
    import torch

    aten = torch.ops.aten
    size = size if isinstance(size, int) else size.args[0]
    if start is None:
        return size
    if isinstance(start, int):
        start, size = size, start
    if isinstance(start, int):
        return start + size
    return write(aten.add.Scalar if isinstance(size, int) else aten.add.Tensor, start, size)


def _treated(write: Writer, whole: Any, part: Any, steps: Sequence[Any]) -> Any:
    """What is done with a part, done with the whole."""
    old, new = part, whole
    for step in steps:
        args = tuple(new if arg is old else arg for arg in step.args)
        old, new = step, write(step.target, *args, **step.kwargs)
    return new


def _device(node: Any) -> Any:
    return node.meta["val"].device


def _follow(graph: Any, start: Any) -> None:
    """Work out what hangs on a node, whose size is known now, as far as the next open split."""
    import torch

    changed: set[Any] = {start}
    still_open: set[Any] = set()
    for node in graph.nodes:
        inputs = set(node.all_input_nodes)
        if node.op != "call_function" or not inputs & (changed | still_open):
            continue
        splits = node.target is torch.ops.aten.split_with_sizes.default
        if inputs & still_open or (splits and any(not isinstance(n, int) for n in node.args[1])):
            still_open.add(node)
            continue
        changed.add(node)
        if _tensors(node.meta.get("val")):
            node.meta["val"] = given(node, start.meta["val"].fake_mode)
            node.meta.pop("tensor_meta", None)  # says the size as it was


def _forget_numbers(graph: Any) -> None:
    """Take out numbers read from tensors that nothing is made of any more."""
    import torch

    read = torch.ops.aten._local_scalar_dense.default
    for node in list(graph.nodes):
        if node.target is read and (family := _numbers_of(node)) is not None:
            for each in reversed(family):
                graph.erase_node(each)


def _numbers_of(node: Any) -> list[Any] | None:
    """A number and all that is worked out of it, in order; None if a tensor is made of it."""
    import torch

    found = {node: None}
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            value = user.meta.get("val")
            if isinstance(value, torch.Tensor) or user.op == "output" or _tensors(value):
                return None
            if user not in found:
                found[user] = None
                waiting.append(user)
    order = {each: place for place, each in enumerate(node.graph.nodes)}
    return sorted(found, key=lambda each: order[each])


def _tensors(value: Any) -> list[Any]:
    import torch

    values = value if isinstance(value, list | tuple) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]
