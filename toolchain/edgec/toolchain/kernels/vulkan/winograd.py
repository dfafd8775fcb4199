"""A convolution with a window of 3 x 3 to Winograd's: 36 small products for 4 x 4 results, not 144.

Six by six pixels of each channel and the weights become 36 sums each; these are multiplied as a
batch of 36 products over the channels, and what comes out is turned back (Winograd 1980; Lavin and
Gray 2015, F(4 x 4, 3 x 3); points 0, 1/sqrt 2, sqrt 2 and their opposites, which lose less than 1
and 2 do). Three dispatches: pixels, products, results with what follows them, for bands of tiles
where all would take too much memory. Weights that are constants are turned now, those from a file
once, when the module is loaded.

In f32 alone: the sums reach ten times the pixels and cancel, which costs f16 most of its digits.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.known import evaluated
from edgec.toolchain.ir.weights import is_constant
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.rows import Rows
from edgec.toolchain.kernels.gpu.tails import Finish
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.choice import Choice, choose
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.laid_out import (
    find_laid_out,
    laid_out_here,
    write_laid_out,
)
from edgec.toolchain.kernels.vulkan.library import Library

__all__ = ["Winograd", "place_winograd", "plan_winograd"]

_POINTS = 36
_TILE = 4
_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2.0)
_WEIGHTS = np.array(
    [
        [1.0, 0.0, 0.0],
        *([1 / -1.5, point / -1.5, 0.5 / -1.5] for point in (_NEAR, -_NEAR)),
        *([1 / 6, point / 6, 2.0 / 6] for point in (_FAR, -_FAR)),
        [0.0, 0.0, 1.0],
    ]
)
"""What weights are multiplied with on both sides: each point's powers, over its distances to all
others."""
_LAUNCH = 3.0
"""Microseconds of one more dispatch."""
_FOUR = 4
_GAIN = 1.25
"""How many times as fast it must be for weights that take four times their memory."""
_PROMISED = 2**27
"""Bytes that a kernel may reach into on every device."""
_SHARE = 4
"""What lies in between is cut to this part of what a kernel may reach into: the compiler puts all
that a call needs for a while into one buffer, and gives its kernels the whole of it. Where that is
too large then, the program is compiled again without this form."""


@dataclass(frozen=True, kw_only=True)
class Winograd:
    """How such a convolution is cut.

    Attributes:
        rows: the convolution.
        down, across: tiles of an image.
        band: tiles of all images that are done together.
        choice: the products' tile.
    """

    rows: Rows
    down: int
    across: int
    band: int
    choice: Choice

    @property
    def bands(self) -> list[tuple[int, int]]:
        """The first tile and the tiles of each."""
        tiles = self.rows.images * self.down * self.across
        return [(first, min(self.band, tiles - first)) for first in range(0, tiles, self.band)]


def plan_winograd(rows: Rows, library: Library, plain: Choice) -> Winograd | None:
    """The cut, if it should be faster than a `plain` kernel on this GPU and fits it."""
    square = rows.taps == 9 and rows.taps_wide == 3
    square = square and rows.strides == rows.dilations == [1, 1]
    fours = rows.inputs % _FOUR == 0 and rows.outputs % _FOUR == 0
    able = not library.shares and not library.spares
    if not (able and square and fours and str(write.element(rows.image)) == "f32"):
        return None
    c, n = rows.inputs, rows.outputs
    most = min(library.limits.binding or _PROMISED, _PROMISED)
    if 4 * _POINTS * c * n > most:
        return None
    down, across = math.ceil(rows.out_high / _TILE), math.ceil(rows.out_wide / _TILE)
    tiles = rows.images * down * across
    bands = math.ceil(4 * _POINTS * tiles * (c + n) * _SHARE / most)
    band = math.ceil(tiles / bands)
    choice = choose(library.gpu, (band, n, c), batch=_POINTS)
    # Turned pixels and sums are written and read; there are four times as many weights, read anew.
    moved = 4 * (_POINTS * (2 * tiles * (c + n) + bands * c * n) - 9 * c * n)
    time = bands * (choice.time + 2 * _LAUNCH) + moved / (1e3 * library.gpu.bandwidth)
    groups = math.ceil(band * max(c, n) / shaders.WINOGRAD_THREADS)
    if max(groups, choice.tiles) > MOST_GROUPS or time * _GAIN >= plain.time:
        return None
    if not library.compiles:
        library.missed += 1
        return None
    return Winograd(rows=rows, down=down, across=across, band=band, choice=choice)


def place_winograd(plan: Winograd, library: Library, tail: Finish) -> Kernel | Declined:
    """Replace a convolution and what follows it, at the insertion point."""
    weights = _turned_weights(plan.rows.weight, library)
    if isinstance(weights, Declined):
        return weights
    made: Any = None
    for first, tiles in plan.bands:
        made = _place_band(plan, library, tail, weights, first, tiles, made)
        if isinstance(made, Declined):
            return made
    replace(tail.last, made)
    library.turned += 4 * _POINTS * plan.rows.inputs * plan.rows.outputs
    return Kernel(name=f"winograd_{plan.choice.word}_f32", roomy=True)


def _place_band(
    plan: Winograd, library: Library, tail: Finish, weights: Any, first: int, tiles: int, into: Any
) -> Any | Declined:
    """Some of the tiles: into a tensor, or of a new one."""
    rows, f32 = plan.rows, ir.F32Type.get()
    c, n = rows.inputs, rows.outputs
    at = {"first_tile": first, "tiles": tiles, "down": plan.down, "across": plan.across}
    turned = library.call(
        shaders.winograd_input(),
        (math.ceil(tiles * c / shaders.WINOGRAD_THREADS), 1, 1),
        {
            **{**at, "inputs": c, "high": rows.high, "wide": rows.wide},
            **{"pad_high": rows.pads[0], "pad_wide": rows.pads[2]},
        },
        [rows.image],
        write.tensor((_POINTS, tiles, c), f32),
    )
    if isinstance(turned, Declined):
        return turned
    alone = Finish(total=turned, columns=n, last=turned)
    steps = {"a_step": tiles * c, "b_step": c * n}
    sizes = (_POINTS, tiles, n, c)
    sums = library.sum("product_nn", f32, plan.choice, sizes, steps, (turned, weights), alone)
    if isinstance(sums, Declined):
        return sums
    return library.call(
        shaders.winograd_output(),
        (math.ceil(tiles * n // _FOUR / shaders.WINOGRAD_THREADS), 2, 1),
        {**at, "n": n, "out_high": rows.out_high, "out_wide": rows.out_wide, **tail.folded},
        [sums, *tail.reads(rows.image).values()],
        write.tensor((rows.rows, n), write.element(tail.last)),
        into=into,
    )


def _turned_weights(weight: Any, library: Library) -> Any | Declined:
    """[36, channels, outputs] of [3, 3, channels, outputs]."""
    _, _, c, n = write.shape(weight)
    array = evaluated(weight)
    if array is not None:
        points = np.einsum("ai,bj,ijcn->abcn", _WEIGHTS, _WEIGHTS, array, optimize=True)
        made = points.reshape(_POINTS, c, n).astype(np.float32)
        return write.constant(made, ir.F32Type.get())
    if is_constant(weight):
        both = np.einsum("ai,bj->abij", _WEIGHTS, _WEIGHTS).reshape(_POINTS, 9)
        matrix = write.constant(both.astype(np.float32), ir.F32Type.get())
        sums = write.product(matrix, write.reshape(weight, (9, c * n)), ([1], [0]))
        return write.reshape(sums, (_POINTS, c, n))
    found = find_laid_out(weight)
    if found is None or any(len(parts) != 1 for parts in found.axes):
        found = laid_out_here(weight)
    axes = [axis for (axis,) in found.axes]
    sizes = (_POINTS, c, n)
    return write_laid_out(shaders.winograd_weights, found, axes, sizes, library, threads=c * n)
