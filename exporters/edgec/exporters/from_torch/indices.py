"""Indices of an exported PyTorch graph that may count from the end, counted from the start.

`x[:, -1]` is settled by torch.export; `x[:, [-1]]` and `x[:, index]` are not, and torch-mlir takes
the first element for every negative index.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["count_from_start"]


def count_from_start(program: Any) -> None:
    """Add the size to negative indices, in the program's graph, where indices may be negative."""
    import torch

    aten = torch.ops.aten
    floors = _Floors(program)
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.target not in (aten.index.Tensor, aten.index_put.default):
            continue
        indices = list(node.args[1])
        if any(i is not None and i.meta["val"].dtype == torch.bool for i in indices):
            continue  # a mask takes as many axes as it has
        for axis, index in enumerate(indices):
            if index is not None and floors.of(index) < 0:
                with graph.inserting_before(node):
                    indices[axis] = _counted(graph, node, index, axis)
        node.args = (node.args[0], indices, *node.args[2:])


def _counted(graph: Any, node: Any, index: Any, axis: int) -> Any:
    """The index, plus the size of its axis where it is negative."""
    import torch

    aten = torch.ops.aten

    def made(target: Any, *args: Any) -> Any:
        new = graph.call_function(target, args)
        values = torch.fx.node.map_arg(args, lambda arg: arg.meta["val"])
        new.meta |= {
            key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta
        }
        new.meta["val"] = target(*values)
        return new

    value = index.meta["val"]
    with value.fake_mode:
        size = node.args[0].meta["val"].shape[axis]
        if not isinstance(size, int):
            size = made(aten.sym_size.int, node.args[0], axis)
        return made(
            aten.where.self,
            made(aten.lt.Scalar, index, 0),
            made(aten.add.Tensor, index, size),
            index,
        )


class _Floors:
    """What the values of nodes are at least, as far as their operations tell."""

    def __init__(self, program: Any) -> None:
        self._known: dict[Any, float] = {}
        signature = program.graph_signature
        changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
        for node, spec in zip(program.graph.nodes, signature.input_specs, strict=False):
            tensor = program.constants.get(spec.target, program.state_dict.get(spec.target))
            if tensor is None or spec.target in changed or not hasattr(tensor, "numel"):
                continue
            if tensor.numel() and not tensor.is_floating_point() and not tensor.is_complex():
                self._known[node] = float(tensor.min())

        rules = _rules()
        for node in program.graph.nodes:  # what a node reads stands before it
            rule = rules.get(node.target) if node.op == "call_function" else None
            if rule is not None:
                self._known[node] = rule(self, node)

    def of(self, value: Any) -> float:
        """A lower bound of a node or number; minus infinity where none is known."""
        return float(value) if isinstance(value, int | float) else self._known.get(value, -math.inf)


def _rules() -> Mapping[Any, Callable[[_Floors, Any], float]]:
    import torch

    aten = torch.ops.aten

    def same(floors: _Floors, node: Any) -> float:
        return floors.of(node.args[0])

    def least(floors: _Floors, node: Any) -> float:
        return min(floors.of(arg) for arg in node.args[-2:])

    def zero(floors: _Floors, node: Any) -> float:
        return 0.0

    def total(floors: _Floors, node: Any) -> float:
        plain = not node.kwargs and len(node.args) == 2
        return sum(floors.of(arg) for arg in node.args) if plain else -math.inf

    def product(floors: _Floors, node: Any) -> float:
        return 0.0 if min(floors.of(arg) for arg in node.args[:2]) >= 0 else -math.inf

    def rounded(floors: _Floors, node: Any) -> float:
        bound = floors.of(node.args[0])
        return math.floor(bound) if math.isfinite(bound) else bound

    def clamped(floors: _Floors, node: Any) -> float:
        low = node.args[1] if len(node.args) > 1 else node.kwargs.get("min")
        return max(floors.of(node.args[0]), -math.inf if low is None else floors.of(low))

    def counted(floors: _Floors, node: Any) -> float:
        start, _, step = (*node.args, 1)[:3]
        return floors.of(start) if floors.of(step) >= 0 else -math.inf

    def item(floors: _Floors, node: Any) -> float:
        places = (
            aten.topk.default,
            aten.sort.default,
            aten.sort.stable,
            aten.max.dim,
            aten.min.dim,
        )
        return 0.0 if node.args[1] == 1 and node.args[0].target in places else -math.inf

    alike = (
        aten._to_copy.default, aten.alias.default, aten.clone.default, aten.detach.default,
        aten.expand.default, aten.lift_fresh_copy.default, aten.permute.default,
        aten.repeat.default, aten.reshape.default, aten.select.int, aten.slice.Tensor,
        aten.squeeze.dim, aten.squeeze.dims, aten.transpose.int, aten.unsqueeze.default,
        aten.view.default, aten._unsafe_view.default,
        torch.ops.prims.convert_element_type.default,
    )  # fmt: skip
    return {
        **dict.fromkeys(alike, same),
        **dict.fromkeys((aten.argmax.default, aten.argmin.default, aten.arange.default), zero),
        **dict.fromkeys((aten.floor.default, aten.ceil.default, aten.trunc.default), rounded),
        **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), total),
        **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), product),
        **dict.fromkeys((aten.clamp.default, aten.clamp_min.default), clamped),
        aten.maximum.default: lambda floors, node: max(floors.of(arg) for arg in node.args),
        aten.arange.start: counted,
        aten.arange.start_step: counted,
        aten.full.default: lambda floors, node: floors.of(node.args[1]),
        aten.where.self: least,
        operator.getitem: item,
    }
