"""Complex numbers in a PyTorch graph as pairs of real ones, which torch-mlir can lower.

torch-mlir writes no arithmetic of complex numbers. Each operation on them is traced through
PyTorch's own `ComplexTensor`, which holds real and imaginary part apart, and what it does takes the
operation's place in the graph. Arguments and results stay complex: the lowered function's first
operations take them apart, its last put them together.
"""

import io
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.complex_rules import Unknown, is_composite, pairing
from edgec.exporters.from_torch.inline import copied, inlined, is_node, values_of_node
from edgec.exporters.from_torch.lines import user_line
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.ir.functions import entry_block, find_function, returns, set_types
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Pairs", "composites", "has_complex", "in_pairs", "put_together"]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Where a graph has pairs for complex numbers.

    Attributes:
        graph: the graph; each complex argument and result is two of it, one behind the other.
        arguments: for each argument as it was, whether it is a pair now.
        results: likewise, for each result.
    """

    graph: Any
    arguments: tuple[bool, ...]
    results: tuple[bool, ...]


@dataclass(frozen=True)
class _Pair:
    """The nodes of real and imaginary part."""

    real: Any
    imaginary: Any


def has_complex(graph: Any) -> bool:
    """Whether any value of a graph is complex."""
    return any(_is_complex(value) for node in graph.nodes for value in values_of_node(node))


def composites(graph: Any) -> set[Any]:
    """The operators on complex numbers that PyTorch itself computes by others."""
    import torch

    found: set[Any] = set()
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and is_composite(node.target):
            near = (node, *node.all_input_nodes)
            if any(_is_complex(value) for each in near for value in values_of_node(each)):
                found.add(node.target)
    return found


def in_pairs(graph: Any) -> Pairs:
    """A copy of a lifted graph in which no value is complex.

    Raises:
        UnsupportedOp: an operation on complex numbers is not known; the error names it.
    """
    new = copied(graph)
    made: dict[Any, Any] = {}
    arguments: list[bool] = []
    for node in list(new.nodes):
        if node.op == "placeholder":
            arguments.append(_is_complex(node.meta.get("val")))
            if arguments[-1]:
                made[node] = _taken_apart(new, node)
        elif node.op == "output":
            results = tuple(isinstance(made.get(each, each), _Pair) for each in node.args[0])
            node.args = (tuple(_flat(made.get(each, each) for each in node.args[0])),)
        elif node.op == "call_function" and _is_touched(node, made):
            _replace(new, node, made)
    for node in reversed(list(new.nodes)):
        if node in made:
            new.erase_node(node)
    new.eliminate_dead_code()
    new.lint()
    return Pairs(graph=new, arguments=tuple(arguments), results=results)


def put_together(data: bytes, pairs: Pairs) -> bytes:
    """StableHLO whose arguments and results are complex again.

    Args:
        data: `pairs.graph`, lowered.
        pairs: what `in_pairs` gave.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(data, context)
        main = find_function(module, "main")
        block = entry_block(main)
        (end,) = returns(main)
        _join_arguments(block, pairs.arguments)
        with ir.InsertionPoint(end):
            rest = iter(list(end.operands))
            results = []
            for is_pair in pairs.results:
                value = next(rest)
                results.append(write.complex_(value, next(rest)) if is_pair else value)
            ir.Operation.create("func.return", operands=results)
        end.erase()
        set_types(main, _firsts(pairs.arguments), _firsts(pairs.results))
        module.operation.verify()
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _firsts(are_pairs: Sequence[bool]) -> list[int]:
    """Where each value, or the first of its pair, stands."""
    found, place = [], 0
    for is_pair in are_pairs:
        found.append(place)
        place += 1 + is_pair
    return found


def _join_arguments(block: Any, are_pairs: Sequence[bool]) -> None:
    """One complex argument for each pair of a block's."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write

    old = list(block.arguments)
    rest = iter(old)
    with ir.InsertionPoint.at_block_begin(block):
        for is_pair in are_pairs:
            parts = [next(rest) for _ in range(1 + is_pair)]
            kind = parts[0].type
            if is_pair:
                kind = write.tensor(kind.shape, ir.ComplexType.get(kind.element_type))
            whole = block.add_argument(kind, ir.Location.unknown())
            given = [write.part(name, whole) for name in ("real", "imag")] if is_pair else [whole]
            for part, value in zip(parts, given, strict=True):
                part.replace_all_uses_with(value)
    for number in reversed(range(len(old))):
        block.erase_argument(number)


def _is_complex(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def _is_touched(node: Any, made: Mapping[Any, Any]) -> bool:
    """Whether a node gives complex numbers or reads some."""
    return any(each in made for each in node.all_input_nodes) or any(
        _is_complex(value) for value in values_of_node(node)
    )


def _flat(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += [value.real, value.imaginary] if isinstance(value, _Pair) else [value]
    return found


def _taken_apart(graph: Any, node: Any) -> _Pair:
    """Two placeholders for a complex one."""
    parts = []
    after = node
    for name in ("real", "imaginary"):
        with graph.inserting_after(after):
            after = graph.placeholder(f"{node.name}_{name}")
        after.meta["val"] = _real(node.meta["val"])
        parts.append(after)
    return _Pair(*parts)


def _real(value: Any) -> Any:
    """A fake tensor for one part of a complex one."""
    import torch

    with value.fake_mode:
        return torch.empty(value.shape, dtype=value.dtype.to_real(), device=value.device)


def _replace(graph: Any, node: Any, made: dict[Any, Any]) -> None:
    """Write what a node does on pairs before it, and note what stands for its value."""
    import torch.utils._pytree as pytree
    from torch._subclasses.complex_tensor import ComplexTensor

    if node.target is operator.getitem:
        source = made.get(node.args[0])
        if isinstance(source, list | tuple):
            made[node] = source[node.args[1]]
            return
    leaves, structure = pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
    given = [made.get(leaf, leaf) if is_node(leaf) else leaf for leaf in leaves]
    reads = [each for each in dict.fromkeys(_flat(given)) if is_node(each)]
    outlines: list[tuple[list[bool], Any]] = []

    def compute(*values: Any) -> list[Any]:
        at = dict(zip(reads, values, strict=True))

        def put(each: Any) -> Any:
            if isinstance(each, _Pair):
                return ComplexTensor(at[each.real], at[each.imaginary])
            return at[each] if is_node(each) else each

        args, kwargs = pytree.tree_unflatten([put(each) for each in given], structure)
        with pairing():
            flat, kind = pytree.tree_flatten(node.target(*args, **kwargs))
        outlines.append(([isinstance(each, ComplexTensor) for each in flat], kind))
        found: list[Any] = []
        for each in flat:
            found += [each.re, each.im] if isinstance(each, ComplexTensor) else [each]
        return found

    try:
        parts = iter(inlined(graph, node, compute, reads))
    except (Unknown, NotImplementedError, RuntimeError, TypeError) as error:
        raise _refusal(node) from error
    are_pairs, kind = outlines[-1]
    found = [_Pair(next(parts), next(parts)) if is_pair else next(parts) for is_pair in are_pairs]
    made[node] = pytree.tree_unflatten(found, kind)


def _refusal(node: Any) -> UnsupportedOp:
    name = str(node.target).removesuffix(".default")
    return UnsupportedOp(
        f"no portable form is known of {name} of complex numbers",
        where=user_line(node.meta.get("stack_trace")),
        hint="rewrite that line with simpler operations, or with real and imaginary parts",
    )
