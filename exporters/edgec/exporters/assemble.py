"""Traced functions of one framework to one Program: weights in or beside it, symbols merged.

Everything happens on MLIR in memory through the compiler's bindings; no text is printed. A weight
that several functions use is one attribute in the file, since MLIR keeps equal attributes once.
"""

import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.lift_weights import WeightLifter
from edgec.exporters.traced import TracedFunction
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.signature import TensorSpec
from edgec.runtime.text.facts import TextFacts
from edgec.toolchain.framework_values import FrameworkValues
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import (
    PROGRAM_ATTRIBUTE,
    STATE_FUNCTION,
    Dialect,
    Function,
    Output,
    Parameter,
    Program,
    ProgramInfo,
    Provenance,
    Role,
    State,
    Weights,
    digest_of,
)
from edgec.toolchain.stablehlo import parse_stablehlo
from edgec.toolchain.weights_file import check_weights_path, write_weights

__all__ = ["WEIGHTS_SCOPE", "assemble", "dense", "golden_of", "weights_beside"]

WEIGHTS_SCOPE = "model"
"""The parameter scope that modules ask the runtime for."""


def assemble(
    functions: Sequence[TracedFunction],
    *,
    provenance: Provenance,
    external_weights: Path | None = None,
    folder: Path | None = None,
    text: TextFacts | None = None,
    mesh: Plan | None = None,
) -> Program:
    """Make one program of functions that share parameters and state by name.

    Args:
        functions: what a framework's `trace` gave; one public function each, named `main`.
        provenance: where they came from.
        external_weights: the file to write the parameters to; None embeds them.
        folder: where the program will be saved, so that it can name the weights file relative to
            itself; None: beside the weights.
        text: of a language model, its tokenizer and what else its text takes.
        mesh: of a program for several devices, what they do with the functions.

    Raises:
        ExportError: the functions do not fit together or their roles do not fit their code.
        FileError: the weights cannot be written.
        UsageError: the weights file has a suffix that edgec does not write.
    """
    from iree.compiler import ir

    if external_weights is not None:
        check_weights_path(external_weights)
    dialects = {f.dialect for f in functions}
    if len(dialects) != 1:
        raise ExportError("the functions of one program must be of one dialect")
    (dialect,) = dialects
    functions = _distinct_parameters(functions)
    parameters = _union(f.parameters for f in functions)
    states = _union(f.states for f in functions)
    described: list[Function] = []
    with ir.Context() as context, ir.Location.unknown():
        merged = ir.Module.create()
        taken = {STATE_FUNCTION} | {f.signature.name for f in functions}
        lifter = WeightLifter(_union(f.constants for f in functions), set(parameters))
        for traced in functions:
            module = parse_stablehlo(traced.module, context)
            main = _main_of(module, traced)
            embed = {} if external_weights is not None else traced.parameters
            roles = _bind_parameters(main, traced, embed)
            if external_weights is not None:
                roles += tuple(Parameter(name=n) for n in lifter.lift(module)["main"])
            _rename_symbols(module, main, traced.signature.name, taken)
            for op in module.body.operations:
                op.operation.clone(ip=ir.InsertionPoint(merged.body))
            described.append(
                Function(signature=traced.signature, arguments=roles, results=traced.results)
            )
        used = _names(Parameter, described)
        state_specs = _state_specs(states, described)
        if state_specs:
            _add_initial_state(merged, [states[spec.name] for spec in state_specs], dialect)
        weights = None
        if external_weights is not None:
            weights = weights_beside(external_weights, folder, used)
            values = {**parameters, **lifter.values}
            if used:
                write_weights({name: values[name] for name in used}, external_weights)
        info = ProgramInfo(
            functions=tuple(described),
            states=state_specs,
            weights=weights,
            provenance=provenance,
            dialect=dialect,
            kept=next((f.kept for f in functions if f.kept), ""),
            text=text,
            mesh=mesh,
        )
        merged.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info.to_json())
        buffer = io.BytesIO()
        _verify(merged)
        merged.operation.write_bytecode(buffer)
    bytecode = buffer.getvalue()
    if dialect is Dialect.STABLEHLO:
        bytecode = to_portable(bytecode)
    return Program(
        bytecode=bytecode,
        info=info,
        golden=golden_of(functions),
        values=_values(functions, provenance, bytecode),
    )


def weights_beside(path: Path, folder: Path | None, names: tuple[str, ...]) -> Weights | None:
    """How a program saved in `folder` names its weights file; None if it needs no weight."""
    if not names:
        return None
    start = path.parent if folder is None else folder
    file = Path(os.path.relpath(path, start)).as_posix()
    return Weights(scope=WEIGHTS_SCOPE, file=file, names=names)


def _distinct_parameters(functions: Sequence[TracedFunction]) -> list[TracedFunction]:
    """The functions with equal parameter names only where the values are equal too."""
    known: dict[str, np.ndarray] = {}
    result: list[TracedFunction] = []
    for traced in functions:
        rename: dict[str, str] = {}
        for name, value in traced.parameters.items():
            if name in known and not _same(known[name], value):
                rename[name] = f"{traced.signature.name}.{name}"
            else:
                known[name] = value
        if rename:
            traced = TracedFunction(
                module=traced.module,
                dialect=traced.dialect,
                signature=traced.signature,
                arguments=tuple(
                    Parameter(name=rename.get(role.name, role.name))
                    if isinstance(role, Parameter)
                    else role
                    for role in traced.arguments
                ),
                results=traced.results,
                parameters={rename.get(n, n): v for n, v in traced.parameters.items()},
                constants=traced.constants,
                states=traced.states,
                calls=traced.calls,
                values=traced.values,
                computed_by=traced.computed_by,
            )
        result.append(traced)
    return result


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one is other:
        return True
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(_bits(one), _bits(other)))


def _bits(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _union(mappings: Iterator[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    result: dict[str, np.ndarray] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            result.setdefault(name, value)
    return result


def _main_of(module: Any, traced: TracedFunction) -> Any:
    """The operation of the function `main`, checked against the roles."""
    from iree.compiler import ir

    name = traced.signature.name
    for op in module.body.operations:
        main = op.operation
        if main.name != "func.func" or ir.StringAttr(main.attributes["sym_name"]).value != "main":
            continue
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        counts = (len(kind.inputs), len(kind.results))
        if counts != (len(traced.arguments), len(traced.results)):
            raise ExportError(
                f"{name} has {counts[0]} arguments and {counts[1]} results, and its roles speak "
                f"of {len(traced.arguments)} and {len(traced.results)}",
                hint="this is an error in the exporter: please report it",
            )
        _agree(kind.results, traced)
        return main
    raise ExportError(
        f"the exported module of {name} has no function main",
        hint="this is an error in the exporter: please report it",
    )


def _agree(results: Sequence[Any], traced: TracedFunction) -> None:
    """Refuse code whose results have other sizes than the framework's answers.

    Raises:
        ExportError: an importer took an operation for another.
    """
    from iree.compiler import ir

    for kind, role in zip(results, traced.results, strict=True):
        if not isinstance(role, Output) or not isinstance(kind, ir.RankedTensorType):
            continue
        spec = traced.signature.outputs[role.index]
        sizes = [None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(kind.rank)]
        said = [size if isinstance(size, int) else None for size in spec.shape]
        if len(sizes) != len(said) or any(
            None not in pair and pair[0] != pair[1] for pair in zip(sizes, said, strict=True)
        ):
            raise ExportError(
                f"{spec.name} of {traced.signature.name} has the shape "
                f"{tuple(spec.shape)} in its framework, and {tuple(sizes)} in the imported code",
                hint="an operation before it is imported wrongly: export the model with others",
            )


def _bind_parameters(
    main: Any, traced: TracedFunction, embed: Mapping[str, np.ndarray]
) -> tuple[Role, ...]:
    """Drop unused parameters from `main`, embed those in `embed`; the roles that are left."""
    from iree.compiler import ir

    block = main.regions[0].blocks[0]
    kept: list[Role] = []
    for index in reversed(range(len(traced.arguments))):
        role = traced.arguments[index]
        argument = block.arguments[index]
        if not isinstance(role, Parameter):
            kept.append(role)
            continue
        if not any(True for _ in argument.uses):
            block.erase_argument(index)
            continue
        if role.name not in embed:
            kept.append(role)
            continue
        with ir.InsertionPoint.at_block_begin(block), _location_of(argument, main):
            constant = _constant(embed[role.name], traced.dialect, argument.type)
        argument.replace_all_uses_with(constant)
        block.erase_argument(index)
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    inputs = [argument.type for argument in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    # What frameworks note here (sharding, donation, aliasing) speaks of their own runtimes.
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]
    return tuple(reversed(kept))


def _location_of(argument: Any, main: Any) -> Any:
    return getattr(argument, "location", None) or main.location


def _constant(value: np.ndarray, dialect: Dialect, kind: Any) -> Any:
    """A constant operation at the insertion point: its result, of type `kind`."""
    from iree.compiler import ir

    if dialect is not Dialect.TORCH:
        attribute = dense(value)
        return ir.Operation.create(
            "stablehlo.constant", results=[kind], attributes={"value": attribute}
        ).result
    attribute = dense(value, signed=True)
    return ir.Operation.create(
        "torch.vtensor.literal", results=[kind], attributes={"value": attribute}
    ).result


def dense(value: np.ndarray, *, signed: bool = False) -> Any:
    """A `DenseElementsAttr` of the array's bits; `signed` spells i32 as si32, as torch does."""
    from iree.compiler import ir

    dtype = DType.of(value.dtype)
    spelling = dtype.mlir
    if signed and dtype in (DType.I8, DType.I16, DType.I32, DType.I64):
        spelling = f"s{spelling}"
    kind = ir.RankedTensorType.get(list(value.shape), ir.Type.parse(spelling))
    plain = np.ascontiguousarray(value)
    if dtype is DType.BF16:
        plain = plain.view(np.uint16)
    return ir.DenseElementsAttr.get(plain, type=kind)


def _rename_symbols(module: Any, main: Any, name: str, taken: set[str]) -> None:
    """Give `main` the signature's name and every other symbol one that is free."""
    from iree.compiler import ir

    table = ir.SymbolTable
    for op in module.body.operations:
        operation = op.operation
        if operation == main or "sym_name" not in operation.attributes:
            continue
        old = ir.StringAttr(operation.attributes["sym_name"]).value
        new = old
        for number in itertools.count(1):
            if new not in taken and (new == old or new not in _symbols(module)):
                break
            new = f"{name}__{old}" if number == 1 else f"{name}__{old}_{number}"
        taken.add(new)
        if new != old:
            table.replace_all_symbol_uses(old, new, module.operation)
            table.set_symbol_name(operation, new)
        if operation.name == "func.func":
            operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    table.replace_all_symbol_uses("main", name, module.operation)
    table.set_symbol_name(main, name)
    main.attributes["sym_visibility"] = ir.StringAttr.get("public")


def _symbols(module: Any) -> set[str]:
    from iree.compiler import ir

    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value
        for op in module.body.operations
        if "sym_name" in op.operation.attributes
    }


def _names(kind: type[Parameter] | type[State], functions: Sequence[Function]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for function in functions:
        for role in (*function.arguments, *function.results):
            if isinstance(role, kind):
                found[role.name] = None
    return tuple(found)


def _state_specs(
    states: Mapping[str, np.ndarray], functions: Sequence[Function]
) -> tuple[TensorSpec, ...]:
    names = _names(State, functions)
    missing = [name for name in names if name not in states]
    if missing:
        raise ExportError(
            f"the state {missing[0]} has no initial value",
            hint="this is an error in the exporter: please report it",
        )
    return tuple(
        TensorSpec(name=name, shape=states[name].shape, dtype=DType.of(states[name].dtype))
        for name in names
    )


def _add_initial_state(module: Any, values: Sequence[np.ndarray], dialect: Dialect) -> None:
    """A function that returns each state's first value: constants, then a return.

    The tensors are builtin ones in every dialect; only the constants' operation differs.
    """
    from iree.compiler import ir

    operation = "stablehlo.constant" if dialect is Dialect.STABLEHLO else "arith.constant"
    attributes = [dense(value) for value in values]
    kinds = [attribute.type for attribute in attributes]
    with ir.InsertionPoint(module.body):
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(STATE_FUNCTION),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], kinds)),
            },
            regions=1,
        )
    with ir.InsertionPoint(function.regions[0].blocks.append()):
        constants = [
            ir.Operation.create(operation, results=[kind], attributes={"value": attribute}).result
            for kind, attribute in zip(kinds, attributes, strict=True)
        ]
        ir.Operation.create("func.return", operands=constants)


def _verify(module: Any) -> None:
    from iree.compiler import ir

    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise ExportError(
            f"the assembled program is not valid MLIR: {error}",
            hint="this is an error in the exporter: please report it",
        ) from error


def _values(
    functions: Sequence[TracedFunction], provenance: Provenance, bytecode: bytes
) -> FrameworkValues | None:
    """What the framework computed on the way, where that was kept."""
    found = tuple(value for traced in functions for value in traced.values)
    if not found:
        return None
    by = functions[0].computed_by
    return FrameworkValues(
        framework=f"{by} {provenance.versions.get(by, '')}".strip(),
        program=digest_of(bytecode),
        values=found,
    )


def golden_of(functions: Sequence[TracedFunction]) -> Golden | None:
    """The calls of all functions: round by round with state, else function by function."""
    rounds = [
        [
            GoldenCall(
                signature=f.signature.name,
                inputs=c.inputs,
                outputs=c.outputs,
                within=c.within,
                open=c.open,
            )
            for c in f.calls
        ]
        for f in functions
    ]
    calls = [call for group in itertools.zip_longest(*rounds) for call in group if call is not None]
    return Golden(calls=tuple(calls)) if calls else None
