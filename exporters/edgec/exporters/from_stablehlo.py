"""A StableHLO file, checked and passed on as a Program; one that edgec wrote stays what it is."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.exporters.assemble import weights_beside
from edgec.exporters.lift_weights import WeightLifter
from edgec.runtime.errors import SourceError, UsageError
from edgec.runtime.golden import Golden
from edgec.toolchain.load import load_program
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import (
    PROGRAM_ATTRIBUTE,
    Dialect,
    Function,
    Parameter,
    Program,
    ProgramInfo,
)
from edgec.toolchain.stablehlo import parse_stablehlo
from edgec.toolchain.weights_file import check_weights_path, write_weights

__all__ = ["export_file"]


def export_file(
    path: Path,
    *,
    signatures: tuple[str, ...] = (),
    dynamic: tuple[str, ...] = (),
    external_weights: Path | None = None,
    folder: Path | None = None,
) -> Program:
    """Read MLIR text or bytecode, verify it, and describe it.

    Args:
        path: a `.mlir` or `.mlirbc` file in StableHLO, portable or not.
        signatures: keep only these public functions.
        dynamic: must be empty, since the shapes in the file are what they are.
        external_weights: see `export`; constants of 1 KiB and more move to this file.
        folder: see `export`.

    Raises:
        FileError: it cannot be read.
        ProgramError: it is no MLIR, or does not verify.
        SourceError: it has no such signature.
        UsageError: something was asked for that a finished program cannot give.
    """
    if dynamic:
        raise UsageError(
            f"{path} is a program already: its dimensions cannot be made dynamic",
            hint="export the model itself with --dynamic",
        )
    if external_weights is not None:
        check_weights_path(external_weights)
    program = load_program(path)
    if external_weights is not None and program.info.weights is not None:
        raise UsageError(
            f"{path} keeps its weights in {program.info.weights.file} already",
            hint="leave out --external-weights",
        )
    info = _kept(program.info, path, signatures)
    golden = program.golden
    if golden is not None:
        names = {f.signature.name for f in info.functions}
        calls = tuple(call for call in golden.calls if call.signature in names)
        golden = Golden(calls=calls) if calls else None
    bytecode, info = _rewritten(program.bytecode, info, external_weights, folder)
    return Program(bytecode=bytecode, info=info, golden=golden)


def _kept(info: ProgramInfo, path: Path, signatures: tuple[str, ...]) -> ProgramInfo:
    if not signatures:
        return info
    known = {f.signature.name: f for f in info.functions}
    for name in signatures:
        if name not in known:
            raise SourceError(f"{path} has no signature {name}", hint=f"it has {', '.join(known)}")
    return replace(info, functions=tuple(known[name] for name in signatures))


def _rewritten(
    data: bytes, info: ProgramInfo, external_weights: Path | None, folder: Path | None
) -> tuple[bytes, ProgramInfo]:
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(data, context)
        _hide_others(module, {f.signature.name for f in info.functions})
        if external_weights is not None:
            lifter = WeightLifter({}, set())
            added = lifter.lift(module)
            info = replace(
                info,
                functions=tuple(_with_parameters(f, added) for f in info.functions),
                weights=weights_beside(external_weights, folder, tuple(lifter.values)),
            )
            if lifter.values:
                write_weights(lifter.values, external_weights)
        module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info.to_json())
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    bytecode = buffer.getvalue()
    return (to_portable(bytecode) if info.dialect is Dialect.STABLEHLO else bytecode), info


def _hide_others(module: Any, names: set[str]) -> None:
    """Make functions outside the program's signatures private, so that nothing else is public."""
    from iree.compiler import ir

    for op in module.body.operations:
        operation = op.operation
        if operation.name != "func.func":
            continue
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        if name not in names and not name.startswith("edgec_"):
            operation.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _with_parameters(function: Function, added: dict[str, tuple[str, ...]]) -> Function:
    names = added.get(function.signature.name, ())
    roles = tuple(Parameter(name=name) for name in names)
    return replace(function, arguments=function.arguments + roles)
