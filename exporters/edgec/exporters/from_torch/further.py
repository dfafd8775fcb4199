"""Operators that torch-mlir does not lower, as PyTorch itself computes them by others."""

import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from edgec.exporters.from_torch.complex_rules import Unknown, is_composite, pairing
from edgec.exporters.from_torch.inline import copied, rewritten, values_of_node
from edgec.exporters.from_torch.lower import to_stablehlo
from edgec.runtime.errors import ExportError

__all__ = ["not_lowered", "written_further"]

Rule = Callable[..., Any]


def not_lowered(graph: Any, names: Collection[str]) -> list[str]:
    """The operators of a graph that torch-mlir refuses by themselves, as `aten.addmv`.

    Args:
        graph: a lifted graph that it refuses.
        names: of those that it may be; none of them for any.
    """
    found: list[str] = []
    seen: set[Any] = set()
    for node in graph.nodes:
        name = _name(node)
        if not name or (names and name not in names) or name in found:
            continue
        if name.startswith("edgec."):  # cut out, and no business of torch-mlir's
            continue
        kind = (node.target, str(node.args), str(node.kwargs), _shapes(node))
        if kind in seen:
            continue
        seen.add(kind)
        try:
            to_stablehlo(_alone(node))
        except ExportError:
            found.append(name)
    return found


def _name(node: Any) -> str:
    """A node's operator; empty where it calls none."""
    import torch

    is_call = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    return str(node.target.overloadpacket) if is_call else ""


def _shapes(node: Any) -> str:
    values = [value for each in node.all_input_nodes for value in values_of_node(each)]
    return str([(value.dtype, value.shape) for value in values if hasattr(value, "shape")])


def _alone(node: Any) -> Any:
    """A graph of one node."""
    import torch

    graph = torch.fx.Graph(owning_module=node.graph.owning_module)
    given: dict[Any, Any] = {}
    for each in node.all_input_nodes:
        given[each] = graph.placeholder(each.name)
        given[each].meta = dict(each.meta)
    made = graph.node_copy(node, given.__getitem__)
    value = made.meta.get("val")
    results = [made]
    if isinstance(value, list | tuple):
        results = []
        for number, part in enumerate(value):
            results.append(graph.call_function(operator.getitem, (made, number)))
            results[-1].meta["val"] = part
    graph.output(tuple(results))
    return graph


def written_further(graph: Any, names: Collection[str]) -> Any | None:
    """A copy of a graph, some operators in it written as PyTorch's own decompositions do.

    Args:
        graph: a lifted graph.
        names: of the operators, as `aten.addmv`.

    Returns:
        The copy; None if no decomposition is known of any of them.
    """
    new = copied(graph)
    is_changed = False
    for node in list(new.nodes):
        if _name(node) not in names:
            continue
        target = node.target
        for rule in (_rules().get(target), target.decompose if is_composite(target) else None):
            if rule is None:
                continue
            try:
                _write(new, node, rule)
            except (Unknown, NotImplementedError, RuntimeError, TypeError):
                continue  # no decomposition of these arguments
            is_changed = True
            break
    if not is_changed:
        return None
    new.eliminate_dead_code()
    new.lint()
    return new


@functools.cache
def _rules() -> Mapping[Any, Rule]:
    from torch._decomp import decomposition_table

    return {**decomposition_table, **_primitives()}


@functools.cache
def _primitives() -> Mapping[Any, Rule]:
    """What PyTorch's decompositions end in, as operators that torch-mlir lowers."""
    import torch

    aten, prims = torch.ops.aten, torch.ops.prims
    made: dict[Any, Rule] = {}
    for name in dir(prims):
        # Those of one name are the same but for types, which PyTorch has made one before.
        if hasattr(aten, name) and hasattr(getattr(prims, name), "default"):
            made[getattr(prims, name).default] = getattr(aten, name)
    made |= {
        prims.sum.default: lambda x, dims, **_: aten.sum.dim_IntList(x, dims),
        prims.prod.default: _product,
        prims.transpose.default: lambda x, order: aten.permute(x, order),
    }
    return made


def _product(x: Any, dims: Any = None, **_: Any) -> Any:
    for dim in sorted(range(x.ndim) if dims is None else dims, reverse=True):
        x = x.prod(dim)
    return x


def _write(graph: Any, node: Any, rule: Rule) -> None:
    """Write what a node does by others in its place."""

    def by_others(*args: Any, **kwargs: Any) -> Any:
        with pairing():  # a Fourier transform there and back has complex numbers on its way
            return rule(*args, **kwargs)

    rewritten(graph, node, by_others, _primitives())
