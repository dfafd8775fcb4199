"""Each kernel of the user's own in a program, as a program of its own with answers to prove it by.

The answers are those of the kernel's reference, computed in NumPy, operation by operation, for
inputs from a seed. Compiled as any other program with golden answers, it proves the kernel on the
device that runs it.

A module imported only by a process of its own; it needs the compiler.
"""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import ProgramError
from edgec.runtime.files import read_bytes
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.describe import describe
from edgec.toolchain.ir.evaluate import NotEvaluated
from edgec.toolchain.ir.functions import functions, inside
from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.ir.places import source_line
from edgec.toolchain.program import Program, ProgramInfo
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["write_proofs"]

_LARGEST_INDEX = 7


def write_proofs(source: Path, folder: Path) -> list[dict[str, str]]:
    """Write a program for every kernel of the program at `source`.

    Returns:
        Of each its name, the user's line, the program's file, and why it has no answers (empty
        where it has).

    Raises:
        FileError: a file cannot be read or written.
        ProgramError: the program is damaged.
    """
    from iree.compiler import ir

    from edgec.toolchain.kernels.own.placing import described

    module = parse_stablehlo(read_bytes(source), ir.Context())
    found: list[dict[str, str]] = []
    seen: set[str] = set()
    for op in inside(module.operation):
        kernel = described(op)
        if kernel is None or (form := _form(module, op)) in seen:
            continue
        seen.add(form)
        path = folder / f"kernel{len(found)}.mlirbc"
        alone = _alone(module, op)
        problem = ""
        try:
            golden = _answers(alone, describe(alone, kernel.name))
        except NotEvaluated as reason:
            golden, problem = None, f"its reference cannot be computed in NumPy: {reason}"
        buffer = io.BytesIO()
        alone.operation.write_bytecode(buffer)
        info = describe(alone, kernel.name)
        Program(bytecode=buffer.getvalue(), info=info, golden=golden).save(path)
        where = source_line(op) or ""
        found.append({"name": kernel.name, "where": where, "file": str(path), "problem": problem})
    return found


def _form(module: Any, op: Any) -> str:
    """What tells kernels apart that need a proof each: all but the names of their references."""
    names: dict[str, str] = {}
    parts = []
    for function in _called(module, op):
        names[str(function.attributes["sym_name"]).strip('"')] = f"f{len(names)}"
        parts.append(str(function))
    kinds = [str(value.type) for value in (*op.operands, *op.results)]
    text = "\n".join(parts)
    for name, plain in sorted(names.items(), key=lambda each: -len(each[0])):
        text = re.sub(rf"@(?:{re.escape(name)}\b|\"{re.escape(name)}\")", f"@{plain}", text)
    return f"{op.attributes['composite_attributes']} {kinds} {text}"


def _alone(module: Any, op: Any) -> Any:
    """A module whose `main` is the kernel; operands that are constants stay constants."""
    from iree.compiler import ir

    with module.context, ir.Location.unknown():
        alone = ir.Module.create()
        for function in _called(module, op):
            function.clone(ip=ir.InsertionPoint(alone.body))
        constant = [_constant(value) for value in op.operands]
        given = [v.type for v, held in zip(op.operands, constant, strict=True) if held is None]
        kind = ir.FunctionType.get(given, [value.type for value in op.results])
        with ir.InsertionPoint(alone.body):
            main = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(kind),
                },
                regions=1,
            )
        places = [ir.Location.unknown()] * len(given)
        block = main.regions[0].blocks.append(*given, arg_locs=places)
        rest = iter(block.arguments)
        with ir.InsertionPoint(block):
            operands = [
                next(rest) if held is None else held.clone().results[0] for held in constant
            ]
            made = op.clone()
            for number, value in enumerate(operands):
                made.operands[number] = value
            ir.Operation.create("func.return", operands=list(made.results))
    return alone


def _constant(value: Any) -> Any:
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        return None
    return owner.operation


def _called(module: Any, op: Any) -> Iterator[Any]:
    """The function that a composite stands for, and all that it calls; private."""
    from iree.compiler import ir

    known = functions(module)
    waiting = [ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in known:
            raise ProgramError(
                f"a kernel's reference is the function {name}, which the program does not have",
                hint="export the model again",
            )
        yield known[name]
        for inner in inside(known[name]):
            for attribute in ("callee", "decomposition"):
                if attribute in inner.attributes:
                    waiting.append(ir.FlatSymbolRefAttr(inner.attributes[attribute]).value)


def _answers(module: Any, info: ProgramInfo) -> Golden:
    """What the reference gives for inputs from a seed."""
    (function,) = [f for f in info.functions if f.signature.name == "main"]
    inputs, outputs = function.signature.inputs, function.signature.outputs
    sizes = [size for spec in (*inputs, *outputs) for size in spec.shape if isinstance(size, int)]
    random = np.random.default_rng(1)
    given = tuple(_numbers(spec.shape, spec.dtype.numpy, sizes, random) for spec in inputs)
    with np.errstate(all="ignore"):
        results = Interpreter(module).call("main", given)
    made = tuple(
        np.asarray(result).astype(spec.dtype.numpy)
        for result, spec in zip(results, outputs, strict=True)
    )
    return Golden(calls=(GoldenCall(signature="main", inputs=given, outputs=made),))


def _numbers(
    shape: Sequence[Any], kind: Any, sizes: Sequence[int], random: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Floats around 0; whole numbers that may be indices along any axis; both truths."""
    sizes_here = tuple(int(size) for size in shape)
    name = np.dtype(kind).name
    if name == "bool":
        return random.integers(0, 2, sizes_here).astype(bool)
    if np.dtype(kind).kind in "iu":
        most = min([_LARGEST_INDEX, *(size - 1 for size in sizes if size > 1)])
        return random.integers(0, most + 1, sizes_here).astype(kind)
    return random.standard_normal(sizes_here).astype(kind)
