"""Operations that torch-mlir has no word for: cut out of a graph, and put back in StableHLO.

What such an operation reads becomes results of the graph, and what it writes arguments; once the
graph is StableHLO, the operation's own StableHLO joins them.
"""

import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from edgec.toolchain.ir.functions import entry_block, find_function, inside, returns, set_types
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Cut", "cut_out", "put_back"]


class Cut(Protocol):
    """An operation that was cut out."""

    @property
    def reads(self) -> int:
        """How many tensors it reads."""

    @property
    def writes(self) -> int:
        """How many tensors it writes."""

    def build(self, module: Any, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """Write it at the present place of `module`: from its operands, values of these types."""


def cut_out(graph: Any, kinds: Mapping[str, Callable[[Any], Cut]]) -> list[Cut]:
    """Cut operations out of a graph, in place.

    Args:
        graph: a lifted graph.
        kinds: what makes a cut of a node, by how the name of its target begins. The node's first
            arguments are the tensors that it reads (or lists of them), and it gives a tuple.

    Returns:
        The cuts in order. The graph takes, after its own arguments, what each of them writes,
        and gives, after its own results, what each of them reads.
    """
    import torch.utils._pytree as pytree
    from torch.fx import Node

    found: list[Cut] = []
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        target = str(node.target)
        make = next((kinds[name] for name in kinds if target.startswith(name)), None)
        if make is None:
            continue
        cut = make(node)
        read = [leaf for leaf in pytree.tree_leaves(list(node.args)) if isinstance(leaf, Node)]
        end = graph.output_node()
        end.args = ((*end.args[0], *read),)
        parts = {user.args[1]: user for user in list(node.users)}
        for number, value in enumerate(node.meta["val"]):
            last = [each for each in graph.nodes if each.op == "placeholder"][-1]
            with graph.inserting_after(last):
                written = graph.placeholder(f"cut{len(found)}_{number}")
            written.meta["val"] = value
            if number in parts:
                parts[number].replace_all_uses_with(written)
                graph.erase_node(parts[number])
        graph.erase_node(node)
        found.append(cut)
    return found


def put_back(data: bytes, cuts: Sequence[Cut]) -> bytes:
    """StableHLO with what was cut out of the graph.

    Args:
        data: the graph without them, lowered.
        cuts: what `cut_out` gave.
    """
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(data, context)
        main = find_function(module, "main")
        block = entry_block(main)
        (end,) = returns(main)
        given = list(block.arguments)
        results = list(end.operands)
        own_results = len(results) - sum(cut.reads for cut in cuts)
        own_arguments = len(given) - sum(cut.writes for cut in cuts)
        read, written = iter(results[own_results:]), iter(given[own_arguments:])
        now: dict[Any, Any] = {}
        for cut in cuts:
            operands = [now.get(value, value) for value in itertools.islice(read, cut.reads)]
            places = list(itertools.islice(written, cut.writes))
            with ir.InsertionPoint(end):
                made = cut.build(module, operands, [place.type for place in places])
            for place, value in zip(places, made, strict=True):
                place.replace_all_uses_with(value)
                now[place] = value
        with ir.InsertionPoint(end):
            # Read anew: one may have written what another one, or the caller, is given.
            kept = list(end.operands)[:own_results]
            ir.Operation.create("func.return", operands=kept)
        end.erase()
        for number in reversed(range(own_arguments, len(given))):
            block.erase_argument(number)
        _in_order(block)
        set_types(main, range(own_arguments), range(own_results))
        module.operation.verify()
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _in_order(block: Any) -> None:
    """Move each operation behind what it reads, and keep their order otherwise."""
    from iree.compiler import ir

    waiting = [op.operation for op in block.operations]
    end = waiting.pop()
    done: set[Any] = set()
    all_here = set(waiting)
    stack: list[Any] = []
    for first in waiting:
        stack.append(first)
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            owners = (v.owner for v in _read(op) if not isinstance(v.owner, ir.Block))
            missing = [o.operation for o in owners if o.operation in all_here - done]
            if missing:
                stack.extend(missing)
                continue
            op.move_before(end)
            done.add(op)
            stack.pop()


def _read(op: Any) -> Iterator[Any]:
    """What an operation reads, in its regions too."""
    yield from op.operands
    if op.regions:
        for each in inside(op):
            yield from each.operands
