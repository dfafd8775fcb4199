"""A functional graph of core aten operations to MLIR, weights and state as arguments of `main`."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.capture import quiet
from edgec.exporters.from_torch.lines import user_line
from edgec.exporters.from_torch.literals import literals
from edgec.exporters.from_torch.lowering_process import Died, Refused, Request, lowered
from edgec.exporters.from_torch.on_the_way import locate
from edgec.exporters.from_torch.portable import place_of
from edgec.exporters.from_torch.settled import sized_by_data
from edgec.runtime.errors import ExportError, UnsupportedOp

__all__ = ["NoLowering", "to_stablehlo", "to_torch_dialect"]

_TO_BACKEND = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline{extra-library=})"
)
_TO_STABLEHLO = (
    "builtin.module(torch-backend-to-stablehlo-backend-pipeline{allow-non-finites=true})"
)
_TORCH_TRIAL = "builtin.module(torch-to-iree)"


class NoLowering(UnsupportedOp):
    """An operator has no lowering.

    Attributes:
        operators: those that it may be, as `aten.addmv`; empty where none is known.
    """

    operators: tuple[str, ...] = ()

    def naming(self, operators: Sequence[str]) -> "NoLowering":
        """The same refusal, which names the operators that are refused by themselves."""
        if not operators:
            return self
        named = NoLowering(
            f"no portable form is known of {', '.join(operators)}", where=self.where, hint=self.hint
        )
        named.operators = tuple(operators)
        return named


def to_stablehlo(graph: Any, numbers: Mapping[str, int] | None = None) -> bytes:
    """MLIR bytecode in StableHLO of a lifted graph.

    Args:
        graph: the graph.
        numbers: of its nodes by name, which locations carry (`framework_values`); None for none.

    Raises:
        UnsupportedOp: an operation has no lowering; the error names it and its place.
    """
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_importer import FxImporter

    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context, hooks=literals())
    if numbers:
        locate(importer, numbers)
    module = _imported(importer, graph)
    pipelines = (_TO_BACKEND, _TO_STABLEHLO)
    return _passed("torch_mlir", module, pipelines, graph, _symbolic_shapes(graph))


def to_torch_dialect(graph: Any) -> bytes:
    """MLIR bytecode in the torch dialect, for one version of the compiler, of a lifted graph.

    It is lowered once for a trial, as the compiler will do it.

    Raises:
        UnsupportedOp: an operation has no lowering here either.
    """
    from iree.compiler import ir
    from iree.compiler.extras.fx_importer import FxImporter

    module = _imported(FxImporter(context=ir.Context()), graph)
    _passed("iree.compiler", module, (_TORCH_TRIAL,), graph, None)
    return module


def _imported(importer: Any, graph: Any) -> bytes:
    """The bytecode of a graph in the torch dialect."""
    _refuse_chance(graph)
    with quiet():
        try:
            importer.import_stateless_graph(graph, func_name="main", func_visibility="public")
        except Exception as error:  # the importer raises errors of every kind
            raise _import_refusal(error, graph) from error
    buffer = io.BytesIO()
    importer.module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _refuse_chance(graph: Any) -> None:
    """Refuse numbers drawn at random, which a module would draw alike in each call."""
    for node in graph.nodes:
        if node.op == "call_function" and node.users and _draws(node):
            raise UnsupportedOp(
                f"the model draws random numbers: {node.target}",
                where=user_line(node.meta.get("stack_trace")),
                hint="give the numbers as an input; if it is dropout, call it in eval mode "
                "(model.eval(), or training=self.training)",
            )


def _draws(node: Any) -> bool:
    """Whether an operation draws random numbers, as it is called."""
    import torch

    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    arguments = node.target._schema.arguments
    given = {each.name: each.default_value for each in arguments if each.has_default_value()}
    given |= dict(zip([each.name for each in arguments], node.args, strict=False)) | node.kwargs
    return not any(given.get(name) in (False, 0.0) for name in ("training", "train", "dropout_p"))


def _passed(
    package: str,
    module: bytes,
    pipelines: tuple[str, ...],
    graph: Any,
    shapes: Sequence[Sequence[int | str]] | None,
) -> bytes:
    """What passes make of a module, in a process of their own."""
    request = Request(package=package, module=module, pipelines=pipelines, shapes=shapes)
    try:
        return lowered(request)
    except Refused as refusal:
        if refusal.is_exception:
            raise _died(f"died of the model: {refusal.text}", refusal.messages) from refusal
        raise _lowering_refusal(refusal.messages, refusal.text, graph) from refusal
    except Died as death:
        raise _died(f"{death}", ()) from death


def _symbolic_shapes(graph: Any) -> list[list[int | str]]:
    """The shape of each placeholder; a dynamic dimension by its expression over symbols."""
    values = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"]
    return [[s if isinstance(s, int) else str(s) for s in value.shape] for value in values]


def _import_refusal(error: Exception, graph: Any) -> ExportError:
    text = f"{type(error).__name__}: {error}"
    node = next(
        (n for n in graph.nodes if n.op == "call_function" and n.name in text),
        None,
    )
    return UnsupportedOp(
        f"torch-mlir cannot import the model: {text.splitlines()[0]}",
        where=user_line(node.meta.get("stack_trace")) if node is not None else None,
        hint="rewrite that operation with simpler ones",
    )


def _died(how: str, messages: Sequence[tuple[str, str]]) -> NoLowering:
    """Passes that ended in an exception of C++ or a signal instead of a refusal."""
    where = next((place_of(location) for location, _ in messages if place_of(location)), None)
    return NoLowering(
        f"torch-mlir's passes {how}",
        where=where,
        hint="export it as ONNX (torch.onnx.export), which takes another road, or leave parts out",
    )


def _lowering_refusal(
    messages: Sequence[tuple[str, str]], fallback: str, graph: Any
) -> ExportError:
    """The operation that could not be lowered, and the line it came from."""
    sized = sized_by_data(graph)
    if sized is not None:
        return UnsupportedOp(
            f"the size of what {sized.target} gives depends on data",
            where=user_line(sized.meta.get("stack_trace")),
            hint="keep sizes fixed: choose with torch.where, or by a mask",
        )
    for location, text in messages:
        found = re.search(r"failed to legalize operation '([^']+)'", text)
        if not found:
            continue
        operation, where = found.group(1), place_of(location)
        if operation == "torch.operator":
            named = re.search(r'name = "([^"]+)"', text)
            operation = named.group(1) if named else operation
        names = [operation.removeprefix("torch.")]
        if operation.startswith(("torch.constant", "torch.prim", "func.")):
            # What is left over is an operand; the line's operations are the ones to look at.
            names = _operations_at(graph, where)
            operation = ", ".join(names) or operation
        refusal = NoLowering(
            f"no portable form is known of {operation}",
            where=where,
            hint="rewrite that line with simpler operations",
        )
        refusal.operators = tuple(".".join(name.split(".")[:2]) for name in names)
        return refusal
    first = next((text.splitlines()[0] for _, text in messages if text), fallback)
    where = next((place_of(location) for location, _ in messages if place_of(location)), None)
    return UnsupportedOp(
        f"the model cannot be lowered: {first}",
        where=where,
        hint="rewrite that line with simpler operations, or make its dimensions static",
    )


def _operations_at(graph: Any, where: str | None) -> list[str]:
    """The operations of the graph that come from one line of the user's."""
    if where is None:
        return []
    names = [
        str(node.target)
        for node in graph.nodes
        if node.op == "call_function"
        and (user_line(node.meta.get("stack_trace")) or "").partition(" ")[0] == where
    ]
    return list(dict.fromkeys(names))
