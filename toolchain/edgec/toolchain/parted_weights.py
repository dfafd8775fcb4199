"""Weights that the module computes when it is loaded, in buffers that a kernel may reach into.

The compiler turns and pads weights once, when the module is loaded, and lays all results of that
behind each other in one buffer, which it then gives to each kernel whole, with an offset. Devices
let a kernel reach into no more than so many bytes of a buffer (128 MiB is what they promise), and
no flag of iree-compile 3.13 cuts that buffer (that for the largest allocation is heeded for
constants alone). A barrier between these computations ends a buffer.
"""

import math
from pathlib import Path
from typing import Any

from edgec.runtime.files import write_atomically
from edgec.toolchain.folded import parse

__all__ = ["APART", "part_weights", "whole_bytes"]

APART = 256
"""Bytes to which the compiler may round a size up, and at multiples of which bindings begin."""


def part_weights(source: Path, output: Path, *, most: int) -> int:
    """End a buffer where it would have more bytes than a kernel may reach into.

    Args:
        source: the program after the compiler's first half.
        output: the same for its second half.
        most: bytes of one buffer.

    Returns:
        How often that was needed.

    Raises:
        FileError: a file cannot be read or written.
    """
    from iree.compiler import ir

    module = parse(source)
    count = filled = 0
    before: Any = None
    with module.context, ir.Location.name("edgec.parted_weights"):
        for store in _stores(module):
            size = whole_bytes(store.operands[0].type)
            if before is not None and filled + size > most:
                _end(before)
                count, filled = count + 1, 0
            filled += size
            before = store
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return count


def _stores(module: Any) -> list[Any]:
    """What initializers keep, in the order in which they run."""
    return [
        op.operation
        for top in module.body.operations
        if top.operation.name == "util.initializer"
        for block in top.regions[0].blocks
        for op in block.operations
        if op.operation.name == "util.global.store"
    ]


def whole_bytes(kind: Any) -> int:
    """Bytes of a tensor as the compiler may round them up; 0 where they are not known."""
    from iree.compiler import ir

    is_known = isinstance(kind, ir.RankedTensorType) and kind.has_static_shape
    if not is_known or kind.encoding is not None:
        return 0
    element = kind.element_type
    bits = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    size: int = math.prod(kind.shape) * -(-bits // 8)
    return -(-size // APART) * APART


def _end(store: Any) -> None:
    """Let nothing behind what is stored be computed together with it."""
    from iree.compiler import ir

    value = store.operands[0]
    with ir.InsertionPoint(store):
        apart = ir.Operation.create(
            "util.optimization_barrier", results=[value.type], operands=[value]
        )
    store.operands[0] = apart.results[0]
