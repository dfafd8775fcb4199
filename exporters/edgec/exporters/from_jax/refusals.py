"""JAX operations that have no portable form, found before anything is compiled.

Two nets: known primitives in the jaxpr, with advice for each; then any custom call left in the
StableHLO, which only XLA could answer.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_jax.general_eigen import REAL_SCHUR
from edgec.exporters.places import first_users
from edgec.runtime.errors import UnsupportedOp

__all__ = ["foreign_call", "refuse_custom_calls", "refuse_primitives"]


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """Why a primitive is refused, and what to do; `fits` says which equations of it are fine."""

    why: str
    hint: str
    fits: Callable[[Any], bool] = lambda equation: False


_FACTORISED = "is a call into LAPACK, a library that devices do not have"
_SMALL = "for a small fixed size write the factorisation out in jax.numpy (a loop over columns)"
_LAPACK = _Refusal(why=_FACTORISED, hint=f"do it before export and pass the result in; {_SMALL}")
_CALLBACK = _Refusal(
    why="calls back into Python, which is not there on the device",
    hint="take it out of the exported function, or compute its result before and pass it in",
)
_PRINT = _Refusal(
    why="prints from the host, which is not there on the device",
    hint="take jax.debug.print out of the exported function, or return the value",
)
_COLLECTIVE = _Refusal(
    why="speaks between several devices, and a module runs on one",
    hint="call it inside jax.shard_map, whose shards edgec computes on one device",
)
_KERNEL = _Refusal(
    why="is a kernel for one kind of accelerator",
    hint="use its plain jax.numpy form, or pallas_call, which edgec exports",
)
_PALLAS = _Refusal(
    why="takes sizes that change from call to call",
    hint="give pallas_call a grid of fixed sizes",
    fits=lambda equation: not equation.params["grid_mapping"].num_dynamic_grid_bounds,
)
_SCHUR = _Refusal(
    why="has blocks of two beside its triangle where numbers are real, which edgec does not write",
    hint=REAL_SCHUR,
    fits=lambda equation: equation.invars[0].aval.dtype.kind == "c",
)
_SHARDED = "shard_map"
"""What devices say to each other in it is lowered with it (`shards`)."""
_REFUSED: dict[str, _Refusal] = {
    "cholesky_update": _LAPACK,
    "geqp3": _LAPACK,
    "ormqr": _LAPACK,
    "schur": _SCHUR,
    "symmetric_product": _LAPACK,
    "pure_callback": _CALLBACK,
    "io_callback": _CALLBACK,
    "debug_callback": _PRINT,
    "debug_print": _PRINT,
    "infeed": _CALLBACK,
    "outfeed": _CALLBACK,
    "all_gather": _COLLECTIVE,
    "all_to_all": _COLLECTIVE,
    "ppermute": _COLLECTIVE,
    "psum": _COLLECTIVE,
    "pmax": _COLLECTIVE,
    "pmin": _COLLECTIVE,
    "reduce_scatter": _COLLECTIVE,
    "xla_pmap": _COLLECTIVE,
    "pallas_call": _PALLAS,
    "tpu_custom_call": _KERNEL,
    "custom_partitioning": _COLLECTIVE,
}


def refuse_primitives(jaxpr: Any, name: str) -> None:
    """Raise for the first primitive that no target can run.

    Args:
        jaxpr: an open `Jaxpr`.
        name: the signature, for the message.

    Raises:
        UnsupportedOp: naming the primitive, the user's line and what to do.
    """
    for equation, place in _equations(jaxpr, None):
        refusal = _REFUSED.get(equation.primitive.name)
        if refusal is None or refusal.fits(equation):
            continue
        raise UnsupportedOp(
            f"{name} uses JAX's {equation.primitive.name}, which {refusal.why}",
            where=place,
            hint=refusal.hint,
        )


# Custom calls that the pass for dynamic shapes takes: cumsum and its kin on a symbolic dimension.
_ANSWERED = frozenset({"stablehlo.dynamic_reduce_window"})


def refuse_custom_calls(module: Any, name: str, *, but: Collection[str] = ()) -> None:
    """Raise for a custom call in a StableHLO module (`iree.compiler.ir`), but of these targets.

    Raises:
        UnsupportedOp: naming its target and the user's line.
    """
    from iree.compiler import ir

    found: list[tuple[str, str]] = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            if target not in _ANSWERED and target not in but:
                found.append((target, str(operation.location)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if found:
        raise foreign_call(name, *found[0])


def foreign_call(name: str, target: str, location: str) -> UnsupportedOp:
    """The refusal of a call that holds no code.

    Args:
        name: the signature, for the message.
        target: what is called.
        location: of the operation, as MLIR writes it.
    """
    return UnsupportedOp(
        f"{name} calls {target}, which only XLA can answer",
        where=place_of_location(location),
        hint="use operations of jax.numpy or jax.lax in its place, or give it code with "
        "edgec.kernels.c(source, reference=…) and its like (docs/kernels.md)",
    )


def place_of_location(location: str) -> str | None:
    """The innermost place in user code that an MLIR location's text names."""
    frames = re.findall(r'(?:"([^"]*)"\()?"([^"]+)":(\d+):\d+', location)
    return first_users((file, int(line), function) for function, file, line in frames)


def _equations(jaxpr: Any, outer: str | None) -> Iterator[tuple[Any, str | None]]:
    """Every equation, with its place in user code or that of the equation around it."""
    for equation in jaxpr.eqns:
        place = _place(equation) or outer
        yield equation, place
        refusal = _REFUSED.get(equation.primitive.name)
        if refusal is not None and refusal.fits(equation):
            continue
        if equation.primitive.name == _SHARDED:
            continue
        for value in equation.params.values():
            for item in value if isinstance(value, list | tuple) else (value,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner, place)


def _place(equation: Any) -> str | None:
    traceback = equation.source_info.traceback
    if traceback is None:
        return None
    return first_users((f.file_name, f.line_num, f.function_name) for f in traceback.frames)
