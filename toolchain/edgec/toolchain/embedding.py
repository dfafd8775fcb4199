"""A program whose weights are in a file of their own to the same program with them inside.

The parent's side is `embed_weights`; the child's is `embed_file`, reached by `isolate`.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import CompileError, ProgramError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.parameters import WeightsFile
from edgec.toolchain.ir.functions import entry_block, find_function, set_types
from edgec.toolchain.isolate import call
from edgec.toolchain.program import PROGRAM_ATTRIBUTE, Dialect, Parameter, Program, ProgramInfo
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["embed_file", "embed_weights"]

_TIMEOUT = 600.0


def embed_weights(program: Program) -> Program:
    """The program with every parameter a constant; itself where it keeps none outside.

    Raises:
        FileError: the weights file cannot be read.
        ModuleError: it is damaged.
        ProgramError: it lacks a weight, or the program is damaged.
        CompileError: the program is in another dialect than StableHLO.
    """
    path = program.weights_path
    if path is None:
        return program
    if program.info.dialect is not Dialect.STABLEHLO:
        raise CompileError(
            f"the weights of {program.path or 'the program'} are in a file of their own "
            f"({path.name}), and cannot be put into a program in {program.info.dialect.value}",
            hint="export again without --external-weights",
        )
    file = WeightsFile.open(path)  # refused here, where it is missing or damaged
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, output = Path(folder, "source.mlirbc"), Path(folder, "whole.mlirbc")
        source.write_bytes(program.bytecode)
        text = call(
            "embed",
            {
                "source": str(source),
                "output": str(output),
                "weights": str(file.path),
                "info": program.info.to_json(),
            },
            subject=str(program.path or program.name),
            timeout=_TIMEOUT,
        )
        return replace(program, bytecode=output.read_bytes(), info=ProgramInfo.from_json(str(text)))


def embed_file(source: Path, output: Path, weights: Path, info: ProgramInfo) -> ProgramInfo:
    """Write `source` with its parameters as constants; the description of what was written.

    Raises:
        FileError: a file cannot be read or written.
        ProgramError: a weight is missing or has another size than the program says.
    """
    from iree.compiler import ir

    module = parse_stablehlo(read_bytes(source), ir.Context())
    entries = dict(WeightsFile.open(weights).index.items())
    bytes_of = np.memmap(weights, np.uint8, "r")
    with module.context, ir.Location.name("edgec.embed-weights"):
        for function in info.functions:
            _embed(find_function(module, function.signature.name), function, entries, bytes_of)
        functions = tuple(
            replace(f, arguments=tuple(r for r in f.arguments if not isinstance(r, Parameter)))
            for f in info.functions
        )
        whole = replace(info, functions=functions, weights=None)
        module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(whole.to_json())
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return whole


def _embed(operation: Any, function: Any, entries: Any, bytes_of: np.ndarray) -> None:
    from iree.compiler import ir

    block = entry_block(operation)
    kept = [i for i, role in enumerate(function.arguments) if not isinstance(role, Parameter)]
    for index, role in enumerate(function.arguments):
        if isinstance(role, Parameter):
            argument = block.arguments[index]
            with ir.InsertionPoint.at_block_begin(block):
                argument.replace_all_uses_with(
                    _constant(role.name, argument.type, entries, bytes_of)
                )
    for index in reversed(range(len(function.arguments))):
        if index not in kept:
            block.erase_argument(index)
    set_types(operation, kept, range(len(function.results)))


def _constant(name: str, kind: Any, entries: Any, bytes_of: np.ndarray) -> Any:
    from iree.compiler import ir

    tensor = ir.RankedTensorType(kind)
    entry = entries.get(name)
    if entry is None:
        raise ProgramError(
            f"the weights file lacks {name}, which the program needs",
            hint="use the weights file that was exported with the program",
        )
    offset = entry.file_storage[1]
    data = np.ascontiguousarray(bytes_of[offset : offset + entry.length])
    return ir.Operation.create(
        "stablehlo.constant",
        results=[kind],
        attributes={"value": _attribute(name, tensor, data)},
    ).results[0]


def _attribute(name: str, tensor: Any, data: np.ndarray) -> Any:
    """The bytes as a constant of that type."""
    from iree.compiler import ir

    element = tensor.element_type
    if isinstance(element, ir.IntegerType) and element.width == 1:
        return ir.DenseElementsAttr.get(data.astype(bool).reshape(list(tensor.shape)))
    count = int(np.prod(list(tensor.shape), dtype=np.int64))
    width = data.nbytes // max(1, count)
    if not count or width * count != data.nbytes or width != _width(element):
        raise ProgramError(
            f"the weight {name} has {data.nbytes} bytes, and the program wants {tensor}",
            hint="use the weights file that was exported with the program",
        )
    words = data.view(f"u{width}").reshape(list(tensor.shape))
    return ir.DenseElementsAttr.get(words, type=tensor)


def _width(element: Any) -> int:
    """Bytes of an element; 0 for one that weights are not kept in."""
    from iree.compiler import ir

    if isinstance(element, ir.IntegerType):
        return int(element.width) // 8
    return {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}.get(str(element), 0)
