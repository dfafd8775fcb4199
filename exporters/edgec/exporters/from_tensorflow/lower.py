"""A flat `tf.function` of fixed shapes to StableHLO, by TensorFlow's own compiler (tf2xla).

Captured variables and tensors become arguments after the inputs, in the order of
`captured_inputs`; the new values of assigned variables become results after the outputs, and an
attribute of the module tells which variable each belongs to.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.exporters.from_tensorflow.nodes import Nodes
from edgec.exporters.places import first_users
from edgec.runtime.errors import ExportError, UnsupportedOp

__all__ = ["Lowered", "lower", "refusal"]

_ALIASES = "mhlo.input_output_alias"
_CHLO = {
    f"mhlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh")
}
"""Functions that XLA has and StableHLO writes out in simpler ones."""
_TO_STABLEHLO = "builtin.module(func.func(chlo-legalize-to-stablehlo))"


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """StableHLO bytecode with `main(inputs, captures) -> (outputs, new values)`.

    `updates` holds the argument that each result after the outputs is the new value of.
    """

    bytecode: bytes
    updates: tuple[int, ...]


def lower(function: Any, specs: Sequence[Any], *, outputs: int, name: str, nodes: Nodes) -> Lowered:
    """Compile a `tf.function(jit_compile=True)` for fixed shapes.

    Args:
        function: it takes and gives flat tensors.
        specs: a `tf.TensorSpec` for each input.
        outputs: how many tensors it gives.
        name: the signature, for messages.
        nodes: what locations are to say.

    Raises:
        UnsupportedOp: an operation that XLA or StableHLO has not.
        ExportError: TensorFlow refuses it for another reason.
    """
    try:
        generate = function.experimental_get_compiler_ir(*specs)
        serialized = generate(stage="stablehlo_serialized")
    except ValueError as error:
        raise refusal(str(error), name) from error
    return _cleaned(serialized, generate, outputs, name, nodes)


def refusal(message: str, name: str) -> ExportError:
    """What TensorFlow's refusal says to the user: the operation, their line, and what to do."""
    # TensorFlow drops the leading slash of the files it names.
    frames = [
        (file if Path(file).is_absolute() or Path(file).exists() else f"/{file}", int(line), where)
        for file, line, where in re.findall(
            r'[Ff]ile "([^"]+)", line (\d+)(?:, in ([\w<>]+))?', message
        )
    ]
    where = first_users(
        (file, line, "" if function == "<module>" else function)
        for file, line, function in reversed(frames)
    )
    found = re.search(r"(\w+) \(No registered '(\w+)' OpKernel", message)
    if found:
        operation = found[2]
        node = re.search(r"\{\{node ([^}]+)\}\}", message)
        return UnsupportedOp(
            f"{name} uses TensorFlow's {operation}"
            + (f" (node {node[1]})" if node and node[1] != operation else "")
            + ", which XLA cannot compile",
            where=where,
            hint=_HINTS.get(
                operation,
                "take it out of the exported function, or compute its result before and pass it in",
            ),
        )
    first = next((line.strip() for line in message.splitlines() if line.strip()), message)
    first = first.removeprefix("Failed getting HLO text: '")
    return ExportError(
        f"TensorFlow cannot compile {name}: {first[:400]}",
        where=where,
        hint="call it under tf.function(jit_compile=True) yourself; it must run",
    )


_PYTHON = "write it in TensorFlow's own operations: Python is not there on the device"
_STRINGS = "turn strings into numbers before, and export the part after"
_TABLE = "look keys up before, and pass the indices in; tf.gather from a constant can be exported"
_HINTS = {
    "PyFunc": _PYTHON,
    "EagerPyFunc": _PYTHON,
    "PyFuncStateless": _PYTHON,
    "StringJoin": _STRINGS,
    "StringSplitV2": _STRINGS,
    "AsString": _STRINGS,
    "HashTableV2": _TABLE,
    "LookupTableFindV2": _TABLE,
    "MutableHashTableV2": _TABLE,
}


def _cleaned(serialized: bytes, generate: Any, outputs: int, name: str, nodes: Nodes) -> Lowered:
    from iree.compiler import ir, passmanager

    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(serialized)
        except ir.MLIRError as error:
            # Calls with tuples cannot be read, nor could any target answer them.
            target = re.search(r"custom_call @(\w+)", generate(stage="stablehlo"))
            if target is None:
                raise ExportError(
                    f"TensorFlow's code for {name} cannot be read: {error}",
                    hint="this is an error in the exporter: please report it",
                ) from error
            raise _custom_call(target[1], name) from error
        attributes = module.operation.attributes
        updates = _updates(attributes[_ALIASES]) if _ALIASES in attributes else {}
        _strip(module.operation)
        doomed: list[Any] = []
        composed: list[Any] = []

        def look(operation: Any) -> Any:
            if operation.name == "mhlo.copy" or _keeps_size(operation):
                doomed.append(operation)
            elif operation.name == "stablehlo.custom_call":
                target = ir.StringAttr(operation.attributes["call_target_name"]).value
                raise _custom_call(target, name)
            elif operation.name == "stablehlo.set_dimension_size":
                raise UnsupportedOp(
                    f"{name} makes a tensor whose size depends on data"
                    f" ({_operation_name(operation)})",
                    hint="use a form of fixed size: tf.where(condition, x, y) with three "
                    "arguments, or a mask, instead of tf.where(condition), tf.unique or "
                    "tf.boolean_mask",
                )
            elif operation.name in _CHLO:
                composed.append(operation)
            elif operation.name.startswith("mhlo."):
                raise UnsupportedOp(
                    f"{name} compiles to {operation.name}, which StableHLO has not"
                    f" ({_operation_name(operation)})",
                    hint="take it out of the exported function",
                )
            _strip(operation)
            operation.location = nodes.place(operation.location)
            return ir.WalkResult.ADVANCE

        _walk(module.operation, look)
        for operation in doomed:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        for operation in composed:
            _rename(operation, f"chlo.{operation.name.partition('.')[2]}")
        if composed:
            passmanager.PassManager.parse(_TO_STABLEHLO).run(module.operation)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    order = sorted(updates)
    if order != list(range(outputs, outputs + len(order))):
        raise ExportError(
            f"TensorFlow gives the results of {name} in an unknown order",
            hint="this is an error in the exporter: please report it",
        )
    return Lowered(bytecode=buffer.getvalue(), updates=tuple(updates[index] for index in order))


def _walk(operation: Any, look: Any) -> None:
    """Every operation inside; unlike MLIR's own walk, an exception passes through unharmed."""
    for region in operation.regions:
        for block in region.blocks:
            for child in list(block.operations):
                look(child.operation)
                _walk(child.operation, look)


def _rename(operation: Any, name: str) -> None:
    from iree.compiler import ir

    with ir.InsertionPoint(operation), operation.location:
        new = ir.Operation.create(
            name,
            results=[result.type for result in operation.results],
            operands=list(operation.operands),
        )
    operation.results[0].replace_all_uses_with(new.results[0])
    operation.erase()


def _updates(aliases: Any) -> dict[int, int]:
    """Result → the argument it is the new value of."""
    from iree.compiler import ir

    found: dict[int, int] = {}
    for alias in ir.ArrayAttr(aliases):
        entry = ir.DictAttr(alias)
        (result,) = ir.DenseI64ArrayAttr(entry["output_index"])
        found[result] = ir.IntegerAttr(ir.DictAttr(entry["alias"])["parameter_number"]).value
    return found


def _strip(operation: Any) -> None:
    for name in [n for n in operation.attributes if n.startswith("mhlo.")]:
        del operation.attributes[name]


def _keeps_size(operation: Any) -> bool:
    """Whether a `set_dimension_size` sets the size that the dimension has anyway."""
    from iree.compiler import ir

    if operation.name != "stablehlo.set_dimension_size":
        return False
    size = operation.operands[1].owner
    size = getattr(size, "operation", size)
    if getattr(size, "name", "") != "stablehlo.constant":
        return False
    value = next(iter(ir.DenseIntElementsAttr(size.attributes["value"])))
    axis = ir.IntegerAttr(operation.attributes["dimension"]).value
    return bool(ir.ShapedType(operation.operands[0].type).get_dim_size(axis) == value)


def _custom_call(target: str, name: str) -> UnsupportedOp:
    return UnsupportedOp(
        f"{name} calls XLA's {target}, a library routine that devices do not have",
        hint="factorise or invert before export and pass the result in",
    )


def _operation_name(operation: Any) -> str:
    found = re.search(r'"([^"]+)"', str(operation.location))
    return found[1] if found else "unknown place"
