"""A prepared ONNX model to MLIR: StableHLO where torch-mlir can make it, else the torch dialect.

IREE's importer writes ONNX' operations as such in the torch dialect; passes turn them into torch
operations, and torch-mlir's, where it is installed, those into StableHLO. What has no StableHLO
form there stays in the torch dialect, which the compiler reads too.
The passes die of some operations that they do not know, so they run in a child process.

python -m edgec.exporters.from_onnx.lower DIALECT.onnx CODE
"""

import importlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgec.exporters.from_onnx.by_data import sized_by_data
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain import fork_server, forking
from edgec.toolchain.program import Dialect

__all__ = ["RefusedOperations", "has_stablehlo", "lower", "main"]

_TIMEOUT = 3600.0
"""Seconds after which no answer of the server's is waited for."""


class RefusedOperations(Exception):
    """Operations have no lowering.

    Attributes:
        error: what the user is told.
        operations: their types; none where the importer died without naming one.
    """

    def __init__(self, error: UnsupportedOp, operations: frozenset[str]) -> None:
        super().__init__(error.what)
        self.error = error
        self.operations = operations


_TO_TORCH = "builtin.module(torch-onnx-to-torch-backend-pipeline)"
_TO_CONTRACT = (
    "builtin.module(func.func(convert-torch-onnx-to-torch),torch-lower-to-backend-contract)"
)
_TO_STABLEHLO = (
    "builtin.module(torch-backend-to-stablehlo-backend-pipeline{allow-non-finites=true})"
)
_ROADS = {
    Dialect.STABLEHLO: ("torch_mlir", (_TO_CONTRACT, _TO_STABLEHLO)),
    Dialect.TORCH: ("iree.compiler", (_TO_TORCH,)),
}
"""Whose bindings and which pipelines lead to a dialect."""


def has_stablehlo() -> bool:
    """Whether torch-mlir, which leads to StableHLO, is installed."""
    return importlib.util.find_spec("torch_mlir") is not None


def lower(model: Any, dialect: Dialect, *, name: str) -> bytes:
    """MLIR bytecode whose public function `main` has the graph's inputs and outputs.

    Args:
        model: a prepared `onnx.ModelProto`; for StableHLO, all its shapes are known.
        dialect: what to lower to.
        name: the signature, for messages.

    Raises:
        RefusedOperations: an operation has no lowering; its error names it and its node.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-onnx-") as folder:
        source = Path(folder, f"{dialect.value}.onnx")
        source.write_bytes(model.SerializeToString())
        lowered = _in_child(source, dialect)
    if isinstance(lowered, bytes):
        return lowered
    raise _refusal(lowered, model, name)


def _in_child(source: Path, dialect: Dialect) -> bytes | list[tuple[str, str]]:
    """What `_lowered` gives, in a fork of the server's or of this process, else in one of its own.

    This process is forked where all work forks, and no other: what a framework's threads hold
    there stays held (with JAX in it, or MLIR at work, a fork waited for ever).
    """
    code, said = source.with_suffix(".mlirbc"), source.with_suffix(".txt")
    if _forked(source, code, said, dialect) == 0:
        status = 0
    else:
        with said.open("wb") as file:
            status = subprocess.run(
                [sys.executable, "-m", __name__, source, code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                check=False,
            ).returncode
    if status == 0 and code.exists():
        return code.read_bytes()
    if status == 0:
        return [(place, text) for place, text in json.loads(_refused(code).read_text())]
    last = said.read_text(errors="replace").strip().splitlines()[-1:] or [""]
    how = f"died of signal {-status}" if status < 0 else last[0]
    return [("", f"the importer {how}, of an operation that it does not know")]


def _forked(source: Path, code: Path, said: Path, dialect: Dialect) -> int | None:
    """The exit code of a fork that answers; None where there is none."""
    if forking.answers_forked() is not None:
        begin = partial(_bindings, _ROADS[dialect][0])
        return forking.run(partial(main, source, code), stderr=said, begin=begin)
    try:
        return fork_server.run(source, code, stderr=said, timeout=_TIMEOUT, module=__name__)
    except subprocess.TimeoutExpired:
        return None


def _bindings(package: str) -> tuple[Any, Any, Any]:
    """A package's operations, passes and importer."""
    parts = ("ir", "passmanager", "extras.onnx_importer")
    ir, passes, importer = (importlib.import_module(f"{package}.{part}") for part in parts)
    return ir, passes, importer


def _lowered(package: str, model: Any, pipelines: Sequence[str]) -> bytes | list[tuple[str, str]]:
    """Bytecode, or the places and messages of the refusal."""
    ir, passes, importer = _bindings(package)
    context = ir.Context()
    if package == "torch_mlir":
        importlib.import_module("torch_mlir.dialects.torch").register_dialect(context)
    messages: list[tuple[str, str]] = []

    def keep(diagnostic: Any) -> bool:
        messages.append((str(diagnostic.location), str(diagnostic.message)))
        return True

    info = importer.ModelInfo(model)
    module = info.create_module(context=context)
    with context:
        context.emit_error_diagnostics = True
        handler = context.attach_diagnostic_handler(keep)
        try:
            importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
            _convert(module, ir)
            for pipeline in pipelines:
                passes.PassManager.parse(pipeline).run(module.operation)
        except importer.OnnxImportError as error:
            return [*messages, ("", str(error))]
        except ir.MLIRError as error:
            return [*messages, ("", str(error))]
        finally:
            handler.detach()
        left = _left_over(module, ir)
        if left is not None:
            return [left]
        _tidy(module, ir)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


_SCALARS = {
    "ui8": 0, "si8": 1, "si16": 2, "si32": 3, "si64": 4, "f16": 5, "f32": 6, "f64": 7, "bf16": 15,
    "ui16": 27, "ui32": 28, "ui64": 29,
}  # fmt: skip
"""PyTorch's numbers of element types."""


_SHORT = "si16"


def _convert(module: Any, ir: Any) -> None:
    """Casts to i16 and bit casts, which the importer has no pattern for, as PyTorch's.

    A bit cast is a view of another type.
    """
    for operation in _operations(module, ir, "torch.operator"):
        name = ir.StringAttr(operation.attributes["name"]).value
        result = operation.results[0] if len(operation.results) == 1 else None
        if name not in ("onnx.BitCast", "onnx.Cast") or result is None:
            continue
        kind = str(result.type).rpartition(",")[2].rstrip(">")
        if kind not in _SCALARS or (name == "onnx.Cast" and kind != _SHORT):
            continue
        with ir.InsertionPoint(operation), operation.location:
            number = ir.Operation.create(
                "torch.constant.int",
                results=[ir.Type.parse("!torch.int")],
                attributes={
                    "value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _SCALARS[kind])
                },
            )
            made = ir.Operation.create(
                "torch.aten.view.dtype"
                if name == "onnx.BitCast"
                else "torch.prims.convert_element_type",
                results=[result.type],
                operands=[operation.operands[0], number.result],
            )
        result.replace_all_uses_with(made.result)
        operation.erase()


def _operations(module: Any, ir: Any, name: str) -> list[Any]:
    """All operations of a name; a list, for they may be replaced."""
    found: list[Any] = []

    def collect(operation: Any) -> Any:
        if operation.name == name:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    return found


def _left_over(module: Any, ir: Any) -> tuple[str, str] | None:
    """Where and what an operation of ONNX is that no pass took, or None."""
    for operation in _operations(module, ir, "torch.operator"):
        return str(operation.location), ir.StringAttr(operation.attributes["name"]).value
    return None


def _tidy(module: Any, ir: Any) -> None:
    """Name the function `main`, and make what torch-mlir leaves in `arith` StableHLO."""
    for op in module.body.operations:
        function = op.operation
        if function.name != "func.func" or "sym_visibility" in function.attributes:
            continue
        ir.SymbolTable.set_symbol_name(function, "main")
        for attribute in [a for a in function.attributes if a.startswith("torch.")]:
            del function.attributes[attribute]
    for operation in _operations(module, ir, "arith.constant"):
        if any(True for _ in operation.result.uses):
            with ir.InsertionPoint(operation), operation.location:
                constant = ir.Operation.create(
                    "stablehlo.constant",
                    results=[operation.result.type],
                    attributes={"value": operation.attributes["value"]},
                )
            operation.result.replace_all_uses_with(constant.result)
        operation.erase()


def _refusal(messages: Sequence[tuple[str, str]], model: Any, name: str) -> RefusedOperations:
    named = {kind for _, text in messages for kind in _OPERATION.findall(text)}
    return RefusedOperations(_error(messages, model, name), frozenset(named))


_OPERATION = re.compile(r"onnx\.(\w+)")


def _error(messages: Sequence[tuple[str, str]], model: Any, name: str) -> UnsupportedOp:
    for location, text in messages:
        found = _OPERATION.search(text)
        if found is None:
            continue
        source = sized_by_data(model, found[1])
        if source is not None:
            return UnsupportedOp(
                f"{name} makes a tensor whose size depends on data, by {source.op_type}",
                where=f"node {source.name or source.output[0]}",
                hint="export the part of the model before it, and do the rest in the app",
            )
        label = re.search(r'loc\("([^"]+)"', location)
        nodes = [n for n in model.graph.node if n.op_type == found[1]]
        node = label[1] if label else (nodes[0].name or nodes[0].output[0] if nodes else "")
        return UnsupportedOp(
            f"{name} uses ONNX' {found[1]} in a form that the importer does not take",
            where=f"node {node}" if node else None,
            hint="export the model from its framework with other operations, or with fixed shapes",
        )
    text = messages[0][1] if messages else "no reason given"
    return UnsupportedOp(
        f"{name} cannot be imported: {text.splitlines()[0][:300]}",
        hint="export the model from its framework with fixed shapes and opset 17",
    )


def main(source: Path, code: Path) -> None:
    """The child: lower a model into a file of code, or say in another why it is refused.

    Args:
        source: the model, in a file named after the dialect.
        code: where bytecode goes, or beside it as JSON what `_lowered` says.
    """
    import onnx

    package, pipelines = _ROADS[Dialect(source.stem)]
    lowered = _lowered(package, onnx.load(source), pipelines)
    if isinstance(lowered, bytes):
        code.write_bytes(lowered)
    else:
        _refused(code).write_text(json.dumps(lowered))


def _refused(code: Path) -> Path:
    return code.with_suffix(".json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
