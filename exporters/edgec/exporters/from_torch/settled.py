"""Decisions of a PyTorch model on numbers that no input has a part in: taken while it is exported.

`if mask.any():` over a mask that the model makes itself, or a padding worked out from buffers:
torch.export sees a number of unknown value. The value is the same in every call, so the graph is
traced along the way that it decides, and traced once more with the value in its place.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.runtime.errors import UnsupportedOp

__all__ = ["is_on_data", "settled", "sized_by_data"]

Export = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]
"""Module, args and kwargs to an `ExportedProgram`."""


def is_on_data(error: Exception) -> bool:
    """Whether torch.export gave up because the model decides on the value of a tensor."""
    return "data-dependent" in str(error).lower() or "DataDependent" in type(error).__name__


def settled(export: Export, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The `ExportedProgram` of a module whose every decision is on constants.

    Args:
        export: what exports a module.
        module: what it has refused because of a decision on data.
        args: example positional arguments; decisions are taken as they go with these.
        kwargs: example keyword arguments.

    Raises:
        UnsupportedOp: an input has a part in a decision; the error names its line.
    """
    with _deciding_by_example():
        program = export(module, args, kwargs)
    numbers = _numbers(program)
    graph = program.graph_module.graph
    for node, value in numbers.items():
        for user in list(node.users):
            user.args = _with(user.args, node, value)
            user.kwargs = _with(user.kwargs, node, value)
        graph.erase_node(node)
    program.graph_module.recompile()
    return export(program.module(check_guards=False), args, kwargs)


def sized_by_data(graph: Any) -> Any:
    """The first node of a graph that makes a tensor of a size that depends on data, or None."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    for node in graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, list | tuple) else [values]:
            if free_unbacked_symbols(getattr(value, "shape", ())):
                return node
    return None


@contextmanager
def _deciding_by_example() -> Iterator[None]:
    """Let torch.export decide by the example's values, and not report each time that it did."""
    import torch._functorch.config as config

    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with config.patch(fake_tensor_propagate_real_tensors=True):
            yield
    finally:
        log.setLevel(level)


def _numbers(program: Any) -> dict[Any, Any]:
    """The value of each number that is read from a tensor."""
    import torch

    constants = _constants(program)
    found: dict[Any, Any] = {}
    for node in program.graph_module.graph.nodes:
        if node.target is torch.ops.aten.item.default:
            value = _value(node.args[0], constants)
            if value is None:
                raise _on_data(node)
            found[node] = value.item()
        elif node.meta.get("unbacked_bindings"):
            raise _on_data(node)
    return found


def _on_data(node: Any) -> UnsupportedOp:
    return UnsupportedOp(
        f"the model's control flow or a shape depends on data, by {node.target}",
        where=user_line(node.meta.get("stack_trace")),
        hint="choose with torch.where and keep sizes fixed; an `if` or loop on a tensor's "
        "value has no portable form",
    )


def _constants(program: Any) -> dict[Any, Any]:
    """The tensor of each placeholder that is a weight or buffer which no call changes."""
    from torch.export.graph_signature import InputKind

    signature = program.graph_signature
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    held = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    nodes = [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]
    found = {}
    for node, spec in zip(nodes, signature.input_specs, strict=True):
        if spec.kind in held and spec.target not in changed:
            tensor = program.state_dict.get(spec.target)
            found[node] = program.constants.get(spec.target) if tensor is None else tensor
    return found


def _value(node: Any, known: dict[Any, Any]) -> Any:
    """What a node gives, if no input and no chance has a part in it; else None."""
    import torch

    order: list[Any] = []
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if current in known or current in seen:
            continue
        tags = getattr(current.target, "tags", ())
        if current.op != "call_function" or torch.Tag.nondeterministic_seeded in tags:
            return None
        seen.add(current)
        order.append(current)
        pending += current.all_input_nodes
    with torch.no_grad():
        for current in sorted(order):
            args, kwargs = torch.fx.node.map_arg(
                (current.args, current.kwargs), lambda inner: known[inner]
            )
            known[current] = current.target(*args, **kwargs)
    return known[node]


def _with(arguments: Any, node: Any, value: Any) -> Any:
    import torch

    return torch.fx.node.map_arg(arguments, lambda inner: value if inner is node else inner)
