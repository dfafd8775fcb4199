"""A convolution of narrow groups over NHWC to a dispatch of the grouped kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.groups import why_not
from edgec.toolchain.kernels.gpu.tails import CLIPS_BY_NUMBERS, find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.convolution import Convolution
from edgec.toolchain.match.description import validate

__all__ = ["place_grouped"]

_ELEMENTS = ("f16", "bf16", "f32")
_COLUMNS = 64
_ROWS = 16


def place_grouped(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    """Replace `op`, which `conv` describes, and what follows it by a kernel, if one takes it."""
    element = op.operands[0].type.element_type
    reason = why_not(conv, _ELEMENTS)
    if reason is not None:
        return Declined(reason=reason)
    validate(conv, "convolution")
    tail, _ = find_finish(conv.value, element, conv.outputs, CLIPS_BY_NUMBERS)
    down, across = conv.axes
    rows = conv.batch * down.out * across.out
    with ir.InsertionPoint(tail.last.owner.operation):
        results = library.call(
            Launch(
                name=f"grouped_{element}",
                source="grouped",
                grid=(-(-rows // _ROWS), -(-conv.outputs // _COLUMNS), 1),
                warps=4,
                stages=2,
                reads={
                    "x": conv.image,
                    "w": conv.weight,
                    "bias": tail.bias or conv.image,
                    "other": tail.other or conv.image,
                },
                writes={
                    "c": ir.RankedTensorType.get([rows, conv.outputs], tail.last.type.element_type)
                },
                numbers={
                    **{"images": conv.batch, "high": down.size, "wide": across.size},
                    **{"channels": conv.channels, "outputs": conv.outputs},
                    **{"out_high": down.out, "out_wide": across.out},
                },
                folded={
                    **tail.folded,
                    **{"inputs": conv.inner, "each": conv.outputs // conv.groups},
                    **{"taps": conv.taps, "taps_wide": across.window},
                    **{"stride_high": down.stride, "stride_wide": across.stride},
                    **{"dilation_high": down.dilation, "dilation_wide": across.dilation},
                    **{"pad_high": down.low, "pad_wide": across.low},
                },
                constants={"BM": _ROWS, "BN": _COLUMNS},
            )
        )
        if isinstance(results, Declined):
            return results
        replace(tail.last, results[0])
    return Kernel(name=f"grouped_{element}")
