"""A program as JAX gives it to PJRT: read, freed of what only XLA is told, and compiled."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec import toolchain
from edgec.exporters.entry import plain_entry
from edgec.exporters.mesh.calls import MARKERS
from edgec.plugins.pjrt import FUNCTION
from edgec.plugins.pjrt.arrays import NARROW_NUMBERS, arrays_as_numbers
from edgec.targets import for_capability
from edgec.toolchain.describe import describe
from edgec.toolchain.ir.functions import find_function, functions
from edgec.toolchain.program import Program
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["DONATED", "Read", "compile_for", "read"]

_ALIASED = "tf.aliasing_output"
"""Of an argument whose memory is given away, for the result that its number says."""
DONATED = ("jax.buffer_donor", _ALIASED)
"""Attributes of an argument whose memory is given away."""
_ADVICE = ("mhlo.", "jax.", "tf.", "sdy.", "xla.")
"""What attributes for XLA begin with."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """A program of JAX's.

    Attributes:
        program: for the toolchain.
        plain: its bytes without the user's lines.
        name: what JAX calls it.
        donated: for each argument whether its memory is given away (1) or not (0).
        places: of those that are, which result may lie in the memory, by their numbers.
        outputs: each result's type as PJRT numbers it, rank and sizes, one after the other; none
            where the module says so.
    """

    program: Program
    plain: bytes
    name: str
    donated: tuple[int, ...]
    places: Mapping[int, int]
    outputs: tuple[int, ...]


def read(data: bytes) -> Read:
    """Read a portable artifact.

    Raises:
        ProgramError: it is none, or from a newer StableHLO than the compiler knows.
    """
    from iree.compiler import ir, passmanager

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(data, context)
        name = ir.StringAttr(module.operation.attributes["sym_name"]).value
        donated, places = _take_advice(module)
        given = plain_entry(ir, module, find_function(module, FUNCTION))
        bytecode = _bytecode(module)
        program = Program(bytecode=bytecode, info=describe(module, name))
        outputs = _outputs(program, given)
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        return Read(
            program=program,
            plain=_bytecode(module),
            name=name,
            donated=donated,
            places=places,
            outputs=outputs,
        )


def _outputs(program: Program, given: Sequence[str]) -> tuple[int, ...]:
    """What JAX is to know of the results where their elements are narrower than the module's."""
    if not set(given) & set(NARROW_NUMBERS):
        return ()
    (function,) = program.info.functions
    specs = function.signature.outputs
    arrays = [(spec.dtype, [int(str(size)) for size in spec.shape]) for spec in specs]
    return arrays_as_numbers(arrays, given)


def compile_for(
    what: str, program: Program, output: Path, places: Mapping[int, int] | None = None
) -> tuple[int, ...]:
    """Compile a program into a file.

    Args:
        what: for devices of this driver, or for a GPU of a compute capability (`cuda:90`).
        program: what `read` or `spread` gave.
        output: the module's file.
        places: arguments that may be given away, each with the result that may lie there.

    Returns:
        What a call adds and multiplies, the bytes that its operations move, both as the program is
        written, and the most bytes that it holds for a while; nothing where that is not known.

    Raises:
        EdgecError: as `toolchain.compile`.
    """
    options = toolchain.CompileOptions(
        output=output,
        check=False,
        cache=False,
        iree_args=("--iree-opt-const-eval=false",),
        donated=places or {},
        weighed=True,
    )
    driver, _, capability = what.partition(":")
    target = for_capability(int(capability)).name if capability else driver
    report = toolchain.compile_with_report(program, target, options).report
    share = report.kernels
    return () if share is None else (share.flops, share.bytes, report.held or 0)


def _take_advice(module: Any) -> tuple[tuple[int, ...], dict[int, int]]:
    """Take out what is said to XLA alone; what it says of arguments that are donated.

    Returns:
        For each argument whether it is donated, and which result may lie in it.
    """
    from iree.compiler import ir

    main = find_function(module, FUNCTION)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    arguments, results = list(kind.inputs), list(kind.results)
    donated = [0] * len(arguments)
    places: dict[int, int] = {}
    if "arg_attrs" in main.attributes:
        for index, found in enumerate(ir.ArrayAttr(main.attributes["arg_attrs"])):
            donated[index] = int(any(name in found for name in DONATED))
            if _ALIASED in found:
                places[index] = ir.IntegerAttr(found[_ALIASED]).value
    for index, kind in enumerate(arguments):
        if donated[index] and index not in places:
            taken = set(places.values())
            free = [n for n, each in enumerate(results) if each == kind and n not in taken]
            places.update((index, n) for n in free[:1])
    for name in list(module.operation.attributes):
        if name.startswith(_ADVICE):
            del module.operation.attributes[name]
    for function in functions(module).values():
        for name in ("arg_attrs", "res_attrs"):
            if name in function.attributes:
                del function.attributes[name]
    doomed: list[Any] = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            if target in MARKERS:
                doomed.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for operation in doomed:
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()
    return tuple(donated), places


def _bytecode(module: Any) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
