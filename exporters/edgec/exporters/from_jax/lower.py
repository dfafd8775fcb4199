"""A flat JAX function to StableHLO bytecode, with what only XLA would use taken out."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.exporters.from_jax.on_the_way import numbered
from edgec.exporters.from_jax.refusals import (
    foreign_call,
    refuse_custom_calls,
    refuse_primitives,
)
from edgec.exporters.from_jax.rules import lowering_rules
from edgec.exporters.mesh.calls import MARKERS
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Lowered", "cut_of", "lower", "lower_for_mesh"]

_ASSERTIONS = {"shape_assertion"}


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """StableHLO bytecode with the function `main`, and the shape and dtype of each result."""

    bytecode: bytes
    results: tuple[tuple[tuple[Any, ...], Any], ...]


def lower(
    call: Callable[..., Any],
    weights: Sequence[Any],
    states: Sequence[Any],
    inputs: Sequence[Any],
    *,
    name: str,
    values: bool = False,
) -> Lowered:
    """Trace and lower `call(weights, states, inputs)`; each array is one argument, used or not.

    Args:
        call: a function of three lists of arrays.
        weights: arrays.
        states: arrays.
        inputs: `ShapeDtypeStruct`s, with symbolic dimensions where dynamic.
        name: the signature, for messages.
        values: whether locations carry the number of each equation (`on_the_way`).

    Raises:
        UnsupportedOp: an operation has no portable form.
    """
    import jax
    from jax import export
    from jax._src import config, source_info_util

    # The user's line in a location must not be one of edgec's.
    source_info_util.register_exclusion(str(Path(__file__).parents[1]))
    specs = [
        [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays] for arrays in (weights, states)
    ]
    if values:
        call = numbered(call, [*specs, list(inputs)])
    jitted = jax.jit(call, keep_unused=True)
    refuse_primitives(jitted.trace(*specs, list(inputs)).jaxpr.jaxpr, name)
    # Shardings are written as calls, which are easier to take out than Shardy's own dialect.
    with config.use_shardy_partitioner(False):
        call_to_export = export.export(
            jitted,
            platforms=("cpu",),
            disabled_checks=_checked_here(),
            _override_lowering_rules=lowering_rules(),
        )
        try:
            exported = call_to_export(*specs, list(inputs))
        except ValueError as error:
            raise _foreign(str(error), name) or error from error
    return Lowered(
        bytecode=_cleaned(exported.mlir_module_serialized, name),
        results=tuple((a.shape, a.dtype) for a in exported.out_avals),
    )


def lower_for_mesh(
    call: Callable[..., Any],
    weights: Sequence[Any],
    inputs: Sequence[Any],
    *,
    cuts: Sequence[Any | None],
    name: str,
) -> Lowered:
    """As `lower`, with what the user says of shardings as Shardy's notes in the module.

    Args:
        call: a function of three lists of arrays, of which the second is empty.
        weights: arrays; those that lie on several devices keep their shardings.
        inputs: `ShapeDtypeStruct`s.
        cuts: the sharding of each input; None to leave it open.
        name: the signature, for messages.

    Raises:
        UnsupportedOp: an operation has no portable form.
    """
    import jax
    from jax._src import config, source_info_util
    from jax._src.interpreters import mlir
    from jax._src.shard_map import shard_map_p

    source_info_util.register_exclusion(str(Path(__file__).parents[1]))
    all_cuts = [*map(cut_of, weights), *cuts]
    specs = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=cut)
        for a, cut in zip([*weights, *inputs], all_cuts, strict=True)
    ]
    first = len(weights)
    rules = tuple(rule for rule in lowering_rules() if rule[0] is not shard_map_p)
    with config.use_shardy_partitioner(True):
        traced = jax.jit(call, keep_unused=True).trace(specs[:first], [], specs[first:])
        refuse_primitives(traced.jaxpr.jaxpr, name)
        lowered = traced.lower(
            lowering_platforms=("cpu",),
            _private_parameters=mlir.LoweringParameters(override_lowering_rules=rules),
        )
    module = lowered.compiler_ir("stablehlo")
    _leave_open(module, [cut is not None for cut in all_cuts])
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return Lowered(
        bytecode=buffer.getvalue(),
        results=tuple((a.shape, a.dtype) for a in traced.jaxpr.out_avals),
    )


def _leave_open(module: Any, given: Sequence[bool]) -> None:
    """Let Shardy decide on arguments of which nobody has said how they are cut.

    With a mesh around the function JAX notes that such an argument is whole everywhere.
    """
    from jaxlib.mlir import ir

    main = next(
        op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
        and ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"
    )
    if "arg_attrs" not in main.attributes:
        return
    with module.context:
        notes = [
            note if said else ir.DictAttr.get({})
            for note, said in zip(ir.ArrayAttr(main.attributes["arg_attrs"]), given, strict=True)
        ]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(notes)


def cut_of(array: Any) -> Any | None:
    """How an array is cut over the devices of a mesh; None for one that is whole.

    With a mesh around, JAX puts whatever it makes onto all of its devices, whole.
    """
    from jax.sharding import NamedSharding

    sharding = getattr(array, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.is_fully_replicated:
        return None
    return sharding


def _foreign(text: str, name: str) -> UnsupportedOp | None:
    """The refusal of a foreign function that JAX does not export, where that is what it says."""
    found = re.search(r"custom_call @(\w+)\(.*?\bloc\((.*)\)\.?$", text, re.MULTILINE)
    return foreign_call(name, found[1], found[2]) if found else None


def _checked_here() -> tuple[Any, ...]:
    """JAX's own refusals that edgec's look at the result replaces."""
    from jax import export

    return tuple(export.DisabledSafetyCheck.custom_call(target) for target in sorted(MARKERS))


def _cleaned(serialized: bytes, name: str) -> bytes:
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(serialized, context)
        doomed: list[Any] = []

        def look(operation: Any) -> Any:
            if operation.name == "stablehlo.custom_call":
                target = ir.StringAttr(operation.attributes["call_target_name"]).value
                if target in _ASSERTIONS or target in MARKERS:
                    doomed.append(operation)
            return ir.WalkResult.ADVANCE

        module.operation.walk(look)
        for operation in doomed:
            if len(operation.results) == 1:
                operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        refuse_custom_calls(module, name)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()
