"""A convolution in groups over NHWC to a dispatch of one of two kernels, by how wide they are.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.group_tiles import block_tile, sum_tile
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.variants import Constant
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.groups import why_not
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.convolution import Convolution
from edgec.toolchain.match.description import validate

__all__ = ["place_grouped"]

_ELEMENTS = ("f16", "bf16", "f32")
_VECTOR = 8


def place_grouped(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    """Replace `op`, which `conv` describes, and what follows it by a kernel, if one takes it."""
    element = op.operands[0].type.element_type
    reason = why_not(conv, _ELEMENTS)
    if reason is not None:
        return Declined(reason=reason)
    validate(conv, "convolution")
    tail = find_finish(conv.value, element, conv.outputs, library.answers)
    down, across = conv.axes
    rows = conv.batch * down.out * across.out
    last = ir.RankedTensorType.get([rows, conv.outputs], tail.last.type.element_type)
    with ir.InsertionPoint(tail.last.owner.operation):
        launch = _launch(conv, str(element), tail, last, library)
        results = library.call(launch)
        if isinstance(results, Declined):
            return results
        replace(tail.last, results[0])
    return Kernel(name=launch.name)


def _launch(conv: Convolution, element: str, tail: Finish, last: Any, library: Library) -> Launch:
    """The call of the kernel for the matrix units, or of the one that sums one by one."""
    down, across = conv.axes
    (rows, _), each = last.shape, conv.outputs // conv.groups
    block = block_tile(library.gpu, conv)
    constants: dict[str, Constant]
    folded = {"inputs": conv.inner, "each": each}
    if block is not None:
        vector = math.gcd(_VECTOR, conv.inner, each)
        source, warps, stages = "grouped_product", block.warps, 4
        grid = (
            math.ceil(rows / block.rows),
            math.ceil(conv.groups / block.together),
            math.ceil(block.together * each / block.columns),
        )
        constants = {"BM": block.rows, "BN": block.columns, "BK": block.inner}
        constants |= {"TOGETHER": block.together, "PRECISION": library.precision}
        folded |= {"taps": conv.taps, "taps_wide": across.window}
    else:
        tile = sum_tile(library.gpu, conv)
        vector = math.gcd(_VECTOR, conv.outputs, conv.channels)
        source, warps, stages = "grouped", 4, 2
        grid = (math.ceil(rows / tile.rows), math.ceil(conv.outputs / tile.columns), 1)
        constants = {"BM": tile.rows, "BN": tile.columns, "TAPS_WIDE": across.window}
        folded |= {"taps_high": down.window}
    return Launch(
        name=f"{source}_{element}",
        source=source,
        grid=grid,
        warps=warps,
        stages=stages,
        reads={
            "x": conv.image,
            "w": conv.weight,
            **tail.reads(conv.image),
        },
        writes={"c": last},
        numbers={
            **{"images": conv.batch, "high": down.size, "wide": across.size},
            **{"channels": conv.channels, "outputs": conv.outputs},
            **{"out_high": down.out, "out_wide": across.out},
        },
        folded={
            **tail.folded,
            **folded,
            **{"stride_high": down.stride, "stride_wide": across.stride},
            **{"dilation_high": down.dilation, "dilation_wide": across.dilation},
            **{"pad_high": down.low, "pad_wide": across.low},
        },
        constants={**constants, "VECTOR": vector},
        multiples=dict.fromkeys(("channels", "outputs"), vector) if vector > 1 else {},
    )
