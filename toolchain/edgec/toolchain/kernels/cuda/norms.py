"""A layer norm or RMS norm along the last axis to a dispatch of the norm kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import struct
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import Norm, ends, made_by, variance

__all__ = ["rewrite_norm"]

_ELEMENTS = ("f16", "bf16", "f32")
_BLOCKS = (1024, 4096)


def rewrite_norm(op: Any, library: Library) -> None:
    """Replace what ends after `op`, an rsqrt, by a kernel, if it is a norm that one takes."""
    found = variance(op.operands[0])
    if found is None:
        return
    centre, eps = found
    width = shape(centre.value)[-1]
    if width % 8 or width > _BLOCKS[-1] or not centre.value.type.has_static_shape:
        return
    candidates = list(ends(op.results[0], centre, width))
    sources: list[Any] = [v for v in (_narrow(centre.value), centre.value) if v is not None]
    found_ends = [
        (source, end)
        for source in sources
        for end in candidates
        if end[0].type.element_type == source.type.element_type
        and str(source.type.element_type) in _ELEMENTS
    ]
    if not found_ends:
        return
    # The narrowest source first, the longest end last.
    source = found_ends[0][0]
    last, scale, shift = [end for value, end in found_ends if value == source][-1]
    element = source.type.element_type
    given = [v for v in (scale, shift) if v is not None]
    kinds = {str(v.type.element_type) for v in given} or {str(element)}
    if len(kinds) > 1 or not kinds <= {str(element), "f32"}:
        return
    match = Norm(source=source, mean=centre.mean, epsilon=eps, scale=scale, shift=shift, value=last)
    validate(match, "norm")
    what = (scale is not None) | (shift is not None) << 1 | (kinds == {"f32"}) << 2
    what |= (not centre.mean) << 3
    block = next(n for n in _BLOCKS if n >= width)
    bits = struct.unpack("<i", struct.pack("<f", eps))[0]
    rows = math.prod(shape(source)) // width
    with ir.InsertionPoint(last.owner.operation):
        results = library.call(
            Launch(
                name=f"norm_{block}_{element}",
                source="norm",
                grid=(rows, 1, 1),
                warps=4 if block == _BLOCKS[0] else 8,
                stages=1,
                reads={"x": source, "scale": scale or source, "shift": shift or source},
                writes={"y": ir.RankedTensorType.get([rows, width], element)},
                numbers={"eps_bits": bits},
                folded={"width": width, "what": what},
                constants={"BN": block},
                multiples={"width": 8},
            )
        )
        if not isinstance(results, Declined):
            replace(last, results[0])


def _narrow(value: Any) -> Any | None:
    """The f16 or bf16 tensor that a value of f32 was widened from."""
    op = made_by(value, "convert")
    if op is None or str(op.operands[0].type.element_type) not in _ELEMENTS[:2]:
        return None
    return op.operands[0]
