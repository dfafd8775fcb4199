"""A half compiled program, whose constants the compiler has folded and packed: its large ones."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.files import read_bytes
from edgec.toolchain.ir.functions import inside

__all__ = ["FIRST_HALF", "SECOND_HALF", "bodies", "large_constants", "parse"]

FIRST_HALF = ("--compile-to=global-optimization", "--emit-mlir-bytecode")
"""Flags that end a compile where constants are folded and dispatches not yet formed."""

SECOND_HALF = ("--compile-from=global-optimization",)
"""Flags that go on from there."""

_LEAST = 1024
"""Bytes below which a constant is not worth a thought."""

_FUNCTIONS = ("util.func", "func.func", "util.initializer")
_TYPES = {
    **{"f16": np.float16, "f32": np.float32, "f64": np.float64},
    **{"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64},
}
_Array = np.ndarray[Any, np.dtype[Any]]


def parse(source: Path) -> Any:
    """Read the program, in a context of its own.

    Raises:
        FileError: it cannot be read.
    """
    from iree.compiler import ir

    return ir.Module.parse(read_bytes(source), ir.Context())


def bodies(module: Any) -> Iterator[Any]:
    """Every operation of the program's own functions; not those of kernels."""
    for top in module.body.operations:
        if top.operation.name in _FUNCTIONS:
            yield from inside(top.operation)


def large_constants(module: Any) -> Iterator[tuple[Any, _Array]]:
    """The constants of at least 1 KiB, with their numbers."""
    from iree.compiler import ir

    for operation in bodies(module):
        if operation.name != "arith.constant":
            continue
        value, kind = operation.attributes["value"], operation.results[0].type
        if not isinstance(kind, ir.RankedTensorType):
            continue
        array = _numbers(value, str(kind.element_type), list(kind.shape))
        if array is not None and array.nbytes >= _LEAST:
            yield operation, array


def _numbers(value: Any, element: str, shape: Sequence[int]) -> _Array | None:
    """The numbers of an attribute; None where they are all one, or of a type without bytes."""
    from iree.compiler import ir

    if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
        return None
    if element == "bf16":
        found = re.search(r'"0x([0-9A-Fa-f]*)"', str(value))
        if found is None:
            return None
        return np.frombuffer(bytes.fromhex(found[1]), DType.BF16.numpy).reshape(shape)
    if element not in _TYPES:
        return None
    array = np.ascontiguousarray(np.array(value))
    return array if array.dtype == _TYPES[element] and list(array.shape) == list(shape) else None
