"""Python that a program calls: numbered where JAX lowers it, and called for the plugin.

JAX's own rules (`debug.print`, `debug.callback`, `pure_callback`, `io_callback`) all write a call
by one function, which knows XLA's platforms alone; on edgec's it writes one with a number. A
program is cut at such a call, and between its parts the plugin (`runtime/pjrt/python.c`) calls
`address` with the number and with arrays in the host's memory.
"""

import ctypes
import itertools
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from edgec.runtime.mesh.plan import CALLBACK

__all__ = ["address", "lower_callbacks"]

_Array = tuple[tuple[int, ...], np.dtype]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Callback:
    """A function of arrays in the host's memory, and the arrays that it takes and gives."""

    call: Callable[..., Sequence[Any]]
    inputs: tuple[_Array, ...]
    outputs: tuple[_Array, ...]


_known: WeakValueDictionary[int, _Callback] = WeakValueDictionary()
_kept: list[_Callback] = []
"""For calls that are yet to be made, once for each."""
_numbers = itertools.count()


def lower_callbacks(platform: str) -> None:
    """Let JAX write calls of Python for a platform."""
    from jax._src import callback, debugging
    from jax._src.interpreters import mlir

    for_others = callback.emit_python_callback

    def emit(ctx: Any, call: Any, token: Any, operands: Any, *avals: Any, **told: Any) -> Any:
        if tuple(ctx.module_context.platforms) != (platform,):
            return for_others(ctx, call, token, operands, *avals, **told)
        return _written(ctx, call, token, operands, *avals, **told)

    callback.emit_python_callback = emit
    mlir.register_lowering(
        debugging.debug_callback_p, debugging.debug_callback_lowering, platform=platform
    )
    if hasattr(debugging, "debug_print_p"):
        mlir.register_lowering(
            debugging.debug_print_p, debugging.debug_print_lowering_rule, platform=platform
        )


def _written(
    ctx: Any,
    call: Any,
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[Any, Any, Any]:
    """A call with a number; calls keep the program's order, so tokens go past it.

    Raises:
        RuntimeError: JAX has no CPU, whose arrays Python is given.
    """
    del returns_token, sharding
    from jax._src import sharding_impls, xla_bridge
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    try:
        xla_bridge.local_devices(backend="cpu")
    except RuntimeError as error:
        raise RuntimeError(
            "Python that a program calls gets arrays of JAX's CPU, which is not among its "
            "platforms: start with JAX_PLATFORMS=edgec,cpu"
        ) from error
    made = _Callback(
        call=call,
        inputs=tuple((aval.shape, np.dtype(aval.dtype)) for aval in operand_avals),
        outputs=tuple((aval.shape, np.dtype(aval.dtype)) for aval in result_avals),
    )
    number = next(_numbers)
    _known[number] = made
    ctx.module_context.add_keepalive(made)
    by_hand = isinstance(ctx.module_context.axis_context, sharding_impls.SPMDAxisContext)
    written = mlir.custom_call(
        CALLBACK,
        result_types=[
            ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(np.dtype(aval.dtype)))
            for aval in result_avals
        ],
        operands=list(operands),
        backend_config=f"{number} {int(partitioned or by_hand)}",
        has_side_effect=has_side_effect,
    )
    return list(written.results), token, made


def _called(number: int, inputs: Any, outputs: Any, said: int, room: int) -> int:
    """Call by number; 0, or 1 and what failed as text in `said`. Without `said` keep, or let go."""
    from jax._src import dtypes

    if not said:
        (_kept.append if room else _kept.remove)(_known[number])
        return 0
    try:
        callback = _known[number]
        given = [_read(inputs[i], array) for i, array in enumerate(callback.inputs)]
        made = [dtypes.canonicalize_value(np.asarray(each)) for each in callback.call(*given)]
        _check(made, callback.outputs)
        for place, each in enumerate(made):
            if each.nbytes:
                ctypes.memmove(outputs[place], np.ascontiguousarray(each).ctypes.data, each.nbytes)
    except BaseException:  # noqa: BLE001 - all is told, as JAX's own platforms tell it
        head = b"Python that the program calls failed: "
        text = traceback.format_exc().encode()
        told = head + text[-(room - 1 - len(head)) :] + b"\0"
        ctypes.memmove(said, told, len(told))
        return 1
    return 0


def _read(place: int, array: _Array) -> np.ndarray:
    """A copy of an array in memory."""
    shape, dtype = array
    made = np.empty(shape, dtype)
    if made.nbytes:
        ctypes.memmove(made.ctypes.data, place, made.nbytes)
    return made


def _check(made: Sequence[np.ndarray], wanted: Sequence[_Array]) -> None:
    """Raises:
    RuntimeError: a function gives other arrays than it was said to.
    """
    if len(made) != len(wanted):
        raise RuntimeError(
            "Mismatched number of outputs from callback. "
            f"Expected: {len(wanted)}, Actual: {len(made)}"
        )
    for index, (each, (shape, dtype)) in enumerate(zip(made, wanted, strict=True)):
        if each.shape != shape:
            raise RuntimeError(
                f"Incorrect output shape for return value #{index}: "
                f"Expected: {shape}, Actual: {each.shape}"
            )
        if each.dtype != dtype:
            raise RuntimeError(
                f"Incorrect output dtype for return value #{index}: "
                f"Expected: {dtype}, Actual: {each.dtype}"
            )


_Pointers = ctypes.POINTER(ctypes.c_void_p)
_in_c = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, _Pointers, _Pointers, ctypes.c_void_p, ctypes.c_size_t
)(_called)


def address() -> int:
    """Of the function that calls by number, in C: `runtime/pjrt/plugin.h` has its type."""
    found = ctypes.cast(_in_c, ctypes.c_void_p).value
    return found or 0
