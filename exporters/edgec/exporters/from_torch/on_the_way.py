"""A lifted graph and what it is called with to the value that PyTorch computes for each node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_torch.capture import quiet
from edgec.exporters.from_torch.graph import Lifted
from edgec.exporters.from_torch.lines import user_line
from edgec.exporters.from_torch.values import to_numpy, to_tensor
from edgec.toolchain.framework_values import FrameworkValue, place_name, storable
from edgec.toolchain.program import Input, Parameter, State

__all__ = ["locate", "numbers_of", "values_of"]


def numbers_of(graph: Any) -> dict[str, int]:
    """The number of each node that computes something, by its name."""
    computing = (node for node in graph.nodes if node.op == "call_function")
    return {node.name: number for number, node in enumerate(computing)}


def locate(importer: Any, numbers: Mapping[str, int]) -> None:
    """Let torch-mlir's importer write each node's number into the locations of what it makes."""
    from torch_mlir import ir
    from torch_mlir.extras.fx_importer import ContextCache

    class Located(ContextCache):  # type: ignore[misc]
        """The importer's own, and a name around the lines of numbered nodes."""

        def get_node_location(self, node: Any) -> Any:
            found = super().get_node_location(node)
            if node.name not in numbers:
                return found
            child = ir.Location.unknown(self._c) if found is None else found
            return ir.Location.name(place_name(numbers[node.name]), child, context=self._c)

    importer._cc = Located(importer._c, py_attr_tracker=importer._py_attr_tracker)


def values_of(
    lifted: Lifted,
    module: Any,
    function: str,
    inputs: Sequence[np.ndarray],
    states: dict[str, np.ndarray],
) -> tuple[FrameworkValue, ...]:
    """What each node gives that depends on inputs or state, in PyTorch's own operations.

    Args:
        lifted: the graph, and the role of each placeholder and result.
        module: the `torch.fx.GraphModule` that the graph is of.
        function: the signature's name.
        inputs: what it is called with.
        states: by name; changed to what they are after the call.
    """
    import torch

    given = []
    for role in lifted.arguments:
        if isinstance(role, Parameter):
            given.append(lifted.tensors[role.name].detach())
        elif isinstance(role, State):
            given.append(to_tensor(states[role.name]))
        elif isinstance(role, Input):
            given.append(to_tensor(inputs[role.index]))
    roles = iter(lifted.arguments)
    numbers = numbers_of(lifted.graph)
    depends: set[Any] = set()
    found: list[FrameworkValue] = []

    class Noting(torch.fx.Interpreter):  # type: ignore[misc]
        """Runs a graph, and keeps what its nodes give."""

        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if node.op == "placeholder":
                if not isinstance(next(roles), Parameter):
                    depends.add(node)
            elif any(each in depends for each in node.all_input_nodes):
                depends.add(node)
                if node.name in numbers and isinstance(result, torch.Tensor):
                    array = to_numpy(result, node.name).copy()
                    if storable(array) and array.size:
                        found.append(_value(function, numbers[node.name], node, array))
            return result

    with torch.no_grad(), quiet():
        results = Noting(module, graph=lifted.graph).run(*given, enable_io_processing=False)
    for role, result in zip(lifted.results, results, strict=True):
        if isinstance(role, State):
            states[role.name] = to_numpy(result, role.name).copy()
    return tuple(found)


def _value(function: str, number: int, node: Any, array: np.ndarray) -> FrameworkValue:
    owners = node.meta.get("nn_module_stack") or {}
    owner = next((path for path, _ in reversed(list(owners.values())) if path), "")
    return FrameworkValue(
        function=function,
        number=number,
        name=f"{owner}.{node.name}" if owner else str(node.name),
        operation=str(node.target).removesuffix(".default"),
        line=user_line(node.meta.get("stack_trace")) or "",
        arrays=(array,),
    )
