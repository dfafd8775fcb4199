"""Kernels of the user's own in a PyTorch graph: cut out before it is lowered, put back after.

torch-mlir knows no composites. So what a kernel reads becomes results of the graph, and what it
writes arguments; once the graph is StableHLO, a composite joins them, whose decomposition is the
kernel's reference, lowered by itself.
"""

import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_torch.lines import user_line
from edgec.kernels.in_torch import OPERATION, reference_of
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.own_kernels import ATTRIBUTE, COMPOSITE, OwnKernel
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Cut", "cut_out", "put_back"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A kernel that was cut out.

    Attributes:
        text: its description.
        where: the user's line that calls it.
        examples: tensors of the shapes that it reads.
        results: how many it writes.
    """

    text: str
    where: str | None
    examples: tuple[Any, ...]
    results: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return OwnKernel.from_json(self.text).name


def cut_out(graph: Any) -> list[Cut]:
    """Cut the kernels out of a graph, in place.

    Returns:
        The kernels in order. The graph takes, after its own arguments, what each of them writes,
        and gives, after its own results, what each of them reads.
    """
    import torch

    found: list[Cut] = []
    for node in list(graph.nodes):
        if node.op != "call_function" or not str(node.target).startswith(OPERATION):
            continue
        text, arrays = node.args
        end = graph.output_node()
        end.args = ((*end.args[0], *arrays),)
        values = node.meta["val"]
        parts = {user.args[1]: user for user in list(node.users)}
        for number, value in enumerate(values):
            last = [each for each in graph.nodes if each.op == "placeholder"][-1]
            with graph.inserting_after(last):
                written = graph.placeholder(f"kernel{len(found)}_{number}")
            written.meta["val"] = value
            if number in parts:
                parts[number].replace_all_uses_with(written)
                graph.erase_node(parts[number])
        graph.erase_node(node)
        shapes = [(tuple(each.meta["val"].shape), each.meta["val"].dtype) for each in arrays]
        where = user_line(node.meta.get("stack_trace"))
        if not all(isinstance(size, int) for sizes, _ in shapes for size in sizes):
            raise UnsupportedOp(
                f"the kernel {OwnKernel.from_json(text).name} is called with sizes that change "
                "from call to call",
                where=where,
                hint="export with fixed sizes: a kernel's code is for arrays of these shapes",
            )
        found.append(
            Cut(
                text=text,
                where=where,
                examples=tuple(torch.zeros(sizes, dtype=kind) for sizes, kind in shapes),
                results=len(values),
            )
        )
    return found


def put_back(
    data: bytes, cuts: Sequence[Cut], lower: Callable[[Callable[..., Any], tuple[Any, ...]], bytes]
) -> bytes:
    """StableHLO with a composite for each kernel that was cut out.

    Args:
        data: the graph without them, lowered.
        cuts: what `cut_out` gave.
        lower: a function on example tensors to StableHLO with the function `main`.

    Raises:
        UnsupportedOp: a kernel's reference is not here.
    """
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(data, context)
        (main,) = [op.operation for op in module.body.operations if _name(op) == "main"]
        block = main.regions[0].blocks[0]
        end = list(block.operations)[-1].operation
        given = list(block.arguments)
        results = list(end.operands)
        own_results = len(results) - sum(len(cut.examples) for cut in cuts)
        own_arguments = len(given) - sum(cut.results for cut in cuts)
        read, written = iter(results[own_results:]), iter(given[own_arguments:])
        names: dict[str, str] = {}
        now: dict[Any, Any] = {}
        for cut in cuts:
            operands = [
                now.get(value, value) for value in itertools.islice(read, len(cut.examples))
            ]
            places = [next(written) for _ in range(cut.results)]
            if cut.text not in names:
                names[cut.text] = f"edgec_reference_{len(names)}"
                _add_reference(module, names[cut.text], _reference(cut), cut, lower)
            with ir.InsertionPoint(end):
                made = _composite(cut, names[cut.text], operands, places)
            for place, value in zip(places, made.results, strict=True):
                place.replace_all_uses_with(value)
                now[place] = value
        with ir.InsertionPoint(end):
            # Read anew: a kernel may have written what another one, or the caller, is given.
            kept = list(end.operands)[:own_results]
            ir.Operation.create("func.return", operands=kept)
        end.erase()
        for number in reversed(range(own_arguments, len(given))):
            block.erase_argument(number)
        _in_order(block)
        kind = ir.FunctionType.get(
            [argument.type for argument in block.arguments], [value.type for value in kept]
        )
        main.attributes["function_type"] = ir.TypeAttr.get(kind)
        for name in ("arg_attrs", "res_attrs"):
            if name in main.attributes:
                del main.attributes[name]
        module.operation.verify()
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _reference(cut: Cut) -> Callable[..., Any]:
    found = reference_of(cut.text)
    if found is None:
        raise UnsupportedOp(
            f"the reference of the kernel {cut.name} is not here",
            where=cut.where,
            hint="export the model where its kernels are made, not from a file",
        )
    return found


def _composite(cut: Cut, reference: str, operands: Sequence[Any], places: Sequence[Any]) -> Any:
    from iree.compiler import ir

    described: Mapping[str, Any] = {ATTRIBUTE: ir.StringAttr.get(cut.text)}
    return ir.Operation.create(
        "stablehlo.composite",
        results=[place.type for place in places],
        operands=list(operands),
        attributes={
            "name": ir.StringAttr.get(COMPOSITE),
            "composite_attributes": ir.DictAttr.get(described),
            "decomposition": ir.FlatSymbolRefAttr.get(reference),
            "version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        },
        loc=_location(cut.where),
    )


def _location(where: str | None) -> Any:
    from iree.compiler import ir

    file, _, rest = (where or "").partition(":")
    line = rest.split(" ")[0]
    return ir.Location.file(file, int(line), 0) if line.isdigit() else ir.Location.unknown()


def _add_reference(
    module: Any,
    name: str,
    reference: Callable[..., Any],
    cut: Cut,
    lower: Callable[[Callable[..., Any], tuple[Any, ...]], bytes],
) -> None:
    """Add the function that a reference is, and what it calls."""
    from iree.compiler import ir

    source = parse_stablehlo(lower(reference, cut.examples), module.context)
    table = ir.SymbolTable
    for op in source.body.operations:
        old = _name(op)
        new = name if old == "main" else f"{name}_{old}"
        table.replace_all_symbol_uses(old, new, source.operation)
        table.set_symbol_name(op.operation, new)
        op.operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for op in source.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(module.body))


def _name(op: Any) -> str:
    from iree.compiler import ir

    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)


def _in_order(block: Any) -> None:
    """Move each operation behind what it reads, and keep their order otherwise."""
    from iree.compiler import ir

    waiting = [op.operation for op in block.operations]
    end = waiting.pop()
    done: set[Any] = set()
    inside = set(waiting)
    stack: list[Any] = []
    for first in waiting:
        stack.append(first)
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            owners = (v.owner for v in op.operands if not isinstance(v.owner, ir.Block))
            missing = [o.operation for o in owners if o.operation in inside - done]
            if missing:
                stack.extend(missing)
                continue
            op.move_before(end)
            done.add(op)
            stack.pop()
