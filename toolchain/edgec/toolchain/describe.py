"""A parsed MLIR module to its description: edgec's own, or one made from its public functions."""

import re
from collections.abc import Iterator
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ProgramError
from edgec.runtime.signature import Dim, Signature, TensorSpec
from edgec.toolchain.ir.functions import entry_block, functions, returns
from edgec.toolchain.program import (
    PROGRAM_ATTRIBUTE,
    Dialect,
    Function,
    Input,
    Output,
    ProgramInfo,
    Provenance,
)

__all__ = ["describe", "dialect_of", "operations"]


def describe(module: Any, source: str) -> ProgramInfo:
    """The `edgec.program` attribute of an `ir.Module`, or flat signatures of its public functions.

    Args:
        module: an `ir.Module`, StableHLO or another input dialect.
        source: what to call the program in its provenance, when it does not say itself.

    Raises:
        ProgramError: the attribute is damaged, or there is no public function of tensors.
    """
    from iree.compiler import ir

    attributes = module.operation.attributes
    if PROGRAM_ATTRIBUTE in attributes:
        return ProgramInfo.from_json(ir.StringAttr(attributes[PROGRAM_ATTRIBUTE]).value)
    found = tuple(
        _function(name, operation)
        for name, operation in functions(module).items()
        if _is_public(operation) and list(operation.regions[0].blocks)
    )
    if not found:
        raise ProgramError(
            f"{source} has no public function to compile",
            hint="give a module with at least one public func.func of tensors",
        )
    return ProgramInfo(
        functions=found,
        provenance=Provenance(framework="mlir", versions={}, source=source),
        dialect=dialect_of(module),
    )


def operations(module: Any) -> Iterator[Any]:
    """Every operation inside the module, outer ones first."""

    def walk(operation: Any) -> Iterator[Any]:
        for region in operation.regions:
            for block in region.blocks:
                for child in block.operations:
                    yield child.operation
                    yield from walk(child.operation)

    return walk(module.operation)


def dialect_of(module: Any) -> Dialect:
    """What the module is written in, by its operations."""
    found = Dialect.LINALG
    for operation in operations(module):
        name = operation.name
        if name == "torch.operator" and "onnx." in str(operation.attributes["name"]):
            return Dialect.ONNX
        if name.startswith(("torch.", "torch_c.")):
            found = Dialect.TORCH
        if name.startswith(("stablehlo.", "chlo.")) and found is Dialect.LINALG:
            found = Dialect.STABLEHLO
    return found


def _is_public(operation: Any) -> bool:
    from iree.compiler import ir

    if "sym_visibility" not in operation.attributes:
        return True
    visibility: str = ir.StringAttr(operation.attributes["sym_visibility"]).value
    return visibility == "public"


def _function(name: str, operation: Any) -> Function:
    block = entry_block(operation)
    inputs = [
        _spec(argument.type, _argument_name(argument, index), f"argument {index} of {name}")
        for index, argument in enumerate(block.arguments)
    ]
    if len({spec.name for spec in inputs}) != len(inputs):
        inputs = [
            TensorSpec(name=f"arg{index}", shape=spec.shape, dtype=spec.dtype)
            for index, spec in enumerate(inputs)
        ]
    outputs = [
        _spec(value.type, f"out{index}", f"result {index} of {name}")
        for index, value in enumerate(next(returns(operation)).operands)
    ]
    return Function(
        signature=Signature.flat(name, inputs, outputs),
        arguments=tuple(Input(index=index) for index in range(len(inputs))),
        results=tuple(Output(index=index) for index in range(len(outputs))),
    )


def _argument_name(argument: Any, index: int) -> str:
    """The name that a framework left in the argument's location, if it is one."""
    found = re.fullmatch(r'loc\("([A-Za-z_]\w*)"(?:\(.*\))?\)', str(argument.location))
    return found[1] if found else f"arg{index}"


def _spec(kind: Any, name: str, place: str) -> TensorSpec:
    found = re.fullmatch(r"tensor<((?:[\d?]+x)*)([^,]+)(?:, .*)?>", str(kind))
    torch = re.fullmatch(r"!torch\.v?tensor<\[([\d?,]*)\],(\w+)>", str(kind))
    try:
        if found:
            sizes = [size for size in found[1].split("x") if size]
            return TensorSpec(name=name, shape=_shape(sizes, name), dtype=DType.from_mlir(found[2]))
        if torch:
            sizes = [size for size in torch[1].split(",") if size]
            return TensorSpec(name=name, shape=_shape(sizes, name), dtype=DType.from_mlir(torch[2]))
    except InputError as error:
        raise ProgramError(f"{place} is {kind}: {error.what}", hint=error.hint) from error
    raise ProgramError(f"{place} is {kind}, and edgec calls functions of tensors only")


def _shape(sizes: list[str], name: str) -> tuple[int | Dim, ...]:
    return tuple(
        Dim(name=f"{name}_{axis}", minimum=0) if size == "?" else int(size)
        for axis, size in enumerate(sizes)
    )
