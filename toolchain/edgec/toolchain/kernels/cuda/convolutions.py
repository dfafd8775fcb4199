"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.choice import choose
from edgec.toolchain.kernels.cuda.grouped import place_grouped
from edgec.toolchain.kernels.cuda.inner_last import turned_weights
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.products import LEAST_WORK, NOT_SPLIT
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.rows import read_rows, window_key
from edgec.toolchain.kernels.gpu.tails import find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.match.convolution import Convolution, read_convolution
from edgec.toolchain.match.description import validate

__all__ = ["place_convolution"]

_ELEMENTS = ("f16", "bf16", "f32")
_MULTIPLE = 8


def place_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it; keep the answer."""
    conv = read_convolution(op)
    if conv is None:
        return
    origin = Origin(name=op.name, location=op.location)
    what, work = str(conv), conv.work  # Said now: nothing is left of them after a kernel is placed.
    place = place_grouped if conv.groups > 1 else _place
    library.answers.record(origin, what, work, place(conv, op, library))


def _place(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    element = op.operands[0].type.element_type
    found = read_rows(conv, op, _MULTIPLE if str(element) in _ELEMENTS else 0, LEAST_WORK)
    if isinstance(found, Declined):
        return found
    validate(conv, "convolution")
    tail = find_finish(found.value, element, found.outputs, library.answers)
    with ir.InsertionPoint(tail.last.owner.operation):
        c = found.gathered(_MULTIPLE)
        sizes = (c.rows, c.outputs, c.inputs)
        turned = turned_weights(c.weight, (c.taps, c.inputs, c.outputs), library)
        # What is tuned has its weights as an argument, which nothing turns.
        key = str(window_key(conv)) if turned is None else ""
        wanted = library.tiles.get(key)
        choice = choose(
            library.gpu,
            sizes,
            taps=c.taps,
            f32=str(element) == "f32",
            along=turned is not None,
            wanted=wanted,
        )
        split = choice.parts > 1
        room = choice.tiles * choice.parts * choice.rows * choice.columns
        work = {"work": ir.RankedTensorType.get([room], ir.F32Type.get())}
        last = ir.RankedTensorType.get([c.rows, c.outputs], tail.last.type.element_type)
        results = library.call(
            Launch(
                name=f"convolution_{choice.form}_{element}",
                source="convolution",
                grid=(choice.tiles, choice.parts, 1),
                warps=choice.warps,
                stages=choice.stages,
                reads={
                    "x": c.image,
                    "w": c.weight if turned is None else turned,
                    **tail.reads(c.image),
                },
                writes={"c": last, **(work if split else {})},
                numbers={
                    **{"images": c.images, "high": c.high, "wide": c.wide, "inputs": c.inputs},
                    **{"out_high": c.out_high, "out_wide": c.out_wide, "outputs": c.outputs},
                    **{"pixel": c.pixel, "steps_part": choice.steps},
                },
                folded={
                    **tail.folded,
                    **{"taps": c.taps, "taps_wide": c.taps_wide},
                    **{"stride_high": c.strides[0], "stride_wide": c.strides[1]},
                    **{"dilation_high": c.dilations[0], "dilation_wide": c.dilations[1]},
                    **{"pad_high": c.pads[0], "pad_wide": c.pads[2]},
                },
                constants={
                    **choice.constants,
                    "TURNED": turned is not None,
                    "SPLIT": split,
                    "PRECISION": library.precision,
                    **({} if split else NOT_SPLIT),
                },
                multiples=dict.fromkeys(("inputs", "outputs", "pixel"), _MULTIPLE),
                counters=choice.tiles if split else 0,
            )
        )
        if isinstance(results, Declined):
            return results
        replace(tail.last, results[0])
    return Kernel(name=f"convolution_{choice.form}_{element}", key=key)
