"""What a target does not run, found in the program before the compiler is asked.

The compiler takes some of them in silence and fails on the device, refuses others in words of its
own, and dies of a few.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError
from edgec.targets import Backend, Target
from edgec.toolchain.diagnostics import explain_lapack
from edgec.toolchain.ir.functions import find_function, inside
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.program import Dialect, ProgramInfo
from edgec.toolchain.refusals import KNOWN

__all__ = [
    "OPERATIONS",
    "TEXT",
    "refuse_calls",
    "refuse_doubles",
    "refuse_half_types",
    "refuse_halves",
    "refuse_missing_types",
    "refuse_operations",
]

TEXT = "-"
"""The file that a location names where the program was text."""

_DEVICES = ("speaks to other devices, and a module runs on one", "export it for a single device")
_QUEUES = (
    "hands arrays to or from its host while it runs, and a module has no such queue",
    "make it an argument or a result of the function",
)

OPERATIONS: Mapping[str, tuple[str, str]] = {
    "stablehlo.all_gather": _DEVICES,
    "stablehlo.all_reduce": _DEVICES,
    "stablehlo.all_to_all": _DEVICES,
    "stablehlo.collective_broadcast": _DEVICES,
    "stablehlo.collective_permute": _DEVICES,
    "stablehlo.cross-replica-sum": _DEVICES,
    "stablehlo.partition_id": _DEVICES,
    "stablehlo.recv": _DEVICES,
    "stablehlo.reduce_scatter": _DEVICES,
    "stablehlo.replica_id": _DEVICES,
    "stablehlo.send": _DEVICES,
    "stablehlo.infeed": _QUEUES,
    "stablehlo.outfeed": _QUEUES,
    "stablehlo.cholesky": (
        "is a factorisation without code in the compiler",
        "export with `edgec export`, which writes JAX's own out, or factorise before and give the "
        "result as an input",
    ),
    "stablehlo.triangular_solve": (
        "is a solver without code in the compiler",
        "export with `edgec export`, which writes JAX's own out, or invert before and multiply",
    ),
    "stablehlo.uniform_quantize": (
        "is on a quantised type, of which the compiler has none",
        "quantise with plain integers: divide by the scale, round, clamp, convert",
    ),
    "stablehlo.uniform_dequantize": (
        "is on a quantised type, of which the compiler has none",
        "take plain integers: convert, subtract the zero point, multiply by the scale",
    ),
}
"""Why an operation is refused, and what to do."""

_DOUBLES = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("atan2", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor"),
        *("log", "log_plus_one", "logistic", "power", "remainder", "round_nearest_afz"),
        *("round_nearest_even", "sine", "tan", "tanh"),
    )
)

# What the compiler itself writes out.
_ANSWERED = frozenset({"ProductOfElementaryHouseholderReflectors", "Qr"})


_MOVES_HALVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("bitcast_convert", "broadcast_in_dim", "concatenate", "constant", "dynamic_slice"),
        *("dynamic_update_slice", "gather", "pad", "reshape", "reverse", "select", "slice"),
        *("transpose", "optimization_barrier"),
    )
)
"""Operations on halves that only move them."""


def refuse_operations(module: Any, spoken: Collection[str] = ()) -> None:
    """Raise for the first operation of `OPERATIONS`, before any pass meets it.

    Args:
        module: an `ir.Module`.
        spoken: functions whose collectives the compiler carries out.

    Raises:
        CompileError: naming the operation, its place and what to do.
    """
    carried = [op for name in spoken for op in inside(find_function(module, name))]
    for op in inside(module.operation):
        found = OPERATIONS.get(op.name)
        if found is not None and op not in carried:
            why, hint = found
            raise CompileError(f"{op.name} {why}", where=place_of(op), hint=hint)


def refuse_calls(module: Any) -> None:
    """Raise for the first call of a foreign function that is left after all passes.

    Args:
        module: an `ir.Module`.

    Raises:
        CompileError: naming the function, its place and what to do.
    """
    from iree.compiler import ir

    for op in inside(module.operation):
        if op.name != "stablehlo.custom_call":
            continue
        name = ir.StringAttr(op.attributes["call_target_name"]).value
        if name not in _ANSWERED:
            what, hint = _explained(name)
            raise CompileError(what, where=place_of(op), hint=hint)


def refuse_doubles(module: Any, target: Target) -> None:
    """Raise for the first function of f64 that is left after all passes on a 32-bit Arm CPU.

    The library that iree-compile 3.13 links there has these functions without a body: `exp` of
    f64 gives its argument back, `floor` ends the process.

    Args:
        module: an `ir.Module`.
        target: what it is compiled for.

    Raises:
        CompileError: naming the operation, its place and what to do.
    """
    from iree.compiler import ir

    if target.cpu is None or not target.cpu.triple.startswith("armv7"):
        return
    for op in inside(module.operation):
        if op.name in _DOUBLES and isinstance(_element(op), ir.F64Type):
            raise CompileError(
                f"{op.name} of f64 has no code for {target.name} in the compiler",
                where=place_of(op),
                hint="compute it in 32-bit floats",
            )


def refuse_half_types(module: Any, target: Target) -> None:
    """Raise for the first operation that computes with f16, where its code does not run.

    Copies of halves are only bytes, and bf16 is converted by shifts.

    Args:
        module: an `ir.Module`.
        target: what it is compiled for.

    Raises:
        CompileError: naming the operation, its place and what to do.
    """
    from iree.compiler import ir

    if target.limits.f16:
        return
    for op in inside(module.operation):
        values = [*op.operands, *op.results]
        kinds = [v.type.element_type for v in values if isinstance(v.type, ir.RankedTensorType)]
        computes = op.name.startswith(("stablehlo.", "chlo.")) and op.name not in _MOVES_HALVES
        if (
            computes
            and not _is_of_constants(op)
            and any(isinstance(kind, ir.F16Type) for kind in kinds)
        ):
            raise CompileError(
                f"{op.name} of f16 has no code for {target.name} that browsers and node take",
                where=place_of(op),
                hint="export the model in f32 (model.float()), or in bf16",
            )


def _is_of_constants(op: Any) -> bool:
    """Whether the compiler computes it itself, where it runs."""
    from iree.compiler import ir

    return bool(op.operands) and all(
        not isinstance(value.owner, ir.Block) and value.owner.operation.name == "stablehlo.constant"
        for value in op.operands
    )


def refuse_halves(info: ProgramInfo, target: Target) -> None:
    """Refuse f16 where edgec does not rewrite, or where weights are not the module's own.

    Raises:
        CompileError: saying which, and what to do.
    """
    if target.backend is Backend.CPU:
        if info.weights is not None:
            raise CompileError(
                f"--precision=f16 keeps a module's weights as halves, and those of this program "
                f"are in {info.weights.file}",
                hint="export it without --external-weights, or leave --precision=f16 out",
            )
        return
    if info.dialect is not Dialect.STABLEHLO:
        raise CompileError(
            f"--precision=f16 is for StableHLO, and this program is {info.dialect.value}",
            hint="export the model again; what is left in another dialect is computed as declared",
        )


def refuse_missing_types(info: ProgramInfo, target: Target) -> None:
    """Refuse 64-bit floats at the surface of a program for a device that has none.

    Raises:
        CompileError: naming the argument or result, and what to do.
    """
    if target.limits.f64:
        return
    for function in info.functions:
        signature = function.signature
        for spec in (*signature.inputs, *signature.outputs, *info.states):
            if spec.dtype in (DType.F64, DType.C128):
                raise CompileError(
                    f"{signature.name} has {spec}, and {target.name} has no 64-bit floats",
                    hint="convert the model to 32-bit floats and export again, "
                    "or choose another target",
                )


def _element(op: Any) -> Any:
    return getattr(op.results[0].type, "element_type", None)


def _explained(name: str) -> tuple[str, str]:
    """What a foreign function is, and what to do without it."""
    if re.fullmatch(r"lapack_[a-z]\w+_ffi", name):
        return explain_lapack(name)
    text = f'call_target_name = "{name}"'
    refusal, match = next((r, found) for r in KNOWN if (found := r.pattern.search(text)))
    return refusal.what.format(target="", **match.groupdict()), refusal.hint
